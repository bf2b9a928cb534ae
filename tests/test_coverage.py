"""Every public transformation, optimizer, schedule and combinator of Optax, and every parameter, stands in some row."""

import inspect
import json
import pathlib
import warnings

import jax
import optax
import pytest

import pytreeopt
from parity.coverage import Recorder, entries, exercised, same, wanted
from parity.problems import SHAPES, problem_of
from parity.row import Row
from parity.rows import ROWS, SCHEDULES
from parity.skipped import SKIPPED

ROWS_OF_BOTH = (*ROWS.values(), *SCHEDULES.values())


@pytest.fixture(scope="module")
def found() -> set[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return exercised(ROWS_OF_BOTH)


def skipped(item: str) -> bool:
    """Whether an item, or all of its factory, is left out for a reason."""
    return item in SKIPPED or item.rpartition(".")[0] in SKIPPED


def test_every_name_and_parameter_stands_in_a_row(found):
    assert {item for item in wanted() - found if not skipped(item)} == set()


def test_what_is_skipped_exists_and_stands_in_no_row(found):
    assert set(SKIPPED) - wanted() == set()
    assert set(SKIPPED) & found == set()


@pytest.mark.parametrize("reason", sorted(set(SKIPPED.values())))
def test_reasons_name_a_test_file_that_exists(reason):
    *_, file = reason.split(": ")
    assert pathlib.Path(__file__).parent.parent.joinpath(file).is_file()


def test_every_entry_of_the_inventory_is_wanted():
    inventory = json.loads((pathlib.Path(__file__).parent / "inventory.json").read_text())
    names = {path.rpartition(".")[2] for path in entries()}
    assert {entry["name"] for entry in inventory} <= names


def test_the_recorder_tells_defaults_from_other_values():
    seen = exercised([Row(lambda o: o.chain(o.adam(1e-2, b1=0.9, b2=0.5, nesterov=True), o.contrib.normalize()))])
    assert seen == {
        "chain",
        "chain.args",
        "adam",
        "adam.learning_rate",
        "adam.b2",
        "adam.nesterov",
        "contrib.normalize",
    }


def test_the_recorder_leaves_signatures_alone():
    recorded = Recorder(optax, set())
    assert inspect.signature(recorded.adam) == inspect.signature(optax.adam)
    assert recorded.global_norm is optax.global_norm


@pytest.mark.parametrize(
    "name, value, default, alike",
    [
        ("b1", 0.9, 0.9, True),
        ("weight_decay", 0, 0.0, True),
        ("b1", 0.8, 0.9, False),
        ("mu_dtype", "float32", optax.MultiSteps.__init__.__defaults__[-1], True),
        ("mu_dtype", "bfloat16", None, False),
        ("mask", None, None, True),
        ("mask", len, None, False),
        ("learning_rate", 1e-2, inspect.Parameter.empty, False),
    ],
)
def test_a_default_in_another_spelling_is_no_other_value(name, value, default, alike):
    assert same(name, value, default) is alike


@pytest.mark.parametrize("tree", SHAPES)
def test_rows_start_on_every_tree_that_they_allow(tree):
    for name, row in ROWS.items():
        if row.runs_on(tree):
            given = problem_of(row, tree, (row.dtypes or ("float32",))[0], 1)
            assert jax.eval_shape(row.build(pytreeopt).init, given.params) is not None, name
