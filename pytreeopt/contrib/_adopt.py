"""ADOPT: Adam whose second moment lags one step behind."""

from collections.abc import Callable
from typing import Any, final

import jax.numpy as jnp
from jax.typing import DTypeLike
from optax import safe_increment

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_state
from pytreeopt.fields import static, static_dtype
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import (
    keep_dtype,
    one_where_zero,
    sqrt,
    update_moment,
    update_moment_per_elem_norm,
    vanishes,
    zeros_like,
)
from pytreeopt.states import ScaleByAdamState
from pytreeopt.transforms.scale import ScaleByLearningRate


def fourth_root(step: Any) -> Any:
    """The bound on normalised gradients: $t^{1/4}$ at step $t$, from 0 on."""
    return step**0.25


@final
class ScaleByADOPT(GradientTransformation):
    r"""ADOPT's direction: an average of gradients, each normalised by the squares seen before it.

    $$ w_t = \mathrm{clip}\!\left(\frac{g_t}{\max(\sqrt{v_{t-1}}, \epsilon)}, \pm c(t)\right), \quad
    m_t = (1-\beta_1)\, w_t + \beta_1 m_{t-1}, \quad v_t = (1-\beta_2)\, |g_t|^2 + \beta_2 v_{t-1}, \quad u_t = m_t $$

    The first update, at $t = 0$, only sets $v_0 = |g_0|^2$.

    Args:
        b1: $\beta_1$, decay of the average of normalised gradients, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        eps: $\epsilon$, the least divisor, positive.
        mu_dtype: dtype of the stored $m$; None keeps that of the params.
        nesterov: average once more before the update.
        use_clipping: whether to clip the normalised gradients at all.
        clip_value_fn: $c$, maps the step count to the bound; compared by identity.

    References:
        Taniguchi et al., ADOPT: Modified Adam Can Converge with Any beta2 with the Optimal Rate, 2024,
        https://arxiv.org/abs/2411.02853
    """

    b1: Numeric = 0.9
    b2: Numeric = 0.9999
    eps: Numeric = 1e-6
    mu_dtype: DTypeLike | None = static_dtype(None)
    nesterov: bool = static(False, kw_only=True)
    use_clipping: bool = static(True, kw_only=True)
    clip_value_fn: Callable[[Any], Any] = static(fourth_root, kw_only=True)

    def init(self, params):
        mu, nu = zeros_like(params, self.mu_dtype), zeros_like(params)
        return ScaleByAdamState(count=jnp.zeros([], jnp.int32), mu=mu, nu=nu)

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleByAdamState)
        later = state.count > 0
        b1, b2 = jnp.where(later, self.b1, 1), jnp.where(later, self.b2, 0)
        nu = update_moment_per_elem_norm(updates, state.nu, b2, 2)
        normalised = leafwise(lambda g, v: g / self._divisor(v, later), updates, state.nu)
        if self.use_clipping:
            bound = self.clip_value_fn(state.count)
            normalised = leafwise(lambda w: jnp.clip(w, -bound, bound), normalised)
        mu = update_moment(normalised, state.mu, b1, 1)
        out = update_moment(normalised, mu, b1, 1) if self.nesterov else mu
        mu, nu = keep_dtype(mu, state.mu, self.mu_dtype), keep_dtype(nu, state.nu)
        return out, ScaleByAdamState(count=safe_increment(state.count), mu=mu, nu=nu)

    def _divisor(self, v, later):
        divisor = jnp.maximum(sqrt(v), self.eps)
        if v.dtype == jnp.float16:  # g / eps overflows at the first step, and its weight is 0
            divisor = jnp.where(later, one_where_zero(divisor, vanishes(self.eps, v.dtype)), 1)
        return divisor


@final
class ADOPT(AbstractChain):
    r"""ADOPT: Adam that converges for every $\beta_2$, since no gradient is divided by itself.

    Where Adam is unstable at a large $\beta_2$.

    $$ \theta_t = \theta_{t-1} - \eta_t\, u_t, \qquad u_t \text{ as in `ScaleByADOPT`} $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, decay of the average of normalised gradients, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        eps: $\epsilon$, the least divisor, positive.
        mu_dtype: dtype of the stored average; None keeps that of the params.
        nesterov: average once more before the update.
        use_clipping: whether to clip the normalised gradients at all; keep it when training from scratch.
        clip_value_fn: $c$, maps the step count to the bound; compared by identity.

    References:
        Taniguchi et al., ADOPT: Modified Adam Can Converge with Any beta2 with the Optimal Rate, 2024,
        https://arxiv.org/abs/2411.02853
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.9
    b2: Numeric = 0.9999
    eps: Numeric = 1e-6
    mu_dtype: DTypeLike | None = static_dtype(None)
    nesterov: bool = static(False, kw_only=True)
    use_clipping: bool = static(True, kw_only=True)
    clip_value_fn: Callable[[Any], Any] = static(fourth_root, kw_only=True)

    @property
    def chain(self):
        return ScaleByADOPT.of(self), ScaleByLearningRate.of(self, flip_sign=True)


scale_by_adopt, adopt = ScaleByADOPT, ADOPT
