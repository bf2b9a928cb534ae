"""Every row of docs/interop.md names the version it was tested with, and tests that exist."""

import pathlib
import re

import pytest

pytestmark = pytest.mark.interop

HERE = pathlib.Path(__file__).parent
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (HERE.parents[1] / "docs" / "interop.md").read_text().splitlines()
    if line.startswith("|") and not line.startswith(("| library |", "| --- |"))
]
TESTS = set(
    re.findall(r"^def (test_\w+)\(", "".join(path.read_text() for path in HERE.glob("test_*.py")), re.MULTILINE)
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_names_its_version_and_its_tests(row):
    _, version, what, tests = row
    assert re.search(r"\d+\.\d+", version)
    assert what
    named = re.findall(r"`(test_\w+)`", tests)
    assert named
    assert set(named) <= TESTS


def test_every_library_test_stands_in_a_row():
    named = {name for row in ROWS for name in re.findall(r"`(test_\w+)`", row[3])}
    here = {
        path.name: path.read_text() for path in HERE.glob("test_interop_*.py") if path.name != "test_interop_docs.py"
    }
    assert [
        name for text in here.values() for name in re.findall(r"^def (test_\w+)\(", text, re.M) if name not in named
    ] == []
