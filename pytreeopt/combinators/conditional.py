"""Transformations that act only when a function of the step count says so."""

from collections.abc import Callable
from typing import Any, final

import jax.numpy as jnp
from optax import safe_increment

from pytreeopt.base import GradientTransformation, coerce
from pytreeopt.combinators.agreement import step_or_keep
from pytreeopt.errors import require_state
from pytreeopt.fields import static
from pytreeopt.leafwise import leafwise
from pytreeopt.states import ConditionallyMaskState, ConditionallyTransformState


@final
class ConditionallyTransform(GradientTransformation):
    """Transforms the updates when a condition holds; otherwise they pass through and the inner state is kept.

    Args:
        inner: the transformation.
        should_transform_fn: maps the number of earlier updates to a bool; compared by identity.
        forward_extra_args: give the function the extra arguments of `update`, too.
    """

    inner: GradientTransformation
    should_transform_fn: Callable[..., Any] = static()
    forward_extra_args: bool = static(False)

    def init(self, params):
        return ConditionallyTransformState(coerce(self.inner).init(params), jnp.zeros([], jnp.int32))

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ConditionallyTransformState)
        new_updates, inner_state = step_or_keep(
            self.should_transform_fn(state.step, **(extra_args if self.forward_extra_args else {})),
            lambda: coerce(self.inner).update(updates, state.inner_state, params, **extra_args),
            lambda: updates,
            state.inner_state,
        )
        return new_updates, ConditionallyTransformState(inner_state, safe_increment(state.step))


@final
class ConditionallyMask(GradientTransformation):
    """Transforms the updates when a condition holds; otherwise they are 0 and the inner state is kept.

    Args:
        inner: the transformation.
        should_transform_fn: maps the number of earlier updates to a bool; compared by identity.
        forward_extra_args: give the function the extra arguments of `update`, too.
    """

    inner: GradientTransformation
    should_transform_fn: Callable[..., Any] = static()
    forward_extra_args: bool = static(False)

    def init(self, params):
        return ConditionallyMaskState(jnp.zeros([], jnp.int32), coerce(self.inner).init(params))

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ConditionallyMaskState)
        new_updates, inner_state = step_or_keep(
            self.should_transform_fn(state.step, **(extra_args if self.forward_extra_args else {})),
            lambda: coerce(self.inner).update(updates, state.inner_state, params, **extra_args),
            lambda: leafwise(jnp.zeros_like, updates),
            state.inner_state,
        )
        return new_updates, ConditionallyMaskState(safe_increment(state.step), inner_state)


conditionally_transform, conditionally_mask = ConditionallyTransform, ConditionallyMask
