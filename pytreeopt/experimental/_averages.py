"""Averages over examples and over updates in a row."""

from collections.abc import Sequence
from typing import Any, final

import jax.numpy as jnp
from optax.experimental import aggregating as upstream

from pytreeopt.base import GradientTransformation
from pytreeopt.combinators.chain import Chain
from pytreeopt.errors import require_state
from pytreeopt.fields import static
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import keep_dtype, zeros_like
from pytreeopt.states import AccumulateAvgUpdatesState, EmptyState


class AbstractAggregator(GradientTransformation, upstream.Aggregator):  # pyright: ignore[reportIncompatibleVariableOverride]
    """A transformation of updates per example into updates. To write one: as a `GradientTransformation`."""


@final
class AveragePerElementUpdates(AbstractAggregator):
    """Averages over the examples.

    Args:
        per_elt_axis: the axis of the examples, or several.
    """

    per_elt_axis: int | Sequence[int] = static(0)

    def init(self, params):
        return EmptyState()

    def update(self, updates, state, params=None, **extra_args):
        return leafwise(lambda x: jnp.mean(x, axis=self.per_elt_axis), updates), state


@final
class AccumulateAvgUpdates(GradientTransformation):
    r"""Averages $k$ updates in a row: zeros until the last of them, then the average.

    $$ a_n = a_{n-1} + (u_n - a_{n-1}) / n, \qquad n = 1, \dots, k $$

    Inside `Process` the optimizer that follows waits for the average. With one step it is the identity.

    Args:
        accumulation_steps: $k$, at least 1.
    """

    accumulation_steps: int = static()

    def __post_init__(self):
        super().__post_init__()
        check_steps(self)

    def init(self, params):
        if self.accumulation_steps == 1:
            return EmptyState()
        return AccumulateAvgUpdatesState(
            micro_step=jnp.zeros((), int), ready=jnp.asarray(False), avg_grad=zeros_like(params)
        )

    def update(self, updates, state, params=None, **extra_args):
        if self.accumulation_steps == 1:
            return updates, state
        state = require_state(state, AccumulateAvgUpdatesState)
        step = state.micro_step + 1
        ready = step == self.accumulation_steps
        average = leafwise(lambda u, a: a + (u - a) / step, updates, state.avg_grad)
        out = leafwise(lambda a: jnp.where(ready, a, jnp.zeros_like(a)), average)
        kept = leafwise(lambda a: jnp.where(ready, jnp.zeros_like(a), a), average)
        return out, AccumulateAvgUpdatesState(
            micro_step=jnp.where(ready, 0, step), ready=ready, avg_grad=keep_dtype(kept, state.avg_grad)
        )


def check_steps(tx: Any) -> None:
    if isinstance(tx.accumulation_steps, int) and tx.accumulation_steps < 1:
        raise ValueError(f"{type(tx).__name__}: accumulation_steps must be at least 1, got {tx.accumulation_steps}")


class _AbstractAverageIncrementally(GradientTransformation):
    """Averages over the examples if there is an axis of them, then over microbatches."""

    per_elt_axis: int | Sequence[int] | None = static()
    accumulation_steps: int = static()

    def __new__(cls, *args, **kwargs):
        axis = args[0] if args else kwargs.get("per_elt_axis")
        if cls is AverageIncrementallyUpdates and axis is not None:
            return AverageIncrementallyAggregator(*args, **kwargs)
        return super().__new__(cls)

    def __post_init__(self):
        super().__post_init__()
        check_steps(self)

    @property
    def _inner(self) -> GradientTransformation:
        accumulate = AccumulateAvgUpdates.of(self)
        if self.per_elt_axis is None:
            return accumulate
        return Chain((AveragePerElementUpdates.of(self), accumulate))

    def init(self, params):
        return self._inner.init(params)

    def update(self, updates, state, params=None, **extra_args):
        return self._inner.update(updates, state, params, **extra_args)


@final
class AverageIncrementallyUpdates(_AbstractAverageIncrementally):
    """Averages over the examples, then over several microbatches.

    With an axis this makes an `AverageIncrementallyAggregator`, an `Aggregator`; with None, `AccumulateAvgUpdates`.

    Args:
        per_elt_axis: the axis of the examples, several, or None: there is no such axis.
        accumulation_steps: number of microbatches, at least 1.
    """


@final
class AverageIncrementallyAggregator(_AbstractAverageIncrementally, AbstractAggregator):
    """`AverageIncrementallyUpdates` over an axis of examples.

    Args:
        per_elt_axis: the axis of the examples, or several.
        accumulation_steps: number of microbatches, at least 1.
    """
