"""Zoom: bracket a step that decreases the objective enough and flattens its slope, then narrow the bracket."""

from collections.abc import Callable
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from optax import safe_increment, tree

from pytreeopt.base import GradientTransformation, Numeric
from pytreeopt.errors import HyperparameterValueError, require_params, require_state
from pytreeopt.fields import static
from pytreeopt.linesearch.objective import bind, infinity, real_dtype, report_if, zero_steps
from pytreeopt.numerics import zeros_like
from pytreeopt.states import LinesearchFlags, ScaleByZoomLinesearchState, ZoomLinesearchInfo


class _Point(NamedTuple):
    """A step along the line, and the objective's value and slope there."""

    stepsize: Any
    value: Any
    slope: Any


class _Line(NamedTuple):
    """The objective along the updates: where it starts, the first step to try, and how to look at another."""

    start: _Point
    guess: Any
    look: Callable[[Any], tuple[_Point, Any]]


class _Fallback(NamedTuple):
    """The best step so far that decreases the objective enough; its size is 0 while there is none."""

    stepsize: Any
    value: Any
    grad: Any


class _Search(NamedTuple):
    """What the loop carries. `low` has the smaller value, not the smaller step, of the two ends of the bracket."""

    count: Any
    last: _Point
    grad: Any
    decrease_error: Any
    curvature_error: Any
    bracketed: Any
    done: Any
    failed: Any
    low: _Point
    high: _Point
    reference_stepsize: Any
    reference_value: Any
    fallback: _Fallback


