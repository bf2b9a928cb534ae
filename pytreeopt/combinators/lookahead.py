"""Lookahead: slow parameters that follow fast ones."""

import logging
from typing import Any, final

import jax
import jax.numpy as jnp

from pytreeopt.base import GradientTransformation, Numeric, coerce
from pytreeopt.combinators.agreement import filled, with_dtype
from pytreeopt.errors import ParamsKindError, StepCountError, require_state
from pytreeopt.fields import static
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import require_whole
from pytreeopt.states import LookaheadParams, LookaheadState, is_params_placeholder

logger = logging.getLogger(__name__)


@final
class Lookahead(GradientTransformation):
    r"""Every few steps moves slow parameters towards the fast ones and restarts these from there.

    $$ d = f + u - s, \qquad \Delta s = \alpha d, \quad \Delta f = u - (1 - \alpha) d \quad
    \text{every } k \text{ steps, else } \Delta s = 0,\ \Delta f = u $$

    Params and updates are `LookaheadParams`, pairs of fast and slow; gradients are taken at the fast ones and have
    their structure. The updates must be applied as they are.

    Args:
        fast_optimizer: makes $u$ from the gradients at $f$.
        sync_period: $k$, the number of fast steps between synchronisations, a whole number >= 1, else ValueError.
        slow_step_size: $\alpha$, how far the slow parameters move, in [0, 1].
        reset_state: start the fast optimizer anew after each synchronisation.

    References:
        Zhang et al., Lookahead Optimizer: k Steps Forward, 1 Step Back, 2019, https://arxiv.org/abs/1907.08610
    """

    fast_optimizer: GradientTransformation
    sync_period: Numeric
    slow_step_size: Numeric
    reset_state: bool = static(False)

    def __post_init__(self):
        super().__post_init__()
        if isinstance(self.sync_period, int | float) and not self._holds_placeholders():
            try:
                require_whole("sync_period", self.sync_period)
            except StepCountError as error:
                error.rise_through(type(self).__name__, "")
                raise

    def init(self, params):
        require_whole("sync_period", self.sync_period)
        fast = getattr(params, "fast", None)
        if fast is None:
            fast = params
            if not is_params_placeholder(params):
                logger.warning("Lookahead.init got no LookaheadParams; it takes the params to be the fast ones")
        return LookaheadState(coerce(self.fast_optimizer).init(fast), jnp.zeros([], jnp.int32))

    def update(self, updates, state, params=None, **extra_args):
        require_whole("sync_period", self.sync_period)
        state = require_state(state, LookaheadState)
        if not (hasattr(params, "fast") and hasattr(params, "slow")):
            raise ParamsKindError(
                f"needs LookaheadParams, got {None if params is None else type(params).__name__}; "
                "call update(grads, state, params) with params = LookaheadParams.init_synced(...)"
            )
        optimizer = coerce(self.fast_optimizer)
        updates, fast_state = optimizer.update(updates, state.fast_state, params.fast, **extra_args)
        sync = state.steps_since_sync == (self.sync_period - 1)
        slow_part, fast_part = self.slow_step_size * sync, sync * (1 - self.slow_step_size)

        def both(u, f, s):
            difference = _finite_unless(sync, f + u - s)
            return u - fast_part * difference, slow_part * difference

        fast, slow = leafwise(both, updates, params.fast, params.slow, outputs=2)
        if self.reset_state:
            fresh = filled(optimizer.init(params.fast), fast_state)
            fast_state = jax.tree.map(lambda old, new: _choose(sync, new, old), fast_state, fresh)
        steps = with_dtype((state.steps_since_sync + 1) % self.sync_period, state.steps_since_sync)
        return LookaheadParams(fast=fast, slow=slow), LookaheadState(fast_state, steps)


def _choose(sync: jax.Array, fresh: Any, current: Any) -> Any:
    """`fresh` if `sync`; for floats by a sum of products, which gives 0 the sign that Optax's has."""
    current, fresh = jnp.asarray(current), with_dtype(fresh, current)
    if not jnp.issubdtype(current.dtype, jnp.inexact):
        return jnp.where(sync, fresh, current)
    return (1 - sync) * _finite_unless(~sync, current) + sync * fresh


def _finite_unless(counts: jax.Array, x: jax.Array) -> jax.Array:
    """`x`, with 0 for what is not finite unless it counts: multiplied by 0 it would be NaN."""
    return jnp.where(counts | jnp.isfinite(x), x, 0)


lookahead = Lookahead
