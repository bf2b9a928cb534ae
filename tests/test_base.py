"""The base: one spelling for each hyperparameter, holders, equality, the pair protocol, foreign pairs."""

import copy
import dataclasses
import functools
import pickle
from typing import NamedTuple

import equinox as eqx
import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreeopt
from pytreeopt.base import FunctionPair, FunctionSchedule, IgnoreExtraArgs
from pytreeopt.fields import Named, StaticTree

PARAMS = {"w": jnp.ones((2, 3)), "b": jnp.zeros(3)}


def half(count):
    return 0.5 / (1 + count)


class Halver:
    """A callable instance, and the owner of a bound method."""

    def __call__(self, count):
        return half(count)

    def method(self, count):
        return half(count)


class Line(eqx.Module):
    """A schedule of another library: a pytree that is callable."""

    slope: jax.Array

    def __call__(self, count):
        return self.slope * count


def train(opt, params=PARAMS, steps=2):
    state = opt.init(params)
    for _ in range(steps):
        updates, state = opt.update(params, state, params)
        params = optax.apply_updates(params, updates)
    return params


# One spelling for each hyperparameter


@pytest.mark.parametrize("spelling", [np.float64, np.float32, np.float16, np.array, lambda x: np.array(x, np.float32)])
def test_numpy_scalars_become_python_numbers(spelling):
    rate = pytreeopt.sgd(spelling(0.5)).learning_rate
    assert type(rate) is float
    assert rate == 0.5


def test_numpy_scalars_keep_their_exact_value():
    assert pytreeopt.ema(np.float32(0.1)).decay == float(np.float32(0.1))
    assert type(pytreeopt.scale(np.int64(3)).step_size) is int
    assert pytreeopt.sgd(1).learning_rate is not True


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_jax_scalars_become_weak(dtype):
    rate = pytreeopt.sgd(jnp.asarray(0.5, dtype)).learning_rate
    assert rate.weak_type
    assert rate.dtype == jnp.float32
    assert rate == 0.5
    assert pytreeopt.sgd(rate).learning_rate is rate  # idempotent


def test_a_strong_rate_does_not_widen_bfloat16():
    params = jax.tree.map(lambda x: x.astype(jnp.bfloat16), PARAMS)
    population = jax.vmap(lambda rate: pytreeopt.adam(rate))(jnp.array([0.1, 0.01]))
    trained = jax.vmap(lambda opt: train(opt, params))(population)
    assert {leaf.dtype for leaf in jax.tree.leaves(trained)} == {jnp.dtype(jnp.bfloat16)}


def test_arrays_that_are_no_scalars_are_left_alone():
    rates = jnp.array([0.1, 0.2])
    assert pytreeopt.sgd(rates).learning_rate is rates


def test_deleted_arrays_are_left_alone():
    rate = jnp.float32(0.1)
    rate.delete()
    assert pytreeopt.sgd(rate).learning_rate is rate
    assert pytreeopt.sgd(rate) != pytreeopt.sgd(0.1)


@pytest.mark.parametrize(
    "schedule",
    [half, functools.partial(half), Halver(), Halver().method, jax.jit(half), np.sqrt],
    ids=["function", "partial", "instance", "bound method", "jitted", "ufunc"],
)
def test_a_callable_leaf_becomes_a_leafless_schedule(schedule):
    opt = pytreeopt.sgd(schedule)
    assert opt.learning_rate == FunctionSchedule(schedule)
    assert jax.tree.leaves(opt) == []
    assert hash(opt) == hash(pytreeopt.sgd(schedule))
    jax.tree.map(np.testing.assert_array_equal, train(opt), train(optax.sgd(schedule)))


@pytest.mark.parametrize(
    "schedule",
    [jax.tree_util.Partial(lambda slope, count: slope * count, 0.1), Line(jnp.float32(0.1))],
    ids=["Partial", "equinox"],
)
def test_a_callable_pytree_stays_a_child(schedule):
    opt = pytreeopt.sgd(schedule)
    assert len(jax.tree.leaves(opt)) == 1
    assert opt.learning_rate is schedule
    jax.tree.map(np.testing.assert_allclose, jax.jit(train)(opt), train(optax.sgd(schedule)))


@pytest.mark.parametrize("dtype", ["bfloat16", jnp.bfloat16, jnp.dtype("bfloat16"), np.dtype("bfloat16")])
def test_dtypes_have_one_spelling(dtype):
    assert pytreeopt.adam(1.0, mu_dtype=dtype) == pytreeopt.adam(1.0, mu_dtype=jnp.bfloat16)


class Pair(NamedTuple):
    w: object
    b: object


