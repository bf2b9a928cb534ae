"""To Optax and back."""

import functools
import warnings
from collections.abc import Collection
from typing import Any, final

import jax
import jax.numpy as jnp
import optax
from flax import struct

from pytreeopt.base import FunctionPair, GradientTransformation, IgnoreExtraArgs, as_dynamic, coerce
from pytreeopt.fields import Named, static
from pytreeopt.interop.closures import Opened, Program, open_closures


def as_optax(opt: Any) -> optax.GradientTransformationExtraArgs:
    """A plain upstream pair of functions that closes over `opt`, for what needs closures."""
    init, update = opt
    return optax.GradientTransformationExtraArgs(init, update)


def as_arrays(opt: Any) -> Any:
    """`opt` with its Python numbers as weakly typed arrays: same numbers and programs, cheaper to dispatch.

    Equinox's `filter_jit` takes Python numbers for static and arrays for dynamic.
    """
    return jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, float | int) else x, opt)


def _as_numbers(name: str, numbers: Any) -> Any:
    return numbers.map(functools.partial(as_dynamic, name)) if isinstance(numbers, Named) else numbers


@final
class OpenedPair(GradientTransformation):
    """A pair of functions with the numbers that they have captured as leaves; made by `from_optax`.

    Args:
        numbers: the numbers by the path to the variable that holds each, as in `update.update_fns[0].b1`.
        program: the functions without the numbers.
    """

    numbers: Any = struct.field(metadata={"convert": _as_numbers})
    program: Program = static()

    @functools.cached_property
    def _pair(self) -> GradientTransformation:
        return coerce(self.program.build(tuple(self.numbers.values())))

    def init(self, params):
        return self._pair.init(params)

    def update(self, updates, state, params=None, **extra_args):
        return self._pair.update(updates, state, params, **extra_args)


_FOREIGN = FunctionPair | IgnoreExtraArgs


def from_optax(tx: Any, static: Collection[str] = ()) -> GradientTransformation:
    """An optimizer made of closures, as Optax's are, as a pytree: the numbers that it has captured become leaves.

    The floats and arrays that its functions have captured, at any depth, are found and can be exchanged: two
    learning rates share one compilation, and `vmap` and `grad` reach every number. Integers, strings and all else stay
    part of the program: they decide lengths and shapes. What a function computed from a number before it captured the
    result shows as that result: Optax's `sgd(0.1)` holds a `step_size` of -0.1.

    An optimizer of this package is returned as it is, with the closures among its members opened.

    Args:
        tx: an Optax optimizer, or anything with functions `init` and `update`.
        static: names (`eps_root`) or whole paths of numbers that must stay Python numbers, because the optimizer
            decides something by them while it is traced.

    Raises:
        ValueError: a name in `static` belongs to no number.

    Warns:
        UserWarning: something captured cannot be opened, a compiled function say; it stays static.
    """
    found: list[Opened] = []

    def opened(member: Any) -> Any:
        if not isinstance(member, _FOREIGN):
            return member
        found.append(open_closures(member, static))
        return OpenedPair(Named.of(found[-1].numbers), found[-1].program)

    result = jax.tree.map(opened, coerce(tx), is_leaf=lambda member: isinstance(member, _FOREIGN))
    unknown = set(static).difference(*(each.kept for each in found))
    if unknown:
        paths = ", ".join(path for each in found for path in each.numbers) or "no numbers"
        raise ValueError(f"from_optax: no number is named {', '.join(sorted(unknown))}; there are {paths}")
    unopened = [path for each in found for path in each.unopened]
    if unopened:
        warnings.warn(
            f"from_optax: what {', '.join(unopened)} may hold stays static, it cannot be opened", stacklevel=2
        )
    return result
