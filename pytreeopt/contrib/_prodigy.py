"""Prodigy: D-Adaptation that adapts faster."""

from typing import final

import jax.numpy as jnp
import optax
from optax import safe_increment

from pytreeopt.base import GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_params, require_state
from pytreeopt.fields import static
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import copy, divide_by_root, is_traced, keep_dtype, like, one_where_zero, zeros_like
from pytreeopt.states import ProdigyState


@final
class Prodigy(GradientTransformation):
    r"""AdamW whose learning rate follows the distance from the start that the gradients have proven.

    For a run in which nobody wants to tune the rate; combine with a schedule whose greatest value is 1.

    $$ \gamma_t = d_t\, \eta_t \frac{\sqrt{1-\beta_2^t}}{1-\beta_1^t}, \quad
    m_t = \beta_1 m_{t-1} + (1-\beta_1)\, d_t g_t, \quad v_t = \beta_2 v_{t-1} + (1-\beta_2)\, d_t^2 g_t^2 $$
    $$ r_t = \beta_3 r_{t-1} + \tfrac{d_t}{d_0} \gamma_t \langle g_t, \theta_0 - \theta_{t-1} \rangle, \quad
    s_t = \beta_3 s_{t-1} + \tfrac{d_t}{d_0} \gamma_t g_t, \quad
    d_{t+1} = \max\left(d_t, c\, \frac{r_t}{\lVert s_t \rVert_1}\right) $$
    $$ u_t = -\lambda \gamma_t \theta_{t-1} - \gamma_t \frac{m_t}{\sqrt{v_t} + d_{t+1} \epsilon} $$

    `init` freezes the parameters and `estim_lr0` into the state; `update` reads `estim_lr0` again.

    Args:
        learning_rate: $\eta$, a number or a schedule; a factor of the estimate, 1 as a rule.
        betas: $(\beta_1, \beta_2)$, decays of the average gradient and squared gradient, in [0, 1).
        beta3: $\beta_3$, decay of the estimate's sums, in [0, 1), or None: $\sqrt{\beta_2}$.
        eps: $\epsilon$, added outside the root, positive.
        estim_lr0: $d_0$, the first estimate, positive and below the right one.
        estim_lr_coef: $c$, factor of the estimates, positive.
        weight_decay: $\lambda$, multiplied by the estimated rate.
        safeguard_warmup: leave the learning rate out of $s$, so that a warm-up does not inflate the estimate.

    References:
        Mishchenko and Defazio, Prodigy: An Expeditiously Adaptive Parameter-Free Learner, 2023,
        https://arxiv.org/abs/2306.06101
    """

    learning_rate: ScalarOrSchedule = 1.0
    betas: tuple[Numeric, Numeric] = (0.9, 0.999)
    beta3: Numeric | None = None
    eps: Numeric = 1e-8
    estim_lr0: Numeric = 1e-6
    estim_lr_coef: Numeric = 1.0
    weight_decay: Numeric = 0.0
    safeguard_warmup: bool = static(False)

    def init(self, params):
        exp_avg, exp_avg_sq, grad_sum = (zeros_like(params) for _ in range(3))
        dtype = optax.tree.dtype(params, "lowest")
        estim_lr = jnp.array(self.estim_lr0, dtype)
        numerator, count = jnp.zeros([], dtype), jnp.zeros([], jnp.int32)
        return ProdigyState(exp_avg, exp_avg_sq, grad_sum, copy(params), estim_lr, numerator, count)

    def update(self, updates, state, params=None, **extra_args):
        params = require_params(params)
        state = require_state(state, ProdigyState)
        beta1, beta2 = self.betas
        beta3 = beta2**0.5 if self.beta3 is None else self.beta3
        estim_lr, estim_lr0 = state.estim_lr, self.estim_lr0
        count = safe_increment(state.count)
        factor = self.learning_rate(state.count) if callable(self.learning_rate) else self.learning_rate
        correction = ((1 - beta2**count) ** 0.5) / (1 - beta1**count)
        rate = jnp.asarray(estim_lr * factor * correction, estim_lr.dtype)

        moved = leafwise(lambda p0, p: p0 - p, state.params0, params)
        inner = optax.tree.vdot(updates, moved)
        scaled = leafwise(lambda g: estim_lr * g, updates)
        exp_avg = leafwise(lambda dg, m: beta1 * m + (1 - beta1) * dg, scaled, state.exp_avg)
        exp_avg_sq = leafwise(lambda dg, v: beta2 * v + (1 - beta2) * dg * dg, scaled, state.exp_avg_sq)
        sum_rate = estim_lr if self.safeguard_warmup else rate
        divisor = estim_lr0
        if sum_rate.dtype == jnp.float16:
            stretch = _stretch(estim_lr0)
            sum_rate, divisor = sum_rate * stretch, divisor * stretch
        grad_sum = leafwise(lambda dg, s: beta3 * s + sum_rate * dg / divisor, scaled, state.grad_sum)

        numerator = beta3 * state.numerator_weighted + (estim_lr / estim_lr0) * rate * inner
        length = optax.tree.sum(leafwise(jnp.abs, grad_sum))
        # Zero gradients from the first step on: 0/0 says nothing about the distance.
        estimate = self.estim_lr_coef * numerator / one_where_zero(length)
        estim_lr = jnp.maximum(estim_lr, estimate)
        decay, eps = -self.weight_decay * rate, estim_lr * self.eps
        out = leafwise(lambda p, m, v: decay * p - divide_by_root(rate * m, v, eps), params, exp_avg, exp_avg_sq)
        return out, ProdigyState(
            exp_avg=keep_dtype(exp_avg, state.exp_avg),
            exp_avg_sq=keep_dtype(exp_avg_sq, state.exp_avg_sq),
            grad_sum=keep_dtype(grad_sum, state.grad_sum),
            params0=state.params0,
            estim_lr=like(estim_lr, state.estim_lr),
            numerator_weighted=like(numerator, state.numerator_weighted),
            count=count,
        )


def _stretch(estim_lr0):
    """A factor of dividend and divisor for float16, in which a scalar divisor's reciprocal must be finite."""
    overflows = estim_lr0 < 1 / 65504
    return jnp.where(overflows, 1024.0, 1.0) if is_traced(estim_lr0) else 1024.0 if overflows else 1.0


prodigy = Prodigy
