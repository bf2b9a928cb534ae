"""Gradient descent with Polyak's step size, from the value of the objective."""

from typing import Literal, final

import jax
import jax.numpy as jnp
import numpy as np
import optax

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import MissingArgumentError, OptionError
from pytreeopt.fields import static
from pytreeopt.leafwise import leafwise
from pytreeopt.optimizers.sgd import SGD
from pytreeopt.states import EmptyState

_TINY = float(np.finfo(float).eps)  # float64's, whatever the dtype of the updates


@final
class ScaleByPolyak(GradientTransformation):
    r"""Scales the updates by Polyak's step size.

    $$ u_t = \gamma_t\, g_t, \qquad
    \gamma_t = \min\left( \frac{f(\theta_t) - f^\star}{\lVert g_t \rVert^2 + \epsilon}, \gamma_{\max} \right) $$

    Where the denominator is below $2.2 \cdot 10^{-16}$ the step is 0. `update` needs the extra argument `value`,
    $f(\theta_t)$.

    Args:
        f_min: $f^\star$, a lower bound of the objective.
        max_learning_rate: $\gamma_{\max}$, the greatest step size, positive.
        eps: $\epsilon$, added to the squared norm, not negative.
        variant: "sps", or "sps+": a gap $f(\theta_t) - f^\star$ below 0 counts as 0.

    References:
        Loizou et al., Stochastic Polyak Step-size for SGD, 2021, https://arxiv.org/abs/2002.10542
        Garrigos et al., Function Value Learning, 2023, https://arxiv.org/abs/2307.14528
    """

    f_min: Numeric = 0.0
    max_learning_rate: Numeric = 1.0
    eps: Numeric = 0.0
    variant: Literal["sps", "sps+"] = static("sps")

    def init(self, params):
        return EmptyState()

    def update(self, updates, state, params=None, *, value, **extra_args):
        if value is None:
            raise MissingArgumentError("needs value, got None; call update(grads, state, params, value=loss)")
        if self.variant not in ("sps", "sps+"):
            raise OptionError(f"has no variant {self.variant!r}; choose 'sps' or 'sps+'")
        squared_norm = optax.tree.norm(updates, squared=True)
        gap = jnp.array(value - self.f_min).astype(squared_norm.dtype)
        if self.variant == "sps+":
            gap = jax.nn.relu(gap)
        denominator = squared_norm + self.eps
        vanishes = denominator <= _TINY
        ratio = gap / jnp.where(vanishes, 1, denominator)
        step = jnp.where(vanishes, jnp.array(0.0), jnp.minimum(ratio, self.max_learning_rate))
        return leafwise(lambda g: step * g, updates), state


@final
class PolyakSGD(AbstractChain):
    r"""Gradient descent with Polyak's step size: no learning rate, but the least value of the objective.

    $$ \theta_t = \theta_{t-1} - \gamma_t\, s_t\, g_t, \qquad
    \gamma_t = \min\left( \frac{f(\theta_{t-1}) - f^\star}{\lVert s_t\, g_t \rVert^2 + \epsilon},
    \gamma_{\max} \right) $$

    For models that fit their data exactly, whose least loss is then known to be 0; with a wrong $f^\star$ it diverges
    or stops short. `update` needs the extra argument `value`, the objective at the params.

    Args:
        max_learning_rate: $\gamma_{\max}$, the greatest step size, positive.
        scaling: $s$, a number or a schedule, applied to the gradient before its norm is taken.
        f_min: $f^\star$, a lower bound of the objective.
        eps: $\epsilon$, added to the squared norm, not negative.
        variant: "sps", or "sps+": a gap $f(\theta_{t-1}) - f^\star$ below 0 counts as 0.

    References:
        Loizou et al., Stochastic Polyak Step-size for SGD, 2021, https://arxiv.org/abs/2002.10542
        Berrada et al., Training Neural Networks for and by Interpolation, 2020, https://arxiv.org/abs/1906.05661
        Garrigos et al., Function Value Learning, 2023, https://arxiv.org/abs/2307.14528
    """

    max_learning_rate: Numeric = 1.0
    scaling: ScalarOrSchedule = 1.0
    f_min: Numeric = 0.0
    eps: Numeric = 0.0
    variant: Literal["sps", "sps+"] = static("sps")

    @property
    def chain(self):
        return SGD(self.scaling), ScaleByPolyak.of(self)


scale_by_polyak, polyak_sgd = ScaleByPolyak, PolyakSGD
