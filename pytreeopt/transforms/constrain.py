"""Updates that keep parameters within bounds or free of NaN."""

from typing import final

import jax
import jax.numpy as jnp

from pytreeopt.base import AbstractStateless, GradientTransformation
from pytreeopt.errors import require_params, require_state
from pytreeopt.leafwise import leafwise
from pytreeopt.states import ZeroNansState


@final
class KeepParamsNonnegative(AbstractStateless):
    """Moves a parameter to 0 where its update would make it negative; the last member of a chain.

    Parameters that are negative before the update move to 0 too.
    """

    def transform(self, updates, params):
        params = require_params(params)
        return leafwise(
            lambda p, u: None if u is None else jnp.where((p + u) < 0.0, -p, u), params, updates, may_lack=True
        )


@final
class ZeroNans(GradientTransformation):
    """Replaces NaN by 0. The state says for each leaf whether the last updates held one."""

    def init(self, params):
        return ZeroNansState(found_nan=jax.tree.map(lambda p: jnp.array(False), params))

    def update(self, updates, state, params=None, **extra_args):
        require_state(state, ZeroNansState)
        found = leafwise(lambda g: jnp.any(jnp.isnan(g)), updates)
        return leafwise(lambda g: jnp.where(jnp.isnan(g), jnp.zeros_like(g), g), updates), ZeroNansState(found)


keep_params_nonnegative, zero_nans = KeepParamsNonnegative, ZeroNans
