"""Warm-up followed by a decay."""

from typing import Any, final

import jax.numpy as jnp

from pytreeopt.base import AbstractSchedule, Numeric
from pytreeopt.numerics import is_traced
from pytreeopt.schedules.cosine import CosineDecaySchedule
from pytreeopt.schedules.join import JoinSchedules
from pytreeopt.schedules.polynomial import LinearSchedule


@final
class WarmupCosineDecaySchedule(AbstractSchedule):
    r"""A straight line up to the peak, then half a cosine down to the end value.

    Args:
        init_value: the value at step 0.
        peak_value: the value at the end of the warm-up.
        warmup_steps: length of the warm-up.
        decay_steps: length of warm-up and decay together; greater than `warmup_steps`, else ValueError.
        end_value: the value from step `decay_steps` on.
        exponent: power of the cosine, see `CosineDecaySchedule`.
    """

    init_value: Numeric
    peak_value: Numeric
    warmup_steps: Numeric
    decay_steps: Numeric
    end_value: Numeric = 0.0
    exponent: Numeric = 1.0

    def __post_init__(self):
        super().__post_init__()
        if not self._holds_placeholders():
            self._check_length()

    def _check_length(self) -> None:
        warmup, total = self.warmup_steps, self.decay_steps
        if isinstance(warmup, int | float) and isinstance(total, int | float) and not total > warmup:
            raise ValueError(
                f"{type(self).__name__}: decay_steps must be greater than warmup_steps, got {total} and {warmup}"
            )

    @property
    def joined(self) -> JoinSchedules:
        """The two pieces that this schedule is made of."""
        self._check_length()
        peak = self.peak_value
        if is_traced(peak):
            alpha = jnp.where(peak == 0, 0, self.end_value / jnp.where(peak == 0, 1, peak))
        else:
            alpha = 0.0 if peak == 0.0 else self.end_value / peak
        warmup = LinearSchedule(self.init_value, peak, self.warmup_steps)
        decay = CosineDecaySchedule(peak, self.decay_steps - self.warmup_steps, alpha, self.exponent)
        return JoinSchedules((warmup, decay), (self.warmup_steps,))

    def __call__(self, count: Any) -> Any:
        return self.joined(count)


warmup_cosine_decay_schedule = WarmupCosineDecaySchedule
