"""Every state class, from upstream: a state made there is a state made here.

The only module that knows where upstream keeps those that it does not export.
"""

from optax import (
    EmaState as EmaState,
    EmptyState as EmptyState,
    FactoredState as FactoredState,
    MaskedNode as MaskedNode,
    MaskedState as MaskedState,
    ScaleByAdamState as ScaleByAdamState,
    ScaleByScheduleState as ScaleByScheduleState,
    TraceState as TraceState,
)
from optax.transforms._adding import WeightDecaySchedule as WeightDecaySchedule
from optax.tree_utils._state_utils import _ParamsPlaceholder


def is_params_placeholder(params: object) -> bool:
    """Whether `optax.tree.map_params` calls `init` to see where copies of the parameters go."""
    return isinstance(params, _ParamsPlaceholder)
