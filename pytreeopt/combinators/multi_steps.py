"""Gradient accumulation."""

from collections.abc import Callable
from typing import Any, final

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from optax import safe_increment

from pytreeopt.base import GradientTransformation, ScalarOrSchedule, coerce
from pytreeopt.combinators.agreement import filled, step_or_keep, with_dtype
from pytreeopt.errors import FunctionResultError, require_state
from pytreeopt.fields import static, static_dtype
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import keep_dtype, require_whole, zeros_like
from pytreeopt.states import MultiStepsState


@final
class MultiSteps(GradientTransformation):
    r"""Accumulates gradients over several mini-steps and steps with their mean; the updates in between are 0.

    $$ a_{i+1} = a_i + \frac{g_i - a_i}{i + 1}, \qquad \text{a step with } a_k \text{ after } k \text{ mini-steps} $$

    The optimizer runs at every mini-step, and what it returns counts at the last one.

    Args:
        opt: the optimizer.
        every_k_schedule: $k$, a whole number >= 1 of any type, or a function from the number of steps taken to one.
        use_grad_mean: accumulate the mean, else the sum.
        should_skip_update_fn: maps updates, number of steps and params (or None) to a bool array, true if this
            mini-step must not count, and a tree to store in the state; `skip_not_finite` is one. None skips none.
        accumulator_dtype: dtype of the accumulated gradients; None keeps that of the params.
    """

    opt: GradientTransformation
    every_k_schedule: ScalarOrSchedule
    use_grad_mean: bool = static(True)
    should_skip_update_fn: Callable[..., Any] | None = static(None)
    accumulator_dtype: DTypeLike | None = static_dtype(jnp.float32)

    @property
    def inner_opt(self) -> GradientTransformation:
        """The optimizer, as a transformation of ours."""
        return coerce(self.opt)

    def gradient_transformation(self) -> GradientTransformation:
        """Itself: it is a transformation."""
        return self

    def has_updated(self, state: Any) -> jax.Array:
        """Whether the last mini-step completed a step."""
        return jnp.logical_and(state.mini_step == 0, state.gradient_step > 0)

    def init(self, params):
        step = jnp.zeros([], jnp.int32)
        _, skip_state = self._should_skip(jax.tree.map(jnp.zeros_like, params), step, params)
        return MultiStepsState(
            mini_step=jnp.zeros([], jnp.int32),
            gradient_step=step,
            inner_opt_state=self.inner_opt.init(params),
            acc_grads=zeros_like(params, self.accumulator_dtype),
            skip_state=skip_state,
        )

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, MultiStepsState)
        skip, skip_state = self._should_skip(updates, state.gradient_step, params)
        state = state._replace(skip_state=skip_state)
        k = self._mini_steps(state.gradient_step)  # here it may be known; in a branch it would be traced
        # The choice between skipping and not is made at run time even if nothing is ever skipped: Optax's program.
        return step_or_keep(
            jnp.logical_not(skip),
            lambda: self._mini_step(k, updates, state, params, extra_args),
            lambda: leafwise(jnp.zeros_like, updates),
            state,
        )

    def _mini_step(self, k, updates, state, params, extra_args):
        last = state.mini_step >= (k - 1)  # a traced k may be no whole number
        number = state.mini_step + 1
        if self.use_grad_mean:
            mean = leafwise(lambda g, a: a + (g - a) / number, updates, state.acc_grads)
        else:
            mean = leafwise(lambda g, a: g + a, updates, state.acc_grads)
        new_updates, inner = self.inner_opt.update(
            keep_dtype(mean, updates), state.inner_opt_state, params, **extra_args
        )
        old_inner = filled(state.inner_opt_state, inner)
        return leafwise(lambda u: _times(last, u), new_updates), MultiStepsState(
            mini_step=with_dtype(safe_increment(state.mini_step) % k, state.mini_step),
            gradient_step=jnp.where(last, safe_increment(state.gradient_step), state.gradient_step),
            inner_opt_state=jax.tree.map(lambda old, new: jnp.where(last, with_dtype(new, old), old), old_inner, inner),
            acc_grads=keep_dtype(leafwise(lambda a: _times(1 - last, a), mean), state.acc_grads),
            skip_state=state.skip_state,
        )

    def _mini_steps(self, step: jax.Array) -> Any:
        k = self.every_k_schedule
        return require_whole("every_k_schedule", k(step) if callable(k) else k)

    def _should_skip(self, updates, step, params):
        if self.should_skip_update_fn is None:
            return jnp.array(False), ()
        skip, skip_state = self.should_skip_update_fn(updates, step, params)
        skip = jnp.asarray(skip)
        if skip.dtype != jnp.bool_ or skip.shape != ():
            raise FunctionResultError(
                f"needs one bool from should_skip_update_fn, got {skip.dtype} of shape {skip.shape}"
            )
        return skip, skip_state


def _times(flag: jax.Array, x: jax.Array) -> jax.Array:
    """`flag * x` for a flag of 0 or 1, and 0 where that is 0 times infinity or NaN.

    The guard stands behind the product: before it, the compiler gives the zeros another sign.
    """
    return jnp.where((flag != 0) | jnp.isfinite(x), flag * x, 0)
