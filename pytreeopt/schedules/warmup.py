"""Warm-up followed by a decay."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from pytreeopt.base import AbstractSchedule, Numeric, as_dynamic
from pytreeopt.fields import Named, static
from pytreeopt.schedules.cosine import CosineDecaySchedule
from pytreeopt.schedules.exponential import ExponentialDecay
from pytreeopt.schedules.guards import known, python_number
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
        if known(peak):
            alpha = 0.0 if python_number(peak) == 0.0 else self.end_value / peak
        else:
            alpha = jnp.where(peak == 0, 0, self.end_value / jnp.where(peak == 0, 1, peak))
        warmup = LinearSchedule(self.init_value, peak, self.warmup_steps)
        decay = CosineDecaySchedule(peak, self.decay_steps - self.warmup_steps, alpha, self.exponent)
        return JoinSchedules((warmup, decay), (self.warmup_steps,))

    def __call__(self, count: Any) -> Any:
        return self.joined(count)


@final
class WarmupConstantSchedule(AbstractSchedule):
    """A straight line up to the peak, and constant from there on.

    Args:
        init_value: the value at step 0.
        peak_value: the value from step `warmup_steps` on.
        warmup_steps: length of the warm-up; one of no length stays at `init_value`.
    """

    init_value: Numeric
    peak_value: Numeric
    warmup_steps: Numeric

    def __call__(self, count: Any) -> Any:
        return LinearSchedule(self.init_value, self.peak_value, self.warmup_steps)(count)


@final
class WarmupExponentialDecaySchedule(AbstractSchedule):
    """A straight line up to the peak, then an exponential decay.

    Args:
        init_value: the value at step 0.
        peak_value: the value at the end of the warm-up.
        warmup_steps: length of the warm-up; not part of the steps that follow.
        transition_steps: steps in which the value is multiplied by `decay_rate` once, see `ExponentialDecay`.
        decay_rate: the factor, positive.
        transition_begin: steps after the warm-up at which the decay begins.
        staircase: multiply at every `transition_steps`-th step only.
        end_value: bound of the decay, from below if `decay_rate` is less than 1, else from above; None for no bound.
    """

    init_value: Numeric
    peak_value: Numeric
    warmup_steps: Numeric
    transition_steps: Numeric
    decay_rate: Numeric
    transition_begin: Numeric = 0
    staircase: bool = static(False)
    end_value: Numeric | None = None

    @property
    def joined(self) -> JoinSchedules:
        """The two pieces that this schedule is made of."""
        warmup = LinearSchedule(self.init_value, self.peak_value, self.warmup_steps)
        return JoinSchedules((warmup, ExponentialDecay.of(self, init_value=self.peak_value)), (self.warmup_steps,))

    def __call__(self, count: Any) -> Any:
        return self.joined(count)


@final
class SGDRSchedule(AbstractSchedule):
    """Warm restarts: cycles of warm-up and cosine decay, one after another.

    Args:
        cosine_kwargs: for each cycle a mapping with the arguments of `WarmupCosineDecaySchedule`, whose errors are
            raised here; a cycle is `decay_steps` long. Without any: ValueError.

    References:
        Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2017,
        https://arxiv.org/abs/1608.03983
    """

    cosine_kwargs: Iterable[Mapping[str, Numeric]]

    def __post_init__(self):
        super().__post_init__()
        cycles = self.cosine_kwargs
        if isinstance(cycles, Iterable) and not isinstance(cycles, str | jax.Array | np.ndarray):
            vars(self)["cosine_kwargs"] = cycles = tuple(map(_cycle, cycles))
            if not cycles:
                raise ValueError("SGDRSchedule: cosine_kwargs must hold at least one cycle, got none")

    @property
    def joined(self) -> JoinSchedules:
        """The cycles that this schedule is made of."""
        cycles = [WarmupCosineDecaySchedule(**kwargs) for kwargs in self.cosine_kwargs]  # type: ignore[arg-type]
        boundaries = itertools.accumulate(cycle.decay_steps for cycle in cycles)
        return JoinSchedules(tuple(cycles), tuple(boundaries)[:-1])

    def __call__(self, count: Any) -> Any:
        return self.joined(count)


def _cycle(kwargs: Any) -> Any:
    if not isinstance(kwargs, Mapping):  # a placeholder put in by JAX
        return kwargs
    if not isinstance(kwargs, Named):
        WarmupCosineDecaySchedule(**kwargs)  # for its errors
        kwargs = Named.of(kwargs)
    return Named(tuple(kwargs), tuple(as_dynamic(name, value) for name, value in kwargs.items()))


warmup_constant_schedule = WarmupConstantSchedule
warmup_cosine_decay_schedule = WarmupCosineDecaySchedule
warmup_exponential_decay_schedule = WarmupExponentialDecaySchedule
sgdr_schedule = SGDRSchedule
