"""Population-based training: the worst take over weights and hyperparameters of the best and vary them.

Members of one population learn handwritten digits, with learning rate, momentum and weight decay of their own. A
generation is one compiled program: all members train, `take` copies the best over the worst (exploit), and the copies'
hyperparameters are multiplied by random factors (explore). Beside it the same population left alone. The picture
shows the hyperparameters over time.

References:
    Jaderberg et al., Population Based Training of Neural Networks, 2017, https://arxiv.org/abs/1711.09846
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from tqdm import tqdm

import example_program
import pytreeopt as optax
from demo_report import BLUE, GREY, Report, plt
from demo_stopwatch import Stopwatch
from demo_training import Digits, Task, accuracy, loss, run_steps, segments
from example_program import Setting
from pytreeopt import population as populations
from pytreeopt.population import log_uniform


@jax.jit
def generation(members, batches: Digits, validation: Digits, key: jax.Array, share: float):
    """Trains every member, then copies the best `share` of them over the worst; returns the validation losses too."""
    optimizers, params, states = members
    params, states, _ = jax.vmap(run_steps, in_axes=(0, 0, 0, None))(optimizers, params, states, batches)
    losses = jax.vmap(loss, in_axes=(0, None))(params, validation)
    count = len(losses)

    rank = jnp.argsort(jnp.argsort(losses))  # of each member; nan ranks last
    is_bad = rank >= count - jnp.floor(share * count)
    parents = jnp.where(is_bad, jnp.argsort(losses)[count - 1 - rank], jnp.arange(count))
    members = populations.take((optimizers, params, states), parents)
    return explore(members[0], is_bad, key), *members[1:], losses


def explore(optimizers: optax.AdamW, is_new: jax.Array, key: jax.Array) -> optax.AdamW:
    """Multiplies the hyperparameters of new members by 0.7 or 1.4, each by a draw of its own."""
    factors = jax.random.choice(key, jnp.array([0.7, 1.4]), (3, *is_new.shape))
    rate, decay, momentum = jnp.where(is_new, factors, 1.0)
    return optax.replace(
        optimizers,
        learning_rate=optimizers.learning_rate * rate,
        weight_decay=optimizers.weight_decay * decay,
        b1=1 - jnp.minimum((1 - optimizers.b1) * momentum, 1.0),
    )


@dataclasses.dataclass(frozen=True)
class History:
    """Hyperparameters and validation losses as [generation, member], and how the best member does at the end."""

    hyperparams: dict[str, np.ndarray]
    losses: np.ndarray
    losses_alone: np.ndarray  # of the same population without exploit and explore
    accuracy: float  # of the member with the lowest validation loss, in percent, on the test digits
    accuracy_alone: float
    time: Stopwatch

    def table(self) -> list[tuple[str, ...]]:
        generations, members = self.losses.shape
        both = self.losses, self.losses_alone
        return [
            (f"{members} members, {generations} generations", "population-based", "left alone"),
            ("best validation loss", *(f"{np.nanmin(losses[-1]):.4f} nats" for losses in both)),
            ("median validation loss", *(f"{np.nanmedian(losses[-1]):.4f} nats" for losses in both)),
            ("test accuracy of the best", f"{self.accuracy:.1f} %", f"{self.accuracy_alone:.1f} %"),
            ("compilations", f"{self.time.compilations}", ""),
        ]

    def summary(self) -> str:
        ours, alone = np.nanmedian(self.losses[-1]), np.nanmedian(self.losses_alone[-1])
        return f"median validation loss {ours:.3f}, left alone {alone:.3f}; compilations: {self.time.compilations}"

    def draw(self) -> Figure:
        figure, axes = plt.subplots(2, 2, figsize=(10, 6.5), sharex=True)
        norm = LogNorm(np.nanmin(self.losses), min(np.nanmax(self.losses), 2.3), clip=True)
        shown = {name: self.hyperparams[name] for name in ("learning_rate", "weight_decay")}
        shown["1 - b1"] = 1 - self.hyperparams["b1"]
        times = np.broadcast_to(np.arange(len(self.losses))[:, None], self.losses.shape)
        for panel, (name, values) in zip(axes.flat, shown.items(), strict=False):
            panel.plot(values, color=GREY, linewidth=0.4, alpha=0.5)
            points = panel.scatter(times, values, c=self.losses, cmap="viridis_r", norm=norm, s=12)
            panel.set(yscale="log", ylabel=name)
        figure.colorbar(points, ax=axes, label="validation loss (nats)")
        for losses, colour, name in ((self.losses_alone, GREY, "left alone"), (self.losses, BLUE, "population-based")):
            axes[1, 1].plot(np.nanmedian(losses, axis=1), color=colour, label=f"{name}, median")
            axes[1, 1].plot(np.nanmin(losses, axis=1), "--", color=colour, label="best")
        axes[1, 1].set(yscale="log", ylabel="validation loss (nats)")
        axes[1, 1].legend(fontsize=8)
        for panel in axes[1]:
            panel.set(xlabel="generation")
        figure.suptitle(f"{self.losses.shape[1]} members over {len(self.losses)} generations", fontweight="bold")
        return figure


def measure(seed: int, members: int = 32, generations: int = 24, steps: int = 20) -> History:
    task = Task.load(seed)
    for_sample, *for_generations = jax.random.split(jax.random.key(seed), generations + 1)
    drawn = {
        "learning_rate": log_uniform(1e-5, 1e-1),
        "weight_decay": log_uniform(1e-4, 1e1),
        "b1": lambda key, shape: 1 - log_uniform(1e-2, 1.0)(key, shape),
    }
    optimizers = populations.sample(for_sample, optax.adamw(learning_rate=1e-3), members, drawn)
    params, states = jax.vmap(lambda optimizer: (task.params, optimizer.init(task.params)))(optimizers)
    parts = segments(task.batches(generations * steps, seed), generations)

    def run(share: float, description: str):
        population, settings, losses = (optimizers, params, states), [], []
        for part, key in zip(tqdm(parts, desc=description), for_generations, strict=True):
            settings.append(optax.hyperparams(population[0]))
            *population, values = generation(tuple(population), part, task.validation, key, share)
            losses.append(np.asarray(values))
        trained = populations.take(population[1], int(np.nanargmin(losses[-1])))
        return settings, np.array(losses), float(accuracy(trained, task.test))

    generation.clear_cache()
    with Stopwatch() as time:
        generation.lower((optimizers, params, states), parts[0], task.validation, for_generations[0], 0.25).compile()
    settings, losses, reached = run(0.25, "population-based")
    _, losses_alone, reached_alone = run(0.0, "left alone")
    values = {name: np.array([setting[name] for setting in settings]) for name in drawn}
    return History(values, losses, losses_alone, reached, reached_alone, time)


def main(arguments: Sequence[str] | None = None) -> Report:
    return example_program.run(
        "population_based_training.py",
        __doc__,
        measure,
        arguments,
        members=Setting(32, 4, "members of the population"),
        generations=Setting(24, 2, "generations"),
        steps=Setting(20, 1, "training steps in a generation"),
    )


if __name__ == "__main__":
    main()
