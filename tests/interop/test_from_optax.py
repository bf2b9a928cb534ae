"""`from_optax`: closures taken apart into numbers and program."""

import copy
import dataclasses
import functools
import operator
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreeopt
from consumers import AS_ARGUMENT, OPTIMIZERS, PARAMS, Count, assert_same, loss, train
from laws import given
from parity.rows import ROWS
from pytreeopt import from_optax

pytestmark = pytest.mark.interop

DEFAULT = {name: row for name, row in ROWS.items() if row.default}


def step(tx, params=PARAMS):
    updates, state = tx.update(jax.grad(loss)(params), tx.init(params), params)
    return jax.tree.map(jnp.add, params, updates), state


def test_from_optax_trains_identically(pair):
    assert_same(train(from_optax(pair.theirs)), train(pair.theirs))
    assert_same(step(from_optax(pair.theirs)), step(pair.theirs))  # eagerly too


def test_from_optax_compiles_two_rates_once():
    count = Count(step)
    compiled = jax.jit(count)
    for rate in (0.1, 0.01, np.float32(0.02), jnp.float32(0.03)):
        tx = from_optax(optax.adamw(rate))
        assert_same(compiled(tx), train(optax.adamw(rate), steps=1), rtol=AS_ARGUMENT)
    assert count.traces == 1
    assert from_optax(optax.adamw(0.1)) == from_optax(optax.adamw(0.1)) != from_optax(optax.adamw(0.2))
    assert hash(from_optax(optax.adamw(0.1))) == hash(from_optax(optax.adamw(0.1)))
    compiled(from_optax(optax.adamw(0.1, nesterov=True)))
    assert count.traces == 2


def test_from_optax_names_numbers_by_their_variables():
    numbers = from_optax(optax.chain(optax.clip(1.0), optax.sgd(optax.linear_schedule(0.1, 0.0, 5), 0.9))).numbers
    ends = {path.rpartition(".")[2]: value for path, value in numbers.items()}
    assert ends == {"max_delta": 1.0, "decay": 0.9, "init_value": 0.1, "end_value": 0.0}  # the power is an integer
    leaves = jax.tree_util.tree_leaves_with_path(from_optax(optax.scale(0.5)))
    assert [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves] == [(".numbers['update.step_size']", 0.5)]


def test_from_optax_maps_and_differentiates():
    rates = jnp.asarray([0.1, 0.01])
    losses = jax.vmap(lambda tx: loss(step(tx)[0]))(jax.vmap(lambda rate: from_optax(optax.adam(rate)))(rates))
    np.testing.assert_allclose(losses, [loss(step(optax.adam(rate))[0]) for rate in (0.1, 0.01)], rtol=1e-5)
    gradient = jax.grad(lambda tx: loss(step(tx)[0]))(from_optax(optax.sgd(0.1)))
    (slope,) = gradient.numbers.values()
    direct = jax.grad(lambda rate: loss(step(optax.sgd(rate))[0]))(0.1)
    np.testing.assert_allclose(slope, -direct, rtol=1e-5)  # the number that is captured is the step size


@pytest.mark.parametrize("name", DEFAULT)
def test_two_builds_of_every_optimizer_of_optax_are_one_program(name):
    first, second = (from_optax(DEFAULT[name].build(optax)) for _ in range(2))
    assert jax.tree.structure(first) == jax.tree.structure(second)


@pytest.mark.full
@pytest.mark.parametrize("name", DEFAULT)
def test_every_optimizer_of_optax_trains_identically(name):
    row = DEFAULT[name]
    at, theirs = given(row), row.build(optax)
    gradient, extra = at.at(0, at.params)
    results = []
    for tx in (from_optax(theirs), optax.with_extra_args_support(theirs)):
        results.append(tx.update(gradient, tx.init(at.params), at.params, **extra))
    ours, upstream = (jax.tree.map(without_keys, result) for result in results)
    assert_same(ours, upstream)


def without_keys(x):
    return jax.random.key_data(x) if jnp.issubdtype(jnp.result_type(x), jax.dtypes.prng_key) else x


@dataclasses.dataclass
class Rates:
    first: float
    rest: tuple


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    rate: float


class Plain:
    def __init__(self, rate):
        self.rate = rate

    def __call__(self, count):
        return self.rate / (count + 1)

    @functools.cached_property
    def doubled(self):
        return 2 * self.rate

    def update(self, updates, state, params=None):
        return jax.tree.map(lambda g: -self.rate * self.doubled * g, updates), state


def init(params):
    return optax.EmptyState()


def by(scale):
    return optax.GradientTransformation(init, lambda u, s, p=None: (jax.tree.map(lambda g: -scale() * g, u), s))


def holding(value, get):
    return by(lambda: get(value))


def with_jvp(rate):
    f = jax.custom_jvp(lambda x: rate * x)
    f.defjvps(lambda tangent, y, x: rate * tangent)
    return f


