"""Hyperparameters by name: reading, evaluating at a step or from a state, replacing."""

import doctest
from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreeopt
import pytreeopt._hyperparams
from laws import DEFAULT
from parity.rows import SCHEDULES
from pytreeopt import hyperparams, replace

PARAMS = {"w": jnp.array([1.0, -2.0]), "b": jnp.array(0.5)}
FALLING = pytreeopt.linear_schedule(0.8, 0.0, 8)
BUILDS = {name: row.build for name, row in {**DEFAULT, **SCHEDULES}.items()}


@jax.jit
def after(opt, state, steps):
    """The state after some updates, compiled once for each kind of optimizer."""
    return jax.lax.fori_loop(0, steps, lambda _, state: opt.update(PARAMS, state, PARAMS)[1], state)


def states(opt, steps=3):
    return after(opt, opt.init(PARAMS), steps)


def test_the_docstrings_run():
    assert doctest.testmod(pytreeopt._hyperparams).failed == 0


@pytest.mark.parametrize(
    "opt, paths",
    [
        (pytreeopt.adam(1e-3), ["learning_rate", "b1", "b2", "eps", "eps_root"]),
        (pytreeopt.chain(pytreeopt.clip(1.0), pytreeopt.sgd(0.1)), ["0.max_delta", "1.learning_rate"]),
        (pytreeopt.named_chain(("z", pytreeopt.clip(1.0)), ("a", pytreeopt.sgd(0.1))),
         ["z.max_delta", "a.learning_rate"]),
        (pytreeopt.partition({"decoder": pytreeopt.sgd(0.1), 1: pytreeopt.scale(2.0)}, "decoder"),
         ["decoder.learning_rate", "1.step_size"]),
        (pytreeopt.partition({"1": pytreeopt.scale(0.1), 1: pytreeopt.scale(2.0)}, 1),
         ["'1'.step_size", "1.step_size"]),
        (pytreeopt.masked(pytreeopt.sgd(0.1), True), ["inner.learning_rate"]),
        (pytreeopt.sgd(FALLING), ["learning_rate.init_value", "learning_rate.end_value"]),
        (pytreeopt.sgd(lambda step: 0.1), []),
        (pytreeopt.inject_hyperparams(pytreeopt.sgd)(0.1, 0.9), ["learning_rate", "momentum"]),
        (pytreeopt.contrib.dog(init_step=("distance", 0.1)), ["learning_rate", "init_step.1", "eps"]),
        (pytreeopt.contrib.prodigy(), ["learning_rate", "betas.0", "betas.1", "eps", "estim_lr0", "estim_lr_coef",
                                       "weight_decay"]),
        (pytreeopt.scale_by_tree({"w": 0.5, "b": [0.1, 0.2]}), ["factors.b.0", "factors.b.1", "factors.w"]),
        (pytreeopt.join_schedules([pytreeopt.constant_schedule(1.0), FALLING], [3]),
         ["schedules.0.value", "schedules.1.init_value", "schedules.1.end_value"]),
    ],
    ids=lambda x: type(x).__name__,
)  # fmt: skip
def test_paths(opt, paths):
    assert list(hyperparams(opt)) == paths


def test_integers_and_keys_are_given_on_demand():
    assert "transition_steps" not in hyperparams(FALLING)
    assert hyperparams(FALLING, integers=True)["transition_steps"] == 8
    assert "key" in hyperparams(pytreeopt.add_noise(0.1, 0.5, jax.random.key(0)), integers=True)


@pytest.mark.parametrize("name", BUILDS)
def test_every_number_has_a_path_and_goes_back(name):
    """Also: traced values land in their fields, so that hypergradients by name are those of the optimizer."""
    opt = BUILDS[name](pytreeopt)
    values = hyperparams(opt, integers=True)
    leaves = jax.tree.leaves(opt)
    assert len(values) == len(leaves)
    assert all(x is y for x, y in zip(values.values(), leaves, strict=True))
    assert replace(opt, values) == opt
    floats = hyperparams(opt)
    if not floats:
        return
    marked = OrderedDict((path, np.float32(0.25 + i / 64)) for i, path in enumerate(floats))
    back = jax.make_jaxpr(lambda h: hyperparams(replace(opt, h)), return_shape=True)(marked)[1]
    assert list(back) == list(floats)
    traced = []
    jax.eval_shape(lambda h: traced.append((replace(opt, h), h)), marked)
    changed, given = traced[0]
    assert jax.tree.structure(changed) == jax.tree.structure(opt)
    found = hyperparams(changed)
    assert all(isinstance(found[path], jax.core.Tracer) and found[path].weak_type for path in given)


