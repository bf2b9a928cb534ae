"""Parameters, gradients and extra arguments on which two optimizers are compared."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

DTYPES = {
    "float32": jnp.float32,
    "bfloat16": jnp.bfloat16,
    "float16": jnp.float16,
    "complex64": jnp.complex64,
    "float64": jnp.float64,
}

SHAPES: dict[str, Any] = {
    "scalar": (),
    "vector": (6,),
    "matrix": (4, 6),
    "nested": {
        "scalar": (),
        "vector": (5,),
        "layers": [{"kernel": (3, 4), "bias": None}, {}, {"kernel": (4, 3)}],
    },
}


class Problem(NamedTuple):
    """Start and gradients of a run; the leaves have the dtype in question.

    With an objective, gradients and extra arguments are those at the start; `at` gives those at any params.
    """

    params: Any
    gradients: list[Any]
    extra: list[dict[str, Any]]
    objective: Callable[[Any], Any] | None = None

    def at(self, step: int, params: Any) -> tuple[Any, dict[str, Any]]:
        """Gradient and extra arguments of a step that starts from `params`."""
        gradient, extra = self.gradients[step], self.extra[step]
        if self.objective is None:
            return gradient, extra
        gradient, values = evaluate(self.objective, params)
        return gradient, {**extra, **values}


def problem(
    tree: str | dict[str, Any], dtype: str, steps: int, extra: tuple[str, ...] = (), seed: int = 0, objective: str = ""
) -> Problem:
    """A seeded problem, of a tree in `SHAPES` or of one of shapes; the same one for both libraries.

    float64 needs x64 enabled.
    """
    random = np.random.default_rng(seed)

    def draw(scale):
        def leaf(shape):
            x = scale * away_from_zero(random, shape)
            if dtype == "complex64":
                x = x + 1j * scale * away_from_zero(random, shape)
            return jnp.asarray(x, DTYPES[dtype])

        return jax.tree.map(leaf, SHAPES[tree] if isinstance(tree, str) else tree, is_leaf=lambda x: type(x) is tuple)

    params = draw(1.0)
    gradients = [draw(0.5 * 0.97**step) for step in range(steps)]
    values = [{name: EXTRAS[name](step, params) for name in extra} for step in range(steps)]
    if not objective:
        return Problem(params, gradients, values)
    function = jax.tree_util.Partial(OBJECTIVES[objective])
    gradient, evaluated = evaluate(function, params)
    return Problem(params, [gradient] * steps, [{**value, **evaluated} for value in values], function)


def problem_of(row: Any, tree: str | dict[str, Any], dtype: str, steps: int) -> Problem:
    """The problem on which a parity row is run."""
    made = problem(tree, dtype, steps, row.extra, objective=row.objective)
    if row.prepare is None:
        return made
    params, gradients = row.prepare(made.params, made.gradients)
    return made._replace(params=params, gradients=gradients)


def evaluate(objective: Callable[[Any], Any], params: Any) -> tuple[Any, dict[str, Any]]:
    """The steepest ascent at `params`, and what a line search is given."""
    value, gradient = jax.value_and_grad(objective)(params)
    gradient = jax.tree.map(jnp.conj, gradient)
    return gradient, {"value": value, "grad": gradient, "value_fn": objective}


def coordinates(params: Any) -> jax.Array:
    """All params as one real vector."""
    parts = []
    for leaf in jax.tree.leaves(params):
        parts += [leaf.real, leaf.imag] if jnp.iscomplexobj(leaf) else [leaf]
    return jnp.concatenate([jnp.ravel(part) for part in parts])


def quadratic(params: Any) -> jax.Array:
    """A convex parabola, curved unequally."""
    x = coordinates(params)
    return jnp.sum(jnp.linspace(0.5, 5.0, x.size, dtype=x.dtype) * (x - 0.3) ** 2)


def float32_quadratic(params: Any) -> jax.Array:
    """The value in float32, whatever the params."""
    return quadratic(coordinates(params).astype(jnp.float32))


def rosenbrock(params: Any) -> jax.Array:
    """A curved valley."""
    x = coordinates(params)
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2) + jnp.sum((1.0 - x) ** 2)


def zakharov(params: Any) -> jax.Array:
    """Very steep: the search needs tiny steps."""
    x = coordinates(params)
    weighted = jnp.sum(0.5 * jnp.arange(1, x.size + 1, dtype=x.dtype) * x)
    return jnp.sum(x**2) + weighted**2 + weighted**4


def logistic(params: Any) -> jax.Array:
    """Regularised logistic regression on a few random points."""
    x = coordinates(params)
    points = jnp.asarray(np.random.default_rng(1).standard_normal((12, x.size)), x.dtype)
    labels = jnp.asarray(np.arange(12) % 2, x.dtype)
    logits = points @ x
    return jnp.mean(jnp.logaddexp(0, logits) - labels * logits) + 0.05 * jnp.sum(x**2)


def not_finite(params: Any) -> jax.Array:
    """NaN wherever a search looks, as behind a singularity."""
    x = coordinates(params)
    return jnp.sum(x) * jnp.nan


OBJECTIVES = {f.__name__: f for f in (quadratic, float32_quadratic, rosenbrock, zakharov, logistic, not_finite)}


def away_from_zero(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normal numbers whose squares do not underflow in float16, where upstream then divides by zero."""
    x = random.standard_normal(shape)
    return np.copysign(np.abs(x) + 0.1, x)


def gradient_of_quadratic(params: Any, step: Any) -> Any:
    """What SAM's opaque mode asks for."""
    return jax.tree.map(jnp.conj, jax.grad(quadratic)(params))


EXTRAS = {
    "obj_fn": lambda step, params: jax.tree_util.Partial(logistic),
    "grad_fn": lambda step, params: jax.tree_util.Partial(gradient_of_quadratic),
    "value": lambda step, params: jnp.asarray(2.0 * 0.8**step, jnp.float32),
    "sum_sq_diff_grads": lambda step, params: jax.tree.map(lambda p: 0.7 * p * p, params),
    "sample_size": lambda step, params: 7,
}
