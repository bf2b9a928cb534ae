"""AdaBelief: steps divided by how far the gradients are from their average."""

from typing import final

import jax.numpy as jnp
from optax import safe_increment

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_state
from pytreeopt.fields import static
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import (
    bias_correction,
    divide_by_root,
    keep_dtype,
    nesterov_moment,
    update_moment,
    update_moment_per_elem_norm,
    zeros_like,
)
from pytreeopt.states import ScaleByBeliefState
from pytreeopt.transforms.scale import ScaleByLearningRate


@final
class ScaleByBelief(GradientTransformation):
    r"""AdaBelief's direction: the average gradient over the root of the average squared deviation from it.

    $$ m_t = (1-\beta_1)\, g_t + \beta_1 m_{t-1}, \quad
    s_t = (1-\beta_2)\, |g_t - m_t|^2 + \beta_2 s_{t-1} + \bar\epsilon, \quad
    u_t = \frac{m_t / (1-\beta_1^t)}{\sqrt{s_t / (1-\beta_2^t)} + \epsilon} $$

    The $\bar\epsilon$ stays in the stored $s_t$ and adds up from step to step.

    Args:
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average squared deviation, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added to the average squared deviation at each step, not negative.
        nesterov: use Nesterov momentum, as in `ScaleByAdam`.

    References:
        Zhuang et al., AdaBelief Optimizer: Adapting Stepsizes by the Belief in Observed Gradients, 2020,
        https://arxiv.org/abs/2010.07468
    """

    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-16
    eps_root: Numeric = 1e-16
    nesterov: bool = static(False, kw_only=True)

    def init(self, params):
        mu, nu = zeros_like(params), zeros_like(params)
        return ScaleByBeliefState(count=jnp.zeros([], jnp.int32), mu=mu, nu=nu)

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleByBeliefState)
        b1, b2, eps, eps_root = self.b1, self.b2, self.eps, self.eps_root
        mu = update_moment(updates, state.mu, b1, 1)
        surprise = leafwise(lambda g, m: g - m, updates, mu)
        nu = update_moment_per_elem_norm(surprise, state.nu, b2, 2)
        nu = leafwise(lambda v: v + eps_root, nu)
        count = safe_increment(state.count)
        mu_hat = nesterov_moment(mu, updates, b1, count) if self.nesterov else bias_correction(mu, b1, count)
        nu_hat = bias_correction(nu, b2, count)
        direction = leafwise(lambda m, v: divide_by_root(m, v, eps), mu_hat, nu_hat)
        mu, nu = keep_dtype(mu, state.mu), keep_dtype(nu, state.nu)
        return direction, ScaleByBeliefState(count=count, mu=mu, nu=nu)


@final
class AdaBelief(AbstractChain):
    r"""AdaBelief: long steps where gradients are as expected, short ones where they surprise.

    A drop-in for `Adam` where Adam generalises worse than SGD; its `eps` matters more than Adam's does.

    $$ \theta_t = \theta_{t-1} - \eta_t\, u_t, \qquad u_t \text{ as in `ScaleByBelief`} $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average squared deviation, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added to the average squared deviation at each step, not negative.
        nesterov: use Nesterov momentum.

    References:
        Zhuang et al., AdaBelief Optimizer: Adapting Stepsizes by the Belief in Observed Gradients, 2020,
        https://arxiv.org/abs/2010.07468
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-16
    eps_root: Numeric = 1e-16
    nesterov: bool = static(False, kw_only=True)

    @property
    def chain(self):
        return ScaleByBelief.of(self), ScaleByLearningRate.of(self, flip_sign=True)


scale_by_belief, adabelief = ScaleByBelief, AdaBelief
