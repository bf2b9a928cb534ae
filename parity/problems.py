"""Parameters, gradients and extra arguments on which two optimizers are compared."""

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
    """Start and gradients of a run; the leaves have the dtype in question."""

    params: Any
    gradients: list[Any]
    extra: list[dict[str, Any]]


def problem(tree: str, dtype: str, steps: int, extra: tuple[str, ...] = (), seed: int = 0) -> Problem:
    """A seeded problem; the same one for both libraries. float64 needs x64 enabled."""
    random = np.random.default_rng(seed)

    def draw(scale):
        def leaf(shape):
            x = scale * away_from_zero(random, shape)
            if dtype == "complex64":
                x = x + 1j * scale * away_from_zero(random, shape)
            return jnp.asarray(x, DTYPES[dtype])

        return jax.tree.map(leaf, SHAPES[tree], is_leaf=lambda x: type(x) is tuple)

    params = draw(1.0)
    gradients = [draw(0.5 * 0.97**step) for step in range(steps)]
    values = [{name: EXTRAS[name](step, params) for name in extra} for step in range(steps)]
    return Problem(params, gradients, values)


def away_from_zero(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normal numbers whose squares do not underflow in float16, where upstream then divides by zero."""
    x = random.standard_normal(shape)
    return np.copysign(np.abs(x) + 0.1, x)


EXTRAS = {
    "value": lambda step, params: jnp.asarray(2.0 * 0.8**step, jnp.float32),
}
