"""Hyperparameters in the state, and any hyperparameter as a schedule."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreeopt
from laws import COMPILER_DEFAULTS
from parity.oracles import x64
from pytreeopt import linear_schedule, scheduled
from pytreeopt.errors import HyperparameterError
from pytreeopt.states import WrappedScheduleState

PARAMS = {"kernel": jnp.linspace(0.5, 2.0, 6).reshape(2, 3), "bias": jnp.array([0.3, -0.4, 1.0])}
GRADS = jax.tree.map(lambda x: jnp.sin(3 * x), PARAMS)


def matrices(tree):
    return jax.tree.map(lambda x: x.ndim == 2, tree)


def run(opt, steps=4, params=PARAMS, **extra):
    state = opt.init(params)
    for _ in range(steps):
        updates, state = opt.update(jax.tree.map(lambda x: jnp.sin(3 * x), params), state, params, **extra)
        params = optax.apply_updates(params, updates)
    return params, state


def equal(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    return all(map(np.array_equal, jax.tree.leaves(a), jax.tree.leaves(b)))


def close(a, b, rtol=1e-3):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-6), a, b)


@pytest.mark.parametrize("number", [0.1, np.float64(0.1), np.float32(0.1), np.array(0.1), jnp.float32(0.1)])
def test_numbers_are_injected_in_every_spelling(number):
    state = pytreeopt.inject_hyperparams(pytreeopt.sgd)(number).init(PARAMS)
    assert type(state) is optax.InjectStatefulHyperparamsState
    assert list(state.hyperparams) == ["learning_rate"]
    assert state.hyperparams["learning_rate"].dtype == jnp.float32


def test_state_can_be_changed_and_moves_between_libraries():
    ours = pytreeopt.inject_hyperparams(pytreeopt.adam)(1e-2, b1=linear_schedule(0.9, 0.8, 5))
    theirs = optax.inject_hyperparams(optax.adam)(1e-2, b1=optax.linear_schedule(0.9, 0.8, 5))
    state, other = ours.init(PARAMS), theirs.init(PARAMS)
    assert jax.tree.structure(state) == jax.tree.structure(other)
    assert type(state.hyperparams_states["b1"]) is WrappedScheduleState
    state.hyperparams["learning_rate"] = other.hyperparams["learning_rate"] = 0.5
    updates, _ = ours.update(GRADS, other, PARAMS)
    assert equal(updates, theirs.update(GRADS, state, PARAMS)[0])


def test_classes_of_ours_need_no_static_args():
    plain = pytreeopt.adamw(1e-2, weight_decay=0.1, mask=matrices, mu_dtype="bfloat16")
    injected = pytreeopt.inject_hyperparams(pytreeopt.adamw)(1e-2, weight_decay=0.1, mask=matrices, mu_dtype="bfloat16")
    close(run(injected)[0], run(plain)[0])
    factory = pytreeopt.inject_hyperparams(pytreeopt.adafactor)
    injected = factory(linear_schedule(1e-2, 1e-3, 5), min_dim_size_to_factor=2, momentum=0.9)
    plain = pytreeopt.adafactor(linear_schedule(1e-2, 1e-3, 5), min_dim_size_to_factor=2, momentum=0.9)
    found, state = jax.jit(run)(injected)
    close(found, run(plain)[0])
    assert "min_dim_size_to_factor" not in state.hyperparams
    assert "decay_offset" in state.hyperparams


@pytest.mark.parametrize("library", [optax, pytreeopt])
def test_factories_of_both_libraries(library):
    injected = pytreeopt.inject_hyperparams(library.adamw, static_args="mask")(1e-2, weight_decay=0.1, mask=matrices)
    theirs = optax.inject_hyperparams(optax.adamw, static_args="mask")(1e-2, weight_decay=0.1, mask=matrices)
    assert equal(run(injected), run(theirs))
    assert equal(jax.jit(lambda: run(injected, 2))(), jax.jit(lambda: run(theirs, 2))())


def test_an_inner_transformation_stays_dynamic():
    @pytreeopt.inject_hyperparams
    def factory(rate, inner, sizes=(1, 2)):
        assert sizes == (1, 2)
        return pytreeopt.chain(inner, pytreeopt.scale(rate))

    injected = factory(-0.1, pytreeopt.trace(0.9))
    assert jax.tree.leaves(injected) == [-0.1, 0.9]
    close(jax.jit(run)(injected)[0], run(pytreeopt.sgd(0.1, momentum=0.9))[0])


def test_extra_arguments_reach_schedules_and_the_inner_transformation():
    class Plateau:
        def init(self):
            return jnp.zeros([], jnp.int32)

        def update(self, state, **extra_args):
            return state + jnp.where(extra_args["value"] > 1, 1, 0)

        def __call__(self, state, **extra_args):
            return 0.1 * 0.5**state

    def factory(rate):
        return optax.GradientTransformationExtraArgs(
            lambda params: (), lambda u, s, p=None, *, value: (jax.tree.map(lambda x: x * rate * value, u), s)
        )

    schedule = Plateau()
    ours, theirs = (o.inject_hyperparams(factory)(schedule) for o in (pytreeopt, optax))
    assert equal(run(ours, value=2.0), run(theirs, value=2.0))
    assert jax.tree.leaves(ours) == []
    assert hash(ours) == hash(pytreeopt.inject_hyperparams(factory)(schedule))


def test_bias_is_corrected_in_float32():
    params = {"w": jnp.linspace(-1, 1, 5, dtype=jnp.float16)}
    injected = pytreeopt.inject_hyperparams(pytreeopt.adam)(0.5, 0.75, 0.9, eps=0.25)
    plain = optax.adam(0.5, 0.75, float(np.float16(0.9)), eps=0.25)
    state, other = injected.init(params), plain.init(params)
    for _ in range(3):
        updates, state = injected.update(params, state, params)
        expected, other = plain.update(params, other, params)
        assert jnp.array_equal(updates["w"], expected["w"])


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_precision_of_hyperparameters(dtype):
    """Numbers are cast to the dtype of the params, as in Optax, or to the one that is asked for."""
    params = jax.tree.map(lambda x: x.astype(dtype), PARAMS)
    make = pytreeopt.inject_hyperparams(pytreeopt.adamw)
    assert make(jnp.float32(1e-2)).init(params).hyperparams["b2"].dtype == dtype
    opt = pytreeopt.inject_hyperparams(pytreeopt.adamw, hyperparam_dtype=jnp.float32)(jnp.float32(1e-2), eps=1e-4)
    state = opt.init(params)
    assert abs(float(state.hyperparams["b2"]) - 0.999) < 1e-6
    updates, _ = opt.update(params, state, params)
    assert all(u.dtype == dtype and jnp.isfinite(u).all() for u in jax.tree.leaves(updates))


def test_one_trace():
    opt, traces = pytreeopt.inject_hyperparams(pytreeopt.adam)(1e-2, b1=lambda count: 0.9), 0

    @jax.jit
    def step(opt, state):
        nonlocal traces
        traces += 1
        return opt.update(GRADS, state, PARAMS)[1]

    state = opt.init(PARAMS)
    for _ in range(3):
        state = step(opt, state)
    other = opt.replace(arguments={**opt.arguments, "learning_rate": np.float32(0.5)})
    step(other, state)
    assert traces == 1


def test_is_a_value():
    make = pytreeopt.inject_hyperparams(pytreeopt.adamw)
    opt = make(1e-2, mask=matrices)
    assert opt == make(1e-2, mask=matrices)
    assert opt != make(2e-2, mask=matrices)
    assert opt != make(1e-2)
    assert hash(opt) == hash(make(1e-2, mask=matrices))
    assert pickle.loads(pickle.dumps(opt)) == opt


def test_signature_names_and_warning():
    factory = pytreeopt.inject_hyperparams(pytreeopt.sgd)
    assert factory.__name__ == "SGD"
    assert factory.__wrapped__ is pytreeopt.sgd
    with pytest.raises(ValueError, match=r"must name parameters of SGD, got \['mask'\]"):
        pytreeopt.inject_hyperparams(pytreeopt.sgd, static_args="mask")
    with pytest.warns(DeprecationWarning, match="inject_hyperparams"):
        pytreeopt.inject_stateful_hyperparams(pytreeopt.sgd)(0.1)


def test_wrapped_schedule_counts():
    for schedule in (lambda count: 2.0 * count, linear_schedule(0.0, 8.0, 4)):
        wrapped = pytreeopt.WrappedSchedule(schedule)
        assert isinstance(wrapped, optax.schedules.StatefulSchedule)
        state = wrapped.update(wrapped.init(), value=1.0)
        assert wrapped(state) == 2.0
        assert state == WrappedScheduleState(1)
        injected = optax.inject_hyperparams(optax.scale)(step_size=wrapped)
        assert run(injected)[1].hyperparams["step_size"] == 6.0


DECAY, RATE, FIRST = linear_schedule(0.1, 0.01, 5), linear_schedule(1e-1, 1e-2, 4), linear_schedule(0.8, 0.95, 6)


def test_scheduled_equals_injected_to_the_bit_when_all_numbers_are_traced():
    ours = scheduled(pytreeopt.adamw(1e-2, b1=FIRST, weight_decay=linear_schedule(0.1, 0.1, 5)))
    injected = pytreeopt.inject_hyperparams(pytreeopt.adamw)(1e-2, b1=FIRST, weight_decay=0.1)
    step = jax.jit(lambda opt, state: opt.update(GRADS, state, PARAMS), compiler_options=COMPILER_DEFAULTS)
    state, other = ours.init(PARAMS), injected.init(PARAMS)
    for _ in range(4):
        updates, state = step(ours.replace(inner=ours.inner.replace(weight_decay=0.1)), _swap(state))
        expected, other = step(injected, other)
        assert equal(updates, expected)
    assert state.count == 4


def _swap(state):
    """The state of a numeric weight decay in place of that of a scheduled one."""
    adam, _, rate = state.inner_state
    return state._replace(inner_state=(adam, optax.EmptyState(), rate))


def test_native_schedules_are_left_alone():
    opt = scheduled(pytreeopt.adamw(RATE, b1=FIRST, weight_decay=DECAY))
    inner = opt.at(3)
    assert inner.learning_rate is opt.inner.learning_rate
    assert inner.weight_decay is opt.inner.weight_decay
    assert inner.b1 == FIRST(3)
    params, state = run(opt)
    assert [int(s.count) for s in state.inner_state] == [4, 4, 4]
    close(params, run(optax.inject_hyperparams(optax.adamw)(RATE, b1=FIRST, weight_decay=DECAY))[0])
    alone = scheduled(pytreeopt.adamw(RATE))
    assert alone.at(0) is alone.inner


def test_schedules_at_any_depth():
    parts = [pytreeopt.masked(pytreeopt.trace(decay=FIRST), matrices), pytreeopt.sgd(RATE)]
    nested = pytreeopt.named_chain(("clip", pytreeopt.clip(lambda t: 0.5 / (1 + t))), ("rest", pytreeopt.chain(*parts)))
    params, _ = run(scheduled(nested))
    state, expected = nested, PARAMS
    momentum = {"kernel": jnp.zeros((2, 3)), "bias": jnp.zeros(3)}
    for t in range(4):
        clip = 0.5 / (1 + t)
        grads = jax.tree.map(lambda x, c=clip: jnp.clip(jnp.sin(3 * x), -c, c), expected)
        momentum = {"kernel": grads["kernel"] + FIRST(t) * momentum["kernel"], "bias": grads["bias"]}
        expected = jax.tree.map(lambda p, m, t=t: p - RATE(t) * m, expected, momentum)
    close(params, expected, 1e-5)
    del state


def test_without_the_wrapper_it_is_an_error_that_names_the_field():
    opt = pytreeopt.adamw(1e-2, b1=FIRST)
    with pytest.raises(HyperparameterError, match=r"AdamW.init cannot take a schedule as b1; .*scheduled"):
        opt.init(PARAMS)
    with pytest.raises(HyperparameterError, match=r"ClipByGlobalNorm.update .* max_norm"):
        pytreeopt.clip_by_global_norm(DECAY).update(GRADS, optax.EmptyState())
    with pytest.raises(ValueError, match=r"Scheduled.update needs the ScheduledState that its init returned"):
        scheduled(opt).update(GRADS, optax.EmptyState(), PARAMS)


def test_scheduled_is_a_pytree():
    opt, traces = scheduled(pytreeopt.adamw(1e-2, b1=FIRST, eps=DECAY)), 0

    def train(opt):
        nonlocal traces
        traces += 1
        return run(opt)[0]

    compiled = jax.jit(train)
    members = [jax.tree.map(lambda x, f=f: x * f if isinstance(x, float) else x, opt) for f in (0.9, 0.95)]
    alone = [compiled(member) for member in members]
    assert traces == 1
    stacked = jax.tree.map(lambda *leaves: jnp.asarray(leaves), *members)
    together = jax.vmap(train)(stacked)
    for index, one in enumerate(alone):
        close(jax.tree.map(lambda x, i=index: x[i], together), one, 1e-4)
    with x64(True):
        params = jax.tree.map(lambda x: np.asarray(x, np.float64), PARAMS)

        def loss(start):
            member = opt.replace(inner=opt.inner.replace(b1=FIRST.replace(init_value=start)))
            return sum(jnp.sum(x**2) for x in jax.tree.leaves(run(member, params=params)[0]))

        slope = jax.jit(jax.grad(loss))(0.8)
        np.testing.assert_allclose(slope, (loss(0.8 + 1e-3) - loss(0.8 - 1e-3)) / 2e-3, rtol=2e-3)
    assert pickle.loads(pickle.dumps(opt)) == opt
    assert hash(opt) == hash(opt.replace())
    state = opt.init(PARAMS)
    after = opt.update(GRADS, state, PARAMS)[1]
    assert jax.tree.map(jax.typeof, state) == jax.tree.map(jax.typeof, after)
