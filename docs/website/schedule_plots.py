"""A picture of each schedule, with its numbers as arrows and levels. The schedules are those of the parity rows."""

import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from matplotlib.patheffects import withStroke

import pytreeopt as optax
from demo_report import BLUE, GREY, ORANGE, plt
from parity.rows import SCHEDULES
from pytreeopt.base import AbstractSchedule

HALO = withStroke(linewidth=3, foreground="white")


class Level(NamedTuple):
    """A value of the schedule, at a step."""

    name: str
    value: float
    step: float = 0.0


class Span(NamedTuple):
    """A number of steps."""

    name: str
    begin: float
    end: float


class Note(NamedTuple):
    """A number that is neither a value nor a length: the slope or the shape that it sets, beside a point."""

    name: str
    step: float


Mark = Level | Span | Note


def transition(s: Any) -> Iterator[Mark]:
    begin, end = s.transition_begin, s.transition_begin + s.transition_steps
    yield Level("init_value", s.init_value, begin)
    yield Level("end_value", s.end_value, end)
    yield Span("transition_steps", begin, end)
    if begin:
        yield Span("transition_begin", 0, begin)


def polynomial(s: Any) -> Iterator[Mark]:
    yield from transition(s)
    yield Note(f"power = {s.power:g}", s.transition_begin + 0.35 * s.transition_steps)


def exponential(s: Any) -> Iterator[Mark]:
    begin = s.transition_begin
    yield Level("init_value", s.init_value, begin)
    yield Span("transition_steps", begin, begin + s.transition_steps)
    yield Level(f"init_value * decay_rate ({s.decay_rate:g})", s.init_value * s.decay_rate, begin + s.transition_steps)
    if begin:
        yield Span("transition_begin", 0, begin)
    if s.end_value is not None:
        yield Level("end_value", s.end_value, 2 * s.transition_steps)


def cosine(s: Any) -> Iterator[Mark]:
    yield Level("init_value", s.init_value)
    yield Span("decay_steps", 0, s.decay_steps)
    yield Level(f"init_value * alpha ({s.alpha:g})", s.init_value * s.alpha, s.decay_steps)
    yield Note(f"exponent = {s.exponent:g}", 0.5 * s.decay_steps)


def piecewise(s: Any) -> Iterator[Mark]:
    yield Level("init_value", s.init_value)
    value = s.init_value
    for step, scale in s.boundaries_and_scales.items():
        value = value * scale
        yield Level(f"step {step}: * {scale:g}", value, step)


def one_cycle(s: Any) -> Iterator[Mark]:
    low = s.peak_value / s.div_factor
    yield Level(f"peak_value / div_factor ({s.div_factor:g})", low)
    yield Level("peak_value", s.peak_value, int(s.pct_start * s.transition_steps))
    yield Level(f"/ final_div_factor ({s.final_div_factor:g})", low / s.final_div_factor, s.transition_steps)
    yield Span(f"pct_start ({s.pct_start:g})", 0, int(s.pct_start * s.transition_steps))
    yield Span("transition_steps", 0, s.transition_steps)


def linear_one_cycle(s: Any) -> Iterator[Mark]:
    yield from one_cycle(s)
    yield Span(f"pct_final ({s.pct_final:g})", 0, int(s.pct_final * s.transition_steps))


def warmup(s: Any) -> Iterator[Mark]:
    yield Level("init_value", s.init_value)
    yield Level("peak_value", s.peak_value, s.warmup_steps)
    yield Span("warmup_steps", 0, s.warmup_steps)


def warmup_cosine(s: Any) -> Iterator[Mark]:
    yield from warmup(s)
    yield Level("end_value", s.end_value, s.decay_steps)
    yield Span("decay_steps", 0, s.decay_steps)


def warmup_exponential(s: Any) -> Iterator[Mark]:
    yield from warmup(s)
    decayed = s.warmup_steps + s.transition_steps
    yield Level(f"peak_value * decay_rate ({s.decay_rate:g})", s.peak_value * s.decay_rate, decayed)
    yield Span("transition_steps", s.warmup_steps, decayed)


def restarts(s: Any) -> Iterator[Mark]:
    begin = 0
    for number, cycle in enumerate(s.cosine_kwargs):
        if cycle["warmup_steps"]:
            yield Span("warmup_steps", begin, begin + cycle["warmup_steps"])
        yield Span("decay_steps", begin, begin + cycle["decay_steps"])
        yield Level(f"peak_value of cycle {number}", cycle["peak_value"], begin + cycle["warmup_steps"])
        begin += cycle["decay_steps"]


