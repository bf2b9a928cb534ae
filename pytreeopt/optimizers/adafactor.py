"""Adafactor: second moments stored as a row and a column."""

from collections.abc import Callable
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from optax import safe_increment

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_params, require_state
from pytreeopt.fields import static, static_dtype, static_tree
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import abs_sq, inverse_sqrt, require_inexact
from pytreeopt.states import FactoredState
from pytreeopt.transforms.accumulate import Ema
from pytreeopt.transforms.clip import ClipByBlockRms
from pytreeopt.transforms.param_scale import ScaleByParamBlockRms
from pytreeopt.transforms.scale import Scale, ScaleByLearningRate
from pytreeopt.transforms.weight_decay import AddDecayedWeights


def decay_rate_pow(step: Any, exponent: Any = 0.8) -> Any:
    r"""$1 - t^{-c}$ with $t$ = step + 1, at least 1: steps before the offset count as the first."""
    t = jnp.maximum(jnp.array(step + 1, jnp.float32), 1.0)
    return 1.0 - t ** (-exponent)


@final
class ScaleByFactoredRms(GradientTransformation):
    r"""Divides by the root of an average squared gradient that is stored as a row and a column.

    $$ R_t = \hat\beta_t R_{t-1} + (1-\hat\beta_t)\, \mathrm{mean}_{\mathrm{cols}}(|g_t|^2 + \epsilon), \quad
    C_t \text{ likewise by rows}, \quad
    u_t = g_t \Big/ \sqrt{R_t C_t / \mathrm{mean}(R_t)}, \qquad \hat\beta_t = 1 - t^{-c} $$

    The two largest axes of a leaf are factored if both have at least `min_dim_size_to_factor` elements; other
    leaves store the whole average. Statistics have the dtype of the params.

    Args:
        factored: whether to factor at all.
        decay_rate: $c$, exponent of the decay, positive.
        step_offset: step at which a fine-tuning run starts to count.
        min_dim_size_to_factor: least size of both axes.
        epsilon: $\epsilon$, added to the squared gradient, positive.
        decay_rate_fn: maps step and `decay_rate` to $\hat\beta$; the default is $1 - t^{-c}$.

    References:
        Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost, 2018,
        https://arxiv.org/abs/1804.04235
    """

    factored: bool = static(True)
    decay_rate: Numeric = 0.8
    step_offset: Numeric = 0
    min_dim_size_to_factor: int = static(128)
    epsilon: Numeric = 1e-30
    decay_rate_fn: Callable[[Any, Any], Any] = static(decay_rate_pow)

    def _axes(self, shape) -> tuple[int, int] | None:
        """The second largest and the largest axis, if the leaf is to be factored."""
        if not self.factored or len(shape) < 2:
            return None
        order = np.argsort(shape)
        if shape[order[-2]] < self.min_dim_size_to_factor:
            return None
        return int(order[-2]), int(order[-1])

    def init(self, params):
        def statistics(param):
            axes = self._axes(param.shape)
            # One empty slot of its own for each: a donated state must not share buffers.
            row, col, full = (jnp.zeros((1,), param.dtype) for _ in range(3))
            if axes is None:
                return row, col, jnp.zeros_like(param)
            small, large = axes
            return _zeros_without_axis(param, large), _zeros_without_axis(param, small), full

        require_inexact(params)
        v_row, v_col, v = leafwise(statistics, params, outputs=3)
        return FactoredState(count=jnp.zeros([], jnp.int32), v_row=v_row, v_col=v_col, v=v)

    def update(self, updates, state, params=None, **extra_args):
        params = require_params(params)
        state = require_state(state, FactoredState)
        decay = self.decay_rate_fn(state.count - self.step_offset, self.decay_rate)

        def step(grad, v_row, v_col, v, param):
            dtype = param.dtype
            # Each its own, as in init.
            unused, also_unused = jnp.zeros((1,), dtype), jnp.zeros((1,), dtype)
            axes = self._axes(param.shape)
            if axes is None:
                v = (decay * v + (1.0 - decay) * (abs_sq(grad) + self.epsilon)).astype(dtype)
                update = grad * inverse_sqrt(v)
                return _zero_where_underflown(update, v == 0), unused, also_unused, v
            small, large = axes
            grad_sqr = abs_sq(grad) + self.epsilon
            v_row = (decay * v_row + (1.0 - decay) * jnp.mean(grad_sqr, axis=large)).astype(dtype)
            v_col = (decay * v_col + (1.0 - decay) * jnp.mean(grad_sqr, axis=small)).astype(dtype)
            row_mean = jnp.mean(v_row, axis=small - 1 if small > large else small, keepdims=True)
            row = jnp.expand_dims(inverse_sqrt(v_row / row_mean), axis=large)
            col = jnp.expand_dims(inverse_sqrt(v_col), axis=small)
            underflown = jnp.expand_dims(v_row == 0, large) | jnp.expand_dims(v_col == 0, small)
            return _zero_where_underflown(grad * row * col, underflown), v_row, v_col, unused

        out, v_row, v_col, v = leafwise(step, updates, state.v_row, state.v_col, state.v, params, outputs=4)
        return out, FactoredState(count=safe_increment(state.count), v_row=v_row, v_col=v_col, v=v)


