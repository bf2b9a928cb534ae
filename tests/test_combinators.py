"""What combinators do beside Optax's numbers: errors, foreign members, masks of any kind, mixed precision."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from flax.core import FrozenDict

import pytreeopt as o
from pytreeopt.errors import TransformationError

PARAMS = {"a": jnp.ones(3), "b": jnp.full((2, 2), 2.0, jnp.float32)}
GRADS = {"a": jnp.full(3, 0.5, jnp.float32), "b": jnp.full((2, 2), -0.25, jnp.float32)}
LABELS = {"a": "x", "b": "y"}


def same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(np.testing.assert_array_equal, a, b)


def needs_value() -> optax.GradientTransformationExtraArgs:
    """An Optax pair that is lost without its extra argument."""

    def update(updates, state, params=None, *, value, **_):
        return jax.tree.map(lambda u: u * value, updates), state

    return optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)


WRAPPERS = {
    "chain": lambda o, tx: o.chain(tx),
    "named_chain": lambda o, tx: o.named_chain(("only", tx)),
    "masked": lambda o, tx: o.masked(tx, True),
    "partition": lambda o, tx: o.partition({"x": tx, "y": tx}, LABELS),
    "selective_transform": lambda o, tx: o.selective_transform(tx, freeze_mask=False),
    "conditionally_mask": lambda o, tx: o.conditionally_mask(tx, lambda step: step >= 0),
    "conditionally_transform": lambda o, tx: o.conditionally_transform(tx, lambda step: step >= 0),
    "apply_if_finite": lambda o, tx: o.apply_if_finite(tx, 2),
    "flatten": lambda o, tx: o.flatten(tx),
    "MultiSteps": lambda o, tx: o.MultiSteps(tx, 1),
    "lookahead": lambda o, tx: o.lookahead(tx, 5, 0.5),
}
every_wrapper = pytest.mark.parametrize("wrap", [pytest.param(f, id=name) for name, f in WRAPPERS.items()])


def params_of(opt):
    return o.LookaheadParams(PARAMS, PARAMS) if isinstance(opt, o.Lookahead) else PARAMS


def fast(updates):
    return updates.fast if isinstance(updates, o.LookaheadParams) else updates


@every_wrapper
def test_extra_args_and_foreign_members_through_every_wrapper_as_an_argument_of_jit(wrap):
    opt = wrap(o, o.chain(needs_value(), optax.scale(2.0)))
    assert not [leaf for leaf in jax.tree.leaves(opt) if callable(leaf)]
    params = params_of(opt)

    @jax.jit
    def step(opt, grads, state, params, value):
        return opt.update(grads, state, params, value=value)

    updates, _ = step(opt, GRADS, opt.init(params), params, 3.0)
    same(fast(updates), jax.tree.map(lambda g: g * 6, GRADS))
    assert jax.tree.unflatten(*reversed(jax.tree.flatten(opt))) == opt
    jax.tree.map(lambda _: object(), opt)
    jax.tree.map(lambda _: None, opt)


@every_wrapper
def test_a_foreign_pair_alone(wrap):
    """Neither kind needs a chain around it; Optax's plain kind is given no extra arguments."""
    opt = wrap(o, optax.trace(0.5))
    params = params_of(opt)
    updates, _ = jax.jit(lambda opt, s: opt.update(GRADS, s, params, value=1.0))(opt, opt.init(params))
    same(fast(updates), GRADS)


@pytest.mark.parametrize("name", [name for name in WRAPPERS if name != "lookahead"])
def test_optax_combinators_accept_ours_and_pass_extra_args(name):
    ours = o.chain(needs_value(), o.scale(2.0))
    opt = WRAPPERS[name](optax, ours)
    updates, _ = opt.update(GRADS, opt.init(PARAMS), PARAMS, value=3.0)
    same(updates, jax.tree.map(lambda g: g * 6, GRADS))


class Pair(NamedTuple):
    a: Any
    b: Any


class Module(eqx.Module):
    a: Any
    b: Any

    def __call__(self, x):
        raise AssertionError("a mask is a tree, even if it can be called")


def state(a, b):
    return nnx.State({"a": nnx.Param(a), "b": nnx.Param(b)})


