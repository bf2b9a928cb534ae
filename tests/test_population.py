"""Many optimizers as one."""

import dataclasses
import doctest

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreeopt
from laws import DEFAULT, build, given, start
from parity.rows import SCHEDULES
from pytreeopt import hyperparams, replace
from pytreeopt.errors import StructureError
from pytreeopt.population import (
    axes,
    broadcast,
    choice,
    grid,
    log_uniform,
    sample,
    size,
    stack,
    take,
    uniform,
    unstack,
)

BUILDS = {name: row.build for name, row in {**DEFAULT, **SCHEDULES}.items() if row.default}
KEY = jax.random.key(0)
PARAMS = {"w": jnp.array([1.0, -2.0]), "b": jnp.array(0.5)}
CHAIN = pytreeopt.chain(pytreeopt.clip_by_global_norm(1.0), pytreeopt.adamw(pytreeopt.linear_schedule(0.5, 0.1, 4)))


@jax.jit
def train(opt):
    params, state = PARAMS, opt.init(PARAMS)
    for _ in range(2):
        updates, state = opt.update(params, state, params)
        params = optax.apply_updates(params, updates)
    return params


def test_the_docstrings_run():
    assert doctest.testmod(pytreeopt.population).failed == 0


@pytest.mark.parametrize("name", BUILDS)
def test_every_class_is_stacked_and_taken_apart(name):
    opt = BUILDS[name](pytreeopt)
    population = stack([opt, opt, opt])
    structure = jax.tree.structure(opt)
    assert jax.tree.structure(population) == structure
    same = broadcast(opt, 3)
    for a, b in zip(jax.tree.leaves(population), jax.tree.leaves(same), strict=True):
        np.testing.assert_array_equal(a, b)
    if not jax.tree.leaves(opt):
        with pytest.raises(StructureError, match="holds no numbers"):
            size(population)
        return
    assert size(population) == 3
    members = unstack(population)
    assert len(members) == 3
    assert all(jax.tree.structure(member) == structure for member in members)
    values = hyperparams(opt, integers=True)
    for path, value in hyperparams(take(population, 1), integers=True).items():
        assert value == np.float32(values[path]), path
    # As an `in_axes` tree: one field varies, the others are as they were.
    path = next(iter(values))
    only = replace(opt, {path: hyperparams(population, integers=True)[path]})
    out = jax.eval_shape(jax.vmap(lambda opt: opt, in_axes=(axes(opt, path),)), only)
    assert {x.shape for x in jax.tree.leaves(out)} == {(3,)}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=name)
        for name, row in DEFAULT.items()
        if row.runs_in("bfloat16") and jax.tree.leaves(build(row))
    ],
)
def test_a_population_keeps_the_dtypes_that_a_member_keeps(row):
    """bfloat16 models stay bfloat16, though stacked numbers are arrays of float32."""
    opt, at = build(row), given(row, "bfloat16", 1)

    def step(opt):
        state = start(row, opt, at)
        return opt.update(at.gradients[0], state, at.params, **at.extra[0])

    one, many = jax.eval_shape(step, opt), jax.eval_shape(jax.vmap(step), broadcast(opt, 2))
    assert jax.tree.structure(one) == jax.tree.structure(many)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(many), strict=True):
        assert ((2, *a.shape), a.dtype) == (b.shape, b.dtype)


def test_a_population_trains_as_its_members():
    population, settings = grid(CHAIN, {"init_value": [0.5, 0.25], "1.b1": (0.5, 0.75, 0.9)})
    assert list(settings) == ["init_value", "1.b1"]
    np.testing.assert_array_equal(settings["init_value"], [0.5, 0.5, 0.5, 0.25, 0.25, 0.25])
    np.testing.assert_array_equal(settings["1.b1"], [0.5, 0.75, 0.9] * 2)
    np.testing.assert_array_equal(hyperparams(population)["1.learning_rate.init_value"], settings["init_value"])
    together = jax.jit(jax.vmap(train))(population)
    for i, member in enumerate(unstack(population)):
        alone = train(replace(CHAIN, {"init_value": settings["init_value"][i], "1.b1": settings["1.b1"][i]}))
        for other in (train(member), take(together, i)):
            jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5), other, alone)


def test_grid_takes_schedules_and_fields_that_were_none():
    rates = [pytreeopt.linear_schedule(0.5, 0.0, 4), pytreeopt.linear_schedule(0.25, 0.0, 8)]
    population, settings = grid(pytreeopt.sgd(0.1), {"learning_rate": rates, "momentum": [0.5, 0.9]})
    assert settings["learning_rate"] == [rates[0], rates[0], rates[1], rates[1]]
    np.testing.assert_array_equal(population.learning_rate.transition_steps, [4, 4, 8, 8])
    np.testing.assert_array_equal(population.momentum, np.float32([0.5, 0.9, 0.5, 0.9]))


