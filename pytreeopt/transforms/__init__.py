"""Transformations shared by several optimizers; upstream's namespace `optax.transforms`."""

# What is no transformation is upstream's own object.
from optax.transforms import (
    AddNoiseState as AddNoiseState,
    ApplyIfFiniteState as ApplyIfFiniteState,
    ConditionallyMaskState as ConditionallyMaskState,
    ConditionallyTransformState as ConditionallyTransformState,
    ConditionFn as ConditionFn,
    EmaState as EmaState,
    MaskedNode as MaskedNode,
    MaskedState as MaskedState,
    MonitorState as MonitorState,
    MultiStepsState as MultiStepsState,
    NonNegativeParamsState as NonNegativeParamsState,
    PartitionState as PartitionState,
    ShouldSkipUpdateFunction as ShouldSkipUpdateFunction,
    SnapshotState as SnapshotState,
    TraceState as TraceState,
    ZeroNansState as ZeroNansState,
    per_example_global_norm_clip as per_example_global_norm_clip,
    per_example_layer_norm_clip as per_example_layer_norm_clip,
    skip_large_updates as skip_large_updates,
    skip_not_finite as skip_not_finite,
    unitwise_clip as unitwise_clip,
    unitwise_norm as unitwise_norm,
)

from pytreeopt.combinators.apply_if_finite import apply_if_finite as apply_if_finite
from pytreeopt.combinators.chain import chain as chain, named_chain as named_chain
from pytreeopt.combinators.conditional import (
    conditionally_mask as conditionally_mask,
    conditionally_transform as conditionally_transform,
)
from pytreeopt.combinators.flatten import flatten as flatten
from pytreeopt.combinators.masked import masked as masked
from pytreeopt.combinators.multi_steps import MultiSteps as MultiSteps
from pytreeopt.combinators.partition import partition as partition
from pytreeopt.transforms.accumulate import ema as ema, trace as trace
from pytreeopt.transforms.adaptive_clip import adaptive_grad_clip as adaptive_grad_clip
from pytreeopt.transforms.clip import (
    clip as clip,
    clip_by_block_rms as clip_by_block_rms,
    clip_by_global_norm as clip_by_global_norm,
)
from pytreeopt.transforms.constrain import keep_params_nonnegative as keep_params_nonnegative, zero_nans as zero_nans
from pytreeopt.transforms.freeze import freeze as freeze, selective_transform as selective_transform
from pytreeopt.transforms.measure import measure_with_ema as measure_with_ema, snapshot as snapshot
from pytreeopt.transforms.monitor import monitor as monitor
from pytreeopt.transforms.noise import add_noise as add_noise
from pytreeopt.transforms.per_parameter import scale_by_tree as scale_by_tree
from pytreeopt.transforms.weight_decay import add_decayed_weights as add_decayed_weights
