"""Clipping of the updates: by element, by block, by global norm."""

from typing import final

import jax
import jax.numpy as jnp
import optax

from pytreeopt.base import AbstractStateless, Numeric
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import abs_sq, sqrt


@final
class Clip(AbstractStateless):
    """Clips every element of the updates to an interval around zero.

    Args:
        max_delta: greatest absolute value of an element, positive.
    """

    max_delta: Numeric

    def transform(self, updates, params):
        low, high = -self.max_delta, self.max_delta
        return leafwise(lambda g: jnp.clip(g, low, high), updates)


@final
class ClipByBlockRms(AbstractStateless):
    r"""Scales each leaf down to a greatest root mean square: $u / \max(1, \mathrm{rms}(u) / d)$.

    Args:
        threshold: $d$, the greatest root mean square of a leaf, positive.

    References:
        Shazeer and Stern, Adafactor, 2018, section 6, https://arxiv.org/abs/1804.04235
    """

    threshold: Numeric

    def transform(self, updates, params):
        return leafwise(lambda u: u / jnp.maximum(1.0, sqrt(jnp.mean(abs_sq(u))) / self.threshold), updates)


@final
class ClipByGlobalNorm(AbstractStateless):
    r"""Scales all updates down together to a greatest norm: $u \min(1, c / \lVert u \rVert)$.

    Zero updates stay zero, with derivative zero or one, not NaN.

    Args:
        max_norm: $c$, the greatest norm over all leaves together, positive.

    References:
        Pascanu et al., On the Difficulty of Training Recurrent Neural Networks, 2012,
        https://arxiv.org/abs/1211.5063
    """

    max_norm: Numeric

    def transform(self, updates, params):
        return _clip_by_global_norm(updates, self.max_norm)


@jax.custom_jvp
def _clip_by_global_norm(updates, max_norm):
    return _clipped(updates, optax.tree.norm(updates), max_norm)


@_clip_by_global_norm.defjvp
def _clip_by_global_norm_jvp(primals, tangents):
    """Upstream's own derivative is 0/0 at zero updates, in the norm's root and in the branch not taken."""
    (updates, max_norm), (updates_dot, max_norm_dot) = primals, tangents
    norm = optax.tree.norm(updates)
    keep = _is_within(norm, max_norm)
    safe_norm = jnp.where(keep, 1, norm)
    inner = jax.tree.map(lambda t, t_dot: jnp.sum((jnp.conj(t) * t_dot).real), updates, updates_dot)
    norm_dot = optax.tree.sum(inner) / safe_norm
    if max_norm_dot.dtype == jax.dtypes.float0:  # of a whole number
        max_norm_dot = 0.0

    def clipped_dot(t, t_dot):
        unit = t / safe_norm
        moved = (t_dot - unit * norm_dot) / safe_norm * max_norm + unit * max_norm_dot
        return jnp.where(keep, t_dot, moved).astype(t.dtype)

    return _clipped(updates, norm, max_norm), jax.tree.map(clipped_dot, updates, updates_dot)


def _is_within(norm, max_norm):
    return (norm < max_norm) | (norm == 0)


def _clipped(updates, norm, max_norm):
    keep = _is_within(norm, max_norm)
    return leafwise(lambda t: jax.lax.select(keep, t, (t / norm.astype(t.dtype)) * max_norm), updates)


clip, clip_by_block_rms, clip_by_global_norm = Clip, ClipByBlockRms, ClipByGlobalNorm
