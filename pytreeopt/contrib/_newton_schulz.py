"""The nearest orthogonal matrix, approximately, by a Newton-Schulz iteration."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

PRECONDITIONINGS = ("frobenius", "spectral", "aol", "schatten")


def orthogonalize(x: jax.Array, coefficients: jax.Array, steps: int, preconditioning: str, eps: Any) -> jax.Array:
    r"""$X \leftarrow c_0 X + (c_1 A + c_2 A^2) X$ with $A = X X^*$, from a preconditioned matrix on.

    Args:
        x: a matrix, real or complex.
        coefficients: $c$, of shape (3,) for every step or (steps, 3).
        steps: number of steps.
        preconditioning: "frobenius" or "spectral" divide by that norm first; "aol" and "schatten" rescale within the
            first step.
        eps: added to the norm.
    """
    wide = x.shape[0] <= x.shape[1]
    x = x if wide else x.T  # f(X^T) = f(X)^T, and A is then the smaller matrix
    if preconditioning == "frobenius":
        x /= jnp.linalg.norm(x, ord="fro") + eps
    elif preconditioning == "spectral":
        x /= jnp.linalg.norm(x, ord=2) + eps
    coefficients = coefficients.astype(x.dtype)
    step = _step(preconditioning)
    if coefficients.ndim == 1:
        x = jax.lax.fori_loop(0, steps, lambda i, x: step(i, x, coefficients), x, unroll=True)
    else:

        def body(carry, c):
            i, x = carry
            return (i + 1, step(i, x, c)), None

        (_, x), _ = jax.lax.scan(body, (jnp.asarray(0, dtype=jnp.int32), x), coefficients)
    return x if wide else x.T


def _step(preconditioning: str) -> Callable[[Any, jax.Array, jax.Array], jax.Array]:
    first = {"aol": _aol, "schatten": _schatten}.get(preconditioning)
    if first is None:
        return lambda i, x, c: _quintic(x, x @ x.T.conj(), c)

    def plain(x, c):
        return _quintic(x, x @ x.T.conj(), c)

    return lambda i, x, c: jax.lax.cond(i == 0, lambda x: first(x, c), lambda x: plain(x, c), x)


def _quintic(x: jax.Array, a: jax.Array, c: jax.Array) -> jax.Array:
    b = c[1] * a + c[2] * a @ a
    return c[0] * x + b @ x


def _aol(x: jax.Array, c: jax.Array) -> jax.Array:
    """The first step with each row rescaled by the sum of its row of A: almost orthogonal layers."""
    a = x @ x.T.conj()
    scale = jnp.clip(jnp.abs(a).sum(axis=-1), min=_LEAST)
    s = jnp.expand_dims(jax.lax.rsqrt(scale), -1)
    return _quintic(x * s, a * s * s.transpose(-1, -2), c)


def _schatten(x: jax.Array, c: jax.Array) -> jax.Array:
    """The first step rescaled by the Schatten norm of order 4, the root of the norm of A."""
    a = x @ x.T.conj()  # without the conjugate a complex A would not be positive
    scale = jnp.clip(jnp.linalg.norm(a, ord="fro", axis=(-2, -1)), min=_LEAST)
    s = jnp.expand_dims(jax.lax.rsqrt(scale), (0, -1))
    return _quintic(x * s, a * s**2, c)


_LEAST = 1e-8
