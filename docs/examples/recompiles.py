"""How often a training step is compiled while its optimizer changes, by the way in which it is handed over.

A sweep over learning rates, then one over the length of a schedule. What is counted is how often JAX traces the step:
each time it compiles another program.
"""

import argparse
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax as upstream
from matplotlib.figure import Figure

import pytreeopt as optax
from demo_report import BLUE, ORANGE, aligned, plt

PARAMS, GRADIENT = jnp.ones(3), jnp.ones(3)


class Step:
    """A step of training that counts its compilations."""

    def __init__(self) -> None:
        self.compilations = 0

    def __call__(self, optimizer: Any, state: Any) -> Any:
        self.compilations += 1  # runs while JAX traces, and never again
        return optimizer.update(GRADIENT, state, PARAMS)


def closures(optimizers: Sequence[Any]) -> int:
    """The optimizer as a constant in a function compiled for it; as a static argument it is the same."""
    step = Step()
    for optimizer in optimizers:
        jax.jit(lambda state, optimizer=optimizer: step(optimizer, state))(optimizer.init(PARAMS))
    return step.compilations


def states(optimizers: Sequence[Any]) -> int:
    """One function for the first optimizer; the others give it their states, in which their numbers are."""
    step, first = Step(), optimizers[0]
    compiled = jax.jit(lambda state: step(first, state))
    for optimizer in optimizers:
        compiled(optimizer.init(PARAMS))
    return step.compilations


def arguments(optimizers: Sequence[Any]) -> int:
    """The optimizer as an argument like any other."""
    step = Step()
    compiled = jax.jit(lambda optimizer, state: step(optimizer, state))
    for optimizer in optimizers:
        compiled(optimizer, optimizer.init(PARAMS))
    return step.compilations


def measure(count: int) -> dict[str, tuple[int, int]]:
    """Compilations in the sweep over rates and in that over lengths."""
    rates, lengths = np.geomspace(1e-4, 1e-1, count), range(100, 100 + count)

    def swept(library: Any, make: Any) -> tuple[list[Any], list[Any]]:
        return [make(rate) for rate in rates], [make(library.cosine_decay_schedule(1e-3, n)) for n in lengths]

    closed, ours = swept(upstream, upstream.sgd), swept(optax, optax.sgd)
    injected = swept(upstream, upstream.inject_hyperparams(upstream.sgd))
    return {
        "Optax": (closures(closed[0]), closures(closed[1])),
        # A schedule stays in the closure: given another's state, the first optimizer would follow its own.
        "Optax, inject_hyperparams": (states(injected[0]), closures(injected[1])),
        "pytreeopt": (arguments(ours[0]), arguments(ours[1])),
    }


def draw(measured: dict[str, tuple[int, int]]) -> Figure:
    figure, axes = plt.subplots(figsize=(8, 2.8))
    places = np.arange(len(measured))
    sweeps = ("learning rates", "lengths of a schedule")
    for sweep, (label, shift, colour) in enumerate(zip(sweeps, (-0.2, 0.2), (BLUE, ORANGE), strict=True)):
        counts = [both[sweep] for both in measured.values()]
        bars = axes.barh(places + shift, counts, 0.36, color=colour, label=label)
        axes.bar_label(bars, padding=4)
    axes.set_yticks(places, measured)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="compilations", xlim=(0, 1.1 * max(map(max, measured.values()))))
    axes.legend(loc="lower right")
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20, help="optimizers in each sweep (default 20)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"), help="folder for the picture")
    options = parser.parse_args(argv)
    measured = measure(options.count)
    head = ("compilations", f"{options.count} rates", f"{options.count} lengths")
    print(aligned([head, *((name, *map(str, counts)) for name, counts in measured.items())]))
    options.out.mkdir(parents=True, exist_ok=True)
    draw(measured).savefig(options.out / "recompiles.png")


if __name__ == "__main__":
    main()
