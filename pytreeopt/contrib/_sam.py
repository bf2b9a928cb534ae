"""Sharpness-aware minimization."""

from typing import Any, final

import jax
import jax.numpy as jnp
import optax

from pytreeopt.base import GradientTransformation, coerce
from pytreeopt.errors import MissingArgumentError, require_params, require_state
from pytreeopt.fields import static
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import copy
from pytreeopt.states import SAMState


@final
class SAM(GradientTransformation):
    r"""Takes the gradient where a few steps uphill lead, and steps from where they began: towards flat minima.

    Often generalises better than the inner optimizer alone, at twice its cost or more.

    In transparent mode every `sync_period`-th update is a step of the optimizer, from the params that the state
    remembers; the updates between climb. The loop need not know. In opaque mode each update does it all, with
    gradients from the extra argument `grad_fn(params, i)`, the $i$-th of `sync_period` - 1.

    Args:
        optimizer: takes the step downhill.
        adv_optimizer: its updates, negated, are the steps uphill: `chain(normalize(), sgd(radius))`, say.
        sync_period: number of gradients for a step, at least 1.
        reset_state: start the state of `adv_optimizer` anew after each step.
        opaque_mode: compute the gradients uphill inside the update.
        batch_axis_name: in opaque mode, mapped axis over which those gradients are averaged.

    References:
        Foret et al., Sharpness-Aware Minimization for Efficiently Improving Generalization, 2021,
        https://arxiv.org/abs/2010.01412
    """

    optimizer: GradientTransformation
    adv_optimizer: GradientTransformation
    sync_period: int = static(2)
    reset_state: bool = static(True)
    opaque_mode: bool = static(False)
    batch_axis_name: str | None = static(None)

    def __post_init__(self):
        super().__post_init__()
        if self.sync_period < 1:
            raise ValueError(f"SAM: sync_period must be at least 1, got {self.sync_period}")

    def init(self, params):
        return SAMState(
            steps_since_sync=jnp.zeros([], jnp.int32),
            opt_state=coerce(self.optimizer).init(params),
            adv_state=coerce(self.adv_optimizer).init(params),
            cache=None if self.opaque_mode else copy(params),
        )

    def update(self, updates, state, params=None, *, grad_fn=None, **extra_args):
        params = require_params(params)
        state = require_state(state, SAMState)
        if not self.opaque_mode:
            return self._transparent(updates, state, params, **extra_args)
        if grad_fn is None:
            raise MissingArgumentError("needs grad_fn in opaque mode; call update(grads, state, params, grad_fn=...)")
        return self._opaque(updates, state, params, grad_fn, **extra_args)

    def _transparent(self, updates, state, params, **extra_args):
        optimizer, adversary = coerce(self.optimizer), coerce(self.adv_optimizer)
        first = state.steps_since_sync == 0
        last = state.steps_since_sync == self.sync_period - 1
        climb, adv_state = adversary.update(updates, state.adv_state, params, **extra_args)
        climb = leafwise(lambda u: -u, climb)
        descent, opt_state = optimizer.update(updates, state.opt_state, state.cache, **extra_args)
        descent = leafwise(lambda start, p, u: start - p + u, state.cache, params, descent)
        kept = adversary.init(params) if self.reset_state else state.adv_state
        return _blend(last, descent, climb), SAMState(
            steps_since_sync=(state.steps_since_sync + 1) % self.sync_period,
            opt_state=_blend(last, opt_state, state.opt_state),
            adv_state=_blend(last, kept, adv_state),
            cache=_blend(first, params, state.cache),
        )

    def _opaque(self, updates, state, params, grad_fn, **extra_args):
        optimizer, adversary = coerce(self.optimizer), coerce(self.adv_optimizer)
        point, adv_state = params, state.adv_state
        for i in range(self.sync_period - 1):
            climb, adv_state = adversary.update(updates, adv_state, point, **extra_args)
            point = optax.apply_updates(point, leafwise(lambda u: -u, climb))
            updates = grad_fn(point, i)
            if self.batch_axis_name is not None:
                updates = jax.lax.pmean(updates, axis_name=self.batch_axis_name)
        if self.reset_state:
            adv_state = adversary.init(params)
        direction, opt_state = optimizer.update(updates, state.opt_state, params, **extra_args)
        return direction, SAMState(jnp.zeros([], jnp.int32), opt_state, adv_state, cache=None)


def _blend(condition: jax.Array, if_true: Any, if_false: Any) -> Any:
    """One of two trees, as Optax's sum of products, which NaN and infinity in the other one must not spoil."""

    def pick(x, y):
        if not jnp.issubdtype(jnp.result_type(x), jnp.number):
            return jnp.where(condition, x, y)
        blended = condition * x + (1 - condition) * y
        return jnp.where(jnp.isfinite(blended), blended, jnp.where(condition, x, y).astype(blended.dtype))

    return leafwise(pick, if_true, if_false)


sam = SAM