NESTED = pytreeopt.chain(
    pytreeopt.clip_by_global_norm(1.0),
    pytreeopt.partition(
        {"w": pytreeopt.adamw(FALLING, b1=0.8), "b": pytreeopt.sgd(0.1, momentum=0.9)}, {"w": "w", "b": "b"}
    ),
)


def test_hypergradients_by_name_are_those_of_the_optimizer():
    def loss(opt):
        params, state = PARAMS, opt.init(PARAMS)
        for _ in range(3):
            updates, state = opt.update(params, state, params)
            params = optax.apply_updates(params, updates)
        return optax.tree.norm(params)

    by_name = jax.jit(jax.grad(lambda h: loss(replace(NESTED, h))))(hyperparams(NESTED))
    whole = jax.jit(jax.grad(loss, allow_int=True))(NESTED)
    assert list(by_name) == list(hyperparams(NESTED))
    assert by_name["1.w.learning_rate.init_value"] != 0
    for path, slope in hyperparams(whole).items():
        np.testing.assert_allclose(by_name[path], slope, rtol=1e-6, err_msg=path)


def test_jit_gives_the_same_mapping_in_the_same_order():
    found = jax.jit(hyperparams)(NESTED)
    assert list(found) == list(hyperparams(NESTED))
    assert type(found) is OrderedDict


def test_at_a_step_schedules_are_evaluated():
    opt = pytreeopt.adamw(FALLING, weight_decay=lambda step: 0.5 * step)
    found = hyperparams(opt, step=2)
    assert list(found) == ["learning_rate", "b1", "b2", "eps", "eps_root", "weight_decay"]
    assert (found["learning_rate"], found["weight_decay"]) == (0.6, 1.0)
    traced = jax.jit(lambda opt, step: hyperparams(opt, step)["learning_rate"])(pytreeopt.sgd(FALLING), 4)
    np.testing.assert_allclose(traced, 0.4, rtol=1e-6)
    assert hyperparams(pytreeopt.sgd(pytreeopt.constant_schedule(3)), 2) == {}
    assert hyperparams(pytreeopt.sgd(pytreeopt.constant_schedule(3)), 2, integers=True) == {"learning_rate": 3}


class Foreign:
    """A callable pytree from elsewhere, as an Equinox module is."""

    def __init__(self, slope):
        self.slope = slope

    def __call__(self, count):
        return self.slope * count


jax.tree_util.register_pytree_with_keys(
    Foreign, lambda x: (((jax.tree_util.GetAttrKey("slope"), x.slope),), None), lambda _, children: Foreign(*children)
)


def test_a_callable_pytree_is_a_schedule():
    opt = pytreeopt.sgd(Foreign(0.5))
    assert hyperparams(opt) == {"learning_rate.slope": 0.5}
    assert hyperparams(opt, step=3) == {"learning_rate": 1.5}
    assert hyperparams(replace(opt, slope=0.25), step=4) == {"learning_rate": 1.0}


TWO_CLOCKS = pytreeopt.scheduled(pytreeopt.MultiSteps(pytreeopt.adam(FALLING, b1=FALLING), 2))


