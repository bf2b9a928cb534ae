"""Mean and variance of the gradients over the examples."""

import math
from collections.abc import Sequence
from typing import Any, final

import jax
import jax.numpy as jnp
from optax import safe_increment, tree

from pytreeopt.base import GradientTransformation, Numeric
from pytreeopt.errors import StructureError, require_state
from pytreeopt.experimental._averages import AbstractAggregator, check_steps
from pytreeopt.fields import static
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import keep_dtype, update_moment, zeros_like
from pytreeopt.states import EmptyState, PerElementMeanAndSumSqDiffGradsState, PerElementMeanAndVarianceEMAState


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
        check_steps(self)

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
        # Of complex numbers the two are rounded differently, and Optax has one here and one there.
        square = jnp.square if self.accumulation_steps > 1 else lambda d: d**2
        mean = leafwise(lambda x: jnp.mean(x, axis=axis, keepdims=True), updates)
        sum_sq = leafwise(lambda x, m: jnp.sum(square(x - m), axis=axis), updates, mean)
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
        per_sample = 1 / (sample_size - 1)
        variance = tree.scale(per_sample, sum_sq_diff_grads)

        def average(new, old):
            return keep_dtype(update_moment(new, old, self.ema_decay, 1), old)

        return updates, PerElementMeanAndVarianceEMAState(
            count=jnp.asarray(safe_increment(state.count)),
            ema_decay=state.ema_decay,
            mean_grads_ema=average(updates, state.mean_grads_ema),
            variance_grads_ema=average(variance, state.variance_grads_ema),
        )