KINDS = {
    "dict": lambda a, b: {"a": a, "b": b},
    "FrozenDict": lambda a, b: FrozenDict(a=a, b=b),
    "NamedTuple": Pair,
    "nnx.State": state,
    "equinox": Module,
}
BOOLS = {"bool": bool, "numpy": np.bool_, "array": jnp.asarray}
every_kind = pytest.mark.parametrize("kind", [pytest.param(f, id=name) for name, f in KINDS.items()])


@every_kind
@pytest.mark.parametrize("spell", [pytest.param(f, id=name) for name, f in BOOLS.items()])
def test_masks_and_labels_of_any_kind(kind, spell):
    params, grads = kind(jnp.ones(2), jnp.ones(3)), kind(jnp.full(2, 0.5), jnp.full(3, 0.5))
    mask, labels = kind(spell(True), spell(False)), kind("x", "y")
    expected = kind(jnp.full(2, 1.0), jnp.full(3, 0.5))
    frozen = kind(jnp.zeros(2), jnp.full(3, 0.5))
    for opt, wanted in (
        (o.masked(o.scale(2.0), mask), expected),
        (o.partition({"x": o.scale(2.0), "y": o.identity()}, labels), expected),
        (o.freeze(mask), frozen),
        (o.selective_transform(o.identity(), freeze_mask=mask), frozen),
        (o.masked(o.scale(2.0), lambda tree: mask), expected),
        (o.partition({"x": o.scale(2.0), "y": o.identity()}, lambda tree: labels), expected),
    ):
        hash(opt)
        updates, _ = jax.jit(lambda opt, s: opt.update(grads, s, params))(opt, opt.init(params))
        same(updates, wanted)
    assert o.freeze(mask) == o.freeze(kind(True, False))


def third(step):
    return step == 3


