"""Every state class, from upstream: a state made there is a state made here.

The only module that knows where upstream keeps those that it does not export.
"""

from pytreeopt.errors import unsupported_upstream

try:
    from optax import (
        AddNoiseState as AddNoiseState,
        ApplyEvery as ApplyEvery,
        ApplyIfFiniteState as ApplyIfFiniteState,
        ConditionallyMaskState as ConditionallyMaskState,
        ConditionallyTransformState as ConditionallyTransformState,
        EmaState as EmaState,
        EmptyState as EmptyState,
        FactoredState as FactoredState,
        InjectStatefulHyperparamsState as InjectStatefulHyperparamsState,
        LookaheadParams as LookaheadParams,
        LookaheadState as LookaheadState,
        MaskedNode as MaskedNode,
        MaskedState as MaskedState,
        MonitorState as MonitorState,
        MultiStepsState as MultiStepsState,
        NonNegativeParamsState as NonNegativeParamsState,
        PartitionState as PartitionState,
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
        ScaleByZoomLinesearchState as ScaleByZoomLinesearchState,
        SnapshotState as SnapshotState,
        TraceState as TraceState,
        ZeroNansState as ZeroNansState,
        ZoomLinesearchInfo as ZoomLinesearchInfo,
    )
    from optax._src import linesearch as _linesearch
    from optax._src.linesearch import BacktrackingLinesearchInfo as BacktrackingLinesearchInfo
    from optax._src.transform import (
        ScaleByDistanceOverGradientsState as ScaleByDistanceOverGradientsState,
        ScaleByOptimisticGradientState as ScaleByOptimisticGradientState,
        ScaleByRmsWithCountState as ScaleByRmsWithCountState,
        ScaleByRStdDevWithCountState as ScaleByRStdDevWithCountState,
    )
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
        ProdigyState as ProdigyState,
        ReduceLROnPlateauState as ReduceLROnPlateauState,
        SAMState as SAMState,
        ScaleByAdemamixState as ScaleByAdemamixState,
        ScaleBySimplifiedAdEMAMixState as ScaleBySimplifiedAdEMAMixState,
        ScheduleFreeState as ScheduleFreeState,
        SophiaState as SophiaState,
        SplitRealAndImaginaryState as SplitRealAndImaginaryState,
    )
    from optax.contrib._complex_valued import SplitRealAndImaginaryArrays as SplitRealAndImaginaryArrays
    from optax.experimental import aggregating as _aggregating
    from optax.schedules._inject import WrappedScheduleState as WrappedScheduleState
    from optax.transforms._adding import WeightDecaySchedule as WeightDecaySchedule
    from optax.tree_utils._state_utils import _ParamsPlaceholder

    AccumulateAvgUpdatesState = _aggregating.AccumulateAvgUpdatesState
    PerElementMeanAndSumSqDiffGradsState = _aggregating.PerElementMeanAndSumSqDiffGradsState
    PerElementMeanAndVarianceEMAState = _aggregating.PerElementMeanAndVarianceEMAState

    class LinesearchFlags:
        """Upstream's own words for the ways in which a line search fails; tools look for them in the output."""

        INTERVAL_NOT_FOUND = _linesearch.FLAG_INTERVAL_NOT_FOUND
        INTERVAL_TOO_SMALL = _linesearch.FLAG_INTERVAL_TOO_SMALL
        CURVATURE_COND_NOT_SATISFIED = _linesearch.FLAG_CURVATURE_COND_NOT_SATISFIED
        NO_STEPSIZE_FOUND = _linesearch.FLAG_NO_STEPSIZE_FOUND
        NOT_A_DESCENT_DIRECTION = _linesearch.FLAG_NOT_A_DESCENT_DIRECTION

except (ImportError, AttributeError) as error:
    raise unsupported_upstream(error) from error


def is_params_placeholder(params: object) -> bool:
    """Whether `optax.tree.map_params` calls `init` to see where copies of the parameters go."""
    return isinstance(params, _ParamsPlaceholder)
