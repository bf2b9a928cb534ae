"""Running sums and averages of the updates."""

from typing import final

import jax.numpy as jnp
from jax.typing import DTypeLike
from optax import safe_increment

from pytreeopt.base import GradientTransformation, Numeric
from pytreeopt.errors import require_state
from pytreeopt.fields import static, static_dtype
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import bias_correction, keep_dtype, update_moment, zeros_like
from pytreeopt.states import EmaState, TraceState


@final
class Trace(GradientTransformation):
    r"""Momentum: a decaying sum of the updates.

    $$ v_t = g_t + \mu v_{t-1}, \qquad u_t = v_t \;\text{ or, with Nesterov,}\; g_t + \mu v_t $$

    Args:
        decay: $\mu$, in [0, 1).
        nesterov: look one step ahead.
        accumulator_dtype: dtype of the stored sum; None keeps that of the params.

    References:
        Nesterov, 1983; Sutskever et al., On the Importance of Initialization and Momentum in Deep Learning, 2013,
        https://proceedings.mlr.press/v28/sutskever13.html
    """

    decay: Numeric
    nesterov: bool = static(False)
    accumulator_dtype: DTypeLike | None = static_dtype(None)

    def init(self, params):
        return TraceState(trace=zeros_like(params, self.accumulator_dtype))

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, TraceState)
        decay = self.decay
        new = leafwise(lambda g, v: g + decay * v, updates, state.trace)
        out = leafwise(lambda g, v: g + decay * v, updates, new) if self.nesterov else new
        return out, TraceState(trace=keep_dtype(new, state.trace, self.accumulator_dtype))


@final
class Ema(GradientTransformation):
    r"""Exponential moving average of the updates.

    $$ m_t = (1 - d)\, g_t + d\, m_{t-1}, \qquad u_t = m_t / (1 - d^t) $$

    Args:
        decay: $d$, in [0, 1).
        debias: divide by $1 - d^t$, so that the average of a constant is that constant from the first step on.
        accumulator_dtype: dtype of the stored average; None keeps that of the params.
    """

    decay: Numeric
    debias: bool = static(True)
    accumulator_dtype: DTypeLike | None = static_dtype(None)

    def init(self, params):
        return EmaState(count=jnp.zeros([], jnp.int32), ema=zeros_like(params, self.accumulator_dtype))

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, EmaState)
        average = update_moment(updates, state.ema, self.decay, 1)
        count = safe_increment(state.count)
        out = bias_correction(average, self.decay, count) if self.debias else average
        return out, EmaState(count=count, ema=keep_dtype(average, state.ema, self.accumulator_dtype))


trace, ema = Trace, Ema
