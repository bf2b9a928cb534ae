"""Our numbers are Optax's: every row, in the shape that each change is tested in. `make parity` runs them all."""

import dataclasses
import inspect
import itertools
import json
import pathlib
import types
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

import pytreeopt
from parity import schedule_oracles
from parity.oracles import ORACLES, Step, compare, compiled, difference, eager, passes, tolerance
from parity.problems import DTYPES, Problem, problem_of
from parity.row import Row, ScheduleRow
from parity.rows import ROWS, SCHEDULES
from parity.upstream import NAMESPACES, factories, to_upstream
from pytreeopt.base import AbstractHyperparameters, AbstractSchedule, GradientTransformation

STEPS, FEW_STEPS = 10, 3
EVERY_ROW = ("float32", "bfloat16")
HAND_OVER = 3
CLEAR_EVERY = 200

DEFAULTS = [name for name, row in ROWS.items() if row.default and row.runs_in("float32")]
OTHERS = [
    pytest.param(name, dtype, id=f"{name}-{dtype}")
    for dtype in DTYPES
    for name, row in ROWS.items()
    if row.runs_in(dtype) and (dtype in EVERY_ROW or row.default) and (name not in DEFAULTS or dtype != "float32")
]
SCHEDULE_CASES = [
    pytest.param(name, dtype, marks=[] if row.default or dtype == "float32" else [pytest.mark.full])
    for dtype in schedule_oracles.DTYPES
    for name, row in SCHEDULES.items()
]
THEIRS = (optax.GradientTransformation, optax.experimental.aggregating.Aggregator)

_tests_run = itertools.count(1)


@pytest.fixture(autouse=True)
def bounded_memory():
    """Forgets what JAX has compiled now and then: a process runs thousands of compilations."""
    yield
    if next(_tests_run) % CLEAR_EVERY == 0:
        jax.clear_caches()


def given(row: Row, steps: int) -> Problem:
    return problem_of(row, row.tree, "float32" if row.runs_in("float32") else row.dtypes[0], steps)


@pytest.mark.parametrize("name", DEFAULTS, scope="class")
class TestDefaultRow:
    """Row by row, so that the second test need not compile what the first has compiled."""

    def test_updates_and_state_are_upstreams(self, name):
        check_updates_and_state(name, "float32")

    def test_a_run_is_handed_over_in_its_middle(self, name):
        row = ROWS[name]
        at = given(row, 2 * HAND_OVER)
        side_of = compiled if row.costly else eager
        ours, theirs = side_of(row.build(pytreeopt)), side_of(row.build(optax))
        half = {side: steps(side, at, range(HAND_OVER), at.params, side.init(at.params)) for side in (ours, theirs)}
        rest = range(HAND_OVER, 2 * HAND_OVER)
        for side, other in ((ours, theirs), (theirs, ours)):
            stayed = steps(side, at, rest, *half[side])
            moved = steps(side, at, rest, *half[other])
            assert passes(difference(stayed, moved, casts=row.casts), row.jit if row.costly else None, "float32")


@pytest.mark.full
@pytest.mark.parametrize("name, dtype", OTHERS)
def test_updates_and_state_of_every_option_are_upstreams(name, dtype):
    check_updates_and_state(name, dtype)


def check_updates_and_state(name: str, dtype: str) -> None:
    row = ROWS[name]
    misses = []
    for oracle in ORACLES:
        found = compare(row, oracle, row.tree, dtype, FEW_STEPS if row.costly else STEPS)
        if not passes(found, tolerance(row, oracle), dtype):
            misses.append(f"{oracle}: {found.ulp} ulp, relative {found.relative:.1e}, {found.where}")
    assert not misses


@pytest.mark.parametrize("name, dtype", SCHEDULE_CASES)
def test_schedule_values_are_upstreams(name, dtype):
    row = SCHEDULES[name]
    misses = []
    for oracle in ORACLES:
        found = schedule_oracles.compare(row, oracle, dtype)
        if not passes(found, schedule_oracles.tolerance(row, oracle), dtype):
            misses.append(f"{oracle}: {found.ulp} ulp, relative {found.relative:.1e}, {found.where}")
    assert not misses


@pytest.mark.parametrize("name", ROWS)
def test_state_is_upstreams_type_by_type(name):
    row = ROWS[name]
    at = given(row, 1)

    def two_states(opt):
        state = opt.init(at.params)
        return state, opt.update(at.gradients[0], state, at.params, **at.extra[0])[1]

    ours = jax.eval_shape(lambda: two_states(row.build(pytreeopt)))
    theirs = jax.eval_shape(lambda: two_states(row.build(optax)))
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    shapes = lambda tree: [(leaf.shape, None if row.casts else leaf.dtype) for leaf in jax.tree.leaves(tree)]
    assert shapes(ours) == shapes(theirs)


def steps(side: Step, at: Problem, numbers: range, params: Any, state: Any) -> tuple[Any, Any]:
    """Parameters and state after the steps of these numbers."""
    for number in numbers:
        gradient, extra = at.at(number, params)
        updates, state = side.update(gradient, state, params, extra)
        params = optax.apply_updates(params, updates)
    return params, state


