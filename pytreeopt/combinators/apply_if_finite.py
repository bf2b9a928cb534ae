"""Steps only on finite gradients."""

from typing import final

import jax
import jax.numpy as jnp
import optax

from pytreeopt.base import GradientTransformation, Numeric, coerce
from pytreeopt.combinators.agreement import step_or_keep
from pytreeopt.errors import require_state
from pytreeopt.leafwise import leafwise
from pytreeopt.states import ApplyIfFiniteState


@final
class ApplyIfFinite(GradientTransformation):
    """Skips a step whose updates hold an infinity or a NaN: the updates are then 0 and the inner state is kept.

    After too many such steps in a row it gives up and passes them on.

    Args:
        inner: the transformation; it sees only updates that are finite, until then.
        max_consecutive_errors: how many steps in a row may be skipped, a whole number >= 0.
    """

    inner: GradientTransformation
    max_consecutive_errors: Numeric

    def init(self, params):
        return ApplyIfFiniteState(
            notfinite_count=jnp.zeros([], jnp.int32),
            last_finite=jnp.array(True),
            total_notfinite=jnp.zeros([], jnp.int32),
            inner_state=coerce(self.inner).init(params),
        )

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ApplyIfFiniteState)
        finite = jnp.all(jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(updates)]))
        in_a_row = jnp.where(finite, 0, optax.safe_increment(state.notfinite_count))
        new_updates, inner_state = step_or_keep(
            finite | (in_a_row > self.max_consecutive_errors),
            lambda: coerce(self.inner).update(updates, state.inner_state, params, **extra_args),
            lambda: leafwise(jnp.zeros_like, updates),
            state.inner_state,
        )
        total = jnp.where(finite, state.total_notfinite, optax.safe_increment(state.total_notfinite))
        return new_updates, ApplyIfFiniteState(in_a_row, finite, total, inner_state)


apply_if_finite = ApplyIfFinite
