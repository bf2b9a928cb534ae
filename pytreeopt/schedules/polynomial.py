"""Polynomial and linear transition between two values."""

from typing import Any, final

import jax.numpy as jnp

from pytreeopt.base import AbstractSchedule, Numeric
from pytreeopt.numerics import is_traced
from pytreeopt.schedules.guards import is_differentiable, known, power, python_number


@final
class PolynomialSchedule(AbstractSchedule):
    r"""From one value to another along a power of the remaining fraction of time.

    $$ s(t) = (I - E) \left(1 - \frac{\min(\max(t - B, 0), T)}{T}\right)^P + E $$

    A transition of no length ($T \le 0$) stays at $I$; a negative $B$ counts as 0.

    Args:
        init_value: $I$, the value until step $B$.
        end_value: $E$, the value from step $B + T$ on.
        power: $P$, positive; 1 is a straight line.
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


def _transition(schedule: Any, exponent: Numeric, count: Any) -> Any:
    init, end, steps = schedule.init_value, schedule.end_value, schedule.transition_steps
    begin = schedule.transition_begin
    if known(begin):
        begin = begin if python_number(begin) >= 0 else 0
    else:
        begin = jnp.maximum(begin, 0)
    if known(steps) and known(exponent) and not is_traced(begin) and not is_differentiable(count):
        if python_number(steps) <= 0:
            return init
        left = 1 - jnp.clip(count - begin, 0, steps) / steps
        if not float(python_number(exponent)).is_integer():
            left = jnp.maximum(left, 0)  # compiled, 1 - steps / steps may be less
        return (init - end) * (left**exponent) + end
    # Guarded twice, so that no derivative divides by zero or takes the slope of a root at zero.
    length = jnp.where(steps > 0, steps, 1)
    left = 1 - jnp.clip(count - begin, 0, length) / length
    return jnp.where(steps > 0, (init - end) * power(left, exponent) + end, init)


polynomial_schedule, linear_schedule = PolynomialSchedule, LinearSchedule
