"""Contributed optimizers; upstream's namespace `optax.contrib`."""

# What is no transformation is upstream's own object.
from optax.contrib import (
    COCOBState as COCOBState,
)
from optax.contrib import (
    DAdaptAdamWState as DAdaptAdamWState,
)
from optax.contrib import (
    DifferentiallyPrivateAggregateState as DifferentiallyPrivateAggregateState,
)
from optax.contrib import (
    DoGState as DoGState,
)
from optax.contrib import (
    DoWGState as DoWGState,
)
from optax.contrib import (
    GaLoreDimensionNumbers as GaLoreDimensionNumbers,
)
from optax.contrib import (
    GaLoreState as GaLoreState,
)
from optax.contrib import (
    HutchinsonState as HutchinsonState,
)
from optax.contrib import (
    MadgradState as MadgradState,
)
from optax.contrib import (
    MechanicState as MechanicState,
)
from optax.contrib import (
    MomoAdamState as MomoAdamState,
)
from optax.contrib import (
    MomoState as MomoState,
)
from optax.contrib import (
    MuonDimensionNumbers as MuonDimensionNumbers,
)
from optax.contrib import (
    MuonState as MuonState,
)
from optax.contrib import (
    NormalizeState as NormalizeState,
)
from optax.contrib import (
    ProdigyState as ProdigyState,
)
from optax.contrib import (
    ReduceLROnPlateauState as ReduceLROnPlateauState,
)
from optax.contrib import (
    SAMState as SAMState,
)
from optax.contrib import (
    ScaleByAdemamixState as ScaleByAdemamixState,
)
from optax.contrib import (
    ScaleBySimplifiedAdEMAMixState as ScaleBySimplifiedAdEMAMixState,
)
from optax.contrib import (
    ScheduleFreeState as ScheduleFreeState,
)
from optax.contrib import (
    SophiaState as SophiaState,
)
from optax.contrib import (
    SplitRealAndImaginaryState as SplitRealAndImaginaryState,
)
from optax.contrib import (
    schedule_free_eval_params as schedule_free_eval_params,
)
