"""Polynomial and linear transition between two values."""

from typing import Any, final

import jax.numpy as jnp

from pytreeopt.base import AbstractSchedule, Numeric
from pytreeopt.numerics import is_traced


@final
class PolynomialSchedule(AbstractSchedule):
    r"""From one value to another along a power of the remaining fraction of time.

    $$ s(t) = (I - E) \left(1 - \frac{\min(\max(t - B, 0), T)}{T}\right)^P + E $$

    A transition of no length ($T \le 0$) stays at $I$; a negative $B$ counts as 0.

    Args:
        init_value: $I$, the value until step $B$.
        end_value: $E$, the value from step $B + T$ on.
        power: $P$; 1 is a straight line.
        transition_steps: $T$, the length of the transition in steps.
        transition_begin: $B$, the step at which it begins.
    """

    init_value: Numeric
    end_value: Numeric
    power: Numeric
    transition_steps: Numeric
    transition_begin: Numeric = 0

    def __call__(self, count: Any) -> Any:
        return _transition(self, self.power, count)


@final
class LinearSchedule(AbstractSchedule):
    r"""A straight line from one value to another, constant before and after.

    $$ s(t) = (I - E) \left(1 - \frac{\min(\max(t - B, 0), T)}{T}\right) + E $$

    A transition of no length ($T \le 0$) stays at $I$; a negative $B$ counts as 0.

    Args:
        init_value: $I$, the value until step $B$.
        end_value: $E$, the value from step $B + T$ on.
        transition_steps: $T$, the length of the transition in steps.
        transition_begin: $B$, the step at which it begins.
    """

    init_value: Numeric
    end_value: Numeric
    transition_steps: Numeric
    transition_begin: Numeric = 0

    def __call__(self, count: Any) -> Any:
        return _transition(self, 1, count)


def _transition(schedule: Any, power: Numeric, count: Any) -> Any:
    init, end, steps = schedule.init_value, schedule.end_value, schedule.transition_steps
    begin = schedule.transition_begin
    begin = jnp.maximum(begin, 0) if is_traced(begin) else max(begin, 0)
    if not is_traced(steps, power):
        if steps <= 0:
            return init
        elapsed = jnp.clip(count - begin, 0, steps)
        return (init - end) * ((1 - elapsed / steps) ** power) + end
    # Guarded twice, so that no derivative divides by zero or takes the slope of a root at zero.
    length = jnp.where(steps > 0, steps, 1)
    left = 1 - jnp.clip(count - begin, 0, length) / length
    shape = left if type(power) is int and power == 1 else _power(left, power)
    return jnp.where(steps > 0, (init - end) * shape + end, init)


def _power(base: Any, exponent: Numeric) -> Any:
    positive = base > 0
    return jnp.where(positive, jnp.where(positive, base, 1) ** exponent, jnp.where(exponent == 0, 1.0, 0.0))


polynomial_schedule, linear_schedule = PolynomialSchedule, LinearSchedule
