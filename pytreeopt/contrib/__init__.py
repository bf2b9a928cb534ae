"""Contributed optimizers; upstream's namespace `optax.contrib`."""

# What is no transformation is upstream's own object.
from optax.contrib import (
    COCOBState as COCOBState,
    DAdaptAdamWState as DAdaptAdamWState,
    DifferentiallyPrivateAggregateState as DifferentiallyPrivateAggregateState,
    DoGState as DoGState,
    DoWGState as DoWGState,
    GaLoreDimensionNumbers as GaLoreDimensionNumbers,
    GaLoreState as GaLoreState,
    HutchinsonState as HutchinsonState,
    MadgradState as MadgradState,
    MechanicState as MechanicState,
    MomoAdamState as MomoAdamState,
    MomoState as MomoState,
    MuonDimensionNumbers as MuonDimensionNumbers,
    MuonState as MuonState,
    NormalizeState as NormalizeState,
    ProdigyState as ProdigyState,
    ReduceLROnPlateauState as ReduceLROnPlateauState,
    SAMState as SAMState,
    ScaleByAdemamixState as ScaleByAdemamixState,
    ScaleBySimplifiedAdEMAMixState as ScaleBySimplifiedAdEMAMixState,
    ScheduleFreeState as ScheduleFreeState,
    SophiaState as SophiaState,
    SplitRealAndImaginaryState as SplitRealAndImaginaryState,
    schedule_free_eval_params as schedule_free_eval_params,
)
