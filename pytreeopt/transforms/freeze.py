"""Parameters that stay as they are."""

from typing import Any, final

import jax

from pytreeopt.base import GradientTransformation
from pytreeopt.combinators.masked import Masked
from pytreeopt.combinators.partition import Partition
from pytreeopt.fields import resolve_tree, static_tree
from pytreeopt.states import is_params_placeholder
from pytreeopt.transforms.stateless import SetToZero


@final
class Freeze(GradientTransformation):
    """Sets the updates to 0 where the mask is true; put it last in a chain.

    Args:
        mask: what to freeze: a bool, a tree of bools with the structure of the params or a prefix of it, or a function
            from params (at init) or updates (at update) to such a tree.
    """

    mask: Any = static_tree()

    def init(self, params):
        return Masked(SetToZero(), self.mask).init(params)

    def update(self, updates, state, params=None, **extra_args):
        return Masked(SetToZero(), self.mask).update(updates, state, params, **extra_args)


@final
class SelectiveTransform(GradientTransformation):
    """Transforms the leaves where the mask is false and sets the others to 0; frozen leaves have no state.

    Args:
        optimizer: the transformation of what is not frozen.
        freeze_mask: what to freeze, as in `Freeze`.
    """

    optimizer: GradientTransformation
    freeze_mask: Any = static_tree(kw_only=True)

    def init(self, params):
        return self._partition(params).init(params)

    def update(self, updates, state, params=None, **extra_args):
        return self._partition(updates).update(updates, state, params, **extra_args)

    def _partition(self, tree: Any) -> Partition:
        mask = False if is_params_placeholder(tree) else resolve_tree(self.freeze_mask, tree)
        labels = jax.tree.map(lambda frozen: "freeze" if frozen else "train", mask)
        return Partition({"train": self.optimizer, "freeze": SetToZero()}, labels)


freeze, selective_transform = Freeze, SelectiveTransform
