"""What docs/moving.md says of a training script, and of what it may stumble on."""

import pathlib
import pickle
import re

import jax
import optax
import pytest

import pytreeopt
from consumers import PARAMS, assert_same

pytestmark = pytest.mark.interop

DOCS = pathlib.Path(__file__).parents[2] / "docs"
LIBRARIES = ("optax", "pytreeopt")


def script(library):
    """The training script as it is, or with the line changed that the page shows."""
    source = (DOCS / "examples" / "spirals.py").read_text()
    if library == "pytreeopt":
        old, new = re.search(r"```diff\n-(.*)\n\+(.*)\n```", (DOCS / "moving.md").read_text()).groups()
        assert source.count(f"\n{old}\n") == 1
        source = source.replace(f"\n{old}\n", f"\n{new}\n")
    namespace = {"__name__": "spirals"}
    exec(compile(source, f"spirals.py with {library}", "exec"), namespace)
    return namespace["main"]


@pytest.fixture(scope="module")
def whole_run():
    return script("optax")(["--steps", "40"])


def test_a_script_reaches_the_same_numbers(whole_run):
    assert_same(script("pytreeopt")(["--steps", "40"]), whole_run)


@pytest.mark.parametrize("first, second", [LIBRARIES, LIBRARIES[::-1]])
def test_a_run_moves_by_its_checkpoint(first, second, whole_run, tmp_path):
    checkpoint = ["--steps", "40", "--checkpoint", str(tmp_path / "run")]
    script(first)([*checkpoint, "--stop", "15"])
    assert_same(script(second)(checkpoint), whole_run)


def test_the_script_learns(capsys):
    script("pytreeopt")(["--steps", "100"])
    first, last = (float(x) for x in re.findall(r"loss (\S+)", capsys.readouterr().out))
    assert last < first < 0.69


def test_the_supported_versions_stand_on_the_page():
    page, project = (DOCS / "moving.md").read_text(), (DOCS.parent / "pyproject.toml").read_text()
    (oldest, limit) = re.search(r'"optax>=([\d.]+),<([\d.]+)"', project).groups()
    assert f"reproduces Optax {oldest}" in page
    assert limit == "0.3"
    assert not hasattr(pytreeopt, "__version__")
    assert not hasattr(pytreeopt, "_src")


def test_an_optimizer_is_a_tuple_with_leaves():
    opt = pytreeopt.adam(1e-3)
    leaves = jax.tree.leaves([opt, PARAMS["b"]], is_leaf=lambda x: isinstance(x, tuple))
    assert leaves[0] is opt
    assert {type(leaf) for leaf in jax.tree.leaves(opt)} == {float}
    assert all(leaf.size == 1 for leaf in jax.tree.leaves(pytreeopt.as_arrays(opt)))
    with pytest.raises(AttributeError, match="size"):
        jax.tree.map(lambda leaf: leaf.size, opt)


def test_an_integer_and_a_float_are_two_programs():
    traces = []
    compiled = jax.jit(lambda opt: traces.append(1) or opt.update(PARAMS, opt.init(PARAMS))[0])
    for rate in (1.0, 2.0, 1, 2):
        compiled(pytreeopt.sgd(rate))
    assert len(traces) == 2


def test_optimizers_are_pickled_by_class_and_fields():
    assert pickle.loads(pickle.dumps(pytreeopt.adam(1e-3))) == pytreeopt.adam(1e-3)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(optax.adam(1e-3))
