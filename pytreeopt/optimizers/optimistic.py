"""Optimistic methods: extrapolation with the previous gradient, for games and saddle points."""

import warnings
from typing import Any, final

import jax.numpy as jnp
from jax.typing import DTypeLike

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import OptionError, require_state
from pytreeopt.fields import called_by_user, dynamic, static, static_dtype
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import own, zeros_like
from pytreeopt.optimizers.adam import ScaleByAdam
from pytreeopt.states import ScaleByOptimisticGradientState
from pytreeopt.transforms.scale import ScaleByLearningRate


@final
class ScaleByOptimisticGradient(GradientTransformation):
    r"""Extrapolates the gradient by its last change.

    $$ u_t = (\alpha + \beta)\, g_t - \beta\, g_{t-1}, \qquad g_0 = g_1 $$

    Args:
        alpha: $\alpha$, weight of the gradient.
        beta: $\beta$, weight of its change.

    References:
        Mokhtari et al., A Unified Analysis of Extra-gradient and Optimistic Gradient Methods for Saddle Point
        Problems: Proximal Point Approach, 2019, https://arxiv.org/abs/1901.08511
    """

    alpha: Numeric = 1.0
    beta: Numeric = 1.0

    def init(self, params):
        return ScaleByOptimisticGradientState(is_initial_step=jnp.array(True), previous_gradient=zeros_like(params))

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleByOptimisticGradientState)
        both, beta, first = self.alpha + self.beta, self.beta, state.is_initial_step

        def extrapolate(g, previous):
            return both * g - beta * jnp.where(first, g, previous)

        out = leafwise(extrapolate, updates, state.previous_gradient)
        kept = own(updates, state.previous_gradient)
        return out, ScaleByOptimisticGradientState(is_initial_step=jnp.array(False), previous_gradient=kept)


@final
class OptimisticGradientDescent(AbstractChain):
    r"""Optimistic gradient descent: $\theta_t = \theta_{t-1} - \eta_t ((\alpha + \beta)\, g_t - \beta\, g_{t-1})$.

    For min-max problems, where plain gradient descent circles or diverges; elsewhere it gains little.

    Args:
        learning_rate: $\eta$, a number or a schedule.
        alpha: $\alpha$, weight of the gradient.
        beta: $\beta$, weight of its change.

    References:
        Mokhtari et al., A Unified Analysis of Extra-gradient and Optimistic Gradient Methods for Saddle Point
        Problems: Proximal Point Approach, 2019, https://arxiv.org/abs/1901.08511
    """

    learning_rate: ScalarOrSchedule
    alpha: Numeric = 1.0
    beta: Numeric = 1.0

    @property
    def chain(self):
        return ScaleByOptimisticGradient.of(self), ScaleByLearningRate(self.learning_rate)


class _AbstractDeprecated(AbstractChain):
    """Warns its users. In a class of its own, since a class's own `__new__` would hide its signature."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if called_by_user(cls, args, kwargs):
            warnings.warn("optimistic_adam: use `optimistic_adam_v2` instead", DeprecationWarning, stacklevel=2)
        return super().__new__(cls, *args, **kwargs)


@final
class OptimisticAdam(_AbstractDeprecated):
    r"""Optimistic Adam with a constant learning rate; deprecated in favour of `OptimisticAdamV2`.

    $$ \theta_t = \theta_{t-1} - \eta\, u_t - o\, (u_t - u_{t-1}), \qquad u_t \text{ as in `ScaleByAdam`} $$

    Calling it warns, as Optax does. Only for runs that began with it.

    Args:
        learning_rate: $\eta$, a number; a schedule is refused.
        optimism: $o$, weight of the change of the direction; None means $\eta$, as in the paper.
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root; positive makes hypergradients smooth at zero gradients.
        mu_dtype: dtype of the stored average gradient; None keeps that of the params.
        nesterov: use Nesterov momentum.

    References:
        Daskalakis et al., Training GANs with Optimism, 2018, https://arxiv.org/abs/1711.00141
    """

    learning_rate: Numeric
    optimism: Numeric | None = None
    b1: Numeric = 0.9
    b2: Numeric = 0.999
    eps: Numeric = 1e-08
    eps_root: Numeric = 0.0
    mu_dtype: DTypeLike | None = static_dtype(None)
    nesterov: bool = static(True, kw_only=True)

    def _check_hyperparameters(self) -> None:
        if callable(self.learning_rate):
            raise OptionError("cannot take a schedule as learning_rate; optimistic_adam_v2 can")
        super()._check_hyperparameters()

    @property
    def chain(self):
        optimism = self.learning_rate if self.optimism is None else self.optimism
        extrapolate = ScaleByOptimisticGradient(alpha=self.learning_rate, beta=optimism)
        return ScaleByAdam.of(self), extrapolate, ScaleByLearningRate(1.0)


@final
class OptimisticAdamV2(AbstractChain):
    r"""Optimistic Adam: Adam's direction, extrapolated by its last change.

    $$ \theta_t = \theta_{t-1} - \eta_t \left( \alpha\, u_t + \beta\, (u_t - u_{t-1}) \right),
    \qquad u_t \text{ as in `ScaleByAdam`} $$

    For adversarial training, where Adam circles around the solution.

    Args:
        learning_rate: $\eta$, a number or a schedule.
        alpha: $\alpha$, weight of the direction.
        beta: $\beta$, weight of its change.
        b1: $\beta_1$, decay of the average gradient, in [0, 1).
        b2: $\beta_2$, decay of the average squared gradient, in [0, 1).
        eps: $\epsilon$, added outside the root, positive.
        eps_root: $\bar\epsilon$, added inside the root; positive makes hypergradients smooth at zero gradients.
        mu_dtype: dtype of the stored average gradient; None keeps that of the params.
        nesterov: use Nesterov momentum.

    References:
        Daskalakis et al., Training GANs with Optimism, 2018, https://arxiv.org/abs/1711.00141
    """

    learning_rate: ScalarOrSchedule
    alpha: Numeric = dynamic(1.0, kw_only=True)
    beta: Numeric = dynamic(1.0, kw_only=True)
    b1: Numeric = dynamic(0.9, kw_only=True)
    b2: Numeric = dynamic(0.999, kw_only=True)
    eps: Numeric = dynamic(1e-08, kw_only=True)
    eps_root: Numeric = dynamic(0.0, kw_only=True)
    mu_dtype: DTypeLike | None = static_dtype(None, kw_only=True)
    nesterov: bool = static(True, kw_only=True)

    @property
    def chain(self):
        return ScaleByAdam.of(self), ScaleByOptimisticGradient.of(self), ScaleByLearningRate(self.learning_rate)


scale_by_optimistic_gradient = ScaleByOptimisticGradient
optimistic_gradient_descent = OptimisticGradientDescent
optimistic_adam, optimistic_adam_v2 = OptimisticAdam, OptimisticAdamV2
