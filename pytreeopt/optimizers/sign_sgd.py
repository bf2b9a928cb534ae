"""Descent along the signs of the gradient, with momentum or without."""

from typing import final

import jax.numpy as jnp
from jax.typing import DTypeLike

from pytreeopt.base import AbstractChain, AbstractStateless, Numeric, ScalarOrSchedule
from pytreeopt.fields import static_dtype
from pytreeopt.leafwise import leafwise
from pytreeopt.transforms.accumulate import Ema
from pytreeopt.transforms.scale import ScaleByLearningRate


@final
class ScaleBySign(AbstractStateless):
    """Replaces every element of the updates by its sign; 0 stays 0, a complex number becomes its direction."""

    def transform(self, updates, params):
        return leafwise(jnp.sign, updates)


@final
class SignSGD(AbstractChain):
    r"""Steps of exactly the learning rate in every coordinate: $\theta_t = \theta_{t-1} - \eta_t\, \mathrm{sign}(g_t)$.

    For large batches, or where gradients are sent over a slow network; noisy small batches mislead it.

    Args:
        learning_rate: $\eta$, a number or a schedule.

    References:
        Bernstein et al., signSGD: Compressed Optimisation for Non-Convex Problems, 2018,
        https://arxiv.org/abs/1802.04434
        Balles et al., The Geometry of Sign Gradient Descent, 2020, https://arxiv.org/abs/2002.08056
    """

    learning_rate: ScalarOrSchedule

    @property
    def chain(self):
        return ScaleBySign(), ScaleByLearningRate(self.learning_rate)


@final
class Signum(AbstractChain):
    r"""The sign of an averaged gradient: `SignSGD` with momentum.

    $$ m_t = (1-\beta)\, g_t + \beta\, m_{t-1}, \qquad \theta_t = \theta_{t-1} - \eta_t\, \mathrm{sign}(m_t) $$

    Rarely behind Adam on language models, with half of its memory. The sign has derivative zero, so no hypergradient
    reaches $\beta$.

    Args:
        learning_rate: $\eta$, a number or a schedule.
        beta: $\beta$, decay of the average, in [0, 1).
        accumulator_dtype: dtype of the stored average; None keeps that of the params.

    References:
        Bernstein et al., signSGD: Compressed Optimisation for Non-Convex Problems, 2018,
        https://arxiv.org/abs/1802.04434
        Zhao et al., Deconstructing What Makes a Good Optimizer for Language Models, 2024,
        https://arxiv.org/abs/2407.07972
    """

    learning_rate: ScalarOrSchedule
    beta: Numeric = 0.9
    accumulator_dtype: DTypeLike | None = static_dtype(None)

    @property
    def chain(self):
        average = Ema(self.beta, debias=False, accumulator_dtype=self.accumulator_dtype)
        return average, ScaleBySign(), ScaleByLearningRate(self.learning_rate)


scale_by_sign, sign_sgd, signum = ScaleBySign, SignSGD, Signum
