"""Helpers for the laws: a row's optimizer, its leaves one by one, and a short run."""

import os
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreeopt
from parity.oracles import x64
from parity.problems import Problem, problem_of
from parity.row import Row
from parity.rows import ROWS
from pytreeopt.base import AbstractSchedule

DEFAULT = {name: row for name, row in ROWS.items() if row.default}
STEPS = 3
PAIR = {"kernel": (3, 4), "bias": (3,)}

# For `jax.jit`, where bits depend on the compiler: its own defaults, from which conftest departs.
COMPILER_DEFAULTS = {"xla_cpu_use_fusion_emitters": True} if "fusion_emitters" in os.environ["XLA_FLAGS"] else {}
every_row = pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in DEFAULT.items()])

__all__ = [
    "COMPILER_DEFAULTS",
    "DEFAULT",
    "STEPS",
    "float_leaves",
    "given",
    "holds_schedule",
    "is_number",
    "leaves_by_path",
    "run",
    "with_leaf",
    "x64",
    "build",
    "every_row",
    "spellings",
    "start",
    "two_leaves",
]


def given(row: Row, dtype: str = "float32", steps: int = STEPS) -> Problem:
    """The problem on which a row's law is tried: the tree that every row accepts."""
    return problem_of(row, row.tree, dtype, steps)


def two_leaves(row: Row, dtype: str = "float32") -> Problem:
    """A smaller problem, for what is compiled; rows that fit one tree only have that one."""
    return problem_of(row, row.tree if row.trees else PAIR, dtype, STEPS)


def run(row: Row, opt: Any, at: Problem) -> Any:
    """Parameters after a few updates, of which one is compiled."""

    def step(carry, now):
        params, state = carry
        gradient, extra = at._replace(gradients=[now[0]], extra=[now[1]]).at(0, params)
        updates, state = opt.update(gradient, state, params, **extra)
        return (optax.apply_updates(params, updates), state), None

    by_step = jax.tree.map(lambda *x: jnp.stack(x), *zip(at.gradients, at.extra, strict=True))
    return jax.lax.scan(step, (at.params, start(row, opt, at)), by_step)[0][0]


def start(row: Row, opt: Any, at: Problem) -> Any:
    """The state before the first update, in the structure that it keeps."""
    return pytreeopt.init_filled(opt, at.params, **at.extra[0]) if row.grows else opt.init(at.params)


def is_number(leaf: Any) -> bool:
    return isinstance(leaf, float | int) or (isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.number))


def leaves_by_path(opt: Any) -> Iterator[tuple[str, int, Any]]:
    """Path, position and value of every number in the optimizer."""
    for position, (path, leaf) in enumerate(jax.tree_util.tree_leaves_with_path(opt)):
        if is_number(leaf):
            yield jax.tree_util.keystr(path, simple=True, separator="."), position, leaf


def float_leaves(opt: Any) -> list[tuple[str, int, float]]:
    return [(path, position, leaf) for path, position, leaf in leaves_by_path(opt) if isinstance(leaf, float)]


def holds_schedule(opt: Any) -> bool:
    """Whether some hyperparameter, at any depth, is a schedule."""
    nodes = jax.tree.leaves(opt, is_leaf=lambda x: isinstance(x, AbstractSchedule))
    return any(isinstance(node, AbstractSchedule) for node in nodes)


def with_leaf(opt: Any, position: int, value: Any) -> Any:
    """The optimizer with one leaf replaced, by way of JAX's own unflatten."""
    leaves, treedef = jax.tree.flatten(opt)
    leaves[position] = value
    return jax.tree.unflatten(treedef, leaves)


def spellings(value: float | int) -> list[Any]:
    """A number in every form in which a user may have it."""
    if isinstance(value, int):
        return [value, np.int64(value), np.int32(value), np.array(value), jnp.int32(value), jnp.asarray(value)]
    numpy = [np.float64(value), np.float32(value), np.array(value), np.array(value, np.float32)]
    return [value, *numpy, jnp.float32(value), jnp.asarray(value), jnp.bfloat16(value)]


def build(row: Row) -> Any:
    return row.build(pytreeopt)
