"""Populations: many optimizers as one, whose numbers have a leading axis for `jax.vmap` to go along.

A population is an optimizer of the same class. Its static fields belong to the program and are those of every member.
"""

import itertools
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import NamedSharding, PartitionSpec

from pytreeopt._hyperparams import replace
from pytreeopt._paths import entries, join, leaf_paths, opened, put, resolve
from pytreeopt.base import AbstractHyperparameters
from pytreeopt.errors import HyperparameterError, StructureError

T = TypeVar("T")
Draw = Callable[[Any, tuple[int, ...]], jax.Array]  # of a key and a shape


def stack(members: Sequence[T]) -> T:
    """One population of several optimizers that differ in numbers only.

    >>> import jax, pytreeopt
    >>> population = stack([pytreeopt.sgd(0.25), pytreeopt.sgd(0.5)])
    >>> population.learning_rate.tolist(), size(population)
    ([0.25, 0.5], 2)

    Members of different class or structure, or that differ in a static field: StructureError that names the field.
    A tree of arrays, such as parameters or states, is stacked likewise.
    """
    members = list(members)
    if not members:
        raise ValueError("stack needs at least one member, got none")
    for number, member in enumerate(members[1:], 1):
        _require_same(members[0], member, f"members 0 and {number}", "")
    return jax.tree.map(lambda *leaves: _stack_leaves(leaves), *members)


def unstack(population: T) -> list[T]:
    """The members of a population, in order."""
    return [jax.tree.map(lambda x, i=i: x[i], population) for i in range(size(population))]


def size(population: Any) -> int:
    """The number of members: the length of the leading axis of every leaf.

    A leaf without that axis, or with another length: StructureError that names it.
    """
    leaves = jax.tree.leaves(population)
    if not leaves:
        raise StructureError(f"size: {type(population).__name__} holds no numbers, so it tells no number of members")
    shapes = [np.shape(leaf) for leaf in leaves]
    for path, shape in zip(leaf_paths(population), shapes, strict=True):
        if shape[:1] != (shapes[0][:1] or (None,)):
            raise StructureError(
                f"size: {path} has shape {shape}, so this is no population with one leading axis for all numbers; "
                "see broadcast"
            )
    return shapes[0][0]


def take(population: T, index: Any) -> T:
    """The member at a position, or the population of those at an array of positions.

    >>> import pytreeopt
    >>> population = stack([pytreeopt.sgd(0.25), pytreeopt.sgd(0.5)])
    >>> float(take(population, -1).learning_rate)
    0.5

    So, in population-based training, `take((population, params, states), parents)` copies the weights and
    hyperparameters of the best over those of the worst. Positions may be traced; a known one that is out of range is
    an IndexError, a traced one is clamped, as everywhere in JAX.
    """
    count = size(population)
    known = None if isinstance(index, Tracer) else np.asarray(index)
    if known is not None and not np.all((-count <= known) & (known < count)):
        raise IndexError(f"take: position {index} of a population of {count}")
    positions = index if isinstance(index, Tracer) else jnp.asarray(index)
    return jax.tree.map(lambda x: _at(jnp.asarray(x), positions), population)


def _at(x: jax.Array, positions: Any) -> jax.Array:
    """`x[positions]`. With explicit axes JAX asks where the result lies: as `x`, where it has as many members."""
    sharding = jax.typeof(x).sharding
    if not sharding.mesh.explicit_axes:
        return x[positions]
    along, *others = sharding.spec
    here = PartitionSpec(along if jnp.shape(positions) == x.shape[:1] else None, *others)
    rows = x.at[jnp.atleast_1d(positions)].get(out_sharding=NamedSharding(sharding.mesh, here))
    return rows if jnp.ndim(positions) else rows[0]


def broadcast(opt: T, n: int) -> T:
    """The population of `n` equal members; `replace(broadcast(opt, n), learning_rate=rates)` varies one number."""
    return jax.tree.map(lambda x: jnp.broadcast_to(jnp.asarray(x), (n, *np.shape(x))), opt)


def grid(opt: T, values: Mapping[str, Sequence[Any]]) -> tuple[T, OrderedDict[str, Any]]:
    """The population of all combinations, and the table of its settings: a column for each name, a row for a member.

    >>> import pytreeopt
    >>> population, settings = grid(pytreeopt.adamw(1e-3), {"learning_rate": [0.25, 0.5], "weight_decay": [0.0, 1.0]})
    >>> settings["learning_rate"].tolist(), settings["weight_decay"].tolist()
    ([0.25, 0.25, 0.5, 0.5], [0.0, 1.0, 0.0, 1.0])

    Args:
        opt: what the members have in common.
        values: mapping from path, as in `hyperparams`, to the values to try: numbers, or schedules of one kind. The
            last name varies fastest, so that `losses.reshape([len(v) for v in values.values()])` is the grid.
            Static fields make one program each and are refused.
    """
    _require_dynamic(opt, values, "grid")
    columns = []
    for name, column in values.items():
        if not np.iterable(column):
            raise TypeError(f"grid needs a sequence of values for {name}, got {column!r}; give [{column!r}]")
        columns.append(list(column))
        if not columns[-1]:
            raise ValueError(f"grid: no values for {name}")
    rows = list(itertools.product(*columns))
    population = stack([replace(opt, dict(zip(values, row, strict=True))) for row in rows])
    settings = zip(values, zip(*rows, strict=True), strict=True)
    return population, OrderedDict((name, _as_column(column)) for name, column in settings)


