"""Schedules: a hyperparameter as a function of the step count."""

# What is no transformation is upstream's own object.
from optax.schedules import (
    InjectHyperparamsState as InjectHyperparamsState,
    InjectStatefulHyperparamsState as InjectStatefulHyperparamsState,
    Schedule as Schedule,
    StatefulSchedule as StatefulSchedule,
)

from pytreeopt.schedules.constant import ConstantSchedule as ConstantSchedule, constant_schedule as constant_schedule
from pytreeopt.schedules.cosine import (
    CosineDecaySchedule as CosineDecaySchedule,
    cosine_decay_schedule as cosine_decay_schedule,
)
from pytreeopt.schedules.exponential import ExponentialDecay as ExponentialDecay, exponential_decay as exponential_decay
from pytreeopt.schedules.inject import (
    FixedArgument as FixedArgument,
    InjectHyperparams as InjectHyperparams,
    WrappedSchedule as WrappedSchedule,
    inject_hyperparams as inject_hyperparams,
    inject_stateful_hyperparams as inject_stateful_hyperparams,
)
from pytreeopt.schedules.join import JoinSchedules as JoinSchedules, join_schedules as join_schedules
from pytreeopt.schedules.onecycle import (
    CosineOneCycleSchedule as CosineOneCycleSchedule,
    LinearOneCycleSchedule as LinearOneCycleSchedule,
    cosine_onecycle_schedule as cosine_onecycle_schedule,
    linear_onecycle_schedule as linear_onecycle_schedule,
)
from pytreeopt.schedules.piecewise import (
    BoundariesAndScales as BoundariesAndScales,
    PiecewiseConstantSchedule as PiecewiseConstantSchedule,
    PiecewiseInterpolateSchedule as PiecewiseInterpolateSchedule,
    piecewise_constant_schedule as piecewise_constant_schedule,
    piecewise_interpolate_schedule as piecewise_interpolate_schedule,
)
from pytreeopt.schedules.polynomial import (
    LinearSchedule as LinearSchedule,
    PolynomialSchedule as PolynomialSchedule,
    linear_schedule as linear_schedule,
    polynomial_schedule as polynomial_schedule,
)
from pytreeopt.schedules.scheduled import (
    Scheduled as Scheduled,
    ScheduledState as ScheduledState,
    scheduled as scheduled,
)
from pytreeopt.schedules.warmup import (
    SGDRSchedule as SGDRSchedule,
    WarmupConstantSchedule as WarmupConstantSchedule,
    WarmupCosineDecaySchedule as WarmupCosineDecaySchedule,
    WarmupExponentialDecaySchedule as WarmupExponentialDecaySchedule,
    sgdr_schedule as sgdr_schedule,
    warmup_constant_schedule as warmup_constant_schedule,
    warmup_cosine_decay_schedule as warmup_cosine_decay_schedule,
    warmup_exponential_decay_schedule as warmup_exponential_decay_schedule,
)
