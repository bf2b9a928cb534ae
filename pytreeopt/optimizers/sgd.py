"""Gradient descent, with momentum or without."""

from typing import final

from jax.typing import DTypeLike

from pytreeopt.base import AbstractChain, Numeric, ScalarOrSchedule
from pytreeopt.fields import static, static_dtype
from pytreeopt.transforms.accumulate import Trace
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.stateless import Identity


@final
class SGD(AbstractChain):
    r"""Stochastic gradient descent: $\theta_t = \theta_{t-1} - \eta\, v_t$ with $v_t$ the gradient or its momentum.

    Still the choice for convolutional networks with a tuned schedule, and the baseline for all else.

    Args:
        learning_rate: $\eta$, a number or a schedule.
        momentum: $\mu$ of `Trace`, in [0, 1); None stores no momentum, 0. stores one that does nothing.
        nesterov: look one step ahead; only with momentum.
        accumulator_dtype: dtype of the stored momentum; None keeps that of the params.

    References:
        Sutskever et al., On the Importance of Initialization and Momentum in Deep Learning, 2013,
        https://proceedings.mlr.press/v28/sutskever13.html
    """

    learning_rate: ScalarOrSchedule
    momentum: Numeric | None = None
    nesterov: bool = static(False)
    accumulator_dtype: DTypeLike | None = static_dtype(None)

    @property
    def chain(self):
        momentum = Identity() if self.momentum is None else Trace.of(self, decay=self.momentum)
        return momentum, ScaleByLearningRate.of(self, flip_sign=True)


sgd = SGD
