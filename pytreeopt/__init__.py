"""Optax's optimizers as pytrees: `import pytreeopt as optax`."""

# What is no transformation is upstream's own object.
from optax import (
    AdaptiveGradClipState as AdaptiveGradClipState,
)
from optax import (
    AddDecayedWeightsState as AddDecayedWeightsState,
)
from optax import (
    AddNoiseState as AddNoiseState,
)
from optax import (
    ApplyEvery as ApplyEvery,
)
from optax import (
    ApplyIfFiniteState as ApplyIfFiniteState,
)
from optax import (
    ClipByGlobalNormState as ClipByGlobalNormState,
)
from optax import (
    ClipState as ClipState,
)
from optax import (
    ConditionallyMaskState as ConditionallyMaskState,
)
from optax import (
    ConditionallyTransformState as ConditionallyTransformState,
)
from optax import (
    EmaState as EmaState,
)
from optax import (
    EmptyState as EmptyState,
)
from optax import (
    FactoredState as FactoredState,
)
from optax import (
    InjectHyperparamsState as InjectHyperparamsState,
)
from optax import (
    InjectStatefulHyperparamsState as InjectStatefulHyperparamsState,
)
from optax import (
    LookaheadParams as LookaheadParams,
)
from optax import (
    LookaheadState as LookaheadState,
)
from optax import (
    MaskedNode as MaskedNode,
)
from optax import (
    MaskedState as MaskedState,
)
from optax import (
    MaskOrFn as MaskOrFn,
)
from optax import (
    MonitorState as MonitorState,
)
from optax import (
    MultiStepsState as MultiStepsState,
)
from optax import (
    MultiTransformState as MultiTransformState,
)
from optax import (
    NonNegativeParamsState as NonNegativeParamsState,
)
from optax import (
    OptState as OptState,
)
from optax import (
    Params as Params,
)
from optax import (
    PartitionState as PartitionState,
)
from optax import (
    ScalarOrSchedule as ScalarOrSchedule,
)
from optax import (
    ScaleByAdaDeltaState as ScaleByAdaDeltaState,
)
from optax import (
    ScaleByAdamState as ScaleByAdamState,
)
from optax import (
    ScaleByAdanState as ScaleByAdanState,
)
from optax import (
    ScaleByAmsgradState as ScaleByAmsgradState,
)
from optax import (
    ScaleByBacktrackingLinesearchState as ScaleByBacktrackingLinesearchState,
)
from optax import (
    ScaleByBeliefState as ScaleByBeliefState,
)
from optax import (
    ScaleByLBFGSState as ScaleByLBFGSState,
)
from optax import (
    ScaleByLionState as ScaleByLionState,
)
from optax import (
    ScaleByNovogradState as ScaleByNovogradState,
)
from optax import (
    ScaleByRmsState as ScaleByRmsState,
)
from optax import (
    ScaleByRpropState as ScaleByRpropState,
)
from optax import (
    ScaleByRssState as ScaleByRssState,
)
from optax import (
    ScaleByRStdDevState as ScaleByRStdDevState,
)
from optax import (
    ScaleByScheduleState as ScaleByScheduleState,
)
from optax import (
    ScaleBySM3State as ScaleBySM3State,
)
from optax import (
    ScaleByTrustRatioState as ScaleByTrustRatioState,
)
from optax import (
    ScaleByZoomLinesearchState as ScaleByZoomLinesearchState,
)
from optax import (
    ScaleState as ScaleState,
)
from optax import (
    Schedule as Schedule,
)
from optax import (
    ShouldSkipUpdateFunction as ShouldSkipUpdateFunction,
)
from optax import (
    SnapshotState as SnapshotState,
)
from optax import (
    TraceState as TraceState,
)
from optax import (
    TransformInitFn as TransformInitFn,
)
from optax import (
    TransformUpdateExtraArgsFn as TransformUpdateExtraArgsFn,
)
from optax import (
    TransformUpdateFn as TransformUpdateFn,
)
from optax import (
    Updates as Updates,
)
from optax import (
    ZeroNansState as ZeroNansState,
)
from optax import (
    ZoomLinesearchInfo as ZoomLinesearchInfo,
)
from optax import (
    apply_updates as apply_updates,
)
from optax import (
    bias_correction as bias_correction,
)
from optax import (
    convex_kl_divergence as convex_kl_divergence,
)
from optax import (
    cosine_distance as cosine_distance,
)
from optax import (
    cosine_similarity as cosine_similarity,
)
from optax import (
    ctc_loss as ctc_loss,
)
from optax import (
    ctc_loss_with_forward_probs as ctc_loss_with_forward_probs,
)
from optax import (
    generalized_kl_divergence as generalized_kl_divergence,
)
from optax import (
    global_norm as global_norm,
)
from optax import (
    hinge_loss as hinge_loss,
)
from optax import (
    huber_loss as huber_loss,
)
from optax import (
    incremental_update as incremental_update,
)
from optax import (
    init_empty_state as init_empty_state,
)
from optax import (
    kl_divergence as kl_divergence,
)
from optax import (
    l2_loss as l2_loss,
)
from optax import (
    log_cosh as log_cosh,
)
from optax import (
    matrix_inverse_pth_root as matrix_inverse_pth_root,
)
from optax import (
    microbatch as microbatch,
)
from optax import (
    multi_normal as multi_normal,
)
from optax import (
    nnls as nnls,
)
from optax import (
    ntxent as ntxent,
)
from optax import (
    per_example_global_norm_clip as per_example_global_norm_clip,
)
from optax import (
    per_example_layer_norm_clip as per_example_layer_norm_clip,
)
from optax import (
    periodic_update as periodic_update,
)
from optax import (
    power_iteration as power_iteration,
)
from optax import (
    safe_increment as safe_increment,
)
from optax import (
    safe_int32_increment as safe_int32_increment,
)
from optax import (
    safe_norm as safe_norm,
)
from optax import (
    safe_root_mean_squares as safe_root_mean_squares,
)
from optax import (
    safe_softmax_cross_entropy as safe_softmax_cross_entropy,
)
from optax import (
    scale_gradient as scale_gradient,
)
from optax import (
    sigmoid_binary_cross_entropy as sigmoid_binary_cross_entropy,
)
from optax import (
    sigmoid_focal_loss as sigmoid_focal_loss,
)
from optax import (
    skip_large_updates as skip_large_updates,
)
from optax import (
    skip_not_finite as skip_not_finite,
)
from optax import (
    smooth_labels as smooth_labels,
)
from optax import (
    softmax_cross_entropy as softmax_cross_entropy,
)
from optax import (
    softmax_cross_entropy_with_integer_labels as softmax_cross_entropy_with_integer_labels,
)
from optax import (
    squared_error as squared_error,
)
from optax import (
    tree_map_params as tree_map_params,
)
from optax import (
    update_infinity_moment as update_infinity_moment,
)
from optax import (
    update_moment as update_moment,
)
from optax import (
    update_moment_per_elem_norm as update_moment_per_elem_norm,
)
from optax import (
    value_and_grad_from_state as value_and_grad_from_state,
)