@pytest.mark.parametrize(
    "opt, path, count",
    [
        (pytreeopt.sgd(FALLING), "learning_rate", 3),
        (pytreeopt.chain(pytreeopt.clip(1.0), pytreeopt.adam(FALLING)), "1.learning_rate", 3),
        (NESTED, "1.w.learning_rate", 3),
        (pytreeopt.named_chain(("a", pytreeopt.adamw(FALLING))), "a.learning_rate", 3),
        (pytreeopt.adamw(1e-3, weight_decay=FALLING), "weight_decay", 3),
        (pytreeopt.MultiSteps(pytreeopt.sgd(FALLING), 2), "opt.learning_rate", 1),
        (pytreeopt.chain(pytreeopt.MultiSteps(pytreeopt.sgd(FALLING), 3), pytreeopt.scale_by_schedule(FALLING)),
         "0.opt.learning_rate", 1),
        (pytreeopt.MultiSteps(pytreeopt.sgd(1e-3), FALLING.replace(init_value=1.0, end_value=1.0)),
         "every_k_schedule", 3),
        (pytreeopt.apply_if_finite(pytreeopt.sgd(FALLING), 3), "inner.learning_rate", 3),
        (pytreeopt.scheduled(pytreeopt.adam(1e-3, b1=FALLING)), "inner.b1", 3),
        (TWO_CLOCKS, "inner.opt.learning_rate", 1),
        (TWO_CLOCKS, "inner.opt.b1", 3),
        (pytreeopt.inject_hyperparams(pytreeopt.sgd)(FALLING), "learning_rate", 3),
        (pytreeopt.contrib.prodigy(FALLING), "learning_rate", 3),
        (pytreeopt.contrib.schedule_free_sgd(FALLING), "learning_rate", 4),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, pytreeopt.GradientTransformation) else str(x),
)  # fmt: skip
def test_a_state_tells_the_step_of_each_schedule(opt, path, count):
    """The value is that of the next update."""
    schedule = dict(schedules(opt))[path]
    np.testing.assert_allclose(hyperparams(opt, step=states(opt))[path], schedule(count), rtol=1e-6)


def schedules(opt):
    is_schedule = lambda x: isinstance(x, pytreeopt.AbstractSchedule)
    for path, x in jax.tree_util.tree_leaves_with_path(opt, is_leaf=is_schedule):
        if is_schedule(x):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            yield name.replace("transforms.", "").replace("arguments.", ""), x


def test_a_state_tells_the_step_inside_jit():
    opt = pytreeopt.sgd(FALLING)
    rate = jax.jit(lambda opt, state: hyperparams(opt, step=state)["learning_rate"])(opt, states(opt, 2))
    np.testing.assert_allclose(rate, 0.6, rtol=1e-6)


def test_what_is_kept_in_the_state_is_read_from_it():
    opt = pytreeopt.inject_hyperparams(pytreeopt.adam)(1e-3)
    state = opt.init(PARAMS)
    state.hyperparams["learning_rate"] = jnp.float32(0.25)
    assert hyperparams(opt, step=state)["learning_rate"] == 0.25
    assert list(hyperparams(opt, step=state)) == list(hyperparams(opt))


def test_a_parameter_called_count_is_no_count():
    opt = pytreeopt.chain(pytreeopt.trace(0.9), pytreeopt.sgd(FALLING))
    state = opt.init({"count": jnp.ones(2)})
    assert hyperparams(opt, step=state)["1.learning_rate"] == 0.8


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: hyperparams(pytreeopt.sgd(FALLING), step=()), "holds no count for SGD.learning_rate"),
        (lambda: hyperparams(pytreeopt.sgd(FALLING), step=[states(pytreeopt.adam(0.1), n) for n in (1, 2)]),
         "several counts for SGD.learning_rate"),
        (lambda: hyperparams(FALLING, step=1), "calling it"),
        (lambda: hyperparams(optax.sgd(0.1)), "needs an optimizer or schedule of pytreeopt"),
        (lambda: replace(optax.sgd(0.1), learning_rate=1.0), "needs an optimizer or schedule of pytreeopt"),
        (lambda: hyperparams(pytreeopt.scheduled(pytreeopt.adam(1e-3, b1=FALLING)), step=()), "ScheduledState"),
    ],
)  # fmt: skip
def test_reading_that_makes_no_sense_is_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


