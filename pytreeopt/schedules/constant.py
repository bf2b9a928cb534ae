"""A constant as a schedule."""

from typing import Any, final

from pytreeopt.base import AbstractSchedule, Numeric


@final
class ConstantSchedule(AbstractSchedule):
    """The same value at every step.

    Args:
        value: the value, any scalar or array; returned as it is.
    """

    value: Numeric

    def __call__(self, count: Any) -> Any:
        return self.value


constant_schedule = ConstantSchedule
