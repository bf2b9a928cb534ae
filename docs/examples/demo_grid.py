"""A grid of optimizers, trained at once: `vmap` over learning rate and weight decay."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from tqdm import tqdm

import pytreeopt as optax
from demo_report import plt
from demo_stopwatch import Stopwatch
from demo_training import Task, accuracy, loss, segments, train


@dataclasses.dataclass(frozen=True)
class Grid:
    """What became of each optimizer: arrays of [learning rate, weight decay]."""

    rates: np.ndarray
    decays: np.ndarray
    validation_loss: np.ndarray
    accuracy: np.ndarray  # in percent, on the test digits
    steps: int
    time: Stopwatch

    @property
    def best(self) -> tuple[int, int]:
        """The optimizer to choose, by its validation loss; the test digits have no part in the choice."""
        i, j = np.unravel_index(np.nanargmin(self.validation_loss), self.validation_loss.shape)
        return int(i), int(j)

    def table(self) -> list[tuple[str, ...]]:
        i, j = self.best
        return [
            ("optimizers", f"{self.accuracy.size}"),
            ("steps of each", f"{self.steps}"),
            ("compilations", f"{self.time.compilations}"),
            ("compiling", f"{self.time.compiling:.2f} s"),
            ("running", f"{self.time.running:.2f} s"),
            ("best learning rate", f"{self.rates[i]:.2g}"),
            ("best weight decay", f"{self.decays[j]:.2g}"),
            ("its validation loss", f"{self.validation_loss[i, j]:.3f} nats"),
            ("its test accuracy", f"{self.accuracy[i, j]:.1f} %"),
        ]

    def summary(self) -> str:
        return (
            f"{self.accuracy.size} optimizers trained at once in {self.time.wall:.1f} s, "
            f"compilations: {self.time.compilations}; the best reaches {self.accuracy[self.best]:.1f} % on test"
        )

    def draw(self) -> Figure:
        figure, axes = plt.subplots(figsize=(9, 5))
        floor = 80.0  # below lies what failed; the colours are for what is worth comparing
        image = axes.imshow(self.accuracy.T, origin="lower", aspect="auto", cmap="viridis", vmin=floor, vmax=100)
        for (i, j), value in np.ndenumerate(self.accuracy):
            colour = "white" if value < 93 else "black"
            axes.text(i, j, f"{value:.1f}", ha="center", va="center", color=colour, fontsize=8)
        i, j = self.best
        axes.add_patch(Rectangle((i - 0.5, j - 0.5), 1, 1, fill=False, edgecolor="crimson", linewidth=2.5))
        axes.set_xticks(range(len(self.rates)), [f"{rate:.2g}" for rate in self.rates], rotation=45)
        axes.set_yticks(range(len(self.decays)), [f"{decay:.2g}" for decay in self.decays])
        axes.set(xlabel="peak learning rate", ylabel="weight decay")
        axes.set_title(f"{self.accuracy.size} AdamW optimizers, one compiled program (framed: lowest validation loss)")
        axes.grid(False)
        axes.spines[:].set_visible(False)
        figure.colorbar(image, extend="min", label="test accuracy (%)")
        return figure


def measure(task: Task, steps: int, seed: int, shape: tuple[int, int] = (13, 9), calls: int = 20) -> Grid:
    """Trains a grid of AdamW optimizers with a warm-up cosine schedule, in `calls` calls of one program."""
    steps -= steps % calls
    rates, decays = jnp.logspace(-4, 0, shape[0]), jnp.logspace(-3, 1, shape[1])

    def member(rate, decay):
        schedule = optax.warmup_cosine_decay_schedule(0.0, rate, warmup_steps=steps // 10, decay_steps=steps)
        return optax.adamw(schedule, weight_decay=decay)

    # One optimizer whose hyperparameters are arrays, as many parameters and states, and the function that trains one.
    population = jax.vmap(member)(*map(jnp.ravel, jnp.meshgrid(rates, decays, indexing="ij")))
    params, state = jax.vmap(lambda optimizer: (task.params, optimizer.init(task.params)))(population)
    train_population = jax.jit(jax.vmap(train, in_axes=(0, 0, 0, None)))

    parts = segments(task.batches(steps, seed), calls)
    with Stopwatch() as time:
        for part in tqdm(parts, desc=f"training {rates.size * decays.size} optimizers"):
            params, state, losses = train_population(population, params, state, part)
            losses.block_until_ready()

    def evaluate(function, digits):
        return np.asarray(jax.vmap(function, in_axes=(0, None))(params, digits)).reshape(shape)

    return Grid(
        rates=np.asarray(rates),
        decays=np.asarray(decays),
        validation_loss=evaluate(loss, task.validation),
        accuracy=evaluate(accuracy, task.test),
        steps=steps,
        time=time,
    )
