"""An optimizer and its state in one pytree."""

import copy
import doctest
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization

import pytreeopt
import pytreeopt.bound
from pytreeopt import Bound, bind, hyperparams, replace

PARAMS = {"w": jnp.array([1.0, -2.0]), "b": jnp.array(0.5)}
OPT = pytreeopt.adamw(pytreeopt.linear_schedule(0.5, 0.0, 8))


def bitwise(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def close(a, b):
    """As close as traced hyperparameters are, whose 1 - b2 is rounded to float32."""
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4), a, b)


def by_hand(opt, steps):
    params, state = PARAMS, opt.init(PARAMS)
    for _ in range(steps):
        updates, state = opt.update(params, state, params)
        params = optax.apply_updates(params, updates)
    return params, state


@jax.jit
def scanned(params, bound):
    carry, _ = jax.lax.scan(lambda carry, _: (carry[1].step(carry[0], carry[0]), None), (params, bound), length=3)
    return carry


def test_the_docstring_runs():
    assert doctest.testmod(pytreeopt.bound).failed == 0


def test_steps_are_those_of_init_and_update():
    params, bound = PARAMS, bind(OPT, PARAMS)
    for _ in range(3):
        params, bound = bound.step(params, params)
    expected, state = by_hand(OPT, 3)
    bitwise(params, expected)
    bitwise(bound.state, state)
    assert bound.optimizer is OPT
    assert jax.tree.structure(bound.state) == jax.tree.structure(OPT.init(PARAMS))


def test_in_jit_scan_vmap_and_with_donation():
    expected, _ = by_hand(OPT, 3)
    params, bound = scanned(PARAMS, bind(OPT, PARAMS))
    close(params, expected)
    assert jax.tree.structure(bound) == jax.tree.structure(bind(OPT, PARAMS))
    donated = jax.jit(lambda params, bound: bound.step(params, params), donate_argnums=(0, 1))
    donated(jax.tree.map(jnp.copy, PARAMS), bind(OPT, PARAMS))
    population = pytreeopt.population.stack([OPT, replace(OPT, init_value=0.25)])
    many = jax.vmap(bind, in_axes=(0, None))(population, PARAMS)
    params, _ = jax.jit(jax.vmap(scanned, in_axes=(None, 0)))(PARAMS, many)
    close(pytreeopt.population.take(params, 0), expected)


def test_hyperparameters_change_on_the_way():
    _, bound = bind(OPT, PARAMS).step(PARAMS, PARAMS)
    assert hyperparams(bound.optimizer, step=bound.state)["learning_rate"] == np.float32(0.4375)
    slower = bound.replace(optimizer=replace(bound.optimizer, init_value=0.25))
    assert hyperparams(slower.optimizer)["learning_rate.init_value"] == 0.25
    assert slower != bound


def test_extra_arguments_reach_the_optimizer():
    value = jnp.float32(2.0)
    opt = pytreeopt.polyak_sgd()
    params, _ = bind(opt, PARAMS).step(PARAMS, PARAMS, value=value)
    updates, _ = opt.update(PARAMS, opt.init(PARAMS), PARAMS, value=value)
    bitwise(params, optax.apply_updates(PARAMS, updates))


def test_checkpoints_and_copies():
    _, bound = bind(OPT, PARAMS).step(PARAMS, PARAMS)
    fresh = bind(replace(OPT, init_value=0.0), PARAMS)
    for copied in (
        serialization.from_bytes(fresh, serialization.to_bytes(bound)),
        serialization.from_state_dict(fresh, serialization.to_state_dict(bound)),
    ):
        bitwise(copied.state, bound.state)
        assert copied.optimizer == bound.optimizer
    for copied in (pickle.loads(pickle.dumps(bound)), copy.deepcopy(bound)):
        assert copied == bound
        assert hash(copied) == hash(bound)


def test_an_optimizer_of_optax_is_bound_too():
    params, bound = bind(optax.adam(0.1), PARAMS).step(PARAMS, PARAMS)
    expected, _ = bind(pytreeopt.adam(0.1), PARAMS).step(PARAMS, PARAMS)
    bitwise(params, expected)
    assert isinstance(bound, Bound)
