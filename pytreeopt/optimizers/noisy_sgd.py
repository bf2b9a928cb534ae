"""Gradient descent with noise that fades."""

from typing import final

import jax

from pytreeopt.base import AbstractChain, Numeric, ScalarOrSchedule
from pytreeopt.fields import static
from pytreeopt.transforms.noise import AbstractNoise, AddNoise
from pytreeopt.transforms.scale import ScaleByLearningRate


@final
class NoisySGD(AbstractNoise, AbstractChain):
    r"""Gradient descent with Gaussian noise on the gradients, whose variance fades.

    $$ \theta_t = \theta_{t-1} - \eta_t (g_t + \sigma_t\, \xi_t), \qquad \xi_t \sim \mathcal N(0, 1), \qquad
    \sigma_t^2 = \eta / t^\gamma $$

    For very deep or badly initialised networks, which it may free from poor starts. A member of a population has its
    own noise if it has its own key. Changing `key` after `init` has no effect.

    Args:
        learning_rate: $\eta_t$, a number or a schedule.
        eta: $\eta$, variance of the noise at the first step, not negative.
        gamma: $\gamma$, power with which the variance fades, not negative.
        key: key of the noise, or an integer seed; frozen into the state at init. None warns and is 0.
        seed: deprecated: an integer that stands for `key`; only one of the two may be given.

    References:
        Neelakantan et al., Adding Gradient Noise Improves Learning for Very Deep Networks, 2015,
        https://arxiv.org/abs/1511.06807
    """

    learning_rate: ScalarOrSchedule
    eta: Numeric = 0.01
    gamma: Numeric = 0.55
    key: jax.Array | int | None = None
    seed: int | None = static(None, kw_only=True)

    @property
    def chain(self):
        return AddNoise.of(self), ScaleByLearningRate(self.learning_rate)


noisy_sgd = NoisySGD
