"""L-BFGS: a Newton step with an inverse Hessian remembered from the last few differences of gradients."""

from typing import Any, final

import jax
import jax.numpy as jnp
from optax import safe_increment, tree

from pytreeopt.base import AbstractChain, GradientTransformation, ScalarOrSchedule
from pytreeopt.errors import require_params, require_state
from pytreeopt.fields import static
from pytreeopt.linesearch.zoom import ScaleByZoomLinesearch
from pytreeopt.numerics import own, zeros_like
from pytreeopt.states import ScaleByLBFGSState
from pytreeopt.transforms.scale import Scale, ScaleByLearningRate
from pytreeopt.transforms.stateless import Identity


@final
class ScaleByLBFGS(GradientTransformation):
    r"""Multiplies the updates by an inverse Hessian approximated from the last $m$ steps.

    $$ P_{j+1} = V_j^\top P_j V_j + \rho_j\, \delta w_j \delta w_j^\top, \quad
    V_j = I - \rho_j\, \delta u_j \delta w_j^\top, \quad \rho_j = 1 / \langle \delta u_j, \delta w_j \rangle $$

    over the last $m$ differences $\delta w$ of params and $\delta u$ of updates, from $P = \gamma I$ with
    $\gamma = \langle \delta u, \delta w \rangle / \|\delta u\|^2$ of the last ones; the result is $P u$. Before there
    is a difference, $\gamma = \min(1, 1/\|u\|)$. For updates that are gradients; follow it with a line search.

    Args:
        memory_size: $m$, number of differences, at least 1.
        scale_init_precond: whether to start from $\gamma I$ rather than from $I$.

    References:
        Liu and Nocedal, On the limited memory BFGS method for large scale optimization, 1989,
        https://doi.org/10.1007/BF01589116
        Nocedal and Wright, Numerical Optimization, 1999, algorithms 7.4 and 7.5,
        https://doi.org/10.1007/978-0-387-40065-5
    """

    memory_size: int = static(10)
    scale_init_precond: bool = static(True)

    def __post_init__(self):
        super().__post_init__()
        _check_memory(self)

    def init(self, params):
        def memory():
            return jax.tree.map(lambda x: jnp.zeros((self.memory_size, *x.shape), x.dtype), params)

        return ScaleByLBFGSState(
            count=jnp.zeros([], jnp.int32),
            params=zeros_like(params),
            updates=zeros_like(params),
            diff_params_memory=memory(),
            diff_updates_memory=memory(),
            weights_memory=jnp.zeros(self.memory_size),
        )

    def update(self, updates, state, params=None, **extra_args):
        params = require_params(params)
        state = require_state(state, ScaleByLBFGSState)
        diff_params = tree.sub(params, state.params)
        diff_updates = tree.sub(updates, state.updates)
        product = tree.real(tree.vdot(diff_updates, diff_params))
        weight = jnp.where(product == 0.0, 0.0, 1.0 / jnp.where(product == 0.0, 1.0, product))
        # The first differences are to the zeros of init, which mean nothing.
        diff_params, diff_updates, weight = jax.tree.map(
            lambda x: jnp.where(state.count > 0, x, jnp.zeros_like(x)), (diff_params, diff_updates, weight)
        )
        slot = (state.count - 1) % self.memory_size
        diff_params_memory, diff_updates_memory, weights = jax.tree.map(
            lambda memory, new: memory.at[slot].set(new.astype(memory.dtype)),
            (state.diff_params_memory, state.diff_updates_memory, state.weights_memory),
            (diff_params, diff_updates, weight),
        )
        scale = self._scale(state, updates, diff_params, diff_updates)
        oldest = state.count % self.memory_size
        direction = _precondition(updates, diff_params_memory, diff_updates_memory, weights, scale, oldest)
        return direction, ScaleByLBFGSState(
            count=safe_increment(state.count),
            params=own(params, state.params),
            updates=own(updates, state.updates),
            diff_params_memory=diff_params_memory,
            diff_updates_memory=diff_updates_memory,
            weights_memory=weights,
        )

    def _scale(self, state, updates, diff_params, diff_updates):
        """The multiple of the identity to start from."""
        if not self.scale_init_precond:
            return 1.0
        numerator = tree.real(tree.vdot(diff_updates, diff_params))
        denominator = tree.norm(diff_updates, squared=True)
        positive = denominator > 0.0
        scale = jnp.where(positive, numerator / jnp.where(positive, denominator, 1.0), 1.0)
        norm = tree.norm(jax.lax.stop_gradient(updates))
        return jnp.where(state.count > 0, scale, jnp.minimum(1.0, 1.0 / norm))


