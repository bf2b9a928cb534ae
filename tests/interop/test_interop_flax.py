"""Flax: TrainState, NNX's Optimizer, serialization."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import serialization
from flax.training import train_state

import pytreeopt
from consumers import AS_ARGUMENT, PARAMS, Count, X, Y, assert_same, library, loss, other_rate, train
from pytreeopt.interop.flax import TrainState

nnx = library("flax.nnx")

from pytreeopt.interop.nnx import Optimizer, register

pytestmark = pytest.mark.interop


def gradient_step(state):
    return state.apply_gradients(grads=jax.grad(loss)(state.params))


def stepped(state, steps=3):
    step = jax.jit(gradient_step)
    for _ in range(steps):
        state = step(state)
    return state


def test_flax_train_state(pair):
    ours, theirs = (
        stepped(train_state.TrainState.create(apply_fn=None, params=PARAMS, tx=tx)) for tx in (pair.ours, pair.theirs)
    )
    assert_same((ours.params, ours.opt_state, ours.step), (theirs.params, theirs.opt_state, theirs.step), pair.rtol)


def test_flax_train_state_takes_equal_optimizers_for_the_same(pair):
    count = Count(gradient_step)
    step = jax.jit(count)
    for tx in (pair.ours, pair.ours):
        step(train_state.TrainState.create(apply_fn=None, params=PARAMS, tx=tx))
    assert count.traces == 1


def test_train_state_as_a_tree(pair):
    count = Count(gradient_step)
    step = jax.jit(count)
    state = TrainState.create(apply_fn=None, params=PARAMS, tx=pair.ours)
    for _ in range(3):
        state = step(state)
    assert_same((state.params, state.opt_state), train(pair.theirs), rtol=AS_ARGUMENT)
    for tx in (other_rate(pair.ours), other_rate(state.tx)):
        changed = step(state.replace(tx=tx))
        assert np.any(changed.params["w"] != step(state).params["w"])
    assert count.traces == 1
    restored = serialization.from_bytes(state, serialization.to_bytes(state))
    assert_same(restored, state)


def test_train_state_trains_a_population(pair):
    rates = jnp.asarray([1.0, 0.5])
    halves = jax.tree_util.tree_map_with_path(
        lambda path, x: x * rates if str(path[-1]).endswith(("learning_rate", "init_value")) else jnp.stack([x, x]),
        pair.ours,
    )
    states = jax.vmap(lambda tx: TrainState.create(apply_fn=None, params=PARAMS, tx=tx))(halves)
    states = jax.jit(jax.vmap(gradient_step))(states)
    for i, tx in enumerate((pair.ours, other_rate(pair.ours))):
        assert_same(jax.tree.map(lambda x, i=i: x[i], states.params), train(tx, steps=1)[0], rtol=AS_ARGUMENT)


def test_train_state_takes_optimizers_of_optax(pair):
    state = stepped(TrainState.create(apply_fn=None, params=PARAMS, tx=pair.theirs))
    assert_same((state.params, state.opt_state), train(pair.theirs))


def model_and_gradient(graph=None):
    model = nnx.Linear(3, 1, rngs=nnx.Rngs(0))
    return model, lambda model: nnx.grad(lambda m: jnp.mean((m(X)[:, 0] - Y) ** 2), graph=graph)(model)


def nnx_run(make, change=None, graph=None):
    """Parameters after three steps, two more after a change, and the number of traces."""
    model, gradient = model_and_gradient(graph)
    optimizer = make(model, graph)
    count = Count(lambda model, optimizer: optimizer.update(model, gradient(model)) and None)
    step = nnx.jit(count, graph=graph)
    for _ in range(3):
        step(model, optimizer)
    before = nnx.to_pure_dict(nnx.state(model, nnx.Param))
    if change is not None:
        optimizer.tx = change(optimizer.tx)
        for _ in range(2):
            step(model, optimizer)
    return before, model, optimizer, count.traces


def nnx_reference(pair):
    return nnx_run(lambda model, graph: nnx.Optimizer(model, pair.theirs, wrt=nnx.Param))[0]


@pytest.fixture(scope="module")
def registered():
    register()


def test_nnx_optimizer(pair, registered):
    before, _, optimizer, traces = nnx_run(lambda model, graph: nnx.Optimizer(model, pair.ours, wrt=nnx.Param))
    assert_same(before, nnx_reference(pair), rtol=AS_ARGUMENT)
    assert traces == 1
    merged = nnx.merge(*nnx.split(optimizer))
    assert_same(merged.tx, optimizer.tx)
    assert_same(nnx.to_pure_dict(nnx.state(merged)), nnx.to_pure_dict(nnx.state(optimizer)))


def test_nnx_optimizer_with_registered_arrays_changes_rates_without_a_retrace(pair, registered):
    tx = pytreeopt.as_arrays(pair.ours)
    before, _, _, traces = nnx_run(lambda model, graph: nnx.Optimizer(model, tx, wrt=nnx.Param), change=other_rate)
    assert_same(before, nnx_reference(pair), rtol=AS_ARGUMENT)
    assert traces == 1


@pytest.mark.parametrize("graph", [None, False], ids=["graph", "tree"])
def test_nnx_optimizer_as_data(pair, graph):
    def make(model, graph):
        return Optimizer(model, pair.ours, wrt=nnx.Param, graph=graph)

    def change(tx):
        return jax.tree.map(lambda x: x.item() if isinstance(x, jax.Array) else x, other_rate(tx))

    before, _, optimizer, traces = nnx_run(make, change, graph)
    assert_same(before, nnx_reference(pair), rtol=AS_ARGUMENT)
    assert traces == 1
    assert_same(optimizer.tx, pytreeopt.as_arrays(other_rate(pair.ours)))
    if graph is None:
        graphdef, state = nnx.split(optimizer)
        assert_same(nnx.merge(graphdef, state).tx, optimizer.tx)
        assert len(jax.tree.leaves(state["tx"])) == len(jax.tree.leaves(pair.ours))


def test_nnx_optimizer_passes_extra_arguments():
    model, gradient = model_and_gradient()
    optimizer = Optimizer(model, pytreeopt.polyak_sgd(), wrt=nnx.Param)
    grads = gradient(model)
    optimizer.update(model, grads, value=jnp.asarray(0.0))  # a loss of zero: a step of zero
    assert_same(nnx.state(model), nnx.state(model_and_gradient()[0]))


def test_nnx_optimizer_takes_optimizers_of_optax(pair):
    before, *_ = nnx_run(lambda model, graph: Optimizer(model, pair.theirs, wrt=nnx.Param))
    assert_same(before, nnx_reference(pair))


@pytest.mark.parametrize("namespace", [pytreeopt, optax], ids=["ours", "optax"])
def test_nnx_state_is_partitioned(pair, namespace):
    """Labels over a State, with a transformation of ours in each part."""

    def build(inner, o):
        def labels(params):
            return jax.tree_util.tree_map_with_path(lambda path, _: "bias" if "bias" in str(path) else "rest", params)

        return o.partition({"bias": o.set_to_zero(), "rest": inner}, labels)

    ours, theirs = (
        nnx_run(lambda model, graph, tx=tx: nnx.Optimizer(model, tx, wrt=nnx.Param))[0]
        for tx in (pytreeopt.as_optax(build(pair.ours, namespace)), build(pair.theirs, optax))
    )
    assert_same(ours, theirs, pair.rtol)
    assert np.all(ours["bias"] == 0)


def test_flax_serialization(pair):
    opt = pair.ours
    state = train(opt)[1]
    target = (other_rate(opt), opt.init(PARAMS))
    restored = serialization.from_bytes(target, serialization.to_bytes((opt, state)))
    assert_same(restored, (opt, state))
    assert type(restored[0]) is type(opt)
    fields = serialization.to_state_dict(opt)
    assert_same(serialization.from_state_dict(other_rate(opt), fields), opt)
