"""Yogi: Adam whose second moment changes by bounded amounts."""

from typing import final

import jax.numpy as jnp
from optax import safe_increment

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_state
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import abs_sq, bias_correction, divide_by_root, full_like, keep_dtype, update_moment
from pytreeopt.states import ScaleByAdamState
from pytreeopt.transforms.scale import ScaleByLearningRate


@final
class ScaleByYogi(GradientTransformation):
    r"""Yogi's direction: Adam's, with a second moment that moves towards $g^2$ in steps of at most $(1-\beta_2)\, g^2$.

    $$ m_t = (1-\beta_1)\, g_t + \beta_1 m_{t-1}, \quad
    v_t = v_{t-1} - (1-\beta_2)\, \mathrm{sign}(v_{t-1} - |g_t|^2)\, |g_t|^2, \quad
    u_t = \frac{m_t / (1-\beta_1^t)}{\sqrt{v_t / (1-\beta_2^t) + \bar\epsilon} + \epsilon} $$

    Frozen into the state at init: `initial_accumulator_value`.

    Args:
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root, not negative.
        initial_accumulator_value: $m_0$ and $v_0$, positive; read only by `init`.

    References:
        Zaheer et al., Adaptive Methods for Nonconvex Optimization, 2018,
        https://papers.nips.cc/paper/8186-adaptive-methods-for-nonconvex-optimization
    """

    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-3
    eps_root: Numeric = 0.0
    initial_accumulator_value: Numeric = 1e-6

    def init(self, params):
        value = self.initial_accumulator_value
        mu, nu = full_like(params, value), full_like(params, value)
        return ScaleByAdamState(count=jnp.zeros([], jnp.int32), mu=mu, nu=nu)

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleByAdamState)
        b1, b2, eps, eps_root = self.b1, self.b2, self.eps, self.eps_root
        mu = update_moment(updates, state.mu, b1, 1)
        nu = leafwise(lambda g, v: v - (1 - b2) * jnp.sign(v - abs_sq(g)) * abs_sq(g), updates, state.nu)
        count = safe_increment(state.count)
        mu_hat, nu_hat = bias_correction(mu, b1, count), bias_correction(nu, b2, count)
        direction = leafwise(lambda m, v: divide_by_root(m, v + eps_root, eps), mu_hat, nu_hat)
        mu, nu = keep_dtype(mu, state.mu), keep_dtype(nu, state.nu)
        return direction, ScaleByAdamState(count=count, mu=mu, nu=nu)


@final
class Yogi(AbstractChain):
    r"""Yogi: `Adam` whose effective learning rate rises slowly after large gradients.

    Where gradients are sparse or of very different size over time and Adam does not converge.

    $$ \theta_t = \theta_{t-1} - \eta_t\, u_t, \qquad u_t \text{ as in `ScaleByYogi`} $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        eps: $\epsilon$, added outside the root, positive; the paper's is far larger than Adam's.

    References:
        Zaheer et al., Adaptive Methods for Nonconvex Optimization, 2018,
        https://papers.nips.cc/paper/8186-adaptive-methods-for-nonconvex-optimization
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-3

    @property
    def chain(self):
        scale = ScaleByYogi.of(self, eps_root=0.0, initial_accumulator_value=1e-6)
        return scale, ScaleByLearningRate.of(self, flip_sign=True)


scale_by_yogi, yogi = ScaleByYogi, Yogi
