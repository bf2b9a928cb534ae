"""Optax's optimizers as pytrees: `import pytreeopt as optax`."""

import importlib
from typing import TYPE_CHECKING, Any

from pytreeopt.errors import unsupported_upstream

# What is no transformation is upstream's own object.
try:
    from optax import (
        AdaptiveGradClipState as AdaptiveGradClipState,
        AddDecayedWeightsState as AddDecayedWeightsState,
        AddNoiseState as AddNoiseState,
        ApplyEvery as ApplyEvery,
        ApplyIfFiniteState as ApplyIfFiniteState,
        ClipByGlobalNormState as ClipByGlobalNormState,
        ClipState as ClipState,
        ConditionallyMaskState as ConditionallyMaskState,
        ConditionallyTransformState as ConditionallyTransformState,
        EmaState as EmaState,
        EmptyState as EmptyState,
        FactoredState as FactoredState,
        InjectHyperparamsState as InjectHyperparamsState,
        InjectStatefulHyperparamsState as InjectStatefulHyperparamsState,
        LookaheadParams as LookaheadParams,
        LookaheadState as LookaheadState,
        MaskedNode as MaskedNode,
        MaskedState as MaskedState,
        MaskOrFn as MaskOrFn,
        MonitorState as MonitorState,
        MultiStepsState as MultiStepsState,
        MultiTransformState as MultiTransformState,
        NonNegativeParamsState as NonNegativeParamsState,
        OptState as OptState,
        Params as Params,
        PartitionState as PartitionState,
        ScalarOrSchedule as ScalarOrSchedule,
        ScaleByAdaDeltaState as ScaleByAdaDeltaState,
        ScaleByAdamState as ScaleByAdamState,
        ScaleByAdanState as ScaleByAdanState,
        ScaleByAmsgradState as ScaleByAmsgradState,
        ScaleByBacktrackingLinesearchState as ScaleByBacktrackingLinesearchState,
        ScaleByBeliefState as ScaleByBeliefState,
        ScaleByLBFGSState as ScaleByLBFGSState,
        ScaleByLionState as ScaleByLionState,
        ScaleByNovogradState as ScaleByNovogradState,
        ScaleByRmsState as ScaleByRmsState,
        ScaleByRpropState as ScaleByRpropState,
        ScaleByRssState as ScaleByRssState,
        ScaleByRStdDevState as ScaleByRStdDevState,
        ScaleByScheduleState as ScaleByScheduleState,
        ScaleBySM3State as ScaleBySM3State,
        ScaleByTrustRatioState as ScaleByTrustRatioState,
        ScaleByZoomLinesearchState as ScaleByZoomLinesearchState,
        ScaleState as ScaleState,
        Schedule as Schedule,
        ShouldSkipUpdateFunction as ShouldSkipUpdateFunction,
        SnapshotState as SnapshotState,
        TraceState as TraceState,
        TransformInitFn as TransformInitFn,
        TransformUpdateExtraArgsFn as TransformUpdateExtraArgsFn,
        TransformUpdateFn as TransformUpdateFn,
        Updates as Updates,
        ZeroNansState as ZeroNansState,
        ZoomLinesearchInfo as ZoomLinesearchInfo,
        apply_updates as apply_updates,
        bias_correction as bias_correction,
        convex_kl_divergence as convex_kl_divergence,
        cosine_distance as cosine_distance,
        cosine_similarity as cosine_similarity,
        ctc_loss as ctc_loss,
        ctc_loss_with_forward_probs as ctc_loss_with_forward_probs,
        generalized_kl_divergence as generalized_kl_divergence,
        global_norm as global_norm,
        hinge_loss as hinge_loss,
        huber_loss as huber_loss,
        incremental_update as incremental_update,
        init_empty_state as init_empty_state,
        kl_divergence as kl_divergence,
        l2_loss as l2_loss,
        log_cosh as log_cosh,
        matrix_inverse_pth_root as matrix_inverse_pth_root,
        microbatch as microbatch,
        multi_normal as multi_normal,
        nnls as nnls,
        ntxent as ntxent,
        per_example_global_norm_clip as per_example_global_norm_clip,
        per_example_layer_norm_clip as per_example_layer_norm_clip,
        periodic_update as periodic_update,
        power_iteration as power_iteration,
        safe_increment as safe_increment,
        safe_int32_increment as safe_int32_increment,
        safe_norm as safe_norm,
        safe_root_mean_squares as safe_root_mean_squares,
        safe_softmax_cross_entropy as safe_softmax_cross_entropy,
        scale_gradient as scale_gradient,
        sigmoid_binary_cross_entropy as sigmoid_binary_cross_entropy,
        sigmoid_focal_loss as sigmoid_focal_loss,
        skip_large_updates as skip_large_updates,
        skip_not_finite as skip_not_finite,
        smooth_labels as smooth_labels,
        softmax_cross_entropy as softmax_cross_entropy,
        softmax_cross_entropy_with_integer_labels as softmax_cross_entropy_with_integer_labels,
        squared_error as squared_error,
        tree_map_params as tree_map_params,
        update_infinity_moment as update_infinity_moment,
        update_moment as update_moment,
        update_moment_per_elem_norm as update_moment_per_elem_norm,
        value_and_grad_from_state as value_and_grad_from_state,
    )