def test_the_settings_of_a_grid_are_arrays_of_numbers_whatever_they_came_in():
    for values in ([0.1, 0.2], (0.1, 0.2), np.float32([0.1, 0.2]), jnp.array([0.1, 0.2])):
        _, settings = grid(pytreeopt.sgd(0.1), {"learning_rate": values})
        np.testing.assert_allclose(settings["learning_rate"][np.array([1, 0])], [0.2, 0.1], rtol=1e-6)


def test_stack_promotes_and_keeps_shapes():
    trees = [pytreeopt.scale_by_tree({"w": jnp.full(2, x), "b": x}) for x in (0.5, 2.0)]
    population = stack(trees)
    assert population.factors["w"].shape == (2, 2)
    np.testing.assert_array_equal(stack([pytreeopt.sgd(1), pytreeopt.sgd(0.5)]).learning_rate, [1.0, 0.5])
    keys = stack([pytreeopt.add_noise(0.1, 0.5, key) for key in jax.random.split(KEY, 2)]).key
    assert keys.shape == (2,)
    arrays = stack([{"w": jnp.ones(3, jnp.bfloat16)}, {"w": jnp.zeros(3, jnp.bfloat16)}])
    assert (arrays["w"].shape, arrays["w"].dtype) == ((2, 3), jnp.bfloat16)


@pytest.mark.parametrize(
    "members, message",
    [
        ([pytreeopt.adam(1e-3), pytreeopt.adam(1e-3), pytreeopt.adam(1e-3, nesterov=True)],
         "members 0 and 2 differ in nesterov, which is static: False and True"),
        ([pytreeopt.chain(pytreeopt.adamw(0.1)), pytreeopt.chain(pytreeopt.adamw(0.1, mask={"w": True}))],
         "differ in 0.mask, which is static"),
        ([pytreeopt.sgd(0.1), pytreeopt.sgd(0.1, momentum=0.9)], "differ in momentum: None and 0.9"),
        ([pytreeopt.sgd(0.1), pytreeopt.sgd(pytreeopt.constant_schedule(0.1))],
         "differ in learning_rate: 0.1 and ConstantSchedule"),
        ([pytreeopt.adam(0.1), pytreeopt.adamw(0.1)], "differ in class: Adam and AdamW"),
        ([pytreeopt.chain(pytreeopt.identity()), pytreeopt.chain(pytreeopt.identity(), pytreeopt.identity())],
         "members 0 and 1 differ in class"),
        ([pytreeopt.partition({"a": pytreeopt.scale(0.1)}, "a"), pytreeopt.partition({"b": pytreeopt.scale(0.1)}, "b")],
         "differ in"),
        ([pytreeopt.scale_by_tree(jnp.ones(2)), pytreeopt.scale_by_tree(jnp.ones(3))],
         r"have factors of shape \(2,\) and \(3,\)"),
        ([pytreeopt.contrib.dog(init_step=("distance", 1.0)), pytreeopt.contrib.dog(init_step=("heuristic", 1.0))],
         "differ in the structure of init_step"),
        ([pytreeopt.inject_hyperparams(pytreeopt.adam)(0.1, nesterov=nesterov) for nesterov in (False, True)],
         "differ in nesterov, which is static"),
    ],
)  # fmt: skip
def test_members_that_differ_in_more_than_numbers_are_refused(members, message):
    with pytest.raises(StructureError, match=message):
        stack(members)


def test_exploit_and_explore_inside_jit():
    population = stack([pytreeopt.adam(x) for x in (0.25, 0.5, 1.0)])
    params = jax.tree.map(lambda x: jnp.stack([x, 2 * x, 4 * x]), PARAMS)
    states = jax.vmap(lambda opt, params: opt.init(params))(population, params)

    @jax.jit
    def evolve(key, population, params, states, losses):
        parents = jnp.where(losses > jnp.median(losses), jnp.argmin(losses), jnp.arange(size(population)))
        population, params, states = take((population, params, states), parents)
        factor = jnp.where(parents == jnp.arange(3), 1.0, choice([0.5, 2.0])(key, (3,)))
        return replace(population, learning_rate=population.learning_rate * factor), params, states

    population, params, states = evolve(KEY, population, params, states, jnp.array([0.1, 0.2, 0.3]))
    assert population.learning_rate[:2].tolist() == [0.25, 0.5]
    assert population.learning_rate[2] in (0.125, 0.5)
    np.testing.assert_array_equal(params["b"], [0.5, 1.0, 0.5])
    assert jax.tree.structure(take(states, 0)) == jax.tree.structure(pytreeopt.adam(0.1).init(PARAMS))


def test_take():
    population = stack([pytreeopt.adam(x) for x in (0.25, 0.5, 1.0)])
    assert take(population, 1) == unstack(population)[1]
    assert take(population, [2, 0]).learning_rate.tolist() == [1.0, 0.25]
    assert take(population, np.array([True, False, True]).nonzero()[0]).learning_rate.tolist() == [0.25, 1.0]
    assert float(jax.jit(take)(population, 5).learning_rate) == 1.0
    for index in (3, -4, [0, 3]):
        with pytest.raises(IndexError, match="of a population of 3"):
            take(population, index)


