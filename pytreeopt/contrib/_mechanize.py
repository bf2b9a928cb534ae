"""Mechanic: learns the learning rate of another optimizer."""

from typing import final

import jax
import jax.numpy as jnp
import optax

from pytreeopt.base import GradientTransformation, Numeric, coerce
from pytreeopt.errors import require_params, require_state
from pytreeopt.fields import static
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import copy, like, norm, require_inexact, sqrt
from pytreeopt.states import MechanicState


@final
class Mechanize(GradientTransformation):
    r"""Scales the total of an optimizer's updates by a factor that it learns online.

    Where the schedule's shape is known but not its height: wrap the optimizer with a rate of 1 times the schedule.

    $$ \theta_t = \theta_0 + \Bigl(\sum_i s_{t,i}\Bigr) \Delta_t, \qquad \Delta_t = \Delta_{t-1} + u_t, \qquad
    h_t = -\Bigl\langle g_t + \lambda \Bigl(\sum_i s_{t-1,i}\Bigr)
    \frac{\lVert g_t \rVert}{\lVert \theta_{t-1} \rVert} \theta_{t-1},\; \Delta_{t-1} \Bigr\rangle $$
    $$ m_{t,i} = \max(\beta_i m_{t-1,i}, |h_t| + \epsilon), \quad v_{t,i} = \beta_i^2 v_{t-1,i} + h_t^2, \quad
    r_{t,i} = \beta_i r_{t-1,i} + s_{t-1,i}\, \mathrm{clip}(h_t, \pm m_{t-1,i}), $$
    $$ s_{t,i} = \frac{(s_0 / n)\, m_{t,i} + \max(r_{t,i}, 0)}{\sqrt{v_{t,i}} + \epsilon}, \qquad
    \beta_i = 1 - 10^{-i} $$

    with $u_t$ the inner updates. The state remembers $\theta_0$, the params at the first update. `init` freezes
    `s_init` into the first $s$; `update` reads it too.

    Args:
        base_optimizer: the optimizer whose updates are scaled; a learning rate of about 1.
        weight_decay: $\lambda$, not negative.
        eps: $\epsilon$, positive.
        s_init: $s_0$, the first factor, positive and small.
        num_betas: $n$, the number of averages.

    References:
        Cutkosky et al., Mechanic: A Learning Rate Tuner, 2023, https://arxiv.org/abs/2306.00144
    """

    base_optimizer: GradientTransformation
    weight_decay: Numeric = 1e-2
    eps: Numeric = 1e-8
    s_init: Numeric = 1e-6
    num_betas: int = static(6)

    def init(self, params):
        require_inexact(params)
        dtype = optax.tree.dtype(params, "lowest")
        r, m, v = (jnp.zeros([self.num_betas], dtype) for _ in range(3))
        return MechanicState(
            base_optimizer_state=coerce(self.base_optimizer).init(params),
            count=jnp.zeros([], jnp.int32),
            r=r,
            m=m,
            v=v,
            s=jnp.ones([self.num_betas], dtype) * self.s_init,
            x0=copy(params),
        )

    def update(self, updates, state, params=None, **extra_args):
        params = require_params(params)
        state = require_state(state, MechanicState)
        eps = self.eps
        inner, base_state = coerce(self.base_optimizer).update(
            updates, state.base_optimizer_state, params, **extra_args
        )
        # Training often starts from other weights than those that init saw.
        x0 = jax.lax.cond(state.count == 0, lambda: params, lambda: state.x0)
        scale = jnp.sum(state.s)
        pull = self.weight_decay * scale * norm(updates) / (norm(params) + eps)
        decayed = leafwise(lambda g, p: g + pull * p, updates, params)
        # Optax's updates point downhill, so the difference is the other way round.
        before = leafwise(lambda x, start: (start - x) / (scale + eps), params, x0)
        delta = leafwise(lambda d, u: d - u, before, inner)

        h = like(jnp.asarray(optax.tree.vdot(decayed, before)), state.m)
        clipped = jax.lax.clamp(-state.m, jnp.ones_like(state.m) * h, state.m)
        betas = jnp.array([1.0 - 0.1**i for i in range(1, self.num_betas + 1)], dtype=state.s.dtype)
        m = jnp.maximum(betas * state.m, jnp.abs(h) + eps)
        v = (betas**2) * state.v + h**2
        r = betas * state.r + clipped * state.s
        wealth = (self.s_init / jnp.size(betas)) * m + jnp.maximum(0.0, r)
        s = wealth / (sqrt(v) + eps)

        new_params = leafwise(lambda start, d: start - jnp.sum(s) * d, x0, delta)
        direction = leafwise(lambda new, old: new - old, new_params, params)
        count = optax.safe_increment(state.count)
        return direction, MechanicState(base_optimizer_state=base_state, count=count, r=r, m=m, v=v, s=s, x0=x0)


mechanize = Mechanize
