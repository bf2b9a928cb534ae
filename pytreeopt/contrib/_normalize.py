"""Division by the global norm."""

from typing import final

from pytreeopt.base import AbstractStateless
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import in_precision_of, norm, one_where_zero


@final
class Normalize(AbstractStateless):
    r"""Divides the updates by their norm over all leaves together: $u / \lVert u \rVert$. Zero updates stay zero."""

    def transform(self, updates, params):
        length = one_where_zero(norm(updates))
        return leafwise(lambda g: g / in_precision_of(length, g), updates)


normalize = Normalize
