"""`python -m parity.upstream_suite`: what it replaces, what it compares, how it ends."""

import json
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

from parity import upstream_suite as suite

ROOT = Path(__file__).parents[1]
ENTRIES = [f"{entry['module']}.{entry['name']}" for entry in json.loads((ROOT / "tests/inventory.json").read_text())]


@pytest.fixture(scope="module")
def recorded():
    """The ids that optax passes on itself."""
    record = suite.nearest_record()
    assert record is not None, 'no record for this optax; make one: make upstream ARGS="--record"'
    return suite.read(record)


# Prints where optax still holds an entry of its own after the replacing: in a module, or as the default of an argument.
LEFT_OVERS = """
import pkgutil, sys, types
import optax, pytreeopt
from parity import upstream_suite as suite
originals = {id(pkgutil.resolve_name(name)) for name in sys.argv[1:]}
kept = dict(suite.replacements())  # their ids stay theirs
pair = optax.GradientTransformation
suite.replace_in_optax()
for module in [module for name, module in sys.modules.items() if name.partition(".")[0] == "optax"]:
    for name, value in vars(module).items():
        defaults = (value.__defaults__ or ()) if isinstance(value, types.FunctionType) else ()
        if originals & {id(value), *map(id, defaults)}:
            print(module.__name__, name)
assert isinstance(pytreeopt.adam(1.0), pair)
assert isinstance(pair(None, None), pytreeopt.GradientTransformation), "pytreeopt must still see upstream's type"
"""


def test_no_module_of_optax_keeps_an_entry_of_its_own():
    done = subprocess.run([sys.executable, "-c", LEFT_OVERS, *ENTRIES], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_every_entry_of_the_inventory_is_replaced():
    replaced = suite.replacements()
    assert [name for name in ENTRIES if id(pkgutil.resolve_name(name)) not in replaced] == []


def test_tables_hold_ours():
    old, new = object(), object()
    table = {id(old): (old, new)}
    names, order = {"adam": old, "both": (old, 1)}, [old, [old]]
    assert suite.replaced(names, table) is names == {"adam": new, "both": (new, 1)}
    assert suite.replaced(order, table) is order == [new, [new]]


def test_a_record_reads_as_it_was_written(tmp_path):
    ids = {
        "_src/a_test.py::A::test",
        "_src/a_test.py::A::test0",
        "_src/a_test.py::A::test_01",
        "b_test.py::B::test_x y z",
    }
    ids |= {f"_src/a_test.py::A::test_many{number}" for number in (0, 1, 2, 5, 10, 11)}
    suite.write(tmp_path / "record.txt", ids)
    assert suite.read(tmp_path / "record.txt") == ids
    assert "  test_many\t0-2,5,10-11\n" in (tmp_path / "record.txt").read_text()


def test_the_record_fits_the_installed_files(recorded):
    assert {suite.file_of(test) for test in recorded} == set(suite.test_files())


@pytest.mark.parametrize("pure", suite.PURE)
def test_what_is_left_out_exists(pure):
    assert list(suite.UPSTREAM.glob(f"{pure}*_test.py" if pure.endswith("/") else pure))


@pytest.mark.parametrize("pattern", suite.BY_DESIGN)
def test_what_cannot_hold_is_passed_by_optax(pattern, recorded):
    assert any(re.fullmatch(pattern, test) for test in recorded)


FILE = "optax_test.py"


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """Outcomes by package, in place of two runs of pytest; a record that holds two tests of one file."""
    outcomes = {"pytreeopt": suite.Outcomes(), "optax": suite.Outcomes()}
    monkeypatch.setattr(suite, "run", lambda optimizers, *_, **__: outcomes[optimizers])
    monkeypatch.setattr(suite, "RECORDS", tmp_path)
    suite.write(suite.record_of(suite.jax.__version__, suite.optax.__version__), {f"{FILE}::T::one", f"{FILE}::T::two"})
    return outcomes


@pytest.mark.parametrize(
    "passed, expected, failed, passed_by_optax, status, says",
    [
        ({"one", "two"}, (), (), (), 0, "2 pass, 0 cannot by design, 0 missed"),
        ({"one"}, {"two"}, (), (), 0, "1 pass, 1 cannot by design, 0 missed"),
        ({"one"}, (), {"two"}, {"two"}, 1, "MISSED"),
        ({"one"}, (), {"two"}, (), 0, "fails with optax itself too"),
        ({"one"}, (), (), {"two"}, 1, "MISSED"),  # it was not even collected
        ((), (), (), (), 1, "0 pass"),
    ],
)
def test_verdicts(runs, capsys, passed, expected, failed, passed_by_optax, status, says):
    ids = lambda names: {f"{FILE}::T::{name}" for name in names}
    runs["pytreeopt"].passed, runs["pytreeopt"].expected = ids(passed), ids(expected)
    runs["pytreeopt"].failed, runs["optax"].passed = ids(failed), ids(passed_by_optax)
    assert suite.main([FILE]) == status
    assert says in capsys.readouterr().out


def test_files_that_are_not_recorded_are_not_left_out_in_silence(runs, capsys):
    assert suite.main([FILE, "_src/base_test.py"]) == 2
    assert "has nothing on _src/base_test.py; record it first" in capsys.readouterr().err


def test_recording_keeps_the_other_files(runs):
    runs["optax"].passed = {"_src/base_test.py::T::three"}
    assert suite.main(["--record", "_src/base_test.py"]) == 0
    record = suite.record_of(suite.jax.__version__, suite.optax.__version__)
    assert suite.read(record) == {f"{FILE}::T::one", f"{FILE}::T::two", "_src/base_test.py::T::three"}


def test_the_nearest_record(monkeypatch, tmp_path):
    monkeypatch.setattr(suite, "RECORDS", tmp_path)
    assert suite.nearest_record() is None
    version = suite.optax.__version__
    for jax_version, optax_version in (("0.9.1", version), ("0.10.0", version), ("99.0", "0.1")):
        suite.write(suite.record_of(jax_version, optax_version), {"a_test.py::A::test"})
    assert suite.nearest_record() == suite.record_of("0.10.0", version)
    suite.write(suite.record_of(suite.jax.__version__, version), {"a_test.py::A::test"})
    assert suite.nearest_record() == suite.record_of(suite.jax.__version__, version)


@pytest.mark.parametrize("arguments", [["no_test.py"], ["--record", "-k", "adam"]])
def test_bad_options(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        suite.main(arguments)
    assert capsys.readouterr().err


@pytest.mark.slow
def test_one_file_from_end_to_end(recorded):
    command = [sys.executable, "-m", "parity.upstream_suite", "_src/base_test.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"COLUMNS": "120"})
    assert done.returncode == 0, done.stdout
    tests = {test for test in recorded if suite.file_of(test) == "_src/base_test.py"}
    impossible = sum(bool(suite.why_not(test)) for test in tests)
    assert f"{len(tests) - impossible} pass, {impossible} cannot by design, 0 missed" in done.stdout
