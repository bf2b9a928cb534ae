"""Schedules: a hyperparameter as a function of the step count."""

# What is no schedule of ours is upstream's own object.
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
from pytreeopt.schedules.join import JoinSchedules as JoinSchedules, join_schedules as join_schedules
from pytreeopt.schedules.polynomial import (
    LinearSchedule as LinearSchedule,
    PolynomialSchedule as PolynomialSchedule,
    linear_schedule as linear_schedule,
    polynomial_schedule as polynomial_schedule,
)
from pytreeopt.schedules.warmup import (
    WarmupCosineDecaySchedule as WarmupCosineDecaySchedule,
    warmup_cosine_decay_schedule as warmup_cosine_decay_schedule,
)
