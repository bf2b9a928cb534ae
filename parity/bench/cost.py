"""What a step costs by count: floating-point operations, bytes, temporary memory, equations, programs."""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

import pytreeopt
from parity.oracles import x64
from parity.problems import problem_of
from parity.row import Row


class Cost(NamedTuple):
    """Of the compiled step with parameters and state donated."""

    flops: float
    bytes_accessed: float
    temporary: int


class Excess(NamedTuple):
    """Where a repair of Optax costs something for each number: the greatest ratio by field, and the reason."""

    allowed: dict[str, float]
    reason: str


EQUAL = 1.0001
SCALARS = 256  # bytes: temporary memory is counted exactly, and guards keep a few scalars
EXCESS = {
    "lookahead": Excess({"flops": 1.5}, "the slow params ignore a step that is not finite"),
    "MultiSteps": Excess({"flops": 1.45}, "a gradient that is not finite is forgotten"),
    "scale_by_stddev": Excess({"flops": 1.2}, "a variance that rounding makes negative counts as 0"),
    "apply_every": Excess(
        {"flops": 3.3, "bytes_accessed": 1.51, "temporary": math.inf},
        "the sum that is kept is not the one given out where it is not finite",
    ),
    "sam": Excess({"flops": 1.45}, "what is not finite is not blended in"),
    "lbfgs": Excess({"bytes_accessed": 1.02}, "as scale_by_zoom_linesearch, which it holds"),
    "scale_by_zoom_linesearch": Excess({"bytes_accessed": 1.04}, "the size of the params is written once more"),
}


def ratios(name: str, ours: Cost, theirs: Cost) -> dict[str, float]:
    """Ratios to upstream's cost of a row; where an excess is declared and not overstepped, 1."""
    allowed = EXCESS[name].allowed if name in EXCESS else {}
    found = {}
    for field, own, other in zip(Cost._fields, ours, theirs, strict=True):
        slack = SCALARS if field == "temporary" else 0
        ratio = own / other if other else math.inf if own else 1.0
        found[field] = 1.0 if ratio <= allowed.get(field, 0) or (ratio > 1 and own <= other + slack) else ratio
    return found


def enlarged(leaf: Any) -> Any:
    """The shape of a leaf, each side many times as long: what guards do to scalars must not hide the rest."""
    if not isinstance(leaf, jax.Array) or not leaf.shape:
        return leaf
    return jax.ShapeDtypeStruct(tuple(LONGER * side for side in leaf.shape), leaf.dtype)


LONGER = 64
FAST = {"xla_backend_optimization_level": 0}  # machine code is not what is counted


def of_row(row: Row, library: Any) -> Cost:
    """The cost of a row's step, its optimizer closed over."""
    dtype = "float32" if row.runs_in("float32") else (row.dtypes or ("float32",))[0]
    with x64(dtype == "float64"):
        given = problem_of(row, row.tree, dtype, 1)
        opt = row.build(library)

        def step(params, state, gradient, extra):
            updates, state = opt.update(gradient, state, params, **extra)
            return optax.apply_updates(params, updates), state

        params, gradient, extra = jax.tree.map(enlarged, (given.params, *given.at(0, given.params)))
        state = jax.eval_shape(opt.init, params)
        compiled = jax.jit(step, donate_argnums=(0, 1)).lower(params, state, gradient, extra).compile(FAST)
    analysis = compiled.cost_analysis() or {}
    memory = compiled.memory_analysis()
    temporary = memory.temp_size_in_bytes if memory is not None else 0
    return Cost(analysis.get("flops", 0.0), analysis.get("bytes accessed", 0.0), temporary)


def equations(jaxpr: Any) -> int:
    """How many equations were traced. A function that is called many times was traced once."""
    seen: set[int] = set()

    def count(jaxpr: Any) -> int:
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        if id(jaxpr) in seen:
            return 0
        seen.add(id(jaxpr))
        return len(jaxpr.eqns) + sum(map(count, _inner(jaxpr)))

    return count(jaxpr)


def _inner(jaxpr: Any) -> Iterable[Any]:
    for equation in jaxpr.eqns:
        for leaf in jax.tree.leaves(equation.params, is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")):
            if hasattr(leaf, "eqns") or hasattr(leaf, "jaxpr"):
                yield leaf


def train(opt: Any, steps: int = 50) -> jax.Array:
    """A small regression with two layers: the loss after some steps. `opt` may be traced, or vmapped over."""
    key = jax.random.key(0)
    x, *keys = (jax.random.normal(k, shape) for k, shape in zip(jax.random.split(key, 3), SHAPES, strict=True))
    params = {"first": keys[0] / 4, "bias": jnp.zeros(SHAPES[1][1]), "second": keys[1] / 4}

    def loss(params):
        hidden = jnp.tanh(x @ params["first"] + params["bias"])
        return jnp.mean((hidden @ params["second"] - jnp.sin(x.sum(1, keepdims=True))) ** 2)

    def step(carry, _):
        params, state = carry
        updates, state = opt.update(jax.grad(loss)(params), state, params)
        return (optax.apply_updates(params, updates), state), None

    (params, _), _ = jax.lax.scan(step, (params, opt.init(params)), length=steps)
    return loss(params)


SHAPES = ((32, 8), (8, 16), (16, 1))


def sweep_as_argument(rates: Iterable[float], steps: int = 50) -> tuple[list[float], int]:
    """Final losses for each learning rate, and how many programs were compiled: the optimizer is an argument."""
    compiled, programs = counted(lambda opt: train(opt, steps))
    losses = [float(compiled(pytreeopt.adamw(rate))) for rate in rates]
    return losses, programs()


def sweep_static(rates: Iterable[float], steps: int = 50) -> tuple[list[float], int]:
    """The same with Optax, whose optimizer is part of the program."""
    losses, total = [], 0
    for rate in rates:
        opt = optax.adamw(rate)
        compiled, programs = counted(lambda opt=opt: train(opt, steps))
        losses.append(float(compiled()))
        total += programs()
    return losses, total


def sweep_injected(rates: Iterable[float], steps: int = 50) -> tuple[list[float], int]:
    """The same with Optax's `inject_hyperparams` inside the program."""
    compiled, programs = counted(lambda rate: train(optax.inject_hyperparams(optax.adamw)(rate), steps))
    losses = [float(compiled(rate)) for rate in rates]
    return losses, programs()


def counted(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[[], int]]:
    """The function compiled, and a count of its programs: each is traced once."""
    count = 0

    def noted(*args):
        nonlocal count
        count += 1
        return function(*args)

    return jax.jit(noted), lambda: count