except ImportError as error:
    raise unsupported_upstream(error) from error

from pytreeopt import (
    assignment as assignment,
    losses as losses,
    microbatching as microbatching,
    perturbations as perturbations,
    population as population,
    projections as projections,
    schedules as schedules,
    second_order as second_order,
    transforms as transforms,
    tree as tree,
    tree_utils as tree_utils,
)

# Hyperparameters by name, plain data, optimizer and state in one.
from pytreeopt._config import from_config as from_config, to_config as to_config
from pytreeopt._hyperparams import hyperparams as hyperparams, replace as replace
from pytreeopt._registry import configurable as configurable

# Base.
from pytreeopt.base import (
    AbstractChain as AbstractChain,
    AbstractSchedule as AbstractSchedule,
    AbstractStateless as AbstractStateless,
    FunctionSchedule as FunctionSchedule,
    GradientTransformation as GradientTransformation,
    coerce as coerce,
    with_extra_args_support as with_extra_args_support,
)
from pytreeopt.bound import Bound as Bound, bind as bind

# Combinators.
from pytreeopt.combinators.apply_if_finite import ApplyIfFinite as ApplyIfFinite, apply_if_finite as apply_if_finite
from pytreeopt.combinators.chain import (
    Chain as Chain,
    NamedChain as NamedChain,
    chain as chain,
    named_chain as named_chain,
)
from pytreeopt.combinators.conditional import (
    ConditionallyMask as ConditionallyMask,
    ConditionallyTransform as ConditionallyTransform,
    conditionally_mask as conditionally_mask,
    conditionally_transform as conditionally_transform,
)
from pytreeopt.combinators.flatten import Flatten as Flatten, flatten as flatten
from pytreeopt.combinators.lookahead import Lookahead as Lookahead, lookahead as lookahead
from pytreeopt.combinators.masked import Masked as Masked, masked as masked
from pytreeopt.combinators.multi_steps import MultiSteps as MultiSteps
from pytreeopt.combinators.partition import (
    Partition as Partition,
    multi_transform as multi_transform,
    partition as partition,
)
from pytreeopt.fields import static as static, static_dtype as static_dtype, static_tree as static_tree
from pytreeopt.interop.optax import as_arrays as as_arrays, as_optax as as_optax, from_optax as from_optax
from pytreeopt.leafwise import leafwise as leafwise

# Line searches.
from pytreeopt.linesearch.backtracking import (
    ScaleByBacktrackingLinesearch as ScaleByBacktrackingLinesearch,
    scale_by_backtracking_linesearch as scale_by_backtracking_linesearch,
)
from pytreeopt.linesearch.zoom import (
    ScaleByZoomLinesearch as ScaleByZoomLinesearch,
    scale_by_zoom_linesearch as scale_by_zoom_linesearch,
)

