"""Transformations that act only when a function of the step count says so."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, final

import jax.numpy as jnp
from optax import safe_increment

from pytreeopt.base import GradientTransformation, coerce
from pytreeopt.combinators.agreement import step_or_keep
from pytreeopt.errors import require_state
from pytreeopt.fields import static
from pytreeopt.leafwise import leafwise
from pytreeopt.states import ConditionallyMaskState, ConditionallyTransformState


class _AbstractConditional(GradientTransformation):
    """Takes the inner step where a function of the step count holds; otherwise keeps the inner state."""

    inner: GradientTransformation
    should_transform_fn: Callable[..., Any] = static()
    forward_extra_args: bool = static(False)

    _state_class: ClassVar[Any]

    @abc.abstractmethod
    def instead(self, updates: Any) -> Any:
        """The updates of a step that is not taken."""

    def init(self, params):
        return self._state_class(inner_state=coerce(self.inner).init(params), step=jnp.zeros([], jnp.int32))

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, self._state_class)
        new_updates, inner_state = step_or_keep(
            self.should_transform_fn(state.step, **(extra_args if self.forward_extra_args else {})),
            lambda: coerce(self.inner).update(updates, state.inner_state, params, **extra_args),
            lambda: self.instead(updates),
            state.inner_state,
        )
        return new_updates, self._state_class(inner_state=inner_state, step=safe_increment(state.step))


@final
class ConditionallyTransform(_AbstractConditional):
    """Transforms the updates when a condition holds; otherwise they pass through and the inner state is kept.

    Args:
        inner: the transformation.
        should_transform_fn: maps the number of earlier updates to a bool; compared by identity.
        forward_extra_args: give the function the extra arguments of `update`, too.
    """

    _state_class = ConditionallyTransformState

    def instead(self, updates):
        return updates


@final
class ConditionallyMask(_AbstractConditional):
    """Transforms the updates when a condition holds; otherwise they are 0 and the inner state is kept.

    Args:
        inner: the transformation.
        should_transform_fn: maps the number of earlier updates to a bool; compared by identity.
        forward_extra_args: give the function the extra arguments of `update`, too.
    """

    _state_class = ConditionallyMaskState

    def instead(self, updates):
        return leafwise(jnp.zeros_like, updates)


conditionally_transform, conditionally_mask = ConditionallyTransform, ConditionallyMask
