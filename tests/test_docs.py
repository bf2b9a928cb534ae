"""The README's example runs as it stands, and the page of differences names tests that exist."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent


def test_the_readmes_examples_run(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert "best learning rate" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line",
    [
        line
        for line in (ROOT / "docs" / "differences.md").read_text().splitlines()
        if line.startswith("- ") and "(known, kept" not in line
    ],
)
def test_every_difference_names_a_test(line):
    named = re.findall(r"`(test_\w+)`", line)
    assert named
    tests = "".join(path.read_text() for path in pathlib.Path(__file__).parent.glob("test_*.py"))
    assert [name for name in named if f"def {name}(" not in tests] == []
