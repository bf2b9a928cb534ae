"""Leaves of higher rank seen as matrices, for transformations of matrices."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from pytreeopt.errors import StructureError


class MatrixView(NamedTuple):
    """How a leaf is a stack of matrices: `view` and `back` reshape, the sizes are those of one matrix."""

    view: Callable[[jax.Array], jax.Array]
    back: Callable[[jax.Array], jax.Array]
    batch_size: int
    rows: int
    columns: int


def matrix_view(shape: tuple[int, ...], dimension_numbers: Any) -> MatrixView:
    """The leaf as (batch, rows, columns): the reduction axes are the rows, the output axes the columns."""
    rank = len(shape)
    if rank < 2:
        raise StructureError(f"needs leaves of rank 2 or more where it has dimension numbers, got shape {shape}")
    reduction, output = (_axes(axis, rank) for axis in dimension_numbers)
    if set(reduction) & set(output):
        raise StructureError(f"needs disjoint reduction and output axes, got {dimension_numbers} for shape {shape}")
    batch = tuple(axis for axis in range(rank) if axis not in reduction + output)
    order = batch + reduction + output
    inverse = tuple(sorted(range(rank), key=lambda axis: order[axis]))
    moved = tuple(shape[axis] for axis in order)
    sizes = tuple(math.prod(shape[axis] for axis in axes) for axes in (batch, reduction, output))
    return MatrixView(
        lambda x: x.transpose(order).reshape(sizes), lambda x: x.reshape(moved).transpose(inverse), *sizes
    )


def _axes(axis: Any, rank: int) -> tuple[int, ...]:
    axes = (axis,) if isinstance(axis, int) else axis
    return tuple(axis % rank for axis in axes)
