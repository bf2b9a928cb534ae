"""One cycle: up to a peak and down to almost nothing."""

import abc
from typing import Any, final

from pytreeopt.base import AbstractSchedule, Numeric
from pytreeopt.fields import static
from pytreeopt.schedules.piecewise import PiecewiseInterpolateSchedule


class _AbstractOneCycle(AbstractSchedule):
    """A schedule that is a piecewise one. To write one: implement `phases`."""

    transition_steps: int = static()
    peak_value: Numeric  # pyright: ignore[reportGeneralTypeIssues]
    pct_start: float = static(0.3)

    def __post_init__(self):
        super().__post_init__()
        if self.transition_steps <= 0:
            raise ValueError(f"{type(self).__name__}: transition_steps must be positive, got {self.transition_steps}")

    @property
    @abc.abstractmethod
    def phases(self) -> PiecewiseInterpolateSchedule:
        """The piecewise schedule that this one is."""

    def __call__(self, count: Any) -> Any:
        return self.phases(count)


@final
class LinearOneCycleSchedule(_AbstractOneCycle):
    r"""Three straight lines: up to the peak, back down, and on to almost nothing.

    With $T$ steps, peak $P$ and shares $p_s$, $p_f$: from $P/d$ at step 0 to $P$ at step $\lfloor p_s T \rfloor$, to
    $P/d$ at step $\lfloor p_f T \rfloor$, to $P/(d\, d_f)$ at step $T$. Phases that end at the same step merge.

    Args:
        transition_steps: $T$, the length of the cycle, positive, else ValueError.
        peak_value: $P$, the greatest value.
        pct_start: $p_s$, share of the steps that go up, in (0, 1).
        pct_final: $p_f$, share of the steps until the initial value is reached again, in ($p_s$, 1).
        div_factor: $d$, the peak over the initial value, positive.
        final_div_factor: $d_f$, the initial value over the final one, positive.

    References:
        Smith and Topin, Super-Convergence: Very Fast Training of Neural Networks Using Large Learning Rates, 2017,
        https://arxiv.org/abs/1708.07120
    """

    pct_final: float = static(0.85)
    div_factor: Numeric = 25.0
    final_div_factor: Numeric = 1e4

    @property
    def phases(self) -> PiecewiseInterpolateSchedule:
        total, div = self.transition_steps, self.div_factor
        scales = {
            int(self.pct_start * total): div,
            int(self.pct_final * total): 1.0 / div,
            total: 1.0 / self.final_div_factor,
        }
        return PiecewiseInterpolateSchedule("linear", self.peak_value / div, scales)


@final
class CosineOneCycleSchedule(_AbstractOneCycle):
    r"""Two half cosines: up to the peak and down to almost nothing.

    With $T$ steps, peak $P$ and share $p$: from $P/d$ at step 0 to $P$ at step $\lfloor p T \rfloor$, to
    $P/(d\, d_f)$ at step $T$.

    Args:
        transition_steps: $T$, the length of the cycle, positive, else ValueError.
        peak_value: $P$, the greatest value.
        pct_start: $p$, share of the steps that go up, in (0, 1).
        div_factor: $d$, the peak over the initial value, positive.
        final_div_factor: $d_f$, the initial value over the final one, positive.

    References:
        Smith and Topin, Super-Convergence: Very Fast Training of Neural Networks Using Large Learning Rates, 2017,
        https://arxiv.org/abs/1708.07120
    """

    div_factor: Numeric = 25.0
    final_div_factor: Numeric = 1e4

    @property
    def phases(self) -> PiecewiseInterpolateSchedule:
        total, div = self.transition_steps, self.div_factor
        scales = {int(self.pct_start * total): div, int(total): 1.0 / (div * self.final_div_factor)}
        return PiecewiseInterpolateSchedule("cosine", self.peak_value / div, scales)


linear_onecycle_schedule, cosine_onecycle_schedule = LinearOneCycleSchedule, CosineOneCycleSchedule
