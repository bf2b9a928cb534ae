"""What is special to the optimizers that scale each coordinate or each layer by what they have seen of it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreeopt
from pytreeopt.errors import HyperparameterError, TransformationError

PARAMS = {"w": jnp.array([[0.5, -1.5], [2.0, 1.0]]), "b": jnp.array([0.3, -0.7])}
GRADS = {"w": jnp.array([[0.1, -0.2], [0.3, 0.4]]), "b": jnp.array([-0.2, 0.6])}

TRANSFORMATIONS = {
    "scale_by_belief": pytreeopt.scale_by_belief(),
    "scale_by_adadelta": pytreeopt.scale_by_adadelta(eps=1e-8),
    "scale_by_rss": pytreeopt.scale_by_rss(0.0, eps=1e-8),
    "scale_by_adamax": pytreeopt.scale_by_adamax(),
    "scale_by_adan": pytreeopt.scale_by_adan(),
    "scale_by_amsgrad": pytreeopt.scale_by_amsgrad(),
    "scale_by_radam": pytreeopt.scale_by_radam(b2=0.9, threshold=0.5),
    "scale_by_yogi": pytreeopt.scale_by_yogi(eps=1e-8, initial_accumulator_value=0.0),
    "scale_by_novograd": pytreeopt.scale_by_novograd(),
    "scale_by_trust_ratio": pytreeopt.scale_by_trust_ratio(),
    "scale_by_sm3": pytreeopt.scale_by_sm3(),
    "scale_by_rprop": pytreeopt.scale_by_rprop(1e-2),
    "lamb": pytreeopt.lamb(1e-2, eps=1e-8),
    "lars": pytreeopt.lars(1e-2),
    "fromage": pytreeopt.fromage(0.0),
}

every_transformation = pytest.mark.parametrize("opt", TRANSFORMATIONS.values(), ids=TRANSFORMATIONS)


def cast(tree, dtype):
    return jax.tree.map(lambda x: x.astype(dtype), tree)


@every_transformation
def test_zero_gradients_in_float16_give_zeros(opt):
    """Where eps rounds to 0 Optax divides 0 by 0."""
    params = cast(PARAMS, jnp.float16)
    zeros = jax.tree.map(jnp.zeros_like, params)

    def two_updates(opt, zeros):
        state = opt.init(params)
        first, state = opt.update(zeros, state, params)
        return first, opt.update(zeros, state, params)

    for run in (two_updates, jax.jit(two_updates)):
        first, (second, state) = run(opt, zeros)
        assert not any(bool(jnp.any(x)) for x in jax.tree.leaves((first, second)))
        assert all(bool(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(state))


@every_transformation
@pytest.mark.parametrize("of_params, of_grads", [("float32", "bfloat16"), ("bfloat16", "float32")])
def test_a_state_keeps_its_dtypes_whatever_the_gradients_bring(opt, of_params, of_grads):
    params, grads = cast(PARAMS, of_params), cast(GRADS, of_grads)

    def two_updates(params, grads):
        state = opt.init(params)
        _, after = opt.update(grads, state, params)
        return state, after, opt.update(grads, after, params)[1]

    states = jax.eval_shape(two_updates, params, grads)
    first, second, third = (jax.tree.map(lambda x: (x.shape, x.dtype), state) for state in states)
    assert first == second == third


@every_transformation
def test_hypergradients_are_finite_at_zero_gradients(opt):
    zeros = jax.tree.map(jnp.zeros_like, PARAMS)
    leaves, treedef = jax.tree.flatten(opt)

    @jax.jit
    @jax.grad
    def slopes(leaves):
        opt = jax.tree.unflatten(treedef, leaves)
        state = opt.init(PARAMS)
        first, state = opt.update(zeros, state, PARAMS)
        second, _ = opt.update(zeros, state, PARAMS)
        return sum(jnp.sum(x) for x in jax.tree.leaves((first, second)))

    values = [jnp.asarray(x, jnp.float32) for x in leaves]
    for (path, _), slope in zip(jax.tree_util.tree_leaves_with_path(opt), slopes(values), strict=True):
        assert bool(jnp.isfinite(slope)), jax.tree_util.keystr(path)


@pytest.mark.parametrize("b2", [0.9, 0.6, 0.999])
def test_radam_has_finite_hypergradients_before_it_rectifies(b2):
    def loss(b2):
        opt, params = pytreeopt.radam(1e-2, b2=b2), PARAMS
        state = opt.init(params)
        for _ in range(7):
            updates, state = opt.update(GRADS, state, params)
            params = optax.apply_updates(params, updates)
        return sum(jnp.sum(x**2) for x in jax.tree.leaves(params))

    slope = jax.jit(jax.grad(loss))(b2)
    assert bool(jnp.isfinite(slope))
    assert (slope == 0) == (b2 == 0.6)  # whose average is too short to be rectified ever


def test_radam_with_a_threshold_below_four_does_not_take_the_root_of_a_negative_number():
    def third_update(optax):
        opt = optax.radam(1e-2, b2=0.9, threshold=0.5)
        state = opt.init(PARAMS)
        for _ in range(3):
            updates, state = opt.update(GRADS, state)
        return updates

    assert bool(jnp.all(jnp.isnan(third_update(optax)["w"])))
    np.testing.assert_allclose(third_update(pytreeopt)["w"], -1e-2 * GRADS["w"], rtol=1e-5)


@pytest.mark.parametrize("shape", [(), (3,), (3, 2), (2, 3, 2)])
@pytest.mark.parametrize("b2", [1.0, 0.9])
def test_sm3_follows_its_formula_at_every_rank(shape, b2):
    """At rank 0 Optax raises an IndexError."""
    g = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    opt = pytreeopt.scale_by_sm3(0.9, b2, 1e-8)
    axes = range(len(shape))
    slices = [np.zeros(shape, np.float32)] * max(len(shape), 1)
    state, nu = opt.init(jnp.asarray(g)), np.zeros_like(g)
    for _ in range(2):
        updates, state = opt.update(jnp.asarray(g), state)
        squares = (1.0 if b2 == 1 else 1 - b2) * g**2 + b2 * minimum(slices)
        nu = 0.1 * g / np.sqrt(squares + 1e-8) + 0.9 * nu
        if len(shape) < 2:
            slices = [squares]
        else:
            slices = [
                np.broadcast_to(squares.max(tuple(j for j in axes if j != i), keepdims=True), shape) for i in axes
            ]
        np.testing.assert_allclose(updates, nu, rtol=1e-5)


def minimum(arrays):
    return np.min(np.stack(arrays), axis=0)


@pytest.mark.parametrize("b2", [1.0, 0.9])
def test_sm3_takes_a_traced_b2(b2):
    opt = pytreeopt.scale_by_sm3(b2=b2)
    state = opt.init(PARAMS)
    expected, _ = opt.update(GRADS, state)
    traced, _ = jax.jit(lambda opt: opt.update(GRADS, state))(opt)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5), traced, expected)


def test_sm3_refuses_complex_params():
    with pytest.raises(ValueError, match=r"^ScaleBySM3\.init needs real params, got complex ones"):
        pytreeopt.scale_by_sm3().init(jnp.ones(2, jnp.complex64))
    with pytest.raises(ValueError, match=r"^SM3\.init: ScaleBySM3 needs real params"):
        pytreeopt.sm3(0.1).init(jnp.ones(2, jnp.complex64))


@pytest.mark.parametrize("optimizer", [pytreeopt.sm3, pytreeopt.rprop])
def test_a_schedule_is_refused_where_only_a_number_will_do(optimizer):
    opt = optimizer(pytreeopt.linear_schedule(1.0, 0.0, 5))
    with pytest.raises(HyperparameterError, match=rf"^{optimizer.__name__}\.init.* cannot take a schedule"):
        opt.init(PARAMS)


@pytest.mark.parametrize("rate", [1e-4, 1e-3, 1e-1, 3.0])
def test_fromage_with_a_traced_rate_is_exact(rate):
    """In float32 the shrinkage of upstream's traced form is off by 5% at 1e-3, and 0 at 1e-4."""
    opt = pytreeopt.fromage(rate)
    grads = jax.tree.map(jnp.zeros_like, PARAMS)  # what is left of the update is the shrinkage
    updates, _ = jax.jit(lambda opt: opt.update(grads, opt.init(PARAMS), PARAMS))(opt)
    exact = 1 / np.sqrt(1 + np.float64(rate) ** 2) - 1
    if rate < 1e-2:
        exact = -0.5 * np.float64(rate) ** 2 * (1 - 0.75 * np.float64(rate) ** 2)  # its series: float64 cancels, too
    for update, param in zip(jax.tree.leaves(updates), jax.tree.leaves(PARAMS), strict=True):
        np.testing.assert_allclose(np.asarray(update, np.float64) / np.asarray(param, np.float64), exact, rtol=1e-6)

    updates, _ = jax.jit(lambda opt: opt.update(GRADS, opt.init(PARAMS), PARAMS))(opt)
    for update, g, p in zip(*map(jax.tree.leaves, (updates, GRADS, PARAMS)), strict=True):
        g, p = np.asarray(g, np.float64), np.asarray(p, np.float64)
        step = np.float64(rate) * (exact + 1) * np.linalg.norm(p) / np.linalg.norm(g) * g
        np.testing.assert_allclose(update, exact * p - step, rtol=1e-5)


