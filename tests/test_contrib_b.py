"""Privacy, GaLore, Sophia, Mechanic, Muon, SAM, schedule-free methods and complex parameters: what is special."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreeopt
from pytreeopt import contrib
from pytreeopt.contrib import GaLoreDimensionNumbers, MuonDimensionNumbers
from pytreeopt.contrib._newton_schulz import orthogonalize
from pytreeopt.errors import (
    MissingArgumentError,
    MissingParamsError,
    OptionError,
    ParamsDtypeError,
    StructureError,
    TransformationError,
)

PARAMS = {"w": jnp.array([[1.0, -2.0, 0.3], [0.5, 3.0, -0.1]]), "s": jnp.array(0.7)}
GRADS = {"w": jnp.array([[0.1, 0.2, 0.4], [-0.3, 0.4, 0.2]]), "s": jnp.array(-0.6)}
SAM = contrib.sam(pytreeopt.sgd(0.1), pytreeopt.chain(contrib.normalize(), pytreeopt.sgd(0.05)))


def bowl(params):
    return sum(jnp.sum(jnp.abs(leaf) ** 2) for leaf in jax.tree.leaves(params))


def zeros(tree, dtype=jnp.float32):
    return jax.tree.map(lambda x: jnp.zeros(x.shape, dtype), tree)


def assert_equal(ours, theirs):
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


def once(opt, params=PARAMS, grads=GRADS, **extra):
    return opt.update(grads, opt.init(params), params, **extra)


CUBE = jnp.ones((2, 3, 4))


@pytest.mark.parametrize(
    ("opt", "params", "error", "message"),
    [
        (
            contrib.differentially_private_aggregate(1.0, 0.1, 0),
            PARAMS,
            StructureError,
            r"^DifferentiallyPrivateAggregate.update needs the gradients of single examples.*\(\)",
        ),
        (
            contrib.scale_by_galore(2, weight_dimension_numbers=GaLoreDimensionNumbers(0, 1)),
            CUBE,
            StructureError,
            "ScaleByGaLore.init needs every axis",
        ),
        (
            contrib.galore(1e-2, 2, weight_dimension_numbers=GaLoreDimensionNumbers((0, 1), (1, 2))),
            CUBE,
            StructureError,
            "GaLore.init: ScaleByGaLore needs disjoint",
        ),
        (
            contrib.galore(1e-2, 2, weight_dimension_numbers={"w": None, "s": GaLoreDimensionNumbers()}),
            PARAMS,
            StructureError,
            "needs leaves of rank 2 or more",
        ),
        (contrib.galore(1e-2, 2), jnp.ones((2, 2), jnp.int32), ParamsDtypeError, "needs floating or complex params"),
        (contrib.mechanize(pytreeopt.sgd(1.0)), jnp.ones(2, jnp.int32), ParamsDtypeError, "Mechanize.init needs"),
        (contrib.scale_by_muon(), CUBE, StructureError, "ScaleByMuon.update needs matrices"),
        (contrib.scale_by_muon((1.0, 2.0)), CUBE, OptionError, r"ns_coeffs of shape \(3,\) or \(n, 3\), got \(2,\)"),
        (contrib.muon(1e-2, "dion", 4), PARAMS, OptionError, "needs ns_steps of at least 5, got 4"),
        (contrib.muon(1e-2, preconditioning="none"), PARAMS, OptionError, "has no preconditioning 'none'"),  # type: ignore[arg-type]
        (
            contrib.muon(1e-2, muon_weight_dimension_numbers=MuonDimensionNumbers()),
            PARAMS,
            StructureError,
            "needs leaves of rank 2|needs matrices",
        ),
        (dataclasses.replace(SAM, opaque_mode=True), PARAMS, MissingArgumentError, "SAM.update needs grad_fn"),
        (contrib.sophia(1e-2), PARAMS, MissingArgumentError, "Sophia.update: .*needs obj_fn"),
    ],
)
def test_errors_name_the_cure(opt, params, error, message):
    with pytest.raises(error, match=message):
        opt.update(params, opt.init(params), params)


@pytest.mark.parametrize(
    "opt",
    [
        contrib.sophia(1e-2),
        contrib.hutchinson_estimator_diag_hessian(),
        contrib.mechanize(pytreeopt.sgd(1.0)),
        SAM,
        contrib.schedule_free_sgd(),
        contrib.schedule_free_adamw(),
        contrib.muon(1e-2, weight_decay=0.1),
    ],
    ids=lambda opt: type(opt).__name__,
)
def test_params_are_required(opt):
    with pytest.raises(MissingParamsError, match=rf"^{type(opt).__name__}\.update.*needs params, got None"):
        opt.update(GRADS, opt.init(PARAMS))


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: contrib.galore(1e-2, 0), ValueError, "rank must be positive, got 0"),
        (lambda: contrib.scale_by_galore(2.0), TypeError, "rank must be an int, got float"),
        (lambda: contrib.sam(SAM, SAM, 0), ValueError, "SAM: sync_period must be at least 1, got 0"),
        (lambda: contrib.muon(1e-2, "dino"), ValueError, "no preset 'dino'; choose one of standard, dion"),
        (lambda: jax.jit(lambda c: contrib.muon(1e-2, (c, 1.0, 1.0)))(1.0), TypeError, "ns_coeffs.*traced"),
        (
            lambda: contrib.differentially_private_aggregate(1.0, 0.1, 0, seed=0),
            ValueError,
            "give key or seed, not both",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_cannot_be_built(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_galore_at_low_rank_has_no_params():
    opt = contrib.galore(1e-2, 1, base_optimizer=pytreeopt.adamw(1e-2, weight_decay=0.1))
    with pytest.raises(MissingParamsError, match=r"GaLore\.update: ScaleByGaLore > AdamW > AddDecayedWeights needs"):
        once(opt)


@pytest.mark.parametrize(
    "opt",
    [
        SAM,
        contrib.mechanize(pytreeopt.sgd(1.0)),
        contrib.schedule_free_sgd(state_dtype="float32"),
        contrib.schedule_free_adamw(),
        contrib.galore(1e-2, 2),
        contrib.muon(1e-2),
    ],
    ids=lambda opt: type(opt).__name__,
)
def test_state_and_params_are_donated_together(opt):
    @jax.jit
    def step(opt, state, params):
        updates, state = opt.update(GRADS, state, params)
        return state, optax.apply_updates(params, updates)

    params = jax.tree.map(jnp.copy, PARAMS)
    expected = step(opt, opt.init(params), params)[1]
    donating = jax.jit(step, donate_argnums=(1, 2))
    state, params = donating(opt, opt.init(params), params)
    state, again = donating(opt, state, jax.tree.map(jnp.copy, params))
    assert_equal(params, expected)
    assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves((state, again)))


@pytest.mark.parametrize("preconditioning", ["frobenius", "spectral", "aol", "schatten"])
def test_muon_orthogonalizes_complex_matrices(preconditioning):
    """Upstream leaves out a conjugate in "schatten", and diverges."""
    random = np.random.default_rng(0)
    x = jnp.asarray(random.standard_normal((5, 3)) + 1j * random.standard_normal((5, 3)), jnp.complex64)
    u, _, vh = jnp.linalg.svd(x, full_matrices=False)
    opt = contrib.scale_by_muon((1.875, -1.25, 0.375), 12, nesterov=False, preconditioning=preconditioning)
    orthogonal, _ = once(opt, x, x)
    np.testing.assert_allclose(orthogonal.conj().T @ orthogonal, np.eye(3), atol=2e-3)
    if preconditioning != "aol":  # which scales the rows, each by its own number
        np.testing.assert_allclose(orthogonal, u @ vh, atol=2e-3)
    five_steps, _ = once(contrib.scale_by_muon(preconditioning=preconditioning), x, x)
    singular = jnp.linalg.svd(five_steps, compute_uv=False)
    assert singular.min() > 0.5
    assert singular.max() < 1.5


@pytest.mark.parametrize("numbers", [MuonDimensionNumbers(0, (1, 2)), MuonDimensionNumbers(2, 1)])
def test_muon_sees_leaves_of_higher_rank_as_matrices(numbers):
    x = jnp.asarray(np.random.default_rng(0).standard_normal((3, 4, 5)), jnp.float32)
    direction, state = once(contrib.scale_by_muon(weight_dimension_numbers=numbers, nesterov=False), x, x)

    def orthogonal(matrix):
        return orthogonalize(matrix, state.ns_coeffs, 5, "frobenius", 1e-8)

    if numbers.reduction_axis == 0:
        expected = orthogonal(x.reshape(3, 20)).reshape(3, 4, 5)
    else:  # the axis without a name is a batch
        expected = jnp.stack([orthogonal(matrix.T).T for matrix in x])
    np.testing.assert_allclose(direction, expected, atol=1e-5)


def test_muon_gives_the_rest_to_adam():
    opt = contrib.muon(1e-2, adam_learning_rate=3e-2)
    state = opt.init(PARAMS)
    assert set(state.inner_states) == {"muon", "adam"}
    updates, _ = opt.update(GRADS, state, PARAMS)
    adam = pytreeopt.nadamw(3e-2, weight_decay=0.0)
    alone, _ = adam.update(GRADS["s"], adam.init(PARAMS["s"]), PARAMS["s"])
    assert_equal(updates["s"], alone)


def test_muon_spells_coefficients_in_every_way():
    triple = (3.4445, -4.7750, 2.0315)
    same = contrib.muon(1e-2, "standard")
    for given in (triple, list(triple), np.array(triple), tuple(map(np.float64, triple))):
        opt = contrib.muon(1e-2, given)
        assert hash(opt) == hash(contrib.muon(1e-2))
        assert_equal(once(opt)[0], once(same)[0])
    assert contrib.muon(1e-2, np.ones((2, 3))).ns_coeffs == ((1.0,) * 3,) * 2


def test_muon_freezes_its_coefficients():
    opt = contrib.scale_by_muon(nesterov=False)
    x = PARAMS["w"]
    other = dataclasses.replace(opt, ns_coeffs=(1.0, 0.0, 0.0))
    assert_equal(other.update(x, opt.init(x))[0], opt.update(x, opt.init(x))[0])


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_float16_zero_gradients_of_sophia_give_zeros(jit):
    params = jax.tree.map(lambda x: x.astype(jnp.float16), PARAMS)
    opt = contrib.sophia(1e-2, weight_decay=0.0, clip_threshold=None)
    update = lambda opt, g, s, p: opt.update(g, s, p, obj_fn=bowl)
    state = opt.init(params)
    for _ in range(2):
        updates, state = (jax.jit(update) if jit else update)(opt, zeros(params, jnp.float16), state, params)
        assert all(bool(jnp.all(u == 0)) for u in jax.tree.leaves(updates))


def test_sophia_prints_the_share_of_small_elements(capfd):
    opt = contrib.sophia(1e-2, verbose=True, print_win_rate_every_n_steps=1)
    jax.block_until_ready(once(opt, obj_fn=bowl))
    jax.effects_barrier()
    assert "Sophia: 0.000 of the elements are not clipped" in capfd.readouterr().out


def test_hutchinson_is_exact_for_a_diagonal():
    estimator = contrib.hutchinson_estimator_diag_hessian(jax.random.PRNGKey(3))
    diagonal, state = once(estimator, obj_fn=bowl)
    assert_equal(diagonal, jax.tree.map(lambda x: 2 * jnp.ones_like(x), PARAMS))
    assert state.key.shape == (2,)
    key = jax.random.PRNGKey(0)
    assert contrib.hutchinson_estimator_diag_hessian(key).init(PARAMS).key.unsafe_buffer_pointer() != (
        key.unsafe_buffer_pointer()
    )


def test_hutchinson_keeps_the_dtype_of_every_leaf():
    """Upstream's signs have the lowest dtype of all leaves, which JAX then refuses as tangents of the others."""
    params = {"w": PARAMS["w"], "s": PARAMS["s"].astype(jnp.bfloat16)}
    diagonal, _ = once(contrib.hutchinson_estimator_diag_hessian(), params, obj_fn=bowl)
    assert jax.tree.map(lambda x: x.dtype, diagonal) == jax.tree.map(lambda x: x.dtype, params)


