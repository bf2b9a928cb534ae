"""Lion, RMSProp, sign and optimistic methods, Polyak's step, noise and small transformations: what is special."""

import dataclasses
import pickle
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreeopt
from pytreeopt.errors import TransformationError

PARAMS = {"w": jnp.array([[1.0, -2.0], [0.5, 3.0]]), "s": jnp.array(0.7)}
GRADS = {"w": jnp.array([[0.1, 0.2], [-0.3, 0.4]]), "s": jnp.array(-0.6)}


def zeros(tree, dtype=jnp.float32):
    return jax.tree.map(lambda x: jnp.zeros(x.shape, dtype), tree)


def cast(tree, dtype):
    return jax.tree.map(lambda x: x.astype(dtype), tree)


def itself(tree):
    return tree


def is_long(tree):
    return optax.tree.norm(tree) > 1.0


def dtypes(tree):
    return jax.tree.map(lambda x: x.dtype, tree)


def pointers(tree):
    return {x.unsafe_buffer_pointer() for x in jax.tree.leaves(tree)}


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "opt",
    [
        pytreeopt.rmsprop(1e-2),
        pytreeopt.rmsprop(1e-2, eps_in_sqrt=False),
        pytreeopt.rmsprop(1e-2, centered=True, momentum=0.9),
        pytreeopt.rmsprop(1e-2, centered=True, eps_in_sqrt=False, bias_correction=True),
        pytreeopt.scale_by_rms(bias_correction=True),
        pytreeopt.normalize_by_update_norm(eps=1e-8),
        pytreeopt.normalize_by_update_norm(eps=0.0),
        pytreeopt.polyak_sgd(),
        pytreeopt.adaptive_grad_clip(0.1),
        pytreeopt.scale_by_distance_over_gradients(),
        pytreeopt.lion(1e-2, weight_decay=0.0),
    ],
    ids=lambda opt: type(opt).__name__,
)
def test_zero_gradients_give_zeros(opt, jit):
    params = cast(PARAMS, jnp.float16)
    gradients, state = zeros(params, jnp.float16), opt.init(params)
    update = lambda opt, g, s, p: opt.update(g, s, p, value=jnp.float32(1.0))
    for _ in range(2):
        updates, state = (jax.jit(update) if jit else update)(opt, gradients, state, params)
        assert all(bool(jnp.all(u == 0)) for u in jax.tree.leaves(updates))


@pytest.mark.parametrize(
    "opt",
    [
        pytreeopt.polyak_sgd(),
        pytreeopt.normalize_by_update_norm(),
        pytreeopt.adaptive_grad_clip(0.1),
        pytreeopt.rmsprop(1e-2),
        pytreeopt.rmsprop(1e-2, eps_in_sqrt=False, centered=True),
        pytreeopt.scale_by_distance_over_gradients(),
    ],
    ids=lambda opt: type(opt).__name__,
)
def test_hypergradients_at_zero_gradients_are_finite(opt):
    def loss(opt, scale):
        params, state = PARAMS, opt.init(PARAMS)
        gradients = jax.tree.map(lambda p: 0 * scale * p, PARAMS)
        for _ in range(2):
            updates, state = opt.update(gradients, state, params, value=jnp.float32(1.0))
            params = optax.apply_updates(params, updates)
        return sum(jnp.sum(p) for p in jax.tree.leaves(params))

    slopes = jax.jit(jax.grad(loss, argnums=(0, 1)))(opt, 2.0)
    assert all(bool(jnp.isfinite(x)) for x in jax.tree.leaves(slopes))


@pytest.mark.parametrize("eps_in_sqrt", [True, False])
def test_a_negative_variance_counts_as_zero(eps_in_sqrt):
    opt = pytreeopt.scale_by_stddev(eps=1e-8, eps_in_sqrt=eps_in_sqrt)
    state = opt.init(jnp.ones(2))._replace(mu=jnp.array([1.0, 1.0]), nu=jnp.array([0.999, 2.0]))
    updates, _ = opt.update(jnp.ones(2), state)
    theirs, _ = optax.scale_by_stddev(eps=1e-8, eps_in_sqrt=eps_in_sqrt).update(jnp.ones(2), state)
    assert np.isnan(theirs[0])
    np.testing.assert_allclose(updates, [1e4 if eps_in_sqrt else 1e8, theirs[1]], rtol=1e-6)