BAD = {
    "label without transformation": (
        lambda: o.partition({"x": o.sgd(0.1)}, LABELS).init(PARAMS),
        ValueError,
        r"^Partition\.init has no transformation for 'y'; transforms has 'x'",
    ),
    "duplicate names": (
        lambda: o.named_chain(("x", o.sgd(0.1)), ("x", o.scale(1.0))),
        ValueError,
        r"named_chain needs distinct names, got \['x', 'x'\]",
    ),
    "empty chain": (lambda: o.chain(), ValueError, "chain needs at least one transformation"),
    "mask of another structure": (
        lambda: o.masked(o.sgd(0.1), {"a": True}).init(PARAMS),
        ValueError,
        r"^Masked\.init has a mask that is no prefix of the tree it masks",
    ),
    "labels of another structure": (
        lambda: o.partition({"x": o.sgd(0.1)}, {"a": "x", "c": "x"}).init(PARAMS),
        ValueError,
        r"^Partition\.init: Masked has a mask that is no prefix",
    ),
    "freeze mask of another structure": (
        lambda: o.freeze({"c": True}).update(GRADS, o.MaskedState(o.EmptyState())),
        ValueError,
        r"^Freeze\.update: Masked has a mask that is no prefix",
    ),
    "traced mask": (
        lambda: jax.jit(lambda m: o.masked(o.sgd(0.1), m))(True),
        TypeError,
        "mask must hold Python values; got a traced value|mask is static",
    ),
    "sync_period": (
        lambda: o.lookahead(o.sgd(0.1), 0, 0.5),
        ValueError,
        r"Lookahead needs a whole number >= 1 as sync_period, got 0",
    ),
    "a fraction of a period": (
        lambda: o.apply_every(1.5).update(GRADS, o.apply_every(2).init(PARAMS)),
        ValueError,
        r"^ApplyEveryK\.update needs a whole number >= 1 as k, got 1.5",
    ),
    "mini-steps from a schedule that passes through fractions": (
        lambda: o.MultiSteps(o.sgd(0.1), lambda step: jnp.float32(2.5)).update(
            GRADS, o.MultiSteps(o.sgd(0.1), 2).init(PARAMS)
        ),
        TypeError,
        r"^MultiSteps\.update needs a whole number >= 1 as every_k_schedule, got 2.5",
    ),
    "lookahead without params": (
        lambda: o.lookahead(o.sgd(0.1), 2, 0.5).update(GRADS, o.lookahead(o.sgd(0.1), 2, 0.5).init(params_pair())),
        AttributeError,
        r"^Lookahead\.update needs LookaheadParams, got None",
    ),
    "lookahead with plain params": (
        lambda: o.lookahead(o.sgd(0.1), 2, 0.5).update(
            GRADS, o.lookahead(o.sgd(0.1), 2, 0.5).init(params_pair()), PARAMS
        ),
        AttributeError,
        r"^Lookahead\.update needs LookaheadParams, got dict",
    ),
    "wrong number of states": (
        lambda: o.chain(o.sgd(0.1), o.scale(1.0)).update(GRADS, (o.EmptyState(),)),
        ValueError,
        r"^Chain\.update has 2 members, got 1 states",
    ),
    "wrong number of measures": (
        lambda: o.monitor({"n": optax.tree.norm}).update(GRADS, o.MonitorState({}, ())),
        ValueError,
        r"^Monitor\.update has 1 measures, got 0 states",
    ),
    "named state missing": (
        lambda: o.named_chain(("x", o.sgd(0.1))).update(GRADS, {"y": ()}),
        KeyError,
        r"^NamedChain\.update finds no state for 'x' among \['y'\]",
    ),
    "partition state missing": (
        lambda: o.partition({"x": o.sgd(0.1)}, "x").update(GRADS, o.PartitionState({"y": ()})),
        ValueError,
        r"^Partition\.update finds no state for 'x' among 'y'",
    ),
    "skip function": (
        lambda: o.MultiSteps(o.sgd(0.1), 2, should_skip_update_fn=lambda u, s, p: (jnp.ones(2), ())).init(PARAMS),
        ValueError,
        r"^MultiSteps\.init needs one bool from should_skip_update_fn, got float32 of shape \(2,\)",
    ),
    "half a mini-step": (
        lambda: o.MultiSteps(o.sgd(0.1), 2.5).update(GRADS, o.MultiSteps(o.sgd(0.1), 2).init(PARAMS)),
        TypeError,
        r"^MultiSteps\.update needs a whole number >= 1 as every_k_schedule, got 2.5",
    ),
    "no transformation": (lambda: o.masked(3, True).init(PARAMS), TypeError, "expected a gradient transformation"),
    "deep inside": (
        lambda: o.apply_if_finite(o.masked(o.add_decayed_weights(0.1), True), 1).update(
            GRADS, o.apply_if_finite(o.masked(o.add_decayed_weights(0.1), True), 1).init(PARAMS)
        ),
        ValueError,
        r"^ApplyIfFinite\.update: Masked > AddDecayedWeights needs params",
    ),
}


def params_pair():
    return o.LookaheadParams(PARAMS, PARAMS)


@pytest.mark.parametrize("bad, kind, message", [pytest.param(*case, id=name) for name, case in BAD.items()])
def test_bad_input(bad, kind, message):
    with pytest.raises(kind, match=message) as caught:
        bad()
    if message.startswith("^"):
        assert isinstance(caught.value, TransformationError)


BRANCHING = {
    "apply_if_finite": lambda tx: o.apply_if_finite(tx, 2),
    "conditionally_mask": lambda tx: o.conditionally_mask(tx, third),
    "conditionally_transform": lambda tx: o.conditionally_transform(tx, third),
    "MultiSteps": lambda tx: o.MultiSteps(tx, 2, should_skip_update_fn=o.skip_not_finite),
}


@pytest.mark.parametrize("wrap", [pytest.param(f, id=name) for name, f in BRANCHING.items()])
@pytest.mark.parametrize("foreign", [False, True])
def test_branches_agree_in_mixed_precision(wrap, foreign):
    """bfloat16 gradients, float32 params, strongly typed or batched hyperparameters; Optax refuses some of these."""
    grads = jax.tree.map(lambda g: g.astype(jnp.bfloat16), GRADS)

    def train(decay):
        inner = (optax if foreign else o).chain(optax.trace(0.9), (optax if foreign else o).add_decayed_weights(decay))
        opt = wrap(inner)
        state = opt.init(PARAMS)
        first, state = opt.update(grads, state, PARAMS)
        return opt.update(jax.tree.map(lambda g: g * jnp.nan, grads), state, PARAMS)[0], first

    for updates in (train(0.1), train(jnp.float32(0.1)), jax.jit(train)(jnp.float32(0.1))):
        assert {str(leaf.dtype) for leaf in jax.tree.leaves(updates)} <= {"float32"}
    alone = jax.tree.map(lambda *x: jnp.stack(x), *[train(decay) for decay in (0.1, 0.2)])
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, rtol=1e-4), jax.vmap(train)(jnp.array([0.1, 0.2])), alone
    )


