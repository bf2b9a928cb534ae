"""The step at which each schedule of an optimizer stands, read from its state."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from pytreeopt.base import GradientTransformation
from pytreeopt.combinators.partition import Partition
from pytreeopt.errors import WrongStateError, require_state
from pytreeopt.fields import Named
from pytreeopt.schedules.scheduled import Scheduled, ScheduledState, fields_for_schedules
from pytreeopt.states import PartitionState, ScaleByScheduleState, WeightDecaySchedule, WrappedScheduleState

OWN_COUNTS = ("step_count", "gradient_step", "count")  # of a transformation that evaluates its schedule itself
SCHEDULE_STATES = (ScaleByScheduleState, WeightDecaySchedule, WrappedScheduleState)


@dataclasses.dataclass(frozen=True)
class At:
    """One step for all schedules."""

    count: Any

    def below(self, node: Any, part: Any) -> "At":
        return self

    def count_of(self, node: Any, name: str) -> Any:
        return self.count


@dataclasses.dataclass(frozen=True)
class Reading:
    """The steps that a state tells, with the count of the `Scheduled` around it if there is one."""

    state: Any
    outer: Any = None

    def below(self, node: Any, part: Any) -> "Reading":
        """The reading for a part of `node`."""
        if isinstance(node, Scheduled):
            state = require_state(self.state, ScheduledState)
            return Reading(state.inner_state, state.count)
        return Reading(_state_below(self.state, node, part), self.outer)

    def count_of(self, node: Any, name: str) -> Any:
        """The step that the schedule in this field of `node` is given at the next update."""
        if self.outer is not None and name not in fields_for_schedules(type(node)):
            return self.outer
        for own in OWN_COUNTS:
            if own in getattr(self.state, "_fields", ()):
                return getattr(self.state, own)
        return _agreed(_schedule_counts(self.state) or _other_counts(self.state), type(node).__name__, name)


def _state_below(state: Any, node: Any, part: Any) -> Any:
    """The state of a part where it is known; else all of `state`, in which the count is looked for."""
    if isinstance(node, Partition) and isinstance(part.value, Named):
        return require_state(state, PartitionState).inner_states
    if isinstance(node, Named) and isinstance(state, Mapping):
        names = [key for key, value in node.items() if value is part.value]
        return state[names[0]] if names and names[0] in state else state
    if type(node) is tuple and type(state) is tuple and len(node) == len(state):
        return state[int(part.name)]
    if isinstance(part.value, GradientTransformation):
        return getattr(state, "inner_state", state)
    return state


def _schedule_counts(state: Any) -> list[Any]:
    nodes = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, SCHEDULE_STATES))
    return [node.count for node in nodes if isinstance(node, SCHEDULE_STATES)]


def _other_counts(state: Any) -> list[Any]:
    """Every count of updates in the state. Parameters of that name are no integers."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return [x for path, x in leaves if path and _is_count(path[-1]) and jnp.issubdtype(jnp.result_type(x), jnp.integer)]


def _is_count(key: Any) -> bool:
    return getattr(key, "name", None) in OWN_COUNTS


def _agreed(counts: list[Any], owner: str, name: str) -> Any:
    """The count, if there is one; those that can be read must agree."""
    if not counts:
        raise WrongStateError(
            f"hyperparams: the state holds no count for {owner}.{name}; give the number of updates so far as step"
        )
    known = [np.asarray(count) for count in counts if not isinstance(count, Tracer)]
    if any(not np.array_equal(count, known[0]) for count in known[1:]):
        raise WrongStateError(
            f"hyperparams: the state holds several counts for {owner}.{name}, "
            f"{sorted({str(count) for count in known})}; give a number as step"
        )
    return counts[0]
