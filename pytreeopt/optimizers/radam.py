"""Rectified Adam: Adam that waits until its second moment can be trusted."""

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
    is_traced,
    keep_dtype,
    nesterov_moment,
    update_moment,
    update_moment_per_elem_norm,
    zeros_like,
)
from pytreeopt.states import ScaleByAdamState
from pytreeopt.transforms.scale import ScaleByLearningRate


@final
class ScaleByRAdam(GradientTransformation):
    r"""Rectified Adam's direction: `ScaleByAdam`'s times a factor that grows to 1, at first the average gradient.

    $$ \rho_\infty = \frac{2}{1-\beta_2} - 1, \quad \rho_t = \rho_\infty - \frac{2 t \beta_2^t}{1-\beta_2^t}, \quad
    r_t = \sqrt{\frac{(\rho_t-4)(\rho_t-2)\,\rho_\infty}{(\rho_\infty-4)(\rho_\infty-2)\,\rho_t}}, $$
    $$ u_t = r_t\, \frac{\hat m_t}{\sqrt{\hat v_t + \bar\epsilon} + \epsilon} \;\text{ if } \rho_t \ge \tau,
    \text{ else } \hat m_t $$

    with Adam's $\hat m$ and $\hat v$. Where $r_t^2$ is not positive there is nothing to rectify, and $u_t = \hat m_t$.

    Args:
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root, not negative.
        threshold: $\tau$, the length of average from which its variance is trusted, above 4. Derivatives are zero.
        nesterov: use Nesterov momentum, as in `ScaleByAdam`.

    References:
        Liu et al., On the Variance of the Adaptive Learning Rate and Beyond, 2019, https://arxiv.org/abs/1908.03265
    """

    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-8
    eps_root: Numeric = 0.0
    threshold: Numeric = 5.0
    nesterov: bool = static(False, kw_only=True)

    def init(self, params):
        mu, nu = zeros_like(params), zeros_like(params)
        return ScaleByAdamState(count=jnp.zeros([], jnp.int32), mu=mu, nu=nu)

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleByAdamState)
        b1, b2, eps, eps_root = self.b1, self.b2, self.eps, self.eps_root
        mu = update_moment(updates, state.mu, b1, 1)
        nu = update_moment_per_elem_norm(updates, state.nu, b2, 2)
        count = safe_increment(state.count)
        rectified, factor = self._rectification(count)
        mu_hat = nesterov_moment(mu, updates, b1, count) if self.nesterov else bias_correction(mu, b1, count)
        nu_hat = bias_correction(nu, b2, count)

        def direct(m, v):
            adaptive = divide_by_root(factor.astype(m.dtype) * m, v + eps_root, eps)
            return jnp.where(rectified, adaptive, m)

        direction = leafwise(direct, mu_hat, nu_hat)
        mu, nu = keep_dtype(mu, state.mu), keep_dtype(nu, state.nu)
        return direction, ScaleByAdamState(count=count, mu=mu, nu=nu)

    def _rectification(self, count):
        r"""Whether to rectify, and $r_t$. Guarded twice: the root of a negative number has no finite derivative."""
        b2 = self.b2
        limit = 2.0 / (1.0 - b2) - 1.0
        decayed = b2**count
        length = limit - 2 * count * decayed / (1 - decayed)
        trusted = length >= self.threshold
        if is_traced(b2):
            limit, length = jnp.where(trusted, limit, 10.0), jnp.where(trusted, length, 6.0)
        square = (length - 4.0) * (length - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * length)
        rectified = trusted & (square > 0)
        return rectified, jnp.sqrt(jnp.where(rectified, square, 1.0))


@final
class RAdam(AbstractChain):
    r"""Rectified Adam: `Adam` with a warmup of its own, as long as the second moment's decay asks for.

    Where Adam needs a warmup that you do not want to tune; with a tuned warmup there is little between them.

    $$ \theta_t = \theta_{t-1} - \eta_t\, u_t, \qquad u_t \text{ as in `ScaleByRAdam`} $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root, not negative.
        threshold: $\tau$, the length of average from which its variance is trusted, above 4. Derivatives are zero.
        nesterov: use Nesterov momentum.

    References:
        Liu et al., On the Variance of the Adaptive Learning Rate and Beyond, 2019, https://arxiv.org/abs/1908.03265
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-8
    eps_root: Numeric = 0.0
    threshold: Numeric = 5.0
    nesterov: bool = static(False, kw_only=True)

    @property
    def chain(self):
        return ScaleByRAdam.of(self), ScaleByLearningRate.of(self, flip_sign=True)


scale_by_radam, radam = ScaleByRAdam, RAdam