def test_condition_and_transformation_see_the_extra_args():
    opt = o.conditionally_mask(needs_value(), lambda step, value: value > 1, forward_extra_args=True)
    start = opt.init(PARAMS)
    same(opt.update(GRADS, start, value=2.0)[0], jax.tree.map(lambda g: 2 * g, GRADS))
    same(opt.update(GRADS, start, value=0.5)[0], jax.tree.map(jnp.zeros_like, GRADS))


@pytest.mark.parametrize("k", [2, np.int64(2), np.uint8(2), np.array(2), jnp.int32(2), jnp.uint32(2), jnp.int8(2), 2.0])
def test_the_number_of_mini_steps_may_have_any_integer_type(k):
    opt = o.MultiSteps(o.sgd(0.1), k)
    state = opt.init(PARAMS)
    assert not opt.has_updated(state)
    dtypes = jax.tree.map(lambda x: x.dtype, state)
    for expected in (False, True, False, True):
        _, state = opt.update(GRADS, state, PARAMS)
        assert bool(opt.has_updated(state)) == expected
        assert jax.tree.map(lambda x: x.dtype, state) == dtypes


def test_multi_steps_methods_are_those_of_optax():
    opt = o.MultiSteps(optax.sgd(0.1), 2)
    assert isinstance(opt.inner_opt, o.GradientTransformation)
    assert isinstance(opt.gradient_transformation(), optax.GradientTransformation)
    coerced = o.chain(optax.MultiSteps(optax.sgd(0.1), 2))
    same(coerced.init(PARAMS)[0], opt.init(PARAMS))


def test_multi_steps_without_accumulator_dtype_keeps_that_of_the_params():
    params = jax.tree.map(lambda p: p.astype(jnp.bfloat16), PARAMS)
    opt = o.MultiSteps(o.sgd(0.1), 2, accumulator_dtype=None)
    _, state = opt.update(params, opt.init(params), params)
    assert {leaf.dtype for leaf in jax.tree.leaves(state.acc_grads)} == {jnp.dtype(jnp.bfloat16)}


def test_multi_steps_forgets_a_bad_gradient_after_its_step():
    """Optax multiplies the accumulated NaN by 0: it stays forever."""
    opt, bad = o.MultiSteps(o.sgd(0.1), 2), jax.tree.map(lambda g: g * jnp.nan, GRADS)
    state = opt.init(PARAMS)
    for grads in (bad, GRADS):
        updates, state = opt.update(grads, state, PARAMS)
    assert np.isnan(updates["a"]).all()
    same(state.acc_grads, jax.tree.map(jnp.zeros_like, PARAMS))


def test_multi_steps_waits_although_the_inner_update_is_not_finite():
    opt = o.MultiSteps(o.stateless_with_tree_map(lambda u, _: u / 0), 2)
    updates, _ = opt.update(GRADS, opt.init(PARAMS), PARAMS)
    same(updates, jax.tree.map(jnp.zeros_like, PARAMS))


def test_lookahead_slow_params_ignore_a_bad_step_between_synchronisations():
    opt, params = o.lookahead(o.sgd(0.1), 3, 0.5), params_pair()
    updates, _ = opt.update(jax.tree.map(lambda g: g * jnp.inf, GRADS), opt.init(params), params)
    same(updates.slow, jax.tree.map(jnp.zeros_like, PARAMS))


def test_lookahead_reset_keeps_dtypes_and_forgets_what_is_not_finite():
    opt, params = o.lookahead(o.apply_if_finite(o.trace(0.9), 0), 1, 0.5, reset_state=True), params_pair()
    start = opt.init(params)
    _, state = opt.update(jax.tree.map(lambda g: g * jnp.inf, GRADS), start, params)
    same(state, start)
    assert jax.tree.map(lambda x: x.dtype, state) == jax.tree.map(lambda x: x.dtype, start)


