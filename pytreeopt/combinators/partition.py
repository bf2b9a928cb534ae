"""Transformations for different parts of the parameters."""

from collections.abc import Hashable, Mapping
from typing import Any, final

import jax

from pytreeopt.base import GradientTransformation
from pytreeopt.combinators.masked import Masked
from pytreeopt.combinators.named import named_children
from pytreeopt.errors import StructureError, WrongStateError, require_state
from pytreeopt.fields import resolve_tree, static, static_tree
from pytreeopt.states import PartitionState, is_params_placeholder


@final
class Partition(GradientTransformation):
    """Gives each leaf to the transformation that bears its label: Adam for the matrices, say, and SGD for the rest.

    Args:
        transforms: mapping from label to transformation.
        param_labels: a tree of labels with the structure of the params or a prefix of it, or a function from params
            (at init) or updates (at update) to such a tree.
        mask_compatible_extra_args: give each transformation only its own leaves of extra arguments that have the
            structure of the updates, too.
    """

    transforms: Mapping[Hashable, GradientTransformation]
    param_labels: Any = static_tree()
    mask_compatible_extra_args: bool = static(False, kw_only=True)

    def __post_init__(self):
        super().__post_init__()
        vars(self)["transforms"] = named_children(self.transforms)

    def init(self, params):
        # optax.tree.map_params, which calls with a placeholder, looks for copies of the parameters.
        labels = () if is_params_placeholder(params) else resolve_tree(self.param_labels, params)
        unknown = {label for label in jax.tree.leaves(labels) if label not in self.transforms}
        if unknown:
            raise StructureError(
                f"has no transformation for {_listed(unknown)}; transforms has {_listed(self.transforms)}"
            )
        return PartitionState({label: self._part(label, labels).init(params) for label in self.transforms})

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, PartitionState)
        labels = resolve_tree(self.param_labels, updates)
        new_states = {}
        for label in self.transforms:
            if label not in state.inner_states:
                raise WrongStateError(f"finds no state for {label!r} among {_listed(state.inner_states)}")
            part = self._part(label, labels)
            updates, new_states[label] = part.update(updates, state.inner_states[label], params, **extra_args)
        return updates, PartitionState(new_states)

    def _part(self, label: Hashable, labels: Any) -> Masked:
        """The transformation with that label, for its leaves only."""
        mask = jax.tree.map(lambda x: x == label, labels)
        return Masked(self.transforms[label], mask, mask_compatible_extra_args=self.mask_compatible_extra_args)


def _listed(labels: Any) -> str:
    return ", ".join(sorted(map(repr, labels))) or "none"


partition = multi_transform = Partition
