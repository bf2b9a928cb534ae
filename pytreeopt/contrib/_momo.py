"""MoMo: momentum with a Polyak step size."""

from typing import Any, final

import jax
import jax.numpy as jnp
import optax
from optax import safe_increment

from pytreeopt.base import GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import MissingArgumentError, require_params, require_state
from pytreeopt.fields import static
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import keep_dtype, like, value_at, zeros_like
from pytreeopt.states import MomoState

# Upstream's bound, whatever the dtype of the params.
LEAST_NORM = jnp.finfo(float).eps


def require_value(value: Any) -> Any:
    """The loss, or the error that says how to pass it."""
    if value is None:
        raise MissingArgumentError("needs the loss, got None; call update(grads, state, params, value=loss)")
    return value


def model_step(gap: Any, norm: Any) -> Any:
    """The step to where the model of the loss meets its lower bound; 0 where the gradient is as good as 0."""
    flat = norm <= LEAST_NORM
    return jnp.where(flat, 0.0, jnp.maximum(gap, 0.0) / jnp.where(flat, 1, norm))


@final
class MoMo(GradientTransformation):
    r"""Gradient descent with momentum, its step capped by what a known lower bound of the loss allows.

    Where the loss is known to come close to some value (0, as a rule): a learning rate that is too large does no harm.

    $$ d_t = \beta d_{t-1} + (1-\beta) g_t, \quad \bar f_t = \beta \bar f_{t-1} + (1-\beta) f_t, \quad
    \gamma_t = \beta \gamma_{t-1} + (1-\beta) \langle g_t, \theta_{t-1} \rangle $$
    $$ \tau_t = \min\left(\eta_t, \frac{\left[(1 + \eta_t \lambda)(\bar f_t - f_* - \gamma_t)
    + \langle d_t, \theta_{t-1} \rangle\right]_+}{\lVert d_t \rVert^2}\right), \qquad
    u_t = -\frac{\eta_t \lambda}{1 + \eta_t \lambda}\, \theta_{t-1} - \tau_t d_t $$

    The averages start at the first gradient and loss. `init` freezes `lower_bound` into the state. `update` needs the
    loss, `value=`.

    Args:
        learning_rate: $\eta$, the greatest step size, a number or a schedule.
        beta: $\beta$, decay of the averages, in [0, 1).
        lower_bound: $f_*$, at most the least loss; with `adapt_lower_bound` `update` reads it too.
        weight_decay: $\lambda$, not negative.
        adapt_lower_bound: estimate $f_*$ on the way, from `lower_bound` on.

    References:
        Schaipp et al., MoMo: Momentum Models for Adaptive Learning Rates, 2023, https://arxiv.org/abs/2305.07583
    """

    learning_rate: ScalarOrSchedule = 1.0
    beta: Numeric = 0.9
    lower_bound: Numeric = 0.0
    weight_decay: Numeric = 0.0
    adapt_lower_bound: bool = static(False)

    def init(self, params):
        average = zeros_like(params)
        dtype = optax.tree.dtype(params, "lowest")
        barf, gamma = jnp.zeros([], dtype), jnp.zeros([], dtype)
        return MomoState(average, barf, gamma, jnp.array(self.lower_bound, dtype), jnp.zeros([], jnp.int32))

    def update(self, updates, state, params=None, *, value, **extra_args):
        params = require_params(params)
        state = require_state(state, MomoState)
        value = jnp.asarray(require_value(value), state.barf.dtype)
        beta = jnp.where(state.count == 0, 0.0, self.beta)
        barf = like(beta * state.barf + (1 - beta) * value, state.barf)
        exp_avg = leafwise(lambda g, d: beta * d + (1 - beta) * g, updates, state.exp_avg)
        gamma = like(beta * state.gamma + (1 - beta) * optax.tree.vdot(updates, params), state.gamma)
        norm = optax.tree.norm(exp_avg, squared=True)
        inner = optax.tree.vdot(exp_avg, params)
        rate = value_at(self.learning_rate, state.count)
        growth = 1 + rate * self.weight_decay
        bound = state.lb
        if self.adapt_lower_bound:
            cap = like(growth * (barf - gamma) + inner, state.lb)
            bound = jax.lax.cond(
                cap < growth * state.lb,
                lambda: like(jnp.maximum(cap / (2 * growth), self.lower_bound), state.lb),
                lambda: state.lb,
            )
        step = like(jnp.minimum(rate, model_step(growth * (barf - bound - gamma) + inner, norm)), state.barf)
        decay = -(rate * self.weight_decay) / growth
        out = leafwise(lambda p, d: decay * p - step * d, params, exp_avg)
        if self.adapt_lower_bound:
            bound = jnp.maximum((barf + inner - gamma) - (1 / 2) * step * norm, self.lower_bound)
        return out, MomoState(
            exp_avg=keep_dtype(exp_avg, state.exp_avg),
            barf=barf,
            gamma=gamma,
            lb=like(bound, state.lb),
            count=safe_increment(state.count),
        )


momo = MoMo
