"""COCOB: training without a learning rate, by betting on coins."""

from typing import Any, final

import jax.numpy as jnp

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_params, require_state
from pytreeopt.fields import static_tree
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import copy, keep_dtype, one_where_zero, zeros_like
from pytreeopt.states import COCOBState
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.weight_decay import AddDecayedWeights


@final
class ScaleByCOCOB(GradientTransformation):
    r"""The step to where COCOB's gambler stands: start plus fraction bet times wealth, element by element.

    $$ L_t = \max(L_{t-1}, |g_t|), \quad G_t = G_{t-1} + |g_t|, \quad
    R_t = \max(R_{t-1} - g_t (\theta_{t-1} - \theta_0), 0), \quad C_t = C_{t-1} - g_t $$
    $$ u_t = \theta_0 + \frac{C_t}{L_t \max(G_t + L_t, \alpha L_t)} (L_t + R_t) - \theta_{t-1} $$

    `init` freezes $\theta_0$ and `eps` into the state.

    Args:
        alpha: $\alpha$, keeps the first bets small; positive.
        eps: $L_0$, the first guess of the largest gradient, positive; read by `init` only.

    References:
        Orabona and Tommasi, Training Deep Networks without Learning Rates Through Coin Betting, 2017,
        https://arxiv.org/abs/1705.07795
    """

    alpha: Numeric = 100.0
    eps: Numeric = 1e-8

    def init(self, params):
        gradients, subgradients, reward = (zeros_like(params) for _ in range(3))
        scale = leafwise(lambda p: self.eps * jnp.ones_like(p), params)
        return COCOBState(
            init_particles=copy(params),
            cumulative_gradients=gradients,
            scale=scale,
            subgradients=subgradients,
            reward=reward,
        )

    def update(self, updates, state, params=None, **extra_args):
        params = require_params(params)
        state = require_state(state, COCOBState)
        alpha, start = self.alpha, state.init_particles
        scale = leafwise(lambda c, L: jnp.maximum(L, jnp.abs(c)), updates, state.scale)
        subgradients = leafwise(lambda c, G: G + jnp.abs(c), updates, state.subgradients)
        reward = leafwise(lambda c, R, p, p0: jnp.maximum(R - c * (p - p0), 0), updates, state.reward, params, start)
        gradients = leafwise(lambda c, C: C - c, updates, state.cumulative_gradients)

        def target(p, p0, C, L, G, R):
            divisor = L * jnp.maximum(G + L, alpha * L)
            if divisor.dtype == jnp.float16:  # in which eps, or its square, is 0
                divisor = one_where_zero(divisor)
            return -p + (p0 + C / divisor * (L + R))

        out = leafwise(target, params, start, gradients, scale, subgradients, reward)
        return out, COCOBState(
            init_particles=start,
            cumulative_gradients=keep_dtype(gradients, state.cumulative_gradients),
            scale=keep_dtype(scale, state.scale),
            subgradients=keep_dtype(subgradients, state.subgradients),
            reward=keep_dtype(reward, state.reward),
        )


@final
class COCOB(AbstractChain):
    r"""COCOB: no learning rate at all; a bet on the sign of every gradient, with the wealth won so far.

    To get a decent result without tuning anything.

    $$ \theta_t = \theta_{t-1} + u_t, \qquad u_t \text{ as in `ScaleByCOCOB`, for the gradient }
    \eta_t (g_t + \lambda\, \theta_{t-1}) $$

    `init` freezes the parameters and `eps` into the state.

    Args:
        learning_rate: $\eta$, a number or a schedule that scales the gradients, not the step.
        alpha: $\alpha$, keeps the first bets small; positive.
        eps: first guess of the largest gradient, positive; read by `init` only.
        weight_decay: $\lambda$, a number or a schedule.
        mask: tree of bools, or function of the params that makes one: where true, weights decay.

    References:
        Orabona and Tommasi, Training Deep Networks without Learning Rates Through Coin Betting, 2017,
        https://arxiv.org/abs/1705.07795
    """

    learning_rate: ScalarOrSchedule = 1.0
    alpha: Numeric = 100.0
    eps: Numeric = 1e-8
    weight_decay: ScalarOrSchedule = 0.0
    mask: Any = static_tree(None)

    @property
    def chain(self):
        return AddDecayedWeights.of(self), ScaleByLearningRate.of(self, flip_sign=False), ScaleByCOCOB.of(self)


scale_by_cocob, cocob = ScaleByCOCOB, COCOB
