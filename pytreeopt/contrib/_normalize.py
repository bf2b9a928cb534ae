"""Division by the global norm."""

from typing import final

import optax

from pytreeopt.base import AbstractStateless
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import in_precision_of, one_where_zero, sqrt


@final
class Normalize(AbstractStateless):
    r"""Divides the updates by their norm over all leaves together: $u / \lVert u \rVert$. Zero updates stay zero."""

    def transform(self, updates, params):
        # Guarded within the root: the compiler divides by a root as it does in Optax only where nothing lies between.
        length = sqrt(one_where_zero(optax.tree.norm(updates, squared=True)))
        return leafwise(lambda g: g / in_precision_of(length, g), updates)


normalize = Normalize
