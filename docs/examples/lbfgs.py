"""L-BFGS with a line search beside Adam and gradient descent: a convex problem, all digits in every step.

Softmax regression on handwritten digits. L-BFGS runs as it comes; the other two train with many learning rates at
once, and the best counts.
"""

import argparse
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import pytreeopt as optax
from demo_report import BLUE, GREY, ORANGE, aligned, plt
from demo_training import Digits, Task

PyTree = Any
RATES = np.geomspace(1e-3, 10, 17)


def objective(digits: Digits) -> Callable[[PyTree], jax.Array]:
    """Mean cross entropy and a penalty on large weights, as a function of the params."""

    def value(params: PyTree) -> jax.Array:
        logits = digits.images @ params["weights"] + params["bias"]
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, digits.labels)
        return losses.mean() + 1e-3 * jnp.sum(params["weights"] ** 2)

    return value


def minimise(value_fn: Callable, optimizer: optax.GradientTransformation, params: PyTree, steps: int) -> jax.Array:
    """The values on the way. A line search has evaluated the last point already: its state says what it found."""
    value_and_grad = optax.value_and_grad_from_state(value_fn)

    def step(carry, _):
        params, state = carry
        value, gradient = value_and_grad(params, state=state)
        updates, state = optimizer.update(gradient, state, params, value=value, grad=gradient, value_fn=value_fn)
        return (optax.apply_updates(params, updates), state), value

    return jax.lax.scan(step, (params, optimizer.init(params)), None, steps)[1]


def sweep(value_fn: Callable, make: Callable, params: PyTree, steps: int) -> tuple[float, np.ndarray]:
    """The best learning rate for gradient descent or Adam, and its values."""

    def descend(rate):
        optimizer = make(rate)

        def step(carry, _):
            params, state = carry
            value, gradient = jax.value_and_grad(value_fn)(params)
            updates, state = optimizer.update(gradient, state, params)
            return (optax.apply_updates(params, updates), state), value

        return jax.lax.scan(step, (params, optimizer.init(params)), None, steps)[1]

    values = np.asarray(jax.jit(jax.vmap(descend))(jnp.asarray(RATES)))
    best = np.nanargmin(values[:, -1])
    return float(RATES[best]), values[best]


def measure(steps: int, seed: int = 0) -> dict[str, np.ndarray]:
    """The values of each optimizer on the way."""
    value_fn = objective(Task.load(seed).training)
    params = {"weights": jnp.zeros((64, 10)), "bias": jnp.zeros(10)}
    run = jax.jit(lambda optimizer: minimise(value_fn, optimizer, params, steps))
    rate_adam, adam = sweep(value_fn, optax.adam, params, steps)
    rate_sgd, sgd = sweep(value_fn, lambda rate: optax.sgd(rate, momentum=0.9, nesterov=True), params, steps)
    return {
        "L-BFGS": np.asarray(run(optax.lbfgs())),
        f"Adam, rate {rate_adam:.2g}": adam,
        f"SGD with momentum, rate {rate_sgd:.2g}": sgd,
    }


def draw(measured: dict[str, np.ndarray], least: float) -> Figure:
    figure, axes = plt.subplots(figsize=(8, 4))
    for (name, values), colour in zip(measured.items(), (BLUE, ORANGE, GREY), strict=True):
        axes.plot(np.maximum(values - least, 1e-7), color=colour, linewidth=2, label=name)
    axes.set(xlabel="step", ylabel="loss above the least (nats)", yscale="log")
    axes.set_title("Softmax regression, full batch")
    axes.legend()
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="steps of each optimizer (default 200)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"), help="folder for the picture")
    options = parser.parse_args(arguments)
    measured = measure(options.steps)
    least = min(float(values.min()) for values in measured.values())
    rows = [("", "loss at the end", "steps to 0.001 above the least")]
    for name, values in measured.items():
        reached = np.flatnonzero(values < least + 1e-3)
        rows.append((name, f"{values[-1]:.6f}", f"{reached[0]}" if len(reached) else "not reached"))
    print(aligned(rows))
    options.out.mkdir(parents=True, exist_ok=True)
    draw(measured, least).savefig(options.out / "lbfgs.png")


if __name__ == "__main__":
    main()
