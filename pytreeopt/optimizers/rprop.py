"""Rprop: steps that look at the signs of the gradients only."""

from typing import final

import jax.numpy as jnp

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric
from pytreeopt.errors import require_state
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import full_like, keep_dtype, zeros_like
from pytreeopt.states import ScaleByRpropState
from pytreeopt.transforms.scale import Scale


@final
class ScaleByRprop(GradientTransformation):
    r"""A step size for each coordinate that grows while the gradient keeps its sign and shrinks when it turns.

    $$ s_t = g_t\, u_{t-1}, \quad
    \Delta_t = \mathrm{clip}(\Delta_{t-1} \cdot (\eta_+ \text{ if } s_t > 0, \; \eta_- \text{ if } s_t < 0),
    \Delta_{\min}, \Delta_{\max}), \quad u_t = \Delta_t\, \mathrm{sign}(g_t) \;\text{ or 0 where } s_t < 0 $$

    and $\Delta_t = \Delta_{t-1}$ where $s_t = 0$, as after each turn. What `update` returns is, as in Optax, the step
    of one update ago: $u_{t-1}$, or 0 where $s_t < 0$; so the first updates are 0.

    Frozen into the state at init: `learning_rate`.

    Args:
        learning_rate: $\Delta_0$, the first step size, positive; a number, read only by `init`.
        eta_minus: $\eta_-$, factor after a change of sign, in (0, 1).
        eta_plus: $\eta_+$, factor without one, above 1.
        min_step_size: $\Delta_{\min}$, positive.
        max_step_size: $\Delta_{\max}$, positive.

    References:
        Riedmiller and Braun, A Direct Adaptive Method for Faster Backpropagation Learning: The RPROP Algorithm, 1993,
        https://doi.org/10.1109/ICNN.1993.298623
        Igel and Hüsken, Empirical Evaluation of the Improved Rprop Learning Algorithms, 2003,
        https://doi.org/10.1016/S0925-2312(01)00700-7
    """

    learning_rate: Numeric
    eta_minus: Numeric = 0.5
    eta_plus: Numeric = 1.2
    min_step_size: Numeric = 1e-6
    max_step_size: Numeric = 50.0

    def init(self, params):
        return ScaleByRpropState(full_like(params, self.learning_rate), zeros_like(params))

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleByRpropState)
        down, up, low, high = self.eta_minus, self.eta_plus, self.min_step_size, self.max_step_size

        def resize(s, size):
            return jnp.where(s == 0, size, jnp.clip(size * jnp.where(s > 0, up, down), min=low, max=high))

        sign = leafwise(lambda g, old: g * old, updates, state.prev_updates)
        sizes = leafwise(resize, sign, state.step_sizes)
        steps = leafwise(
            lambda s, g, size: jnp.where(s < 0, jnp.zeros_like(g), size * jnp.sign(g)), sign, updates, sizes
        )
        direction = leafwise(lambda s, old: jnp.where(s < 0, jnp.zeros_like(old), old), sign, state.prev_updates)
        sizes, steps = keep_dtype(sizes, state.step_sizes), keep_dtype(steps, state.prev_updates)
        return direction, ScaleByRpropState(sizes, steps)


@final
class Rprop(AbstractChain):
    r"""Rprop: a step size for each coordinate, led by the sign of its gradient alone.

    Fast and parameter-free on full batches; the noise of small batches breaks it.

    $$ \theta_t = \theta_{t-1} - u_{t-1}, \qquad u_{t-1} \text{ or 0, as in `ScaleByRprop`} $$

    As in Optax the step is one update late: the first updates are 0.

    Frozen into the state at init: `learning_rate`.

    Args:
        learning_rate: $\Delta_0$, the first step size, positive; a number, read only by `init`.
        eta_minus: $\eta_-$, factor after a change of sign, in (0, 1).
        eta_plus: $\eta_+$, factor without one, above 1.
        min_step_size: $\Delta_{\min}$, positive.
        max_step_size: $\Delta_{\max}$, positive.

    References:
        Riedmiller and Braun, A Direct Adaptive Method for Faster Backpropagation Learning: The RPROP Algorithm, 1993,
        https://doi.org/10.1109/ICNN.1993.298623
    """

    learning_rate: Numeric
    eta_minus: Numeric = 0.5
    eta_plus: Numeric = 1.2
    min_step_size: Numeric = 1e-6
    max_step_size: Numeric = 50.0

    @property
    def chain(self):
        return ScaleByRprop.of(self), Scale(-1.0)


scale_by_rprop, rprop = ScaleByRprop, Rprop
