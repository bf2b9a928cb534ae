"""Backtracking: shrink the learning rate until the objective decreases enough."""

from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from optax import tree

from pytreeopt.base import GradientTransformation, Numeric
from pytreeopt.errors import require_params, require_state
from pytreeopt.fields import static
from pytreeopt.linesearch.objective import bind, infinity, real_dtype, report_if, zero_steps
from pytreeopt.numerics import keep_dtype, require_inexact, zeros_like
from pytreeopt.states import BacktrackingLinesearchInfo, ScaleByBacktrackingLinesearchState


class _Trial(NamedTuple):
    """A learning rate, and the objective where it leads; `grad` is None unless gradients are kept."""

    learning_rate: Any
    value: Any
    grad: Any
    decrease_error: Any
    count: Any


@final
class ScaleByBacktrackingLinesearch(GradientTransformation):
    r"""Multiplies the updates by a learning rate that decreases the objective enough (Armijo's criterion).

    The first guess is $\eta = \min(i\, \eta_{t-1}, \eta_{\max})$; then $\eta$ shrinks by the factor $d$ until

    $$ f(\theta + \eta u) \le (1 + r) f(\theta) + c\, \eta \langle u, \nabla f(\theta) \rangle + a $$

    or the steps are used up; then the last $\eta$ is taken all the same, or 0 if the objective is not finite there.
    The updates should point downhill, as plain gradient descent's do; behind momentum or Adam no $\eta$ may satisfy
    the criterion. For descent directions of unknown scale and an objective that is cheap to evaluate.

    `update` needs the keyword arguments `value` and `grad` at the params, and `value_fn`, the objective; further ones
    go to `value_fn`. `value_and_grad_from_state` reuses what the search has evaluated last, with `store_grad`.

    The search is a loop of unknown length: derivatives by forward mode only (`jax.jvp`, `jax.jacfwd`), reverse mode
    raises JAX's own error. `max_backtracking_steps`, `slope_rtol`, `atol` and `rtol` enter comparisons only: their
    derivatives are zero. The state starts with the learning rate 1.

    Args:
        max_backtracking_steps: greatest number of times that the rate shrinks, at least 0.
        slope_rtol: $c$, demanded decrease relative to the slope, in (0, 1).
        decrease_factor: $d$, in (0, 1).
        increase_factor: $i$, by which the last rate is raised for the first guess; 1 keeps it, infinity starts from
            `max_learning_rate`.
        max_learning_rate: $\eta_{\max}$, positive.
        atol: $a$, absolute tolerance, at least 0.
        rtol: $r$, tolerance relative to the value, at least 0.
        store_grad: keep the gradient at the new params in the state.
        verbose: print at run time why a search failed.

    References:
        Nocedal and Wright, Numerical Optimization, 1999, https://doi.org/10.1007/978-0-387-40065-5
        Vaswani et al., Painless Stochastic Gradient, 2019, https://arxiv.org/abs/1905.09997
    """

    max_backtracking_steps: Numeric
    slope_rtol: Numeric = 1e-4
    decrease_factor: Numeric = 0.8
    increase_factor: Numeric = 1.5
    max_learning_rate: Numeric = 1.0
    atol: Numeric = 0.0
    rtol: Numeric = 0.0
    store_grad: bool = static(False)
    verbose: bool = static(False)

    def init(self, params):
        require_inexact(params)
        dtype = real_dtype(params)
        return ScaleByBacktrackingLinesearchState(
            learning_rate=jnp.ones((), dtype),
            value=infinity(dtype),
            grad=zeros_like(params) if self.store_grad else None,
            info=BacktrackingLinesearchInfo(num_linesearch_steps=zero_steps(), decrease_error=infinity(dtype)),
        )

    def update(self, updates, state, params=None, *, value, grad, value_fn, **extra_args):
        params = require_params(params)
        state = require_state(state, ScaleByBacktrackingLinesearchState)
        objective = bind(value_fn, extra_args)
        slope = tree.real(tree.vdot(updates, tree.conj(grad)))

        def decrease_error(learning_rate, new_value):
            error = new_value - (1.0 + self.rtol) * value - learning_rate * self.slope_rtol * slope
            return jnp.maximum(jnp.where(jnp.isnan(error), jnp.inf, error), 0.0)

        def goes_on(trial):
            return ~(trial.decrease_error <= self.atol) & (trial.count <= self.max_backtracking_steps)

        def attempt(trial):
            shrunk = self.decrease_factor * trial.learning_rate
            learning_rate = jnp.where(trial.count > 0, shrunk, trial.learning_rate)
            there = tree.add_scale(params, learning_rate, updates)
            new_grad = trial.grad
            if not self.store_grad:
                new_value = objective(there)
                error = decrease_error(learning_rate, new_value)
            else:
                new_value, derivative = jax.linearize(objective, there)
                error = decrease_error(learning_rate, new_value)
                seed = jnp.ones_like(new_value)
                new_grad = jax.lax.cond(
                    (error <= self.atol) | (trial.count == self.max_backtracking_steps),
                    lambda at: keep_dtype(jax.linear_transpose(derivative, at)(seed)[0], trial.grad),
                    lambda at: trial.grad,
                    there,
                )
            new = _Trial(learning_rate, new_value, new_grad, error, trial.count + 1)
            return tree.cast_like(new, other_tree=trial)

        first = _Trial(
            learning_rate=jnp.minimum(self.increase_factor * state.learning_rate, self.max_learning_rate),
            value=jnp.asarray(value),
            grad=tree.zeros_like(params) if self.store_grad else None,
            decrease_error=jnp.asarray(jnp.inf),  # weakly typed, as Optax's: half precision is promoted alike
            count=jnp.asarray(0),
        )
        last = jax.lax.while_loop(goes_on, attempt, first)
        nowhere = jnp.isinf(last.decrease_error)
        learning_rate = jnp.where(nowhere, 0.0, last.learning_rate)
        if self.verbose:
            report_if(
                last.decrease_error > self.atol,
                "INFO: ScaleByBacktrackingLinesearch found no learning rate with sufficient decrease: value {value}, "
                "slope {slope}, last learning rate {learning_rate}, decrease error {error}.",
                value=value,
                slope=slope,
                learning_rate=last.learning_rate,
                error=last.decrease_error,
            )
            report_if(nowhere, "INFO: the objective is not finite there; the learning rate is set to 0.")
        new_state = ScaleByBacktrackingLinesearchState(
            learning_rate=learning_rate,
            value=last.value,
            grad=last.grad,
            info=BacktrackingLinesearchInfo(num_linesearch_steps=last.count, decrease_error=last.decrease_error),
        )
        return tree.scale(learning_rate, updates), tree.cast_like(new_state, other_tree=state)


scale_by_backtracking_linesearch = ScaleByBacktrackingLinesearch
