"""Adan: Adam with Nesterov momentum made from differences of gradients."""

from typing import Any, final

import jax.numpy as jnp
from optax import safe_increment

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_state
from pytreeopt.fields import static_tree
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import (
    bias_correction,
    divide_by_root,
    keep_dtype,
    own,
    update_moment,
    update_moment_per_elem_norm,
    zeros_like,
)
from pytreeopt.states import ScaleByAdanState
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.weight_decay import AddDecayedWeights


@final
class ScaleByAdan(GradientTransformation):
    r"""Adan's direction: averages of the gradient, of its change, and of the square of both together.

    $$ \delta_t = g_t - g_{t-1} \;(\delta_1 = 0), \quad m_t = (1-\beta_1)\, g_t + \beta_1 m_{t-1}, \quad
    v_t = (1-\beta_2)\, \delta_t + \beta_2 v_{t-1}, $$
    $$ n_t = (1-\beta_3)\, |g_t + (1-\beta_2)\, \delta_t|^2 + \beta_3 n_{t-1}, \quad
    u_t = \frac{\hat m_t + (1-\beta_2)\, \hat v_t}{\sqrt{\hat n_t + \bar\epsilon} + \epsilon}, \quad
    \hat m_t = \frac{m_t}{1-\beta_1^t} \text{ and so on} $$

    Args:
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average change, in [0, 1); the change counts with weight $1-\beta_2$.
        b3: $\beta_3$, decay of the average square, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root, not negative.

    References:
        Xie et al., Adan: Adaptive Nesterov Momentum Algorithm for Faster Optimizing Deep Models, 2022,
        https://arxiv.org/abs/2208.06677
    """

    b1: Numeric = 0.98
    b2: Numeric = 0.92
    b3: Numeric = 0.99
    eps: Numeric = 1e-8
    eps_root: Numeric = 0.0

    def init(self, params):
        m, v, n, g = (zeros_like(params) for _ in range(4))
        return ScaleByAdanState(m=m, v=v, n=n, g=g, t=jnp.zeros([], jnp.int32))

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleByAdanState)
        b1, b2, b3, eps, eps_root = self.b1, self.b2, self.b3, self.eps, self.eps_root
        first, weight = state.t == 0, jnp.asarray(1 - b2)
        change = leafwise(lambda g, old: jnp.where(first, jnp.zeros_like(g), g - old), updates, state.g)
        m = update_moment(updates, state.m, b1, 1)
        v = update_moment(change, state.v, b2, 1)
        ahead = leafwise(lambda g, d: g + weight * d, updates, change)
        n = update_moment_per_elem_norm(ahead, state.n, b3, 2)
        t = safe_increment(state.t)
        m_hat, v_hat, n_hat = (bias_correction(x, b, t) for x, b in ((m, b1), (v, b2), (n, b3)))
        direction = leafwise(lambda m, v: m + weight * v, m_hat, v_hat)
        direction = leafwise(lambda u, n: divide_by_root(u, n + eps_root, eps), direction, n_hat)
        m, v, n = keep_dtype(m, state.m), keep_dtype(v, state.v), keep_dtype(n, state.n)
        return direction, ScaleByAdanState(m=m, v=v, n=n, g=own(updates, state.g), t=t)


@final
class Adan(AbstractChain):
    r"""Adan: `Adam` that looks ahead by the change of the gradient.

    Trains vision models in fewer epochs and bears large learning rates; its state is twice that of `AdamW`.

    $$ \theta_t = \theta_{t-1} - \eta_t (u_t + \lambda_t\, \theta_{t-1}), \qquad u_t \text{ as in `ScaleByAdan`} $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average change of the gradient, in [0, 1).
        b3: $\beta_3$, decay of the average square, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root, not negative.
        weight_decay: $\lambda$, a number or a schedule; multiplied by the learning rate.
        mask: tree of bools, or function of the params that makes one: where true, weights decay.

    References:
        Xie et al., Adan: Adaptive Nesterov Momentum Algorithm for Faster Optimizing Deep Models, 2022,
        https://arxiv.org/abs/2208.06677
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.98
    b2: Numeric = 0.92
    b3: Numeric = 0.99
    eps: Numeric = 1e-8
    eps_root: Numeric = 1e-8
    weight_decay: ScalarOrSchedule = 0.0
    mask: Any = static_tree(None)

    @property
    def chain(self):
        return ScaleByAdan.of(self), AddDecayedWeights.of(self), ScaleByLearningRate.of(self, flip_sign=True)


scale_by_adan, adan = ScaleByAdan, Adan
