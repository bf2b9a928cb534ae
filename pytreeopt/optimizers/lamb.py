"""LAMB: Adam with a trust ratio for each layer."""

from typing import Any, final

from pytreeopt.base import AbstractChain, Numeric, ScalarOrSchedule
from pytreeopt.fields import static_tree
from pytreeopt.optimizers.adam import ScaleByAdam
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.trust_ratio import ScaleByTrustRatio
from pytreeopt.transforms.weight_decay import AddDecayedWeights


@final
class Lamb(AbstractChain):
    r"""LAMB: `AdamW`'s direction, rescaled so that each layer moves in proportion to its own norm.

    For batches of many thousands, where Adam's learning rate cannot be raised further.

    $$ \theta_t = \theta_{t-1} - \eta_t\, \frac{\lVert \theta_{t-1} \rVert}{\lVert d_t \rVert}\, d_t, \qquad
    d_t = u_t + \lambda_t\, \theta_{t-1}, \quad u_t \text{ as in `ScaleByAdam`} $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root, not negative.
        weight_decay: $\lambda$, a number or a schedule; added before the rescaling.
        mask: tree of bools, or function of the params that makes one: where true, weights decay.

    References:
        You et al., Large Batch Optimization for Deep Learning: Training BERT in 76 minutes, 2019,
        https://arxiv.org/abs/1904.00962
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-6
    eps_root: Numeric = 0.0
    weight_decay: ScalarOrSchedule = 0.0
    mask: Any = static_tree(None)

    @property
    def chain(self):
        direction = ScaleByAdam.of(self, mu_dtype=None, nesterov=False)
        return direction, AddDecayedWeights.of(self), ScaleByTrustRatio(), ScaleByLearningRate.of(self, flip_sign=True)


lamb = Lamb
