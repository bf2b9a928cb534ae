"""AdaMax: Adam with the largest recent gradient in place of the root mean square."""

from typing import Any, final

import jax.numpy as jnp
from optax import safe_increment

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_state
from pytreeopt.fields import static_tree
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import (
    bias_correction,
    keep_dtype,
    one_where_zero,
    update_infinity_moment,
    update_moment,
    vanishes,
    zeros_like,
)
from pytreeopt.states import ScaleByAdamState
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.weight_decay import AddDecayedWeights


@final
class ScaleByAdaMax(GradientTransformation):
    r"""AdaMax's direction: the average gradient over the largest recent one, coordinate by coordinate.

    $$ m_t = (1-\beta_1)\, g_t + \beta_1 m_{t-1}, \quad v_t = \max(|g_t| + \epsilon,\, \beta_2 v_{t-1}), \quad
    u_t = \frac{m_t / (1-\beta_1^t)}{v_t} $$

    Args:
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the largest gradient, in [0, 1).
        eps: $\epsilon$, added to the absolute gradient, positive.

    References:
        Kingma and Ba, Adam: A Method for Stochastic Optimization, 2014, section 7.1,
        https://arxiv.org/abs/1412.6980
    """

    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-8

    def init(self, params):
        mu, nu = zeros_like(params), zeros_like(params)
        return ScaleByAdamState(count=jnp.zeros([], jnp.int32), mu=mu, nu=nu)

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleByAdamState)
        b1, b2, eps = self.b1, self.b2, self.eps

        def divide(m, v):
            return m / one_where_zero(v, vanishes(eps, v.dtype))

        count = safe_increment(state.count)
        mu = update_moment(updates, state.mu, b1, 1)
        nu = update_infinity_moment(updates, state.nu, b2, eps)
        direction = leafwise(divide, bias_correction(mu, b1, count), nu)
        mu, nu = keep_dtype(mu, state.mu), keep_dtype(nu, state.nu)
        return direction, ScaleByAdamState(count=count, mu=mu, nu=nu)


@final
class AdaMax(AbstractChain):
    r"""AdaMax: `Adam` with the largest recent gradient as the scale; no step is much above the learning rate.

    Worth a try where rare large gradients upset Adam, as with embeddings; seldom better elsewhere.

    $$ \theta_t = \theta_{t-1} - \eta_t\, u_t, \qquad u_t \text{ as in `ScaleByAdaMax`} $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the largest gradient, in [0, 1).
        eps: $\epsilon$, added to the absolute gradient, positive.

    References:
        Kingma and Ba, Adam: A Method for Stochastic Optimization, 2014, section 7.1,
        https://arxiv.org/abs/1412.6980
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-8

    @property
    def chain(self):
        return ScaleByAdaMax.of(self), ScaleByLearningRate.of(self, flip_sign=True)


@final
class AdaMaxW(AbstractChain):
    r"""AdaMax with decoupled weight decay.

    For what `AdaMax` is for, where weights should decay, too.

    $$ \theta_t = \theta_{t-1} - \eta_t (u_t + \lambda_t\, \theta_{t-1}), \qquad u_t \text{ as in `ScaleByAdaMax`} $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the largest gradient, in [0, 1).
        eps: $\epsilon$, added to the absolute gradient, positive.
        weight_decay: $\lambda$, a number or a schedule; multiplied by the learning rate.
        mask: tree of bools, or function of the params that makes one: where true, weights decay.

    References:
        Kingma and Ba, Adam: A Method for Stochastic Optimization, 2014, section 7.1,
        https://arxiv.org/abs/1412.6980
        Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, https://arxiv.org/abs/1711.05101
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-8
    weight_decay: ScalarOrSchedule = 1e-4
    mask: Any = static_tree(None)

    @property
    def chain(self):
        return ScaleByAdaMax.of(self), AddDecayedWeights.of(self), ScaleByLearningRate.of(self, flip_sign=True)


scale_by_adamax, adamax, adamaxw = ScaleByAdaMax, AdaMax, AdaMaxW