def _zeros_without_axis(x, axis):
    """By way of a sum, so that a sharded leaf gives sharded statistics."""
    return jnp.zeros_like(jax.eval_shape(lambda x: jnp.sum(x, axis=axis), x))


def _zero_where_underflown(update, underflown):
    """In float16 a small squared gradient is 0, and with it the default epsilon."""
    return jnp.where(underflown, 0, update) if update.dtype == jnp.float16 else update


@final
class AdaFactor(AbstractChain):
    r"""Adafactor: Adam's second moment in the memory of its row and column sums, and no first moment.

    For large models whose optimizer state must be small. Each of the options that may be None leaves its member
    out of the chain. The learning rate may be None: then the step is relative to the parameters alone.

    Args:
        learning_rate: $\eta$, a number, a schedule, or None.
        min_dim_size_to_factor: least size of both axes of a leaf that is factored.
        decay_rate: $c$ of $\hat\beta_t = 1 - t^{-c}$, positive.
        decay_offset: step at which a fine-tuning run starts to count.
        multiply_by_parameter_scale: make the step relative to the root mean square of the parameters.
        clipping_threshold: greatest root mean square of a leaf of the updates, positive, or None.
        momentum: decay of an average of the updates, in [0, 1), or None.
        dtype_momentum: dtype of that average.
        weight_decay_rate: a number or a schedule, or None; not multiplied by the learning rate.
        eps: $\epsilon$, added to the squared gradient, positive.
        factored: whether to factor at all.
        weight_decay_mask: tree of bools, or function of the params that makes one: where true, weights decay.

    References:
        Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost, 2018,
        https://arxiv.org/abs/1804.04235
    """

    learning_rate: ScalarOrSchedule | None = None
    min_dim_size_to_factor: int = static(128)
    decay_rate: Numeric = 0.8
    decay_offset: Numeric = 0
    multiply_by_parameter_scale: bool = static(True)
    clipping_threshold: Numeric | None = 1.0
    momentum: Numeric | None = None
    dtype_momentum: DTypeLike = static_dtype(jnp.float32)
    weight_decay_rate: ScalarOrSchedule | None = None
    eps: Numeric = 1e-30
    factored: bool = static(True)
    weight_decay_mask: Any = static_tree(None)

    @property
    def chain(self):
        members: list[GradientTransformation] = [
            ScaleByFactoredRms.of(self, step_offset=self.decay_offset, epsilon=self.eps, decay_rate_fn=decay_rate_pow)
        ]
        if self.clipping_threshold is not None:
            members.append(ClipByBlockRms(self.clipping_threshold))
        if self.learning_rate is not None:
            members.append(ScaleByLearningRate(self.learning_rate, flip_sign=False))
        if self.multiply_by_parameter_scale:
            members.append(ScaleByParamBlockRms())
        if self.momentum is not None:
            members.append(Ema(self.momentum, debias=False, accumulator_dtype=self.dtype_momentum))
        if self.weight_decay_rate is not None:
            members.append(AddDecayedWeights(self.weight_decay_rate, self.weight_decay_mask))
        return (*members, Scale(-1))


scale_by_factored_rms, adafactor = ScaleByFactoredRms, AdaFactor
