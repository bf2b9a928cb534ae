"""Hyperparameters learned by gradient descent: `grad` through a whole training, by the optimizer."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from tqdm import tqdm

import pytreeopt as optax
from demo_report import BLUE, plt
from demo_stopwatch import Stopwatch
from demo_training import Task, loss, train


@dataclasses.dataclass(frozen=True)
class Descent:
    """The path of the hyperparameters, and the validation loss at each of its points and around it."""

    unrolled: int
    losses: np.ndarray  # validation loss after the unrolled steps, at each point of the path
    rates: np.ndarray
    b1s: np.ndarray
    landscape_rates: np.ndarray
    landscape_b1s: np.ndarray
    landscape: np.ndarray  # validation loss [b1, learning rate]
    time: Stopwatch

    def table(self) -> list[tuple[str, ...]]:
        return [
            (f"through {self.unrolled} steps", "start", f"after {len(self.losses) - 1} descents"),
            ("learning rate", f"{self.rates[0]:.3g}", f"{self.rates[-1]:.3g}"),
            ("b1", f"{self.b1s[0]:.3f}", f"{self.b1s[-1]:.3f}"),
            ("validation loss", f"{self.losses[0]:.3f} nats", f"{self.losses[-1]:.3f} nats"),
            ("compilations", "", f"{self.time.compilations}"),
            ("compiling", "", f"{self.time.compiling:.2f} s"),
            ("running", "", f"{self.time.running:.2f} s"),
        ]

    def summary(self) -> str:
        return (
            f"gradient descent on learning rate and b1 through {self.unrolled} steps: "
            f"validation loss {self.losses[0]:.3f} -> {self.losses[-1]:.3f}"
        )

    def draw(self) -> Figure:
        figure, (curve, plane) = plt.subplots(1, 2, figsize=(11, 4.4), width_ratios=(1, 1.25))
        curve.plot(self.losses, color=BLUE, marker="o", markersize=3.5)
        curve.set(xlabel="descent step", ylabel=f"validation loss after {self.unrolled} steps (nats)")
        curve.set_ylim(bottom=0)
        curve.set_title("The loss falls")

        levels = np.geomspace(np.nanmin(self.landscape), 3.0, 16)  # a guess costs log(10) = 2.3
        filled = plane.contourf(
            self.landscape_rates, self.landscape_b1s, self.landscape, levels, cmap="viridis_r", norm="log", extend="max"
        )
        plane.plot(self.rates, self.b1s, color="white", linewidth=3.5)
        plane.plot(self.rates, self.b1s, color="crimson", marker="o", markersize=3.5)
        halo = [withStroke(linewidth=3, foreground="white")]
        for i, label in ((0, "start"), (-1, "end")):
            at = self.rates[i], self.b1s[i]
            plane.annotate(label, at, (7, 5), textcoords="offset points", color="crimson", path_effects=halo)
        plane.set(xlabel="learning rate", ylabel="b1", xscale="log")
        plane.set_title("The path over the landscape")
        plane.grid(False)
        ticks = [tick for tick in (0.05, 0.1, 0.2, 0.5, 1, 2, 5) if levels[0] <= tick <= levels[-1]]
        bar = figure.colorbar(filled, ticks=ticks, format="%g", label="validation loss (nats)")
        bar.minorticks_off()
        return figure


def measure(task: Task, seed: int, descents: int = 40, unrolled: int = 50, resolution: int = 24) -> Descent:
    """Descends from what is often Adam's default: learning rate 1e-3, b1 0.9."""
    batches = task.batches(unrolled, seed)

    def optimizer(free):
        """Any two numbers make a learning rate and a b1 that are valid."""
        return optax.adam(learning_rate=jnp.exp(free["log_rate"]), b1=jax.nn.sigmoid(free["logit_b1"]))

    def validation_loss(free):
        tx = optimizer(free)
        params, _, _ = train(tx, task.params, tx.init(task.params), batches)
        return loss(params, task.validation)

    descent = optax.adam(optax.cosine_decay_schedule(0.25, descents))

    @jax.jit
    def descend(free, state):
        value, gradient = jax.value_and_grad(validation_loss)(free)
        updates, state = descent.update(gradient, state)
        return value, optax.apply_updates(free, updates), state

    free = {"log_rate": jnp.float32(np.log(1e-3)), "logit_b1": jnp.float32(np.log(0.9 / 0.1))}
    state = descent.init(free)
    losses, path = [], []
    with Stopwatch() as time:
        for _ in tqdm(range(descents + 1), desc=f"gradient descent through {unrolled} steps"):
            path.append(free)
            value, free, state = descend(free, state)
            losses.append(float(value))

    rates, b1s = np.geomspace(5e-4, 0.5, resolution), np.linspace(0.02, 0.98, resolution)
    points = {"log_rate": np.log(rates), "logit_b1": np.log(b1s / (1 - b1s))}
    row = jax.jit(jax.vmap(validation_loss, in_axes=({"log_rate": 0, "logit_b1": None},)))
    landscape = [
        row(points | {"logit_b1": b1}) for b1 in tqdm(points["logit_b1"], desc="landscape of the validation loss")
    ]

    learned = [optimizer(free) for free in path]
    return Descent(
        unrolled=unrolled,
        losses=np.asarray(losses),
        rates=np.asarray([tx.learning_rate for tx in learned]),
        b1s=np.asarray([tx.b1 for tx in learned]),
        landscape_rates=rates,
        landscape_b1s=b1s,
        landscape=np.asarray(landscape),
        time=time,
    )
