"""From gradients per example to updates: averages, accumulation over microbatches, variances.

Upstream's namespace `optax.experimental.aggregating`. An `Aggregator` takes updates with an axis of examples and
returns updates without it; `isinstance(opt, Aggregator)` tells a training loop which gradients to compute.
"""

import math
from collections.abc import Sequence
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from optax import safe_increment, tree
from optax.experimental import aggregating as _upstream

from pytreeopt.base import GradientTransformation, Numeric, coerce
from pytreeopt.combinators.chain import Chain
from pytreeopt.errors import StructureError, WrongStateError, require_state
from pytreeopt.fields import static
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import keep_dtype, zeros_like
from pytreeopt.states import (
    AccumulateAvgUpdatesState,
    EmptyState,
    PerElementMeanAndSumSqDiffGradsState,
    PerElementMeanAndVarianceEMAState,
)
from pytreeopt.transforms.stateless import Identity
from pytreeopt.upstream_pair import UpstreamPair

AggregatedUpdates = _upstream.AggregatedUpdates
Aggregator = _upstream.Aggregator
AggregatorUpdateFn = _upstream.AggregatorUpdateFn
MaybeAxis = _upstream.MaybeAxis
PerElementUpdates = _upstream.PerElementUpdates
get_batch_size_from_per_elt_updates = _upstream.get_batch_size_from_per_elt_updates
get_unbiased_mean_and_variance_ema = _upstream.get_unbiased_mean_and_variance_ema


class AbstractAggregator(GradientTransformation, Aggregator):  # pyright: ignore[reportIncompatibleVariableOverride]
    """A transformation of updates per example into updates. To write one: as a `GradientTransformation`."""


@final
class AveragePerElementUpdates(AbstractAggregator):
    """Averages over the examples.

    Args:
        per_elt_axis: the axis of the examples, or several.
    """

    per_elt_axis: int | Sequence[int] = static(0)

    def init(self, params):
        return EmptyState()

    def update(self, updates, state, params=None, **extra_args):
        return leafwise(lambda x: jnp.mean(x, axis=self.per_elt_axis), updates), state


@final
class AccumulateAvgUpdates(GradientTransformation):
    r"""Averages $k$ updates in a row: zeros until the last of them, then the average.

    $$ a_n = a_{n-1} + (u_n - a_{n-1}) / n, \qquad n = 1, \dots, k $$

    Inside `Process` the optimizer that follows waits for the average. With one step it is the identity.

    Args:
        accumulation_steps: $k$, at least 1.
    """

    accumulation_steps: int = static()

    def __post_init__(self):
        super().__post_init__()
        _check_steps(self)

    def init(self, params):
        if self.accumulation_steps == 1:
            return EmptyState()
        return AccumulateAvgUpdatesState(
            micro_step=jnp.zeros((), int), ready=jnp.asarray(False), avg_grad=zeros_like(params)
        )

    def update(self, updates, state, params=None, **extra_args):
        if self.accumulation_steps == 1:
            return updates, state
        state = require_state(state, AccumulateAvgUpdatesState)
        step = state.micro_step + 1
        ready = step == self.accumulation_steps
        average = leafwise(lambda u, a: a + (u - a) / step, updates, state.avg_grad)
        out = leafwise(lambda a: jnp.where(ready, a, jnp.zeros_like(a)), average)
        kept = leafwise(lambda a: jnp.where(ready, jnp.zeros_like(a), a), average)
        return out, AccumulateAvgUpdatesState(
            micro_step=jnp.where(ready, 0, step), ready=ready, avg_grad=keep_dtype(kept, state.avg_grad)
        )


def _check_steps(tx: Any) -> None:
    if isinstance(tx.accumulation_steps, int) and tx.accumulation_steps < 1:
        raise ValueError(f"{type(tx).__name__}: accumulation_steps must be at least 1, got {tx.accumulation_steps}")


class _AbstractAverageIncrementally(GradientTransformation):
    """Averages over the examples if there is an axis of them, then over microbatches."""

    per_elt_axis: int | Sequence[int] | None = static()
    accumulation_steps: int = static()

    def __new__(cls, *args, **kwargs):
        axis = args[0] if args else kwargs.get("per_elt_axis")
        if cls is AverageIncrementallyUpdates and axis is not None:
            return AverageIncrementallyAggregator(*args, **kwargs)
        return super().__new__(cls)

    def __post_init__(self):
        super().__post_init__()
        _check_steps(self)

    @property
    def _inner(self) -> GradientTransformation:
        accumulate = AccumulateAvgUpdates.of(self)
        if self.per_elt_axis is None:
            return accumulate
        return Chain((AveragePerElementUpdates.of(self), accumulate))

    def init(self, params):
        return self._inner.init(params)

    def update(self, updates, state, params=None, **extra_args):
        return self._inner.update(updates, state, params, **extra_args)


