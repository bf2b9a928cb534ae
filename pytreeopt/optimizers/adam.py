"""Adam and its variants with Nesterov momentum and decoupled weight decay."""

from typing import Any, final

import jax.numpy as jnp
from jax.typing import DTypeLike
from optax import safe_increment

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_state
from pytreeopt.fields import static, static_dtype, static_tree
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import (
    bias_correction,
    divide_by_root,
    keep_dtype,
    leafwise_debiased,
    nesterov_moment,
    update_two_moments,
    zeros_like,
)
from pytreeopt.states import ScaleByAdamState
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.weight_decay import AddDecayedWeights


@final
class ScaleByAdam(GradientTransformation):
    r"""Adam's direction: the average gradient over the root of the average squared gradient.

    $$ m_t = (1-\beta_1)\, g_t + \beta_1 m_{t-1}, \quad v_t = (1-\beta_2)\, |g_t|^2 + \beta_2 v_{t-1}, \quad
    u_t = \frac{m_t / (1-\beta_1^t)}{\sqrt{v_t / (1-\beta_2^t) + \bar\epsilon} + \epsilon} $$

    With Nesterov momentum the numerator is $\beta_1 m_t / (1-\beta_1^{t+1}) + (1-\beta_1)\, g_t / (1-\beta_1^t)$.

    Args:
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root; positive makes hypergradients smooth at zero gradients.
        mu_dtype: dtype of the stored $m$; None keeps that of the params.
        nesterov: use Nesterov momentum.

    References:
        Kingma and Ba, Adam: A Method for Stochastic Optimization, 2014, https://arxiv.org/abs/1412.6980
        Dozat, Incorporating Nesterov Momentum into Adam, 2016, https://openreview.net/pdf?id=OM0jvwB8jIp57ZJjtNEZ
    """

    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-8
    eps_root: Numeric = 0.0
    mu_dtype: DTypeLike | None = static_dtype(None)
    nesterov: bool = static(False, kw_only=True)

    def init(self, params):
        mu, nu = zeros_like(params, self.mu_dtype), zeros_like(params)
        return ScaleByAdamState(count=jnp.zeros([], jnp.int32), mu=mu, nu=nu)

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleByAdamState)
        b1, b2, eps, eps_root = self.b1, self.b2, self.eps, self.eps_root
        count = safe_increment(state.count)
        mu, nu = update_two_moments(updates, state.mu, state.nu, b1, b2)

        def divide(m, v):
            return divide_by_root(m, v + eps_root, eps)

        if self.nesterov:
            direction = leafwise(divide, nesterov_moment(mu, updates, b1, count), bias_correction(nu, b2, count))
        else:
            direction = leafwise_debiased(divide, (mu, nu), (b1, b2), count)
        mu, nu = keep_dtype(mu, state.mu, self.mu_dtype), keep_dtype(nu, state.nu)
        return direction, ScaleByAdamState(count=count, mu=mu, nu=nu)


class _AbstractAdam(AbstractChain):
    """Adam's direction and the learning rate."""

    @property
    def chain(self):
        return ScaleByAdam.of(self), ScaleByLearningRate.of(self, flip_sign=True)


class _AbstractAdamW(AbstractChain):
    """Adam's direction, decoupled weight decay, and the learning rate."""

    @property
    def chain(self):
        return ScaleByAdam.of(self), AddDecayedWeights.of(self), ScaleByLearningRate.of(self, flip_sign=True)


@final
class Adam(_AbstractAdam):
    r"""Adam: steps of about the learning rate in every coordinate, whatever the gradients' scale.

    The first thing to try on a neural network without weight decay; else see `AdamW`.

    $$ \theta_t = \theta_{t-1} - \eta_t\, u_t, \qquad u_t \text{ as in `ScaleByAdam`} $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root; positive makes hypergradients smooth at zero gradients.
        mu_dtype: dtype of the stored average gradient; None keeps that of the params.
        nesterov: use Nesterov momentum, as `NAdam` does.

    References:
        Kingma and Ba, Adam: A Method for Stochastic Optimization, 2014, https://arxiv.org/abs/1412.6980
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-8
    eps_root: Numeric = 0.0
    mu_dtype: DTypeLike | None = static_dtype(None)
    nesterov: bool = static(False, kw_only=True)


@final
class NAdam(_AbstractAdam):
    r"""Adam with Nesterov momentum: `Adam` with another default.

    Often a little faster than Adam where momentum matters, at the same cost.

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root; positive makes hypergradients smooth at zero gradients.
        mu_dtype: dtype of the stored average gradient; None keeps that of the params.
        nesterov: use Nesterov momentum; False is `Adam`.

    References:
        Dozat, Incorporating Nesterov Momentum into Adam, 2016, https://openreview.net/pdf?id=OM0jvwB8jIp57ZJjtNEZ
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-8
    eps_root: Numeric = 0.0
    mu_dtype: DTypeLike | None = static_dtype(None)
    nesterov: bool = static(True, kw_only=True)


@final
class AdamW(_AbstractAdamW):
    r"""Adam with decoupled weight decay: weights shrink at the same relative rate whatever their gradients.

    The usual choice for transformers and most large networks.

    $$ \theta_t = \theta_{t-1} - \eta_t (u_t + \lambda_t\, \theta_{t-1}), \qquad u_t \text{ as in `ScaleByAdam`} $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root; positive makes hypergradients smooth at zero gradients.
        mu_dtype: dtype of the stored average gradient; None keeps that of the params.
        weight_decay: $\lambda$, a number or a schedule; it is multiplied by the learning rate.
        mask: tree of bools, or function of the params that makes one: where true, weights decay.
        nesterov: use Nesterov momentum, as `NAdamW` does.

    References:
        Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, https://arxiv.org/abs/1711.05101
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-8
    eps_root: Numeric = 0.0
    mu_dtype: DTypeLike | None = static_dtype(None)
    weight_decay: ScalarOrSchedule = 1e-4
    mask: Any = static_tree(None)
    nesterov: bool = static(False, kw_only=True)


@final
class NAdamW(_AbstractAdamW):
    r"""Adam with Nesterov momentum and decoupled weight decay: `AdamW` with another default.

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root; positive makes hypergradients smooth at zero gradients.
        mu_dtype: dtype of the stored average gradient; None keeps that of the params.
        weight_decay: $\lambda$, a number or a schedule; it is multiplied by the learning rate.
        mask: tree of bools, or function of the params that makes one: where true, weights decay.
        nesterov: use Nesterov momentum; False is `AdamW`.

    References:
        Dozat, Incorporating Nesterov Momentum into Adam, 2016, https://openreview.net/pdf?id=OM0jvwB8jIp57ZJjtNEZ
        Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, https://arxiv.org/abs/1711.05101
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-8
    eps_root: Numeric = 0.0
    mu_dtype: DTypeLike | None = static_dtype(None)
    weight_decay: ScalarOrSchedule = 1e-4
    mask: Any = static_tree(None)
    nesterov: bool = static(True, kw_only=True)


scale_by_adam = ScaleByAdam
adam, nadam, adamw, nadamw = Adam, NAdam, AdamW, NAdamW
