"""The three oracles: eager, compiled over a closure, compiled with the optimizer as an argument.

Each runs both libraries in lock-step and gives the worst difference in units in the last place, over the updates and
every leaf of the state.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import pytreeopt
from parity.problems import Problem, problem_of
from parity.row import Loose, Row
from parity.upstream import to_upstream

ORACLES = ("eager", "jit", "argument")


class Difference(NamedTuple):
    """The worst difference of a run in both measures, and where the first is worst.

    Both are infinite where structure, dtype or NaN differ.
    """

    ulp: float
    where: str = ""
    relative: float = 0.0

    def worse(self, other: "Difference") -> "Difference":
        """The greater of each measure."""
        first = max(self, other, key=lambda difference: difference.ulp)
        return first._replace(relative=max(self.relative, other.relative))


class Step(NamedTuple):
    """One side of a comparison: `update` takes gradient, state, params and extra arguments."""

    init: Callable[[Any], Any]
    update: Callable[..., Any]


def eager(opt: Any) -> Step:
    return Step(opt.init, lambda g, s, p, extra: opt.update(g, s, p, **extra))


def compiled(opt: Any) -> Step:
    return Step(opt.init, jax.jit(lambda g, s, p, extra: opt.update(g, s, p, **extra)))


def as_argument(opt: Any) -> Step:
    update = jax.jit(lambda opt, g, s, p, extra: opt.update(g, s, p, **extra))
    return Step(opt.init, lambda *args: update(opt, *args))


def rebuilt_inside(opt: Any) -> Step:
    """Upstream's optimizer made inside the compiled function, every number of `opt` traced."""
    update = jax.jit(
        lambda opt, g, s, p, extra: optax.with_extra_args_support(to_upstream(opt)).update(g, s, p, **extra)
    )
    return Step(to_upstream(opt).init, lambda *args: update(opt, *args))


def compare(row: Row, oracle: str, tree: str, dtype: str, steps: int) -> Difference:
    """Runs `row` under one oracle."""
    with x64(dtype == "float64"):
        given = problem_of(row, tree, dtype, steps)
        ours, theirs = row.build(pytreeopt), row.build(optax)
        if oracle == "eager":
            return worst(given, eager(ours), eager(theirs), row.casts)
        if oracle == "jit":
            return worst(given, compiled(ours), compiled(theirs), row.casts)
        reference = compiled(theirs) if row.untraced else rebuilt_inside(ours)
        return worst(given, as_argument(ours), reference, row.casts)


def tolerance(row: Row, oracle: str) -> Loose | None:
    """The declared tolerance of an oracle, or None: equal to the bit."""
    return {"eager": None, "jit": row.jit, "argument": row.untraced or row.jit}[oracle] or row.loop


def passes(difference: Difference, allowed: Loose | None, dtype: str) -> bool:
    """Whether a difference is none, or within what the row declares."""
    if difference.ulp == 0:
        return True
    return allowed is not None and bool(np.isfinite(difference.ulp)) and difference.relative <= allowed.allowed(dtype)


def worst(given: Problem, ours: Step, theirs: Step, casts: bool = False) -> Difference:
    """Steps both sides and keeps the worst difference."""
    found = Difference(0.0)
    state, other_state = ours.init(given.params), theirs.init(given.params)
    found = found.worse(difference(state, other_state, "init", casts))
    params, other_params = given.params, given.params
    for step in range(len(given.gradients)):
        gradient, extra = given.at(step, params)
        updates, state = ours.update(gradient, state, params, extra)
        gradient, extra = given.at(step, other_params)
        other_updates, other_state = theirs.update(gradient, other_state, other_params, extra)
        pair, other = {"updates": updates, "state": state}, {"updates": other_updates, "state": other_state}
        found = found.worse(difference(pair, other, f"step {step}", casts))
        params = optax.apply_updates(params, updates)
        other_params = optax.apply_updates(other_params, other_updates)
    return found


def difference(ours: Any, theirs: Any, place: str = "", casts: bool = False) -> Difference:
    """The worst leaf of two trees."""
    if jax.tree.structure(ours) != jax.tree.structure(theirs):
        structures = f"{jax.tree.structure(ours)} against {jax.tree.structure(theirs)}"
        return Difference(np.inf, f"{place}: structure {structures}", np.inf)
    found = Difference(0.0)
    leaves = zip(jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(theirs), strict=True)
    for (path, x), y in leaves:
        ulp, relative = leaf_difference(x, y, casts)
        found = found.worse(Difference(ulp, f"{place} {jax.tree_util.keystr(path)}", relative))
    return found


def leaf_difference(x: Any, y: Any, casts: bool = False) -> tuple[float, float]:
    """Distance in units in the last place, and relative to the greatest element."""
    x, y = _host(x), _host(y)
    if casts:
        y = y.astype(x.dtype)
    if x.dtype != y.dtype or x.shape != y.shape:
        return np.inf, np.inf
    if x.size == 0:
        return 0.0, 0.0
    x, y = in_parts(x), in_parts(y)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        distance = float(np.max(np.abs(x.astype(np.int64) - y.astype(np.int64))))
        return distance, distance
    nan = np.isnan(x) & np.isnan(y)
    if np.any(np.isnan(x) != np.isnan(y)):
        return np.inf, np.inf
    ulp = np.where(nan, 0, np.abs(_ordered(x) - _ordered(y)))
    if not ulp.any():
        return 0.0, 0.0
    wide, other = x.astype(np.float64), y.astype(np.float64)
    scale = np.max(np.abs(other), initial=0, where=np.isfinite(other)) or 1.0
    with np.errstate(invalid="ignore"):
        relative = np.max(np.where(nan | (wide == other), 0, np.abs(wide - other))) / scale
    return float(ulp.max()), float(relative)


def in_parts(x: np.ndarray) -> np.ndarray:
    """The real and imaginary parts of complex numbers, real ones as they are."""
    return np.stack([x.real, x.imag]) if np.iscomplexobj(x) else x


def _host(x: Any) -> np.ndarray:
    if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    return np.asarray(jnp.asarray(x) if isinstance(x, int | float) else x)  # a Python number as JAX takes it


def _ordered(x: np.ndarray) -> np.ndarray:
    """Floats as integers whose difference counts the floats in between; -0. and 0. are one apart."""
    bits = x.dtype.itemsize * 8
    integer = x.view(f"int{bits}").astype(object if bits == 64 else np.int64)
    return np.where(integer < 0, -(integer & ((1 << (bits - 1)) - 1)) - 1, integer)


@contextlib.contextmanager
def x64(enabled: bool) -> Iterator[None]:
    """JAX with 64-bit types, or as it is."""
    if not enabled:
        yield
        return
    context = getattr(jax, "enable_x64", None)
    if context is None:
        from jax.experimental import enable_x64 as context
    with context(True):
        yield