@final
class AverageIncrementallyUpdates(_AbstractAverageIncrementally):
    """Averages over the examples, then over several microbatches.

    With an axis this makes an `AverageIncrementallyAggregator`, an `Aggregator`; with None, `AccumulateAvgUpdates`.

    Args:
        per_elt_axis: the axis of the examples, several, or None: there is no such axis.
        accumulation_steps: number of microbatches, at least 1.
    """

    per_elt_axis: int | Sequence[int] | None = static()
    accumulation_steps: int = static()


@final
class AverageIncrementallyAggregator(_AbstractAverageIncrementally, AbstractAggregator):
    """`AverageIncrementallyUpdates` over an axis of examples.

    Args:
        per_elt_axis: the axis of the examples, or several.
        accumulation_steps: number of microbatches, at least 1.
    """

    per_elt_axis: int | Sequence[int] | None = static()
    accumulation_steps: int = static()


@final
class PerElementMeanAndSumSqDiffGrads(AbstractAggregator):
    r"""Mean of the updates over the examples, and beside it the sum of squared differences from it.

    The output is `(mean, {"sum_sq_diff_grads": ..., "sample_size": n})`, for `Process` with `aggregator_has_aux`.
    Over $k$ microbatches both are accumulated by Chan's formula, and are zeros until the last.

    Args:
        per_elt_axis: the axis of the examples, or several.
        accumulation_steps: $k$, number of microbatches, at least 1.

    References:
        Chan, Golub and LeVeque, Algorithms for Computing the Sample Variance, 1983,
        https://doi.org/10.1080/00031305.1983.10483115
    """

    per_elt_axis: int | Sequence[int] = static(0)
    accumulation_steps: int = static(1)

    def __post_init__(self):
        super().__post_init__()
        _check_steps(self)

    def init(self, params):
        if self.accumulation_steps == 1:
            return EmptyState()
        return PerElementMeanAndSumSqDiffGradsState(
            micro_step=jnp.zeros((), jnp.int32),
            ready=jnp.asarray(False),
            mean_grads=zeros_like(params),
            sum_sq_diff_grads=zeros_like(params),
        )

    def update(self, updates, state, params=None, **extra_args):
        axis = self.per_elt_axis
        size = _sample_size(updates, axis)
        mean = leafwise(lambda x: jnp.mean(x, axis=axis, keepdims=True), updates)
        sum_sq = leafwise(lambda x, m: jnp.sum((x - m) ** 2, axis=axis), updates, mean)
        mean = leafwise(lambda m: m.squeeze(axis=axis), mean)
        if self.accumulation_steps == 1:
            return (mean, {"sum_sq_diff_grads": sum_sq, "sample_size": size}), state

        state = require_state(state, PerElementMeanAndSumSqDiffGradsState)
        step = state.micro_step + 1
        ready = step == self.accumulation_steps
        delta = leafwise(lambda u, m: u - m, mean, state.mean_grads)
        mean = leafwise(lambda m, d: m + d / step, state.mean_grads, delta)
        weight = state.micro_step * size / step
        sum_sq = leafwise(lambda old, new, d: old + new + d**2 * weight, state.sum_sq_diff_grads, sum_sq, delta)
        out = mean, {"sum_sq_diff_grads": sum_sq, "sample_size": size * step}
        out = jax.tree.map(lambda x: jnp.where(ready, x, jnp.zeros_like(x)), out)
        mean, sum_sq = jax.tree.map(lambda x: jnp.where(ready, jnp.zeros_like(x), x), (mean, sum_sq))
        return out, PerElementMeanAndSumSqDiffGradsState(
            micro_step=jnp.where(ready, 0, step),
            ready=ready,
            mean_grads=keep_dtype(mean, state.mean_grads),
            sum_sq_diff_grads=keep_dtype(sum_sq, state.sum_sq_diff_grads),
        )


def _sample_size(updates: Any, axis: Any) -> int:
    axes = (axis,) if isinstance(axis, int) else axis
    sizes = [math.prod(leaf.shape[i] for i in axes) for leaf in jax.tree.leaves(updates)]
    if len(set(sizes)) > 1:
        raise StructureError(f"needs the same number of examples in every leaf, got {sizes}")
    return sizes[0] if sizes else 0


