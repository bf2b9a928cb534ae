"""What is special in the optimizers of `contrib`: first steps, low precision, frozen fields, errors."""

import pickle
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
import pytest
from flax import serialization

import pytreeopt
from pytreeopt import contrib, linear_schedule
from pytreeopt.contrib._dog import InitStep
from pytreeopt.errors import MissingArgumentError, MissingParamsError, ParamsDtypeError

PARAMS = {"a": np.array([1.0, -2.0, 0.5]), "b": np.array([[0.3], [-0.7]])}
LOSS = {"value": 1.5}

OPTIMIZERS = {
    "acprop": contrib.acprop(1e-2),
    "ademamix": contrib.ademamix(1e-2),
    "simplified_ademamix": contrib.simplified_ademamix(1e-2),
    "adopt": contrib.adopt(1e-2),
    "cocob": contrib.cocob(),
    "dadapt_adamw": contrib.dadapt_adamw(),
    "prodigy": contrib.prodigy(),
    "dog": contrib.dog(),
    "dog, rate": contrib.dog(init_step=("learning_rate", 1e-2)),
    "dowg": contrib.dowg(),
    "madgrad": contrib.madgrad(1e-2),
    "momo": contrib.momo(0.1),
    "momo, adaptive": contrib.momo(0.1, adapt_lower_bound=True),
    "momo_adam": contrib.momo_adam(0.1),
    "momo_adam, adaptive": contrib.momo_adam(0.1, adapt_lower_bound=True),
    "normalize": contrib.normalize(),
    "reduce_on_plateau": contrib.reduce_on_plateau(0.5, patience=1),
}
each = pytest.mark.parametrize("opt", [pytest.param(opt, id=name) for name, opt in OPTIMIZERS.items()])


def params_in(dtype):
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), PARAMS)


def dtypes(tree):
    return [leaf.dtype for leaf in jax.tree.leaves(tree)]


def is_finite(tree):
    return all(bool(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(tree))


@each
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_zero_gradients(opt, dtype):
    params = params_in(dtype)
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = opt.init(params)
    for _ in range(2):
        updates, state = opt.update(zeros, state, params, **LOSS)
        for leaf in jax.tree.leaves(updates):
            np.testing.assert_allclose(leaf, 0.0, atol=1e-3)  # MADGRAD and COCOB subtract rounded points
            assert leaf.dtype == dtype
        for leaf in jax.tree.leaves(state):
            assert not np.any(np.isnan(leaf))


@pytest.mark.parametrize("opt", [contrib.dadapt_adamw(), contrib.prodigy()], ids=["dadapt_adamw", "prodigy"])
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_estimates_without_leaves_stay(opt, jit):
    params = {"a": None, "b": optax.MaskedNode()}
    state = opt.init(params)
    first = state.estim_lr
    for _ in range(2):
        updates, state = (jax.jit(opt.update) if jit else opt.update)(params, state, params)
    assert updates == params
    assert state.estim_lr == first


def test_adopt_unclipped_in_float16():
    opt = contrib.scale_by_adopt(use_clipping=False)
    params = params_in("float16")
    updates, state = opt.update(params, opt.init(params), params)
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(updates))
    assert is_finite(opt.update(params, state, params))


@each
@pytest.mark.parametrize("mixed", [False, True])
def test_states_keep_their_dtype(opt, mixed):
    params = params_in("bfloat16")
    if mixed:
        params["b"] = params["b"].astype("float32")
    gradients = jax.tree.map(lambda p: p.astype("float32"), params)
    state = opt.init(params)
    _, after = opt.update(gradients, state, params, **LOSS)
    assert dtypes(after) == dtypes(state)


def test_mu_dtype_of_ademamix_is_kept():
    opt = contrib.scale_by_ademamix(mu_dtype="bfloat16")
    params = params_in("float32")
    _, state = opt.update(params, opt.init(params))
    assert {leaf.dtype.name for leaf in jax.tree.leaves((state.m1, state.m2, state.nu))} == {"bfloat16"}


@pytest.mark.parametrize(
    "make",
    [
        lambda s: contrib.scale_by_ademamix(b3=s, alpha=s),
        lambda s: contrib.scale_by_simplified_ademamix(alpha=s),
        lambda s: contrib.momo(s),
        lambda s: contrib.momo(s, weight_decay=0.1, adapt_lower_bound=True),
        lambda s: contrib.momo_adam(s, weight_decay=0.1, adapt_lower_bound=True),
        lambda s: contrib.dadapt_adamw(s),
        lambda s: contrib.prodigy(s),
        lambda s: contrib.dog(s),
    ],
)
def test_schedules_keep_low_precision(make):
    opt, params = make(linear_schedule(0.9, 0.1, 10)), params_in("bfloat16")
    state = opt.init(params)
    updates, after = opt.update(params, state, params, **LOSS)
    assert {dtype.name for dtype in dtypes(updates)} == {"bfloat16"}
    assert dtypes(after) == dtypes(state)