def test_adan_keeps_the_previous_gradient_in_the_dtype_of_the_params():
    opt = pytreeopt.adan(1e-2)
    state = opt.init(PARAMS)
    _, state = opt.update(cast(GRADS, jnp.bfloat16), state, PARAMS)
    assert all(x.dtype == jnp.float32 for x in jax.tree.leaves(state[0].g))
    jax.tree.map(lambda x, g: np.testing.assert_array_equal(x, g.astype(jnp.bfloat16)), state[0].g, GRADS)


def test_novograd_takes_a_momentum_wider_than_its_params():
    """Upstream's two branches then differ in dtype, which a conditional refuses."""
    opt = pytreeopt.scale_by_novograd(mu_dtype=jnp.float32)
    params, grads = cast(PARAMS, jnp.bfloat16), cast(GRADS, jnp.bfloat16)
    state = opt.init(params)
    for _ in range(2):
        _, state = opt.update(grads, state, params)
    assert all(x.dtype == jnp.float32 for x in jax.tree.leaves(state.mu))


@pytest.mark.parametrize(
    "opt, field",
    [
        (pytreeopt.adagrad(1e-2), "initial_accumulator_value"),
        (pytreeopt.scale_by_rss(), "initial_accumulator_value"),
        (pytreeopt.scale_by_yogi(), "initial_accumulator_value"),
        (pytreeopt.rprop(1e-2), "learning_rate"),
    ],
    ids=lambda x: x if isinstance(x, str) else type(x).__name__,
)
def test_fields_frozen_at_init(opt, field):
    """Changing them in mid-run changes nothing, and the docstring says so."""
    other = dataclasses.replace(opt, **{field: 0.5})
    state = opt.init(PARAMS)
    _, state = opt.update(GRADS, state, PARAMS)
    jax.tree.map(np.testing.assert_array_equal, opt.update(GRADS, state), other.update(GRADS, state))
    assert f"Frozen into the state at init: `{field}`" in type(opt).__doc__
    assert any(bool(jnp.any(x != y)) for x, y in zip(*map(jax.tree.leaves, (state, other.init(PARAMS))), strict=True))


@pytest.mark.parametrize("name", ["adadelta", "adamaxw", "adan", "lamb", "lars", "novograd", "fromage"])
def test_params_are_asked_for(name):
    opt = getattr(pytreeopt, name)(1e-2)
    with pytest.raises(ValueError, match=rf"^{type(opt).__name__}\.update: \w+ needs params, got None"):
        opt.update(GRADS, opt.init(PARAMS))


@every_transformation
def test_integer_params_are_refused_by_what_accumulates(opt):
    if not jax.tree.leaves(opt.init(PARAMS)):
        return
    with pytest.raises(TransformationError, match="needs floating or complex params, got int32"):
        opt.init({"w": jnp.arange(3)})
