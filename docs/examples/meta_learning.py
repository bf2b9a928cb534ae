"""Adam's learning rate and betas learned by differentiating through a whole training.

The validation loss after some steps on handwritten digits is a function of the optimizer. `jax.grad` descends it by its
gradient, `jax.hessian` by Newton's method; `jax.checkpoint` recomputes the training in segments, so that memory grows
with the root of the number of steps. The picture shows the loss and the hyperparameters on the way.
"""

import dataclasses
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import example_program
import pytreeopt as optax
from demo_report import BLUE, GREY, ORANGE, Report, plt
from demo_training import Digits, PyTree, Task, loss, run_steps
from example_program import Setting

# Pixels that are always blank have no gradient; the positive eps_root makes the root's second derivative finite there.
ADAM = optax.adam(learning_rate=1e-3, b1=0.9, b2=0.999, eps_root=1e-12)


def optimizer_at(point: jax.Array) -> optax.Adam:
    """Any three numbers make a learning rate and betas that are valid."""
    return optax.replace(
        ADAM, learning_rate=jnp.exp(point[0]), b1=jax.nn.sigmoid(point[1]), b2=jax.nn.sigmoid(point[2])
    )


def point_of(optimizer: optax.Adam) -> jax.Array:
    rate, b1, b2 = (float(x) for x in (optimizer.learning_rate, optimizer.b1, optimizer.b2))
    return jnp.array([math.log(rate), math.log(b1 / (1 - b1)), math.log(b2 / (1 - b2))])


def train_in_segments(optimizer: optax.GradientTransformation, params: PyTree, batches: Digits, count: int) -> PyTree:
    """The trained parameters. Reverse mode keeps the state at `count` steps and recomputes what lies between."""

    @jax.checkpoint
    def segment(carry, part):
        params, state, _ = run_steps(optimizer, *carry, part)
        return (params, state), None

    parts = jax.tree.map(lambda x: x.reshape(count, -1, *x.shape[1:]), batches)
    (params, _), _ = jax.lax.scan(segment, (params, optimizer.init(params)), parts)
    return params


@dataclasses.dataclass(frozen=True)
class Learned:
    """The validation loss and the hyperparameters (learning rate, b1, b2) along both descents."""

    unrolled: int
    first_order: tuple[np.ndarray, np.ndarray]
    second_order: tuple[np.ndarray, np.ndarray]
    memory: dict[str, int]  # temporary bytes of the compiled gradient

    def table(self) -> list[tuple[str, ...]]:
        (losses, path), (newton_losses, newton_path) = self.first_order, self.second_order
        columns = [(losses[0], path[0]), (losses.min(), path[losses.argmin()])]
        columns.append((newton_losses.min(), newton_path[newton_losses.argmin()]))
        return [
            (f"through {self.unrolled} steps", "start", f"{len(losses)} gradients", f"{len(newton_losses)} Hessians"),
            ("learning rate", *(f"{at[0]:.3g}" for _, at in columns)),
            ("b1", *(f"{at[1]:.3f}" for _, at in columns)),
            ("b2", *(f"{at[2]:.4f}" for _, at in columns)),
            ("validation loss", *(f"{value:.3f} nats" for value, _ in columns)),
            *((f"memory of the gradient, {name}", f"{size / 2**20:.1f} MiB") for name, size in self.memory.items()),
        ]

    def summary(self) -> str:
        losses, newton = self.first_order[0], self.second_order[0]
        return f"validation loss {losses[0]:.3f} -> {losses.min():.3f} by gradients, {newton.min():.3f} by Newton steps"

    def draw(self) -> Figure:
        figure, (curve, paths) = plt.subplots(1, 2, figsize=(10.5, 4.2))
        both = {"gradient (Adam)": (self.first_order, BLUE), "Hessian (Newton)": (self.second_order, ORANGE)}
        for name, ((losses, path), colour) in both.items():
            curve.plot(losses, color=colour, marker="o", markersize=3, label=name)
            for values, line, label in (
                (path[:, 0], "-", "learning rate"),
                (1 - path[:, 1], "--", "1 - b1"),
                (1 - path[:, 2], ":", "1 - b2"),
            ):
                paths.plot(values, line, color=colour, label=label if colour == BLUE else None)
        curve.set(xlabel="descent step", ylabel=f"validation loss after {self.unrolled} steps (nats)", yscale="log")
        curve.set_title("Learned through the whole training")
        curve.legend()
        paths.set(xlabel="descent step", yscale="log")
        paths.set_title("The hyperparameters on the way")
        legend = paths.legend()
        for handle in legend.legend_handles:
            handle.set_color(GREY)
        return figure