def test_sample():
    draws = {"learning_rate": log_uniform(1e-4, 1e-1), "1.b1": uniform(0.8, 0.9), "max_norm": choice([1.0, 2.0])}
    opt = pytreeopt.chain(pytreeopt.clip_by_global_norm(1.0), pytreeopt.adam(1e-3))
    population = sample(KEY, opt, 500, draws)
    assert size(population) == 500
    found = hyperparams(population)
    logs = np.log10(found["1.learning_rate"])
    assert -4 <= logs.min() < -3.9
    assert -1.1 < logs.max() <= -1
    assert abs(np.median(logs) + 2.5) < 0.2
    assert np.all((found["1.b1"] >= 0.8) & (found["1.b1"] < 0.9))
    assert abs(np.mean(found["1.b1"]) - 0.85) < 0.01
    assert set(found["0.max_norm"].tolist()) == {1.0, 2.0}
    np.testing.assert_array_equal(found["1.b2"], np.full(500, 0.999, np.float32))
    # A stream for each name: fewer names, the same draws; another key, others.
    fewer = sample(KEY, opt, 500, {"1.learning_rate": draws["learning_rate"]})
    np.testing.assert_array_equal(hyperparams(fewer)["1.learning_rate"], found["1.learning_rate"])
    other = jax.jit(lambda key: sample(key, opt, 500, draws))(jax.random.key(1))
    assert not np.any(np.asarray(hyperparams(other)["1.learning_rate"]) == found["1.learning_rate"])


def test_draws_with_odds_and_of_ones_own():
    assert set(choice([1.0, 2.0, 3.0], p=[0.5, 0.5, 0.0])(KEY, (100,)).tolist()) == {1.0, 2.0}
    draw = lambda key, shape: 1 - log_uniform(1e-3, 1e-1)(key, shape)
    b1 = sample(KEY, pytreeopt.adam(1e-3), 50, {"b1": draw}).b1
    assert np.all((b1 >= 0.9) & (b1 <= 0.9991))
    assert np.all(log_uniform(0.1, 0.1)(KEY, (3,)) == np.float32(0.1))


def test_axes():
    opt = pytreeopt.chain(pytreeopt.clip(1.0), pytreeopt.sgd(pytreeopt.linear_schedule(0.5, 0.0, 4), 0.9))
    tree = axes(opt, "learning_rate")
    assert hyperparams(tree, integers=True) == {
        f"1.learning_rate.{name}": 0 for name in ("init_value", "end_value", "transition_steps", "transition_begin")
    }
    population = replace(opt, learning_rate=stack([opt.transforms[1].learning_rate] * 3))
    out = jax.vmap(lambda opt: hyperparams(opt, step=2)["1.learning_rate"], in_axes=(tree,))(population)
    np.testing.assert_allclose(out, [0.25] * 3)
    with pytest.raises(StructureError, match=r"size: 0.max_delta has shape \(\)"):
        size(population)
    assert jax.tree.leaves(axes(opt)) == []


@pytest.mark.parametrize(
    "call",
    [
        lambda opt: grid(opt, {"nesterov": [True, False]}),
        lambda opt: sample(KEY, opt, 2, {"nesterov": uniform(0.0, 1.0)}),
        lambda opt: axes(opt, "nesterov"),
    ],
)
def test_static_fields_do_not_vary(call):
    with pytest.raises(TypeError, match="nesterov of Adam is static, part of the program"):
        call(pytreeopt.adam(1e-3))


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: stack([]), ValueError, "at least one member"),
        (lambda: grid(pytreeopt.adam(1e-3), {"b1": []}), ValueError, "no values for b1"),
        (lambda: grid(pytreeopt.adam(1e-3), {"b": [1.0]}), KeyError, "no hyperparameter 'b'"),
        (lambda: grid(optax.adam(1e-3), {"b1": [1.0]}), TypeError, "of pytreeopt"),
        (lambda: log_uniform(0.0, 1.0), ValueError, "0 < low"),
        (
            lambda: grid(pytreeopt.adam(1e-3), {"b1": 0.9}),
            TypeError,
            r"sequence of values for b1, got 0.9; give \[0.9\]",
        ),
        (lambda: sample(KEY, pytreeopt.adam(1e-3), 2, {"b1": [0.8]}), TypeError, "function of key and shape for b1"),
        (lambda: sample(KEY, pytreeopt.adam(1e-3), 2, {"b1": lambda key, shape: 0.5}), ValueError, "2 values"),
        (lambda: size(stack([pytreeopt.adam(0.1)]).replace(b1=jnp.ones(2))), StructureError, r"b1 has shape \(2,\)"),
        (lambda: size(pytreeopt.adam(0.1)), StructureError, r"learning_rate has shape \(\)"),
    ],
)
def test_what_makes_no_sense_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_population_of_one_kind_is_an_optimizer_of_that_kind():
    population = stack([CHAIN, CHAIN])
    assert type(population) is type(CHAIN)
    assert dataclasses.fields(population) == dataclasses.fields(CHAIN)
    jax.vmap(lambda opt: opt.init(PARAMS))(population)
