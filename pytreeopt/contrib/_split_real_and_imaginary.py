"""Complex parameters for transformations of real ones."""

from typing import Any, final

import jax
import jax.numpy as jnp

from pytreeopt.base import GradientTransformation, coerce
from pytreeopt.errors import require_state
from pytreeopt.states import SplitRealAndImaginaryArrays, SplitRealAndImaginaryState


@final
class SplitRealAndImaginary(GradientTransformation):
    """Lets a transformation see each complex leaf as two real ones, its real and its imaginary part.

    Extra arguments are passed on as they are.

    Args:
        inner: the transformation.
    """

    inner: GradientTransformation

    def init(self, params):
        return SplitRealAndImaginaryState(coerce(self.inner).init(_split(params)))

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, SplitRealAndImaginaryState)
        pairs, inner_state = coerce(self.inner).update(_split(updates), state.inner_state, _split(params), **extra_args)
        joined = jax.tree.map(_join, pairs, is_leaf=_is_pair)
        return joined, SplitRealAndImaginaryState(inner_state)


def _split(tree: Any) -> Any:
    return jax.tree.map(lambda x: SplitRealAndImaginaryArrays(x.real, x.imag) if jnp.iscomplexobj(x) else x, tree)


def _is_pair(x: Any) -> bool:
    return isinstance(x, SplitRealAndImaginaryArrays)


def _join(x: Any) -> Any:
    return x.real + x.imaginary * 1j if _is_pair(x) else x


split_real_and_imaginary = SplitRealAndImaginary
