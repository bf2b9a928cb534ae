"""The gradient of where training ends, by the optimizer, without going back through the training.

Logistic regression with weight decay on handwritten digits is strongly convex: training ends where the optimizer's
update is zero. The implicit function theorem gives the derivative of that point from one linear system, however many
steps led there; `jax.lax.custom_root` applies it and the optimizer is the argument differentiated. It is compared with
differentiating through every step, in value and in the memory of the compiled program. The picture shows the gradients
as tangents, and the memory.
"""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from tqdm import tqdm

import example_program
import pytreeopt as optax
from demo_report import BLUE, GREY, ORANGE, Report, plt
from demo_training import Digits, PyTree, Task
from example_program import Setting


def loss(params: PyTree, digits: Digits) -> jax.Array:
    """Mean cross entropy of a linear model, in nats."""
    logits = digits.images @ params["kernel"] + params["bias"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, digits.labels).mean()


def optimizer_of(weight_decay: float) -> optax.Chain:
    return optax.chain(optax.add_decayed_weights(weight_decay), optax.sgd(learning_rate=0.3, momentum=0.9))


def start() -> PyTree:
    return {"kernel": jnp.zeros((64, 10)), "bias": jnp.zeros(10)}


def steps_of(optimizer: optax.GradientTransformation, params: PyTree, digits: Digits, count: int) -> PyTree:
    """The parameters after some steps; reverse mode keeps every one of them."""

    def step(carry, _):
        params, bound = carry
        return bound.step(jax.grad(loss)(params, digits), params), None

    (params, _), _ = jax.lax.scan(step, (params, optax.bind(optimizer, params)), length=count)
    return params


def fixed_point(optimizer: optax.GradientTransformation, params: PyTree, digits: Digits, most: int = 20_000) -> PyTree:
    """The parameters at which training ends, differentiable by the optimizer."""

    def first_update(params):
        """Zero exactly where training ends: momentum has died away there."""
        return optimizer.update(jax.grad(loss)(params, digits), optimizer.init(params), params)[0]

    def train(_, params):
        def is_moving(carry):
            _, _, updates, count = carry
            return (optax.tree.norm(updates) > 1e-7) & (count < most)

        def step(carry):
            params, state, _, count = carry
            updates, state = optimizer.update(jax.grad(loss)(params, digits), state, params)
            return optax.apply_updates(params, updates), state, updates, count + 1

        begin = params, optimizer.init(params), first_update(params), 0
        return jax.lax.while_loop(is_moving, step, begin)[0]

    def solve(tangent, y):
        """Solves tangent(x) = y. It is minus the learning rate times the Hessian, symmetric and negative."""
        negative = lambda x: jax.tree.map(jnp.negative, tangent(x))
        conjugate_gradients = lambda matvec, b: jax.scipy.sparse.linalg.cg(matvec, b, tol=1e-6)[0]
        minus_y = jax.tree.map(jnp.negative, y)
        return jax.lax.custom_linear_solve(negative, minus_y, conjugate_gradients, symmetric=True)

    return jax.lax.custom_root(first_update, params, train, solve)