CAPTURED = {
    "a nested function": lambda rate: (lambda: by(lambda: rate))(),
    "a partial": lambda rate: by(functools.partial(operator.mul, rate, 1.0)),
    "a partial by keyword": lambda rate: by(functools.partial(lambda *, rate: rate, rate=rate)),
    "jax.tree_util.Partial": lambda rate: by(jax.tree_util.Partial(lambda x: x, rate)),
    "a default": lambda rate: by(lambda rate=rate: rate),
    "a keyword-only default": lambda rate: by(lambda *, rate=rate: rate),
    "a list": lambda rate: holding([rate, None], lambda rates: rates[0]),
    "a dict": lambda rate: holding({"z": rate, "a": "text"}, lambda rates: rates[next(iter(rates))]),
    "a dataclass": lambda rate: holding(Rates(rate, (1, "a")), lambda rates: rates.first),
    "a dataclass with slots": lambda rate: holding(Slotted(rate), lambda rates: rates.rate),
    "an array": lambda rate: holding(np.array([rate, 1.0], np.float32), lambda rates: rates[0]),
    "a callable object": lambda rate: optax.sgd(Plain(rate)),
    "a bound method": lambda rate: optax.GradientTransformation(init, Plain(rate).update),
    "MultiSteps": lambda rate: optax.MultiSteps(optax.sgd(rate), 1),
    "inject_hyperparams": lambda rate: optax.inject_hyperparams(optax.sgd)(rate),
    "our optimizer in Optax's": lambda rate: optax.chain(pytreeopt.sgd(rate)),
    "Optax's optimizer in ours": lambda rate: pytreeopt.chain(optax.sgd(rate)),
    "a jvp": lambda rate: holding(with_jvp(rate), lambda f: f(1.0)),
}


@pytest.mark.parametrize("kind", CAPTURED)
def test_from_optax_opens(kind):
    build = CAPTURED[kind]
    first, second = from_optax(build(0.5)), from_optax(build(0.25))
    assert any(np.any(x != y) for x, y in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True))
    assert jax.tree.structure(first) == jax.tree.structure(second)
    exchanged = jax.tree.unflatten(jax.tree.structure(first), jax.tree.leaves(second))
    assert_same(step(exchanged), step(build(0.25)))
    assert_same(step(first), step(build(0.5)))


def test_from_optax_keeps_variables_shared_and_recursion_whole():
    def build(rate):
        def power(n):
            return rate if n == 0 else 0.5 * power(n - 1)

        return optax.GradientTransformation(
            lambda params: power(1), lambda u, s, p=None: (jax.tree.map(lambda g: -power(2) * g, u), s)
        )

    tx = from_optax(build(0.5))
    assert list(tx.numbers) == ["init.power.rate"]  # one variable, seen by both functions
    changed = tx.replace(numbers=tx.numbers.map(lambda rate: 2 * rate))
    assert_same(step(changed), step(build(1.0)))


def test_from_optax_reports_what_it_cannot_open():
    def build(rate):
        return by(jax.jit(lambda: rate))

    with pytest.warns(UserWarning, match=r"update\.scale \(PjitFunction\)"):
        tx = from_optax(build(0.5))
    assert jax.tree.leaves(tx) == []
    assert_same(step(tx), step(build(0.5)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_optax(by(jnp.tanh))  # compiled, but holds nothing


def test_from_optax_keeps_numbers_static_on_request():
    def build(rate, threshold):
        def update(updates, state, params=None):
            return jax.tree.map(lambda g: -rate * g if threshold > 0 else g, updates), state

        return optax.GradientTransformation(init, update)

    with pytest.raises(jax.errors.TracerBoolConversionError, match="threshold"):
        jax.jit(step)(from_optax(build(0.5, 1.0)))
    tx = from_optax(build(0.5, 1.0), static=["threshold"])
    assert list(tx.numbers) == ["update.rate"]
    assert_same(jax.jit(step)(tx), train(build(0.5, 1.0), steps=1), rtol=1e-6)
    assert tx != from_optax(build(0.5, 2.0), static=["threshold"])
    with pytest.raises(ValueError, match=r"no number is named treshold; there are update\.rate, update\.threshold"):
        from_optax(build(0.5, 1.0), static=["treshold"])


def test_from_optax_returns_ours_as_it_is():
    opt = OPTIMIZERS["chain with schedule"].ours
    assert from_optax(opt) == opt
    with pytest.raises(TypeError, match="expected a gradient transformation, got int"):
        from_optax(3)


def test_from_optax_passes_extra_arguments_as_optax_does():
    tx = from_optax(optax.polyak_sgd())
    assert_same(
        tx.update(PARAMS, tx.init(PARAMS), PARAMS, value=0.5),
        optax.polyak_sgd().update(PARAMS, optax.polyak_sgd().init(PARAMS), PARAMS, value=0.5),
    )
    plain = from_optax(optax.GradientTransformation(init, lambda updates, state, params=None: (updates, state)))
    plain.update(PARAMS, plain.init(PARAMS), PARAMS, value=0.5)


def test_from_optax_is_copied_and_printed():
    tx = from_optax(optax.scale(0.5))
    assert copy.deepcopy(tx) == tx
    assert repr(tx).startswith("OpenedPair(numbers={'update.step_size': 0.5}, program=<optax")
