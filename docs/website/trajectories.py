"""A picture for each optimizer: its path on two functions of two variables, with the best of many learning rates.

The optimizers are those of the parity rows, with their defaults. One compiled program trains each with every rate on
both functions.
"""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import pytreeopt as optax
from demo_report import BLUE, GREY, ORANGE, plt
from facts import Optimizer, optimizers
from parity.problems import quadratic, rosenbrock

STEPS = 150
RATES = np.geomspace(1e-4, 10.0, 41)
WITHOUT_RATE = ("cocob", "dadapt_adamw", "dog", "dowg", "lbfgs", "polyak_sgd", "prodigy")  # run as they come
SETTINGS = {"galore": {"update_proj_gap": 2}}  # a single projection would confine the path to a line
PER_EXAMPLE = ("dpsgd",)  # gradients have an axis of examples in front


class Plane(NamedTuple):
    """A function to descend, and where to look at it."""

    title: str
    function: Callable[[jax.Array], jax.Array]
    start: tuple[float, float]
    minimum: tuple[float, float]
    window: tuple[float, float, float, float]


PLANES = (
    Plane("a parabola, curved 1 : 10", quadratic, (-1.6, 1.3), (0.3, 0.3), (-2.1, 1.5, -1.1, 1.7)),
    Plane("Rosenbrock's valley", rosenbrock, (-1.2, 1.0), (1.0, 1.0), (-1.7, 1.7, -0.7, 1.9)),
)


class Path(NamedTuple):
    """The best of the runs on one plane."""

    points: np.ndarray  # [STEPS + 1, 2]
    rate: float | None
    loss: float


def paths(optimizer: Optimizer) -> list[Path]:
    """On each plane the run that is lowest at its worst in the last third: near the minimum, and at rest there."""
    built = dataclasses.replace(optimizer.with_defaults(), **SETTINGS.get(optimizer.name, {}))
    swept = optimizer.name not in WITHOUT_RATE
    rates = jnp.asarray(RATES if swept else RATES[:1], jnp.float32)

    def descend(rate: jax.Array, which: jax.Array, start: jax.Array) -> tuple[jax.Array, ...]:
        tx = dataclasses.replace(built, learning_rate=rate) if swept else built

        def objective(x: jax.Array) -> jax.Array:
            return jax.lax.switch(which, [plane.function for plane in PLANES], x)

        def step(carry: Any, _: None) -> tuple[Any, Any]:
            x, state = carry
            value, gradient = jax.value_and_grad(objective)(x)
            extra = {"value": value, "grad": gradient, "value_fn": objective, "obj_fn": objective}
            extra = {name: extra[name] for name in optimizer.extra}
            given = gradient[None] if optimizer.name in PER_EXAMPLE else gradient
            updates, state = tx.update(given, state, x, **extra)
            x = optax.apply_updates(x, updates)
            return (x, state), (x, value)

        (x, _), (points, losses) = jax.lax.scan(step, (start, tx.init(start)), None, STEPS)
        return jnp.concatenate([start[None], points]).reshape(-1, 2), losses[-STEPS // 3 :].max(), objective(x)

    starts = jnp.asarray([plane.start for plane in PLANES])[:, None]  # a matrix of one row, as Muon wants it
    runs = jax.vmap(jax.vmap(descend, (0, None, None)), (None, 0, 0))
    points, worst, losses = map(np.asarray, jax.jit(runs)(rates, jnp.arange(len(PLANES)), starts))
    best = np.where(np.isfinite(worst), worst, np.inf).argmin(1)
    return [Path(points[i, j], float(rates[j]) if swept else None, float(losses[i, j])) for i, j in enumerate(best)]


def draw(optimizer: Optimizer) -> Any:
    """Both planes side by side."""
    figure, axes = plt.subplots(1, len(PLANES), figsize=(8, 3.2))
    for plane, path, ax in zip(PLANES, paths(optimizer), axes, strict=True):
        left, right, bottom, top = plane.window
        x, y = np.meshgrid(np.linspace(left, right, 120), np.linspace(bottom, top, 120))
        heights = np.asarray(jax.vmap(jax.vmap(plane.function))(jnp.stack([x, y], -1)))
        ax.contour(x, y, heights, np.geomspace(0.02, 2000, 16), colors=GREY, linewidths=0.5, alpha=0.8)
        ax.plot(*path.points.T, color=BLUE, linewidth=1.2, marker=".", markersize=3.5)
        ax.plot(*plane.start, "o", color=ORANGE, markersize=7)
        ax.plot(*plane.minimum, "*", color="crimson", markersize=12)
        rate = "as it comes" if path.rate is None else f"learning rate {path.rate:.2g}"
        ax.set_title(f"{plane.title}\n{rate}, loss {path.loss:.1e}", fontsize=9, fontweight="normal")
        ax.set(xlim=(left, right), ylim=(bottom, top))
        ax.grid(False)
    return figure


def draw_all(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for optimizer in tqdm(optimizers(), desc="trajectories"):
        figure = draw(optimizer)
        figure.savefig(folder / f"{optimizer.name}.png", dpi=110)
        plt.close(figure)
