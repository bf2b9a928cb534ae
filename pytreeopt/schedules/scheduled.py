"""Any hyperparameter as a schedule."""

import functools
import typing
from collections.abc import Callable
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from optax import safe_increment

from pytreeopt.base import AbstractHyperparameters, AbstractSchedule, GradientTransformation, coerce
from pytreeopt.errors import require_state
from pytreeopt.fields import Named, is_leaf


class ScheduledState(NamedTuple):
    """The number of updates so far, and the state of the transformation."""

    count: Any  # pyright: ignore[reportIncompatibleMethodOverride]
    inner_state: Any


@final
class Scheduled(GradientTransformation):
    """Evaluates, at each step, every schedule among the hyperparameters of a transformation, at any depth.

    So any number may be a schedule: `scheduled(adamw(1e-3, b1=linear_schedule(0.8, 0.95, 1000)))`. The count is the
    number of updates so far. Schedules in fields that take them anyway, such as a learning rate, are left alone. What
    the inner state takes over at init is the schedule's value at step 0.

    Args:
        inner: the transformation, with schedules where it wants numbers; its state is as with numbers.
    """

    inner: GradientTransformation

    def at(self, count: Any) -> GradientTransformation:
        """The transformation with its schedules evaluated at step `count`."""
        return _evaluate(coerce(self.inner), count)

    def init(self, params):
        count = jnp.zeros([], jnp.int32)
        return ScheduledState(count=count, inner_state=self.at(count).init(params))

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScheduledState)
        updates, inner_state = self.at(state.count).update(updates, state.inner_state, params, **extra_args)
        return updates, ScheduledState(count=safe_increment(state.count), inner_state=inner_state)


def _evaluate(value: Any, count: Any) -> Any:
    if isinstance(value, AbstractSchedule):
        return value(count)
    if isinstance(value, AbstractHyperparameters):
        native = fields_for_schedules(type(value))
        fields = {name: vars(value)[name] for name in value._dynamic_fields if name not in native}
        new = {name: _evaluate(field, count) for name, field in fields.items()}
        changes = {name: field for name, field in new.items() if field is not fields[name]}
        return value.replace(**changes) if changes else value
    if type(value) in (tuple, list):
        new = [_evaluate(x, count) for x in value]
        return type(value)(new) if any(x is not y for x, y in zip(new, value, strict=True)) else value
    if isinstance(value, Named):
        return value.map(lambda x: _evaluate(x, count))
    if not is_leaf(value):
        parts = jax.tree.leaves(value, is_leaf=_is_ours)
        if any(map(_is_ours, parts)):
            return jax.tree.map(lambda x: _evaluate(x, count), value, is_leaf=_is_ours)
    return value


def _is_ours(x: Any) -> bool:
    return isinstance(x, AbstractHyperparameters)


@functools.cache
def fields_for_schedules(cls: type) -> frozenset[str]:
    """Names of the fields that hold a schedule as such, by annotation."""
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError:  # a class whose annotations cannot be resolved here: a number will do in any field
        return frozenset()
    return frozenset(name for name, hint in hints.items() if _mentions_schedule(hint))


def _mentions_schedule(hint: Any) -> bool:
    if hint is AbstractSchedule or typing.get_origin(hint) is Callable:
        return True
    return any(map(_mentions_schedule, typing.get_args(hint)))


scheduled = Scheduled
