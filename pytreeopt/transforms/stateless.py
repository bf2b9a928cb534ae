"""Transformations without state or hyperparameters, and those made from a function of the updates."""

from collections.abc import Callable
from typing import Any, final

import jax
import jax.numpy as jnp

from pytreeopt.base import AbstractStateless, GradientTransformation
from pytreeopt.fields import static
from pytreeopt.leafwise import leafwise
from pytreeopt.states import EmptyState


@final
class Identity(AbstractStateless):
    """Leaves the updates as they are."""

    def transform(self, updates, params):
        return updates


@final
class SetToZero(AbstractStateless):
    """Replaces every update by zeros: the parameters stay where they are."""

    def transform(self, updates, params):
        return leafwise(jnp.zeros_like, updates)


@final
class Stateless(GradientTransformation):
    """A function of updates and params as a transformation.

    Args:
        f: maps the updates and the params (or None) to updates; compared by identity.
    """

    f: Callable[[Any, Any], Any] = static()

    def init(self, params):
        return EmptyState()

    def update(self, updates, state, params=None, **extra_args):
        return self.f(updates, params), EmptyState()


@final
class StatelessWithTreeMap(GradientTransformation):
    """A function of one leaf of the updates and of the params as a transformation.

    Args:
        f: maps a leaf of the updates and the leaf of the params (or None) to a leaf; compared by identity.
    """

    f: Callable[[Any, Any], Any] = static()

    def init(self, params):
        return EmptyState()

    def update(self, updates, state, params=None, **extra_args):
        if params is None:
            return jax.tree.map(lambda u: self.f(u, None), updates), EmptyState()
        return jax.tree.map(self.f, updates, params), EmptyState()


identity, set_to_zero = Identity, SetToZero
stateless, stateless_with_tree_map = Stateless, StatelessWithTreeMap
