"""Upstream's own tests, run on this package: `python -m parity.upstream_suite`.

The test files come with the installed optax. Before pytest collects them, every public transformation, optimizer,
combinator and schedule of optax is replaced by ours, by the identity of the object, in all modules of optax and in
the tables these hold. Every test that optax passes on its own objects must pass. Which those are is recorded for
pairs of versions of jax and optax (`--record`); a test that fails is then run on optax itself, here and now, so that
what this machine or a newer jax breaks for both is not held against us.

This module is also the pytest plugin that does the replacing, in each worker process.
"""

import argparse
import importlib
import os
import pkgutil
import re
import sys
import tempfile
import types
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")  # what the tests of sharding want

import jax
import optax

from parity.command import positive
from parity.upstream import NAMESPACES
from pytreeopt.base import ScalarOrSchedule

UPSTREAM = Path(optax.__file__).parent
RECORDS = Path(__file__).parent / "upstream_passes"

# Files on pure functions, which are upstream's own objects here.
PURE = (
    "assignment/",
    "losses/",
    "microbatching/",
    "perturbations/",
    "projections/",
    "tree_utils/_casting_test.py",
    "tree_utils/_random_test.py",
    "tree_utils/_tree_math_test.py",
    "_src/linear_algebra_test.py",
    "_src/numerics_test.py",
    "_src/update_test.py",
    "_src/utils_test.py",
)

# Tests that cannot hold by design: a pattern of whole ids -> the reason.
BY_DESIGN = {
    r"_src/base_test.py::ExtraArgsTest::test_isinstance": (
        "asserts that a plain GradientTransformation takes no extra arguments; here all transformations are of one type"
    ),
    r"(_src/combine|transforms/_combining)_test.py::ExtraArgsTest::test_extra_args": (
        "has integer params under Adam, whose moments cannot be integers; here they are refused"
    ),
    r"_src/transform_test.py::TransformTest::test_scalers_polyak": (
        "looks for a `__name__` of scale_by_polyak; here that name is bound to the class ScaleByPolyak"
    ),
    r"schedules/_inject_test.py::InjectHyperparamsTest::test_hyperparam_default_dtype_(bf16|f32)": (
        "asserts that a strongly typed scalar keeps its dtype in the state; here it counts as a Python number"
    ),
}


def replacements() -> dict[int, tuple[Any, Any]]:
    """For each public object of optax that pytreeopt has anew: its id -> (it, ours)."""
    # Tests read from the annotation of a learning rate whether it may be a schedule.
    found: dict[int, tuple[Any, Any]] = {id(optax.ScalarOrSchedule): (optax.ScalarOrSchedule, ScalarOrSchedule)}
    for ours, theirs in NAMESPACES:
        for name, original in vars(theirs).items():
            replacement = getattr(ours, name, original)
            if not name.startswith("_") and not isinstance(original, types.ModuleType) and replacement is not original:
                found[id(original)] = original, replacement
    return found


def replace_in_optax() -> None:
    """Makes every module of optax see our objects instead of its own; ours keep seeing upstream's."""
    for module in pkgutil.walk_packages(optax.__path__, "optax."):
        if not module.name.endswith("_test"):
            importlib.import_module(module.name)
    table = replacements()
    seen_by_ours = types.ModuleType("optax")
    vars(seen_by_ours).update(vars(optax))
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "pytreeopt" and vars(module).get("optax") is optax:
            vars(module)["optax"] = seen_by_ours
        elif name.partition(".")[0] == "optax":
            for key, value in list(vars(module).items()):
                if not key.startswith("__"):
                    setattr(module, key, replaced(value, table))


def replaced(value: Any, table: dict[int, tuple[Any, Any]]) -> Any:
    """Ours for `value`, or `value` with ours in it: dicts and lists are changed in place, tuples made anew."""
    if id(value) in table:
        return table[id(value)][1]
    match value:
        case dict():
            value.update({key: replaced(item, table) for key, item in value.items()})
        case list():
            value[:] = [replaced(item, table) for item in value]
        case tuple() if type(value) is tuple:
            return tuple(replaced(item, table) for item in value)
    return value