def public_names() -> Iterator[tuple[str, Any]]:
    """Upstream's names under which this package exports an object of its own."""
    for ours, theirs in NAMESPACES:
        for name, thing in vars(ours).items():
            counterpart = vars(theirs).get(name, thing)
            if counterpart is not thing and not name.startswith("_") and not isinstance(thing, types.ModuleType):
                yield name, thing


def public_classes() -> set[type]:
    """Classes with hyperparameters that are exported to be built."""
    return {
        thing
        for ours, _ in NAMESPACES
        for thing in vars(ours).values()
        if inspect.isclass(thing)
        and issubclass(thing, AbstractHyperparameters)
        and not inspect.isabstract(thing)
        and not thing.__name__.startswith("_")
    }


ALL_ROWS: dict[str, Row | ScheduleRow] = {**ROWS, **SCHEDULES}


def test_rows_of_schedules_and_transformations_have_names_of_their_own():
    assert not set(ROWS) & set(SCHEDULES)


ENTRIES = json.loads((pathlib.Path(__file__).parent / "inventory.json").read_text())


def test_every_entry_has_a_default_row():
    default = {name.partition(",")[0] for name, row in ALL_ROWS.items() if row.default}
    assert {entry["name"] for entry in ENTRIES} - default == set()


def test_every_row_bears_a_public_name():
    names = {name for name, _ in public_names()} | {"nested: " + name.partition("nested: ")[2] for name in ROWS}
    assert not {row for row in ALL_ROWS if row.partition(",")[0] not in names}


def test_every_dynamic_field_is_traced_in_some_row():
    traced = {found for row in ALL_ROWS.values() for found in traced_fields(row.build(pytreeopt))}
    entries = {entry["class"] for entry in ENTRIES} - {"WrappedSchedule"}
    wanted = {(cls.__name__, name) for cls in public_classes() for name in numbers(cls) if cls.__name__ in entries}
    assert ("AdamW", "weight_decay") in wanted
    assert wanted - traced == set()


def numbers(cls: Any) -> tuple[str, ...]:
    """The fields that hold numbers or schedules; a child need not have any leaf."""
    if issubclass(cls, AbstractSchedule):
        return cls._dynamic_fields
    fields = cls._number_fields
    return fields.numbers + fields.schedulable if issubclass(cls, GradientTransformation) else ()


def traced_fields(thing: Any) -> Iterator[tuple[str, str]]:
    """Class and name of each field in `thing`, at any depth, that holds a leaf."""
    if isinstance(thing, AbstractHyperparameters):
        for field in dataclasses.fields(thing):
            if field.name in thing._dynamic_fields and jax.tree.leaves(getattr(thing, field.name)):
                yield type(thing).__name__, field.name
    children = jax.tree.leaves(thing, is_leaf=lambda node: node is not thing)
    for child in children:
        if child is not thing:
            yield from traced_fields(child)


def test_the_argument_oracle_rebuilds_upstreams_object():
    for name, row in ROWS.items():
        rebuilt = to_upstream(row.build(pytreeopt))
        assert isinstance(rebuilt, THEIRS), name
        assert not isinstance(rebuilt, AbstractHyperparameters), name
    for name, row in SCHEDULES.items():
        assert not isinstance(to_upstream(row.build(pytreeopt)), AbstractHyperparameters), name


def scaled(ours: Any) -> Row:
    """A row in which upstream's side multiplies by 0.1."""
    return Row(lambda o: o.scale(0.1) if o is optax else ours)


WRONG = {
    "one unit in the last place": pytreeopt.scale(0.10000001),
    "another state": pytreeopt.chain(pytreeopt.scale(0.1)),
    "another dtype": pytreeopt.stateless(lambda u, p: jax.tree.map(lambda x: 0.1 * x.astype(jnp.bfloat16), u)),
    "not a number": pytreeopt.scale(float("nan")),
}


@pytest.mark.parametrize("oracle", ["eager", "jit"])
@pytest.mark.parametrize("wrong", WRONG)
def test_the_oracles_can_fail(wrong, oracle):
    assert compare(scaled(pytreeopt.scale(0.1)), oracle, "vector", "float32", 1).ulp == 0
    found = compare(scaled(WRONG[wrong]), oracle, "vector", "float32", 1)
    assert found.ulp > 0
    assert not passes(found, None, "float32")


def test_the_argument_oracle_can_fail(monkeypatch):
    monkeypatch.setitem(factories(), pytreeopt.Scale, lambda step_size: optax.scale(1.0000001 * step_size))
    found = compare(Row(lambda o: o.scale(0.1)), "argument", "vector", "float32", 1)
    assert 0 < found.ulp < 10


def test_the_schedule_oracles_can_fail(monkeypatch):
    row = ScheduleRow(lambda o: o.constant_schedule(0.1 if o is optax else 0.10000001))
    assert all(schedule_oracles.compare(row, oracle, "float32").ulp > 0 for oracle in ("eager", "jit"))
    monkeypatch.setitem(factories(), pytreeopt.ConstantSchedule, lambda value: optax.constant_schedule(2 * value))
    assert schedule_oracles.compare(row, "argument", "float32").ulp > 0
