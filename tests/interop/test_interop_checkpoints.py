"""Optimizers and their states on disk: Orbax, pickle, cloudpickle, copies, and a resumed run in a new process."""

import copy
import pickle
import subprocess
import sys
import textwrap

import jax
import numpy as np
import pytest

import pytreeopt
from consumers import AS_ARGUMENT, PARAMS, X, Y, assert_same, library, loss, other_rate, train

pytestmark = pytest.mark.interop


@pytest.fixture
def checkpointer():
    with library("orbax.checkpoint").StandardCheckpointer() as checkpointer:
        yield checkpointer


def test_orbax_saves_and_restores(pair, checkpointer, tmp_path):
    opt = pair.ours
    params, state = train(opt)
    checkpointer.save(tmp_path / "checkpoint", (opt, params, state))
    checkpointer.wait_until_finished()
    restored = checkpointer.restore(tmp_path / "checkpoint", (other_rate(opt), PARAMS, opt.init(PARAMS)))
    assert_same(restored, (opt, params, state))
    assert type(restored[0]) is type(opt)
    assert_same(train(restored[0], restored[1]), train(opt, params), rtol=AS_ARGUMENT)


def test_orbax_restores_into_shapes(pair, checkpointer, tmp_path):
    opt = pair.ours
    checkpointer.save(tmp_path / "checkpoint", (opt, train(opt)))
    checkpointer.wait_until_finished()
    arrays = pytreeopt.as_arrays(opt)
    abstract = jax.eval_shape(lambda opt: (opt, (PARAMS, opt.init(PARAMS))), arrays)
    restored = checkpointer.restore(tmp_path / "checkpoint", abstract)
    assert_same(restored, (arrays, train(opt)))
    # It still promotes like a Python number.
    assert all(isinstance(x, float | int) or x.weak_type for x in jax.tree.leaves(restored[0]))


RESUME = """
import sys, jax, jax.numpy as jnp, numpy as np, optax, orbax.checkpoint, pytreeopt
x, y = np.load(sys.argv[2])["x"], np.load(sys.argv[2])["y"]
opt = pytreeopt.adam(1e-2)
params = {"w": jnp.zeros(3), "b": jnp.zeros(())}
with orbax.checkpoint.StandardCheckpointer() as checkpointer:
    opt, params, state = checkpointer.restore(sys.argv[1], (opt, params, opt.init(params)))
opt = opt.replace(learning_rate=0.5)
grads = jax.grad(lambda p: jnp.mean((x @ p["w"] + p["b"] - y) ** 2))(params)
updates, _ = opt.update(grads, state, params)
params = optax.apply_updates(params, updates)
np.savez(sys.argv[3], **params)
"""


@pytest.mark.slow
def test_orbax_resumes_in_a_new_process_with_another_rate(checkpointer, tmp_path):
    opt = pytreeopt.adam(1e-2)
    params, state = train(opt)
    checkpointer.save(tmp_path / "checkpoint", (opt, params, state))
    checkpointer.wait_until_finished()
    data, result = tmp_path / "data.npz", tmp_path / "result.npz"
    np.savez(data, x=X, y=Y)
    program = textwrap.dedent(RESUME)
    subprocess.run([sys.executable, "-c", program, tmp_path / "checkpoint", data, result], check=True)
    updates, _ = opt.replace(learning_rate=0.5).update(jax.grad(loss)(params), state, params)
    expected = {name: params[name] + updates[name] for name in params}
    for name, value in np.load(result).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-6)


@pytest.mark.parametrize("name", ["pickle", "cloudpickle", "deepcopy", "copy"])
def test_copies(pair, name):
    opt = pair.ours
    through = {
        "pickle": lambda x: pickle.loads(pickle.dumps(x)),
        "cloudpickle": lambda x: pickle.loads(library("cloudpickle").dumps(x)),
        "deepcopy": copy.deepcopy,
        "copy": copy.copy,
    }[name]
    state = train(opt)[1]
    copied = through((opt, state))
    assert copied[0] == opt
    assert_same(copied, (opt, state))


def test_cloudpickle_takes_functions():
    cloudpickle = library("cloudpickle")
    opt = pytreeopt.adamw(lambda step: 0.1 / (step + 1), mask=lambda params: {"w": True, "b": False})
    assert_same(train(pickle.loads(cloudpickle.dumps(opt))), train(opt))
