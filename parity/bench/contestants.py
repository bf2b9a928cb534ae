"""AdamW as each library has it, on trees of any number of leaves, as a step that can be traced, compiled and run."""

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

import pytreeopt

RATE = 1e-3
OPTAX, CLOSED, ARGUMENT, NUMBERS = "Optax", "closed over", "as an argument", "as an argument, Python numbers"
INJECT, TJAX = "inject_hyperparams", "tjax"


class Step(NamedTuple):
    """A step of an optimizer: `jax.jit(function())(*arguments)`; `function` gives one that is new to JAX."""

    function: Callable[[], Callable[..., Any]]
    arguments: tuple[Any, ...]

    def trace(self) -> Any:
        return jax.jit(self.function()).trace(*self.arguments)

    def run(self) -> Callable[[], Any]:
        """The compiled step, on the same arguments each time, waited for."""
        step = jax.jit(self.function())
        return lambda: jax.block_until_ready(step(*self.arguments))


def tree(leaves: int) -> dict[str, Any]:
    """Parameters in small layers: what is measured is the work per leaf, not per number."""
    return {f"layer {i}": jnp.full((8,), 0.1) for i in range(leaves)}


def closed_over(opt: Any, params: Any) -> Step:
    return Step(lambda: lambda g, s, p: opt.update(g, s, p), (params, opt.init(params), params))


def as_argument(opt: Any, params: Any) -> Step:
    return Step(lambda: lambda opt, g, s, p: opt.update(g, s, p), (opt, params, opt.init(params), params))


def steps(leaves: int) -> dict[str, Step]:
    """The step of every contestant, by name."""
    params = tree(leaves)
    ours = pytreeopt.adamw(RATE)
    made = {
        OPTAX: closed_over(optax.adamw(RATE), params),
        CLOSED: closed_over(ours, params),
        ARGUMENT: as_argument(pytreeopt.as_arrays(ours), params),
        NUMBERS: as_argument(ours, params),
        INJECT: closed_over(optax.inject_hyperparams(optax.adamw)(RATE), params),
    }
    if importlib.util.find_spec(TJAX):
        from tjax.gradient import AdamW  # type: ignore[import-not-found]

        made[TJAX] = as_argument(pytreeopt.as_arrays(AdamW(RATE)), params)
    return made