@pytest.mark.parametrize(
    ("opt", "params", "gradients"),
    [
        (pytreeopt.optimistic_gradient_descent(1e-2), jnp.float32, jnp.bfloat16),
        (pytreeopt.optimistic_adam_v2(1e-2), jnp.float32, jnp.bfloat16),
        (pytreeopt.lion(1e-2), jnp.float32, jnp.bfloat16),
        (pytreeopt.lion(1e-2), jnp.bfloat16, jnp.float32),
        (pytreeopt.rmsprop(1e-2, centered=True), jnp.bfloat16, jnp.float32),
        (pytreeopt.apply_every(2), jnp.bfloat16, jnp.float32),
        (pytreeopt.snapshot("gradient", itself), jnp.float32, jnp.bfloat16),
        (pytreeopt.scale_by_distance_over_gradients(), jnp.bfloat16, jnp.bfloat16),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, pytreeopt.GradientTransformation) else np.dtype(x).name,
)
def test_states_keep_their_dtypes(opt, params, gradients):
    params, gradients = cast(PARAMS, params), cast(GRADS, gradients)
    first = opt.init(params)
    _, second = opt.update(gradients, first, params)
    _, third = opt.update(gradients, second, params)
    assert dtypes(first) == dtypes(second) == dtypes(third)


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "opt",
    [pytreeopt.scale_by_optimistic_gradient(), pytreeopt.snapshot("gradient", itself)],
    ids=lambda opt: type(opt).__name__,
)
def test_a_new_state_does_not_share_the_gradient(opt, jit):
    state = opt.init(PARAMS)
    _, new = (jax.jit(opt.update) if jit else opt.update)(GRADS, state)
    assert not pointers(new) & pointers(GRADS)
    assert not pointers(state) & pointers(PARAMS)


def test_distance_over_gradients_keeps_shapes():
    opt = pytreeopt.scale_by_distance_over_gradients()
    updates, _ = opt.update(GRADS, opt.init(PARAMS), PARAMS)
    theirs = optax.scale_by_distance_over_gradients()
    expected, _ = theirs.update(GRADS, theirs.init(PARAMS), PARAMS)
    assert updates["s"].shape == ()
    assert expected["s"].shape == (1,)
    assert updates["s"] == expected["s"][0]


def test_apply_every_forgets_what_is_not_finite():
    opt = pytreeopt.apply_every(2)
    state, seen = opt.init(jnp.ones(2)), []
    for gradient in ([jnp.nan, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]):
        updates, state = opt.update(jnp.array(gradient), state)
        seen.append(updates)
    np.testing.assert_array_equal(seen, [[0, 0], [jnp.nan, 2], [0, 0], [2, 2]])


def test_apply_every_counts_in_integers():
    opt = pytreeopt.apply_every(3.0)
    state = opt.init(jnp.ones(2))
    _, state = opt.update(jnp.ones(2), state)
    assert state.count.dtype == jnp.int32


def test_measurements_of_bools_are_averaged_as_floats():
    opt = pytreeopt.measure_with_ema(is_long, 0.9)
    first = opt.init(PARAMS)
    average, second = opt.update(PARAMS, first)
    assert float(average) == pytest.approx(1.0)
    assert dtypes(first) == dtypes(second)


def test_keep_params_nonnegative_passes_none():
    opt = pytreeopt.keep_params_nonnegative()
    updates, _ = opt.update({"a": None, "b": jnp.array(-2.0)}, opt.init({}), {"a": jnp.array(1.0), "b": jnp.array(1.0)})
    assert updates == {"a": None, "b": -1.0}


def test_zero_nans_reports():
    opt = pytreeopt.zero_nans()
    updates, state = opt.update({"w": GRADS["w"], "s": jnp.array(jnp.nan)}, opt.init(PARAMS))
    assert updates["s"] == 0
    assert state.found_nan == {"w": False, "s": True}


