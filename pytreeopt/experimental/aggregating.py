"""From gradients per example to updates: averages, accumulation over microbatches, variances.

Upstream's namespace `optax.experimental.aggregating`. An `Aggregator` takes updates with an axis of examples and
returns updates without it; `isinstance(opt, Aggregator)` tells a training loop which gradients to compute.
"""

from optax.experimental import aggregating as _upstream

from pytreeopt.experimental._averages import (
    AbstractAggregator as AbstractAggregator,
    AccumulateAvgUpdates as AccumulateAvgUpdates,
    AverageIncrementallyAggregator as AverageIncrementallyAggregator,
    AverageIncrementallyUpdates as AverageIncrementallyUpdates,
    AveragePerElementUpdates as AveragePerElementUpdates,
)
from pytreeopt.experimental._process import (
    AddMeanVarianceToOpt as AddMeanVarianceToOpt,
    AggregatorProcess as AggregatorProcess,
    Process as Process,
)
from pytreeopt.experimental._statistics import (
    PerElementMeanAndSumSqDiffGrads as PerElementMeanAndSumSqDiffGrads,
    TrackPerElementMeanAndVarianceWithEma as TrackPerElementMeanAndVarianceWithEma,
)
from pytreeopt.states import (
    AccumulateAvgUpdatesState as AccumulateAvgUpdatesState,
    PerElementMeanAndSumSqDiffGradsState as PerElementMeanAndSumSqDiffGradsState,
    PerElementMeanAndVarianceEMAState as PerElementMeanAndVarianceEMAState,
)

AggregatedUpdates = _upstream.AggregatedUpdates
Aggregator = _upstream.Aggregator
AggregatorUpdateFn = _upstream.AggregatorUpdateFn
MaybeAxis = _upstream.MaybeAxis
PerElementUpdates = _upstream.PerElementUpdates
get_batch_size_from_per_elt_updates = _upstream.get_batch_size_from_per_elt_updates
get_unbiased_mean_and_variance_ema = _upstream.get_unbiased_mean_and_variance_ema

process = Process
average_per_element_updates = AveragePerElementUpdates
accumulate_avg_updates = AccumulateAvgUpdates
average_incrementally_updates = AverageIncrementallyUpdates
get_per_element_mean_and_sum_sq_diff_grads = PerElementMeanAndSumSqDiffGrads
track_per_element_mean_and_variance_with_ema = TrackPerElementMeanAndVarianceWithEma
add_mean_variance_to_opt = AddMeanVarianceToOpt
