"""A factor for each parameter."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreeopt
from pytreeopt import hyperparams, replace, scale_by_tree
from pytreeopt.errors import StructureError

UPDATES = {"w": jnp.array([1.0, -2.0]), "layers": [{"k": jnp.ones((2, 3)), "b": None}, {}, (jnp.array(3.0),)]}
FACTORS = {"w": 0.5, "layers": [{"k": 0.25, "b": None}, {}, (2.0,)]}


def update(opt, updates):
    return opt.update(updates, opt.init(updates))[0]


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "factors, expected",
    [
        (FACTORS, (0.25, 2.0, 0.5)),
        ({"w": 0.5, "layers": 2.0}, (2.0, 2.0, 0.5)),
        ({"w": jnp.array([0.5, 2.0]), "layers": [jnp.array([1.0, 2.0, 3.0]), 1.0, 0.0]},
         (np.array([1.0, 2.0, 3.0]), 0.0, np.array([0.5, 2.0]))),
        (3, (3, 3, 3)),
        (np.float64(0.5), (0.5, 0.5, 0.5)),
    ],
    ids=["each", "prefix", "elements", "one", "NumPy"],
)  # fmt: skip
def test_each_update_is_multiplied_by_its_factor(factors, expected, jit):
    call = jax.jit(update) if jit else update
    found = call(scale_by_tree(factors), UPDATES)
    assert jax.tree.structure(found) == jax.tree.structure(UPDATES)
    for x, g, factor in zip(jax.tree.leaves(found), jax.tree.leaves(UPDATES), expected, strict=True):
        np.testing.assert_array_equal(x, factor * g)


def test_a_learned_rate_for_each_layer():
    """The derivative by a factor is minus the product of the gradients before and after."""
    slopes = jax.grad(lambda opt: optax.tree.sum(update(opt, UPDATES)))(scale_by_tree(FACTORS))
    assert jax.tree.structure(slopes) == jax.tree.structure(scale_by_tree(FACTORS))
    assert hyperparams(slopes) == {"factors.layers.0.k": 6.0, "factors.layers.2.0": 3.0, "factors.w": -1.0}


@pytest.mark.parametrize("factor", [2.0, jnp.float32(2.0), jnp.full(2, 2.0), jnp.full(2, 2, jnp.int32)])
def test_the_dtype_of_the_updates_stays(factor):
    found = update(scale_by_tree({"w": factor}), {"w": jnp.ones(2, jnp.bfloat16)})["w"]
    assert found.dtype == jnp.bfloat16
    np.testing.assert_array_equal(found, 2.0)


def test_it_is_an_optimizer_like_any_other():
    factors = {"w": 0.5, "layers": 9.0}
    opt = pytreeopt.chain(pytreeopt.adam(0.1), pytreeopt.masked(scale_by_tree(factors), {"w": True, "layers": False}))
    plain = update(pytreeopt.adam(0.1), UPDATES)
    found = update(opt, UPDATES)
    np.testing.assert_array_equal(found["w"], 0.5 * plain["w"])
    np.testing.assert_array_equal(found["layers"][0]["k"], plain["layers"][0]["k"])
    assert replace(opt, {"factors.w": 1.0}).transforms[1].inner.factors["w"] == 1.0
    many = pytreeopt.population.stack([opt, replace(opt, {"factors.w": 1.0})])
    both = jax.vmap(update, in_axes=(0, None))(many, UPDATES)["w"]
    np.testing.assert_allclose(both, jnp.stack([0.5 * plain["w"], plain["w"]]), rtol=1e-4)  # traced, 1 - b2 rounds


def test_one_compile_for_every_value_and_spelling():
    traces = []
    call = jax.jit(lambda opt: traces.append(opt) or update(opt, UPDATES))
    for value in (0.5, np.float32(0.25), jnp.float32(2.0)):
        call(scale_by_tree({"w": value, "layers": 1.0}))
    assert len(traces) == 1


@pytest.mark.parametrize(
    "factors, message",
    [
        ({"w": 0.5}, "ScaleByTree.update has factors that are no prefix of the tree of updates"),
        ({"w": 0.5, "layers": [1.0]}, "no prefix"),
        ({"w": 0.5, "layers": lambda step: 0.5}, "no prefix"),
        ({"w": 0.5, "layers": jnp.ones((2, 2, 3))}, r"makes an update of shape \(2, 3\) one of \(2, 2, 3\)"),
    ],
)
def test_factors_that_do_not_fit_are_refused(factors, message):
    with pytest.raises(StructureError, match=message):
        update(scale_by_tree(factors), UPDATES)
