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

from pytreeopt.contrib._acprop import (
    ACProp as ACProp,
    ScaleByACProp as ScaleByACProp,
    acprop as acprop,
    scale_by_acprop as scale_by_acprop,
)
from pytreeopt.contrib._ademamix import (
    AdEMAMix as AdEMAMix,
    ScaleByAdEMAMix as ScaleByAdEMAMix,
    ademamix as ademamix,
    scale_by_ademamix as scale_by_ademamix,
)
from pytreeopt.contrib._adopt import (
    ADOPT as ADOPT,
    ScaleByADOPT as ScaleByADOPT,
    adopt as adopt,
    scale_by_adopt as scale_by_adopt,
)
from pytreeopt.contrib._cocob import (
    COCOB as COCOB,
    ScaleByCOCOB as ScaleByCOCOB,
    cocob as cocob,
    scale_by_cocob as scale_by_cocob,
)
from pytreeopt.contrib._dadapt_adamw import DAdaptAdamW as DAdaptAdamW, dadapt_adamw as dadapt_adamw
from pytreeopt.contrib._dog import DoG as DoG, ScaleByDoG as ScaleByDoG, dog as dog
from pytreeopt.contrib._dowg import DoWG as DoWG, ScaleByDoWG as ScaleByDoWG, dowg as dowg
from pytreeopt.contrib._galore import (
    GaLore as GaLore,
    ScaleByGaLore as ScaleByGaLore,
    galore as galore,
    scale_by_galore as scale_by_galore,
)
from pytreeopt.contrib._madgrad import (
    MADGRAD as MADGRAD,
    ScaleByMADGRAD as ScaleByMADGRAD,
    madgrad as madgrad,
    scale_by_madgrad as scale_by_madgrad,
)
from pytreeopt.contrib._mechanize import Mechanize as Mechanize, mechanize as mechanize
from pytreeopt.contrib._momo import MoMo as MoMo, momo as momo
from pytreeopt.contrib._momo_adam import MoMoAdam as MoMoAdam, momo_adam as momo_adam
from pytreeopt.contrib._muon import (
    Muon as Muon,
    ScaleByMuon as ScaleByMuon,
    ScaleByShape as ScaleByShape,
    muon as muon,
    scale_by_muon as scale_by_muon,
)
from pytreeopt.contrib._normalize import Normalize as Normalize, normalize as normalize
from pytreeopt.contrib._privacy import (
    DPSGD as DPSGD,
    DifferentiallyPrivateAggregate as DifferentiallyPrivateAggregate,
    differentially_private_aggregate as differentially_private_aggregate,
    dpsgd as dpsgd,
)
from pytreeopt.contrib._prodigy import Prodigy as Prodigy, prodigy as prodigy
from pytreeopt.contrib._reduce_on_plateau import (
    ReduceOnPlateau as ReduceOnPlateau,
    reduce_on_plateau as reduce_on_plateau,
)
from pytreeopt.contrib._sam import SAM as SAM, sam as sam
from pytreeopt.contrib._schedule_free import (
    ScheduleFree as ScheduleFree,
    ScheduleFreeAdamW as ScheduleFreeAdamW,
    ScheduleFreeSGD as ScheduleFreeSGD,
    schedule_free as schedule_free,
    schedule_free_adamw as schedule_free_adamw,
    schedule_free_sgd as schedule_free_sgd,
)
from pytreeopt.contrib._simplified_ademamix import (
    ScaleBySimplifiedAdEMAMix as ScaleBySimplifiedAdEMAMix,
    SimplifiedAdEMAMix as SimplifiedAdEMAMix,
    scale_by_simplified_ademamix as scale_by_simplified_ademamix,
    simplified_ademamix as simplified_ademamix,
)
from pytreeopt.contrib._sophia import (
    HutchinsonEstimatorDiagHessian as HutchinsonEstimatorDiagHessian,
    ScaleBySophia as ScaleBySophia,
    Sophia as Sophia,
    hutchinson_estimator_diag_hessian as hutchinson_estimator_diag_hessian,
    sophia as sophia,
)
from pytreeopt.contrib._split_real_and_imaginary import (
    SplitRealAndImaginary as SplitRealAndImaginary,
    split_real_and_imaginary as split_real_and_imaginary,
)
