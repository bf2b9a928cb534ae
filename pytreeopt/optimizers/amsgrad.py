"""AMSGrad: Adam whose second moment never falls."""

from typing import final

import jax.numpy as jnp
from jax.typing import DTypeLike
from optax import safe_increment

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_state
from pytreeopt.fields import static, static_dtype
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import (
    bias_correction,
    divide_by_root,
    keep_dtype,
    update_moment,
    update_moment_per_elem_norm,
    zeros_like,
)
from pytreeopt.states import ScaleByAmsgradState
from pytreeopt.transforms.scale import ScaleByLearningRate


@final
class ScaleByAMSGrad(GradientTransformation):
    r"""AMSGrad's direction: the average gradient over the root of the largest average squared gradient so far.

    $$ m_t = (1-\beta_1)\, g_t + \beta_1 m_{t-1}, \quad v_t = (1-\beta_2)\, |g_t|^2 + \beta_2 v_{t-1}, \quad
    \hat v_t = \max\Bigl(\hat v_{t-1}, \frac{v_t}{1-\beta_2^t}\Bigr), \quad
    u_t = \frac{m_t / (1-\beta_1^t)}{\sqrt{\hat v_t + \bar\epsilon} + \epsilon} $$

    The paper corrects neither bias; each correction can be switched off.

    Args:
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root; positive makes hypergradients smooth at zero gradients.
        mu_dtype: dtype of the stored $m$; None keeps that of the params.
        bias_correction_mu: divide $m_t$ by $1-\beta_1^t$.
        bias_correction_nu: divide $v_t$ by $1-\beta_2^t$, before the maximum.

    References:
        Reddi et al., On the Convergence of Adam and Beyond, 2018, https://openreview.net/forum?id=ryQu7f-RZ
    """

    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-8
    eps_root: Numeric = 0.0
    mu_dtype: DTypeLike | None = static_dtype(None)
    bias_correction_mu: bool = static(True)
    bias_correction_nu: bool = static(True)

    def init(self, params):
        mu, nu, nu_max = zeros_like(params, self.mu_dtype), zeros_like(params), zeros_like(params)
        return ScaleByAmsgradState(count=jnp.zeros([], jnp.int32), mu=mu, nu=nu, nu_max=nu_max)

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleByAmsgradState)
        b1, b2, eps, eps_root = self.b1, self.b2, self.eps, self.eps_root
        mu = update_moment(updates, state.mu, b1, 1)
        nu = update_moment_per_elem_norm(updates, state.nu, b2, 2)
        count = safe_increment(state.count)
        mu_hat = bias_correction(mu, b1, count) if self.bias_correction_mu else mu
        nu_hat = bias_correction(nu, b2, count) if self.bias_correction_nu else nu
        nu_max = leafwise(jnp.maximum, state.nu_max, nu_hat)
        direction = leafwise(lambda m, v: divide_by_root(m, v + eps_root, eps), mu_hat, nu_max)
        mu = keep_dtype(mu, state.mu, self.mu_dtype)
        nu, nu_max = keep_dtype(nu, state.nu), keep_dtype(nu_max, state.nu_max)
        return direction, ScaleByAmsgradState(count=count, mu=mu, nu=nu, nu_max=nu_max)


@final
class AMSGrad(AbstractChain):
    r"""AMSGrad: `Adam` whose per-coordinate rates never rise, which mends its proof of convergence.

    Where Adam forgets rare informative gradients; on most networks no better than Adam.

    $$ \theta_t = \theta_{t-1} - \eta_t\, u_t, \qquad u_t \text{ as in `ScaleByAMSGrad`} $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root; positive makes hypergradients smooth at zero gradients.
        mu_dtype: dtype of the stored average gradient; None keeps that of the params.
        bias_correction_mu: divide the average gradient by $1-\beta_1^t$.
        bias_correction_nu: divide the average squared gradient by $1-\beta_2^t$.

    References:
        Reddi et al., On the Convergence of Adam and Beyond, 2018, https://openreview.net/forum?id=ryQu7f-RZ
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-8
    eps_root: Numeric = 0.0
    mu_dtype: DTypeLike | None = static_dtype(None)
    bias_correction_mu: bool = static(True)
    bias_correction_nu: bool = static(True)

    @property
    def chain(self):
        return ScaleByAMSGrad.of(self), ScaleByLearningRate.of(self, flip_sign=True)


scale_by_amsgrad, amsgrad = ScaleByAMSGrad, AMSGrad