@pytest.mark.parametrize(
    "mask",
    [
        {"w": True, "b": False},
        {"w": np.bool_(True), "b": np.array(False)},
        {"w": jnp.array(True), "b": jnp.array(False)},
        flax.core.FrozenDict({"w": True, "b": False}),
        Pair(jnp.array(True), False),
        [True, False],
    ],
    ids=["dict", "numpy", "jax", "FrozenDict", "NamedTuple", "list"],
)
def test_a_mask_is_a_hashable_value(mask):
    opt = pytreeopt.adamw(1e-3, mask=mask)
    assert isinstance(opt.mask, StaticTree)
    assert sorted(map(type, opt.mask.leaves), key=str) == [bool, bool]
    assert jax.tree.structure(opt.mask.tree) == jax.tree.structure(mask)
    assert hash(opt) == hash(pytreeopt.adamw(1e-3, mask=mask))
    assert opt == pytreeopt.adamw(1e-3, mask=mask)
    assert opt != pytreeopt.adamw(1e-3, mask=jax.tree.map(lambda _: True, mask))
    assert pickle.loads(pickle.dumps(opt)) == opt


@dataclasses.dataclass
class Falling:
    """Callable, and without a hash, because it has an `__eq__`."""

    value: float

    def __call__(self, x):
        return self.value / (1 + x) if jnp.ndim(x) == 0 else True


def test_a_callable_without_a_hash_counts_by_its_identity():
    falling = Falling(0.5)
    opt = pytreeopt.chain(pytreeopt.masked(pytreeopt.sgd(falling), falling), pytreeopt.scale(2.0))
    again = pytreeopt.chain(pytreeopt.masked(pytreeopt.sgd(falling), falling), pytreeopt.scale(2.0))
    other = pytreeopt.chain(pytreeopt.masked(pytreeopt.sgd(Falling(0.5)), falling), pytreeopt.scale(2.0))
    assert opt == again != other
    assert hash(opt) == hash(again)
    assert repr(falling) in repr(opt)
    state = opt.init(jnp.ones(2))
    updates, _ = jax.jit(lambda opt, state: opt.update(jnp.ones(2), state))(opt, state)
    np.testing.assert_array_equal(updates, [-1.0, -1.0])
    assert isinstance(pickle.loads(pickle.dumps(opt)), type(opt))


@dataclasses.dataclass
class Doubling:
    """An update without a hash, which takes no extra arguments."""

    factor: float = 2.0

    def __call__(self, updates, state, params=None):
        return self.factor * updates, state


def test_a_callable_without_a_hash_shows_its_own_parameters():
    pair = pytreeopt.GradientTransformation(lambda params: (), Doubling())
    updates, _ = pytreeopt.chain(pair).update(jnp.ones(2), ((),), value=1.0)
    np.testing.assert_array_equal(updates, [2.0, 2.0])


def test_a_callable_module_is_a_mask_tree_not_a_function():
    mask = Line(jnp.array(True))
    opt = pytreeopt.masked(pytreeopt.trace(0.9), mask)
    assert isinstance(opt.mask, StaticTree)
    params = Line(jnp.float32(2.0))
    assert jax.tree.leaves(opt.init(params)) == [0.0]


# Trees in the shape of an optimizer, holding anything


@pytest.mark.parametrize(
    "opt",
    [
        pytreeopt.adamw(pytreeopt.warmup_cosine_decay_schedule(0.0, 0.1, 2, 9), mask={"w": True, "b": False}),
        pytreeopt.chain(pytreeopt.clip_by_global_norm(1.0), pytreeopt.sgd(0.1, momentum=0.9)),
        pytreeopt.named_chain(("a", pytreeopt.scale(2.0)), ("z", pytreeopt.adafactor(0.1))),
    ],
    ids=["adamw", "chain", "named_chain"],
)
@pytest.mark.parametrize(
    "placeholder",
    [
        0,
        -1,
        None,
        "replicated",
        object(),
        jax.sharding.PartitionSpec(),
        jax.ShapeDtypeStruct((), jnp.float32),
        jax.sharding.SingleDeviceSharding(jax.devices()[0]),
        (0, 1),
    ],
    ids=lambda value: type(value).__name__ + str(value)[:3],
)
def test_trees_in_the_shape_of_an_optimizer_hold_anything(opt, placeholder):
    tree = jax.tree.map(lambda _: placeholder, opt)
    assert type(tree) is type(opt)
    if placeholder is not None:
        is_leaf = lambda x: x is placeholder or x == placeholder
        assert len(jax.tree.leaves(tree, is_leaf=is_leaf)) == len(jax.tree.leaves(opt))
    hash(tree)
    assert tree == copy.copy(tree)


