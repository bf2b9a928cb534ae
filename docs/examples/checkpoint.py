"""A checkpoint in the middle of a run: params, state and optimizer in one file, and two ways to go on from it.

Resumed as it was, the run is that which was never stopped, to the bit. Resumed with another learning rate, it goes on
in the same compiled program.
"""

import argparse
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from flax import serialization
from matplotlib.figure import Figure

import pytreeopt as optax
from demo_report import BLUE, GREY, ORANGE, aligned, plt
from demo_stopwatch import Stopwatch
from demo_training import Task, segments, train

PyTree = Any


def save(path: pathlib.Path, optimizer: optax.GradientTransformation, params: PyTree, state: PyTree) -> None:
    """The optimizer is a pytree like the other two."""
    path.write_bytes(serialization.to_bytes({"optimizer": optimizer, "params": params, "state": state}))


def load(
    path: pathlib.Path, optimizer: optax.GradientTransformation, params: PyTree
) -> tuple[optax.GradientTransformation, PyTree, PyTree]:
    """Needs an optimizer and params of the same structure; the numbers come from the file."""
    target = {"optimizer": optimizer, "params": params, "state": optimizer.init(params)}
    restored = serialization.from_bytes(target, path.read_bytes())
    return restored["optimizer"], restored["params"], restored["state"]


def measure(steps: int, file: pathlib.Path, seed: int = 0) -> tuple[dict[str, np.ndarray], int, float]:
    """Losses of the three runs, compilations after the checkpoint, greatest difference of the resumed run."""
    task = Task.load(seed)
    first, second = segments(task.batches(steps - steps % 2, seed), 2)
    optimizer = optax.adamw(3e-3, weight_decay=1e-2)
    params, state, before = train(optimizer, task.params, optimizer.init(task.params), first)
    save(file, optimizer, params, state)
    unbroken, _, onward = jax.block_until_ready(train(optimizer, params, state, second))

    # From here on nothing is used but the file.
    with Stopwatch() as time:
        optimizer, params, state = load(file, optax.adamw(0.0), task.params)
        resumed, _, again = jax.block_until_ready(train(optimizer, params, state, second))
        slower = optimizer.replace(learning_rate=3e-4)
        _, _, calmer = jax.block_until_ready(train(slower, params, state, second))

    differences = jax.tree.map(lambda a, b: float(abs(a - b).max()), unbroken, resumed)
    losses = {"before": before, "never stopped": onward, "resumed": again, "resumed with a tenth of the rate": calmer}
    return {k: np.asarray(v) for k, v in losses.items()}, time.compilations, max(jax.tree.leaves(differences))


def draw(losses: dict[str, np.ndarray]) -> Figure:
    figure, axes = plt.subplots(figsize=(8, 4))
    middle = len(losses["before"])
    colours = (GREY, "#d3d7dd", BLUE, ORANGE)
    for (name, values), colour in zip(losses.items(), colours, strict=True):
        begin = 0 if name == "before" else middle
        width = 5 if name == "never stopped" else 1.2
        axes.plot(np.arange(begin, begin + len(values)), values, color=colour, linewidth=width, label=name)
    axes.axvline(middle, color="black", linewidth=1, linestyle="--")
    axes.set(xlabel="step", ylabel="training loss (nats)", yscale="log")
    axes.set_title("Resumed from a file")
    axes.legend(loc="lower left")
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="steps of a whole run (default 400)")
    parser.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path("out"), help="folder for the checkpoint and the picture"
    )
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "checkpoint.msgpack"
    losses, compilations, difference = measure(options.steps, file)
    print(
        aligned(
            [
                ("size of the checkpoint", f"{file.stat().st_size / 1024:.0f} KiB"),
                ("greatest difference of the resumed params", f"{difference:g}"),
                ("compilations after the checkpoint", f"{compilations}"),
                *((f"last loss, {name}", f"{values[-1]:.4f}") for name, values in losses.items() if name != "before"),
            ]
        )
    )
    draw(losses).savefig(options.out / "checkpoint.png")


if __name__ == "__main__":
    main()
