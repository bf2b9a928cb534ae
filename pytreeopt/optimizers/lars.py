"""LARS: momentum with a trust ratio for each layer."""

from typing import Any, final

from pytreeopt.base import AbstractChain, Numeric, ScalarOrSchedule
from pytreeopt.combinators.masked import Masked
from pytreeopt.fields import static, static_tree
from pytreeopt.transforms.accumulate import Trace
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.trust_ratio import ScaleByTrustRatio
from pytreeopt.transforms.weight_decay import AddDecayedWeights


@final
class Lars(AbstractChain):
    r"""LARS: gradient descent with momentum in which each layer moves in proportion to its own norm.

    For convolutional networks with very large batches; usually biases and norms are masked out of both.

    $$ d_t = g_t + \lambda_t\, \theta_{t-1}, \quad
    v_t = -\eta_t\, \frac{c\, \lVert \theta_{t-1} \rVert}{\lVert d_t \rVert + \epsilon}\, d_t + \mu v_{t-1}, \quad
    \theta_t = \theta_{t-1} + v_t $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        weight_decay: $\lambda$, a number or a schedule; added before the rescaling.
        weight_decay_mask: tree of bools, function of the params that makes one, or one bool: where true, weights
            decay.
        trust_coefficient: $c$, positive.
        eps: $\epsilon$, added to the norm of the updates, not negative.
        trust_ratio_mask: as `weight_decay_mask`: where true, updates are rescaled.
        momentum: $\mu$ of `Trace`, in [0, 1).
        nesterov: look one step ahead.

    References:
        You et al., Large Batch Training of Convolutional Networks, 2017, https://arxiv.org/abs/1708.03888
    """

    learning_rate: ScalarOrSchedule
    weight_decay: ScalarOrSchedule = 0.0
    weight_decay_mask: Any = static_tree(True)
    trust_coefficient: Numeric = 0.001
    eps: Numeric = 0.0
    trust_ratio_mask: Any = static_tree(True)
    momentum: Numeric = 0.9
    nesterov: bool = static(False)

    @property
    def chain(self):
        return (
            AddDecayedWeights.of(self, mask=self.weight_decay_mask),
            Masked(ScaleByTrustRatio.of(self, min_norm=0.0), self.trust_ratio_mask),
            ScaleByLearningRate.of(self, flip_sign=True),
            Trace.of(self, decay=self.momentum, accumulator_dtype=None),
        )


lars = Lars