KEYS = {
    "int": lambda: 5,
    "numpy": lambda: np.int64(5),
    "array": lambda: jnp.int32(5),
    "typed": lambda: jax.random.key(5),
    "raw": lambda: jax.random.PRNGKey(5),
    "raw numpy": lambda: np.asarray(jax.random.PRNGKey(5)),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_keys_in_every_form(key):
    opt, theirs = pytreeopt.add_noise(0.1, 0.5, key()), optax.add_noise(0.1, 0.5, 5)
    for init in (lambda opt: opt.init(PARAMS), jax.jit(lambda opt: opt.init(PARAMS))):
        updates, state = opt.update(GRADS, init(opt))
        expected, other = theirs.update(GRADS, theirs.init(PARAMS))
        jax.tree.map(np.testing.assert_array_equal, updates, expected)
        assert jax.tree.structure(state) == jax.tree.structure(other)
        assert state.rng_key == other.rng_key


def test_the_state_owns_its_key():
    key = jax.random.key(3)
    opt = pytreeopt.noisy_sgd(1e-2, key=key)
    state = opt.init(PARAMS)
    jax.jit(lambda s: jax.tree.map(lambda x: x, s), donate_argnums=0)(state)
    assert not jax.random.key_data(key).is_deleted()
    opt.init(PARAMS)


def test_a_population_draws_from_its_own_keys():
    """And another key compiles nothing anew."""
    traces = 0

    @jax.jit
    def noise(opt):
        nonlocal traces
        traces += 1
        return opt.update(GRADS, opt.init(PARAMS))[0]["w"]

    opt = pytreeopt.noisy_sgd(1e-2, key=0)
    alone = [noise(dataclasses.replace(opt, key=key)) for key in (1, np.int32(2), jnp.int32(3))]
    assert traces == 1
    for keys in (jnp.arange(1, 4), jax.vmap(jax.random.key)(jnp.arange(1, 4))):
        axes = jax.tree.map(lambda _: None, dataclasses.replace(opt, key=keys)).replace(key=0)
        together = jax.vmap(noise, in_axes=(axes,))(dataclasses.replace(opt, key=keys))
        np.testing.assert_allclose(together, jnp.stack(alone), rtol=1e-6)


def test_typed_keys_are_hyperparameters_like_others():
    opt = pytreeopt.noisy_sgd(1e-2, key=jax.random.key(3))
    assert opt == pytreeopt.noisy_sgd(1e-2, key=jax.random.key(3))
    assert opt != pytreeopt.noisy_sgd(1e-2, key=jax.random.key(4))
    assert hash(opt) == hash(pytreeopt.noisy_sgd(1e-2, key=jax.random.key(3)))
    compiled = jax.jit(lambda opt: opt.update(GRADS, opt.init(PARAMS))[0])
    compiled(opt)
    compiled(opt.replace(key=jax.random.key(4)))
    assert compiled._cache_size() == 1


@pytest.mark.parametrize("build", [pytreeopt.noisy_sgd, pytreeopt.add_noise])
def test_missing_keys_and_seeds_warn_their_user_only(build):
    with pytest.warns(UserWarning, match="key"):
        keyless = build(0.1, gamma=0.5)
    with pytest.warns(DeprecationWarning, match="seed"):
        seeded = build(0.1, gamma=0.5, seed=4)
    with pytest.raises(ValueError, match="not both"), pytest.warns(DeprecationWarning, match="seed"):
        build(0.1, gamma=0.5, key=3, seed=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zero, four = build(0.1, gamma=0.5, key=0), build(0.1, gamma=0.5, key=4)
        for opt, same in ((keyless, zero), (seeded, four)):
            opt = pickle.loads(pickle.dumps(jax.tree.map(lambda x: x, opt)))
            ours = jax.jit(lambda opt: opt.update(GRADS, opt.init(PARAMS))[0])(opt)
            theirs, _ = same.update(GRADS, same.init(PARAMS))
            jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5), ours, theirs)


