"""Schedules: a hyperparameter as a function of the step count."""

# What is no schedule of ours is upstream's own object.
from optax.schedules import (
    InjectHyperparamsState as InjectHyperparamsState,
)
from optax.schedules import (
    InjectStatefulHyperparamsState as InjectStatefulHyperparamsState,
)
from optax.schedules import (
    Schedule as Schedule,
)
from optax.schedules import (
    StatefulSchedule as StatefulSchedule,
)

from pytreeopt.schedules.constant import ConstantSchedule as ConstantSchedule
from pytreeopt.schedules.constant import constant_schedule as constant_schedule
from pytreeopt.schedules.cosine import (
    CosineDecaySchedule as CosineDecaySchedule,
)
from pytreeopt.schedules.cosine import (
    cosine_decay_schedule as cosine_decay_schedule,
)
from pytreeopt.schedules.join import JoinSchedules as JoinSchedules
from pytreeopt.schedules.join import join_schedules as join_schedules
from pytreeopt.schedules.polynomial import (
    LinearSchedule as LinearSchedule,
)
from pytreeopt.schedules.polynomial import (
    PolynomialSchedule as PolynomialSchedule,
)
from pytreeopt.schedules.polynomial import (
    linear_schedule as linear_schedule,
)
from pytreeopt.schedules.polynomial import (
    polynomial_schedule as polynomial_schedule,
)
from pytreeopt.schedules.warmup import (
    WarmupCosineDecaySchedule as WarmupCosineDecaySchedule,
)
from pytreeopt.schedules.warmup import (
    warmup_cosine_decay_schedule as warmup_cosine_decay_schedule,
)
