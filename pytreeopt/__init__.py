"""Optax's optimizers as pytrees: `import pytreeopt as optax`."""

# What is no transformation is upstream's own object.
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

from pytreeopt import (
    assignment as assignment,
    contrib as contrib,
    experimental as experimental,
    losses as losses,
    microbatching as microbatching,
    perturbations as perturbations,
    projections as projections,
    schedules as schedules,
    second_order as second_order,
    transforms as transforms,
    tree as tree,
    tree_utils as tree_utils,
)

# The base.
from pytreeopt.base import (
    AbstractChain as AbstractChain,
    AbstractSchedule as AbstractSchedule,
    AbstractStateless as AbstractStateless,
    FunctionSchedule as FunctionSchedule,
    GradientTransformation as GradientTransformation,
    coerce as coerce,
    with_extra_args_support as with_extra_args_support,
)

# Combinators.
from pytreeopt.combinators.chain import (
    Chain as Chain,
    NamedChain as NamedChain,
    chain as chain,
    named_chain as named_chain,
)
from pytreeopt.combinators.masked import Masked as Masked, masked as masked
from pytreeopt.fields import static as static, static_dtype as static_dtype, static_tree as static_tree
from pytreeopt.interop.optax import as_arrays as as_arrays, as_optax as as_optax
from pytreeopt.leafwise import leafwise as leafwise

# Optimizers.
from pytreeopt.optimizers.adafactor import (
    AdaFactor as AdaFactor,
    ScaleByFactoredRms as ScaleByFactoredRms,
    adafactor as adafactor,
    scale_by_factored_rms as scale_by_factored_rms,
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
from pytreeopt.optimizers.sgd import SGD as SGD, sgd as sgd

# Schedules.
from pytreeopt.schedules import (
    ConstantSchedule as ConstantSchedule,
    CosineDecaySchedule as CosineDecaySchedule,
    JoinSchedules as JoinSchedules,
    LinearSchedule as LinearSchedule,
    PolynomialSchedule as PolynomialSchedule,
    WarmupCosineDecaySchedule as WarmupCosineDecaySchedule,
    constant_schedule as constant_schedule,
    cosine_decay_schedule as cosine_decay_schedule,
    join_schedules as join_schedules,
    linear_schedule as linear_schedule,
    polynomial_schedule as polynomial_schedule,
    warmup_cosine_decay_schedule as warmup_cosine_decay_schedule,
)

# Transformations.
from pytreeopt.transforms.accumulate import Ema as Ema, Trace as Trace, ema as ema, trace as trace
from pytreeopt.transforms.clip import (
    Clip as Clip,
    ClipByBlockRms as ClipByBlockRms,
    ClipByGlobalNorm as ClipByGlobalNorm,
    clip as clip,
    clip_by_block_rms as clip_by_block_rms,
    clip_by_global_norm as clip_by_global_norm,
)
from pytreeopt.transforms.param_scale import (
    ScaleByParamBlockRms as ScaleByParamBlockRms,
    scale_by_param_block_rms as scale_by_param_block_rms,
)
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
from pytreeopt.transforms.weight_decay import (
    AddDecayedWeights as AddDecayedWeights,
    add_decayed_weights as add_decayed_weights,
)

GradientTransformationExtraArgs = GradientTransformation
