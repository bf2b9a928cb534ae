"""Compiled programs that outlive the process: `jax.export` and the persistent cache."""

import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from jax import export

import pytreeopt
from consumers import AS_ARGUMENT, PARAMS, assert_same, library, loss, other_rate, train
from parity.rows import ROWS
from pytreeopt.interop.export import register

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def registered():
    library("flatbuffers")
    register()
    register()  # again does no harm


def step(opt, params, state):
    updates, state = opt.update(jax.grad(loss)(params), state, params)
    return jax.tree.map(jnp.add, params, updates), state


def test_export(pair, registered):
    opt = pair.ours
    exported = export.export(jax.jit(step))(opt, PARAMS, opt.init(PARAMS))
    loaded = export.deserialize(exported.serialize())
    for changed in (opt, other_rate(opt)):
        assert_same(loaded.call(changed, PARAMS, opt.init(PARAMS)), train(changed, steps=1), rtol=AS_ARGUMENT)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.default])
def test_every_class_is_registered(name, registered):
    """Also every state, where one can be made from a few parameters."""
    opt = ROWS[name].build(pytreeopt)
    exported = export.export(jax.jit(lambda opt: 0.0))(opt)
    assert export.deserialize(exported.serialize()).in_tree == exported.in_tree


def decays(step):
    return 0.1 / (step + 1)


@pytest.mark.parametrize(
    "opt",
    [
        pytreeopt.adam(decays),
        pytreeopt.adamw(1e-2, mask={"w": True, "b": [False, (True, None)]}, mu_dtype="bfloat16"),
        pytreeopt.partition({"w": pytreeopt.sgd(0.1), "b": pytreeopt.adam(0.1)}, {"w": "w", "b": "b"}),
        pytreeopt.contrib.dog(),
    ],
    ids=["function", "mask and dtype", "labels", "kind and number"],
)
def test_export_keeps_static_fields(opt, registered):
    exported = export.export(jax.jit(lambda opt: opt))(opt)
    loaded = export.deserialize(exported.serialize())
    assert loaded.in_tree == exported.in_tree
    assert jax.tree.structure(loaded.call(opt)) == jax.tree.structure(opt)


def test_export_says_what_cannot_be_saved(registered):
    opt = pytreeopt.adamw(1e-2, mask=lambda params: params)
    with pytest.raises(TypeError, match=r"AdamW.mask holds <function .*lambda.*can be imported"):
        export.export(jax.jit(lambda opt: 0.0))(opt).serialize()


CACHED = """
import sys, jax, jax.numpy as jnp, pytreeopt
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
params = {"w": jnp.ones(3)}
opt = pytreeopt.adam(float(sys.argv[2]))

@jax.jit
def named_step(opt, params):
    return opt.update(params, opt.init(params), params)

print(float(named_step(opt, params)[0]["w"][0]))
"""


@pytest.mark.slow
def test_compilation_cache_hits_in_a_new_process_with_another_rate(tmp_path):
    def run(rate):
        done = subprocess.run(
            [sys.executable, "-c", CACHED, tmp_path, rate], check=True, capture_output=True, text=True
        )
        programs = {
            path.name for path in pathlib.Path(tmp_path).glob("*named_step*") if not path.name.endswith("atime")
        }
        return float(done.stdout), programs

    (first, programs), (second, later) = run("0.1"), run("0.2")
    assert len(programs) == 1
    assert later == programs
    assert second == pytest.approx(2 * first)
