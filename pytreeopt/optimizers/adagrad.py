"""Adagrad: steps divided by the root of the sum of all squared gradients."""

from typing import final

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_state
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import abs_sq, full_like, inverse_root, keep_dtype
from pytreeopt.states import ScaleByRssState
from pytreeopt.transforms.scale import ScaleByLearningRate


@final
class ScaleByRss(GradientTransformation):
    r"""Divides by the root of the sum of all squared gradients so far.

    $$ G_t = G_{t-1} + |g_t|^2, \qquad u_t = g_t / \sqrt{G_t + \epsilon} \;\text{ where } G_t > 0, \text{ else } 0 $$

    Frozen into the state at init: `initial_accumulator_value`.

    Args:
        initial_accumulator_value: $G_0$, not negative; read only by `init`.
        eps: $\epsilon$, added inside the root, positive.

    References:
        Duchi et al., Adaptive Subgradient Methods for Online Learning and Stochastic Optimization, 2011,
        https://jmlr.org/papers/v12/duchi11a.html
    """

    initial_accumulator_value: Numeric = 0.1
    eps: Numeric = 1e-7

    def init(self, params):
        return ScaleByRssState(sum_of_squares=full_like(params, self.initial_accumulator_value))

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleByRssState)
        eps = self.eps
        total = leafwise(lambda g, t: abs_sq(g) + t, updates, state.sum_of_squares)
        factor = leafwise(lambda t: inverse_root(t, eps), total)
        direction = leafwise(lambda s, g: s * g, factor, updates)
        return direction, ScaleByRssState(sum_of_squares=keep_dtype(total, state.sum_of_squares))


@final
class AdaGrad(AbstractChain):
    r"""Adagrad: each coordinate's step shrinks with the gradients that it has seen.

    For sparse features and convex problems; on long runs its steps become too small, which is what `Adam` mends.

    $$ \theta_t = \theta_{t-1} - \eta_t\, u_t, \qquad u_t \text{ as in `ScaleByRss`} $$

    Frozen into the state at init: `initial_accumulator_value`.

    Args:
        learning_rate: $\eta$, a number or a schedule.
        initial_accumulator_value: $G_0$, not negative; read only by `init`.
        eps: $\epsilon$, added inside the root, positive.

    References:
        Duchi et al., Adaptive Subgradient Methods for Online Learning and Stochastic Optimization, 2011,
        https://jmlr.org/papers/v12/duchi11a.html
    """

    learning_rate: ScalarOrSchedule
    initial_accumulator_value: Numeric = 0.1
    eps: Numeric = 1e-7

    @property
    def chain(self):
        return ScaleByRss.of(self), ScaleByLearningRate.of(self, flip_sign=True)


scale_by_rss, adagrad = ScaleByRss, AdaGrad
