"""Schedule-free optimization: averaging in place of a learning rate schedule."""

import abc
from typing import final

import jax.numpy as jnp
import optax
from jax.typing import DTypeLike

from pytreeopt.base import AbstractHyperparameters, GradientTransformation, Numeric, ScalarOrSchedule, coerce
from pytreeopt.combinators.chain import Chain
from pytreeopt.errors import require_params, require_state
from pytreeopt.fields import static_dtype
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import copy, require_inexact
from pytreeopt.optimizers.rmsprop import ScaleByRms
from pytreeopt.optimizers.sgd import SGD
from pytreeopt.schedules.warmup import WarmupConstantSchedule
from pytreeopt.states import ScheduleFreeState
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.weight_decay import AddDecayedWeights


@final
class ScheduleFree(GradientTransformation):
    r"""Steps at one point, averages at another, and takes the gradient in between.

    $$ y_t = (1-\beta)\, z_t + \beta\, x_t, \qquad z_{t+1} = z_t + u_t(y_t), \qquad
    x_{t+1} = (1 - c_{t+1})\, x_t + c_{t+1}\, z_{t+1}, \qquad
    c_{t+1} = \frac{\gamma_t^p}{\sum_{i \le t} \gamma_i^p}, \quad \gamma_t = \max_{i \le t} \eta_i $$

    The params of the training loop are $y$; evaluate at $x$, which `schedule_free_eval_params(state, params)` gives.
    `init` freezes `b1` into the state, for that function alone.

    Args:
        base_optimizer: gives the updates $u$; without momentum of its own.
        learning_rate: $\eta$, the rate of the base optimizer, a number or a schedule.
        b1: $\beta$, weight of the average, in (0, 1].
        weight_lr_power: $p$, power of the rate in the weights of the average.
        state_dtype: dtype of the stored $z$; None keeps that of the params.

    References:
        Defazio et al., The Road Less Scheduled, 2024, https://arxiv.org/abs/2405.15682
    """

    base_optimizer: GradientTransformation
    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.9
    weight_lr_power: Numeric = 2.0
    state_dtype: DTypeLike | None = static_dtype(None)

    def init(self, params):
        require_inexact(params)
        dtype = optax.tree.dtype(params, "lowest")
        return ScheduleFreeState(
            b1=jnp.asarray(self.b1, dtype=dtype),
            weight_sum=jnp.zeros([], dtype=dtype),
            step_count=jnp.ones([], dtype=jnp.int32),
            max_lr=jnp.zeros([], dtype=dtype),
            base_optimizer_state=coerce(self.base_optimizer).init(params),
            z=copy(params) if self.state_dtype is None else copy(optax.tree.cast(params, self.state_dtype)),
        )

    def update(self, updates, state, params=None, **extra_args):
        params = require_params(params)
        state = require_state(state, ScheduleFreeState)
        b1 = self.b1
        rate = self.learning_rate
        if callable(rate):
            rate = jnp.asarray(rate(state.step_count), dtype=state.max_lr.dtype)
        max_lr = jnp.maximum(state.max_lr, rate)
        weight = max_lr**self.weight_lr_power
        weight_sum = state.weight_sum + weight
        share = _share(weight, weight_sum)
        base_updates, base_state = coerce(self.base_optimizer).update(
            updates, state.base_optimizer_state, params, **extra_args
        )
        z = leafwise(lambda z, u: (z + u).astype(z.dtype), state.z, base_updates)

        def step(y, old_z, z):
            x = (y - (1.0 - b1) * old_z) / b1
            x = (1.0 - share) * x + share * z
            return (b1 * x + (1.0 - b1) * z) - y

        direction = leafwise(step, params, state.z, z)
        count = optax.safe_increment(state.step_count)
        return direction, ScheduleFreeState(state.b1, weight_sum, count, max_lr, base_state, z)


def _share(weight, total):
    """The weight of the newest point in the average; 0 as long as the learning rate was 0."""
    bad = jnp.isnan(weight) | jnp.isnan(total)
    ratio = jnp.nan_to_num(weight / jnp.where(total == 0, 1, total), nan=0.0, posinf=jnp.inf)
    return jnp.where(bad, jnp.full(weight.shape, jnp.nan), ratio)


