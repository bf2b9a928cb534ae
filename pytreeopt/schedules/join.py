"""Schedules one after another."""

from collections.abc import Callable, Sequence
from typing import Any, final

import jax.numpy as jnp

from pytreeopt.base import AbstractSchedule, Numeric
from pytreeopt.numerics import holds_tracers


@final
class JoinSchedules(AbstractSchedule):
    """Each schedule until its boundary, counting from the boundary before it.

    Args:
        schedules: the schedules in order; plain functions too.
        boundaries: the steps at which the next one takes over, ascending, one fewer than there are schedules.
    """

    schedules: Sequence[AbstractSchedule | Callable[[Any], Any]]
    boundaries: Sequence[Numeric]

    def __call__(self, step: Any) -> Any:
        # A derivative must not see a piece outside of its own steps, where it need not be finite.
        guarded = holds_tracers(self)
        first, *others = self.schedules
        boundaries = self.boundaries
        output = first(jnp.where(step < boundaries[0], step, 0) if guarded and boundaries else step)
        for boundary, schedule in zip(boundaries, others, strict=False):
            elapsed = step - boundary
            piece = schedule(jnp.where(step < boundary, 0, elapsed) if guarded else elapsed)
            output = jnp.where(step < boundary, output, piece)
        return output


join_schedules = JoinSchedules
