"""Updates as long as the parameters they move."""

from typing import final

import jax.numpy as jnp
from optax import safe_norm

from pytreeopt.base import AbstractStateless, Numeric
from pytreeopt.errors import require_params
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import one_where_zero


@final
class ScaleByTrustRatio(AbstractStateless):
    r"""Multiplies each leaf by the ratio of the norms of its parameters and its updates.

    $$ u \,\frac{c\, \max(\lVert \theta \rVert, s)}{\max(\lVert u \rVert, s) + \epsilon} $$

    and by 1 where one of the two norms is 0.

    Args:
        min_norm: $s$, the least norm of either, not negative.
        trust_coefficient: $c$, positive.
        eps: $\epsilon$, added to the norm of the updates, not negative.

    References:
        You et al., Large Batch Training of Convolutional Networks, 2017, https://arxiv.org/abs/1708.03888
        You et al., Large Batch Optimization for Deep Learning: Training BERT in 76 minutes, 2019,
        https://arxiv.org/abs/1904.00962
    """

    min_norm: Numeric = 0.0
    trust_coefficient: Numeric = 1.0
    eps: Numeric = 0.0

    def transform(self, updates, params):
        min_norm, coefficient, eps = self.min_norm, self.trust_coefficient, self.eps

        def scale(update, param):
            param_norm, update_norm = safe_norm(param, min_norm), safe_norm(update, min_norm)
            zero = (param_norm == 0.0) | (update_norm == 0.0)
            if update.dtype == jnp.float16:  # the ratio may overflow, and infinity times 0 is NaN
                zero |= jnp.all(update == 0)
            # Without a division by 0 in the branch not taken its derivative is finite, too.
            ratio = coefficient * param_norm / (one_where_zero(update_norm) + eps)
            return update * jnp.where(zero, jnp.array(1.0, dtype=param.dtype), ratio)

        return leafwise(scale, updates, require_params(params), may_lack=True)


scale_by_trust_ratio = ScaleByTrustRatio