@final
class ScaleByZoomLinesearch(GradientTransformation):
    r"""Multiplies the updates by a learning rate that satisfies both of Wolfe's criteria.

    The objective decreases enough and its slope along the updates has flattened,

    $$ f(\theta + \eta u) \le f(\theta) + c_1 \eta \langle u, \nabla f(\theta) \rangle + a, \qquad
    |\langle u, \nabla f(\theta + \eta u) \rangle| \le c_2 |\langle u, \nabla f(\theta) \rangle| + a $$

    Near a minimum, where differences of values drown in rounding, the first criterion may be replaced by Hager and
    Zhang's, $\langle u, \nabla f(\theta + \eta u) \rangle \le (2 c_1 - 1) \langle u, \nabla f(\theta) \rangle + a$
    together with $f(\theta + \eta u) \le f(\theta) + c_3 |f(\theta)| + a$.

    First the step grows by the factor $i$ until it brackets such an $\eta$; then the bracket narrows, at the minimum
    of a cubic or a quadratic through its ends, or at its middle. If the steps are used up, the best step with enough
    decrease is taken, else the last, or 0 if the objective is not finite there. The usual choice behind `LBFGS`,
    whose directions need the second criterion.

    `update` needs the keyword arguments `value` and `grad` at the params, and `value_fn`, the objective; further ones
    go to `value_fn`. `value_and_grad_from_state` reuses what the search has evaluated last.

    The search is a loop of unknown length: derivatives by forward mode only (`jax.jvp`, `jax.jacfwd`), reverse mode
    raises JAX's own error. What enters comparisons only (the tolerances, the precision, the number of steps) has zero
    derivative. The state starts with the learning rate 1.

    Args:
        max_linesearch_steps: greatest number of evaluations, at least 1.
        max_learning_rate: greatest learning rate, positive, or None; a small one can rule out the second criterion.
        tol: $a$, tolerance of both criteria, at least 0.
        increase_factor: $i$, greater than 1.
        slope_rtol: $c_1$, in (0, 1/2).
        curv_rtol: $c_2$, in ($c_1$, 1); infinity drops the second criterion.
        approx_dec_rtol: $c_3$, at least 0; None drops Hager and Zhang's criterion.
        stepsize_precision: length at which a bracket is not narrowed further if some step decreases enough.
        initial_guess_strategy: first step to try: "one", for Newton-like directions, or "keep" the last learning rate.
        verbose: print at run time why a search failed.

    References:
        Nocedal and Wright, Numerical Optimization, 1999, algorithms 3.5 and 3.6,
        https://doi.org/10.1007/978-0-387-40065-5
        Hager and Zhang, Algorithm 851: CG_DESCENT, 2006, https://doi.org/10.1145/1132973.1132979
    """

    max_linesearch_steps: Numeric
    max_learning_rate: Numeric | None = None
    tol: Numeric = 0.0
    increase_factor: Numeric = 2.0
    slope_rtol: Numeric = 1e-4
    curv_rtol: Numeric = 0.9
    approx_dec_rtol: Numeric | None = 1e-6
    stepsize_precision: Numeric = 1e-5
    initial_guess_strategy: str = static("keep")
    verbose: bool = static(False)

    def init(self, params):
        dtype = real_dtype(params)
        return ScaleByZoomLinesearchState(
            learning_rate=jnp.ones((), dtype),
            value=infinity(dtype),
            grad=zeros_like(params),
            info=ZoomLinesearchInfo(
                num_linesearch_steps=zero_steps(), decrease_error=infinity(), curvature_error=infinity()
            ),
        )

    def update(self, updates, state, params=None, *, value, grad, value_fn, **extra_args):
        params = require_params(params)
        state = require_state(state, ScaleByZoomLinesearchState)
        value_and_grad = jax.value_and_grad(bind(value_fn, extra_args))

        def look(stepsize):
            there = tree.add_scale(params, stepsize, updates)
            new_value, new_grad = value_and_grad(there)
            new_slope = tree.real(tree.vdot(tree.conj(new_grad), updates))
            return _Point(stepsize, new_value, new_slope), new_grad

        slope = tree.real(tree.vdot(updates, grad))
        start = _Point(jnp.asarray(0.0), jnp.asarray(value), slope)
        line = _Line(start, self._first_guess(state.learning_rate), look)
        found = jax.lax.while_loop(
            lambda search: ~(search.done | search.failed),
            lambda search: self._step(line, search),
            _begin(line, grad, params),
        )
        new_state = ScaleByZoomLinesearchState(
            learning_rate=found.last.stepsize,
            value=found.last.value,
            grad=found.grad,
            info=ZoomLinesearchInfo(
                num_linesearch_steps=found.count,
                decrease_error=found.decrease_error,
                curvature_error=found.curvature_error,
            ),
        )
        scaled = tree.scale(found.last.stepsize, updates)
        return scaled, tree.cast_like(new_state, other_tree=state)

    def _first_guess(self, last_rate):
        match self.initial_guess_strategy:
            case "one":
                return jnp.asarray(1.0)
            case "keep":
                return last_rate
        raise HyperparameterValueError(
            f"needs 'one' or 'keep' as initial_guess_strategy, got {self.initial_guess_strategy!r}"
        )

    def _step(self, line, search):
        """One evaluation: in the bracket, or on the way to one. After the last, what to fall back on."""
        search = jax.lax.cond(
            search.bracketed, lambda s: self._narrow(line, s), lambda s: self._extend(line, s), search
        )
        return jax.lax.cond(search.failed, lambda s: self._fall_back(line, s), lambda s: s, search)

    def _errors(self, line, point):
        """By how much a point misses the two criteria; infinite where that is NaN."""
        start = line.start
        decrease = point.value - start.value - self.slope_rtol * point.stepsize * start.slope
        if self.approx_dec_rtol is not None:
            flatter = point.slope - (2 * self.slope_rtol - 1.0) * start.slope
            no_higher = point.value - start.value - self.approx_dec_rtol * jnp.abs(start.value)
            decrease = jnp.minimum(jnp.maximum(flatter, no_higher), decrease)
        curvature = jnp.abs(point.slope) - self.curv_rtol * jnp.abs(start.slope)
        return _violation(decrease), _violation(curvature)

    def _extend(self, line, search):
        """Tries a longer step, until two steps enclose a good one."""
        previous = search.last
        stepsize = jnp.where(search.count == 0, line.guess, self.increase_factor * previous.stepsize)
        at_limit = jnp.asarray(False)
        if self.max_learning_rate is not None:
            at_limit = stepsize >= self.max_learning_rate
            stepsize = jnp.minimum(stepsize, self.max_learning_rate)
        point, grad = line.look(stepsize)
        decrease_error, curvature_error = self._errors(line, point)
        error = jnp.maximum(decrease_error, curvature_error)
        good = error <= self.tol
        fallback = tree.where(decrease_error <= self.tol, _Fallback(point.stepsize, point.value, grad), search.fallback)
        too_far = (decrease_error > 0.0) | ((point.value >= previous.value) & (search.count > 0))
        past_minimum = (point.slope >= 0.0) & ~too_far
        low, high = tree.where(past_minimum, (point, previous), (previous, point))
        bracketed = too_far | past_minimum | good
        stuck = at_limit & ~bracketed
        done = good | stuck
        if self.verbose:
            flags = f"{LinesearchFlags.INTERVAL_NOT_FOUND}\n{LinesearchFlags.CURVATURE_COND_NOT_SATISFIED}"
            report_if(stuck, _SUMMARY + flags, **_summary(line, point, decrease_error, curvature_error))
        new = search._replace(
            count=safe_increment(search.count),
            last=point,
            grad=grad,
            decrease_error=decrease_error,
            curvature_error=curvature_error,
            bracketed=bracketed,
            done=done,
            failed=(search.count + 1 >= self.max_linesearch_steps) & ~done,
            low=low,
            high=high,
            reference_stepsize=low.stepsize,
            reference_value=low.value,
            fallback=fallback,
        )
        return tree.cast_like(new, other_tree=search)

    def _narrow(self, line, search):
        """Tries a step inside the bracket, and moves one of its ends there."""
        low, high = search.low, search.high
        length = jnp.abs(high.stepsize - low.stepsize)
        point, grad = line.look(_inside(low, high, search.reference_stepsize, search.reference_value, length))
        decrease_error, curvature_error = self._errors(line, point)
        done = jnp.maximum(decrease_error, curvature_error) <= self.tol
        better = (decrease_error <= self.tol) & (point.value < search.fallback.value)
        fallback = tree.where(better, _Fallback(point.stepsize, point.value, grad), search.fallback)

        high_moves = (decrease_error > 0.0) | (point.value >= low.value)
        turns = (point.slope * (high.stepsize - low.stepsize) >= 0.0) & ~high_moves
        new_high = tree.where(turns, low, tree.where(high_moves, point, high))
        new_low = tree.where(~high_moves, point, low)
        # The end that is left behind is a third point for the next cubic.
        reference_stepsize, reference_value = tree.where(high_moves | turns, high[:2], low[:2])

        used_up = jnp.asarray(search.count + 1 >= self.max_linesearch_steps)
        close_enough = (length <= self.stepsize_precision) & (fallback.stepsize > 0.0)
        new = search._replace(
            count=safe_increment(search.count),
            last=point,
            grad=grad,
            decrease_error=decrease_error,
            curvature_error=curvature_error,
            done=done,
            failed=(used_up | close_enough) & ~done,
            low=new_low,
            high=new_high,
            reference_stepsize=reference_stepsize,
            reference_value=reference_value,
            fallback=fallback,
        )
        return tree.cast_like(new, other_tree=search)

    def _fall_back(self, line, search):
        """The best step with enough decrease; without one, the last step, or none where the objective is not finite."""
        fallback, nowhere = search.fallback, jnp.isinf(search.decrease_error)
        last = _Fallback(search.last.stepsize, search.last.value, search.grad)
        stepsize, value, grad = tree.where((fallback.stepsize > 0.0) | nowhere, fallback, last)
        if self.verbose:
            self._report_failure(line, search)
        new = search._replace(last=_Point(stepsize, value, search.last.slope), grad=grad)
        return tree.cast_like(new, other_tree=search)

    def _report_failure(self, line, search):
        flags, slope, stepsize = LinesearchFlags, line.start.slope, search.last.stepsize
        jax.debug.print(
            _SUMMARY, ordered=True, **_summary(line, search.last, search.decrease_error, search.curvature_error)
        )
        length = jnp.abs(search.low.stepsize - search.high.stepsize)
        report_if(length <= self.stepsize_precision, flags.INTERVAL_TOO_SMALL + " Length: {length}.", length=length)
        has_fallback = search.fallback.stepsize > 0.0
        report_if(
            has_fallback,
            flags.CURVATURE_COND_NOT_SATISFIED + " Learning rate: {stepsize}.",
            stepsize=search.fallback.stepsize,
        )
        lost, downhill, nowhere = ~has_fallback, slope < 0.0, jnp.isinf(search.decrease_error)
        eps = float(jnp.finfo(jnp.float32).eps)
        report_if(lost, flags.NO_STEPSIZE_FOUND)
        report_if(lost & ~downhill, flags.NOT_A_DESCENT_DIRECTION + "Slope at 0: {slope}.", slope=slope)
        report_if(lost & downhill, "More steps of the search may help.")
        report_if(lost & downhill & (stepsize < eps), "The last step is below float32's precision; x64 may help.")
        report_if(lost & downhill & (jnp.abs(slope) > 1e16), "The slope is very steep; rescale the objective.")
        report_if(lost & nowhere, "The objective is not finite at any step tried; the learning rate is set to 0.")
        report_if(lost & ~nowhere, "The last step is taken although the objective does not decrease enough.")


