"""D-Adaptation: AdamW that estimates its own learning rate."""

from typing import final

import jax.numpy as jnp
import optax
from optax import safe_increment

from pytreeopt.base import GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_params, require_state
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import divide_by_root, keep_dtype, like, one_where_zero, zeros_like
from pytreeopt.states import DAdaptAdamWState


@final
class DAdaptAdamW(GradientTransformation):
    r"""AdamW by D-Adaptation: the learning rate grows to the estimated distance to the solution.

    For a run in which nobody wants to tune the rate; combine with a schedule whose greatest value is 1.

    $$ \gamma_t = d_t\, \eta_t \frac{\sqrt{1-\beta_2^t}}{1-\beta_1^t}, \quad
    m_t = \beta_1 m_{t-1} + (1-\beta_1) \gamma_t g_t, \quad v_t = \beta_2 v_{t-1} + (1-\beta_2) g_t^2 $$
    $$ r_t = \sqrt{\beta_2}\, r_{t-1} + (1-\sqrt{\beta_2}) \gamma_t
    \left\langle g_t, \frac{s_{t-1}}{\sqrt{v_{t-1}}+\epsilon} \right\rangle, \quad
    s_t = \sqrt{\beta_2}\, s_{t-1} + (1-\sqrt{\beta_2}) \gamma_t g_t $$
    $$ d_{t+1} = \max\left(d_t, \frac{r_t}{(1-\sqrt{\beta_2}) \lVert s_t \rVert_1}\right), \qquad
    u_t = -\lambda \gamma_t \theta_{t-1} - \frac{m_t}{\sqrt{v_t} + \epsilon} $$

    `init` freezes `estim_lr0` into the state.

    Args:
        learning_rate: $\eta$, a number or a schedule; a factor of the estimate, 1 as a rule.
        betas: $(\beta_1, \beta_2)$, decays of the average gradient and squared gradient, in [0, 1) and (0, 1).
        eps: $\epsilon$, added outside the roots, positive.
        estim_lr0: $d_1$, the first estimate, positive and below the right one; read by `init` only.
        weight_decay: $\lambda$, multiplied by the estimated rate.

    References:
        Defazio and Mishchenko, Learning-Rate-Free Learning by D-Adaptation, 2023, https://arxiv.org/abs/2301.07733
    """

    learning_rate: ScalarOrSchedule = 1.0
    betas: tuple[Numeric, Numeric] = (0.9, 0.999)
    eps: Numeric = 1e-8
    estim_lr0: Numeric = 1e-6
    weight_decay: Numeric = 0.0

    def init(self, params):
        exp_avg, exp_avg_sq, grad_sum = (zeros_like(params) for _ in range(3))
        dtype = optax.tree.dtype(params, "lowest")
        estim_lr = jnp.array(self.estim_lr0, dtype)
        numerator, count = jnp.zeros([], dtype), jnp.zeros([], jnp.int32)
        return DAdaptAdamWState(exp_avg, exp_avg_sq, grad_sum, estim_lr, numerator, count)

    def update(self, updates, state, params=None, **extra_args):
        params = require_params(params)
        state = require_state(state, DAdaptAdamWState)
        beta1, beta2 = self.betas
        root2 = beta2**0.5
        eps, numerator = self.eps, state.numerator_weighted
        factor = self.learning_rate(state.count) if callable(self.learning_rate) else self.learning_rate
        count = safe_increment(state.count)
        correction = ((1 - beta2**count) ** 0.5) / (1 - beta1**count)
        rate = (state.estim_lr * factor * correction).astype(numerator.dtype)
        average_rate, sum_rate, decay = (1 - beta1) * rate, (1 - root2) * rate, -self.weight_decay * rate

        scaled_sum = leafwise(lambda s, v: divide_by_root(s, v, eps), state.grad_sum, state.exp_avg_sq)
        inner = optax.tree.vdot(updates, scaled_sum)
        exp_avg = leafwise(lambda g, m: beta1 * m + average_rate * g, updates, state.exp_avg)
        exp_avg_sq = leafwise(lambda g, v: beta2 * v + (1 - beta2) * g * g, updates, state.exp_avg_sq)
        grad_sum = leafwise(lambda g, s: root2 * s + sum_rate * g, updates, state.grad_sum)

        length = optax.tree.sum(leafwise(jnp.abs, grad_sum))
        numerator = root2 * numerator + sum_rate * inner
        # Zero gradients from the first step on: 0/0 says nothing about the distance.
        estimate = numerator / one_where_zero((1 - root2) * length)
        estim_lr = jnp.maximum(state.estim_lr, estimate)
        out = leafwise(lambda p, m, v: decay * p - divide_by_root(m, v, eps), params, exp_avg, exp_avg_sq)
        return out, DAdaptAdamWState(
            exp_avg=keep_dtype(exp_avg, state.exp_avg),
            exp_avg_sq=keep_dtype(exp_avg_sq, state.exp_avg_sq),
            grad_sum=keep_dtype(grad_sum, state.grad_sum),
            estim_lr=like(estim_lr, state.estim_lr),
            numerator_weighted=like(numerator, state.numerator_weighted),
            count=count,
        )


dadapt_adamw = DAdaptAdamW
