"""To Optax and back."""

from typing import Any

import jax
import jax.numpy as jnp
import optax


def as_optax(opt: Any) -> optax.GradientTransformationExtraArgs:
    """A plain upstream pair of functions that closes over `opt`, for what needs closures."""
    init, update = opt
    return optax.GradientTransformationExtraArgs(init, update)


def as_arrays(opt: Any) -> Any:
    """`opt` with its Python numbers as weakly typed arrays: same numbers and programs, cheaper to dispatch.

    Equinox's `filter_jit` takes Python numbers for static and arrays for dynamic.
    """
    return jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, float | int) else x, opt)