def test_gradient_of_mechanize_by_s_init_is_finite():
    def loss(s_init):
        opt = contrib.mechanize(pytreeopt.sgd(1.0), s_init=s_init)
        params, state = PARAMS, opt.init(PARAMS)
        for _ in range(3):
            updates, state = opt.update(jax.grad(bowl)(params), state, params)
            params = optax.apply_updates(params, updates)
        return bowl(params)

    slope = jax.jit(jax.grad(loss))(1e-3)
    assert np.isfinite(slope)
    assert slope < 0


def test_mechanize_starts_from_the_params_of_the_first_update():
    opt = contrib.mechanize(pytreeopt.sgd(1.0))
    _, state = opt.update(GRADS, opt.init(zeros(PARAMS)), PARAMS)
    assert_equal(state.x0, PARAMS)


def test_sam_averages_the_gradients_of_a_mapped_axis():
    """Two devices' worth of examples: each sees the mean of both gradients, as in Optax."""
    targets = jnp.array([[1.0, 2.0], [-3.0, 0.5]])
    params = jnp.array([0.3, -0.7])

    def steps(o, target):
        grad_fn = lambda p, step: jax.grad(lambda p: jnp.sum((p - target) ** 4))(p)
        opt = o.contrib.sam(o.sgd(0.1), o.sgd(0.05), 3, opaque_mode=True, batch_axis_name="batch")
        return opt.update(grad_fn(params, 0), opt.init(params), params, grad_fn=grad_fn)[0]

    ours, theirs = (
        jax.vmap(lambda target, o=o: steps(o, target), axis_name="batch")(targets) for o in (pytreeopt, optax)
    )
    assert_equal(ours, theirs)
    assert_equal(ours[0], ours[1])


