"""What users reported of one optimizer, looked for in all: lost dtypes, shared buffers, leaked tracers, odd calls.

Nothing here is compiled: programs are traced and looked at.
"""

import gc
import importlib
import inspect

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import Var

import pytreeopt
from laws import DEFAULT, build, every_row, given, start, x64
from parity.rows import SCHEDULES
from pytreeopt.base import GradientTransformation
from test_structure import PUBLIC

TRANSFORMATIONS = [cls for cls in PUBLIC if issubclass(cls, GradientTransformation) and cls.__name__ != "FunctionPair"]


def cast(tree, dtype):
    return jax.tree.map(lambda x: x.astype(dtype), tree)


def avals(tree):
    return [(x.shape, x.dtype, x.weak_type) for x in jax.tree.leaves(tree)]


def dtypes(tree):
    return {x.dtype.name for x in jax.tree.leaves(tree)}


def two_updates(row, opt, at, params, gradients):
    """The states before, between and after two updates, and the updates; as shapes and dtypes."""

    def run(opt, params, gradients, extra):
        first = start(row, opt, at._replace(params=params))
        updates, second = opt.update(gradients[0], first, params, **extra)
        again, third = opt.update(gradients[1], second, params, **extra)
        return (first, second, third), (updates, again)

    return jax.eval_shape(run, opt, params, gradients, at.extra[0])


@every_row
@pytest.mark.parametrize("of_params, of_gradients", [("float32", "bfloat16"), ("bfloat16", "float32")])
def test_gradients_in_another_precision_change_no_dtype_of_the_state(row, of_params, of_gradients):
    at = given(row)
    params, gradients = cast(at.params, of_params), cast(at.gradients[:2], of_gradients)
    (first, second, third), (updates, again) = two_updates(row, build(row), at, params, gradients)
    assert avals(first) == avals(second) == avals(third)
    assert avals(updates) == avals(again)
    assert dtypes(updates) <= {of_params, of_gradients}


@every_row
def test_float32_stays_float32_under_x64(row):
    with x64(True):
        at = given(row)
        (first, second, third), (updates, again) = two_updates(row, build(row), at, at.params, at.gradients[:2])
        assert avals(first) == avals(second) == avals(third)
        assert dtypes(updates) == dtypes(again) == {"float32"}


@every_row
def test_a_state_owns_its_buffers_and_no_tracer_leaks(row, monkeypatch):
    """The state that `update` returns may be donated as well as the first: it forwards nothing that it was given."""
    # As in eager code: the per-leaf functions are not compiled, so that what is forwarded shows.
    monkeypatch.setattr(importlib.import_module("pytreeopt.leafwise"), "building_a_jaxpr", lambda columns: False)
    opt, at = build(row), given(row)

    def init(params):
        return start(row, opt, at._replace(params=params))

    def update(state, *rest):
        gradients, params, extra = rest
        return opt.update(gradients, state, params, **extra)[1]

    state = jax.eval_shape(init, at.params)
    gc.freeze()  # the check collects garbage at every jaxpr
    with jax.checking_leaks():
        made = jax.make_jaxpr(init)(at.params)
        moved = jax.make_jaxpr(update)(state, at.gradients[0], at.params, at.extra[0])
    of_state = len(jax.tree.leaves(state))
    for jaxpr, foreign in ((made.jaxpr, made.jaxpr.invars), (moved.jaxpr, moved.jaxpr.invars[of_state:])):
        returned = [var for var in jaxpr.outvars if isinstance(var, Var) and var.aval.size]
        assert len(set(returned)) == len(returned), "a buffer stands in the state twice"
        assert not set(returned) & set(foreign), "the state holds a buffer of the caller's"


@every_row
def test_works_in_bfloat16_under_wrappers_that_choose_at_run_time(row):
    """Both ways of a branch must return the same dtypes."""
    at = given(row)
    params, gradients = cast(at.params, "bfloat16"), cast(at.gradients[:2], "float32")
    # Gradients per example, measurements and states that grow have no place there.
    shapes = [jax.tree.map(jnp.shape, tree) for tree in (params, gradients[0])]
    if shapes[0] != shapes[1] or row.grows or row is DEFAULT["measure_with_ema"]:
        return
    opt = pytreeopt.MultiSteps(pytreeopt.apply_if_finite(build(row), 3), 2, accumulator_dtype=None)
    (first, second, third), _ = two_updates(row, opt, at, params, gradients)
    assert avals(first) == avals(second) == avals(third)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=name)
        for name, row in DEFAULT.items()
        if "learning_rate" in type(build(row))._number_fields.schedulable
    ],
)
def test_a_schedule_and_a_number_take_turns_on_one_state(row):
    """A run on a schedule goes on with a number, and returns to the schedule where it left it."""
    number, at = build(row), given(row)
    schedule = number.replace(learning_rate=pytreeopt.linear_schedule(0.1, 0.0, 10))

    def run(params, gradient, extra):
        states = [schedule.init(params)]
        for one in (schedule, number, schedule):
            states.append(one.update(gradient, states[-1], params, **extra)[1])
        return states

    states = jax.eval_shape(run, at.params, at.gradients[0], at.extra[0])
    assert len({jax.tree.structure(state) for state in states}) == 1


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_made_inside_a_program_leak_nothing(name):
    with jax.checking_leaks():
        jax.make_jaxpr(lambda count: SCHEDULES[name].build(pytreeopt)(count))(3)


@pytest.mark.parametrize("cls", TRANSFORMATIONS, ids=lambda cls: cls.__name__)
def test_can_be_called_by_keyword_with_more_arguments_than_it_knows(cls):
    """Training loops and other libraries write `update(grads, state, params=params, value=loss)`."""
    assert list(inspect.signature(cls.init).parameters) == ["self", "params"]
    parameters = list(inspect.signature(cls.update).parameters.values())
    assert [p.name for p in parameters[:4]] == ["self", "updates", "state", "params"]
    assert parameters[3].default is None
    assert parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