# Optimizers.
from pytreeopt.optimizers.adabelief import (
    AdaBelief as AdaBelief,
    ScaleByBelief as ScaleByBelief,
    adabelief as adabelief,
    scale_by_belief as scale_by_belief,
)
from pytreeopt.optimizers.adadelta import (
    AdaDelta as AdaDelta,
    ScaleByAdaDelta as ScaleByAdaDelta,
    adadelta as adadelta,
    scale_by_adadelta as scale_by_adadelta,
)
from pytreeopt.optimizers.adafactor import (
    AdaFactor as AdaFactor,
    ScaleByFactoredRms as ScaleByFactoredRms,
    adafactor as adafactor,
    scale_by_factored_rms as scale_by_factored_rms,
)
from pytreeopt.optimizers.adagrad import (
    AdaGrad as AdaGrad,
    ScaleByRss as ScaleByRss,
    adagrad as adagrad,
    scale_by_rss as scale_by_rss,
)
from pytreeopt.optimizers.adam import (
    Adam as Adam,
    AdamW as AdamW,
    NAdam as NAdam,
    NAdamW as NAdamW,
    ScaleByAdam as ScaleByAdam,
    adam as adam,
    adamw as adamw,
    nadam as nadam,
    nadamw as nadamw,
    scale_by_adam as scale_by_adam,
)
from pytreeopt.optimizers.adamax import (
    AdaMax as AdaMax,
    AdaMaxW as AdaMaxW,
    ScaleByAdaMax as ScaleByAdaMax,
    adamax as adamax,
    adamaxw as adamaxw,
    scale_by_adamax as scale_by_adamax,
)
from pytreeopt.optimizers.adan import (
    Adan as Adan,
    ScaleByAdan as ScaleByAdan,
    adan as adan,
    scale_by_adan as scale_by_adan,
)
from pytreeopt.optimizers.amsgrad import (
    AMSGrad as AMSGrad,
    ScaleByAMSGrad as ScaleByAMSGrad,
    amsgrad as amsgrad,
    scale_by_amsgrad as scale_by_amsgrad,
)
from pytreeopt.optimizers.fromage import Fromage as Fromage, fromage as fromage
from pytreeopt.optimizers.lamb import Lamb as Lamb, lamb as lamb
from pytreeopt.optimizers.lars import Lars as Lars, lars as lars
from pytreeopt.optimizers.lbfgs import (
    LBFGS as LBFGS,
    ScaleByLBFGS as ScaleByLBFGS,
    lbfgs as lbfgs,
    scale_by_lbfgs as scale_by_lbfgs,
)
from pytreeopt.optimizers.lion import (
    Lion as Lion,
    ScaleByLion as ScaleByLion,
    lion as lion,
    scale_by_lion as scale_by_lion,
)
from pytreeopt.optimizers.noisy_sgd import NoisySGD as NoisySGD, noisy_sgd as noisy_sgd
from pytreeopt.optimizers.novograd import (
    NovoGrad as NovoGrad,
    ScaleByNovograd as ScaleByNovograd,
    novograd as novograd,
    scale_by_novograd as scale_by_novograd,
)
from pytreeopt.optimizers.optimistic import (
    OptimisticAdam as OptimisticAdam,
    OptimisticAdamV2 as OptimisticAdamV2,
    OptimisticGradientDescent as OptimisticGradientDescent,
    ScaleByOptimisticGradient as ScaleByOptimisticGradient,
    optimistic_adam as optimistic_adam,
    optimistic_adam_v2 as optimistic_adam_v2,
    optimistic_gradient_descent as optimistic_gradient_descent,
    scale_by_optimistic_gradient as scale_by_optimistic_gradient,
)
from pytreeopt.optimizers.polyak import (
    PolyakSGD as PolyakSGD,
    ScaleByPolyak as ScaleByPolyak,
    polyak_sgd as polyak_sgd,
    scale_by_polyak as scale_by_polyak,
)
from pytreeopt.optimizers.radam import (
    RAdam as RAdam,
    ScaleByRAdam as ScaleByRAdam,
    radam as radam,
    scale_by_radam as scale_by_radam,
)
from pytreeopt.optimizers.rmsprop import (
    RMSProp as RMSProp,
    ScaleByRms as ScaleByRms,
    ScaleByStddev as ScaleByStddev,
    rmsprop as rmsprop,
    scale_by_rms as scale_by_rms,
    scale_by_stddev as scale_by_stddev,
)
from pytreeopt.optimizers.rprop import (
    Rprop as Rprop,
    ScaleByRprop as ScaleByRprop,
    rprop as rprop,
    scale_by_rprop as scale_by_rprop,
)
from pytreeopt.optimizers.sgd import SGD as SGD, sgd as sgd
from pytreeopt.optimizers.sign_sgd import (
    ScaleBySign as ScaleBySign,
    SignSGD as SignSGD,
    Signum as Signum,
    scale_by_sign as scale_by_sign,
    sign_sgd as sign_sgd,
    signum as signum,
)
from pytreeopt.optimizers.sm3 import SM3 as SM3, ScaleBySM3 as ScaleBySM3, scale_by_sm3 as scale_by_sm3, sm3 as sm3
from pytreeopt.optimizers.yogi import (
    ScaleByYogi as ScaleByYogi,
    Yogi as Yogi,
    scale_by_yogi as scale_by_yogi,
    yogi as yogi,
)

