"""Sophia: second-order steps from an estimate of the Hessian's diagonal."""

from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import DTypeLike

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule, coerce
from pytreeopt.errors import MissingArgumentError, require_params, require_state
from pytreeopt.fields import static, static_dtype, static_tree
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import bias_correction, keep_dtype, one_where_zero, update_moment, vanishes, zeros_like
from pytreeopt.states import HutchinsonState, SophiaState
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.weight_decay import AddDecayedWeights


@final
class HutchinsonEstimatorDiagHessian(GradientTransformation):
    r"""Replaces the updates by an estimate of the diagonal of the Hessian: $u = z \odot H z$ with random signs $z$.

    `update` needs the params and the extra argument `obj_fn`, the objective as a function of the params.

    Args:
        random_seed: a PRNG key, frozen into the state at init; None is `jax.random.PRNGKey(0)`.

    References:
        Hutchinson, A Stochastic Estimator of the Trace of the Influence Matrix for Laplacian Smoothing Splines, 1990,
        https://doi.org/10.1080/03610919008812866
    """

    random_seed: jax.Array | np.ndarray | None = None

    def init(self, params):
        return HutchinsonState(key=jax.random.PRNGKey(0) if self.random_seed is None else jnp.copy(self.random_seed))

    def update(self, updates, state, params=None, obj_fn=None, **extra_args):
        params = require_params(params)
        state = require_state(state, HutchinsonState)
        if obj_fn is None:
            raise MissingArgumentError("needs obj_fn, got None; call update(grads, state, params, obj_fn=objective)")
        key, sample_key = jax.random.split(state.key)
        signs = optax.tree.random_like(sample_key, params, jax.random.rademacher, dtype=jnp.float32)
        signs = keep_dtype(signs, params)
        curvature = jax.jvp(jax.grad(obj_fn), (params,), (signs,))[1]
        return leafwise(lambda h, z: h * z, curvature, signs), HutchinsonState(key=key)


HUTCHINSON = HutchinsonEstimatorDiagHessian()


@final
class ScaleBySophia(GradientTransformation):
    r"""The average gradient over an average of the Hessian's diagonal, element by element, clipped.

    $$ m_t = (1-\beta_1)\, g_t + \beta_1 m_{t-1}, \qquad
    u_t = \mathrm{clip}\!\left( \frac{m_t / (1-\beta_1^t)}{\max(\gamma h_{t-1}, \epsilon)}, \pm\rho \right), $$
    $$ h_t = (1-\beta_2)\, \hat h_t + \beta_2 h_{t-1} \;\text{ at every } k\text{-th step, else } h_{t-1} $$

    with an estimate $\hat h_t$ of the Hessian's diagonal. The extra arguments of `update` go to the estimator.

    Args:
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average curvature, in [0, 1).
        eps: $\epsilon$, the least divisor, positive.
        gamma: $\gamma$, scale of the curvature, positive.
        clip_threshold: $\rho$, greatest absolute value of an element, positive, or None.
        update_interval: $k$, a positive integer.
        hessian_diagonal_fn: the estimator, a transformation whose updates are the diagonal.
        mu_dtype: dtype of the stored $m$; None keeps that of the params.
        verbose: print the share of elements that are not clipped.
        print_win_rate_every_n_steps: at every so manieth step, a positive integer; only if `verbose`.

    References:
        Liu et al., Sophia: A Scalable Stochastic Second-order Optimizer for Language Model Pre-training, 2023,
        https://arxiv.org/abs/2305.14342
    """

    b1: Numeric = 0.965
    b2: Numeric = 0.99
    eps: Numeric = 1e-8
    gamma: Numeric = 0.01
    clip_threshold: Numeric | None = 1.0
    update_interval: Numeric = 10
    hessian_diagonal_fn: GradientTransformation = HUTCHINSON
    mu_dtype: DTypeLike | None = static_dtype(None)
    verbose: bool = static(False)
    print_win_rate_every_n_steps: Numeric = 0

    def init(self, params):
        return SophiaState(
            count=jnp.zeros([], jnp.int32),
            mu=zeros_like(params, self.mu_dtype),
            nu=zeros_like(params),
            hessian_fn_state=coerce(self.hessian_diagonal_fn).init(params),
        )

    def update(self, updates, state, params=None, **extra_args):
        params = require_params(params)
        state = require_state(state, SophiaState)
        b1, eps, gamma, threshold = self.b1, self.eps, self.gamma, self.clip_threshold
        count = jnp.asarray(optax.safe_increment(state.count))
        mu = update_moment(updates, state.mu, b1, 1)

        def divide(m, h):
            divisor = jnp.maximum(gamma * h, eps)
            guard = vanishes(eps, divisor.dtype)
            if guard is not False:  # a zero over zero is zero; anything else over zero is clipped
                guard &= m.astype(jnp.float32) == 0
            return m / one_where_zero(divisor, guard)

        direction = leafwise(divide, bias_correction(mu, b1, count), state.nu)
        if threshold is not None:
            if self.verbose:
                self._print_win_rate(direction, count, threshold)
            direction = leafwise(lambda u: jnp.clip(u, -threshold, threshold), direction)

        def estimate(estimator_state, nu):
            diagonal, estimator_state = coerce(self.hessian_diagonal_fn).update(
                updates, estimator_state, params=params, **extra_args
            )
            return estimator_state, keep_dtype(update_moment(diagonal, nu, self.b2, 1), nu)

        estimator_state, nu = jax.lax.cond(
            jnp.equal(state.count % self.update_interval, 0),
            estimate,
            lambda estimator_state, nu: (estimator_state, nu),
            state.hessian_fn_state,
            state.nu,
        )
        mu = keep_dtype(mu, state.mu, self.mu_dtype)
        return direction, SophiaState(count=count, mu=mu, nu=nu, hessian_fn_state=estimator_state)

    def _print_win_rate(self, direction, count, threshold):
        within = [jnp.sum(jnp.abs(u) < threshold) for u in jax.tree.leaves(direction)]
        win_rate = sum(within) / optax.tree.size(direction)
        jax.lax.cond(
            count % self.print_win_rate_every_n_steps == 0,
            lambda: jax.debug.print("Sophia: {:.3f} of the elements are not clipped", win_rate),
            lambda: None,
        )