@pytest.mark.parametrize(
    "opt, changes, expected",
    [
        (pytreeopt.adam(1e-3), {"learning_rate": 0.5}, pytreeopt.adam(0.5)),
        (pytreeopt.adam(1e-3), {"nesterov": True, "mu_dtype": "bfloat16"},
         pytreeopt.adam(1e-3, mu_dtype="bfloat16", nesterov=True)),
        (pytreeopt.adamw(1e-3), {"mask": {"w": True}}, pytreeopt.adamw(1e-3, mask={"w": True})),
        (pytreeopt.sgd(FALLING), {"learning_rate": 0.5}, pytreeopt.sgd(0.5)),
        (pytreeopt.sgd(0.5), {"learning_rate": FALLING}, pytreeopt.sgd(FALLING)),
        (pytreeopt.sgd(FALLING), {"init_value": 0.5}, pytreeopt.sgd(FALLING.replace(init_value=0.5))),
        (pytreeopt.chain(pytreeopt.clip(1.0), pytreeopt.sgd(0.1)), {"0": pytreeopt.identity(), "learning_rate": 0.5},
         pytreeopt.chain(pytreeopt.identity(), pytreeopt.sgd(0.5))),
        (pytreeopt.contrib.prodigy(), {"betas.1": 0.5}, pytreeopt.contrib.prodigy(betas=(0.9, 0.5))),
        (pytreeopt.contrib.dog(), {"init_step": ("distance", 0.5)}, pytreeopt.contrib.dog(init_step=("distance", 0.5))),
        (pytreeopt.contrib.dog(), {"init_step.1": 0.5}, pytreeopt.contrib.dog(init_step=("heuristic", 0.5))),
        (pytreeopt.inject_hyperparams(pytreeopt.adam)(1e-3), {"learning_rate": 0.5, "nesterov": True},
         pytreeopt.inject_hyperparams(pytreeopt.adam)(0.5, nesterov=True)),
        (pytreeopt.inject_hyperparams(pytreeopt.adamw)(1e-3), {"mask": {"w": True}},
         pytreeopt.inject_hyperparams(pytreeopt.adamw)(1e-3, mask={"w": True})),
        (pytreeopt.contrib.schedule_free(pytreeopt.sgd(0.1), 0.2), {"learning_rate": 0.5},
         pytreeopt.contrib.schedule_free(pytreeopt.sgd(0.1), 0.5)),
        (NESTED, {}, NESTED),
    ],
)  # fmt: skip
def test_replace(opt, changes, expected):
    assert replace(opt, changes) == expected
    assert replace(opt, **{name: value for name, value in changes.items() if "." not in name}) == replace(
        opt, {name: value for name, value in changes.items() if "." not in name}
    )


def test_replace_leaves_the_rest_as_the_same_objects():
    changed = replace(NESTED, {"1.b.learning_rate": 0.5})
    assert changed.transforms[0] is NESTED.transforms[0]
    assert changed.transforms[1].transforms["w"] is NESTED.transforms[1].transforms["w"]


def test_replacing_a_number_compiles_nothing_anew():
    traces = []

    @jax.jit
    def init(opt):
        traces.append(opt)
        return opt.init(PARAMS)

    for value in (0.1, np.float64(0.2), jnp.float32(0.3)):
        init(replace(NESTED, {"1.b.learning_rate": value}))
    assert len(traces) == 1


@pytest.mark.parametrize(
    "opt, changes, message",
    [
        (
            NESTED,
            {"learning_rat": 1.0},
            r"Chain has no hyperparameter 'learning_rat'; did you mean 1.w.learning_rate or 1.b.l",
        ),
        (NESTED, {"learning_rate": 1.0}, r"more than one 'learning_rate': 1.w.learning_rate, 1.b.learning_rate; give"),
        (NESTED, {"1.w": pytreeopt.sgd(0.1), "1.w.b1": 0.1}, "both say what 1.w.b1 is"),
        (NESTED, {"momentum": 0.1, "1.b.momentum": 0.1}, "both say what 1.b.momentum is"),
        (pytreeopt.sgd(0.1), {"qqq": 1.0}, "it has learning_rate, momentum, nesterov, accumulator_dtype"),
    ],
)
def test_names_that_mean_nothing_or_too_much_are_refused(opt, changes, message):
    for kind in (TypeError, KeyError):
        with pytest.raises(kind, match=message):
            replace(opt, changes)


def test_a_traced_value_cannot_be_static():
    with pytest.raises(TypeError, match="nesterov is static"):
        jax.eval_shape(lambda x: replace(pytreeopt.adam(1e-3), nesterov=x), True)
