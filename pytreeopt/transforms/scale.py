"""Multiplication by a number, by a schedule, by the learning rate."""

from collections.abc import Callable
from typing import Any, final

import jax.numpy as jnp
from optax import safe_increment

from pytreeopt.base import AbstractSchedule, AbstractStateless, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_state
from pytreeopt.fields import static
from pytreeopt.leafwise import leafwise
from pytreeopt.states import EmptyState, ScaleByScheduleState


@final
class Scale(AbstractStateless):
    """Multiplies the updates by a number.

    Args:
        step_size: the factor.
    """

    step_size: Numeric

    def transform(self, updates, params):
        return leafwise(lambda g: self.step_size * g, updates)


@final
class ScaleBySchedule(GradientTransformation):
    """Multiplies the updates by a schedule's value at the number of updates so far, cast to each leaf's dtype.

    Args:
        step_size_fn: the schedule; a plain function is compared by identity.
    """

    step_size_fn: AbstractSchedule | Callable[[Any], Any]

    def init(self, params):
        return ScaleByScheduleState(count=jnp.zeros([], jnp.int32))

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleByScheduleState)
        return _scale_by(self.step_size_fn(state.count), updates), _next(state)


@final
class ScaleByLearningRate(GradientTransformation):
    r"""Multiplies the updates by $-\eta$, or by $\eta$ without the flip.

    Args:
        learning_rate: $\eta$, a number, a schedule of the number of updates so far, or None: change nothing.
        flip_sign: whether to turn ascent into descent.
    """

    learning_rate: ScalarOrSchedule | None = None
    flip_sign: bool = static(True, kw_only=True)

    def init(self, params):
        return ScaleByScheduleState(jnp.zeros([], jnp.int32)) if callable(self.learning_rate) else EmptyState()

    def update(self, updates, state, params=None, **extra_args):
        if self.learning_rate is None:
            return updates, state
        sign = -1 if self.flip_sign else 1
        if not callable(self.learning_rate):
            step_size = sign * self.learning_rate
            return leafwise(lambda g: step_size * g, updates), state
        state = require_state(state, ScaleByScheduleState)
        return _scale_by(sign * self.learning_rate(state.count), updates), _next(state)


def _scale_by(step_size, updates):
    return leafwise(lambda g: jnp.array(step_size, dtype=g.dtype) * g, updates)


def _next(state):
    return ScaleByScheduleState(count=safe_increment(state.count))


scale, scale_by_schedule, scale_by_learning_rate = Scale, ScaleBySchedule, ScaleByLearningRate
