"""Schedules one after another."""

from collections.abc import Callable, Sequence
from typing import Any, final

import jax
import jax.numpy as jnp

from pytreeopt.base import AbstractSchedule, Numeric
from pytreeopt.schedules.guards import known, python_number


@final
class JoinSchedules(AbstractSchedule):
    """Each schedule until its boundary, counting from the boundary before it.

    Args:
        schedules: the schedules in order, at least one; plain functions too.
        boundaries: the steps at which the next one takes over, ascending, one fewer than there are schedules; else
            ValueError.
    """

    schedules: Sequence[AbstractSchedule | Callable[[Any], Any]]
    boundaries: Sequence[Numeric]

    def __post_init__(self):
        super().__post_init__()
        if type(self.schedules) is tuple and type(self.boundaries) is tuple:
            self._check_number()
            # Axis numbers and the like may stand in both fields, in any order.
            if any(isinstance(leaf, float | jax.Array) for leaf in jax.tree.leaves(self.schedules)):
                self._check_order()

    def _check_number(self) -> None:
        schedules, boundaries = len(self.schedules), len(self.boundaries)
        if schedules != boundaries + 1:
            raise ValueError(
                f"JoinSchedules: needs one boundary fewer than schedules, got {boundaries} and {schedules}"
            )

    def _check_order(self) -> None:
        steps = [boundary for boundary in self.boundaries if isinstance(boundary, int | float)]
        if steps != sorted(steps):
            raise ValueError(f"JoinSchedules: boundaries must ascend, got {self.boundaries}")

    def __call__(self, step: Any) -> Any:
        self._check_number()
        boundaries = [python_number(x) if known(x) else x for x in self.boundaries]
        if all(map(known, boundaries)) and boundaries != sorted(boundaries):
            raise ValueError(f"JoinSchedules: boundaries must ascend, got {boundaries}")
        first, *others = self.schedules
        output = _piece(first, step, None, boundaries[0] if boundaries else None)
        for boundary, following, schedule in zip(boundaries, [*boundaries, None][1:], others, strict=True):
            output = jnp.where(step < boundary, output, _piece(schedule, step, boundary, following))
        return output


def _piece(schedule: Callable[[Any], Any], step: Any, begin: Any, end: Any) -> Any:
    """A schedule at the step since `begin`. No derivative sees it outside of its own steps, where it may not be finite.

    It is evaluated there all the same, since it decides the dtype: at a step of its own when the step is traced.
    """
    elapsed = step if begin is None else step - begin
    if all(map(known, (step, 0 if begin is None else begin, 0 if end is None else end))):
        now = python_number(step)  # compared as an array inside a branch being traced it would be traced too
        mine = (begin is None or not now < begin) and (end is None or now < end)
        return schedule(elapsed) if mine else jax.lax.stop_gradient(schedule(elapsed))
    own = elapsed
    if end is not None:
        last = jnp.maximum(end - 1 if begin is None else end - begin - 1, 0)
        dtype = jnp.result_type(elapsed)
        if jnp.result_type(elapsed, last) != dtype:  # a cast for nothing would make a weakly typed step a strong one
            last = last.astype(dtype)
        own = jnp.where(step < end, own, jax.lax.stop_gradient(last))
    if begin is not None:
        own = jnp.where(step < begin, 0, own)
    return schedule(own)


join_schedules = JoinSchedules
