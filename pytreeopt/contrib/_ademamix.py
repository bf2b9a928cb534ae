"""AdEMAMix: Adam with a fast and a slow average of the gradients."""

from typing import Any, final

import jax.numpy as jnp
from jax.typing import DTypeLike
from optax import safe_increment

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_state
from pytreeopt.fields import static_dtype, static_tree
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import (
    bias_correction,
    divide_by_root,
    keep_dtype,
    update_moment,
    update_moment_per_elem_norm,
    value_at,
    zeros_like,
)
from pytreeopt.states import ScaleByAdemamixState
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.weight_decay import AddDecayedWeights


@final
class ScaleByAdEMAMix(GradientTransformation):
    r"""AdEMAMix's direction: Adam's, with a slow average added to the numerator.

    $$ m_t = (1-\beta_1)\, g_t + \beta_1 m_{t-1}, \quad n_t = (1-\beta_3)\, g_t + \beta_3 n_{t-1}, \quad
    v_t = (1-\beta_2)\, |g_t|^2 + \beta_2 v_{t-1} $$
    $$ u_t = \frac{m_t / (1-\beta_1^t) + \alpha\, n_t}{\sqrt{v_t / (1-\beta_2^t) + \bar\epsilon} + \epsilon} $$

    The slow average $n$ is not corrected for its start at zero: it fills slowly, on purpose.

    Args:
        b1: $\beta_1$, decay of the fast average, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        b3: $\beta_3$, decay of the slow average, in [0, 1), or a schedule.
        alpha: $\alpha$, weight of the slow average, not negative, or a schedule.
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root, not negative.
        mu_dtype: dtype of all three averages; None keeps that of the params.

    References:
        Pagliardini et al., The AdEMAMix Optimizer: Better, Faster, Older, 2024, https://arxiv.org/abs/2409.03137
    """

    b1: Numeric = 0.9
    b2: Numeric = 0.999
    b3: ScalarOrSchedule = 0.9999
    alpha: ScalarOrSchedule = 6.0
    eps: Numeric = 1e-8
    eps_root: Numeric = 0.0
    mu_dtype: DTypeLike | None = static_dtype(None)

    def init(self, params):
        count, count_m2 = jnp.zeros([], jnp.int32), jnp.zeros([], jnp.int32)
        m1, m2, nu = (zeros_like(params, self.mu_dtype) for _ in range(3))
        return ScaleByAdemamixState(count=count, count_m2=count_m2, m1=m1, m2=m2, nu=nu)

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleByAdemamixState)
        b3 = value_at(self.b3, state.count_m2)
        alpha = value_at(self.alpha, state.count_m2)
        eps, eps_root = self.eps, self.eps_root
        m1 = update_moment(updates, state.m1, self.b1, 1)
        m2 = update_moment(updates, state.m2, b3, 1)
        nu = update_moment_per_elem_norm(updates, state.nu, self.b2, 2)
        count, count_m2 = safe_increment(state.count), safe_increment(state.count_m2)
        m1_hat = bias_correction(m1, self.b1, count)
        nu_hat = bias_correction(nu, self.b2, count)
        direction = leafwise(
            lambda fast, slow, v: divide_by_root(fast + alpha * slow, v + eps_root, eps), m1_hat, m2, nu_hat
        )
        m1, m2, nu = keep_dtype(m1, state.m1), keep_dtype(m2, state.m2), keep_dtype(nu, state.nu)
        return direction, ScaleByAdemamixState(count=count, count_m2=count_m2, m1=m1, m2=m2, nu=nu)


@final
class AdEMAMix(AbstractChain):
    r"""AdEMAMix: AdamW that remembers gradients for thousands of steps in a second, slow average.

    For long trainings; in short ones a smaller $\beta_3$ (0.999) is better.

    $$ \theta_t = \theta_{t-1} - \eta_t (u_t + \lambda\, \theta_{t-1}), \qquad u_t \text{ as in `ScaleByAdEMAMix`} $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, decay of the fast average, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        b3: $\beta_3$, decay of the slow average, in [0, 1), or a schedule.
        alpha: $\alpha$, weight of the slow average, not negative, or a schedule.
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root, not negative.
        mu_dtype: dtype of all three averages; None keeps that of the params.
        weight_decay: $\lambda$, a number or a schedule; it is multiplied by the learning rate.
        mask: tree of bools, or function of the params that makes one: where true, weights decay.

    References:
        Pagliardini et al., The AdEMAMix Optimizer: Better, Faster, Older, 2024, https://arxiv.org/abs/2409.03137
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.9
    b2: Numeric = 0.999
    b3: ScalarOrSchedule = 0.9999
    alpha: ScalarOrSchedule = 5.0
    eps: Numeric = 1e-8
    eps_root: Numeric = 0.0
    mu_dtype: DTypeLike | None = static_dtype(None)
    weight_decay: ScalarOrSchedule = 0.0
    mask: Any = static_tree(None)

    @property
    def chain(self):
        return ScaleByAdEMAMix.of(self), AddDecayedWeights.of(self), ScaleByLearningRate.of(self, flip_sign=True)


scale_by_ademamix, ademamix = ScaleByAdEMAMix, AdEMAMix
