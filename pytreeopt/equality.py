"""Equality and hash by value, for trees that hold floats, arrays and tracers."""

from struct import pack as _pack
from typing import Any

import jax
import numpy as np
from jax.core import Tracer


class ByValue:
    """What is equal, and hashes, by `equal` and `hash_value`."""

    def __eq__(self, other: object) -> bool:
        return equal(self, other)

    def __ne__(self, other: object) -> bool:
        return not equal(self, other)

    def __hash__(self) -> int:
        return hash_value(self)


def equal(a: Any, b: Any) -> bool:
    """Same type, structure and leaves. Device bytes are compared only when all else is equal; never raises."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    leaves_a, treedef_a = jax.tree.flatten(a)
    leaves_b, treedef_b = jax.tree.flatten(b)
    if treedef_a != treedef_b or not all(map(_same_kind, leaves_a, leaves_b)):
        return False
    return all(_same_bytes(x, y) for x, y in zip(leaves_a, leaves_b, strict=True) if x is not y)


def hash_value(tree: Any) -> int:
    """Consistent with `equal`; reads no device memory."""
    leaves, treedef = jax.tree.flatten(tree)
    return hash((type(tree), treedef, tuple(map(_key, leaves))))


def _is_array(x: Any) -> bool:
    return isinstance(x, jax.Array | np.ndarray) and not isinstance(x, Tracer)


def _key(x: Any) -> Any:
    if type(x) is float:
        return float, _pack("d", x)
    if _is_array(x):
        return type(x), x.shape, x.dtype, getattr(x, "weak_type", False)
    try:
        return type(x), hash(x)
    except TypeError:
        return type(x), id(x) if isinstance(x, Tracer) else None


def _same_kind(x: Any, y: Any) -> bool:
    """Equal in all that costs nothing to look at; for anything but arrays that is all."""
    if x is y:
        return True
    if type(x) is not type(y):
        return False
    if type(x) is float:
        return _pack("d", x) == _pack("d", y)
    if _is_array(x):
        return _key(x) == _key(y)
    if isinstance(x, Tracer):
        return False
    try:
        return bool(x == y)
    except Exception:  # a foreign leaf may raise anything in its ==
        return False


def _same_bytes(x: Any, y: Any) -> bool:
    if type(x) is float or not _is_array(x):
        return True
    try:
        return _bytes(x) == _bytes(y)
    except RuntimeError:  # deleted, or not addressable from this process
        return False


def _bytes(x: Any) -> bytes:
    if isinstance(x, jax.Array) and jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    return np.asarray(x).tobytes()