@pytest.mark.parametrize("opaque", [False, True])
def test_sam_stands_still_on_a_zero_gradient(opaque):
    """Upstream divides zero by zero."""
    opt = dataclasses.replace(SAM, opaque_mode=opaque)
    state = opt.init(PARAMS)
    for _ in range(3):
        updates, state = opt.update(zeros(PARAMS), state, PARAMS, grad_fn=lambda params, i: zeros(params))
        assert all(bool(jnp.all(u == 0)) for u in jax.tree.leaves(updates))


def test_sam_does_not_blend_in_what_is_not_finite():
    """Upstream multiplies the step that is not taken by zero, which leaves NaN."""
    opt = contrib.sam(pytreeopt.scale(jnp.inf), pytreeopt.sgd(0.1))
    updates, _ = once(opt)
    assert_equal(updates, jax.tree.map(lambda g: 0.1 * g, GRADS))


def test_sam_opaque_is_two_transparent_steps():
    transparent, opaque = SAM, dataclasses.replace(SAM, opaque_mode=True)
    gradient = jax.grad(bowl)
    params, state = PARAMS, transparent.init(PARAMS)
    for _ in range(2):
        updates, state = transparent.update(gradient(params), state, params)
        params = optax.apply_updates(params, updates)
    updates, _ = once(opaque, grads=gradient(PARAMS), grad_fn=lambda p, i: gradient(p))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5), params, optax.apply_updates(PARAMS, updates))