def _precondition(updates, diff_params_memory, diff_updates_memory, weights, scale, oldest):
    """The two loops of L-BFGS: from the newest difference to the oldest, and back."""
    size = weights.shape[0]
    indices = (oldest + jnp.arange(size)) % size

    def remembered(index):
        return jax.tree.map(lambda x: x[index], (diff_params_memory, diff_updates_memory))

    def backward(vector, index):
        diff_params, diff_updates = remembered(index)
        alpha = weights[index] * tree.real(tree.vdot(diff_params, vector))
        return tree.cast_like(tree.add_scale(vector, -alpha, diff_updates), vector), alpha

    def forward(vector, index_and_alpha):
        index, alpha = index_and_alpha
        diff_params, diff_updates = remembered(index)
        beta = weights[index] * tree.real(tree.vdot(diff_updates, vector))
        return tree.cast_like(tree.add_scale(vector, alpha - beta, diff_params), vector), beta

    # The betas are not used, but returned: without them the compiler rounds elsewhere than in Optax.
    vector, alphas = jax.lax.scan(backward, updates, indices, reverse=True)
    return jax.lax.scan(forward, tree.scale(scale, vector), (indices, alphas))[0]


def _check_memory(opt: Any) -> None:
    """Looked at only where it is a number; JAX never puts anything else into a static field."""
    if isinstance(opt.memory_size, int) and opt.memory_size < 1:
        raise ValueError(f"{type(opt).__name__}: memory_size must be at least 1, got {opt.memory_size}")


@final
class LBFGS(AbstractChain):
    r"""L-BFGS with a line search: a quasi-Newton method for smooth, deterministic objectives.

    Far fewer steps than gradient descent on full-batch problems of small or medium size; it needs exact gradients
    and the memory of $2m$ copies of the params.

    $$ \theta_t = \theta_{t-1} - \eta_t P_t \nabla f(\theta_{t-1}), \qquad P_t \text{ as in `ScaleByLBFGS`},\;
    \eta_t \text{ found by the line search} $$

    With a line search, `update` needs the keyword arguments `value`, `grad` and `value_fn`; see
    `ScaleByZoomLinesearch`, also about derivatives: they are by forward mode only. Without one, reverse mode works.

    Args:
        learning_rate: a number or a schedule that multiplies the direction before the line search, or None for 1.
        memory_size: $m$, number of differences remembered, at least 1.
        scale_init_precond: whether to start from a scaled identity.
        linesearch: a transformation that chooses the learning rate, or None.

    References:
        Liu and Nocedal, On the limited memory BFGS method for large scale optimization, 1989,
        https://doi.org/10.1007/BF01589116
    """

    learning_rate: ScalarOrSchedule | None = None
    memory_size: int = static(10)
    scale_init_precond: bool = static(True)
    linesearch: GradientTransformation | None = ScaleByZoomLinesearch(20, initial_guess_strategy="one")

    def __post_init__(self):
        super().__post_init__()
        _check_memory(self)

    @property
    def chain(self):
        scaling = Scale(-1.0) if self.learning_rate is None else ScaleByLearningRate(self.learning_rate)
        return ScaleByLBFGS.of(self), scaling, Identity() if self.linesearch is None else self.linesearch


scale_by_lbfgs, lbfgs = ScaleByLBFGS, LBFGS
