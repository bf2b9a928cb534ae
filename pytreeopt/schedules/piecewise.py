"""Values that change at given steps."""

from collections.abc import Iterator, Mapping
from typing import Any, final

import jax.numpy as jnp

from pytreeopt.base import AbstractHyperparameters, AbstractSchedule, Numeric
from pytreeopt.errors import HyperparameterError
from pytreeopt.fields import static
from pytreeopt.schedules.guards import known, python_number


@final
class BoundariesAndScales(AbstractHyperparameters, Mapping):
    """Steps and the factors that apply from there on, both dynamic; reads like the mapping that was given.

    Args:
        boundaries: the steps, ascending.
        scales: the factors, not negative.
    """

    boundaries: tuple[Numeric, ...]
    scales: tuple[Numeric, ...]

    @classmethod
    def sorted(cls, mapping: Any, owner: str) -> Any:
        """From a mapping, sorted; anything else (None, a placeholder put in by JAX) is left alone."""
        if not isinstance(mapping, Mapping) or isinstance(mapping, cls):
            return mapping
        pairs = sorted(mapping.items(), key=lambda pair: pair[0])
        holder = cls(tuple(step for step, _ in pairs), tuple(scale for _, scale in pairs))
        _refuse_negative([scale for scale in holder.scales if isinstance(scale, int | float)], owner)
        return holder

    def ascending(self, owner: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Boundaries and scales, checked where known, sorted whatever they are."""
        boundaries, scales = tuple(self.boundaries), tuple(self.scales)
        _refuse_negative([python_number(scale) for scale in scales if known(scale)], owner)
        if all(map(known, boundaries)):
            order = sorted(range(len(boundaries)), key=lambda i: python_number(boundaries[i]))
            return tuple(boundaries[i] for i in order), tuple(scales[i] for i in order)
        stacked = jnp.stack(boundaries)
        order = jnp.argsort(stacked)
        return tuple(stacked[order]), tuple(jnp.stack(scales)[order])

    def __getitem__(self, boundary: Any) -> Any:
        for step, scale in zip(self.boundaries, self.scales, strict=True):
            if step == boundary:
                return scale
        raise KeyError(boundary)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.boundaries)

    def __len__(self) -> int:
        return len(self.boundaries)

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{b!r}: {s!r}" for b, s in zip(self.boundaries, self.scales, strict=True)) + "}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mapping) and not isinstance(other, BoundariesAndScales):
            return dict(self) == dict(other)
        return AbstractHyperparameters.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = AbstractHyperparameters.__hash__


def _refuse_negative(scales: list[Any], owner: str) -> None:
    if not all(scale >= 0 for scale in scales):
        raise ValueError(f"{owner}: scales must not be negative, got {scales}")


@final
class PiecewiseConstantSchedule(AbstractSchedule):
    r"""A value that jumps at given steps.

    $$ s(t) = I \prod_{i:\, t \ge b_i} f_i $$

    Args:
        init_value: $I$, the value before the first boundary.
        boundaries_and_scales: mapping from the steps $b_i$, in any order, to the factors $f_i$, not negative, else
            ValueError; or None.
    """

    init_value: Numeric
    boundaries_and_scales: Mapping[int, Numeric] | None = None

    def __post_init__(self):
        super().__post_init__()
        values = vars(self)
        values["boundaries_and_scales"] = BoundariesAndScales.sorted(self.boundaries_and_scales, type(self).__name__)

    def __call__(self, count: Any) -> Any:
        value = self.init_value
        for boundary, scale in zip(*_steps(self), strict=True):
            before = jnp.maximum(0.0, jnp.sign(boundary - count))
            value = value * before + (1 - before) * scale * value
        return value


@final
class PiecewiseInterpolateSchedule(AbstractSchedule):
    r"""Values at given steps, connected by straight lines or by half cosines.

    At step $b_i$ the value is $v_i = I f_1 \cdots f_i$; from $v_{i-1}$ it takes the steps in between.

    Args:
        interpolate_type: "linear" or "cosine", else ValueError.
        init_value: $I$, the value at step 0.
        boundaries_and_scales: mapping from the steps $b_i$, in any order, to the factors $f_i$, not negative, else
            ValueError; or None.
    """

    interpolate_type: str = static()
    init_value: Numeric  # pyright: ignore[reportGeneralTypeIssues]
    boundaries_and_scales: Mapping[int, Numeric] | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.interpolate_type not in ("linear", "cosine"):
            raise ValueError(
                f'PiecewiseInterpolateSchedule: interpolate_type must be "linear" or "cosine", '
                f"got {self.interpolate_type!r}"
            )
        values = vars(self)
        values["boundaries_and_scales"] = BoundariesAndScales.sorted(self.boundaries_and_scales, type(self).__name__)

    def __call__(self, count: Any) -> Any:
        boundaries, scales = _steps(self)
        bounds = jnp.stack((0, *boundaries))
        values = jnp.cumprod(jnp.stack((self.init_value, *scales)))
        lengths = jnp.maximum(bounds[1:] - bounds[:-1], 1)
        inside = jnp.logical_and(bounds[:-1] <= count, count < bounds[1:])
        fraction = (count - bounds[:-1]) / lengths
        start, end = values[:-1], values[1:]
        if self.interpolate_type == "linear":
            between = (end - start) * fraction + start
        else:
            between = end + (start - end) / 2.0 * (jnp.cos(jnp.pi * fraction) + 1)
        return inside.dot(between) + (bounds[-1] <= count) * values[-1]


def _steps(schedule: PiecewiseConstantSchedule | PiecewiseInterpolateSchedule) -> tuple[tuple[Any, ...], ...]:
    steps = schedule.boundaries_and_scales
    if steps is None:
        return (), ()
    if not isinstance(steps, BoundariesAndScales):
        raise HyperparameterError(f"needs a mapping as boundaries_and_scales, got {type(steps).__name__}")
    return steps.ascending(type(schedule).__name__)


piecewise_constant_schedule, piecewise_interpolate_schedule = PiecewiseConstantSchedule, PiecewiseInterpolateSchedule