@final
class Sophia(AbstractChain):
    r"""Sophia: Adam with the Hessian's diagonal in place of the squared gradients.

    For language models, where it takes fewer steps than `AdamW`; each $k$-th step costs a Hessian-vector product.
    `update` needs the params and, for the default estimator, the extra argument `obj_fn`, the objective.

    $$ \theta_t = \theta_{t-1} - \eta_t (u_t + \lambda_t\, \theta_{t-1}), \qquad u_t \text{ as in `ScaleBySophia`} $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average curvature, in [0, 1).
        eps: $\epsilon$, the least divisor, positive.
        weight_decay: $\lambda$, a number or a schedule; multiplied by the learning rate.
        weight_decay_mask: tree of bools, or function of the params that makes one: where true, weights decay.
        gamma: $\gamma$, scale of the curvature, positive.
        clip_threshold: $\rho$, greatest absolute value of an element, positive, or None.
        update_interval: $k$, a positive integer.
        hessian_diagonal_fn: the estimator, a transformation whose updates are the diagonal.
        mu_dtype: dtype of the stored average gradient; None keeps that of the params.
        verbose: print the share of elements that are not clipped.
        print_win_rate_every_n_steps: at every so manieth step, a positive integer; only if `verbose`.

    References:
        Liu et al., Sophia: A Scalable Stochastic Second-order Optimizer for Language Model Pre-training, 2023,
        https://arxiv.org/abs/2305.14342
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.965
    b2: Numeric = 0.99
    eps: Numeric = 1e-8
    weight_decay: ScalarOrSchedule = 1e-4
    weight_decay_mask: Any = static_tree(None)
    gamma: Numeric = 0.01
    clip_threshold: Numeric | None = 1.0
    update_interval: Numeric = 10
    hessian_diagonal_fn: GradientTransformation = HUTCHINSON
    mu_dtype: DTypeLike | None = static_dtype(None)
    verbose: bool = static(False)
    print_win_rate_every_n_steps: Numeric = 0

    @property
    def chain(self):
        decay = AddDecayedWeights(self.weight_decay, self.weight_decay_mask)
        return ScaleBySophia.of(self), decay, ScaleByLearningRate(self.learning_rate)


hutchinson_estimator_diag_hessian, sophia = HutchinsonEstimatorDiagHessian, Sophia
