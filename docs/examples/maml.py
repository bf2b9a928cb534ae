"""Model-agnostic meta-learning: an initialisation, and an inner optimizer, from which a few steps fit a new sine.

The inner loop is `sgd`, a pytree like the parameters: the outer optimizer descends both at once, the parameters by the
gradient through the inner steps and the inner learning rate by its own. Beside it the same network trained on all sines
without an inner loop. The picture shows both fitted to a new sine from ten points.

References:
    Finn et al., Model-Agnostic Meta-Learning, 2017, https://arxiv.org/abs/1703.03400
    Li et al., Meta-SGD, 2017, https://arxiv.org/abs/1707.09835
"""

import dataclasses
from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import example_program
import pytreeopt as optax
from demo_report import BLUE, GREY, ORANGE, Report, plt
from demo_training import PyTree
from example_program import Setting

TASKS, SHOTS, TRIED = 25, 10, 200


class Network(nn.Module):
    @nn.compact
    def __call__(self, x):
        for _ in range(2):
            x = nn.relu(nn.Dense(40)(x))
        return nn.Dense(1)(x)


network = Network()


def loss(params: PyTree, points: tuple[jax.Array, jax.Array]) -> jax.Array:
    x, y = points
    return ((network.apply(params, x) - y) ** 2).mean()


def sine(key: jax.Array, x: jax.Array) -> jax.Array:
    """A sine of random height and phase."""
    for_height, for_phase = jax.random.split(key)
    height = jax.random.uniform(for_height, minval=0.1, maxval=5)
    return height * jnp.sin(x + jax.random.uniform(for_phase, maxval=jnp.pi))


def draw_points(key: jax.Array) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
    """Points of one sine: some to fit, others to judge the fit by."""
    for_x, for_sine = jax.random.split(key)
    x = jax.random.uniform(for_x, (2, SHOTS, 1), minval=-5, maxval=5)
    y = sine(for_sine, x)
    return (x[0], y[0]), (x[1], y[1])


def adapt(inner: optax.GradientTransformation, params: PyTree, points, steps: int) -> PyTree:
    """The inner loop."""
    bound = optax.bind(inner, params)
    for _ in range(steps):
        params, bound = bound.step(jax.grad(loss)(params, points), params)
    return params


def adapted_loss(meta: tuple[PyTree, optax.GradientTransformation], key: jax.Array, steps: int) -> jax.Array:
    params, inner = meta
    given, hidden = draw_points(key)
    return loss(adapt(inner, params, given, steps), hidden)


@dataclasses.dataclass(frozen=True)
class Fits:
    """Both networks: what they learn, and how they fit new sines after each number of inner steps."""

    curves: dict[str, np.ndarray]
    errors: dict[str, np.ndarray]  # squared error on new sines after 0, 1, ... inner steps
    rates: tuple[float, float]
    x: np.ndarray
    sine: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # given x and y, all x and y
    predictions: dict[str, np.ndarray]

    def table(self) -> list[tuple[str, ...]]:
        steps = len(self.errors["meta-learned"]) - 1
        return [
            ("squared error on new sines", *self.errors),
            ("before fitting", *(f"{errors[0]:.3f}" for errors in self.errors.values())),
            ("after 1 step", *(f"{errors[1]:.3f}" for errors in self.errors.values())),
            (f"after {steps} steps", *(f"{errors[-1]:.3f}" for errors in self.errors.values())),
            ("inner learning rate", f"{self.rates[0]:.3g} -> {self.rates[1]:.3g}"),
        ]

    def summary(self) -> str:
        meta, plain = (self.errors[name][-1] for name in ("meta-learned", "trained on all"))
        return f"squared error after the inner steps {meta:.3f} meta-learned, {plain:.3f} trained on all sines"

    def draw(self) -> Figure:
        figure, (error, fit) = plt.subplots(1, 2, figsize=(10, 4.2))
        colours = {"meta-learned": BLUE, "trained on all": ORANGE}
        given_x, given_y, x, y = self.sine
        fit.plot(x, y, color=GREY, linewidth=3, alpha=0.5, label="new sine")
        fit.plot(given_x, given_y, "o", color="black", markersize=4, label=f"{SHOTS} points of it")
        for name, errors in self.errors.items():
            error.plot(errors, color=colours[name], marker="o", markersize=4, label=name)
            fit.plot(x, self.predictions[name], color=colours[name], label=name)
        error.set(xlabel="inner steps", ylabel="squared error on new sines", yscale="log")
        error.xaxis.get_major_locator().set_params(integer=True)
        error.set_title("A few steps fit a new sine")
        error.legend()
        fit.set(xlabel="x", ylabel="y")
        fit.set_title(f"One of middling difficulty, after {len(errors) - 1} steps")
        fit.legend(fontsize=8)
        return figure


