"""Shared arithmetic: upstream's operations and operands, one trace per leaf shape, derivatives that stay finite."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer

from pytreeopt.base import as_dynamic
from pytreeopt.errors import ParamsDtypeError, StepCountError
from pytreeopt.leafwise import building_a_jaxpr, leafwise


def is_traced(*values: Any) -> bool:
    return any(isinstance(value, Tracer) for value in values)


def holds_tracers(tree: Any) -> bool:
    return is_traced(*jax.tree.leaves(tree))


def zeros_like(params: Any, dtype: Any = None) -> Any:
    """Fresh zeros in the structure of `params`, for what accumulates."""
    if dtype is None:
        require_inexact(params)
    return jax.tree.map(lambda x: jnp.zeros_like(x, dtype=dtype), params)


def require_inexact(params: Any) -> None:
    """Refuses integer params: a buffer of their dtype cannot accumulate fractions."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        dtype = leaf.dtype if hasattr(leaf, "dtype") else jax.dtypes.result_type(leaf)
        if not jnp.issubdtype(dtype, jnp.inexact):
            where = f" at {jax.tree_util.keystr(path)}" if path else ""
            raise ParamsDtypeError(
                f"needs floating or complex params, got {dtype}{where}; cast them, or leave them out with masked(...)"
            )


def keep_dtype(new: Any, old: Any, dtype: Any = None) -> Any:
    """`new` in `dtype`, or in the dtypes of `old`: a state keeps its dtypes whatever the gradients bring."""
    if dtype is not None:
        return leafwise(lambda x: x.astype(dtype), new)
    return leafwise(like, new, old)


def update_moment(updates: Any, moments: Any, decay: Any, order: int) -> Any:
    """$(1 - d)\\, g^k + d\\, m$, with the operands in Optax's order."""
    return leafwise(lambda g, m: (1 - decay) * power(g, order) + decay * m, updates, moments)


def update_moment_per_elem_norm(updates: Any, moments: Any, decay: Any, order: int) -> Any:
    """As `update_moment` with $|g|^k$, real for complex gradients; `order` is even."""
    return leafwise(lambda g, m: (1 - decay) * abs_power(g, order) + decay * m, updates, moments)


def power(x: Any, order: int) -> Any:
    """$x^k$ as upstream's bits, without the time that an eager power takes: several multiplications."""
    if order == 1:
        return x
    return x * x if order == 2 and jnp.isrealobj(x) else x**order  # a complex product is contracted otherwise


