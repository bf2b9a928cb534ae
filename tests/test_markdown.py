"""Every Python code block of the README and of the pages runs as it stands; those of one page share a namespace."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OPTIONAL = ("equinox", "numpyro", "optimistix")  # of the extra `interop`


def with_blocks():
    return [page for page in PAGES if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", with_blocks(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_blocks_run(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    text, namespace = page.read_text(), {"__name__": "page"}
    for block in BLOCK.finditer(text):
        lines_before = text.count("\n", 0, block.start(1))  # so that a traceback names the line of the page
        try:
            exec(compile("\n" * lines_before + block[1], page, "exec"), namespace)
        except ModuleNotFoundError as error:
            if error.name not in OPTIONAL:
                raise
            pytest.skip(f"needs {error.name}, see the extra `interop`")


def test_every_fence_of_python_is_run():
    """No other spelling hides a block from the test above."""
    hidden = re.compile(r"^ *```(py\b|python3|pycon|Python|\{)|^ +```python|^```python[^\n]", re.MULTILINE)
    for page in PAGES:
        assert not hidden.search(page.read_text()), page
