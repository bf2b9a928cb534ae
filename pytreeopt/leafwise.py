"""The one per-leaf map: arithmetic on the leaves of matching trees."""

from collections.abc import Callable
from typing import Any

import jax
from jax.core import Tracer

from pytreeopt.errors import StructureError, in_one_line


def leafwise(f: Callable[..., Any], first: Any, *rest: Any, outputs: int | None = None, may_lack: bool = False) -> Any:
    """Maps `f` over the leaves of trees of one structure; with `outputs`, `f` returns that many and so does this.

    A None in `first` gives None. The others must have None there too, unless `first` may lack what they have. While a
    jaxpr is being built `f` is wrapped in an inner `jit`: leaves of equal shape then share one trace and one lowered
    function, at equal numbers.
    """
    leaves, treedef = jax.tree.flatten(first, is_leaf=_is_none)
    try:
        columns = [leaves, *(treedef.flatten_up_to(tree) for tree in rest)]
    except ValueError as error:
        raise StructureError(
            f"got trees of different structure ({in_one_line(error)}); "
            "updates, state and params must have the structure that init saw"
        ) from None
    if building_a_jaxpr(columns):
        f = jax.jit(f)
    results = [_nothing(args, may_lack) if args[0] is None else f(*args) for args in zip(*columns, strict=True)]
    if outputs is None:
        return treedef.unflatten(results)
    nothing = (None,) * outputs
    split = zip(*(nothing if result is None else result for result in results), strict=True) if results else nothing
    return tuple(treedef.unflatten(() if column is None else column) for column in split)


def _nothing(args: tuple[Any, ...], may_lack: bool) -> None:
    if not may_lack and any(x is not None for x in args):
        raise StructureError(
            "got None where state or params have an array, which would be lost; give zeros, or use masked or partition"
        )


def _is_none(x: Any) -> bool:
    return x is None


def building_a_jaxpr(columns: Any) -> bool:
    """True in jit, scan, eval_shape, checkpoint; false in eager vmap, grad, jvp and under disable_jit.

    Eager vmap and grad have tracers too, and an inner jit there would compile anew at every call. The leaves are
    looked at first, since making the probe costs an eager dispatch.
    """
    has_tracer = any(isinstance(x, Tracer) for column in columns for x in column)
    return has_tracer and isinstance(jax.lax.full((), 0), Tracer)
