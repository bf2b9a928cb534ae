"""Twenty learning rates one after another: the optimizer as an argument, beside Optax's as a static argument.

Both train with the same function on the same batches. A closure of Optax can enter a compiled function only as a
static argument, so each learning rate is another program. (`optax.inject_hyperparams` avoids that by moving the
learning rate into the state.)
"""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import numpy as np
import optax as upstream
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from tqdm import tqdm

import pytreeopt as optax
from demo_report import BLUE, GREY, ORANGE, plt
from demo_stopwatch import Stopwatch
from demo_training import Task, accuracy, run_steps, train

train_static = jax.jit(run_steps, static_argnames="optimizer")


@dataclasses.dataclass(frozen=True)
class Runs:
    """One training for each learning rate."""

    times: list[Stopwatch]
    accuracies: np.ndarray  # in percent, on the test digits

    @property
    def compilations(self) -> int:
        return sum(time.compilations for time in self.times)

    @property
    def compiling(self) -> float:
        return sum(time.compiling for time in self.times)

    @property
    def wall(self) -> float:
        return sum(time.wall for time in self.times)

    @property
    def running(self) -> float:
        return self.wall - self.compiling


@dataclasses.dataclass(frozen=True)
class Sweep:
    rates: np.ndarray
    steps: int
    ours: Runs
    upstream: Runs

    @property
    def ratio(self) -> float:
        return self.upstream.wall / self.ours.wall

    def table(self) -> list[tuple[str, ...]]:
        both = self.ours, self.upstream
        difference = np.abs(self.ours.accuracies - self.upstream.accuracies).max()
        return [
            (f"{len(self.rates)} x {self.steps} steps", "pytreeopt", "Optax"),
            ("compilations", *(f"{runs.compilations}" for runs in both)),
            ("compiling", *(f"{runs.compiling:.2f} s" for runs in both)),
            ("running", *(f"{runs.running:.2f} s" for runs in both)),
            ("in all", *(f"{runs.wall:.2f} s" for runs in both)),
            ("ratio", "1.0", f"{self.ratio:.1f}"),
            ("best test accuracy", *(f"{runs.accuracies.max():.1f} %" for runs in both)),
            ("largest difference of accuracy", "", f"{difference:.1f} points"),
        ]

    def summary(self) -> str:
        ours, theirs = self.ours, self.upstream
        return (
            f"{len(self.rates)} learning rates in {ours.wall:.1f} s (compilations: {ours.compilations}), "
            f"Optax {theirs.wall:.1f} s (compilations: {theirs.compilations}): {self.ratio:.1f} times"
        )

    def draw(self) -> Figure:
        figure, (bars, lines) = plt.subplots(1, 2, figsize=(10, 4), width_ratios=(1, 1.3))
        both = {"pytreeopt": (self.ours, BLUE), "Optax": (self.upstream, ORANGE)}
        for name, (runs, colour) in both.items():
            bars.bar(name, runs.compiling, color=colour, width=0.6)
            bars.bar(name, runs.running, bottom=runs.compiling, color=colour, alpha=0.4, width=0.6)
            text = f"{runs.wall:.1f} s\ncompilations: {runs.compilations}"
            bars.text(name, runs.wall, text, ha="center", va="bottom", linespacing=1.3)
            elapsed = np.cumsum([0.0, *(time.wall for time in runs.times)])
            lines.plot(elapsed, color=colour, marker="o", markersize=4, label=name)
        bars.set(ylabel="wall time (s)", ylim=(0, 1.3 * max(self.ours.wall, self.upstream.wall)))
        bars.set_title("Compiling and running")
        bars.legend(handles=[Patch(color=GREY, alpha=0.4, label="running"), Patch(color=GREY, label="compiling")])
        bars.grid(axis="x", visible=False)
        lines.set(xlabel="learning rates tried", ylabel="wall time so far (s)")
        lines.xaxis.get_major_locator().set_params(integer=True)
        lines.set_title(f"{len(self.rates)} trainings of {self.steps} steps, one by one")
        lines.legend(loc="upper left")
        return figure


def measure(task: Task, steps: int, seed: int, count: int = 20) -> Sweep:
    """Trains with `count` learning rates one by one, here and with Optax. The first to run pays JAX's warm-up: ours."""
    rates = np.geomspace(1e-4, 3e-2, count)
    batches = task.batches(steps, seed)

    def run(name: str, train: Callable, optimizers: Sequence[optax.GradientTransformation]) -> Runs:
        states = [optimizer.init(task.params) for optimizer in optimizers]
        times, trained = [], []
        progress = tqdm(optimizers, desc=f"learning rates one by one, {name}")
        for optimizer, state in zip(progress, states, strict=True):
            with Stopwatch() as time:
                params, _, _ = jax.block_until_ready(train(optimizer, task.params, state, batches))
            times.append(time)
            trained.append(params)
        return Runs(times, np.asarray([accuracy(params, task.test) for params in trained]))

    return Sweep(
        rates,
        steps,
        ours=run("pytreeopt", train, [optax.adamw(rate) for rate in rates]),
        upstream=run("Optax", train_static, [upstream.adamw(rate) for rate in rates]),
    )
