"""Every state class, from upstream: a state made there is a state made here.

The only module that knows where upstream keeps those that it does not export.
"""

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
    MaskedNode as MaskedNode,
)
from optax import (
    MaskedState as MaskedState,
)
from optax import (
    ScaleByAdamState as ScaleByAdamState,
)
from optax import (
    ScaleByScheduleState as ScaleByScheduleState,
)
from optax import (
    TraceState as TraceState,
)
from optax.transforms._adding import WeightDecaySchedule as WeightDecaySchedule
from optax.tree_utils._state_utils import _ParamsPlaceholder


def is_params_placeholder(params: object) -> bool:
    """Whether `optax.tree.map_params` calls `init` to see where copies of the parameters go."""
    return isinstance(params, _ParamsPlaceholder)