def test_axes_of_vmap():
    opt = pytreeopt.adam(jnp.array([0.1, 0.2]))
    axes = jax.tree.map(lambda _: None, opt).replace(learning_rate=0)
    both = jax.vmap(train, in_axes=(axes,))(opt)
    one = train(pytreeopt.adam(0.2))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x[1], y, rtol=1e-5), both, one)


def test_a_length_may_be_batched():
    lengths = jnp.array([3, 7])
    values = jax.vmap(lambda length: pytreeopt.cosine_decay_schedule(1.0, length)(2))(lengths)
    expected = [optax.cosine_decay_schedule(1.0, int(length))(2) for length in lengths]
    np.testing.assert_allclose(values, expected, rtol=1e-6)


def test_sharding_and_shapes():
    opt = pytreeopt.adam(jnp.float32(0.1))
    mesh = jax.make_mesh((8,), ("population",))
    spec = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("population"))
    population = jax.device_put(jax.vmap(pytreeopt.adam)(jnp.linspace(0.1, 0.8, 8)), spec)
    trained = jax.jit(jax.vmap(train))(population)
    assert trained["w"].sharding.is_equivalent_to(spec, 3)
    shapes = jax.eval_shape(lambda o: o, opt)
    assert shapes.learning_rate.weak_type
    state = jax.eval_shape(lambda opt, params: opt.init(params), shapes, PARAMS)
    assert state[0].mu["w"].shape == (2, 3)


# Equality and hash


def test_equality_is_by_type_structure_and_bytes():
    adam = pytreeopt.adam
    assert adam(1e-3) == adam(1e-3)
    assert adam(1e-3) != adam(1e-2)
    assert adam(1e-3) != pytreeopt.nadam(1e-3)
    assert adam(0.0) != adam(-0.0)
    assert adam(float("nan")) == adam(float("nan"))
    assert hash(adam(float("nan"))) == hash(adam(float("nan")))
    assert adam(1.0) != adam(1)
    assert adam(jnp.float32(1)) == adam(jnp.float32(1))
    assert adam(jnp.float32(1)) != adam(1.0)
    assert hash(adam(jnp.float32(1))) == hash(adam(jnp.float32(2)))  # reads no device memory
    assert adam(1e-3) != "adam"
    assert pytreeopt.linear_schedule(1.0, 0.0, 3) == pytreeopt.linear_schedule(1.0, 0.0, 3)
    assert len({adam(1e-3), adam(1e-3), adam(1e-2)}) == 2


def test_equality_tolerates_tracers():
    def compare(rate):
        opt = pytreeopt.adam(rate)
        hash(opt)
        assert opt == opt.replace(b1=0.9)
        assert opt != pytreeopt.adam(0.1)
        return rate

    jax.jit(compare)(0.1)


def test_as_a_static_argument():
    traces = []
    compiled = jax.jit(lambda opt: traces.append(1) or train(opt), static_argnums=0)
    for opt in (pytreeopt.adam(1e-2), pytreeopt.adam(1e-2), pytreeopt.adamw(1e-2, mask={"w": True, "b": False})):
        compiled(opt)
    assert len(traces) == 2


# The pair protocol


def test_pair_protocol():
    opt = pytreeopt.adam(1e-3)
    init, update = opt
    assert (init, update) == (opt.init, opt.update) == opt[:2]
    assert (len(opt), opt[0], opt[-1]) == (2, init, update)
    assert opt + (1,) == (init, update, 1)  # noqa: RUF005
    assert (1,) + opt == (1, init, update)  # noqa: RUF005
    assert init in opt
    assert opt.index(update) == 1
    assert opt.count(init) == 1
    assert list(reversed(opt)) == [update, init]
    assert opt._asdict() == {"init": init, "update": update}
    assert not hasattr(opt, "_fields")
    replaced = opt._replace(init=len)
    assert type(replaced) is optax.GradientTransformationExtraArgs
    assert replaced.update == update
    with pytest.raises(TypeError):
        opt < opt  # noqa: B015
    with pytest.raises(TypeError):
        opt * 2
    assert type(optax.GradientTransformation(*opt)) is optax.GradientTransformation