def test_sam_and_split_pass_extra_arguments_on():
    """Upstream's raise TypeError."""
    inner, value = pytreeopt.polyak_sgd(), jnp.float32(2.0)
    alone, _ = once(inner, value=value)
    assert_equal(once(contrib.split_real_and_imaginary(inner), value=value)[0], alone)
    taken = contrib.sam(inner, pytreeopt.sgd(0.1), 1)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-6), once(taken, value=value)[0], alone)
    opaque = contrib.sam(inner, pytreeopt.sgd(0.1), 1, opaque_mode=True)
    assert_equal(once(opaque, value=value, grad_fn=lambda p, i: p)[0], alone)


def test_split_shows_pairs_of_real_leaves():
    params = {"c": jnp.array([1.0 + 2.0j, -0.5j]), "r": jnp.array(0.3), "n": None}
    opt = contrib.split_real_and_imaginary(contrib.adopt(1e-2))  # which clips, as only real numbers can be
    state = opt.init(params)
    leaves = jax.tree.leaves(state)
    assert leaves
    assert not any(jnp.iscomplexobj(leaf) for leaf in leaves)
    updates, _ = opt.update(params, state)
    assert updates["c"].dtype == jnp.complex64
    assert updates["n"] is None


@pytest.mark.parametrize("opt", [contrib.schedule_free_sgd(0.1), contrib.schedule_free_adamw(0.1)])
def test_schedule_free_eval_params_take_our_state(opt):
    theirs = {contrib.ScheduleFreeSGD: optax.contrib.schedule_free_sgd}.get(
        type(opt), optax.contrib.schedule_free_adamw
    )(0.1)
    evaluated = []
    for tx in (opt, theirs):
        params, state = PARAMS, tx.init(PARAMS)
        for _ in range(3):
            updates, state = tx.update(jax.grad(bowl)(params), state, params)
            params = optax.apply_updates(params, updates)
        evaluated.append(contrib.schedule_free_eval_params(state, params))
    assert_equal(*evaluated)
    assert bowl(evaluated[0]) < bowl(PARAMS)