def measure(seed: int, unrolled: int = 64, descents: int = 30) -> Learned:
    task = Task.load(seed)
    segments = math.isqrt(unrolled)
    unrolled = segments**2
    batches = task.batches(unrolled, seed)

    def validation_loss(point):
        return loss(train_in_segments(optimizer_at(point), task.params, batches, segments), task.validation)

    def without_checkpoints(point):
        optimizer = optimizer_at(point)
        params, _, _ = run_steps(optimizer, task.params, optimizer.init(task.params), batches)
        return loss(params, task.validation)

    def gradient_twice(point):
        value, gradient = jax.value_and_grad(validation_loss)(point)
        return gradient, (value, gradient)

    start = point_of(ADAM)
    first = jax.jit(jax.value_and_grad(validation_loss)).lower(start).compile()
    second = jax.jit(jax.jacfwd(gradient_twice, has_aux=True))
    plain = jax.jit(jax.value_and_grad(without_checkpoints)).lower(start).compile()

    return Learned(
        unrolled,
        first_order=_descend(first, start, descents),
        second_order=_newton(second, start, max(descents // 2, 2)),
        memory={
            "every step kept": plain.memory_analysis().temp_size_in_bytes,
            f"{segments} segments": first.memory_analysis().temp_size_in_bytes,
        },
    )


def _descend(value_and_gradient, point, descents: int) -> tuple[np.ndarray, np.ndarray]:
    bound = optax.bind(optax.adam(optax.cosine_decay_schedule(0.3, descents)), point)
    losses, path = [], []
    for _ in tqdm(range(descents), desc="by gradients"):
        value, gradient = value_and_gradient(point)
        losses.append(float(value))
        path.append(_hyperparameters(point))
        point, bound = bound.step(gradient, point)
    return np.array(losses), np.array(path)


def _newton(hessian_and_more, point, descents: int) -> tuple[np.ndarray, np.ndarray]:
    """Newton steps with absolute curvatures, no longer than a radius that halves whenever the loss would rise."""
    losses, path = [], []
    best, step, radius = np.inf, np.zeros(3), 1.0
    for _ in tqdm(range(descents), desc="by Newton steps"):
        hessian, (value, gradient) = hessian_and_more(point + step)
        if value < best:
            point, best = point + step, float(value)
            curvatures, directions = np.linalg.eigh(hessian)
            newton = -directions @ (directions.T @ np.asarray(gradient) / (np.abs(curvatures) + 1e-6))
            radius = min(1.5 * radius, 2.0)
        else:
            radius /= 3
        step = newton * min(1.0, radius / np.linalg.norm(newton))
        losses.append(best)
        path.append(_hyperparameters(point))
    return np.array(losses), np.array(path)


def _hyperparameters(point: jax.Array) -> np.ndarray:
    values = optax.hyperparams(optimizer_at(point))
    return np.array([values[name] for name in ("learning_rate", "b1", "b2")])


def main(arguments: Sequence[str] | None = None) -> Report:
    return example_program.run(
        "meta_learning.py",
        __doc__,
        measure,
        arguments,
        unrolled=Setting(64, 4, "training steps to differentiate through, rounded down to a square"),
        descents=Setting(30, 2, "gradient steps; there are half as many Newton steps"),
    )


if __name__ == "__main__":
    main()