# The plugin: the workers replace, choose and mark.


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--optimizers", choices=("pytreeopt", "optax"), default="pytreeopt")
    parser.addoption("--recorded", default="", help="run only the tests that this record holds")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") and config.getoption("--optimizers") == "pytreeopt":
        replace_in_optax()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if record := config.getoption("--recorded"):
        passes = read(Path(record))
        items[:] = [item for item in items if item.nodeid in passes]
    if config.getoption("--optimizers") == "pytreeopt":
        for item in items:
            if reason := why_not(item.nodeid):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def why_not(test: str) -> str:
    """The reason why a test cannot hold by design, or nothing."""
    return next((reason for pattern, reason in BY_DESIGN.items() if re.fullmatch(pattern, test)), "")


class Outcomes:
    """What became of each test; also a plugin, of the process that reads the workers' reports."""

    def __init__(self):
        self.passed: set[str] = set()
        self.expected: set[str] = set()
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
        elif hasattr(report, "wasxfail"):
            self.expected.add(report.nodeid)
        elif report.passed and report.when == "call":
            self.passed.add(report.nodeid)
        self.passed -= self.failed


def run(
    optimizers: str, tests: Collection[str], workers: int, *, record: Path | None = None, only: str = ""
) -> Outcomes:
    """Runs upstream's files, or single tests of them, on optimizers of one package."""
    outcomes = Outcomes()
    settings = f"-q --no-header --tb=short --show-capture=no -p parity.upstream_suite -p no:cacheprovider -n {workers}"
    settings += f" --dist worksteal --assert=plain -c {os.devnull} --rootdir {UPSTREAM} --optimizers {optimizers}"
    chosen = [f"--recorded={record}"] * (record is not None) + ["-k", only] * bool(only)
    status = pytest.main([*settings.split(), *chosen, *(str(UPSTREAM / test) for test in tests)], plugins=[outcomes])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"upstream's tests did not run: {pytest.ExitCode(status).name}")
    return outcomes


# Records of what optax passes on itself.


def record_of(jax_version: str, optax_version: str) -> Path:
    return RECORDS / f"jax-{jax_version}_optax-{optax_version}.txt"


def nearest_record() -> Path | None:
    """The record of this jax and this optax, else of the newest jax with this optax."""
    exact = record_of(jax.__version__, optax.__version__)
    if exact.exists():
        return exact
    numbers = lambda path: tuple(map(int, re.findall(r"\d+", path.name.partition("_")[0])))
    return max(RECORDS.glob(f"jax-*_optax-{optax.__version__}.txt"), key=numbers, default=None)


def read(record: Path) -> set[str]:
    """The ids in a record."""
    ids, case = set(), ""
    for line in record.read_text(encoding="utf-8").splitlines():
        if not line.startswith(" "):
            case = line
            continue
        name, _, ranges = line[2:].partition("\t")
        if not ranges:
            ids.add(f"{case}::{name}")
        for first, _, last in (part.partition("-") for part in ranges.split(",") if part):
            ids.update(f"{case}::{name}{number}" for number in range(int(first), int(last or first) + 1))
    return ids


def write(record: Path, ids: Iterable[str]) -> None:
    """Writes ids by file and class; the numbers that absl gives to parametrised tests become ranges."""
    cases: dict[str, dict[tuple[str, bool], list[int]]] = {}
    for test in sorted(ids):
        case, _, name = test.rpartition("::")
        stem, number = re.fullmatch(r"(.*?)(0|[1-9]\d*)?", name).groups()  # type: ignore[union-attr]
        numbers = cases.setdefault(case, {}).setdefault((stem, number is not None), [])
        if number is not None:
            numbers.append(int(number))
    lines = []
    for case, names in cases.items():
        lines.append(case)
        lines.extend(f"  {stem}\t{ranges(numbers)}".rstrip() for (stem, _), numbers in names.items())
    record.parent.mkdir(exist_ok=True)
    record.write_text("\n".join(lines) + "\n", encoding="utf-8")


