"""The page of differences names tests that exist."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent


@pytest.mark.parametrize(
    "line",
    [line for line in (ROOT / "docs" / "differences.md").read_text().splitlines() if line.startswith("- ")],
)
def test_every_difference_names_a_test(line):
    named = re.findall(r"`(test_\w+)`", line)
    assert named
    tests = "".join(path.read_text() for path in pathlib.Path(__file__).parent.glob("test_*.py"))
    assert [name for name in named if f"def {name}(" not in tests] == []
