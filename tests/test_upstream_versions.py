"""A newer Optax: nothing leans on its private parts; what is missing or has moved on is met with a plain message."""

import ast
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
SOURCES = {
    str(path.relative_to(ROOT)): path for folder in ("pytreeopt", "parity") for path in (ROOT / folder).rglob("*.py")
}


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def private_parts(source):
    """Every import from, and every attribute of, Optax in which a private name occurs."""
    tree = ast.parse(source)
    upstream = set()  # what names of the file stand for Optax or a part of it
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            paths = {alias.asname or alias.name.split(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            paths = {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        else:
            continue
        for name, path in paths.items():
            if path.split(".")[0] == "optax":
                upstream.add(name)
                if any(map(is_private, path.split("."))):
                    yield path
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            path = ast.unparse(node).split(".")
            if path[0] in upstream and all(map(str.isidentifier, path)):  # not a method of what a call returned
                yield ".".join(path)


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "pytreeopt/states.py"])
def test_private_modules_of_optax_are_for_states_alone(name):
    assert list(private_parts(SOURCES[name].read_text())) == []


@pytest.mark.parametrize(
    "source",
    [
        "import optax._src.base",
        "from optax._src import base",
        "from optax.contrib import _muon",
        "from optax import tree as t\nt._x",
        "import optax\noptax._src.base",
        "import optax as o\no.contrib._muon.muon",
    ],
)
def test_the_search_for_private_parts_can_fail(source):
    assert len(list(private_parts(source))) == 1


def test_the_search_goes_through_states():
    assert len(list(private_parts(SOURCES["pytreeopt/states.py"].read_text()))) > 5


def test_an_optax_that_lacks_names_is_refused_and_one_that_moved_on_is_not():
    program = ROOT / "tests" / "moved_upstream.py"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
