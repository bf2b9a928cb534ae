"""A transformation for some of the leaves."""

from typing import Any, final

import jax

from pytreeopt.base import GradientTransformation, coerce
from pytreeopt.errors import StructureError, in_one_line, require_state
from pytreeopt.fields import resolve_tree, static, static_tree
from pytreeopt.states import MaskedNode, MaskedState, is_params_placeholder


@final
class Masked(GradientTransformation):
    """Transforms the leaves where the mask is true and passes the others through; only the former have a state.

    Args:
        inner: the transformation.
        mask: a tree of bools with the structure of the params or a prefix of it, or a function from params (at init)
            or updates (at update) to such a tree.
        mask_compatible_extra_args: mask extra arguments that have the structure of the updates, too.
    """

    inner: GradientTransformation
    mask: Any = static_tree()
    mask_compatible_extra_args: bool = static(False, kw_only=True)

    def init(self, params):
        if is_params_placeholder(params):  # optax.tree.map_params looks for copies of the parameters
            return MaskedState(inner_state=coerce(self.inner).init(params))
        mask = resolve_tree(self.mask, params)
        return MaskedState(inner_state=coerce(self.inner).init(_only(mask, params)))

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, MaskedState)
        mask = resolve_tree(self.mask, updates)
        if self.mask_compatible_extra_args:
            structure = jax.tree.structure(updates)
            extra_args = {
                name: _only(mask, value) if jax.tree.structure(value) == structure else value
                for name, value in extra_args.items()
            }
        masked_params = None if params is None else _only(mask, params)
        inner_updates, inner_state = coerce(self.inner).update(
            _only(mask, updates), state.inner_state, masked_params, **extra_args
        )
        merged = jax.tree.map(lambda m, new, old: new if m else old, mask, inner_updates, updates)
        return merged, MaskedState(inner_state=inner_state)


def _only(mask: Any, tree: Any) -> Any:
    try:
        return jax.tree.map(lambda m, subtree: subtree if m else MaskedNode(), mask, tree)
    except ValueError as error:
        raise StructureError(f"has a mask that is no prefix of the tree it masks ({in_one_line(error)})") from None


masked = Masked