def measure(seed: int, steps: int = 6000, inner: int = 3) -> Fits:
    keys = iter(jax.random.split(jax.random.key(seed), 3))
    params = network.init(next(keys), jnp.zeros((1, 1)))
    training, tried = next(keys), jax.random.split(next(keys), TRIED)
    start = params, optax.as_arrays(optax.sgd(learning_rate=0.02))

    meta, curve = _train(start, training, steps, inner)
    (plain, _), plain_curve = _train(start, training, steps, 0)
    learned = {"meta-learned": meta, "trained on all": (plain, meta[1])}

    every = jax.vmap(adapted_loss, in_axes=(None, 0, None))
    by_difficulty = jnp.argsort(every(learned["trained on all"], tried, inner))
    shown = tried[by_difficulty[TRIED // 2]]
    given, _ = draw_points(shown)
    x = jnp.linspace(-5, 5, 200)[:, None]
    y = sine(jax.random.split(shown)[1], x)

    def errors(meta):
        return jnp.stack([every(meta, tried, count).mean() for count in range(inner + 1)])

    def prediction(meta):
        return network.apply(adapt(meta[1], meta[0], given, inner), x)

    judge = jax.jit(lambda meta: (errors(meta), prediction(meta)))
    judged = {name: jax.tree.map(np.asarray, judge(meta)) for name, meta in learned.items()}
    return Fits(
        curves={"meta-learned": curve, "trained on all": plain_curve},
        errors={name: result[0] for name, result in judged.items()},
        rates=(float(start[1].learning_rate), float(meta[1].learning_rate)),
        x=np.asarray(x),
        sine=tuple(map(np.asarray, (*given, x, y))),
        predictions={name: result[1] for name, result in judged.items()},
    )


def _train(meta, key: jax.Array, steps: int, inner: int, calls: int = 20):
    """The outer loop: one optimizer for the parameters and for the inner optimizer."""
    outer = optax.adam(learning_rate=1e-3)

    def outer_loss(meta, key):
        return jax.vmap(lambda key: adapted_loss(meta, key, inner))(jax.random.split(key, TASKS)).mean()

    @jax.jit
    def train(meta, bound, keys):
        def step(carry, key):
            meta, bound = carry
            value, gradient = jax.value_and_grad(outer_loss)(meta, key)
            return bound.step(gradient, meta), value

        (meta, bound), losses = jax.lax.scan(step, (meta, bound), keys)
        return meta, bound, losses

    bound, curve = optax.bind(outer, meta), []
    calls = min(calls, steps)
    keys = jax.random.split(key, (calls, steps // calls))
    for part in tqdm(keys, desc=f"{steps} outer steps, {inner} inner"):
        meta, bound, losses = train(meta, bound, part)
        curve.append(np.asarray(losses))
    return meta, np.concatenate(curve)


def main(arguments: Sequence[str] | None = None) -> Report:
    return example_program.run(
        "maml.py",
        __doc__,
        measure,
        arguments,
        steps=Setting(6000, 1, "outer steps"),
        inner=Setting(3, 1, "inner steps"),
    )


if __name__ == "__main__":
    main()
