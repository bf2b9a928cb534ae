"""What users reported of optimizers in JAX, each as the behaviour that they expected, with numbers worked out by hand.

`test_kinds_of_reports` looks for the same in every optimizer.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import serialization, struct

import pytreeopt as o

PARAMS = {"w": jnp.array([[1.0, -2.0], [0.5, 3.0]]), "b": jnp.array([0.25, -0.75])}
ONE = jnp.ones(1)


def counted(function):
    """`function` under jit, and the list that grows by one at every trace."""
    traces = []

    @jax.jit
    def compiled(*args):
        traces.append(1)
        return function(*args)

    return compiled, traces


def step(opt, gradient, state, params):
    updates, state = opt.update(gradient, state, params)
    return optax.apply_updates(params, updates), state


def descend(opt, params, steps, gradient=lambda p: p):
    """Steps along a gradient that depends on the params."""

    def body(carry, _):
        params, state = carry
        return step(opt, gradient(params), state, params), None

    return jax.lax.scan(body, (params, opt.init(params)), length=steps)[0][0]


# Hyperparameters are data


def test_the_rate_changes_in_mid_run_and_the_momentum_stays():
    compiled, traces = counted(step)
    opt = o.sgd(0.1, momentum=0.5)
    params, state = compiled(opt, ONE, opt.init(ONE), ONE)  # momentum 1, 1 - 0.1
    params, state = compiled(opt.replace(learning_rate=0.01), ONE, state, params)  # momentum 1.5, 0.9 - 0.015
    np.testing.assert_allclose(params, [0.885], rtol=1e-6)
    assert state[0].trace == 1.5
    assert len(traces) == 1


def test_a_rate_that_halves_in_the_carry_of_a_scan():
    def body(carry, _):
        opt, state, params = carry
        params, state = step(opt, ONE, state, params)
        return (opt.replace(learning_rate=opt.learning_rate / 2), state, params), opt.learning_rate

    opt = o.as_arrays(o.sgd(0.5))
    (_, _, params), rates = jax.lax.scan(body, (opt, opt.init(ONE), ONE), length=3)
    np.testing.assert_array_equal(params, [1 - 0.5 - 0.25 - 0.125])
    np.testing.assert_array_equal(rates, [0.5, 0.25, 0.125])


@pytest.mark.parametrize("build", [o.adafactor, o.adamw, lambda rate: o.sgd(o.cosine_decay_schedule(rate, 10))])
def test_the_compiled_program_does_not_spell_the_rate(build):
    """So that a sweep hits the compilation cache on disk."""

    def text(rate):
        opt = build(rate)
        lowered = jax.jit(lambda opt, state: opt.update(PARAMS, state, PARAMS)).lower(opt, opt.init(PARAMS))
        return lowered.as_text()

    assert text(0.1) == text(0.037)


def test_equinox_traces_once_for_optimizers_that_are_equal():
    traces = []
    compiled = eqx.filter_jit(lambda opt: traces.append(1) or descend(opt, ONE, 1))
    for rate in (0.1, 0.1, 0.2):
        compiled(o.adam(rate))
    assert len(traces) == 2  # it takes Python numbers for part of the program
    for rate in (0.1, 0.2):
        compiled(o.as_arrays(o.adam(rate)))
    assert len(traces) == 3


@pytest.mark.parametrize(
    "opt",
    [
        o.sgd(0.1, momentum=0.9, nesterov=True),
        o.adamw(0.1, mask={"w": True, "b": False}, mu_dtype="float32"),
        o.chain(o.clip_by_global_norm(1.0), o.adam(0.1)),
    ],
    ids=["flags", "mask and dtype", "chain"],
)
def test_an_optimizer_is_differentiated_as_a_whole(opt):
    slopes = jax.grad(lambda opt: jnp.sum(descend(opt, PARAMS, 2)["w"]))(opt)
    assert jax.tree.structure(slopes) == jax.tree.structure(opt)
    assert all(bool(jnp.isfinite(slope)) for slope in jax.tree.leaves(slopes))


def test_whole_numbers_among_the_hyperparameters_have_no_derivative():
    loss = lambda opt: jnp.sum(descend(opt, PARAMS, 2)["w"])
    opt = o.sgd(o.linear_schedule(0.1, 0.0, 5))
    with pytest.raises(TypeError, match="allow_int"):
        jax.grad(loss)(opt)
    slopes = jax.grad(loss, allow_int=True)(opt).learning_rate
    assert jnp.isfinite(slopes.init_value)
    assert slopes.transition_steps.dtype == jax.dtypes.float0


@pytest.mark.parametrize("build", [o.sgd, o.adam], ids=["sgd", "adam"])
def test_replicated_over_a_mesh_that_holds_the_params_in_parts(build):
    mesh, spec = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("data",)), jax.sharding.PartitionSpec
    params = jnp.arange(1.0, 5.0)
    train = lambda opt, params: descend(opt, params, 2)
    parts = jax.shard_map(train, mesh=mesh, in_specs=(spec(), spec("data")), out_specs=spec("data"))
    np.testing.assert_allclose(jax.jit(parts)(build(0.1), params), train(build(0.1), params), rtol=1e-5)


def test_a_checkpoint_restores_numbers_and_leaves_flags_alone():
    saved = serialization.to_bytes(o.chain(o.clip_by_global_norm(2.0), o.sgd(0.1, momentum=0.9, nesterov=True)))
    template = o.chain(o.clip_by_global_norm(9.0), o.sgd(9.0, momentum=0.0, nesterov=True))
    restored = serialization.from_bytes(template, saved)
    assert restored == o.chain(o.clip_by_global_norm(2.0), o.sgd(0.1, momentum=0.9, nesterov=True))


def test_the_better_member_of_a_population_is_copied_and_one_that_diverges_harms_no_other():
    population = jax.vmap(lambda rate: o.apply_if_finite(o.sgd(rate), 3))(jnp.array([0.1, 0.01]))
    params = jnp.ones((2, 2))
    gradients = jnp.array([[jnp.nan, 1.0], [1.0, 1.0]])
    state = jax.vmap(lambda opt, p: opt.init(p))(population, params)
    updates, state = jax.vmap(lambda *args: args[0].update(*args[1:]))(population, gradients, state, params)
    np.testing.assert_allclose(updates, [[0.0, 0.0], [-0.01, -0.01]])
    assert state.notfinite_count.tolist() == [1, 0]
    best = jax.tree.map(lambda x: x[jnp.array([1, 1])], population)
    assert best.inner.learning_rate.tolist() == population.inner.learning_rate[1:].tolist() * 2


def test_a_train_state_of_ones_own_holds_the_optimizer_as_data():
    @struct.dataclass
    class State:
        params: Any
        opt: Any
        opt_state: Any

    def train(state):
        params, opt_state = step(state.opt, state.params, state.opt_state, state.params)
        return state.replace(params=params, opt_state=opt_state)

    compiled, traces = counted(train)
    state = compiled(State(ONE, o.sgd(0.1), o.sgd(0.1).init(ONE)))
    state = compiled(state.replace(opt=state.opt.replace(learning_rate=0.5)))
    np.testing.assert_allclose(state.params, [0.9 - 0.45], rtol=1e-6)
    assert len(traces) == 1


@pytest.mark.parametrize("opt", [o.adam(0.01), o.adamw(0.01, b2=0.9999)], ids=["adam", "adamw"])
def test_numbers_that_are_passed_in_lose_little_in_many_steps(opt):
    """Traced, `1 - b2` is rounded to float32; after hundreds of steps that must not show."""
    train = lambda opt: descend(opt, PARAMS["b"], 300, lambda p: jnp.sin(3 * p))
    np.testing.assert_allclose(jax.jit(train)(opt), jax.jit(lambda: train(opt))(), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("one", [np.uint8(1), jnp.uint8(1), jnp.uint32(1)], ids=["numpy", "uint8", "uint32"])
def test_an_unsigned_rate_has_a_negative(one):
    np.testing.assert_array_equal(o.sgd(one).update(ONE, o.sgd(one).init(ONE))[0], -ONE)


# States


def test_the_rate_of_one_group_is_set_in_the_state():
    injected = o.inject_hyperparams(o.sgd)
    opt = o.partition({"a": injected(0.1), "b": injected(0.2)}, {"w": "a", "b": "b"})
    params = {"w": ONE, "b": ONE}
    states = dict(opt.init(params).inner_states)
    states["a"] = optax.tree.set(states["a"], learning_rate=jnp.float32(0.5))
    updates, _ = jax.jit(opt.update)(params, o.PartitionState(states), params)
    np.testing.assert_allclose([updates["w"], updates["b"]], [[-0.5], [-0.2]])


def test_a_schedule_goes_on_from_the_count_that_is_set():
    opt = o.sgd(o.linear_schedule(1.0, 0.0, 10))
    state = optax.tree.set(opt.init(ONE), count=jnp.int32(5))
    np.testing.assert_allclose(opt.update(ONE, state, ONE)[0], [-0.5])


@pytest.mark.parametrize(
    "opt", [o.adam(0.1), o.nadamw(0.1), o.rmsprop(0.1), o.yogi(0.1), o.adabelief(0.1), o.radam(0.1)]
)
def test_a_second_moment_that_is_kept_in_bfloat16_stays_so(opt):
    state = optax.tree.set(opt.init(ONE), nu=ONE.astype(jnp.bfloat16))
    _, state = opt.update(ONE, state, ONE)
    assert optax.tree.get(state, "nu").dtype == jnp.bfloat16


@pytest.mark.parametrize("opt", [o.sgd(0.1, 0.9), o.adamw(0.1), o.lion(0.1), o.adafactor(0.1)])
def test_four_mini_steps_are_one_step_on_their_mean(opt):
    gradients = (jnp.arange(12.0).reshape(3, 4, 1) + 1) / 10
    steps = o.MultiSteps(opt, 4)

    def train(tx, gradients):
        def body(carry, gradient):
            params, state = step(tx, gradient, carry[1], carry[0])
            return (params, state), params

        return jax.lax.scan(body, (ONE, tx.init(ONE)), gradients)[1]

    small = train(steps, gradients.reshape(12, 1)).reshape(3, 4)
    large = train(opt, gradients.mean(1))
    np.testing.assert_allclose(small[:, -1:], large, rtol=1e-5)
    np.testing.assert_array_equal(small[:, :3], jnp.stack([jnp.array([1.0, *small[:-1, -1]])] * 3, 1))


@pytest.mark.parametrize("make", [lambda: o.add_noise(1.0, 0.5, 0), lambda: o.noisy_sgd(0.1, key=0)])
def test_equal_leaves_get_noise_of_their_own(make):
    zeros = {"a": jnp.zeros(4), "b": jnp.zeros(4)}
    updates, _ = make().update(zeros, make().init(zeros))
    assert not np.any(updates["a"] == updates["b"])


# Odd leaves

LEAVES = {
    "int32": lambda x: jnp.round(x).astype(jnp.int32),
    "uint8": lambda x: jnp.abs(jnp.round(x)).astype(jnp.uint8),
    "bool": lambda x: x > 0,
    "NumPy": np.asarray,
    "Python": lambda x: float(x.ravel()[0]),
    "no elements": lambda x: x[:0],
}


@pytest.mark.parametrize("leaf", LEAVES.values(), ids=LEAVES)
@pytest.mark.parametrize(
    "build",
    [
        lambda library: library.sgd(0.1),
        lambda library: library.contrib.normalize(),
        lambda library: library.normalize_by_update_norm(),
        lambda library: library.clip_by_block_rms(0.5),
        lambda library: library.scale_by_distance_over_gradients(),
    ],
    ids=["sgd", "normalize", "normalize_by_update_norm", "clip_by_block_rms", "distance"],
)
def test_gradients_of_any_kind_are_scaled_as_in_optax(build, leaf):
    """An integer is not the precision in which to compute a factor."""
    params = jax.tree.map(lambda x: x, PARAMS) if leaf is not LEAVES["no elements"] else jax.tree.map(leaf, PARAMS)
    gradients = jax.tree.map(leaf, PARAMS)
    ours, theirs = build(o), build(optax)
    try:
        expected, _ = theirs.update(gradients, theirs.init(params), params)
    except (AttributeError, TypeError, ValueError):
        with pytest.raises(AttributeError, match="needs arrays as leaves, got a Python float; give"):
            ours.update(gradients, ours.init(params), params)
        return
    updates, _ = ours.update(gradients, ours.init(params), params)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), updates, expected)


# Derivatives by the params


@pytest.mark.parametrize(
    "name", "sgd adam adamw adagrad adafactor adabelief amsgrad lamb novograd radam rmsprop yogi".split()
)
def test_a_coordinate_without_a_gradient_has_a_finite_meta_gradient(name):
    """As in meta-learning, where the loss after some steps is differentiated by the params before."""
    direction = jnp.array([1.0, 0.0])

    def loss(params):
        return jnp.sum(descend(getattr(o, name)(0.1), params, 2, lambda p: p * direction) ** 2)

    assert bool(jnp.all(jnp.isfinite(jax.grad(loss)(jnp.array([1.0, 2.0])))))


# What looks wrong and is kept, since it is finite in Optax: the numbers must be Optax's


def overflowing_norm(library):
    """The squares of the gradients are summed in float16."""
    return library.clip_by_global_norm(1.0).update(jnp.full(1000, 100.0, jnp.float16), library.EmptyState())[0]


def sam_that_synchronises_at_every_step(library):
    opt = library.contrib.sam(library.sgd(0.1), library.sgd(0.05), sync_period=1)
    params, state = ONE, opt.init(ONE)
    for _ in range(3):
        params, state = step(opt, params, state, params)
    return params


def plateau_of_a_negative_loss(library):
    opt = library.contrib.reduce_on_plateau(patience=2)
    state = opt.init(ONE)
    for _ in range(4):
        _, state = opt.update(ONE, state, value=-1.0)
    return state.scale


def count_after_giving_up(library):
    opt = library.apply_if_finite(library.sgd(0.1), 1)
    state = opt.init(ONE)
    for _ in range(3):
        _, state = opt.update(jnp.nan * ONE, state, ONE)
    return state.notfinite_count


def imaginary_part_in_a_real_accumulator(library):
    opt = library.MultiSteps(library.sgd(1.0), 2)
    gradient = jnp.array([1.0 + 1.0j])
    _, state = opt.update(gradient, opt.init(gradient), gradient)
    return jnp.imag(opt.update(gradient, state, gradient)[0])


def fromage_on_a_schedule(library):
    opt = library.fromage(lambda count: jnp.float32(1e-4))
    return opt.update(jnp.array([0.0]), opt.init(ONE), ONE)[0]


def first_step_of_rprop(library):
    opt = library.rprop(0.1)
    return opt.update(ONE, opt.init(ONE), ONE)[0]


KEPT = {
    "clip_by_global_norm overflows in float16": (overflowing_norm, 0.0),
    "sam that synchronises at every step undoes the one before": (sam_that_synchronises_at_every_step, None),
    "reduce_on_plateau sees no plateau of a negative loss": (plateau_of_a_negative_loss, 1.0),
    "apply_if_finite counts on after it gave up": (count_after_giving_up, 3),
    "MultiSteps drops the imaginary part": (imaginary_part_in_a_real_accumulator, -0.5),
    "fromage on a schedule loses a small rate": (fromage_on_a_schedule, 0.0),
    "rprop is one step late": (first_step_of_rprop, 0.0),
}


@pytest.mark.filterwarnings("ignore:Casting from complex to real")
@pytest.mark.parametrize("run, odd", KEPT.values(), ids=KEPT)
def test_finite_oddities_are_kept(run, odd):
    found = run(o)
    np.testing.assert_array_equal(found, run(optax))
    if odd is not None:
        np.testing.assert_array_equal(found, jnp.full_like(found, odd))
