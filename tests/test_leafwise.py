"""The per-leaf map: one trace per leaf shape while a jaxpr is built, no compilation in eager vmap and grad."""

import dataclasses
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pytreeopt
from pytreeopt.errors import StructureError
from pytreeopt.leafwise import leafwise

PARAMS = {f"layer {i}": {"w": jnp.full((3, 4), 0.1 * i), "b": jnp.ones(4)} for i in range(5)}


def test_maps_leaves_and_keeps_none():
    tree = {"a": jnp.ones(2), "n": None, "e": {}}
    assert leafwise(lambda x: 2 * x, tree)["n"] is None
    assert leafwise(lambda x, y: x + y, tree, {**tree, "n": jnp.ones(2)}, may_lack=True)["n"] is None
    doubled, squared = leafwise(lambda x: (2 * x, x * x), tree, outputs=2)
    assert (doubled["n"], squared["n"], doubled["e"]) == (None, None, {})
    np.testing.assert_array_equal(doubled["a"], 2 * tree["a"])
    assert leafwise(lambda x: (x, x), {}, outputs=2) == ({}, {})
    assert leafwise(lambda x: (x, x), None, outputs=2) == (None, None)
    assert leafwise(lambda x: (x, x, x), {"n": None}, outputs=3) == ({"n": None},) * 3


def test_mismatch_is_a_structure_error():
    with pytest.raises(StructureError, match="got None where state or params have an array"):
        leafwise(lambda x, y: x, {"a": None}, {"a": 1.0})
    with pytest.raises(StructureError, match="different structure"):
        leafwise(lambda x, y: x, {"a": 1.0}, {"b": 1.0})


@pytest.mark.parametrize("shapes, expected", [([(3,)] * 4, 1), ([(3,), (4,), (3,)], 2)])
@pytest.mark.parametrize("build", [jax.jit, jax.make_jaxpr, lambda f: lambda tree: jax.eval_shape(f, tree)])
def test_one_trace_per_shape_while_a_jaxpr_is_built(build, shapes, expected):
    traces = []

    def f(x):
        traces.append(1)
        return 2 * x

    build(lambda tree: leafwise(f, tree))([jnp.ones(shape) for shape in shapes])
    assert len(traces) == expected


@pytest.mark.parametrize("opt", [pytreeopt.adamw(1e-2), pytreeopt.sgd(1e-2, 0.9), pytreeopt.adafactor(1e-2)])
def test_eager_vmap_and_grad_compile_nothing_on_the_second_call(opt, caplog):
    def train(opt):
        state = opt.init(PARAMS)
        updates, _ = opt.update(PARAMS, state, PARAMS)
        return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(updates))

    population = jax.tree.map(lambda x: jnp.array([x, x]), opt)
    for call in (lambda: jax.vmap(train)(population), lambda: jax.grad(train, allow_int=True)(opt), lambda: train(opt)):
        call()
        with jax.log_compiles(), caplog.at_level("WARNING"):
            caplog.clear()
            call()
        assert [record for record in caplog.records if "ompil" in record.getMessage()] == []


@pytest.mark.parametrize("opt", [pytreeopt.adamw(1e-2), pytreeopt.adafactor(1e-2), pytreeopt.sgd(1e-2)])
def test_made_inside_or_passed_in_is_the_same_program(opt):
    state = opt.init(PARAMS)
    leaves, treedef = jax.tree.flatten(opt)

    def made_inside(leaves, state):
        inside = jax.tree.unflatten(treedef, leaves)
        inside = type(inside)(**{name: getattr(inside, name) for name in (f.name for f in dataclasses.fields(inside))})
        return inside.update(PARAMS, state, PARAMS)

    passed = jax.make_jaxpr(lambda leaves, state: jax.tree.unflatten(treedef, leaves).update(PARAMS, state, PARAMS))
    assert str(jax.make_jaxpr(made_inside)(leaves, state)) == str(passed(leaves, state))


def test_import_brings_in_little():
    """Beside what `import optax, flax.struct` brings in: this package alone."""
    code = (
        "import sys, optax, flax.struct; before = set(sys.modules); import pytreeopt; "
        "new = {m for m in set(sys.modules) - before if not m.startswith('pytreeopt')}; print(sorted(new)); "
        "assert 'flax.nnx' not in sys.modules"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert found == "[]"
