"""A factor for each parameter."""

from typing import Any, final

import jax
from flax import struct

from pytreeopt.base import AbstractStateless, PyTree, as_dynamic
from pytreeopt.errors import StructureError, in_one_line
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import in_precision_of


def as_tree_of_numbers(name: str, value: Any) -> Any:
    """The tree with each leaf as a hyperparameter; its containers stay what they are."""
    return jax.tree.map(lambda leaf: as_dynamic(name, leaf), value)


@final
class ScaleByTree(AbstractStateless):
    """Multiplies each update by the factor of its parameter, in the precision of the update.

    So learning rates of their own, per layer, parameter or element, can be set and, the factors being leaves, learned.

    Args:
        factors: tree of numbers with the structure of the updates or a prefix of it, in which a number stands for all
            that is below; an array must have, or be broadcast to, the shape of its update.
    """

    factors: PyTree = struct.field(metadata={"convert": as_tree_of_numbers})

    def transform(self, updates, params):
        try:
            factors = jax.tree.map(lambda factor, below: jax.tree.map(lambda _: factor, below), self.factors, updates)
        except ValueError as error:
            raise StructureError(
                f"has factors that are no prefix of the tree of updates ({in_one_line(error)})"
            ) from None
        return leafwise(_scaled, updates, factors)


def _scaled(update: Any, factor: Any) -> Any:
    scaled = factor * update
    if scaled.shape != update.shape:
        raise StructureError(f"has a factor that makes an update of shape {update.shape} one of {scaled.shape}")
    return in_precision_of(scaled, update)


scale_by_tree = ScaleByTree
