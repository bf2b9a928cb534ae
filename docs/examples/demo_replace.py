"""The learning rate changed in mid-run: `dataclasses.replace`, and the compiled program runs on."""

import dataclasses

import jax
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

import pytreeopt as optax
from demo_report import BLUE, GREY, ORANGE, plt
from demo_stopwatch import Stopwatch
from demo_training import Task, accuracy, segments, train


@dataclasses.dataclass(frozen=True)
class Change:
    """A run before the change, and after it with the old and with the new learning rate."""

    rates: tuple[float, float]
    before: np.ndarray  # training loss of each step
    unchanged: np.ndarray
    changed: np.ndarray
    accuracy_unchanged: float  # in percent, on the test digits
    accuracy_changed: float
    first: Stopwatch
    second: Stopwatch

    def table(self) -> list[tuple[str, ...]]:
        old, new = self.rates
        return [
            ("", f"before: {old:g}", f"then still {old:g}", f"then {new:g}"),
            ("mean loss, last 20 steps", *(f"{_end(x):.4f}" for x in (self.before, self.unchanged, self.changed))),
            ("test accuracy", "", f"{self.accuracy_unchanged:.1f} %", f"{self.accuracy_changed:.1f} %"),
            ("compilations", f"{self.first.compilations}", "", f"{self.second.compilations}"),
            ("wall time", f"{1e3 * self.first.wall:.0f} ms", "", f"{1e3 * self.second.wall:.0f} ms"),
        ]

    def summary(self) -> str:
        old, new = self.rates
        return (
            f"learning rate {old:g} -> {new:g} in mid-run: {self.second.compilations} compilations, "
            f"loss {_end(self.before):.3f} -> {_end(self.changed):.3f} (unchanged: {_end(self.unchanged):.3f})"
        )

    def draw(self) -> Figure:
        figure, axes = plt.subplots(figsize=(9, 4.5))
        old, new = self.rates
        middle = len(self.before)
        for losses, begin, colour, label in (
            (self.before, 0, BLUE, f"learning rate {old:g}"),
            (np.concatenate([self.before, self.unchanged]), middle, GREY, f"still {old:g}, for comparison"),
            (np.concatenate([self.before, self.changed]), middle, ORANGE, f"changed to {new:g}"),
        ):
            steps = range(begin, len(losses))
            axes.plot(steps, losses[begin:], color=colour, alpha=0.25, linewidth=0.8)
            axes.plot(steps, _smooth(losses)[begin:], color=colour, linewidth=2, label=label)
        axes.axvline(middle, color="black", linewidth=1, linestyle="--")
        text = f"replace(optimizer, learning_rate={new:g})\n{self.second.compilations} compilations"
        axes.annotate(text, (middle, 1), xycoords=("data", "axes fraction"), xytext=(6, -4), va="top",
                      textcoords="offset points", family="monospace", fontsize=9)  # fmt: skip
        axes.set(xlabel="step", ylabel="training loss (nats)", yscale="log", xlim=(0, 2 * middle))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_title("The learning rate changed in mid-run (thick: mean of the last 20 steps)")
        axes.legend(loc="lower left")
        return figure


def _end(losses: np.ndarray) -> float:
    return float(losses[-20:].mean())


def _smooth(losses: np.ndarray, window: int = 20) -> np.ndarray:
    """At each step the mean of the last `window`."""
    total = np.cumsum(np.concatenate([[0.0], losses]))
    end = np.arange(1, len(losses) + 1)
    begin = np.maximum(end - window, 0)
    return (total[end] - total[begin]) / (end - begin)


def measure(task: Task, steps: int, seed: int, rates: tuple[float, float] = (3e-4, 3e-3)) -> Change:
    """Trains half of the steps with each learning rate; for comparison, the second half with the first one too."""
    old, new = rates
    first_half, second_half = segments(task.batches(steps - steps % 2, seed), 2)
    optimizer = optax.adamw(learning_rate=old)
    state = optimizer.init(task.params)
    with Stopwatch() as first:
        params, state, before = jax.block_until_ready(train(optimizer, task.params, state, first_half))
    with Stopwatch() as second:
        faster = dataclasses.replace(optimizer, learning_rate=new)
        changed_params, _, changed = jax.block_until_ready(train(faster, params, state, second_half))
    unchanged_params, _, unchanged = train(optimizer, params, state, second_half)
    return Change(
        rates,
        *map(np.asarray, (before, unchanged, changed)),
        accuracy_unchanged=float(accuracy(unchanged_params, task.test)),
        accuracy_changed=float(accuracy(changed_params, task.test)),
        first=first,
        second=second,
    )