@final
class TrackPerElementMeanAndVarianceWithEma(GradientTransformation):
    r"""Keeps running averages of the mean gradient and of the variance over the examples; the updates pass through.

    $$ m_t = (1-\beta)\, g_t + \beta\, m_{t-1}, \qquad v_t = (1-\beta)\, s_t / (n_t - 1) + \beta\, v_{t-1} $$

    `update` needs the keyword arguments `sum_sq_diff_grads` ($s$) and `sample_size` ($n$) that
    `PerElementMeanAndSumSqDiffGrads` gives; `get_unbiased_mean_and_variance_ema` reads the state.

    Args:
        ema_decay: $\beta$, in [0, 1). Frozen into the state at init for that reader; the averages use the field.
    """

    ema_decay: Numeric = 0.9

    def init(self, params):
        return PerElementMeanAndVarianceEMAState(
            count=jnp.zeros([], jnp.int32),
            ema_decay=jnp.array(self.ema_decay),
            mean_grads_ema=zeros_like(params),
            variance_grads_ema=zeros_like(params),
        )

    def update(self, updates, state, params=None, *, sum_sq_diff_grads, sample_size, **extra_args):
        state = require_state(state, PerElementMeanAndVarianceEMAState)
        decay = self.ema_decay
        per_sample = 1 / (sample_size - 1)
        variance = tree.scale(per_sample, sum_sq_diff_grads)

        def average(new, old):
            return keep_dtype(leafwise(lambda x, y: (1.0 - decay) * x + decay * y, new, old), old)

        return updates, PerElementMeanAndVarianceEMAState(
            count=jnp.asarray(safe_increment(state.count)),
            ema_decay=state.ema_decay,
            mean_grads_ema=average(updates, state.mean_grads_ema),
            variance_grads_ema=average(variance, state.variance_grads_ema),
        )


class _AbstractProcess(GradientTransformation):
    """Three stages: updates per example, their aggregate, and an optimizer that waits until the aggregate is ready."""

    preprocessor: GradientTransformation
    aggregator: GradientTransformation
    postprocessor: GradientTransformation
    aggregator_has_aux: bool = static(False)

    def __new__(cls, *args, **kwargs):
        aggregator = args[1] if len(args) > 1 else kwargs.get("aggregator")
        if cls is Process and isinstance(aggregator, Aggregator):
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
            extra_args = extra_args | aux
        data = {name: value for name, value in extra_args.items() if _is_data(value)}
        rest = {name: value for name, value in extra_args.items() if name not in data}
        # Upstream compiles the optimizer in a branch even where there is nothing to wait for; so do we, for its bits.
        updates, after = jax.lax.cond(
            tree.get(between, "ready", True),
            lambda g, s, p, data: self.postprocessor.update(g, s, p, **data, **rest),
            lambda g, s, p, data: (tree.zeros_like(g), s),
            updates,
            after,
            params,
            data,
        )
        return updates, (before, between, after)


def _is_data(value: Any) -> bool:
    """Whether it can be an operand; functions, such as an objective, are closed over."""
    kinds = jax.Array | np.ndarray | np.generic | float | int | complex
    return all(isinstance(leaf, kinds) for leaf in jax.tree.leaves(value))


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

    preprocessor: GradientTransformation
    aggregator: GradientTransformation
    postprocessor: GradientTransformation
    aggregator_has_aux: bool = static(False)


@final
class AggregatorProcess(_AbstractProcess, AbstractAggregator):
    """`Process` over an `Aggregator`.

    Args:
        preprocessor: a transformation of the updates per example.
        aggregator: an aggregator.
        postprocessor: an optimizer.
        aggregator_has_aux: the aggregator returns a pair of updates and a dict of extra arguments for the optimizer.
    """

    preprocessor: GradientTransformation
    aggregator: GradientTransformation
    postprocessor: GradientTransformation
    aggregator_has_aux: bool = static(False)


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
        _check_steps(self)

    @property
    def _process(self) -> GradientTransformation:
        track = TrackPerElementMeanAndVarianceWithEma.of(self)
        statistics = PerElementMeanAndSumSqDiffGrads.of(self)
        return AggregatorProcess(Identity(), statistics, Chain((track, coerce(self.opt))), aggregator_has_aux=True)

    def init(self, params):
        return self._process.init(params)

    def update(self, updates, state, params=None, **extra_args):
        return self._process.update(updates, state, params, **extra_args)


process = Process
average_per_element_updates = AveragePerElementUpdates
accumulate_avg_updates = AccumulateAvgUpdates
average_incrementally_updates = AverageIncrementallyUpdates
get_per_element_mean_and_sum_sq_diff_grads = PerElementMeanAndSumSqDiffGrads
track_per_element_mean_and_variance_with_ema = TrackPerElementMeanAndVarianceWithEma
add_mean_variance_to_opt = AddMeanVarianceToOpt