def sample(key: jax.Array, opt: T, n: int, draws: Mapping[str, Draw]) -> T:
    """A population of `n` with randomly drawn hyperparameters.

    >>> import jax, pytreeopt
    >>> population = sample(jax.random.key(0), pytreeopt.adam(1e-3), 8, {"learning_rate": log_uniform(1e-4, 1e-1)})
    >>> size(population)
    8

    Each name has a random stream of its own: another name more or less does not change what the others draw.
    `hyperparams(population)` shows what was drawn.

    Args:
        key: of `jax.random`.
        opt: what the members have in common.
        n: how many.
        draws: mapping from path, as in `hyperparams`, to `uniform`, `log_uniform`, `choice`, or any function of a key
            and a shape, such as `lambda key, shape: 1 - log_uniform(1e-3, 1e-1)(key, shape)`.
    """
    paths = _require_dynamic(opt, draws, "sample")
    for name, draw in draws.items():
        if not callable(draw):
            raise TypeError(
                f"sample needs a function of key and shape for {name}, got {draw!r}; see choice, log_uniform"
            )
    drawn = {
        path: draws[name](jax.random.fold_in(key, zlib.crc32(path.encode())), (n,)) for name, path in paths.items()
    }
    for path, x in drawn.items():
        if np.shape(x)[:1] != (n,):
            raise ValueError(f"sample: {n} values are needed for {path}, got shape {np.shape(x)}")
    return put(broadcast(opt, n), drawn)


def uniform(low: float, high: float) -> Draw:
    """Draws evenly from [low, high)."""
    if not low <= high:
        raise ValueError(f"uniform needs low <= high, got {low} and {high}")
    return lambda key, shape: jax.random.uniform(key, shape, minval=low, maxval=high)


def log_uniform(low: float, high: float) -> Draw:
    """Draws evenly in the logarithm from [low, high], both positive: the usual choice for a learning rate."""
    if not 0 < low <= high:
        raise ValueError(f"log_uniform needs 0 < low <= high, got {low} and {high}")
    draw = uniform(np.log(low), np.log(high))
    return lambda key, shape: jnp.clip(jnp.exp(draw(key, shape)), low, high)


def choice(values: Sequence[Any], p: Sequence[float] | None = None) -> Draw:
    """Draws from some numbers, evenly or with probabilities `p`."""
    odds = None if p is None else jnp.asarray(p)
    return lambda key, shape: jax.random.choice(key, jnp.asarray(values), shape, p=odds)


def axes(opt: T, *names: str) -> T:
    """The `in_axes` tree for `jax.vmap` in which only these hyperparameters vary.

    >>> import jax, jax.numpy as jnp, pytreeopt
    >>> opt = pytreeopt.adam(jnp.array([0.25, 0.5]))
    >>> jax.vmap(lambda opt: opt.learning_rate * opt.b1, in_axes=(axes(opt, "learning_rate"),))(opt).tolist()
    [0.22499999403953552, 0.44999998807907104]

    Args:
        opt: a population in which only these have the leading axis, or an optimizer like it.
        *names: paths, as in `hyperparams`; all numbers below one vary, as those of a schedule or a member of a chain.
    """
    varying = tuple(_require_dynamic(opt, names, "axes").values())
    along = [0 if _is_below(path, varying) else None for path in leaf_paths(opt)]
    return jax.tree.unflatten(jax.tree.structure(opt), along)


def _is_below(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}.") for root in roots)


def _require_dynamic(opt: Any, names: Any, caller: str) -> dict[str, str]:
    """The paths of the names; a population shares its program, so that static fields cannot differ."""
    if not isinstance(opt, AbstractHyperparameters):
        raise TypeError(f"{caller} needs an optimizer or schedule of pytreeopt, got {type(opt).__name__}")
    paths = resolve(opt, names, caller)
    static = {path for path, part in entries(opt) if part.is_static}
    for path in paths.values():
        if path in static:
            raise HyperparameterError(
                f"{caller}: {path} of {type(opt).__name__} is static, part of the program that a population shares; "
                "make one population for each value"
            )
    return paths


def _stack_leaves(leaves: Sequence[Any]) -> jax.Array:
    if all(isinstance(leaf, int | float) for leaf in leaves):
        return jnp.asarray(np.array(leaves))
    return jnp.stack([jnp.asarray(leaf) for leaf in leaves])


def _as_column(values: Sequence[Any]) -> Any:
    """An array of numbers; schedules stay in a list, traced numbers too."""
    known = all(isinstance(x, int | float | np.generic | np.ndarray | jax.Array) for x in values)
    return np.asarray(values) if known and not any(isinstance(x, Tracer) for x in values) else list(values)


def _require_same(a: Any, b: Any, which: str, path: str) -> None:
    """Raises where two members differ in more than numbers."""
    here, there = opened(a), opened(b)
    if here is None and there is None:
        if np.shape(a) != np.shape(b):
            raise StructureError(f"stack: {which} have {path} of shape {np.shape(a)} and {np.shape(b)}")
        return
    names = [[part.name for part in node.parts] if node else None for node in (here, there)]
    if type(a) is not type(b) or names[0] != names[1] or here is None or there is None:
        raise StructureError(f"stack: {which} differ in {path or 'class'}: {_shown(a)} and {_shown(b)}")
    for part, other in zip(here.parts, there.parts, strict=True):
        below = join(path, part.name)
        if not part.is_static:
            _require_same(part.value, other.value, which, below)
        elif part.value != other.value:
            raise StructureError(
                f"stack: {which} differ in {below}, which is static: {_shown(part.value)} and {_shown(other.value)}; "
                "make one population for each value"
            )
    if jax.tree.structure(a) != jax.tree.structure(b):
        raise StructureError(f"stack: {which} differ in the structure of {path or type(a).__name__}")


def _shown(value: Any) -> str:
    if isinstance(value, AbstractHyperparameters):
        return type(value).__name__
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