from pytreeopt import (
    assignment as assignment,
)
from pytreeopt import (
    contrib as contrib,
)
from pytreeopt import (
    experimental as experimental,
)
from pytreeopt import (
    losses as losses,
)
from pytreeopt import (
    microbatching as microbatching,
)
from pytreeopt import (
    perturbations as perturbations,
)
from pytreeopt import (
    projections as projections,
)
from pytreeopt import (
    schedules as schedules,
)
from pytreeopt import (
    second_order as second_order,
)
from pytreeopt import (
    transforms as transforms,
)
from pytreeopt import (
    tree as tree,
)
from pytreeopt import (
    tree_utils as tree_utils,
)

# The base.
from pytreeopt.base import (
    AbstractChain as AbstractChain,
)
from pytreeopt.base import (
    AbstractSchedule as AbstractSchedule,
)
from pytreeopt.base import (
    AbstractStateless as AbstractStateless,
)
from pytreeopt.base import (
    FunctionSchedule as FunctionSchedule,
)
from pytreeopt.base import (
    GradientTransformation as GradientTransformation,
)
from pytreeopt.base import (
    coerce as coerce,
)
from pytreeopt.base import (
    with_extra_args_support as with_extra_args_support,
)

# Combinators.
from pytreeopt.combinators.chain import (
    Chain as Chain,
)
from pytreeopt.combinators.chain import (
    NamedChain as NamedChain,
)
from pytreeopt.combinators.chain import (
    chain as chain,
)
from pytreeopt.combinators.chain import (
    named_chain as named_chain,
)
from pytreeopt.combinators.masked import Masked as Masked
from pytreeopt.combinators.masked import masked as masked
from pytreeopt.fields import static as static
from pytreeopt.fields import static_dtype as static_dtype
from pytreeopt.fields import static_tree as static_tree
from pytreeopt.interop.optax import as_arrays as as_arrays
from pytreeopt.interop.optax import as_optax as as_optax
from pytreeopt.leafwise import leafwise as leafwise

