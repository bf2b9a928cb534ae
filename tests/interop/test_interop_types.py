"""Checks of types: chex, beartype and jaxtyping at run time, pyright before."""

import json
import pathlib
import shutil
import subprocess
import sys

import jax
import optax
import pytest

import pytreeopt
from consumers import PARAMS, assert_same, library, other_rate, train

pytestmark = pytest.mark.interop


def test_chex(pair):
    chex = library("chex")
    opt = pair.ours
    chex.assert_trees_all_equal(opt, pair.ours)
    chex.assert_trees_all_equal_structs(opt, other_rate(opt))
    chex.assert_tree_all_finite(opt)
    with pytest.raises(AssertionError):
        chex.assert_trees_all_close(opt, other_rate(opt))
    chex.assert_trees_all_equal_structs(train(opt)[1], train(pair.theirs)[1])


def test_beartype(pair):
    beartype = library("beartype")

    @beartype.beartype
    def first_state(tx: optax.GradientTransformation, extra: optax.GradientTransformationExtraArgs) -> tuple:
        return tx.init(PARAMS), extra.init(PARAMS)

    ours, theirs = first_state(pair.ours, pair.ours), first_state(pair.theirs, pair.theirs)
    assert_same(ours, theirs)

    @beartype.beartype
    def ours_alone(tx: pytreeopt.GradientTransformation) -> pytreeopt.GradientTransformation:
        return tx

    assert ours_alone(pair.ours) == pair.ours
    with pytest.raises(beartype.roar.BeartypeCallHintParamViolation):
        first_state(3, pair.ours)


def test_jaxtyping(pair):
    jaxtyping, beartype = library("jaxtyping"), library("beartype")

    @jaxtyping.jaxtyped(typechecker=beartype.beartype)
    def leaves(tx: jaxtyping.PyTree[float | jaxtyping.Scalar | int]) -> int:
        return len(jax.tree.leaves(tx))

    @jaxtyping.jaxtyped(typechecker=beartype.beartype)
    def arrays(tx: jaxtyping.PyTree[jaxtyping.Num[jax.Array, ""]]) -> int:  # noqa: F722
        return len(jax.tree.leaves(tx))

    assert leaves(pair.ours) == arrays(pytreeopt.as_arrays(pair.ours))


PROGRAM = """
import dataclasses
import jax.numpy as jnp
import optax
import pytreeopt

def start(tx: optax.GradientTransformation) -> optax.OptState:
    return tx.init(jnp.zeros(3))

def extended(tx: optax.GradientTransformationExtraArgs) -> optax.GradientTransformation:
    return optax.chain(optax.clip(1.0), tx)

floats, arrays = pytreeopt.adam(1e-2), pytreeopt.adam(learning_rate=jnp.asarray(1e-2))
scheduled = pytreeopt.chain(pytreeopt.clip(1.0), pytreeopt.adamw(pytreeopt.cosine_decay_schedule(1e-2, 20)))
for opt in (floats, arrays, scheduled):
    start(opt)
    extended(opt)
    init, update = opt
halved: pytreeopt.Adam = floats.replace(learning_rate=5e-3)
also: pytreeopt.Adam = dataclasses.replace(floats, b1=0.8)
rate: float = optax.MultiSteps(halved, every_k_schedule=2) and 0.1
pytreeopt.adam(1e-2, beta1=0.8)  # the one mistake
"""


@pytest.mark.slow
def test_pyright_on_code_typed_with_optax(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    library("basedpyright")
    command = shutil.which("basedpyright", path=str(pathlib.Path(sys.executable).parent))
    assert command is not None
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps(
            {
                "typeCheckingMode": "standard",
                "include": ["program.py"],
                "extraPaths": [str(pathlib.Path(pytreeopt.__file__).parent.parent)],
            }
        )
    )
    done = subprocess.run(
        [command, "--outputjson", "--pythonpath", sys.executable, "--project", tmp_path],
        capture_output=True,
        check=False,
    )
    errors = [
        (entry["range"]["start"]["line"], entry["message"])
        for entry in json.loads(done.stdout)["generalDiagnostics"]
        if entry["severity"] == "error"
    ]
    assert len(errors) == 1, errors
    assert errors[0][0] == PROGRAM.splitlines().index("pytreeopt.adam(1e-2, beta1=0.8)  # the one mistake")
