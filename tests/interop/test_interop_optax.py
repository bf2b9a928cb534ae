"""Optax itself: its combinators around our transformations, and ours around its."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreeopt
from consumers import PARAMS, assert_same, loss, train

pytestmark = pytest.mark.interop


def labels(params):
    return {name: name for name in params}


def mask(params):
    return {name: name == "w" for name in params}


def always(step, **_):
    return step >= 0


COMBINATORS = {
    "chain": lambda o, tx: o.chain(o.clip(1.0), tx),
    "named_chain": lambda o, tx: o.named_chain(("clip", o.clip(1.0)), ("rest", tx)),
    "partition": lambda o, tx: o.partition({"w": tx, "b": o.sgd(0.1)}, labels),
    "masked": lambda o, tx: o.masked(tx, mask),
    "MultiSteps": lambda o, tx: o.MultiSteps(tx, every_k_schedule=2),
    "apply_if_finite": lambda o, tx: o.apply_if_finite(tx, 2),
    "conditionally_transform": lambda o, tx: o.conditionally_transform(tx, always),
    "conditionally_mask": lambda o, tx: o.conditionally_mask(tx, always),
    "flatten": lambda o, tx: o.flatten(tx),
    "selective_transform": lambda o, tx: o.selective_transform(tx, freeze_mask={"w": True, "b": False}),
    "schedule_free": lambda o, tx: o.contrib.schedule_free(tx, learning_rate=0.1, b1=0.9),
    "mechanize": lambda o, tx: o.contrib.mechanize(tx),
}
EXTRA = ("chain", "named_chain", "partition", "masked", "MultiSteps", "apply_if_finite", "conditionally_transform")


@pytest.mark.parametrize("name", COMBINATORS)
@pytest.mark.parametrize("inner", ["ours in Optax's", "Optax's in ours"])
def test_optax_combinators(pair, name, inner):
    combine = COMBINATORS[name]
    mixed = combine(optax, pair.ours) if inner == "ours in Optax's" else combine(pytreeopt, pair.theirs)
    # A schedule-free wrapper of ours around arrays is no closure over constants: same numbers, other fusion.
    assert_same(train(mixed, steps=2), train(combine(optax, pair.theirs), steps=2), pair.rtol)


@pytest.mark.parametrize("name", EXTRA)
@pytest.mark.parametrize("inner", ["ours in Optax's", "Optax's in ours"])
def test_optax_combinators_pass_extra_arguments(name, inner):
    """The loss reaches the inner optimizer through a combinator of the other library, and changes its step."""
    combine = COMBINATORS[name]
    ours_inside = inner == "ours in Optax's"
    mixed = combine(optax, pytreeopt.polyak_sgd()) if ours_inside else combine(pytreeopt, optax.polyak_sgd())
    reference = combine(optax, optax.polyak_sgd())

    def run(tx, value):
        state, params = tx.init(PARAMS), PARAMS
        for _ in range(2):
            gradient = jax.grad(loss)(params)
            extra = {"step": jnp.asarray(0)} if name == "conditionally_transform" else {}
            updates, state = tx.update(gradient, state, params, value=value, **extra)
            params = optax.apply_updates(params, updates)
        return params

    assert_same(run(mixed, 1.0), run(reference, 1.0))
    assert np.any(run(mixed, 1.0)["w"] != run(mixed, 0.0)["w"])


def test_optax_inject_hyperparams_takes_our_classes():
    ours = optax.inject_hyperparams(pytreeopt.adam)(learning_rate=optax.linear_schedule(1e-2, 1e-3, 5))
    theirs = optax.inject_hyperparams(optax.adam)(learning_rate=optax.linear_schedule(1e-2, 1e-3, 5))
    assert_same(train(ours), train(theirs))
    _, state = train(ours, steps=1)
    state.hyperparams["b1"] = jnp.asarray(0.5)
    assert np.isfinite(ours.update(PARAMS, state, PARAMS)[0]["b"])
    assert inspect.signature(pytreeopt.adam).parameters.keys() == inspect.signature(optax.adam).parameters.keys()


def test_optax_tree_utilities_read_our_states(pair):
    opt = pair.ours
    state = train(opt)[1]
    assert_same(optax.tree.get(state, "mu"), optax.tree.get(train(pair.theirs)[1], "mu"), pair.rtol)
    mapped = optax.tree.map_params(opt, lambda x: x + 1, state)
    assert_same(mapped, optax.tree.map_params(pair.theirs, lambda x: x + 1, state))