# Schedules.
from pytreeopt.schedules import (
    ConstantSchedule as ConstantSchedule,
    CosineDecaySchedule as CosineDecaySchedule,
    CosineOneCycleSchedule as CosineOneCycleSchedule,
    ExponentialDecay as ExponentialDecay,
    InjectHyperparams as InjectHyperparams,
    JoinSchedules as JoinSchedules,
    LinearOneCycleSchedule as LinearOneCycleSchedule,
    LinearSchedule as LinearSchedule,
    PiecewiseConstantSchedule as PiecewiseConstantSchedule,
    PiecewiseInterpolateSchedule as PiecewiseInterpolateSchedule,
    PolynomialSchedule as PolynomialSchedule,
    Scheduled as Scheduled,
    ScheduledState as ScheduledState,
    SGDRSchedule as SGDRSchedule,
    WarmupConstantSchedule as WarmupConstantSchedule,
    WarmupCosineDecaySchedule as WarmupCosineDecaySchedule,
    WarmupExponentialDecaySchedule as WarmupExponentialDecaySchedule,
    WrappedSchedule as WrappedSchedule,
    constant_schedule as constant_schedule,
    cosine_decay_schedule as cosine_decay_schedule,
    cosine_onecycle_schedule as cosine_onecycle_schedule,
    exponential_decay as exponential_decay,
    inject_hyperparams as inject_hyperparams,
    inject_stateful_hyperparams as inject_stateful_hyperparams,
    join_schedules as join_schedules,
    linear_onecycle_schedule as linear_onecycle_schedule,
    linear_schedule as linear_schedule,
    piecewise_constant_schedule as piecewise_constant_schedule,
    piecewise_interpolate_schedule as piecewise_interpolate_schedule,
    polynomial_schedule as polynomial_schedule,
    scheduled as scheduled,
    sgdr_schedule as sgdr_schedule,
    warmup_constant_schedule as warmup_constant_schedule,
    warmup_cosine_decay_schedule as warmup_cosine_decay_schedule,
    warmup_exponential_decay_schedule as warmup_exponential_decay_schedule,
)

