"""Centering and normalising of the updates."""

from typing import final

import optax

from pytreeopt.base import AbstractStateless, Numeric
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import is_traced, one_where_zero, sqrt, vanishes


@final
class Centralize(AbstractStateless):
    """Subtracts from each slice along the first axis its mean; scalars and vectors stay as they are.

    References:
        Yong et al., Gradient Centralization: A New Optimization Technique for Deep Neural Networks, 2020,
        https://arxiv.org/abs/2004.01461
    """

    def transform(self, updates, params):
        return leafwise(_without_mean, updates)


def _without_mean(g):
    return g - g.mean(tuple(range(1, g.ndim)), keepdims=True) if g.ndim > 1 else g


@final
class NormalizeByUpdateNorm(AbstractStateless):
    r"""Scales all updates together to a fixed norm: $u\, c / (\lVert u \rVert + \epsilon)$. Zero updates stay zero.

    Args:
        scale_factor: $c$, the norm of the result; negative turns ascent into descent.
        eps: $\epsilon$, not negative.
    """

    scale_factor: Numeric = 1.0
    eps: Numeric = 1e-6

    def transform(self, updates, params):
        norm = sqrt(optax.tree.norm(updates, squared=True))
        padded = norm + self.eps
        if is_traced(self.eps) or vanishes(self.eps, norm.dtype):
            padded = one_where_zero(padded)
        divisor = padded / self.scale_factor
        return leafwise(lambda g: g / divisor, updates)


centralize, normalize_by_update_norm = Centralize, NormalizeByUpdateNorm
