"""NovoGrad: gradients normalised layer by layer, then averaged."""

from typing import final

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from optax import safe_increment

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_params, require_state
from pytreeopt.fields import static_dtype
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import divide_by_root, keep_dtype, require_inexact, sqrt, update_moment, zeros_like
from pytreeopt.states import ScaleByNovogradState
from pytreeopt.transforms.scale import ScaleByLearningRate


@final
class ScaleByNovograd(GradientTransformation):
    r"""NovoGrad's direction: each leaf's gradient over its own average norm, plus weight decay, summed up with decay.

    $$ v_t = (1-\beta_2)\, \lVert g_t \rVert^2 + \beta_2 v_{t-1}, \quad
    d_t = \frac{g_t}{\sqrt{v_t + \bar\epsilon} + \epsilon} + \lambda\, \theta_{t-1}, \quad
    u_t = m_t = \beta_1 m_{t-1} + d_t $$

    with $v_1 = \lVert g_1 \rVert^2$ and $m_1 = d_1$; $v$ is one number a leaf.

    Args:
        b1: $\beta_1$, decay of the sum of directions, in [0, 1).
        b2: $\beta_2$, decay of the average squared norm, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root, not negative.
        weight_decay: $\lambda$, not negative.
        mu_dtype: dtype of the stored $m$, and of the updates; None keeps that of the params.

    References:
        Ginsburg et al., Stochastic Gradient Methods with Layer-wise Adaptive Moments for Training of Deep Networks,
        2019, https://arxiv.org/abs/1905.11286
    """

    b1: Numeric = 0.9
    b2: Numeric = 0.25
    eps: Numeric = 1e-8
    eps_root: Numeric = 0.0
    weight_decay: Numeric = 0.0
    mu_dtype: DTypeLike | None = static_dtype(None)

    def init(self, params):
        mu = zeros_like(params, self.mu_dtype)
        require_inexact(params)
        nu = jax.tree.map(lambda p: jnp.zeros([], p.dtype), params)
        return ScaleByNovogradState(count=jnp.zeros([], jnp.int32), mu=mu, nu=nu)

    def update(self, updates, state, params=None, **extra_args):
        params = require_params(params)
        state = require_state(state, ScaleByNovogradState)
        b1, b2, eps, eps_root, weight_decay = self.b1, self.b2, self.eps, self.eps_root, self.weight_decay

        def norms(grads):
            return leafwise(lambda g: sqrt(jnp.sum((g * g.conj()).real)) ** 2, grads)

        def directions(grads, params, nu):
            return leafwise(lambda g, p, v: divide_by_root(g, v + eps_root, eps) + weight_decay * p, grads, params, nu)

        # Both branches of a conditional must have the same dtypes, whatever those of gradients and params.
        def first_nu(grads, nu):
            return keep_dtype(norms(grads), nu)

        def next_nu(grads, nu):
            return keep_dtype(update_moment(norms(grads), nu, b2, 1), nu)

        def first_mu(grads, params, mu, nu):
            new = directions(grads, params, nu)
            return leafwise(lambda u, m: u.astype(jnp.result_type(u, m)), new, mu)

        def next_mu(grads, params, mu, nu):
            return leafwise(lambda m, u: b1 * m + u, mu, directions(grads, params, nu))

        count = safe_increment(state.count)
        nu = jax.lax.cond(count == 1, first_nu, next_nu, updates, state.nu)
        mu = jax.lax.cond(count == 1, first_mu, next_mu, updates, params, state.mu, nu)
        stored = keep_dtype(mu, state.mu, self.mu_dtype)
        direction = mu if self.mu_dtype is None else stored
        return direction, ScaleByNovogradState(count=count, mu=stored, nu=nu)


@final
class NovoGrad(AbstractChain):
    r"""NovoGrad: momentum over gradients that are normalised layer by layer.

    Robust to the learning rate and to large batches, with half of Adam's state; made for speech and translation.

    $$ \theta_t = \theta_{t-1} - \eta_t\, u_t, \qquad u_t \text{ as in `ScaleByNovograd`} $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, decay of the sum of directions, in [0, 1).
        b2: $\beta_2$, decay of the average squared norm, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root, not negative.
        weight_decay: $\lambda$, not negative; enters the momentum.

    References:
        Ginsburg et al., Stochastic Gradient Methods with Layer-wise Adaptive Moments for Training of Deep Networks,
        2019, https://arxiv.org/abs/1905.11286
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.9
    b2: Numeric = 0.25
    eps: Numeric = 1e-6
    eps_root: Numeric = 0.0
    weight_decay: Numeric = 0.0

    @property
    def chain(self):
        return ScaleByNovograd.of(self, mu_dtype=None), ScaleByLearningRate.of(self, flip_sign=True)


scale_by_novograd, novograd = ScaleByNovograd, NovoGrad
