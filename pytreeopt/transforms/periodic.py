"""Updates that are applied only now and then."""

from typing import final

import jax.numpy as jnp
from optax import safe_increment

from pytreeopt.base import GradientTransformation, Numeric
from pytreeopt.errors import require_state
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import keep_dtype, require_whole, zeros_like
from pytreeopt.states import ApplyEvery


@final
class ApplyEveryK(GradientTransformation):
    r"""Adds updates up, gives their sum at every $k$-th step and zeros between.

    The members of a chain before and after still step at every call; `MultiSteps` wraps a whole optimizer. The state
    counts modulo $k$, so a change of $k$ in mid-run changes where a period ends.

    Args:
        k: $k$, the number of updates that are summed, a whole number >= 1, else ValueError.
    """

    k: Numeric = 1

    def init(self, params):
        return ApplyEvery(count=jnp.zeros([], jnp.int32), grad_acc=zeros_like(params))

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ApplyEvery)
        position = state.count % require_whole("k", self.k)
        goes_on, emits = position != 0, position == (self.k - 1)
        total = leafwise(lambda g, acc: goes_on * acc + g, updates, state.grad_acc)
        out = leafwise(lambda acc: emits * jnp.where(emits | jnp.isfinite(acc), acc, 0), total)
        # The next period multiplies this one's sum by 0, so it must be finite.
        kept = leafwise(lambda acc: jnp.where(emits & ~jnp.isfinite(acc), 0, acc), total)
        count = jnp.asarray(jnp.asarray(safe_increment(state.count)) % self.k, jnp.int32)
        return out, ApplyEvery(count=count, grad_acc=keep_dtype(kept, state.grad_acc))


apply_every = ApplyEveryK