# Optimizers.
from pytreeopt.optimizers.adafactor import (
    AdaFactor as AdaFactor,
)
from pytreeopt.optimizers.adafactor import (
    ScaleByFactoredRms as ScaleByFactoredRms,
)
from pytreeopt.optimizers.adafactor import (
    adafactor as adafactor,
)
from pytreeopt.optimizers.adafactor import (
    scale_by_factored_rms as scale_by_factored_rms,
)
from pytreeopt.optimizers.adam import (
    Adam as Adam,
)
from pytreeopt.optimizers.adam import (
    AdamW as AdamW,
)
from pytreeopt.optimizers.adam import (
    NAdam as NAdam,
)
from pytreeopt.optimizers.adam import (
    NAdamW as NAdamW,
)
from pytreeopt.optimizers.adam import (
    ScaleByAdam as ScaleByAdam,
)
from pytreeopt.optimizers.adam import (
    adam as adam,
)
from pytreeopt.optimizers.adam import (
    adamw as adamw,
)
from pytreeopt.optimizers.adam import (
    nadam as nadam,
)
from pytreeopt.optimizers.adam import (
    nadamw as nadamw,
)
from pytreeopt.optimizers.adam import (
    scale_by_adam as scale_by_adam,
)
from pytreeopt.optimizers.sgd import SGD as SGD
from pytreeopt.optimizers.sgd import sgd as sgd

# Schedules.
from pytreeopt.schedules import (
    ConstantSchedule as ConstantSchedule,
)
from pytreeopt.schedules import (
    CosineDecaySchedule as CosineDecaySchedule,
)
from pytreeopt.schedules import (
    JoinSchedules as JoinSchedules,
)
from pytreeopt.schedules import (
    LinearSchedule as LinearSchedule,
)
from pytreeopt.schedules import (
    PolynomialSchedule as PolynomialSchedule,
)
from pytreeopt.schedules import (
    WarmupCosineDecaySchedule as WarmupCosineDecaySchedule,
)
from pytreeopt.schedules import (
    constant_schedule as constant_schedule,
)
from pytreeopt.schedules import (
    cosine_decay_schedule as cosine_decay_schedule,
)
from pytreeopt.schedules import (
    join_schedules as join_schedules,
)
from pytreeopt.schedules import (
    linear_schedule as linear_schedule,
)
from pytreeopt.schedules import (
    polynomial_schedule as polynomial_schedule,
)
from pytreeopt.schedules import (
    warmup_cosine_decay_schedule as warmup_cosine_decay_schedule,
)

# Transformations.
from pytreeopt.transforms.accumulate import Ema as Ema
from pytreeopt.transforms.accumulate import Trace as Trace
from pytreeopt.transforms.accumulate import ema as ema
from pytreeopt.transforms.accumulate import trace as trace
from pytreeopt.transforms.clip import (
    Clip as Clip,
)
from pytreeopt.transforms.clip import (
    ClipByBlockRms as ClipByBlockRms,
)
from pytreeopt.transforms.clip import (
    ClipByGlobalNorm as ClipByGlobalNorm,
)
from pytreeopt.transforms.clip import (
    clip as clip,
)
from pytreeopt.transforms.clip import (
    clip_by_block_rms as clip_by_block_rms,
)
from pytreeopt.transforms.clip import (
    clip_by_global_norm as clip_by_global_norm,
)
from pytreeopt.transforms.param_scale import (
    ScaleByParamBlockRms as ScaleByParamBlockRms,
)
from pytreeopt.transforms.param_scale import (
    scale_by_param_block_rms as scale_by_param_block_rms,
)
from pytreeopt.transforms.scale import (
    Scale as Scale,
)
from pytreeopt.transforms.scale import (
    ScaleByLearningRate as ScaleByLearningRate,
)
from pytreeopt.transforms.scale import (
    ScaleBySchedule as ScaleBySchedule,
)
from pytreeopt.transforms.scale import (
    scale as scale,
)
from pytreeopt.transforms.scale import (
    scale_by_learning_rate as scale_by_learning_rate,
)
from pytreeopt.transforms.scale import (
    scale_by_schedule as scale_by_schedule,
)
from pytreeopt.transforms.stateless import (
    Identity as Identity,
)
from pytreeopt.transforms.stateless import (
    SetToZero as SetToZero,
)
from pytreeopt.transforms.stateless import (
    Stateless as Stateless,
)
from pytreeopt.transforms.stateless import (
    StatelessWithTreeMap as StatelessWithTreeMap,
)
from pytreeopt.transforms.stateless import (
    identity as identity,
)
from pytreeopt.transforms.stateless import (
    set_to_zero as set_to_zero,
)
from pytreeopt.transforms.stateless import (
    stateless as stateless,
)
from pytreeopt.transforms.stateless import (
    stateless_with_tree_map as stateless_with_tree_map,
)
from pytreeopt.transforms.weight_decay import (
    AddDecayedWeights as AddDecayedWeights,
)
from pytreeopt.transforms.weight_decay import (
    add_decayed_weights as add_decayed_weights,
)

GradientTransformationExtraArgs = GradientTransformation