# Transformations.
from pytreeopt.transforms.accumulate import Ema as Ema, Trace as Trace, ema as ema, trace as trace
from pytreeopt.transforms.adaptive_clip import (
    AdaptiveGradClip as AdaptiveGradClip,
    adaptive_grad_clip as adaptive_grad_clip,
)
from pytreeopt.transforms.clip import (
    Clip as Clip,
    ClipByBlockRms as ClipByBlockRms,
    ClipByGlobalNorm as ClipByGlobalNorm,
    clip as clip,
    clip_by_block_rms as clip_by_block_rms,
    clip_by_global_norm as clip_by_global_norm,
)
from pytreeopt.transforms.constrain import (
    KeepParamsNonnegative as KeepParamsNonnegative,
    ZeroNans as ZeroNans,
    keep_params_nonnegative as keep_params_nonnegative,
    zero_nans as zero_nans,
)
from pytreeopt.transforms.distance_over_gradients import (
    ScaleByDistanceOverGradients as ScaleByDistanceOverGradients,
    scale_by_distance_over_gradients as scale_by_distance_over_gradients,
)
from pytreeopt.transforms.freeze import (
    Freeze as Freeze,
    SelectiveTransform as SelectiveTransform,
    freeze as freeze,
    selective_transform as selective_transform,
)
from pytreeopt.transforms.measure import (
    MeasureWithEma as MeasureWithEma,
    Snapshot as Snapshot,
    measure_with_ema as measure_with_ema,
    snapshot as snapshot,
)
from pytreeopt.transforms.monitor import (
    Measure as Measure,
    Monitor as Monitor,
    init_filled as init_filled,
    monitor as monitor,
)
from pytreeopt.transforms.noise import AddNoise as AddNoise, add_noise as add_noise
from pytreeopt.transforms.normalize import (
    Centralize as Centralize,
    NormalizeByUpdateNorm as NormalizeByUpdateNorm,
    centralize as centralize,
    normalize_by_update_norm as normalize_by_update_norm,
)
from pytreeopt.transforms.param_scale import (
    ScaleByParamBlockNorm as ScaleByParamBlockNorm,
    ScaleByParamBlockRms as ScaleByParamBlockRms,
    scale_by_param_block_norm as scale_by_param_block_norm,
    scale_by_param_block_rms as scale_by_param_block_rms,
)
from pytreeopt.transforms.per_parameter import ScaleByTree as ScaleByTree, scale_by_tree as scale_by_tree
from pytreeopt.transforms.periodic import ApplyEveryK as ApplyEveryK, apply_every as apply_every
from pytreeopt.transforms.scale import (
    Scale as Scale,
    ScaleByLearningRate as ScaleByLearningRate,
    ScaleBySchedule as ScaleBySchedule,
    scale as scale,
    scale_by_learning_rate as scale_by_learning_rate,
    scale_by_schedule as scale_by_schedule,
)
from pytreeopt.transforms.stateless import (
    Identity as Identity,
    SetToZero as SetToZero,
    Stateless as Stateless,
    StatelessWithTreeMap as StatelessWithTreeMap,
    identity as identity,
    set_to_zero as set_to_zero,
    stateless as stateless,
    stateless_with_tree_map as stateless_with_tree_map,
)
from pytreeopt.transforms.trust_ratio import (
    ScaleByTrustRatio as ScaleByTrustRatio,
    scale_by_trust_ratio as scale_by_trust_ratio,
)
from pytreeopt.transforms.weight_decay import (
    AddDecayedWeights as AddDecayedWeights,
    add_decayed_weights as add_decayed_weights,
)

GradientTransformationExtraArgs = GradientTransformation

# Imported at first use: half of the classes, and seldom needed.
if TYPE_CHECKING:
    from pytreeopt import contrib as contrib, experimental as experimental
    from pytreeopt.contrib import (
        DifferentiallyPrivateAggregateState as DifferentiallyPrivateAggregateState,
        differentially_private_aggregate as differentially_private_aggregate,
        dpsgd as dpsgd,
    )

_LAZY_MODULES = ("contrib", "experimental")
_IN_CONTRIB = ("DifferentiallyPrivateAggregateState", "differentially_private_aggregate", "dpsgd")  # Optax's old names


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES:
        return importlib.import_module(f"pytreeopt.{name}")
    if name in _IN_CONTRIB:
        return getattr(importlib.import_module("pytreeopt.contrib"), name)
    raise AttributeError(f"module 'pytreeopt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_MODULES, *_IN_CONTRIB})
