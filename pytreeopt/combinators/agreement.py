"""Choice between an update and none at run time, when their dtypes or the structures of their states differ."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from pytreeopt.base import PyTree


def step_or_keep(
    condition: Any, step: Callable[[], tuple[PyTree, PyTree]], instead: Callable[[], PyTree], state: PyTree
) -> tuple[PyTree, PyTree]:
    """`step()`, updates and a state, where `condition` holds, else `instead()`, updates, and the old `state`.

    The updates have the dtypes of `step`'s, the state its old ones. What only the new state has (a monitor's
    measurements, say) is 0 in the old one.
    """
    shapes: list[Any] = []

    def taken():
        updates, new_state = step()
        shapes[:] = [jax.eval_shape(lambda: (updates, new_state))]
        return updates, with_dtypes(new_state, filled(state, new_state))

    def kept():
        like_updates, like_state = shapes[0] if shapes else jax.eval_shape(step)
        return with_dtypes(instead(), like_updates), filled(state, like_state)

    return jax.lax.cond(condition, taken, kept)


def with_dtypes(tree: PyTree, like: PyTree) -> PyTree:
    """`tree` in the dtypes of `like`; what has them already, and a tree of another structure, is untouched."""
    if jax.tree.structure(tree) != jax.tree.structure(like):
        return tree
    return jax.tree.map(with_dtype, tree, like)


def with_dtype(x: Any, like: Any) -> Any:
    return x if _dtype(x) == _dtype(like) else jnp.asarray(x).astype(_dtype(like))


def filled(state: PyTree, like: PyTree) -> PyTree:
    """`state` in the structure of `like`: the leaves that stand at the same path, and zeros for the others."""
    if jax.tree.structure(state) == jax.tree.structure(like):
        return state
    known = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(state)}
    leaves, treedef = jax.tree_util.tree_flatten_with_path(like)
    found = [(known.pop(jax.tree_util.keystr(path), None), leaf) for path, leaf in leaves]
    if known:  # no smaller form of `like`: whoever needs them equal says how they differ
        return state
    return treedef.unflatten([jnp.zeros(jnp.shape(y), _dtype(y)) if x is None else x for x, y in found])


def _dtype(x: Any) -> Any:
    return x.dtype if hasattr(x, "dtype") else jnp.result_type(x)
