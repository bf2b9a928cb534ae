"""The three optimizers that every library is tried with, a small problem, and ways to compare and count."""

import dataclasses
import importlib
import os
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreeopt

# As an array or an argument, 1 - b2 is a float32 number and no float64 constant: 1e-5 of a moment, relatively.
AS_ARGUMENT = 1e-4


@dataclasses.dataclass(frozen=True)
class Pair:
    """Builds one optimizer from ours or from Optax's namespace.

    `finish` is what only ours can do, and `rtol` what that changes in a program that closes over the optimizer.
    """

    build: Callable[[Any], Any]
    finish: Callable[[Any], Any] = lambda opt: opt
    rtol: float = 0.0

    @property
    def ours(self) -> Any:
        return self.finish(self.build(pytreeopt))

    @property
    def theirs(self) -> Any:
        return self.build(optax)


OPTIMIZERS = {
    "floats": Pair(lambda o: o.adam(1e-2)),
    "arrays": Pair(lambda o: o.adam(1e-2), pytreeopt.as_arrays, AS_ARGUMENT),
    "chain with schedule": Pair(
        lambda o: o.chain(o.clip_by_global_norm(1.0), o.adamw(o.cosine_decay_schedule(1e-2, 20), weight_decay=1e-3))
    ),
}


def library(name: str) -> Any:
    """The module, or a skip. With PYTREEOPT_REQUIRE_LIBRARIES set, as in `make interop`, all must be there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if os.environ.get("PYTREEOPT_REQUIRE_LIBRARIES"):
            return importlib.import_module(name)
        return pytest.importorskip(name, reason=f"{name} is not installed; `make interop` installs and tests it")


PARAMS = {"w": jnp.asarray([0.5, -1.0, 2.0]), "b": jnp.asarray(0.1, jnp.float32)}
X = jnp.asarray(np.random.default_rng(0).normal(size=(8, 3)), jnp.float32)
Y = X @ jnp.asarray([1.0, 2.0, -1.0]) + 0.5


def loss(params: Any) -> jax.Array:
    return jnp.mean((X @ params["w"] + params["b"] - Y) ** 2)


def train(tx: Any, params: Any = PARAMS, steps: int = 3) -> Any:
    """Parameters and state after a few compiled steps that close over `tx`."""

    @jax.jit
    def step(params, state):
        updates, state = tx.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

    state = tx.init(params)
    for _ in range(steps):
        params, state = step(params, state)
    return params, state


def assert_same(ours: Any, theirs: Any, rtol: float = 0.0) -> None:
    """Equal trees of equal numbers; `rtol` where one program closes over a number that the other is given."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=rtol)


def other_rate(tx: Any) -> Any:
    """The optimizer with half of each of its rates, as an optimizer of its own."""
    return jax.tree_util.tree_map_with_path(
        lambda path, x: x / 2 if str(path[-1]).endswith(("learning_rate", "init_value")) else x, tx
    )


class Count:
    """How often a function is traced: `call = Count(f)`, then `jit(call)`, then `call.traces`."""

    def __init__(self, function: Callable[..., Any]):
        self.function, self.traces = function, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.traces += 1
        return self.function(*args, **kwargs)
