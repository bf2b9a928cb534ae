"""Clipping of the updates relative to the parameters, unit by unit."""

from typing import final

import jax.numpy as jnp

from pytreeopt.base import AbstractStateless, Numeric
from pytreeopt.errors import StructureError, require_params
from pytreeopt.fields import static
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import abs_sq, sqrt

_LEAST_NORM = 1e-6  # of a divisor


@final
class AdaptiveGradClip(AbstractStateless):
    r"""Scales the updates of each unit down to a fraction of the norm of its parameters.

    $$ u_i = g_i \min\left( 1, \frac{c \max(\lVert \theta_i \rVert, \epsilon)}{\lVert g_i \rVert} \right) $$

    A unit $i$ is a scalar or vector leaf; a column of a matrix; what the last axis of a leaf of rank 4 or 5, and
    the last two of one of rank 3, index.

    Args:
        clipping: $c$, the greatest ratio of the norms, positive.
        eps: $\epsilon$, the least norm of parameters: those at zero must be able to move.
        axis: axis or axes over which norms are taken, instead of that rule.

    References:
        Brock et al., High-Performance Large-Scale Image Recognition Without Normalization, 2021,
        https://arxiv.org/abs/2102.06171
    """

    clipping: Numeric
    eps: Numeric = 1e-3
    axis: int | tuple[int, ...] | None = static(None)

    def transform(self, updates, params):
        params = require_params(params)

        def clip(g, p):
            norm, greatest = self._norm(g), self.clipping * jnp.maximum(self._norm(p), self.eps)
            clipped = g * (greatest / jnp.maximum(norm, _LEAST_NORM))
            return jnp.where(norm < greatest, g, clipped)

        return leafwise(clip, updates, params, may_lack=True)

    def _norm(self, x):
        axis = _axes(x.shape) if self.axis is None else self.axis
        return jnp.broadcast_to(sqrt(jnp.sum(abs_sq(x), axis=axis, keepdims=True)), x.shape)


def _axes(shape: tuple[int, ...]) -> int | tuple[int, ...] | None:
    if sum(size != 1 for size in shape) <= 1:
        return None
    match len(shape):
        case 2 | 3:
            return 0
        case 4 | 5:
            return tuple(range(len(shape) - 1))
    raise StructureError(f"needs axis for a leaf of rank {len(shape)}, shape {shape}; only ranks up to 5 have a rule")


adaptive_grad_clip = AdaptiveGradClip
