"""Exponential decay."""

from typing import Any, final

import jax
import jax.numpy as jnp

from pytreeopt.base import AbstractSchedule, Numeric
from pytreeopt.fields import static
from pytreeopt.numerics import holds_tracers
from pytreeopt.schedules.guards import is_differentiable, known, python_number


@final
class ExponentialDecay(AbstractSchedule):
    r"""The initial value times a power of the decay rate that grows with time.

    $$ s(t) = I\, r^{\max(t - B, 0)/T} $$

    A decay of no length ($T \le 0$), or with $r = 0$, stays at $I$; a negative $B$ counts as 0.

    Args:
        init_value: $I$, the value until step $B$.
        transition_steps: $T$, the number of steps in which the value is multiplied by $r$ once.
        decay_rate: $r$, positive.
        transition_begin: $B$, the step at which the decay begins.
        staircase: multiply at every $T$-th step only, that is round the exponent down.
        end_value: a bound, from below if $r < 1$, else from above; None for no bound.
    """

    init_value: Numeric
    transition_steps: Numeric
    decay_rate: Numeric
    transition_begin: Numeric = 0
    staircase: bool = static(False)
    end_value: Numeric | None = None

    def __call__(self, count: Any) -> Any:
        if holds_tracers(self) or not known(self.decay_rate) or is_differentiable(count):
            return self._guarded(count)
        init, steps, rate, end = self.init_value, self.transition_steps, self.decay_rate, self.end_value
        if python_number(steps) <= 0 or python_number(rate) == 0:
            return init
        begin = self.transition_begin
        elapsed = count - (begin if python_number(begin) >= 0 else 0)
        value = jnp.where(elapsed <= 0, init, init * jnp.power(rate, self._stairs(elapsed / steps)))
        if end is None:
            return value
        return jnp.maximum(value, end) if python_number(rate) < 1.0 else jnp.minimum(value, end)

    def _guarded(self, count: Any) -> Any:
        """No derivative meets a division by zero, or a power that overflows where it does not count."""
        init, steps, rate, end = self.init_value, self.transition_steps, self.decay_rate, self.end_value
        constant = (jnp.asarray(steps) <= 0) | (jnp.asarray(rate) == 0)
        elapsed = count - jnp.maximum(self.transition_begin, 0)
        exponent = self._stairs(jnp.maximum(elapsed, 0) / jnp.where(constant, 1, steps))
        rate = jnp.where(constant, 1, rate)
        value = init * jnp.power(rate, exponent)
        if end is not None:
            bound, unbounded = jax.lax.stop_gradient((end, value))
            beyond = jnp.where(rate < 1, unbounded < bound, unbounded > bound)
            value = jnp.where(beyond, end, init * jnp.power(rate, jnp.where(beyond, 0, exponent)))
        return jnp.where(constant, init, value)

    def _stairs(self, exponent: Any) -> Any:
        return jnp.floor(exponent) if self.staircase else exponent


exponential_decay = ExponentialDecay
