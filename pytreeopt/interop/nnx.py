"""Flax NNX: an optimizer whose hyperparameters are data of the graph, like the model's parameters."""

from typing import Any

from flax import nnx

from pytreeopt._classes import concrete_classes
from pytreeopt.base import AbstractHyperparameters, coerce
from pytreeopt.interop.optax import as_arrays


class Optimizer(nnx.Optimizer):
    """NNX's `Optimizer` whose `tx` is data: `optimizer.tx = optimizer.tx.replace(...)` compiles nothing anew.

    The hyperparameters are kept as weakly typed arrays, since NNX takes Python numbers for part of the program. They
    are in the state that `nnx.split` returns, and so in a checkpoint. Optax's own optimizers stay static in it;
    `from_optax` opens them.
    """

    tx: Any = nnx.data()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, as_arrays(coerce(value)) if name == "tx" else value)


def register(*classes: type[AbstractHyperparameters]) -> None:
    """Tells NNX that objects of these classes are data when they are assigned to an attribute of a module.

    A plain `nnx.Optimizer` then takes optimizers with arrays for hyperparameters, `as_arrays(tx)` say, and a new
    number compiles nothing anew.

    Args:
        classes: the classes; without any, all of this package.
    """
    for cls in classes or concrete_classes():
        nnx.register_data_type(cls)
