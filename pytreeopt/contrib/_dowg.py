"""DoWG: DoG with weighted gradients."""

from typing import Any, final

import jax.numpy as jnp
import optax

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_params, require_state
from pytreeopt.fields import static_tree
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import copy, divide_by_root, like, require_inexact
from pytreeopt.states import DoWGState
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.stateless import Identity
from pytreeopt.transforms.weight_decay import AddDecayedWeights


@final
class ScaleByDoWG(GradientTransformation):
    r"""Multiplies the updates by DoWG's step size, see `DoWG`.

    `init` freezes the parameters and the first estimate into the state.

    Args:
        init_estim_sq_dist: $r_0^2$, the first estimate of the squared distance, positive, or None: `eps`.
        eps: $\epsilon$, added to the divisor, positive.

    References:
        Khaled et al., DoWG Unleashed: An Efficient Universal Parameter-Free Gradient Descent Method, 2023,
        https://arxiv.org/abs/2305.16284
    """

    init_estim_sq_dist: Numeric | None = None
    eps: Numeric = 1e-4

    def init(self, params):
        require_inexact(params)
        dtype = optax.tree.dtype(params, "lowest")
        estimate = self.eps if self.init_estim_sq_dist is None else self.init_estim_sq_dist
        return DoWGState(
            init_params=copy(params),
            weighted_sq_norm_grads=jnp.array(0.0, dtype),
            estim_sq_dist=jnp.array(estimate, dtype),
        )

    def update(self, updates, state, params=None, **extra_args):
        params = require_params(params)
        state = require_state(state, DoWGState)
        moved = leafwise(lambda x0, x: x0 - x, state.init_params, params)
        sq_dist = like(jnp.maximum(state.estim_sq_dist, optax.tree.norm(moved, squared=True)), state.estim_sq_dist)
        weighted = sq_dist * optax.tree.norm(updates, squared=True) + state.weighted_sq_norm_grads
        weighted = like(weighted, state.weighted_sq_norm_grads)
        rate = divide_by_root(sq_dist, weighted, self.eps)
        return leafwise(lambda g: rate * g, updates), DoWGState(
            init_params=state.init_params, weighted_sq_norm_grads=weighted, estim_sq_dist=sq_dist
        )


@final
class DoWG(AbstractChain):
    r"""Distance over weighted gradients: `DoG` that adapts to smooth problems too.

    For gradient descent without a learning rate to tune; bolder than DoG.

    $$ r_t^2 = \max_{k \le t} \lVert x_k - x_0 \rVert^2, \quad
    v_t = \sum_{k \le t} r_k^2 \lVert g_k \rVert^2, \quad
    x_{t+1} = x_t - \eta_t \frac{r_t^2}{\sqrt{v_t} + \epsilon}\, g_t $$

    `init` freezes the parameters and the first estimate into the state.

    Args:
        learning_rate: $\eta$, a number or a schedule, 1 as a rule.
        init_estim_sq_dist: $r_0^2$, the first estimate of the squared distance, positive, or None: `eps`.
        eps: $\epsilon$, added to the divisor, positive.
        weight_decay: a number or a schedule, not decoupled; None leaves it out.
        mask: tree of bools, or function of the params that makes one: where true, weights decay.

    References:
        Khaled et al., DoWG Unleashed: An Efficient Universal Parameter-Free Gradient Descent Method, 2023,
        https://arxiv.org/abs/2305.16284
    """

    learning_rate: ScalarOrSchedule = 1.0
    init_estim_sq_dist: Numeric | None = None
    eps: Numeric = 1e-4
    weight_decay: ScalarOrSchedule | None = None
    mask: Any = static_tree(None)

    @property
    def chain(self):
        decay = Identity() if self.weight_decay is None else AddDecayedWeights.of(self)
        return decay, ScaleByDoWG.of(self), ScaleByLearningRate.of(self, flip_sign=True)


dowg = DoWG
