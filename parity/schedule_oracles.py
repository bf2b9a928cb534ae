"""The three oracles for schedules: their values are upstream's, however the count is given.

Eager: counts as Python integers, as int32 scalars, and under `vmap`. Compiled over a closure: one compiled function of
a scalar, and one of all counts under `vmap`. As an argument: against upstream's schedule rebuilt inside `jit` with its
numbers traced, or against the compiled one where upstream cannot trace them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import pytreeopt
from parity.oracles import Difference, leaf_difference, x64
from parity.row import Loose, ScheduleRow
from parity.upstream import to_upstream

DTYPES = ("float32", "float64")

Values = Callable[[Any, jax.Array], Sequence[Any]]


def python_integers(schedule: Any, counts: jax.Array) -> Sequence[Any]:
    return [schedule(count) for count in range(len(counts))]


def int32_scalars(schedule: Any, counts: jax.Array) -> Sequence[Any]:
    return [schedule(count) for count in counts]


def batched(schedule: Any, counts: jax.Array) -> Sequence[Any]:
    return list(jax.vmap(lambda count: schedule(count))(counts))


def compiled(schedule: Any, counts: jax.Array) -> Sequence[Any]:
    return int32_scalars(jax.jit(lambda count: schedule(count)), counts)


def compiled_batched(schedule: Any, counts: jax.Array) -> Sequence[Any]:
    return list(jax.jit(jax.vmap(lambda count: schedule(count)))(counts))


def as_argument(schedule: Any, counts: jax.Array) -> Sequence[Any]:
    value = jax.jit(lambda schedule, count: schedule(count))
    return [value(schedule, count) for count in counts]


def rebuilt_inside(schedule: Any, counts: jax.Array) -> Sequence[Any]:
    """Upstream's schedule made inside the compiled function, every number of `schedule` traced."""
    value = jax.jit(lambda schedule, count: to_upstream(schedule)(count))
    return [value(schedule, count) for count in counts]


ALIKE: dict[str, tuple[Values, ...]] = {
    "eager": (python_integers, int32_scalars, batched),
    "jit": (compiled, compiled_batched),
}


def compare(row: ScheduleRow, oracle: str, dtype: str) -> Difference:
    """The worst difference over the counts from 0 to the row's end; `dtype` float64 means x64."""
    with x64(dtype == "float64"):
        counts = jnp.arange(row.end + 1, dtype=jnp.int32)
        ours, theirs = row.build(pytreeopt), row.build(optax)
        if oracle == "argument" and row.untraced:
            values = as_argument(ours, counts)
            return difference(values, in_dtypes_of(values, compiled(theirs, counts)), "as_argument")
        if oracle == "argument":
            return difference(as_argument(ours, counts), rebuilt_inside(ours, counts), "as_argument")
        found = [difference(values(ours, counts), values(theirs, counts), values.__name__) for values in ALIKE[oracle]]
        return max(found, key=lambda d: d.ulp)


def tolerance(row: ScheduleRow, oracle: str) -> Loose | None:
    """The declared tolerance of an oracle, or None: equal to the bit."""
    return row.untraced if oracle == "argument" else None


def in_dtypes_of(ours: Sequence[Any], theirs: Sequence[Any]) -> Sequence[Any]:
    """`theirs`, where weakly typed, in our dtypes: a constant that a traced number leads to is no constant any more."""
    return [y.astype(x.dtype) if y.weak_type else y for x, y in zip(ours, theirs, strict=True)]


def difference(ours: Sequence[Any], theirs: Sequence[Any], place: str) -> Difference:
    """The worst count in units in the last place; `relative` is the worst absolute one over the greatest value."""
    ulps = [leaf_difference(x, y)[0] for x, y in zip(ours, theirs, strict=True)]
    worst = int(np.argmax(ulps))
    if ulps[worst] == 0:
        return Difference(0.0)
    x, y = ours[worst], theirs[worst]
    where = f"{place}, count {worst}: {np.asarray(x).dtype} {x} against {np.asarray(y).dtype} {y}"
    if np.isinf(ulps[worst]):
        return Difference(np.inf, where, np.inf)
    return Difference(ulps[worst], where, leaf_difference(np.stack(ours), np.stack(theirs))[1])