@each
def test_array_hyperparameters_in_bfloat16(opt):
    """Also as strong arrays in a compiled program, where a branch must not change a dtype."""
    params = params_in("bfloat16")
    arrays = jax.tree.map(lambda x: jnp.float32(x) if isinstance(x, float) else jnp.int32(x), opt)
    state = arrays.init(params)
    updates, after = jax.jit(lambda opt, s: opt.update(params, s, params, **LOSS))(arrays, state)
    assert {dtype.name for dtype in dtypes(updates)} == {"bfloat16"}
    assert dtypes(after) == dtypes(state)


@each
def test_states_can_be_donated(opt):
    """Params, hyperparameters and the other leaves of the state survive; nothing is donated twice."""
    params = params_in("float32")
    opt = jax.tree.map(jnp.asarray, opt)
    state = jax.tree.map(jnp.asarray, opt.init(params))
    donated = jax.jit(lambda s: jax.tree.map(lambda x: x, s), donate_argnums=0)(state)
    updates, _ = opt.update(params, donated, params, **LOSS)
    assert is_finite(updates)
    assert is_finite(params)


def test_estimates_do_not_alias_their_hyperparameter():
    first = jnp.float32(1e-3)
    for opt in (
        contrib.prodigy(estim_lr0=first),
        contrib.dadapt_adamw(estim_lr0=first),
        contrib.dog(init_step=("distance", first)),
        contrib.dowg(first),
        contrib.momo(lower_bound=first),
    ):
        hyperparameters = {leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(opt) if isinstance(leaf, jax.Array)}
        state = jax.tree.leaves(opt.init(params_in("float32")))
        assert hyperparameters
        assert hyperparameters.isdisjoint(leaf.unsafe_buffer_pointer() for leaf in state)


@each
def test_hypergradients_at_zero_are_finite(opt):
    """The first distance is 0, and so are the gradients of units that are dead."""
    params = params_in("float32")
    dead = jax.tree.map(jnp.zeros_like, params)
    if any(isinstance(leaf, int) for leaf in jax.tree.leaves(opt)):
        opt = jax.tree.map(float, opt)

    @jax.grad
    def slope(opt):
        state, here = opt.init(params), params
        for gradients in (dead, params, dead):
            updates, state = opt.update(gradients, state, here, **LOSS)
            here = optax.apply_updates(here, updates)
        return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(here))

    assert is_finite(slope(opt))


def test_reduce_on_plateau_with_a_traced_factor():
    params = params_in("float32")

    @jax.jit
    def scale(factor, rtol):
        opt = contrib.reduce_on_plateau(factor, patience=1, rtol=rtol)
        state = opt.init(params)
        for _ in range(2):
            _, state = opt.update(params, state, params, **LOSS)
        return state.scale

    assert scale(0.5, 1e-4) == 0.5
    np.testing.assert_allclose(jax.vmap(scale, (0, None))(jnp.array([0.3, 0.6]), 1e-4), [0.3, 0.6])
    assert jax.grad(scale)(0.5, 1e-4) == 1.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"factor": 1.0}, r"factor must be in \(0, 1\), got 1.0"),
        ({"factor": 0}, "factor"),
        ({"rtol": -1e-3}, r"rtol must be in \[0, 1\]"),
        ({"rtol": 1.5}, "rtol"),
        ({"atol": -1.0}, "atol must not be negative"),
        ({"rtol": 0.0, "atol": 0.0}, "rtol or atol must be positive"),
    ],
)
def test_reduce_on_plateau_refuses(wrong, message):
    with pytest.raises(ValueError, match=f"^ReduceOnPlateau: .*{message}"):
        contrib.reduce_on_plateau(**wrong)


@pytest.mark.parametrize("name", ["momo", "momo_adam", "reduce_on_plateau"])
def test_the_loss_is_required(name):
    opt, params = OPTIMIZERS[name], params_in("float32")
    state = opt.init(params)
    with pytest.raises(TypeError, match="value"):
        opt.update(params, state, params)
    with pytest.raises(MissingArgumentError, match=r"needs the loss, got None; call update\(.*value=loss\)"):
        opt.update(params, state, params, value=None)