_SUMMARY = (
    "INFO: ScaleByZoomLinesearch: value {value}, slope {slope}, last learning rate {stepsize}, decrease error "
    "{decrease_error}, curvature error {curvature_error}.\n"
)


def _summary(line, point, decrease_error, curvature_error):
    return {
        "value": line.start.value,
        "slope": line.start.slope,
        "stepsize": point.stepsize,
        "decrease_error": decrease_error,
        "curvature_error": curvature_error,
    }


def _begin(line, grad, params):
    """The search before the first evaluation. Step and value have the params' dtype, as in the state.

    Other steps, the errors and the count are weakly typed, as Optax's: they decide how half precision is promoted.
    """
    dtype, start = real_dtype(params), line.start
    no = jnp.asarray(False)
    return _Search(
        count=jnp.asarray(0),
        last=_Point(start.stepsize.astype(dtype), start.value.astype(dtype), start.slope),
        grad=grad,
        decrease_error=jnp.asarray(jnp.inf),
        curvature_error=jnp.asarray(jnp.inf),
        bracketed=no,
        done=no,
        failed=no,
        low=start,
        high=start,
        reference_stepsize=start.stepsize,
        reference_value=start.value,
        fallback=_Fallback(start.stepsize, start.value, grad),
    )


def _violation(error):
    error = jnp.maximum(error, 0.0)
    return jnp.where(jnp.isnan(error), jnp.inf, error)