def test_fields_are_frozen():
    opt = pytreeopt.adam(1e-3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        opt.b1 = 0.5
    assert dataclasses.replace(opt, b1=0.5).b1 == opt.replace(b1=0.5).b1 == 0.5


# Foreign pairs


def extra_taker(updates, state, params=None, *, value, **extra_args):
    return jax.tree.map(lambda u: u * value, updates), state


def one_extra(updates, state, params=None, value=1.0):
    return jax.tree.map(lambda u: u * value, updates), state


def plain(updates, state, params=None):
    return updates, state


def empty(params):
    return optax.EmptyState()


@pytest.mark.parametrize(
    "pair, factor",
    [
        (optax.GradientTransformationExtraArgs(empty, extra_taker), 3.0),
        (optax.GradientTransformationExtraArgs(empty, one_extra), 3.0),
        (optax.GradientTransformation(empty, one_extra), 1.0),  # Optax's plain type is given no extra arguments
        (optax.GradientTransformation(empty, plain), 1.0),
        (pytreeopt.GradientTransformation(empty, extra_taker), 3.0),
        (pytreeopt.GradientTransformation(empty, plain), 1.0),
        (optax.adam(1e-3), None),
        (optax.MultiSteps(optax.adam(1e-3), 2), None),
    ],
)
def test_foreign_pairs_are_coerced(pair, factor):
    opt = pytreeopt.chain(pytreeopt.identity(), pair)
    updates, _ = opt.update(PARAMS, opt.init(PARAMS), PARAMS, value=3.0)
    if factor is not None:
        np.testing.assert_array_equal(updates["w"], factor * PARAMS["w"])
    assert pytreeopt.with_extra_args_support(opt) is opt
    assert isinstance(opt.transforms[1], FunctionPair | IgnoreExtraArgs)
    assert pytreeopt.coerce(pair) == opt.transforms[1]


def test_both_types_of_upstream_are_one():
    assert pytreeopt.GradientTransformationExtraArgs is pytreeopt.GradientTransformation
    pair = pytreeopt.GradientTransformation(empty, plain)
    assert isinstance(pair, optax.GradientTransformation)
    assert isinstance(pair, optax.GradientTransformationExtraArgs)


def test_upstreams_chain_passes_extra_args_to_ours():
    pair = pytreeopt.coerce(optax.GradientTransformationExtraArgs(empty, extra_taker))
    opt = optax.chain(optax.identity(), pytreeopt.chain(pair))
    updates, _ = opt.update(PARAMS, opt.init(PARAMS), PARAMS, value=3.0)
    np.testing.assert_array_equal(updates["w"], 3 * PARAMS["w"])


def test_no_transformation():
    with pytest.raises(TypeError, match="expected a gradient transformation, got int"):
        pytreeopt.chain(3)


# Named holders, of, as_optax, as_arrays


def test_named_reads_like_the_mapping_given():
    named = Named.of({"z": 1.0, "a": 2.0})
    assert list(named) == ["z", "a"]
    assert dict(named) == {"z": 1.0, "a": 2.0} == named
    assert (named["a"], len(named), "q" in named) == (2.0, 2, False)
    with pytest.raises(KeyError):
        named["q"]
    doubled = jax.tree.map(lambda x: 2 * x, named)
    assert list(doubled.items()) == [("z", 2.0), ("a", 4.0)]
    assert [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(named)] == ["['z']", "['a']"]
    assert repr(named) == "{'z': 1.0, 'a': 2.0}"
    assert pickle.loads(pickle.dumps(named)) == copy.deepcopy(named) == named
    assert Named.of(named) is named


def test_of_copies_fields_and_names_what_is_missing():
    opt = pytreeopt.sgd(0.1, momentum=0.9, nesterov=True)
    assert pytreeopt.Trace.of(opt, decay=opt.momentum) == pytreeopt.trace(0.9, nesterov=True)
    with pytest.raises(TypeError, match=r"^Trace\.of: SGD has no field 'decay'; give it by keyword$"):
        pytreeopt.Trace.of(opt)


def test_as_optax_is_a_plain_pair_of_the_same_numbers():
    opt = pytreeopt.adamw(1e-2)
    pair = pytreeopt.as_optax(opt)
    assert type(pair) is optax.GradientTransformationExtraArgs
    jax.tree.map(np.testing.assert_array_equal, train(pair), train(opt))


def test_as_arrays_keeps_the_numbers_weak():
    opt = pytreeopt.as_arrays(pytreeopt.adam(pytreeopt.linear_schedule(0.1, 0.01, 5)))
    assert all(isinstance(leaf, jax.Array) and leaf.weak_type for leaf in jax.tree.leaves(opt))
    traces = []
    compiled = jax.jit(lambda opt: traces.append(1) or train(opt))
    compiled(pytreeopt.adam(pytreeopt.linear_schedule(0.1, 0.01, 5)))
    compiled(opt)
    assert len(traces) == 1


def test_a_class_may_have_an_init_of_its_own():
    """It is called whenever an object is made, by JAX too."""
    seen = []

    class Noted(pytreeopt.GradientTransformation):
        rate: float = 0.1

        def __init__(self, rate=0.1):
            seen.append(rate)
            vars(self)["rate"] = rate

        init = update = lambda self, *args: ()

    opt = jax.tree.map(lambda x: 2 * x, Noted(0.5))
    assert (opt.rate, seen) == (1.0, [0.5, 1.0])