def test_lookahead_accepts_the_fast_params_alone(caplog):
    opt = o.lookahead(o.trace(0.9), 2, 0.5)
    same(opt.init(PARAMS), opt.init(params_pair()))
    assert "no LookaheadParams" in caplog.text


def test_monitor_is_empty_until_the_first_update_and_keeps_the_order():
    opt = o.monitor({"z": optax.tree.norm, "a": o.ema(0.9), "m": jax.tree_util.Partial(lambda k, u: k, jnp.ones(2))})
    opt = jax.tree.unflatten(*reversed(jax.tree.flatten(opt)))
    assert list(opt.measures) == ["z", "a", "m"]
    state = opt.init(PARAMS)
    assert state.measurements == {}
    assert isinstance(state.measure_states[1], o.EmaState)
    _, state = opt.update(GRADS, state)
    assert set(state.measurements) == {"z", "a", "m"}
    assert float(optax.tree.get(state, "z")) == float(optax.tree.norm(GRADS))


MONITORED = {
    "chain": lambda tx: o.chain(o.sgd(0.1), tx),
    "apply_if_finite": lambda tx: o.apply_if_finite(tx, 2),
    "MultiSteps": lambda tx: o.MultiSteps(tx, 2),
    "partition": lambda tx: o.partition({"x": tx}, "x"),
    "conditionally_mask": lambda tx: o.conditionally_mask(tx, third),
}


@pytest.mark.parametrize("wrap", [pytest.param(f, id=name) for name, f in MONITORED.items()])
def test_a_filled_state_goes_through_scan(wrap):
    """Optax refuses a monitor inside a condition."""
    opt = wrap(o.monitor({"norm": optax.tree.norm, "ema": o.ema(0.9)}))
    start = o.init_filled(opt, PARAMS)
    step = lambda state, _: (opt.update(GRADS, state, PARAMS)[1], None)
    end, _ = jax.lax.scan(step, start, length=2)
    state = opt.init(PARAMS)
    for _ in range(2):
        _, state = opt.update(GRADS, state, PARAMS)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6), end, state)
    assert jax.tree.structure(end) == jax.tree.structure(state)


def test_flatten_keeps_the_dtypes_of_mixed_leaves_and_takes_none():
    grads = {"a": jnp.ones(2, jnp.bfloat16), "b": jnp.ones((2, 1)), "c": None}
    opt = o.flatten(o.scale(2.0))
    updates, _ = opt.update(grads, opt.init(grads))
    assert (updates["a"].dtype, updates["b"].shape, updates["b"].dtype) == (jnp.bfloat16, (2, 1), jnp.float32)
    opt = o.flatten(o.adam(0.1))
    assert opt.update({}, opt.init({}))[0] == {}


def test_tree_map_params_finds_the_copies_through_label_functions():
    label = lambda tree: {name: "x" if leaf.ndim == 1 else "y" for name, leaf in tree.items()}
    opt = o.chain(
        o.partition({"x": o.adam(0.1), "y": o.trace(0.9)}, label),
        o.selective_transform(
            o.trace(0.9), freeze_mask=lambda tree: {name: leaf.ndim == 1 for name, leaf in tree.items()}
        ),
    )
    mapped = optax.tree_map_params(opt, lambda leaf: leaf + 1, opt.init(PARAMS))
    same(mapped[0].inner_states["x"].inner_state[0].mu["a"], jnp.ones(3))
    assert int(mapped[0].inner_states["x"].inner_state[0].count) == 0


def test_a_freeze_mask_may_be_a_function():
    """Optax takes the function for true and freezes everything."""
    opt = o.selective_transform(o.scale(2.0), freeze_mask=lambda tree: {"a": True, "b": False})
    updates, _ = opt.update(GRADS, opt.init(PARAMS))
    same(updates, {"a": jnp.zeros(3), "b": 2 * GRADS["b"]})


def test_apply_if_finite_on_an_empty_tree():
    opt = o.apply_if_finite(o.adam(0.1), 1)
    assert opt.update({}, opt.init({}))[0] == {}