def joined(s: Any) -> Iterator[Mark]:
    for boundary in s.boundaries:
        yield Span(f"a boundary at {boundary:g}", 0, boundary)


MARKS: dict[type, Callable[[Any], Iterator[Mark]]] = {
    optax.ConstantSchedule: lambda s: iter([Level("value", s.value)]),
    optax.LinearSchedule: transition,
    optax.PolynomialSchedule: polynomial,
    optax.ExponentialDecay: exponential,
    optax.CosineDecaySchedule: cosine,
    optax.PiecewiseConstantSchedule: piecewise,
    optax.PiecewiseInterpolateSchedule: piecewise,
    optax.LinearOneCycleSchedule: linear_one_cycle,
    optax.CosineOneCycleSchedule: one_cycle,
    optax.WarmupConstantSchedule: warmup,
    optax.WarmupCosineDecaySchedule: warmup_cosine,
    optax.WarmupExponentialDecaySchedule: warmup_exponential,
    optax.SGDRSchedule: restarts,
    optax.JoinSchedules: joined,
}


def schedules() -> dict[str, AbstractSchedule]:
    """By name: the default row of every schedule."""
    return {name: row.build(optax) for name, row in SCHEDULES.items() if row.default}


def draw(schedule: AbstractSchedule, end: int = 15) -> Any:
    """The curve, dots at the levels, and the spans as arrows below."""
    marks = list(MARKS[type(schedule)](schedule))
    figure, ax = plt.subplots(figsize=(7, 3.3))
    steps = np.linspace(0, end, 20 * end + 1)
    values = np.broadcast_to(jax.jit(jax.vmap(schedule))(steps), steps.shape)
    top = max(values.max(), *(mark.value for mark in marks if isinstance(mark, Level)), 1e-9)
    ax.plot(steps, values, color=BLUE, linewidth=2)
    ax.plot(steps[::20], values[::20], "o", color=BLUE, markersize=3)
    for mark in marks:
        if isinstance(mark, Level):
            ax.plot([0, mark.step], [mark.value] * 2, color=GREY, linewidth=0.8, linestyle=":")
            ax.plot(mark.step, mark.value, "o", color=ORANGE, markersize=7)
            label = f"{mark.name} = {mark.value:g}" if mark.name.isidentifier() else mark.name
            place = {"xytext": (9, 5), "textcoords": "offset points", "path_effects": [HALO]}
            ax.annotate(label, (mark.step, mark.value), fontsize=9, **place)
        elif isinstance(mark, Note):
            height = np.interp(mark.step, steps, values)
            ax.annotate(mark.name, (mark.step, height), (9, 5), textcoords="offset points", fontsize=9)
    spans = [mark for mark in marks if isinstance(mark, Span)]
    for row, span in zip(rows(spans), spans, strict=True):
        height = -(0.12 + 0.13 * row) * top
        arrow = {"arrowstyle": "<->", "color": ORANGE, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", (span.begin, height), (span.end, height), arrowprops=arrow)
        length = f" = {span.end - span.begin:g}" if span.name.isidentifier() else ""
        ax.annotate(span.name + length, (span.end, height), (5, 0), textcoords="offset points", va="center", fontsize=9)
    lowest = -(0.2 + 0.13 * max(rows(spans), default=-1)) * top
    ax.set(xlabel="step", ylabel="value", xlim=(-0.3, end + 0.3), ylim=(lowest, 1.2 * top))
    ax.set_yticks([tick for tick in ax.get_yticks() if 0 <= tick <= 1.2 * top])
    return figure


def rows(spans: list[Span]) -> list[int]:
    """Each span on a line of its own, but those that begin where others have ended far enough before."""
    ends: list[float] = []
    placed = []
    for span in spans:
        row = next((i for i, end in enumerate(ends) if span.begin >= end), len(ends))
        ends[row:] = [span.end + 0.35 * len(span.name) + 1, *ends[row + 1 :]]
        placed.append(row)
    return placed


def draw_all(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, schedule in schedules().items():
        figure = draw(schedule)
        figure.savefig(folder / f"{name}.png", dpi=110)
        plt.close(figure)