def ranges(numbers: Sequence[int]) -> str:
    """Numbers in short: 0, 1, 2, 5 as 0-2,5."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


# The command.


def test_files() -> list[str]:
    """Upstream's test files, without those on pure functions."""
    found = sorted(path.relative_to(UPSTREAM).as_posix() for path in UPSTREAM.rglob("*_test.py"))
    return [name for name in found if not name.startswith(PURE)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs upstream's tests on ours, or records them; the exit status is 1 if a test that optax passes fails."""
    options = parse(arguments)
    files = options.files or test_files()
    versions = f"optax {optax.__version__}, jax {jax.__version__}"
    if options.record:
        record, theirs = record_of(jax.__version__, optax.__version__), run("optax", files, options.workers)
        others = {test for test in read(record) if file_of(test) not in files} if record.exists() else set()
        write(record, theirs.passed | others)
        print(f"{versions}: passes {len(theirs.passed)} of its tests, fails {len(theirs.failed)}; recorded in {record}")
        return 0

    record = nearest_record()
    if record and (unknown := set(files) - {file_of(test) for test in read(record)}):
        print(f"{record} has nothing on {', '.join(sorted(unknown))}; record it first, with --record", file=sys.stderr)
        return 2
    ours = run("pytreeopt", files, options.workers, record=record, only=options.only)
    suspects = set(ours.failed)
    if record and not options.only:
        suspects |= {test for test in read(record) if file_of(test) in files} - ours.passed - ours.expected
    misses = suspects and suspects & passed_by_optax(suspects, options.workers)

    print("\n".join(summary(versions, ours, suspects, misses)))
    return 1 if misses or not ours.passed else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser("python -m parity.upstream_suite", description=__doc__.partition(":")[0])
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="such as _src/alias_test.py; default: all but those on pure functions")
    add("-k", dest="only", default="", metavar="EXPRESSION", help="only the tests that it selects, as with pytest")
    add("--workers", type=positive, default=1, metavar="N", help="processes (default: %(default)s)")
    add("--record", action="store_true", help="run optax itself, and record which tests it passes")
    options = parser.parse_args(arguments)
    for name in options.files:
        if name not in test_files():
            parser.error(f"{name} is none of the files; they are: {', '.join(test_files())}")
    if options.record and options.only:
        parser.error("--record takes whole files, no -k")
    return options


def file_of(test: str) -> str:
    return test.partition("::")[0]


def passed_by_optax(tests: Collection[str], workers: int) -> set[str]:
    """Those of these tests that optax itself passes, here and now."""
    print(f"running on optax itself what did not pass: {len(tests)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "tests.txt"
        write(record, tests)
        return run("optax", sorted({file_of(test) for test in tests}), workers, record=record).passed


def summary(versions: str, ours: Outcomes, suspects: Collection[str], misses: Collection[str]) -> Iterator[str]:
    """What the run has shown, a line at a time."""
    yield f"\nupstream's own tests with pytreeopt's optimizers ({versions})"
    yield f"  left out, on pure functions: {', '.join(PURE)}"
    for reason, tests in sorted(by_reason(ours.expected).items()):
        yield f"  cannot hold by design: {reason}"
        yield from (f"    {test}" for test in tests)
    if forgiven := sorted(set(suspects) - set(misses)):
        yield "  fails with optax itself too, here and now:"
        yield from (f"    {test}" for test in forgiven)
    if misses:
        yield "  MISSED: optax passes, pytreeopt does not:"
        yield from (f"    {test}" for test in sorted(misses))
    yield f"  {len(ours.passed)} pass, {len(ours.expected)} cannot by design, {len(misses)} missed"


def by_reason(tests: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for test in sorted(tests):
        found.setdefault(why_not(test), []).append(test)
    return found


if __name__ == "__main__":
    sys.exit(main())