class _AbstractScheduleFree(GradientTransformation):
    """An optimizer that is `ScheduleFree` around one of its own. To write one: implement `_base`."""

    @property
    def schedule_free(self) -> ScheduleFree:
        """What this optimizer stands for."""
        rate = _warmed_up(self)
        return ScheduleFree.of(self, base_optimizer=self._base(rate), learning_rate=rate)

    @abc.abstractmethod
    def _base(self, rate: ScalarOrSchedule) -> GradientTransformation:
        """The optimizer inside, at this rate."""

    def init(self, params):
        return self.schedule_free.init(params)

    def update(self, updates, state, params=None, **extra_args):
        return self.schedule_free.update(updates, state, params, **extra_args)


def _warmed_up(opt: AbstractHyperparameters) -> ScalarOrSchedule:
    rate, steps = vars(opt)["learning_rate"], vars(opt)["warmup_steps"]
    return rate if steps is None else WarmupConstantSchedule(0, rate, steps)


@final
class ScheduleFreeSGD(_AbstractScheduleFree):
    r"""Gradient descent without a schedule: large constant steps, averaged.

    $$ u_t(y) = -\eta_t\, (g(y) + \lambda\, y) \quad \text{in `ScheduleFree`} $$

    Needs no end of training to be set in advance; evaluate at `schedule_free_eval_params(state, params)`. `init`
    freezes `b1` into the state, for that function alone.

    Args:
        learning_rate: $\eta$, positive; larger than without averaging.
        warmup_steps: steps in which the rate rises from 0, or None. 0 steps leave it at 0.
        b1: $\beta$, weight of the average, in (0, 1].
        weight_decay: $\lambda$, a number or a schedule, or None.
        weight_lr_power: $p$, power of the rate in the weights of the average.
        state_dtype: dtype of the stored $z$; None keeps that of the params.

    References:
        Defazio et al., The Road Less Scheduled, 2024, https://arxiv.org/abs/2405.15682
    """

    learning_rate: ScalarOrSchedule = 1.0
    warmup_steps: Numeric | None = None
    b1: Numeric = 0.9
    weight_decay: ScalarOrSchedule | None = None
    weight_lr_power: Numeric = 2.0
    state_dtype: DTypeLike | None = static_dtype(None)

    def _base(self, rate):
        descent = SGD(rate)
        return descent if self.weight_decay is None else Chain((AddDecayedWeights(self.weight_decay), descent))


@final
class ScheduleFreeAdamW(_AbstractScheduleFree):
    r"""AdamW without a schedule and without momentum: constant steps, averaged.

    $$ u_t(y) = -\eta_t \left( \frac{g(y)}{\sqrt{\hat v_t} + \epsilon} + \lambda\, y \right)
    \quad \text{in `ScheduleFree`, with Adam's } \hat v_t $$

    Needs no end of training to be set in advance; evaluate at `schedule_free_eval_params(state, params)`. `init`
    freezes `b1` into the state, for that function alone.

    Args:
        learning_rate: $\eta$, positive; 1 to 10 times that of AdamW.
        warmup_steps: steps in which the rate rises from 0, or None. 0 steps leave it at 0.
        b1: $\beta$, weight of the average, in (0, 1].
        b2: decay of the average squared gradient, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        weight_decay: $\lambda$, a number or a schedule.
        weight_lr_power: $p$, power of the rate in the weights of the average.
        state_dtype: dtype of the stored $z$; None keeps that of the params.

    References:
        Defazio et al., The Road Less Scheduled, 2024, https://arxiv.org/abs/2405.15682
    """

    learning_rate: ScalarOrSchedule = 0.0025
    warmup_steps: Numeric | None = None
    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-8
    weight_decay: ScalarOrSchedule = 0.0
    weight_lr_power: Numeric = 2.0
    state_dtype: DTypeLike | None = static_dtype(None)

    def _base(self, rate):
        scaling = ScaleByRms(self.b2, self.eps, eps_in_sqrt=False, bias_correction=True)
        return Chain((scaling, AddDecayedWeights(self.weight_decay), ScaleByLearningRate(rate)))


schedule_free, schedule_free_sgd, schedule_free_adamw = ScheduleFree, ScheduleFreeSGD, ScheduleFreeAdamW
