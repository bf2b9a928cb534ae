"""Fromage: steps of a fixed size relative to each layer."""

from typing import Any, final

import jax.numpy as jnp

from pytreeopt.base import AbstractChain, AbstractSchedule, Numeric, ScalarOrSchedule
from pytreeopt.numerics import is_traced
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.trust_ratio import ScaleByTrustRatio
from pytreeopt.transforms.weight_decay import AddDecayedWeights


def _shrinkage(rate: Any) -> Any:
    r"""$1 / \sqrt{1 + \eta^2}$."""
    return 1 / (1 + rate**2) ** 0.5


@final
class _ShrunkRate(AbstractSchedule):
    r"""$\eta_t / \sqrt{1 + \eta_t^2}$.

    Args:
        learning_rate: $\eta$, a schedule.
    """

    learning_rate: Any

    def __call__(self, count: Any) -> Any:
        return _shrinkage(self.learning_rate(count)) * self.learning_rate(count)


@final
class _ShrinkageMinusOne(AbstractSchedule):
    r"""$1 / \sqrt{1 + \eta_t^2} - 1$.

    Args:
        learning_rate: $\eta$, a schedule.
    """

    learning_rate: Any

    def __call__(self, count: Any) -> Any:
        return _shrinkage(self.learning_rate(count)) - 1


@final
class Fromage(AbstractChain):
    r"""Fromage: each layer moves by a fraction of its own norm, and is then shrunk by what the step lengthened it.

    One learning rate serves many architectures (0.01 is a good start); no state. Weight decay is of no use with it.

    $$ \theta_t = \frac{1}{\sqrt{1+\eta_t^2}} \left( \theta_{t-1}
    - \eta_t\, \frac{\max(\lVert \theta_{t-1} \rVert, s)}{\max(\lVert g_t \rVert, s)}\, g_t \right) $$

    The shrinkage of a schedule below about 1e-3 is lost to float32; a number, traced or not, is exact.

    Args:
        learning_rate: $\eta$, a number or a schedule.
        min_norm: $s$, the least norm of a leaf of the params or the gradients, positive.

    References:
        Bernstein et al., On the Distance between Two Neural Networks and the Stability of Learning, 2020,
        https://arxiv.org/abs/2002.03432
    """

    learning_rate: ScalarOrSchedule
    min_norm: Numeric = 1e-6

    @property
    def chain(self):
        rate = self.learning_rate
        if callable(rate):
            steps, decay = _ShrunkRate(rate), _ShrinkageMinusOne(rate)
        elif is_traced(rate):
            # The difference from 1 as a quotient: float32 would cancel it.
            root = jnp.sqrt(1 + rate**2)
            steps, decay = rate / root, -(rate**2) / (root * (1 + root))
        else:
            steps, decay = rate * _shrinkage(rate), _shrinkage(rate) - 1
        return ScaleByTrustRatio(self.min_norm), ScaleByLearningRate(steps), AddDecayedWeights(decay)


fromage = Fromage
