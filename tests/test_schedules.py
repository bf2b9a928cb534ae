"""Schedules: equal to upstream's where it is finite, and right where it is not."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import serialization

import pytreeopt
from parity.oracles import x64
from parity.rows import SCHEDULES
from pytreeopt.fields import Named

DEFAULT = [pytest.param(row, id=name) for name, row in SCHEDULES.items() if row.default]
ROWS = [pytest.param(row, id=name) for name, row in SCHEDULES.items()]
COUNTS = jnp.arange(17)

values = jax.jit(lambda schedule: jax.vmap(lambda count: jnp.asarray(schedule(count), jnp.float32))(COUNTS))
values_and_slopes = jax.jit(lambda schedule: (values(schedule), jax.jacrev(values)(schedule)))


def as_floats(schedule):
    """Its numbers as floats, so that it can be differentiated by all of them."""
    return jax.tree.map(float, schedule)


@pytest.mark.parametrize("row", ROWS)
def test_traced_numbers_give_the_same_values_and_finite_derivatives(row):
    schedule = row.build(pytreeopt)
    expected = jnp.stack([jnp.asarray(schedule(int(count)), jnp.float32) for count in COUNTS])
    found, slopes = values_and_slopes(as_floats(schedule))
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6 * float(jnp.max(jnp.abs(expected))))
    for path, slope in jax.tree_util.tree_leaves_with_path(slopes):
        assert jnp.isfinite(slope).all(), (jax.tree_util.keystr(path), slope)


@pytest.mark.parametrize("row", DEFAULT)
def test_derivatives_agree_with_finite_differences(row):
    with x64(True):
        leaves, treedef = jax.tree.flatten(as_floats(row.build(pytreeopt)))

        def at(numbers):
            schedule = jax.tree.unflatten(treedef, list(numbers))
            return jax.vmap(lambda count: jnp.asarray(schedule(count + 0.37), jnp.float64))(COUNTS)

        numbers = jnp.asarray(leaves)
        slopes = jax.jit(jax.jacfwd(at))(numbers)
        moved = jax.jit(jax.vmap(at))
        steps = 1e-6 * jnp.eye(len(leaves))
        expected = (moved(numbers + steps) - moved(numbers - steps)) / 2e-6
        np.testing.assert_allclose(slopes, expected.T, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("row", DEFAULT)
def test_is_a_value_and_a_pytree(row):
    schedule, same = row.build(pytreeopt), row.build(pytreeopt)
    assert schedule == same
    assert hash(schedule) == hash(same)
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    leaves, treedef = jax.tree.flatten(schedule)
    assert jax.tree.unflatten(treedef, leaves) == schedule
    assert jax.tree.unflatten(treedef, [leaf + 1 for leaf in leaves]) != schedule
    jax.tree.unflatten(treedef, [object()] * len(leaves))
    assert jax.tree.leaves(jax.tree.map(lambda _: 0, schedule)) == [0] * len(leaves)
    state = serialization.to_state_dict(schedule)
    assert jax.tree.leaves(serialization.from_state_dict(schedule, state)) == leaves


@pytest.mark.parametrize("row", DEFAULT)
def test_vmap_over_all_numbers_equals_a_loop(row):
    schedule = as_floats(row.build(pytreeopt))
    members = [jax.tree.map(lambda x, f=f: x * f, schedule) for f in (0.9, 1.0, 1.2)]
    stacked = jax.tree.map(lambda *leaves: jnp.asarray(leaves), *members)
    together = jax.vmap(values)(stacked)
    one_by_one = jnp.stack([values(member) for member in members])
    np.testing.assert_allclose(together, one_by_one, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("row", DEFAULT)
def test_one_trace_for_every_value(row):
    schedule, traces = row.build(pytreeopt), 0

    @jax.jit
    def value(schedule):
        nonlocal traces
        traces += 1
        return schedule(jnp.int32(3))

    value(schedule)
    for change in (lambda x: x * 2, np.asarray, jnp.asarray):
        value(jax.tree.map(change, schedule))
    assert traces == 1


def test_fractional_power_is_finite_when_compiled():
    theirs = jax.jit(optax.polynomial_schedule(0.1, 1e-3, 2.5, 10))
    assert jnp.isnan(theirs(jnp.int32(10)))
    ours = jax.jit(pytreeopt.polynomial_schedule(0.1, 1e-3, 2.5, 10))
    assert ours(jnp.int32(10)) == jnp.float32(1e-3)
    assert ours(jnp.int32(9)) == theirs(jnp.int32(9))


@pytest.mark.parametrize("traced_step", [False, True])
def test_no_nan_leaks_from_a_piece_that_is_not_selected(traced_step):
    def value(rate, step):
        before = lambda t: rate * jnp.sqrt(5.0 - t)
        middle = lambda t: rate * jnp.sqrt(rate * (t + 1) * (3 - t))
        after = lambda t: rate * jnp.log(t + 1.0)
        return pytreeopt.join_schedules([before, middle, after], [5, 8])(step)

    slope = jax.grad(value)
    if traced_step:
        slope = jax.jit(slope)
    for step in (0, 4, 5, 7, 8, 100):
        at = jnp.int32(step) if traced_step else step
        assert jnp.isfinite(slope(0.5, at)), step


def test_concrete_arrays_are_numbers_in_compiled_code():
    schedules = [
        pytreeopt.exponential_decay(jnp.float32(0.1), jnp.int32(4), jnp.float32(0.5)),
        pytreeopt.warmup_cosine_decay_schedule(0.0, jnp.float32(1.0), jnp.int32(3), jnp.int32(9)),
        pytreeopt.piecewise_interpolate_schedule("linear", 1.0, {3: jnp.float32(2.0), 1: 0.5}),
    ]
    for schedule in schedules:
        np.testing.assert_allclose(jax.jit(lambda c, s=schedule: s(c))(5), schedule(5), rtol=1e-6)


def test_traced_boundaries_need_not_be_sorted():
    schedule = pytreeopt.piecewise_interpolate_schedule("linear", 1.0, {2: 0.5, 6: 3.0})
    leaves, treedef = jax.tree.flatten(schedule)
    assert leaves == [1.0, 2, 6, 0.5, 3.0]
    swapped = jax.tree.unflatten(treedef, [1.0, 6, 2, 3.0, 0.5])
    np.testing.assert_allclose(values(swapped), values(schedule))
    assert swapped(4) == schedule(4)


def test_mappings_read_like_those_given():
    given = {200: np.float32(0.5), 100: 0.1}
    steps = pytreeopt.piecewise_constant_schedule(1.0, given).boundaries_and_scales
    assert steps is not None
    assert steps == {100: 0.1, 200: 0.5}
    assert dict(steps) == {100: 0.1, 200: 0.5}
    assert steps[200] == 0.5
    assert 100 in steps
    assert 7 not in steps
    assert len(steps) == 2
    assert list(steps) == [100, 200]
    assert repr(steps) == "{100: 0.1, 200: 0.5}"
    (cycle,) = pytreeopt.sgdr_schedule(
        {"init_value": 0.0, "peak_value": 1.0, "warmup_steps": w, "decay_steps": 9} for w in (2,)
    ).cosine_kwargs
    assert isinstance(cycle, Named)
    assert cycle["warmup_steps"] == 2


CYCLE = {"init_value": 0.0, "peak_value": 1.0, "warmup_steps": 5, "decay_steps": 3}
BAD = {
    "cosine": (lambda o: o.cosine_decay_schedule(1.0, 0), "CosineDecaySchedule: decay_steps must be positive, got 0"),
    "cosine, array": (lambda o: o.cosine_decay_schedule(1.0, jnp.int32(-1))(0), "decay_steps must be positive, got -1"),
    "warmup": (lambda o: o.warmup_cosine_decay_schedule(0.0, 1.0, 5, 5), "greater than warmup_steps, got 5 and 5"),
    "linear onecycle": (lambda o: o.linear_onecycle_schedule(0, 1.0), "transition_steps must be positive, got 0"),
    "cosine onecycle": (lambda o: o.cosine_onecycle_schedule(-1, 1.0), "transition_steps must be positive, got -1"),
    "scales": (lambda o: o.piecewise_constant_schedule(1, {3: -1.0}), "scales must not be negative"),
    "interpolated": (lambda o: o.piecewise_interpolate_schedule("cosine", 1.0, {3: -1.0}), "must not be negative"),
    "type": (lambda o: o.piecewise_interpolate_schedule("cubic", 1.0, {3: 1.0}), '"linear" or "cosine", got \'cubic\''),
    "cycle": (lambda o: o.sgdr_schedule([CYCLE]), "greater than warmup_steps, got 3 and 5"),
    "no cycle": (lambda o: o.sgdr_schedule([]), "at least one cycle"),
    "boundaries": (lambda o: o.join_schedules([o.constant_schedule(1.0)] * 3, [7, 3]), r"must ascend, got \(7, 3\)"),
    "at use": (lambda o: o.join_schedules([abs] * 3, [7, 3])(0), r"must ascend, got \[7, 3\]"),
    "array": (lambda o: o.join_schedules([abs] * 3, jnp.array([7, 3]))(0), r"must ascend, got \[7, 3\]"),
    "too few": (lambda o: o.join_schedules([abs] * 3, [7]), "one boundary fewer than schedules, got 1 and 3"),
    "none": (lambda o: o.join_schedules([], []), "got 0 and 0"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=list(BAD))
def test_bad_numbers_are_refused(case):
    make, message = case
    with pytest.raises(ValueError, match=message):
        make(pytreeopt)


def test_missing_arguments_are_pythons_own_error():
    with pytest.raises(TypeError, match="decay_steps"):
        pytreeopt.sgdr_schedule([{"init_value": 0.0, "peak_value": 1.0, "warmup_steps": 1}])  # type: ignore[list-item]


def test_axis_numbers_stand_in_for_values():
    joined = pytreeopt.join_schedules([pytreeopt.linear_schedule(0.0, 1.0, 3), pytreeopt.constant_schedule(1.0)], [3])
    axes = jax.tree.map(lambda _: None, joined).replace(boundaries=(0,))
    batch = joined.replace(boundaries=(jnp.array([2, 3]),))
    out = jax.vmap(lambda s: s(2), in_axes=(axes,))(batch)
    np.testing.assert_allclose(out, [1.0, 2 / 3])


@pytest.mark.parametrize("row", ROWS)
def test_a_weakly_typed_step_gives_the_type_that_upstream_gives(row):
    """As the index of a `fori_loop` is, or a Python number that is traced."""
    ours, theirs = (jax.eval_shape(row.build(library), 4) for library in (pytreeopt, optax))
    assert (ours.dtype, ours.weak_type) == (theirs.dtype, theirs.weak_type)
