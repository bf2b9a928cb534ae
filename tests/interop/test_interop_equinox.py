"""Equinox: filtered transformations, surgery on trees, modules."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreeopt
from consumers import AS_ARGUMENT, PARAMS, Count, assert_same, library, loss, other_rate, train

eqx = library("equinox")

pytestmark = pytest.mark.interop


def one_step(tx, params=PARAMS):
    updates, state = tx.update(jax.grad(loss)(params), tx.init(params), params)
    return optax.apply_updates(params, updates), state


def final_loss(tx):
    return loss(one_step(tx)[0])


def test_equinox_filter_jit(pair):
    count = Count(one_step)
    compiled = eqx.filter_jit(count)
    assert_same(compiled(pair.ours), train(pair.theirs, steps=1), rtol=AS_ARGUMENT)
    compiled(pair.ours)
    assert count.traces == 1
    compiled(pytreeopt.as_arrays(pair.ours))
    traces = count.traces
    compiled(pytreeopt.as_arrays(other_rate(pair.ours)))
    assert count.traces == traces  # arrays are dynamic there, Python numbers are not


def test_equinox_filter_grad(pair):
    gradient = eqx.filter_jit(eqx.filter_grad(final_loss))(pytreeopt.as_arrays(pair.ours))
    assert type(gradient) is type(pair.ours)
    leaves = jax.tree_util.tree_leaves_with_path(gradient)
    rates = [leaf for path, leaf in leaves if str(path[-1]).endswith(("learning_rate", "init_value"))]
    assert len(rates) == 1
    assert np.isfinite(rates[0])
    assert rates[0] < 0  # a greater rate would have come closer


def test_equinox_filter_vmap(pair):
    both = jax.tree.map(lambda *x: jnp.stack(x), *map(pytreeopt.as_arrays, (pair.ours, other_rate(pair.ours))))
    losses = eqx.filter_jit(eqx.filter_vmap(final_loss))(both)
    expected = [loss(train(tx, steps=1)[0]) for tx in (pair.ours, other_rate(pair.ours))]
    np.testing.assert_allclose(losses, expected, rtol=AS_ARGUMENT)


def test_equinox_partition(pair):
    opt = pytreeopt.as_arrays(pair.ours)
    dynamic, static = eqx.partition(opt, eqx.is_array)
    assert len(jax.tree.leaves(dynamic)) == len(jax.tree.leaves(pair.ours))
    assert_same(eqx.combine(dynamic, static), opt)


def test_equinox_tree_at():
    opt = eqx.tree_at(lambda opt: opt.b1, pytreeopt.adam(1e-2), 0.5)
    assert opt == pytreeopt.adam(1e-2, b1=0.5)
    chained = pytreeopt.chain(pytreeopt.clip(1.0), pytreeopt.sgd(pytreeopt.constant_schedule(0.1)))
    changed = eqx.tree_at(lambda opt: opt.transforms[1].learning_rate.value, chained, 0.2)
    assert changed == pytreeopt.chain(pytreeopt.clip(1.0), pytreeopt.sgd(pytreeopt.constant_schedule(0.2)))


def test_equinox_module_field(pair):
    class Trainer(eqx.Module):
        tx: pytreeopt.GradientTransformation
        params: dict

    count = Count(lambda trainer: one_step(trainer.tx, trainer.params))
    compiled = jax.jit(count)
    assert_same(compiled(Trainer(pair.ours, PARAMS)), train(pair.theirs, steps=1), rtol=AS_ARGUMENT)
    compiled(Trainer(other_rate(pair.ours), PARAMS))
    assert count.traces == 1


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static:UserWarning")
def test_equinox_static_field(pair):
    class Trainer(eqx.Module):
        params: dict
        tx: pytreeopt.GradientTransformation = eqx.field(static=True)

    count = Count(lambda trainer: one_step(trainer.tx, trainer.params))
    compiled = jax.jit(count)
    assert_same(compiled(Trainer(PARAMS, pair.ours)), train(pair.theirs, steps=1), pair.rtol)
    compiled(Trainer(PARAMS, pair.ours))
    assert count.traces == 1  # an equal optimizer is the same program
    compiled(Trainer(PARAMS, other_rate(pair.ours)))
    assert count.traces == 2
