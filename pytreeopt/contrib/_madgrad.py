"""MADGRAD: dual averaging with cube roots and momentum."""

from typing import final

import jax.numpy as jnp
from optax import safe_increment

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_params, require_state
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import cbrt, copy, keep_dtype, one_where_zero, vanishes, zeros_like
from pytreeopt.states import MadgradState
from pytreeopt.transforms.weight_decay import AddDecayedWeights


@final
class ScaleByMADGRAD(GradientTransformation):
    r"""The step to MADGRAD's next point, learning rate included.

    $$ \lambda_t = (\eta_t + \epsilon) \sqrt{t}, \quad G_t = G_{t-1} + \lambda_t g_t^2, \quad
    s_t = s_{t-1} + \lambda_t g_t, \quad
    u_t = (1-\mu) \left(\theta_0 - \frac{s_t}{\sqrt[3]{G_t} + \epsilon}\right) + \mu\, \theta_{t-1} - \theta_{t-1} $$

    `init` freezes $\theta_0$ into the state. Real parameters only.

    Args:
        learning_rate: $\eta$, a number or a schedule.
        momentum: $\mu$, weight of the old point, in [0, 1).
        eps: $\epsilon$, added to the learning rate and to the cube root, positive.

    References:
        Defazio and Jelassi, Adaptivity without Compromise, 2021, https://arxiv.org/abs/2101.11075
    """

    learning_rate: ScalarOrSchedule
    momentum: Numeric = 0.9
    eps: Numeric = 1e-6

    def init(self, params):
        count, squares, s = jnp.zeros([], jnp.int32), zeros_like(params), zeros_like(params)
        return MadgradState(count=count, grad_sum_sq=squares, s=s, x0=copy(params))

    def update(self, updates, state, params=None, **extra_args):
        params = require_params(params)
        state = require_state(state, MadgradState)
        eps, momentum = self.eps, self.momentum
        rate = self.learning_rate(state.count) if callable(self.learning_rate) else self.learning_rate
        weight = (rate + eps) * jnp.sqrt(state.count + 1)
        squares = leafwise(lambda g, G: G + (weight * (g**2)).astype(g.dtype), updates, state.grad_sum_sq)
        s = leafwise(lambda g, s: s + (weight * g).astype(g.dtype), updates, state.s)

        def step(G, s, x0, x):
            z = x0 - s / self._divisor(G)
            return (1 - momentum) * z + momentum * x - x

        out = leafwise(step, squares, s, state.x0, params)
        return out, MadgradState(
            count=jnp.asarray(safe_increment(state.count)),
            grad_sum_sq=keep_dtype(squares, state.grad_sum_sq),
            s=keep_dtype(s, state.s),
            x0=state.x0,
        )

    def _divisor(self, G):
        return cbrt(one_where_zero(G, vanishes(self.eps, G.dtype))) + self.eps


@final
class MADGRAD(AbstractChain):
    r"""MADGRAD: dual averaging of the gradients over the cube root of their squares, with momentum.

    Comes close to SGD with momentum on images and to Adam on text; it wants little or no weight decay.

    $$ \theta_t = \theta_{t-1} + u_t, \qquad u_t \text{ as in `ScaleByMADGRAD`, for the gradient }
    g_t + \lambda\, \theta_{t-1} $$

    `init` freezes the parameters into the state. Real parameters only.

    Args:
        learning_rate: $\eta$, a number or a schedule.
        momentum: $\mu$, weight of the old point, in [0, 1).
        weight_decay: $\lambda$, a number or a schedule, not decoupled.
        eps: $\epsilon$, added to the learning rate and to the cube root, positive.

    References:
        Defazio and Jelassi, Adaptivity without Compromise, 2021, https://arxiv.org/abs/2101.11075
    """

    learning_rate: ScalarOrSchedule
    momentum: Numeric = 0.9
    weight_decay: ScalarOrSchedule = 0.0
    eps: Numeric = 1e-6

    @property
    def chain(self):
        return AddDecayedWeights(self.weight_decay), ScaleByMADGRAD.of(self)


scale_by_madgrad, madgrad = ScaleByMADGRAD, MADGRAD
