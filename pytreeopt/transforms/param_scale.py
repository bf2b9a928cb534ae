"""Updates relative to the size of the parameters."""

from typing import final

from optax import safe_norm, safe_root_mean_squares

from pytreeopt.base import AbstractStateless, Numeric
from pytreeopt.errors import require_params
from pytreeopt.leafwise import leafwise


@final
class ScaleByParamBlockRms(AbstractStateless):
    r"""Multiplies each leaf by the root mean square of its parameters: $u \max(\mathrm{rms}(\theta), s)$.

    Args:
        min_scale: $s$, the least factor, positive: parameters at zero must be able to move.

    References:
        Shazeer and Stern, Adafactor, 2018, section 8, https://arxiv.org/abs/1804.04235
    """

    min_scale: Numeric = 1e-3

    def transform(self, updates, params):
        params = require_params(params)
        return leafwise(lambda u, p: u * safe_root_mean_squares(p, self.min_scale), updates, params, may_lack=True)


@final
class ScaleByParamBlockNorm(AbstractStateless):
    r"""Multiplies each leaf by the norm of its parameters: $u \max(\lVert \theta \rVert, s)$.

    Args:
        min_scale: $s$, the least factor, positive: parameters at zero must be able to move.
    """

    min_scale: Numeric = 1e-3

    def transform(self, updates, params):
        params = require_params(params)
        return leafwise(lambda u, p: u * safe_norm(p, self.min_scale), updates, params, may_lack=True)


scale_by_param_block_rms, scale_by_param_block_norm = ScaleByParamBlockRms, ScaleByParamBlockNorm
