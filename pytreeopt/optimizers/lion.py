"""Lion: the sign of an interpolated momentum."""

from typing import Any, Literal, final

import jax.numpy as jnp
from jax.typing import DTypeLike
from optax import safe_increment

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import OptionError, require_state
from pytreeopt.fields import dynamic, static, static_dtype, static_tree
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import keep_dtype, update_moment, zeros_like
from pytreeopt.states import ScaleByLionState
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.weight_decay import AddDecayedWeights


@final
class ScaleByLion(GradientTransformation):
    r"""Lion's direction: the sign of a mix of gradient and momentum, which the momentum then remembers differently.

    $$ c_t = (1-\beta_1)\, g_t + \beta_1 m_{t-1}, \qquad u_t = \mathrm{sign}(c_t), \qquad
    m_t = (1-\beta_2)\, g_t + \beta_2 m_{t-1} $$

    In mode "smooth" $u_t = \tanh(s\, c_t)$; in mode "refined" $u_t = c_t$ where $|c_t| < 1$. The sign has derivative
    zero, so in mode "hard" no hypergradient flows through the direction.

    Args:
        b1: $\beta_1$, weight of the momentum in the direction, in [0, 1).
        b2: $\beta_2$, decay of the momentum, in [0, 1).
        mu_dtype: dtype of the stored $m$; None keeps that of the params.
        mode: "hard", "smooth" or "refined".
        smooth_beta: $s$, steepness in mode "smooth", positive.

    References:
        Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, https://arxiv.org/abs/2302.06675
    """

    b1: Numeric = 0.9
    b2: Numeric = 0.99
    mu_dtype: DTypeLike | None = static_dtype(None)
    mode: Literal["hard", "smooth", "refined"] = static("hard", kw_only=True)
    smooth_beta: Numeric = dynamic(1.0, kw_only=True)

    def init(self, params):
        return ScaleByLionState(count=jnp.zeros([], jnp.int32), mu=zeros_like(params, self.mu_dtype))

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleByLionState)
        b1, sign = self.b1, self._sign()
        direction = leafwise(lambda g, m: sign((1.0 - b1) * g + b1 * m), updates, state.mu)
        mu = keep_dtype(update_moment(updates, state.mu, self.b2, 1), state.mu, self.mu_dtype)
        return direction, ScaleByLionState(count=safe_increment(state.count), mu=mu)

    def _sign(self):
        match self.mode:
            case "hard":
                return jnp.sign
            case "smooth":
                return lambda x: jnp.tanh(self.smooth_beta * x)
            case "refined":
                return lambda x: jnp.where(jnp.abs(x) < 1.0, x, jnp.sign(x))
        raise OptionError(f"has no mode {self.mode!r}; choose 'hard', 'smooth' or 'refined'")


@final
class Lion(AbstractChain):
    r"""Lion: steps of exactly the learning rate in every coordinate, with half of Adam's memory.

    Worth a try where `AdamW` is too large; take a learning rate 3 to 10 times smaller than AdamW's, and a weight decay
    as many times larger.

    $$ \theta_t = \theta_{t-1} - \eta_t \left( \mathrm{sign}((1-\beta_1)\, g_t + \beta_1 m_{t-1})
    + \lambda_t\, \theta_{t-1} \right), \qquad m_t = (1-\beta_2)\, g_t + \beta_2 m_{t-1} $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        b1: $\beta_1$, weight of the momentum in the direction, in [0, 1).
        b2: $\beta_2$, decay of the momentum, in [0, 1).
        mu_dtype: dtype of the stored $m$; None keeps that of the params.
        weight_decay: $\lambda$, a number or a schedule; multiplied by the learning rate.
        mask: tree of bools, or function of the params that makes one: where true, weights decay.

    References:
        Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, https://arxiv.org/abs/2302.06675
    """

    learning_rate: ScalarOrSchedule
    b1: Numeric = 0.9
    b2: Numeric = 0.99
    mu_dtype: DTypeLike | None = static_dtype(None)
    weight_decay: ScalarOrSchedule = 1e-3
    mask: Any = static_tree(None)

    @property
    def chain(self):
        direction = ScaleByLion(self.b1, self.b2, self.mu_dtype)
        return direction, AddDecayedWeights.of(self), ScaleByLearningRate(self.learning_rate)


scale_by_lion, lion = ScaleByLion, Lion
