"""Simplified AdEMAMix: one momentum buffer, with the current gradient mixed in again."""

from typing import Any, final

import jax.numpy as jnp
from optax import safe_increment

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_state
from pytreeopt.fields import static_tree
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import bias_correction, divide_by_root, keep_dtype, value_at, zeros_like
from pytreeopt.states import ScaleBySimplifiedAdEMAMixState
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.weight_decay import AddDecayedWeights


@final
class ScaleBySimplifiedAdEMAMix(GradientTransformation):
    r"""Simplified AdEMAMix's direction: a decaying sum of the gradients, and the gradient once more.

    $$ m_t = g_t + \beta_1 m_{t-1}, \quad n_t = g_t^2 + \beta_2 (n_{t-1} - g_t^2), \quad
    u_t = \frac{m_t + \alpha\, g_t}{\sqrt{n_t / (1-\beta_2^t) + \bar\epsilon} + \epsilon} $$

    Args:
        b1: $\beta_1$, decay of the sum of gradients, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        alpha: $\alpha$, additional weight of the gradient, not negative, or a schedule.
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root, not negative.

    References:
        Morwani et al., Connections between Schedule-Free Optimizers, AdEMAMix, and Accelerated SGD Variants, 2025,
        https://arxiv.org/abs/2502.02431
    """

    b1: Numeric = 0.99
    b2: Numeric = 0.95
    alpha: ScalarOrSchedule = 0.0
    eps: Numeric = 1e-8
    eps_root: Numeric = 0.0

    def init(self, params):
        m, n = zeros_like(params), zeros_like(params)
        return ScaleBySimplifiedAdEMAMixState(t=jnp.zeros([], jnp.int32), m=m, n=n)

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleBySimplifiedAdEMAMixState)
        eps, eps_root = self.eps, self.eps_root
        # Upstream makes arrays of its factors, which are then in float32 even where they are Python numbers.
        b1, b2 = jnp.asarray(self.b1), jnp.asarray(self.b2)
        alpha = jnp.asarray(value_at(self.alpha, state.t))
        m = leafwise(lambda g, m: g + b1 * m, updates, state.m)

        def average(g, n):
            square = g * g
            return square + b2 * (n - square)

        n = leafwise(average, updates, state.n)
        t = safe_increment(state.t)
        n_hat = bias_correction(n, self.b2, t)
        direction = leafwise(lambda m, g, n: divide_by_root(m + alpha * g, n + eps_root, eps), m, updates, n_hat)
        return direction, ScaleBySimplifiedAdEMAMixState(t=t, m=keep_dtype(m, state.m), n=keep_dtype(n, state.n))


@final
class SimplifiedAdEMAMix(AbstractChain):
    r"""Simplified AdEMAMix: most of AdEMAMix's gain in Adam's memory, with nothing to schedule but the rate.

    The sum of gradients is not normalised, so the learning rate is about $1-\beta_1$ times that of Adam.

    $$ \theta_t = \theta_{t-1} - \eta_t (u_t + \lambda\, \theta_{t-1}), \qquad
    u_t \text{ as in `ScaleBySimplifiedAdEMAMix`} $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, decay of the sum of gradients, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        alpha: $\alpha$, additional weight of the gradient, not negative, or a schedule; 0 is Adam's direction.
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root, not negative.
        weight_decay: $\lambda$, a number or a schedule; it is multiplied by the learning rate.
        mask: tree of bools, or function of the params that makes one: where true, weights decay.

    References:
        Morwani et al., Connections between Schedule-Free Optimizers, AdEMAMix, and Accelerated SGD Variants, 2025,
        https://arxiv.org/abs/2502.02431
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.99
    b2: Numeric = 0.95
    alpha: ScalarOrSchedule = 0.0
    eps: Numeric = 1e-8
    eps_root: Numeric = 0.0
    weight_decay: ScalarOrSchedule = 0.0
    mask: Any = static_tree(None)

    @property
    def chain(self):
        direction = ScaleBySimplifiedAdEMAMix.of(self)
        return direction, AddDecayedWeights.of(self), ScaleByLearningRate.of(self, flip_sign=True)


scale_by_simplified_ademamix, simplified_ademamix = ScaleBySimplifiedAdEMAMix, SimplifiedAdEMAMix
