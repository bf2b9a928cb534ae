"""Decoupled weight decay."""

from typing import Any, final

import jax.numpy as jnp
from optax import safe_increment

from pytreeopt.base import GradientTransformation, ScalarOrSchedule
from pytreeopt.combinators.masked import Masked
from pytreeopt.errors import require_params, require_state
from pytreeopt.fields import static_tree
from pytreeopt.leafwise import leafwise
from pytreeopt.states import EmptyState, WeightDecaySchedule


@final
class AddDecayedWeights(GradientTransformation):
    r"""Adds the parameters times a number: $u + \lambda\, \theta$.

    The Python number 0 leaves the updates untouched; a traced 0 computes $u + 0\,\theta$.

    Args:
        weight_decay: $\lambda$, a number or a schedule of the number of updates so far.
        mask: tree of bools, or function of the params that makes one: where true, weights decay.

    References:
        Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, https://arxiv.org/abs/1711.05101
    """

    weight_decay: ScalarOrSchedule = 0.0
    mask: Any = static_tree(None)

    def init(self, params):
        if self.mask is not None:
            return self._masked.init(params)
        return WeightDecaySchedule(jnp.zeros([], jnp.int32)) if callable(self.weight_decay) else EmptyState()

    def update(self, updates, state, params=None, **extra_args):
        params = require_params(params)
        if self.mask is not None:
            return self._masked.update(updates, state, params)
        decay = self.weight_decay
        if callable(decay):
            count = require_state(state, WeightDecaySchedule).count
            decay, state = decay(count), WeightDecaySchedule(safe_increment(count))
        elif isinstance(decay, int | float) and decay == 0:
            return updates, state
        return leafwise(lambda g, p: g + decay * p, updates, params, may_lack=True), state

    @property
    def _masked(self) -> Masked:
        return Masked(self.replace(mask=None), self.mask)


add_decayed_weights = AddDecayedWeights