def _inside(low, high, reference_stepsize, reference_value, length):
    """Minimum of the cubic, else of the quadratic, if well inside the bracket, else the bracket's middle."""
    left = jnp.minimum(high.stepsize, low.stepsize)
    right = jnp.maximum(high.stepsize, low.stepsize)

    def well_inside(stepsize, margin):
        return (stepsize > left + margin) & (stepsize < right - margin)

    cubic = _cubic_minimum(low, high, reference_stepsize, reference_value)
    quadratic = _quadratic_minimum(low, high)
    use_cubic = well_inside(cubic, 0.2 * length)
    use_quadratic = ~use_cubic & well_inside(quadratic, 0.1 * length)
    middle = (low.stepsize + high.stepsize) / 2.0
    return jnp.where(use_cubic, cubic, jnp.where(use_quadratic, quadratic, middle))


def _cubic_minimum(low, high, reference_stepsize, reference_value):
    """Of the cubic with the value and slope of `low` and the values of `high` and the reference; may be NaN."""
    to_high, to_reference = high.stepsize - low.stepsize, reference_stepsize - low.stepsize
    determinant = (to_high * to_reference) ** 2 * (to_high - to_reference)
    adjugate = jnp.array([[to_reference**2, -(to_high**2)], [-(to_reference**3), to_high**3]])
    residuals = jnp.array(
        [high.value - low.value - low.slope * to_high, reference_value - low.value - low.slope * to_reference]
    )
    third, second = jnp.dot(adjugate, residuals, precision=jax.lax.Precision.HIGHEST) / determinant
    discriminant = second * second - 3.0 * third * low.slope
    return low.stepsize + (-second + jnp.sqrt(discriminant)) / (3.0 * third)


def _quadratic_minimum(low, high):
    """Of the parabola with the value and slope of `low` and the value of `high`; may be NaN."""
    to_high = high.stepsize - low.stepsize
    second = (high.value - low.value - low.slope * to_high) / (to_high**2)
    return low.stepsize - low.slope / (2.0 * second)


scale_by_zoom_linesearch = ScaleByZoomLinesearch