def abs_power(x: Any, order: int) -> Any:
    """$|x|^k$ for an even $k$, as upstream's bits, real for complex numbers."""
    return power(x, order) if jnp.isrealobj(x) else power(abs_sq(x), order // 2)


def abs_sq(x: Any) -> Any:
    """$|x|^2$ as a real array."""
    return (x.conj() * x).real


def bias_correction(moment: Any, decay: Any, count: Any) -> Any:
    r"""$m / (1 - d^t)$, the power in float32 or wider, the division in the moment's own dtype.

    Eagerly this is upstream's compiled helper, which is part of its eager numbers.
    """
    if not building_a_jaxpr([jax.tree.leaves((moment, decay, count))]):
        return optax.tree.bias_correction(moment, decay, count)
    correction = 1 - jnp.asarray(decay) ** count
    return leafwise(lambda m: m / correction.astype(m.dtype), moment)


def leafwise_debiased(f: Callable[..., Any], moments: tuple[Any, ...], decays: tuple[Any, ...], count: Any) -> Any:
    """Maps `f` over the leaves of moments, each first corrected for its bias: one traced function for it all.

    Eagerly the correction is upstream's compiled helper on the whole tree, as in `bias_correction`.
    """
    if not building_a_jaxpr([jax.tree.leaves((moments, decays, count))]):
        return leafwise(f, *(optax.tree.bias_correction(m, d, count) for m, d in zip(moments, decays, strict=True)))
    corrections = [1 - jnp.asarray(decay) ** count for decay in decays]
    debias = lambda *leaves: (x / c.astype(x.dtype) for x, c in zip(leaves, corrections, strict=True))
    return leafwise(lambda *leaves: f(*debias(*leaves)), *moments)


def update_two_moments(updates: Any, mu: Any, nu: Any, b1: Any, b2: Any) -> tuple[Any, Any]:
    """The averages of $g$ and of $|g|^2$, in one traced function: `update_moment`, `update_moment_per_elem_norm`."""

    def update(g, m, v):
        return (1 - b1) * g + b1 * m, (1 - b2) * abs_power(g, 2) + b2 * v

    return leafwise(update, updates, mu, nu, outputs=2)


@jax.custom_jvp
def _sqrt(x: Any) -> Any:
    return jnp.sqrt(x)


@_sqrt.defjvp
def _sqrt_jvp(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    root = jnp.sqrt(x)
    slope = jnp.where(x == 0, 0, 0.5 / jnp.where(x == 0, 1, root)).astype(root.dtype)
    return root, slope * x_dot


def sqrt(x: Any) -> Any:
    """Square root whose derivative at 0 is 0: a gradient of exactly 0 carries no hypergradient, not NaN."""
    return _sqrt(x) if is_traced(x) else jnp.sqrt(x)


def divide_by_root(numerator: Any, radicand: Any, eps: Any) -> Any:
    r"""$n / (\sqrt r + \epsilon)$; just $n$ where that is $n/0$, as with $\epsilon = 10^{-8}$ in float16."""
    return numerator / (sqrt(one_where_zero(radicand, vanishes(eps, radicand.dtype))) + eps)


def one_where_zero(x: Any, guard: Any = True) -> Any:
    """1 where `x` is 0 and `guard` holds, for a divisor; a guard that is known to be False costs nothing.

    A guard must not change how the compiler rounds the rest. So it stands before the division: a select behind it
    would part a product from the sum that follows. And it works in float32, in which the compiler keeps float16
    values between operations, except across a select in float16. The sum over no leaves is a Python number.
    """
    if isinstance(x, int | float):
        return x if x or not guard else 1
    if guard is False:
        return x
    wide = x.astype(jnp.float32) if x.dtype == jnp.float16 else x
    return jnp.where((wide == 0) & guard, 1, wide).astype(x.dtype)


def copy(tree: Any) -> Any:
    """Fresh buffers with the values of `tree`, for a state that remembers the parameters and may be donated."""
    return jax.tree.map(jnp.copy, tree)


def own(given: Any, old: Any) -> Any:
    """A copy in the dtypes of `old`: a state must not share buffers with what it remembers, or donating it destroys
    the params or gradients.
    """
    return keep_dtype(leafwise(jnp.copy, given), old)


def like(x: Any, old: Any) -> Any:
    """The array `x` in the dtype of `old`."""
    return x if x.dtype == old.dtype else x.astype(old.dtype)


def in_precision_of(x: Any, leaf: Any) -> Any:
    """The array `x` in the dtype of a leaf, unless that would round it to an integer or drop its imaginary part."""
    dtype = getattr(leaf, "dtype", x.dtype)
    kept = jnp.complexfloating if jnp.iscomplexobj(x) else jnp.inexact
    return x.astype(dtype) if jnp.issubdtype(dtype, kept) else x


def require_whole(name: str, value: Any) -> Any:
    """A number of steps as it is; refused where it is known not to be a whole one, or to be less than 1."""
    if not isinstance(value, Tracer):
        number = np.asarray(value)
        if not np.all((number >= 1) & (number == np.floor(number))):
            raise StepCountError(f"needs a whole number >= 1 as {name}, got {value}")
    return value


def value_at(hyperparameter: Any, count: Any) -> Any:
    """The value of a number or schedule; of a schedule weakly typed, so that it promotes as a number would."""
    return as_dynamic("value", hyperparameter(count)) if callable(hyperparameter) else hyperparameter


def vanishes(eps: Any, dtype: Any) -> Any:
    """Whether `eps` is 0 in `dtype`: False, True, or an array for the compiled program to look at.

    A traced `eps` is looked at in float16 only, in which the usual ones are 0.
    """
    if isinstance(eps, float | int):
        return bool(np.asarray(eps).astype(dtype) == 0)
    return dtype == jnp.float16 and jnp.asarray(eps).astype(jnp.float16) == 0


def full_like(params: Any, value: Any) -> Any:
    """A fresh tree in the structure of `params`, filled with a number, for what accumulates."""
    require_inexact(params)
    return jax.tree.map(lambda x: jnp.full_like(x, value), params)


def update_infinity_moment(updates: Any, moments: Any, decay: Any, eps: Any) -> Any:
    r"""$\max(|g| + \epsilon, d\, m)$."""
    return leafwise(lambda g, m: jnp.maximum(jnp.abs(g) + eps, decay * m), updates, moments)


def nesterov_moment(moment: Any, updates: Any, decay: Any, count: Any) -> Any:
    """The average as it will be if the next gradient is the present one, both corrected for their bias."""
    ahead = bias_correction(moment, decay, optax.safe_increment(count))
    now = bias_correction(updates, decay, count)
    return leafwise(lambda m, g: decay * m + (1 - decay) * g, ahead, now)


def inverse_root(x: Any, eps: Any) -> Any:
    r"""$1/\sqrt{x + \epsilon}$ where $x$ is positive, else 0."""
    return jnp.where(x > 0, jax.lax.rsqrt(x + eps), 0.0)


@jax.custom_jvp
def _inverse_sqrt(x: Any) -> Any:
    return x**-0.5


@_inverse_sqrt.defjvp
def _inverse_sqrt_jvp(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    root = x**-0.5
    slope = -0.5 * root / x
    return root, jnp.where(jnp.isfinite(slope), slope, 0).astype(root.dtype) * x_dot


def inverse_sqrt(x: Any) -> Any:
    r"""$x^{-1/2}$ whose derivative is 0 where it overflows, as at a squared gradient of 0 plus a tiny $\epsilon$."""
    return _inverse_sqrt(x) if is_traced(x) else x**-0.5


@jax.custom_jvp
def _cbrt(x: Any) -> Any:
    return jnp.cbrt(x)


@_cbrt.defjvp
def _cbrt_jvp(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    root = jnp.cbrt(x)
    slope = jnp.where(x == 0, 0, 1 / (3 * jnp.where(x == 0, 1, root) ** 2)).astype(root.dtype)
    return root, slope * x_dot


def cbrt(x: Any) -> Any:
    """Cube root whose derivative at 0 is 0, as `sqrt`."""
    return _cbrt(x) if is_traced(x) else jnp.cbrt(x)


def norm(tree: Any) -> Any:
    """Euclidean norm over all leaves, Optax's number; its derivative at 0 is 0."""
    return sqrt(optax.tree.norm(tree, squared=True))
