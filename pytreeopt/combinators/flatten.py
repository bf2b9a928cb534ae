"""All leaves as one vector."""

from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from pytreeopt.base import GradientTransformation, coerce


@final
class Flatten(GradientTransformation):
    """Shows the inner transformation one vector, in which the leaves stand one after another.

    Worth its copies with many small leaves; what looks at whole leaves (block norms, factored moments) sees one.

    Args:
        inner: the transformation; its state is that of a vector. Extra arguments are not flattened.
    """

    inner: GradientTransformation

    def init(self, params):
        return coerce(self.inner).init(_vector(params))

    def update(self, updates, state, params=None, **extra_args):
        flat_params = None if params is None else _vector(params)
        flat, state = coerce(self.inner).update(_vector(updates), state, flat_params, **extra_args)
        return _leaves_of(flat, updates), state


def _vector(tree: Any) -> jax.Array:
    leaves = jax.tree.leaves(tree)
    return jnp.concatenate([jnp.reshape(leaf, [-1]) for leaf in leaves]) if leaves else jnp.zeros([0])


def _leaves_of(flat: jax.Array, like: Any) -> Any:
    """The parts of `flat` in the shapes of `like`, and in its dtypes if these differ among themselves."""
    leaves, treedef = jax.tree.flatten(like)
    if not leaves:
        return like
    ends = np.cumsum([np.size(leaf) for leaf in leaves])
    parts = jnp.split(flat, [int(end) for end in ends[:-1]])
    parts = [jnp.reshape(part, jnp.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]
    dtypes = [jnp.result_type(leaf) for leaf in leaves]
    if len(set(dtypes)) > 1:  # the vector has the dtype to which they promote
        parts = [part.astype(dtype) for part, dtype in zip(parts, dtypes, strict=True)]
    return treedef.unflatten(parts)


flatten = Flatten