@pytest.mark.parametrize("name", ["cocob", "dadapt_adamw", "prodigy", "dog", "dowg", "madgrad", "momo", "momo_adam"])
def test_params_are_required(name):
    opt, params = OPTIMIZERS[name], params_in("float32")
    with pytest.raises(MissingParamsError, match="needs params, got None"):
        opt.update(params, opt.init(params), **LOSS)


@pytest.mark.parametrize("name", ["dog", "dowg", "reduce_on_plateau", "prodigy", "momo"])
def test_integer_params_are_refused(name):
    with pytest.raises(ParamsDtypeError, match="needs floating or complex params, got int32"):
        OPTIMIZERS[name].init({"a": jnp.arange(3)})


def test_dog_init_step_reads_like_the_pair():
    opt = contrib.dog(init_step=("distance", 0.5))
    assert opt.init_step == ("distance", 0.5)
    kind, value = opt.init_step
    assert (kind, value) == ("distance", 0.5)
    assert jax.tree.leaves(opt) == [1.0, 0.5, 1e-8]
    assert contrib.dog(init_step=["heuristic", np.float64(1e-6)]) == contrib.dog()
    assert opt != opt.replace(init_step=("heuristic", 0.5))
    assert pickle.loads(pickle.dumps(opt)) == opt
    assert serialization.from_bytes(contrib.dog(init_step=("distance", 0.1)), serialization.to_bytes(opt)) == opt
    assert isinstance(jax.tree.map(lambda x: x, opt).init_step, InitStep)
    with pytest.raises(ValueError, match="init_step must be one of distance, learning_rate, heuristic"):
        contrib.dog(init_step=("nearby", 0.5))


@pytest.mark.parametrize(
    ("make", "before", "after"),
    [
        (contrib.cocob, {"eps": 1e-8}, {"eps": 1.0}),
        (contrib.dadapt_adamw, {"estim_lr0": 1e-6}, {"estim_lr0": 1e-2}),
        (contrib.dog, {"init_step": ("distance", 1e-3)}, {"init_step": ("distance", 1.0)}),
        (contrib.dowg, {"init_estim_sq_dist": 1e-3}, {"init_estim_sq_dist": 1.0}),
        (contrib.momo, {"lower_bound": 0.0}, {"lower_bound": 1.0}),
    ],
)
def test_some_hyperparameters_are_frozen_at_init(make, before, after):
    params, old, new = params_in("float32"), make(**before), make(**after)
    state = old.init(params)
    left, _ = old.update(params, state, params, **LOSS)
    right, _ = new.update(params, state, params, **LOSS)
    jax.tree.map(np.testing.assert_array_equal, left, right)
    other, _ = new.update(params, new.init(params), params, **LOSS)
    assert any(np.any(x != y) for x, y in zip(jax.tree.leaves(left), jax.tree.leaves(other), strict=True))


def test_normalize_rounds_as_upstream_when_compiled():
    """The compiler multiplies by a reciprocal root, in a division by a root and nothing else."""
    ours, theirs = (jax.jit(library.normalize().update) for library in (contrib, optax.contrib))
    for seed in range(20):
        gradient = jax.random.normal(jax.random.key(seed), (4, 6))
        np.testing.assert_array_equal(ours(gradient, optax.EmptyState())[0], theirs(gradient, optax.EmptyState())[0])


def test_tree_map_params_passes_galore_that_is_told_its_axes():
    numbers = {name: contrib.GaLoreDimensionNumbers(0, 1) for name in "ab"}
    opts = [
        library.galore(0.1, rank=1, weight_dimension_numbers=numbers, base_optimizer=base)
        for library, base in ((contrib, pytreeopt.trace(0.9)), (optax.contrib, optax.trace(0.9)))
    ]
    params = {"a": jnp.ones((2, 3)), "b": jnp.ones((3, 2))}
    ours, theirs = (
        optax.tree.map_params(opt, lambda x: x + 1, opt.init(params), transform_non_params=lambda x: -x) for opt in opts
    )
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


def test_galore_projects_by_the_real_part_without_a_deprecated_cast():
    """As Optax does, which leaves the cast to JAX."""
    gradient = jnp.array([[1 + 2j, 3 - 1j], [0.5j, 2.0]], jnp.complex64)
    states = []
    for part in (gradient, gradient.real):
        opt = contrib.scale_by_galore(rank=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            states.append(opt.update(part, opt.init(part))[1])
    np.testing.assert_array_equal(*(state.projector for state in states))
