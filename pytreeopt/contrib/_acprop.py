"""ACProp: Adam with a centred second moment that lags one step behind."""

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
    update_moment,
    update_moment_per_elem_norm,
    zeros_like,
)
from pytreeopt.states import ScaleByBeliefState
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.weight_decay import AddDecayedWeights


@final
class ScaleByACProp(GradientTransformation):
    r"""ACProp's direction: the gradient over the root of the variance estimate of the step before.

    $$ s_t = (1-\beta_2)\, |g_t - m_{t-1}|^2 + \beta_2 s_{t-1} + \bar\epsilon, \quad
    m_t = (1-\beta_1)\, g_t + \beta_1 m_{t-1}, \quad
    u_t = \frac{g_t}{\sqrt{s_{t-1} / (1-\beta_2^{t-1})} + \epsilon} $$

    The first update divides by 1.

    Args:
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the variance around it, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added to the variance at every step, not negative.

    References:
        Zhuang et al., Momentum Centering and Asynchronous Update for Adaptive Gradient Methods, 2021,
        https://arxiv.org/abs/2110.05454
    """

    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-16
    eps_root: Numeric = 1e-16

    def init(self, params):
        mu, nu = zeros_like(params), zeros_like(params)
        return ScaleByBeliefState(count=jnp.zeros([], jnp.int32), mu=mu, nu=nu)

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleByBeliefState)
        eps, eps_root = self.eps, self.eps_root
        mu = update_moment(updates, state.mu, self.b1, 1)
        error = leafwise(lambda g, m: g - m, updates, state.mu)
        nu = update_moment_per_elem_norm(error, state.nu, self.b2, 2)
        nu = leafwise(lambda v: v + eps_root, nu)
        count = safe_increment(state.count)
        first = state.count == 0
        nu_hat = bias_correction(state.nu, self.b2, jnp.where(first, count, state.count))
        nu_hat = leafwise(lambda v: jnp.where(first, 1, v), nu_hat)
        direction = leafwise(lambda g, v: divide_by_root(g, v, eps), updates, nu_hat)
        mu, nu = keep_dtype(mu, state.mu), keep_dtype(nu, state.nu)
        return direction, ScaleByBeliefState(count=count, mu=mu, nu=nu)


@final
class ACProp(AbstractChain):
    r"""ACProp: AdaBelief's centred variance, but from the step before, so that it does not know the gradient.

    For noisy gradients, as of adversarial networks, where Adam's numerator and denominator correlate.

    $$ \theta_t = \theta_{t-1} - \eta_t (u_t + \lambda\, \theta_{t-1}), \qquad u_t \text{ as in `ScaleByACProp`} $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the variance around it, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added to the variance at every step, not negative.
        weight_decay: $\lambda$, a number or a schedule; it is multiplied by the learning rate.
        mask: tree of bools, or function of the params that makes one: where true, weights decay.

    References:
        Zhuang et al., Momentum Centering and Asynchronous Update for Adaptive Gradient Methods, 2021,
        https://arxiv.org/abs/2110.05454
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-16
    eps_root: Numeric = 1e-16
    weight_decay: ScalarOrSchedule = 0.0
    mask: Any = static_tree(None)

    @property
    def chain(self):
        return ScaleByACProp.of(self), AddDecayedWeights.of(self), ScaleByLearningRate.of(self, flip_sign=True)


scale_by_acprop, acprop = ScaleByACProp, ACProp
