"""Transformations shared by several optimizers; upstream's namespace `optax.transforms`."""

# What is no transformation is upstream's own object.
from optax.transforms import (
    AddNoiseState as AddNoiseState,
)
from optax.transforms import (
    ApplyIfFiniteState as ApplyIfFiniteState,
)
from optax.transforms import (
    ConditionallyMaskState as ConditionallyMaskState,
)
from optax.transforms import (
    ConditionallyTransformState as ConditionallyTransformState,
)
from optax.transforms import (
    ConditionFn as ConditionFn,
)
from optax.transforms import (
    EmaState as EmaState,
)
from optax.transforms import (
    MaskedNode as MaskedNode,
)
from optax.transforms import (
    MaskedState as MaskedState,
)
from optax.transforms import (
    MonitorState as MonitorState,
)
from optax.transforms import (
    MultiStepsState as MultiStepsState,
)
from optax.transforms import (
    NonNegativeParamsState as NonNegativeParamsState,
)
from optax.transforms import (
    PartitionState as PartitionState,
)
from optax.transforms import (
    ShouldSkipUpdateFunction as ShouldSkipUpdateFunction,
)
from optax.transforms import (
    SnapshotState as SnapshotState,
)
from optax.transforms import (
    TraceState as TraceState,
)
from optax.transforms import (
    ZeroNansState as ZeroNansState,
)
from optax.transforms import (
    per_example_global_norm_clip as per_example_global_norm_clip,
)
from optax.transforms import (
    per_example_layer_norm_clip as per_example_layer_norm_clip,
)
from optax.transforms import (
    skip_large_updates as skip_large_updates,
)
from optax.transforms import (
    skip_not_finite as skip_not_finite,
)
from optax.transforms import (
    unitwise_clip as unitwise_clip,
)
from optax.transforms import (
    unitwise_norm as unitwise_norm,
)

from pytreeopt.combinators.chain import chain as chain
from pytreeopt.combinators.chain import named_chain as named_chain
from pytreeopt.combinators.masked import masked as masked
from pytreeopt.transforms.accumulate import ema as ema
from pytreeopt.transforms.accumulate import trace as trace
from pytreeopt.transforms.clip import (
    clip as clip,
)
from pytreeopt.transforms.clip import (
    clip_by_block_rms as clip_by_block_rms,
)
from pytreeopt.transforms.clip import (
    clip_by_global_norm as clip_by_global_norm,
)
from pytreeopt.transforms.weight_decay import add_decayed_weights as add_decayed_weights
