"""Flax's `TrainState`, with the optimizer as a part of the tree."""

from typing import Any

from flax import struct
from flax.training import train_state

from pytreeopt.base import as_dynamic


class TrainState(train_state.TrainState):
    """Flax's `TrainState` whose `tx` is a pytree node, not a static field.

    `state.replace(tx=state.tx.replace(learning_rate=3e-4))` compiles nothing anew, `vmap` trains a population of
    states, and a checkpoint of the state holds the hyperparameters. Optax's own optimizers stay static in it;
    `from_optax` opens them.
    """

    tx: Any = struct.field(pytree_node=True)

    def __post_init__(self):
        object.__setattr__(self, "tx", as_dynamic("tx", self.tx))
