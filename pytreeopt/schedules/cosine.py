"""Cosine decay."""

from typing import Any, final

import jax.numpy as jnp

from pytreeopt.base import AbstractSchedule, Numeric
from pytreeopt.schedules.guards import is_differentiable, known, power, python_number


@final
class CosineDecaySchedule(AbstractSchedule):
    r"""Half a cosine from the initial value down to a fraction of it.

    $$ s(t) = I \left( (1 - \alpha) \left[\tfrac12 \left(1 + \cos \frac{\pi \min(t, T)}{T}\right)\right]^p
    + \alpha \right) $$

    Args:
        init_value: $I$, the value at step 0.
        decay_steps: $T$, the number of steps until the end value; positive, else ValueError. A traced length that
            is not positive has decayed already.
        alpha: $\alpha$, the end value as a fraction of the initial one.
        exponent: $p$, the power of the cosine, positive.

    References:
        Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2017,
        https://arxiv.org/abs/1608.03983
    """

    init_value: Numeric
    decay_steps: Numeric
    alpha: Numeric = 0.0
    exponent: Numeric = 1.0

    def __post_init__(self):
        super().__post_init__()
        if not self._holds_placeholders():
            self._check_length()

    def _check_length(self) -> None:
        if isinstance(self.decay_steps, int | float) and not self.decay_steps > 0:
            raise ValueError(f"{type(self).__name__}: decay_steps must be positive, got {self.decay_steps}")

    def __call__(self, count: Any) -> Any:
        steps = self.decay_steps
        if known(steps) and not python_number(steps) > 0:
            raise ValueError(f"{type(self).__name__}: decay_steps must be positive, got {steps}")
        # As floats: a long schedule must not overflow int32 in compiled code.
        steps, count = (float(x) if isinstance(x, int) else x for x in (steps, count))
        if known(steps) and known(self.exponent) and not is_differentiable(count):
            cosine = 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(count, steps) / steps))
            shape = cosine**self.exponent
        else:
            length = jnp.where(steps > 0, steps, 1)
            phase = jnp.where(steps > 0, jnp.pi * jnp.minimum(count, length) / length, jnp.pi)
            shape = power(0.5 * (1 + jnp.cos(phase)), self.exponent)
        decayed = (1 - self.alpha) * shape + self.alpha
        return self.init_value * decayed


cosine_decay_schedule = CosineDecaySchedule