def test_optimistic_adam_warns_its_user_only():
    with pytest.warns(DeprecationWarning, match="use `optimistic_adam_v2` instead"):
        opt = pytreeopt.optimistic_adam(1e-2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pickle.loads(pickle.dumps(opt)) == jax.tree.map(lambda x: x, opt.replace(b1=0.9))
        jax.jit(lambda opt: opt.init(PARAMS))(opt)


def test_optimistic_adam_refuses_schedules():
    with pytest.warns(DeprecationWarning, match="v2"):
        opt = pytreeopt.optimistic_adam(lambda count: 1e-2)
    with pytest.raises(ValueError, match=r"^OptimisticAdam\.init cannot take a schedule .* optimistic_adam_v2 can"):
        opt.init(PARAMS)


@pytest.mark.parametrize(
    ("opt", "extra", "kind", "message"),
    [
        (pytreeopt.scale_by_lion(mode="soft"), {}, ValueError, "ScaleByLion.update has no mode 'soft'"),
        (pytreeopt.polyak_sgd(variant="x"), {"value": 1.0}, ValueError, "PolyakSGD.update: ScaleByPolyak has no var"),
        (pytreeopt.polyak_sgd(), {"value": None}, TypeError, "PolyakSGD.update: ScaleByPolyak needs value, got None"),
        (pytreeopt.polyak_sgd(), {}, TypeError, "missing 1 required keyword-only argument: 'value'"),
        (pytreeopt.optimistic_gradient_descent(1.0, alpha=lambda count: 1.0), {}, TypeError, "schedule as alpha"),
        (pytreeopt.adaptive_grad_clip(0.1), {}, ValueError, "AdaptiveGradClip.update needs params, got None"),
        (pytreeopt.keep_params_nonnegative(), {}, ValueError, "KeepParamsNonnegative.update needs params"),
        (pytreeopt.scale_by_param_block_norm(), {}, ValueError, "ScaleByParamBlockNorm.update needs params"),
        (pytreeopt.scale_by_distance_over_gradients(), {}, ValueError, "ScaleByDistanceOverGradients.update needs p"),
        (pytreeopt.lion(1e-2), {}, ValueError, "Lion.update: AddDecayedWeights needs params"),
    ],
)
def test_errors_name_the_class_and_the_cure(opt, extra, kind, message):
    with pytest.raises(kind) as error:
        opt.update(GRADS, opt.init(PARAMS), **extra)
    assert message in str(error.value)


def test_adaptive_grad_clip_has_no_rule_beyond_rank_five():
    opt, leaf = pytreeopt.adaptive_grad_clip(0.1), jnp.ones((2,) * 6)
    with pytest.raises(ValueError, match="needs axis for a leaf of rank 6"):
        opt.update(leaf, opt.init(leaf), leaf)
    opt.replace(axis=0).update(leaf, opt.init(leaf), leaf)


@pytest.mark.parametrize(
    ("opt", "frozen"),
    [
        (pytreeopt.rmsprop(1e-2, initial_scale=0.5), {"initial_scale": 1.0}),
        (pytreeopt.scale_by_distance_over_gradients(), {"reps_rel": 1.0, "param_dtype": jnp.bfloat16}),
        (pytreeopt.noisy_sgd(1e-2, key=0), {"key": 1}),
    ],
    ids=["initial_scale", "reps_rel", "key"],
)
def test_what_init_froze_cannot_be_changed(opt, frozen):
    state = opt.init(PARAMS)
    before, _ = opt.update(GRADS, state, PARAMS)
    after, _ = opt.replace(**frozen).update(GRADS, state, PARAMS)
    jax.tree.map(np.testing.assert_array_equal, before, after)


def test_integer_params_are_refused():
    for opt in (pytreeopt.lion(1e-2), pytreeopt.rmsprop(1e-2), pytreeopt.apply_every(2)):
        with pytest.raises(TransformationError, match="needs floating or complex params"):
            opt.init(jnp.arange(3))


@pytest.mark.parametrize("max_norm", [1, np.int32(1), jnp.int32(1), jnp.float32(1)])
def test_a_whole_number_as_norm_can_be_differentiated_through(max_norm):
    slope = jax.grad(lambda g, norm: pytreeopt.clip_by_global_norm(norm).update(g, optax.EmptyState())[0].sum())
    gradient = jnp.array([3.0, 4.0])
    for each in (slope, jax.jit(slope)):
        np.testing.assert_array_equal(each(gradient, max_norm), each(gradient, 1.0))
