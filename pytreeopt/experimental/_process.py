"""From gradients per example to updates: a preprocessor, an aggregator, an optimizer."""

from collections.abc import Sequence
from typing import final

import jax
import jax.numpy as jnp
import optax
from optax import tree
from optax.experimental import aggregating as upstream

from pytreeopt.base import GradientTransformation, Numeric, coerce
from pytreeopt.combinators.agreement import step_or_keep
from pytreeopt.combinators.chain import Chain
from pytreeopt.errors import WrongStateError
from pytreeopt.experimental._averages import AbstractAggregator, check_steps
from pytreeopt.experimental._statistics import PerElementMeanAndSumSqDiffGrads, TrackPerElementMeanAndVarianceWithEma
from pytreeopt.fields import static
from pytreeopt.transforms.stateless import Identity
from pytreeopt.upstream_pair import UpstreamPair


class _AbstractProcess(GradientTransformation):
    """Three stages: updates per example, their aggregate, and an optimizer that waits until the aggregate is ready."""

    preprocessor: GradientTransformation
    aggregator: GradientTransformation
    postprocessor: GradientTransformation
    aggregator_has_aux: bool = static(False)

    def __new__(cls, *args, **kwargs):
        aggregator = args[1] if len(args) > 1 else kwargs.get("aggregator")
        if cls is Process and isinstance(aggregator, upstream.Aggregator):
            return AggregatorProcess(*args, **kwargs)
        return super().__new__(cls)

    def __post_init__(self):
        # Upstream's pairs become static; anything else may be a placeholder of JAX's.
        values = vars(self)
        for name in ("preprocessor", "aggregator", "postprocessor"):
            if isinstance(values[name], optax.GradientTransformation) and not isinstance(values[name], UpstreamPair):
                values[name] = coerce(values[name])
        super().__post_init__()

    def init(self, params):
        return self.preprocessor.init(params), self.aggregator.init(params), self.postprocessor.init(params)

    def update(self, updates, state, params=None, **extra_args):
        if not isinstance(state, tuple | list) or len(state) != 3:
            got = f"{len(state)}" if isinstance(state, tuple | list) else type(state).__name__
            raise WrongStateError(f"needs three states, got {got}; pass the state that its init returned")
        before, between, after = state
        updates, before = self.preprocessor.update(updates, before, params, **extra_args)
        updates, between = self.aggregator.update(updates, between, params, **extra_args)
        if self.aggregator_has_aux:
            updates, aux = updates
            # Numbers become operands of the branch, as upstream's are: a constant would be folded, and round elsewhere.
            extra_args |= jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, int | float) else x, aux)
        # Upstream compiles the optimizer in a branch even where there is nothing to wait for; so do we, for its bits.
        updates, after = step_or_keep(
            tree.get(between, "ready", True),
            lambda: self.postprocessor.update(updates, after, params, **extra_args),
            lambda: tree.zeros_like(updates),
            after,
        )
        return updates, (before, between, after)


@final
class Process(_AbstractProcess):
    """Applies a transformation per example, an aggregation, and an optimizer that waits while the aggregate forms.

    The state is the tuple of theirs. While a state of the aggregator has a false `ready`, the optimizer's state stays
    and the updates are zeros. With an `Aggregator` this makes an `AggregatorProcess`, an `Aggregator` itself.

    Args:
        preprocessor: a transformation of the updates per example.
        aggregator: a transformation of these into updates of the params' shape.
        postprocessor: an optimizer.
        aggregator_has_aux: the aggregator returns a pair of updates and a dict of extra arguments for the optimizer.
    """


@final
class AggregatorProcess(_AbstractProcess, AbstractAggregator):
    """`Process` over an `Aggregator`.

    Args:
        preprocessor: a transformation of the updates per example.
        aggregator: an aggregator.
        postprocessor: an optimizer.
        aggregator_has_aux: the aggregator returns a pair of updates and a dict of extra arguments for the optimizer.
    """


@final
class AddMeanVarianceToOpt(AbstractAggregator):
    """An optimizer that takes gradients per example and keeps averages of their mean and variance in its state.

    `get_unbiased_mean_and_variance_ema(state)` reads them.

    Args:
        opt: the optimizer; it gets the mean gradient, and `sum_sq_diff_grads` and `sample_size` as extra arguments.
        ema_decay: decay of the averages, in [0, 1). Frozen into the state at init for the reader.
        per_elt_axis: the axis of the examples, or several.
        accumulation_steps: number of microbatches, at least 1.
    """

    opt: GradientTransformation
    ema_decay: Numeric = 0.9
    per_elt_axis: int | Sequence[int] = static(0)
    accumulation_steps: int = static(1)

    def __post_init__(self):
        super().__post_init__()
        check_steps(self)

    @property
    def _process(self) -> GradientTransformation:
        track = TrackPerElementMeanAndVarianceWithEma.of(self)
        statistics = PerElementMeanAndSumSqDiffGrads.of(self)
        return AggregatorProcess(Identity(), statistics, Chain((track, coerce(self.opt))), aggregator_has_aux=True)

    def init(self, params):
        return self._process.init(params)

    def update(self, updates, state, params=None, **extra_args):
        return self._process.update(updates, state, params, **extra_args)
