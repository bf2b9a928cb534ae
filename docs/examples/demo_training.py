"""What the parts of the demo share: handwritten digits, a small network, and one training function."""

from typing import Any, NamedTuple, Self

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import pytreeopt as optax

PyTree = Any


class Digits(NamedTuple):
    """Images of 8 x 8 pixels between 0 and 1, one a row, and what they show."""

    images: jax.Array  # float32 [..., 64]
    labels: jax.Array  # int32 [...]


class Network(nn.Module):
    """One hidden layer."""

    hidden: int = 64

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        return nn.Dense(10)(nn.relu(nn.Dense(self.hidden)(images)))


network = Network()


class Task(NamedTuple):
    """The digits in three parts, and the parameters from which every training starts."""

    training: Digits
    validation: Digits
    test: Digits
    params: PyTree

    @classmethod
    def load(cls, seed: int) -> Self:
        """Splits scikit-learn's 1797 digits 60 : 20 : 20, each class evenly; initialises the network."""
        images, labels = load_digits(return_X_y=True)
        every = Digits((images / 16).astype(np.float32), labels.astype(np.int32))
        training, rest = _split(every, 0.6, seed)
        validation, test = _split(rest, 0.5, seed)
        params = network.init(jax.random.key(seed), every.images[:1])
        return cls(training, validation, test, params)

    def batches(self, steps: int, seed: int, size: int = 64) -> Digits:
        """A batch for each step, with a leading axis of steps: the training digits, shuffled anew every epoch."""
        count = len(self.training.labels)
        generator = np.random.default_rng(seed)
        epochs = [generator.permutation(count) for _ in range(-(-steps * size // count))]
        order = np.concatenate(epochs)[: steps * size].reshape(steps, size)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf[order]), self.training)


def _split(digits: Digits, fraction: float, seed: int) -> tuple[Digits, Digits]:
    options = {"train_size": fraction, "stratify": digits.labels, "random_state": seed}
    images, other_images, labels, other_labels = train_test_split(*digits, **options)
    return Digits(images, labels), Digits(other_images, other_labels)


def segments(batches: Digits, count: int) -> list[Digits]:
    """The batches of `count` equal runs of successive steps; their number must be a multiple of it."""
    return [Digits(*leaves) for leaves in zip(*(jnp.split(leaf, count) for leaf in batches), strict=True)]


def loss(params: PyTree, digits: Digits) -> jax.Array:
    """Mean cross entropy, in nats."""
    logits = network.apply(params, digits.images)
    return optax.softmax_cross_entropy_with_integer_labels(logits, digits.labels).mean()


def accuracy(params: PyTree, digits: Digits) -> jax.Array:
    """The percentage of digits that are recognised."""
    return 100 * (network.apply(params, digits.images).argmax(-1) == digits.labels).mean()


def run_steps(
    optimizer: optax.GradientTransformation, params: PyTree, state: PyTree, batches: Digits
) -> tuple[PyTree, PyTree, jax.Array]:
    """Takes one step for each batch; returns parameters, the optimizer's state and the losses on the way."""

    def step(carry, batch):
        params, state = carry
        value, gradient = jax.value_and_grad(loss)(params, batch)
        updates, state = optimizer.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state), value

    (params, state), losses = jax.lax.scan(step, (params, state), batches)
    return params, state, losses


# The optimizer is an argument like any other. This is the training function of all four parts.
train = jax.jit(run_steps)
