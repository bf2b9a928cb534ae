"""What the line searches share: the objective as a function of the parameters alone, dtypes, and reports."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from pytreeopt.errors import UnexpectedArgumentError


def bind(value_fn: Callable[..., Any], extra_args: dict[str, Any]) -> Callable[[Any], Any]:
    """`value_fn` with its further arguments filled in; one that it does not take is an error."""
    try:
        parameters = inspect.signature(value_fn).parameters
    except (TypeError, ValueError):  # a callable without a signature takes what it takes
        return functools.partial(value_fn, **extra_args)
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        unknown = sorted(name for name in extra_args if name not in parameters)
        if unknown:
            raise UnexpectedArgumentError(
                f"got what value_fn does not take. Unexpected keyword arguments: {', '.join(unknown)}; "
                "pass only value, grad, value_fn and the arguments of value_fn"
            )
    return functools.partial(value_fn, **extra_args)


def real_dtype(params: Any) -> Any:
    """The dtype of learning rates: that of the first leaf of the params, or of its real part."""
    leaves = jax.tree.leaves(params)
    return jnp.finfo(leaves[0].dtype).dtype if leaves else default_float()


def default_float() -> Any:
    """float32, or float64 under x64."""
    return jax.dtypes.canonicalize_dtype(float)


def infinity(dtype: Any = None) -> jax.Array:
    """Strongly typed: a weakly typed state would compile the first update and the second apart."""
    return jnp.full((), jnp.inf, dtype or default_float())


def zero_steps() -> jax.Array:
    """A count of steps in the default integer dtype, strongly typed."""
    return jnp.zeros((), int)


def report_if(condition: Any, message: str, **values: Any) -> None:
    """Prints at run time, in order, where the condition holds."""
    jax.lax.cond(condition, lambda v: jax.debug.print(message, ordered=True, **v), lambda v: None, values)
