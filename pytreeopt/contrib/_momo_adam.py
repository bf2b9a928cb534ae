"""MoMo-Adam: Adam with a Polyak step size."""

from typing import final

import jax.numpy as jnp
import optax
from optax import safe_increment

from pytreeopt.base import GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.contrib._momo import model_step, require_value
from pytreeopt.errors import require_params, require_state
from pytreeopt.fields import static
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import keep_dtype, like, one_where_zero, sqrt, value_at, vanishes, zeros_like
from pytreeopt.states import MomoAdamState


@final
class MoMoAdam(GradientTransformation):
    r"""AdamW, its step capped by what a known lower bound of the loss allows.

    Where the loss is known to come close to some value (0, as a rule): a learning rate that is too large does no harm.

    $$ d_t = \beta_1 d_{t-1} + (1-\beta_1) g_t, \quad v_t = \beta_2 v_{t-1} + (1-\beta_2) g_t^2, \quad
    D_t = \epsilon + \sqrt{v_t / (1-\beta_2^t)}, \quad c_t = 1-\beta_1^t $$
    $$ \tau_t = \min\left(\frac{\eta_t}{c_t}, \frac{\left[(1 + \eta_t \lambda)(\bar f_t - c_t f_* - \gamma_t)
    + \langle d_t, \theta_{t-1} \rangle\right]_+}{\langle d_t, d_t / D_t \rangle}\right), \qquad
    u_t = -\frac{\eta_t \lambda}{1 + \eta_t \lambda}\, \theta_{t-1} - \tau_t \frac{d_t}{D_t} $$

    with the averages $\bar f$ of the loss and $\gamma$ of $\langle g, \theta \rangle$ as in `MoMo`, from zero and with
    $\beta_1$. `init` freezes `lower_bound` into the state. `update` needs the loss, `value=`.

    Args:
        learning_rate: $\eta$, the greatest step size, a number or a schedule.
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        lower_bound: $f_*$, at most the least loss; with `adapt_lower_bound` `update` reads it too.
        weight_decay: $\lambda$, not negative.
        adapt_lower_bound: estimate $f_*$ on the way, from `lower_bound` on.

    References:
        Schaipp et al., MoMo: Momentum Models for Adaptive Learning Rates, 2023, https://arxiv.org/abs/2305.07583
    """

    learning_rate: ScalarOrSchedule = 1e-2
    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-8
    lower_bound: Numeric = 0.0
    weight_decay: Numeric = 0.0
    adapt_lower_bound: bool = static(False)

    def init(self, params):
        average, squares = zeros_like(params), zeros_like(params)
        dtype = optax.tree.dtype(params, "lowest")
        barf, gamma = jnp.zeros([], dtype), jnp.zeros([], dtype)
        bound = jnp.array(self.lower_bound, dtype)
        return MomoAdamState(average, squares, barf, gamma, bound, jnp.zeros([], jnp.int32))

    def update(self, updates, state, params=None, *, value, **extra_args):
        params = require_params(params)
        state = require_state(state, MomoAdamState)
        value = jnp.asarray(require_value(value), state.barf.dtype)
        b1, b2, lower_bound = self.b1, self.b2, self.lower_bound
        count = safe_increment(state.count)
        barf = like(b1 * state.barf + (1 - b1) * value, state.barf)
        exp_avg = leafwise(lambda g, d: b1 * d + (1 - b1) * g, updates, state.exp_avg)
        exp_avg_sq = leafwise(lambda g, v: b2 * v + (1 - b2) * g * g, updates, state.exp_avg_sq)
        correction2 = jnp.asarray(1 - b2**count, barf.dtype)
        divisor = leafwise(lambda v: self._divisor(v / correction2), exp_avg_sq)
        weighted = leafwise(lambda d, D: d / D, exp_avg, divisor)
        norm = optax.tree.vdot(exp_avg, weighted)
        gamma = like(b1 * state.gamma + (1 - b1) * optax.tree.vdot(updates, params), state.gamma)
        inner = optax.tree.vdot(exp_avg, params)
        rate = value_at(self.learning_rate, state.count)
        growth = 1 + rate * self.weight_decay
        correction1 = jnp.asarray(1 - b1**count, barf.dtype)
        bound = state.lb
        if self.adapt_lower_bound:
            cap = growth * (barf - gamma) + inner
            bound = jnp.where(
                cap < growth * correction1 * state.lb,
                jnp.maximum(cap / (2 * correction1 * growth), lower_bound),
                state.lb,
            )
        gap = growth * (barf - correction1 * bound - gamma) + inner
        step = like(jnp.minimum(rate / correction1, model_step(gap, norm)), state.barf)
        decay = -(rate * self.weight_decay) / growth
        out = leafwise(lambda p, d, D: decay * p - step * d / D, params, exp_avg, divisor)
        if self.adapt_lower_bound:
            bound = ((barf + inner - gamma) - (1 / 2) * step * norm) / correction1
            bound = jnp.maximum(bound, lower_bound)
        return out, MomoAdamState(
            exp_avg=keep_dtype(exp_avg, state.exp_avg),
            exp_avg_sq=keep_dtype(exp_avg_sq, state.exp_avg_sq),
            barf=barf,
            gamma=gamma,
            lb=like(bound, state.lb),
            count=count,
        )

    def _divisor(self, radicand):
        return self.eps + sqrt(one_where_zero(radicand, vanishes(self.eps, radicand.dtype)))


momo_adam = MoMoAdam
