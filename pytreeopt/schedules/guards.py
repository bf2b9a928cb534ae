"""What the schedules share: which numbers are known, and powers whose derivatives stay finite."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from pytreeopt.numerics import is_traced


def known(value: Any) -> bool:
    """Whether a Python branch on `value` is possible: a number or a scalar array, not traced."""
    return not isinstance(value, Tracer) and np.ndim(value) == 0


def python_number(value: Any) -> Any:
    """A known value as a Python number: a comparison with it then stays in Python, in compiled code too."""
    return value.item() if isinstance(value, jax.Array | np.ndarray | np.generic) else value


def is_differentiable(count: Any) -> bool:
    """Whether a derivative may flow through the count, as it does behind a traced boundary."""
    return is_traced(count) and jnp.issubdtype(count.dtype, jnp.inexact)


def power(base: Any, exponent: Any) -> Any:
    """$x^p$ for $x \\ge 0$; its derivatives at 0 are 0 where they would be infinite or undefined."""
    if type(exponent) is int and exponent == 1:
        return base
    positive = base > 0
    at_zero = jnp.where(exponent > 0, 0.0, jnp.where(exponent == 0, 1.0, jnp.inf))
    return jnp.where(positive, jnp.where(positive, base, 1) ** exponent, at_zero)
