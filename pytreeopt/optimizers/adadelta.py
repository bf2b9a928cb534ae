"""Adadelta: steps in the units of the parameters."""

from typing import Any, final

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_state
from pytreeopt.fields import static_tree
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import keep_dtype, one_where_zero, sqrt, update_moment, vanishes, zeros_like
from pytreeopt.states import ScaleByAdaDeltaState
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.weight_decay import AddDecayedWeights


@final
class ScaleByAdaDelta(GradientTransformation):
    r"""The gradient times the ratio of the root mean squares of recent steps and recent gradients.

    $$ E_g \leftarrow (1-\rho)\, g_t^2 + \rho\, E_g, \quad
    u_t = \frac{\sqrt{E_x + \epsilon}}{\sqrt{E_g + \epsilon}}\, g_t, \quad
    E_x \leftarrow (1-\rho)\, u_t^2 + \rho\, E_x $$

    Args:
        rho: $\rho$, decay of both averages, in [0, 1).
        eps: $\epsilon$, added inside the roots, positive; sets the size of the first steps.

    References:
        Zeiler, ADADELTA: An Adaptive Learning Rate Method, 2012, https://arxiv.org/abs/1212.5701
    """

    rho: Numeric = 0.9
    eps: Numeric = 1e-6

    def init(self, params):
        return ScaleByAdaDeltaState(e_g=zeros_like(params), e_x=zeros_like(params))

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleByAdaDeltaState)
        eps = self.eps

        def step(g, gradients, steps):
            radicand = one_where_zero(gradients + eps, vanishes(eps, gradients.dtype))
            return sqrt(steps + eps) / sqrt(radicand) * g

        e_g = update_moment(updates, state.e_g, self.rho, 2)
        direction = leafwise(step, updates, e_g, state.e_x)
        e_x = update_moment(direction, state.e_x, self.rho, 2)
        e_g, e_x = keep_dtype(e_g, state.e_g), keep_dtype(e_x, state.e_x)
        return direction, ScaleByAdaDeltaState(e_g=e_g, e_x=e_x)


@final
class AdaDelta(AbstractChain):
    r"""Adadelta: no learning rate to choose, since the steps have the units of the parameters.

    Mostly of historical interest: it starts slowly, and `Adam` with a tuned rate is usually better. A learning rate
    of None leaves its member idle, and then the updates are not negated: they ascend.

    $$ \theta_t = \theta_{t-1} - \eta_t\, u_t, \qquad u_t \text{ as in `ScaleByAdaDelta`, of } g_t + \lambda\, \theta $$

    Args:
        learning_rate: $\eta$, a number, a schedule, or None.
        rho: $\rho$, decay of both averages, in [0, 1).
        eps: $\epsilon$, added inside the roots, positive.
        weight_decay: $\lambda$, a number or a schedule; added to the gradient before it is rescaled.
        weight_decay_mask: tree of bools, or function of the params that makes one: where true, weights decay.

    References:
        Zeiler, ADADELTA: An Adaptive Learning Rate Method, 2012, https://arxiv.org/abs/1212.5701
    """

    learning_rate: ScalarOrSchedule | None = None
    rho: Numeric = 0.9
    eps: Numeric = 1e-6
    weight_decay: ScalarOrSchedule = 0.0
    weight_decay_mask: Any = static_tree(None)

    @property
    def chain(self):
        decay = AddDecayedWeights.of(self, mask=self.weight_decay_mask)
        return decay, ScaleByAdaDelta.of(self), ScaleByLearningRate.of(self, flip_sign=True)


scale_by_adadelta, adadelta = ScaleByAdaDelta, AdaDelta