@dataclasses.dataclass(frozen=True)
class Gradients:
    """Validation loss and its gradient at some weight decays, both ways, and the memory of both programs."""

    steps: int
    decays: np.ndarray
    losses: np.ndarray
    implicit: list[optax.Chain]
    unrolled: list[optax.Chain]
    memory_implicit: int  # temporary bytes of the compiled gradient
    memory_unrolled: dict[int, int]  # by number of steps

    @property
    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        """The derivatives by the weight decay: implicit and unrolled."""
        both = ([optax.hyperparams(x)["0.weight_decay"] for x in each] for each in (self.implicit, self.unrolled))
        return tuple(np.array(x) for x in both)

    @property
    def difference(self) -> float:
        implicit, unrolled = self.slopes
        return float(np.max(np.abs(implicit / unrolled - 1)))

    def table(self) -> list[tuple[str, ...]]:
        middle = len(self.decays) // 2
        names = optax.hyperparams(self.implicit[middle])
        both = optax.hyperparams(self.implicit[middle]), optax.hyperparams(self.unrolled[middle])
        return [
            (f"gradient at weight decay {self.decays[middle]:.2g}", "implicit", f"through {self.steps} steps"),
            *((f"by {name}", *(f"{gradient[name]:.6f}" for gradient in both)) for name in names),
            ("largest relative difference by weight decay", "", f"{self.difference:.1e}"),
            (
                "memory",
                f"{self.memory_implicit / 2**20:.2f} MiB",
                f"{self.memory_unrolled[self.steps] / 2**20:.2f} MiB",
            ),
        ]

    def summary(self) -> str:
        ratio = self.memory_unrolled[self.steps] / self.memory_implicit
        agree = f"the gradients agree to {self.difference:.0e}"
        return f"{agree}; through {self.steps} steps it takes {ratio:.0f} times the memory"

    def draw(self) -> Figure:
        figure, (curve, memory) = plt.subplots(1, 2, figsize=(10, 4.2))
        curve.plot(self.decays, self.losses, "o-", color=GREY, markersize=4, label="validation loss")
        for slopes, colour, width, name in zip(
            self.slopes, (BLUE, ORANGE), (5, 1.5), ("implicit", "unrolled"), strict=True
        ):
            for i, (decay, value, slope) in enumerate(zip(self.decays, self.losses, slopes, strict=True)):
                ends = decay * np.array([0.75, 1.33])
                label = f"{name} gradient" if i == 0 else None
                curve.plot(ends, value + slope * (ends - decay), color=colour, linewidth=width, label=label)
        curve.set(xlabel="weight decay", ylabel="validation loss where training ends (nats)", xscale="log")
        curve.set_xticks(self.decays, [f"{decay:.2g}" for decay in self.decays])
        curve.xaxis.set_minor_locator(NullLocator())
        curve.set_title("The gradients are tangents")
        curve.legend()
        counts, sizes = zip(*self.memory_unrolled.items(), strict=True)
        memory.plot(counts, np.array(sizes) / 2**20, "o-", color=ORANGE, label="through every step")
        memory.axhline(self.memory_implicit / 2**20, color=BLUE, label="implicit")
        memory.set(xlabel="training steps", ylabel="temporary memory of the gradient (MiB)", yscale="log")
        memory.set_title("The memory does not grow")
        memory.legend()
        return figure


def measure(seed: int, steps: int = 800, points: int = 5) -> Gradients:
    task = Task.load(seed)
    training, validation = (jax.tree.map(jnp.asarray, digits) for digits in (task.training, task.validation))

    def gradient_of(train: Callable[[optax.Chain], PyTree]):
        return jax.jit(jax.value_and_grad(lambda optimizer: loss(train(optimizer), validation)))

    def through(count: int):
        return gradient_of(lambda optimizer: steps_of(optimizer, start(), training, count))

    decays = np.geomspace(0.03, 0.3, points)
    optimizers = [optimizer_of(float(decay)) for decay in decays]
    implicit = gradient_of(lambda optimizer: fixed_point(optimizer, start(), training)).lower(optimizers[0]).compile()
    unrolled = {count: through(count).lower(optimizers[0]).compile() for count in (steps // 4, steps // 2, steps)}
    both = [
        (implicit(x), unrolled[steps](x)) for x in tqdm(optimizers, desc="gradients, implicit and through all steps")
    ]
    return Gradients(
        steps,
        decays,
        losses=np.array([value for (value, _), _ in both]),
        implicit=[gradient for (_, gradient), _ in both],
        unrolled=[gradient for _, (_, gradient) in both],
        memory_implicit=implicit.memory_analysis().temp_size_in_bytes,
        memory_unrolled={n: program.memory_analysis().temp_size_in_bytes for n, program in unrolled.items()},
    )


def main(arguments: Sequence[str] | None = None) -> Report:
    return example_program.run(
        "implicit.py",
        __doc__,
        measure,
        arguments,
        steps=Setting(800, 4, "steps of the training that is differentiated through"),
        points=Setting(5, 1, "weight decays at which the gradients are taken"),
    )


if __name__ == "__main__":
    main()
