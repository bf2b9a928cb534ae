"""Learning rates of their own for layers or single weights, learned by gradient descent through the training.

`scale_by_tree(factors)` multiplies each update by a factor. Its tree may be one number, a number for each layer or an
array for each parameter, and as the optimizer is a pytree, the gradient by the factors has their structure. The factors
are learned on the validation digits with one order of the batches, and tried on the test digits with others. The
picture shows the losses, and where in the image the first layer learns fast.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import example_program
import pytreeopt as optax
from demo_report import BLUE, GREY, ORANGE, Report, plt
from demo_training import PyTree, Task, accuracy, loss, run_steps
from example_program import Setting

COLOURS = {"one for all": GREY, "one a layer": ORANGE, "one a weight": BLUE}


def optimizer_of(factors: PyTree) -> optax.Chain:
    return optax.chain(optax.scale_by_tree(factors), optax.sgd(learning_rate=0.1, momentum=0.9))


@dataclasses.dataclass(frozen=True)
class Rates:
    """For each kind of factors: the validation loss while they are learned, and what they do on new batches."""

    unrolled: int
    losses: dict[str, np.ndarray]
    factors: dict[str, PyTree]
    accuracies: dict[str, float]  # in percent, on the test digits, mean over new orders of the batches

    def table(self) -> list[tuple[str, ...]]:
        counts = [sum(np.size(x) for x in jax.tree.leaves(self.factors[name])) for name in self.losses]
        return [
            ("learning rates", *self.losses),
            ("how many", *(f"{count}" for count in counts)),
            ("validation loss, all factors 1", *(f"{losses[0]:.3f}" for losses in self.losses.values())),
            ("learned", *(f"{losses[-1]:.3f}" for losses in self.losses.values())),
            ("test accuracy, other batches", *(f"{value:.1f} %" for value in self.accuracies.values())),
        ]

    def summary(self) -> str:
        start, end = (self.losses["one a weight"][i] for i in (0, -1))
        return f"validation loss after {self.unrolled} steps {start:.3f} -> {end:.3f} with a learning rate a weight"

    def draw(self) -> Figure:
        figure, (curve, image) = plt.subplots(1, 2, figsize=(9.5, 4.2), width_ratios=(1.2, 1))
        for name, losses in self.losses.items():
            curve.plot(losses, color=COLOURS[name], marker="o", markersize=3, label=name)
        curve.set(xlabel="descent step", ylabel=f"validation loss after {self.unrolled} steps (nats)", yscale="log")
        curve.set_title("Learning rates learned")
        curve.legend()
        kernel = self.factors["one a weight"]["params"]["Dense_0"]["kernel"]
        pixels = np.exp(np.log(kernel).mean(axis=1)).reshape(8, 8)
        shown = image.imshow(pixels, cmap="viridis")
        image.set_title("Mean factor of each pixel's weights")
        image.grid(False)
        image.set(xticks=[], yticks=[])
        figure.colorbar(shown, label="factor")
        return figure


def measure(seed: int, unrolled: int = 30, descents: int = 40, orders: int = 8) -> Rates:
    task = Task.load(seed)
    batches = task.batches(unrolled, seed)

    def trained(factors, batches):
        optimizer = optimizer_of(factors)
        params, _, _ = run_steps(optimizer, task.params, optimizer.init(task.params), batches)
        return params

    def validation_loss(logarithms):
        return loss(trained(jax.tree.map(jnp.exp, logarithms), batches), task.validation)

    descent = optax.adam(optax.cosine_decay_schedule(0.3, descents))

    @jax.jit
    def descend(logarithms, bound):
        value, gradient = jax.value_and_grad(validation_loss)(logarithms)
        logarithms, bound = bound.step(gradient, logarithms)
        return value, logarithms, bound

    test_accuracy = jax.jit(lambda factors, batches: accuracy(trained(factors, batches), task.test))
    layers = {"params": dict.fromkeys(task.params["params"], jnp.zeros(()))}
    kinds = {
        "one for all": jnp.zeros(()),
        "one a layer": layers,
        "one a weight": jax.tree.map(jnp.zeros_like, task.params),
    }
    losses, factors, accuracies = {}, {}, {}
    for kind, logarithms in kinds.items():
        bound = optax.bind(descent, logarithms)
        values = []
        for _ in tqdm(range(descents), desc=kind):
            value, logarithms, bound = descend(logarithms, bound)
            values.append(float(value))
        losses[kind] = np.array(values)
        factors[kind] = jax.tree.map(jnp.exp, logarithms)
        others = [task.batches(unrolled, seed + 1 + i) for i in range(orders)]
        accuracies[kind] = float(np.mean([test_accuracy(factors[kind], other) for other in others]))
    return Rates(unrolled, losses, jax.tree.map(np.asarray, factors), accuracies)


def main(arguments: Sequence[str] | None = None) -> Report:
    return example_program.run(
        "learned_rates.py",
        __doc__,
        measure,
        arguments,
        unrolled=Setting(30, 2, "training steps to differentiate through"),
        descents=Setting(40, 2, "steps of learning the factors"),
        orders=Setting(8, 1, "new orders of the batches to try them on"),
    )


if __name__ == "__main__":
    main()