def test_a_warm_up_of_no_steps_leaves_the_rate_at_zero():
    """As upstream's."""
    updates, state = once(contrib.schedule_free_sgd(0.1, warmup_steps=0))
    jax.tree.map(lambda u: np.testing.assert_allclose(u, 0, atol=1e-6), updates)
    assert state.max_lr == 0


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_schedule_free_keeps_the_dtype_of_its_state(dtype):
    params = jax.tree.map(lambda x: x.astype(jnp.bfloat16), PARAMS)
    opt = contrib.schedule_free_sgd(0.1, state_dtype=dtype)
    updates, state = once(opt, params)
    assert {x.dtype.name for x in jax.tree.leaves(updates)} == {dtype}
    assert {x.dtype.name for x in jax.tree.leaves(state.z)} == {dtype}


@pytest.mark.parametrize("build", [contrib.differentially_private_aggregate, partial(contrib.dpsgd, 0.1)])
@pytest.mark.parametrize("key", [int, jax.random.PRNGKey, jax.random.key], ids=["int", "raw key", "typed key"])
def test_a_population_has_its_own_noise(build, key):
    """With keys in any form: the state's is the typed one that Optax makes of the integer."""
    batch = jax.tree.map(lambda g: jnp.stack([g, -g]), GRADS)

    def noise(key):
        opt = build(1.0, 1.0, key)
        return opt.update(batch, opt.init(PARAMS))[0]["s"]

    numbers = jnp.arange(3)
    together = jax.vmap(noise)(numbers if key is int else jax.vmap(key)(numbers))
    assert len(set(together.tolist())) == 3
    np.testing.assert_allclose(together, [noise(number) for number in range(3)], rtol=1e-6)


def test_a_zero_example_is_not_clipped():
    opt = contrib.differentially_private_aggregate(1.0, 0.0, 0)
    batch = {"w": jnp.array([[0.0, 0.0], [3.0, 4.0]])}
    updates, _ = once(opt, {"w": jnp.zeros(2)}, batch)
    np.testing.assert_allclose(updates["w"], [0.3, 0.4], rtol=1e-6)


def test_errors_are_the_families_own():
    with pytest.raises(TransformationError, match=r"^ScheduleFreeSGD\.update: ScheduleFree needs the Sched"):
        contrib.schedule_free_sgd().update(GRADS, optax.EmptyState(), PARAMS)


def test_muon_takes_a_tree_of_matrices():
    """Upstream's takes one bare matrix, or needs dimension numbers."""
    params = {"a": PARAMS["w"], "b": [PARAMS["w"].T]}
    updates, _ = once(contrib.scale_by_muon(), params, params)
    alone, _ = once(contrib.scale_by_muon(), PARAMS["w"], PARAMS["w"])
    np.testing.assert_allclose(updates["a"], alone, atol=1e-5)  # the compiler fuses one leaf otherwise than two


def test_galore_passes_none():
    """Upstream's looks for a dtype in it."""
    params, grads = {**PARAMS, "n": None}, {**GRADS, "n": None}
    updates, state = once(contrib.galore(1e-2, 1), params, grads)
    assert updates["n"] is None
    assert state[0].projector["n"] is None


def test_galore_passes_extra_arguments_on():
    """Upstream's raises TypeError."""
    opt = contrib.scale_by_galore(1, base_optimizer=pytreeopt.polyak_sgd())
    half, _ = once(opt, value=jnp.float32(0.01))
    whole, _ = once(opt, value=jnp.float32(0.02))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(2 * x, y, rtol=1e-5), half, whole)


@pytest.mark.filterwarnings("error")
def test_dpsgd_does_not_warn():
    contrib.dpsgd(1e-2, 1.0, 0.1, 0)
