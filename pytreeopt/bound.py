"""An optimizer and its state in one pytree."""

from typing import Any

import optax
from flax import struct

from pytreeopt.base import GradientTransformation, PyTree, coerce
from pytreeopt.equality import ByValue


@struct.dataclass(eq=False)
class Bound(ByValue):
    """An optimizer together with its state, to be carried as one.

    Args:
        optimizer: the optimizer; its hyperparameters may be changed at any step, with `replace`.
        state: its state.
    """

    optimizer: GradientTransformation
    state: PyTree

    def step(self, grads: PyTree, params: PyTree, **extra_args: Any) -> tuple[PyTree, "Bound"]:
        """The parameters after an update, and what to make the next one with.

        Args:
            grads: the gradients.
            params: the parameters.
            **extra_args: of `optimizer.update`: `value` for a line search, say.
        """
        updates, state = self.optimizer.update(grads, self.state, params, **extra_args)
        return optax.apply_updates(params, updates), Bound(self.optimizer, state)


def bind(optimizer: Any, params: PyTree) -> Bound:
    """The optimizer with the state in which it begins at `params`.

    >>> import jax, jax.numpy as jnp, pytreeopt
    >>> params = jnp.array(1.0)
    >>> bound = bind(pytreeopt.sgd(0.25), params)
    >>> for _ in range(2):
    ...     params, bound = bound.step(2 * params, params)
    >>> float(params)
    0.25

    It is a pytree: it goes through jit, scan, vmap and into checkpoints as one value. A population is bound by
    `jax.vmap(bind)(population, params)`. An object of Optax is taken too; its numbers stay in its closures.
    """
    optimizer = coerce(optimizer)
    return Bound(optimizer, optimizer.init(params))
