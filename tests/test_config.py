"""Optimizers as plain data and back."""

import collections
import dataclasses
import doctest
import json
import math
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import yaml

import pytreeopt
import pytreeopt._config
import pytreeopt._registry
from laws import DEFAULT
from parity.rows import SCHEDULES
from pytreeopt import configurable, from_config, to_config
from pytreeopt._registry import own
from pytreeopt.base import AbstractHyperparameters, AbstractStateless, Numeric

# Default rows that hold a function of the test's own, and the field it is in.
FUNCTIONS = {
    "stateless": "f",
    "stateless_with_tree_map": "f",
    "monitor": "measures.norm.function",
    "conditionally_mask": "should_transform_fn",
    "conditionally_transform": "should_transform_fn",
    "snapshot": "measure",
    "measure_with_ema": "measure",
    "scale_by_muon": "weight_dimension_numbers",
    "process": "preprocessor.f",
}
BUILDS = {name: row.build for name, row in {**DEFAULT, **SCHEDULES}.items() if row.default}


def through_json(opt):
    return from_config(json.loads(json.dumps(to_config(opt), allow_nan=False)))


def through_yaml(opt):
    return from_config(yaml.safe_load(yaml.safe_dump(to_config(opt))))


def same(a, b):
    return a == b and hash(a) == hash(b) and jax.tree.structure(a) == jax.tree.structure(b)


@pytest.mark.parametrize("module", [pytreeopt._config, pytreeopt._registry], ids=lambda module: module.__name__)
def test_the_docstrings_run(module):
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("name", BUILDS)
def test_every_class_goes_through_json_and_yaml(name):
    opt = BUILDS[name](pytreeopt)
    if name in FUNCTIONS:
        with pytest.raises(TypeError, match=rf"^to_config: {FUNCTIONS[name]} is a function .* @configurable"):
            to_config(opt)
        return
    assert same(through_json(opt), opt)
    assert same(through_yaml(opt), opt)


def test_no_class_is_left_out():
    """Every class is in some default row or among the holders that rows are made of."""
    tried = {type(node).__name__ for build in BUILDS.values() for node in nodes(build(pytreeopt))}
    refused = {"FunctionPair", "FunctionSchedule", "IgnoreExtraArgs", "OpenedPair"}
    below = {"Scheduled", "ScaleByTree", "ScaleByShape"}
    records = {"GaLoreDimensionNumbers", "MuonDimensionNumbers"}
    assert set(own()) - tried == refused | below | records


def nodes(thing):
    if isinstance(thing, AbstractHyperparameters):
        yield thing
    for child in jax.tree.leaves(thing, is_leaf=lambda node: node is not thing):
        if child is not thing:
            yield from nodes(child)
    if isinstance(thing, pytreeopt.AbstractChain):
        yield from nodes(thing.chain)


RATES = jax.vmap(pytreeopt.adam)(jnp.array([0.25, 0.5]))


@pytest.mark.parametrize(
    "opt",
    [
        pytreeopt.adam(float("nan")),
        pytreeopt.clip(float("inf")),
        pytreeopt.clip(-float("inf")),
        pytreeopt.scale(-0.0),
        pytreeopt.scale(5e-324),
        pytreeopt.scale(2**70),
        pytreeopt.scale(0.5 + 1j),
        pytreeopt.scale(jnp.float32(0.1)),
        pytreeopt.scale(np.array([0.1, np.nan, np.inf])),
        pytreeopt.scale(jnp.array([[0.1, -np.inf], [np.nan, -0.0]], jnp.bfloat16)),
        pytreeopt.scale(jnp.zeros((0, 3), jnp.int8)),
        pytreeopt.scale(jnp.array([1 + 2j, 3e-8j])),
        pytreeopt.scale(np.array([True, False])),
        pytreeopt.scale(np.array([2**63], np.uint64)),
        RATES,
        pytreeopt.population.stack([pytreeopt.adam(0.25), pytreeopt.adam(0.5)]),
        pytreeopt.sgd(0.1, momentum=0.9, nesterov=True, accumulator_dtype=jnp.bfloat16),
        pytreeopt.add_noise(0.1, 0.5, jax.random.key(3)),
        pytreeopt.add_noise(0.1, 0.5, jax.random.split(jax.random.key(3, impl="rbg"), 2)),
        pytreeopt.adamw(1e-3, mask={"w": True, "b": False, "layers": [{"k": (True, None)}, []]}),
        pytreeopt.adamw(1e-3, mask={1: True, 0: False}),
        pytreeopt.adamw(1e-3, mask={"type": True, "w": False}),
        pytreeopt.adamw(1e-3, mask=collections.OrderedDict(z=True, a=False)),
        pytreeopt.partition({"z": pytreeopt.sgd(0.1), 1: pytreeopt.adam(0.1), None: pytreeopt.identity(),
                             ("a", 2): pytreeopt.identity()}, {"w": "z", "b": ("a", 1)}),
        pytreeopt.named_chain(("z", pytreeopt.clip(1.0)), ("a", pytreeopt.sgd(pytreeopt.linear_schedule(1.0, 0.0, 3)))),
        pytreeopt.contrib.galore(1e-3, weight_dimension_numbers=optax.contrib.GaLoreDimensionNumbers(0, 1)),
        pytreeopt.inject_hyperparams(pytreeopt.sgd)(pytreeopt.WrappedSchedule(pytreeopt.constant_schedule(0.5))),
        pytreeopt.scheduled(pytreeopt.adamw(1e-3, b1=pytreeopt.linear_schedule(0.8, 0.9, 3))),
        pytreeopt.inject_hyperparams(pytreeopt.adamw)(pytreeopt.linear_schedule(1.0, 0.0, 3), mask={"w": True}),
        pytreeopt.inject_hyperparams(pytreeopt.MultiSteps)(pytreeopt.adam(0.1), 2),
        pytreeopt.contrib.muon(1e-3, ns_coeffs=((1.0, 2.0, 3.0), (4.0, 5.0, 6.0))),
        pytreeopt.contrib.muon(1e-3, muon_weight_dimension_numbers={"w": optax.contrib.MuonDimensionNumbers(0, 1)}),
        pytreeopt.contrib.dog(init_step=("learning_rate", 0.5)),
        pytreeopt.piecewise_constant_schedule(1.0, {3: 0.1, 7: 0.5}),
        pytreeopt.scale_by_tree({"w": [0.5, jnp.ones(2)], "b": (1.0,)}),
        pytreeopt.contrib.schedule_free(pytreeopt.chain(pytreeopt.clip(1.0), pytreeopt.lion(0.1)), 0.1),
    ],
    ids=lambda opt: type(opt).__name__,
)  # fmt: skip
def test_all_kinds_of_values_come_back(opt):
    assert same(through_json(opt), opt)
    assert same(through_yaml(opt), opt)


def test_a_population_that_came_back_needs_no_compilation():
    traces = []
    f = jax.jit(lambda opt: traces.append(opt) or opt.learning_rate)
    f(RATES), f(through_json(RATES))
    assert len(traces) == 1


def test_data_is_plain():
    def check(x):
        assert type(x) in (dict, list, str, int, float, bool, type(None))
        if isinstance(x, dict):
            assert all(type(key) is str for key in x)
            [check(y) for y in x.values()]
        if isinstance(x, list):
            [check(y) for y in x]
        assert type(x) is not float or math.isfinite(x)

    check(to_config(pytreeopt.chain(RATES, pytreeopt.clip(float("inf")), pytreeopt.adamw(1e-3, mask={"w": [True]}))))


@configurable
def small(tree):
    return jax.tree.map(lambda x: x.ndim < 2, tree)


@configurable(name="test_decay")
def decay(step):
    return 0.5**step


@configurable
@final
class Halve(AbstractStateless):
    """Halves, or so.

    Args:
        factor: the factor.
        axes: of nothing.
    """

    factor: Numeric = 0.5
    axes: Any = pytreeopt.static(())

    def transform(self, updates, params):
        return jax.tree.map(lambda u: self.factor * u, updates)


@configurable
class Pair(NamedTuple):
    left: Any
    right: Any = 2


@configurable
@dataclasses.dataclass(frozen=True)
class Options:
    size: int = 3


@final
class Unknown(AbstractStateless):
    """Not registered."""

    def transform(self, updates, params):
        return updates


@pytest.mark.parametrize(
    "opt",
    [
        Halve(0.25),
        Halve(axes=(Pair(1), Options(4))),
        pytreeopt.chain(Halve(), pytreeopt.adamw(decay, mask=small)),
        pytreeopt.adamw(1e-3, mask=Pair(True, {"w": False})),
        pytreeopt.masked(Halve(), small),
        pytreeopt.inject_hyperparams(Halve)(0.25),
        pytreeopt.monitor({"small": small}),
    ],
    ids=lambda opt: type(opt).__name__,
)
def test_what_is_configurable_comes_back(opt):
    assert same(through_json(opt), opt)


def test_data_by_hand():
    text = """
    type: Chain
    transforms:
      - {type: ClipByGlobalNorm, max_norm: 1.0}
      - type: AdamW
        learning_rate: {type: CosineDecaySchedule, init_value: 0.01, decay_steps: 100}
        mu_dtype: bfloat16
        mask: {w: true, b: false}
    """
    expected = pytreeopt.chain(
        pytreeopt.clip_by_global_norm(1.0),
        pytreeopt.adamw(pytreeopt.cosine_decay_schedule(0.01, 100), mu_dtype="bfloat16", mask={"w": True, "b": False}),
    )
    assert from_config(yaml.safe_load(text)) == expected
    assert from_config({"type": "AdaBelief", "learning_rate": 1}) == pytreeopt.adabelief(1)
    assert from_config({"type": "Muon", "learning_rate": 0.1}) == pytreeopt.contrib.muon(0.1)


@pytest.mark.parametrize(
    "opt, message",
    [
        (pytreeopt.sgd(lambda step: 0.1), "learning_rate.function is a function .*lambda"),
        (pytreeopt.chain(pytreeopt.identity(), pytreeopt.adamw(1e-3, mask=lambda p: p)), r"1.mask is a function"),
        (pytreeopt.chain(optax.adam(1e-3)), r"0 is a pair of functions .* closures; build it from pytreeopt"),
        (pytreeopt.sgd(jax.tree_util.Partial(decay)), "learning_rate is a function"),
        (pytreeopt.chain(Unknown()), "0 is of the class Unknown, which is not registered; mark it @configurable"),
        (pytreeopt.inject_hyperparams(lambda rate: pytreeopt.sgd(rate))(0.1), "inner_factory is a function"),
        (pytreeopt.inject_hyperparams(Unknown)(), "inner_factory is the class Unknown"),
        (Halve(axes=frozenset([1])), "axes is a frozenset, which has no form"),
        (optax.adam(1e-3), "needs an optimizer or schedule of pytreeopt"),
    ],
)
def test_what_plain_data_cannot_hold_is_refused(opt, message):
    with pytest.raises(TypeError, match=message):
        to_config(opt)


def test_traced_values_are_refused():
    with pytest.raises(TypeError, match="to_config: learning_rate is traced"):
        jax.eval_shape(lambda rate: to_config(pytreeopt.adam(rate)) and rate, 0.1)


@pytest.mark.parametrize(
    "data, message",
    [
        ({"type": "Adamm"}, "nothing is called 'Adamm'; did you mean Adam"),
        ({"type": "os.system"}, "nothing is called 'os.system'"),
        ({"type": ["Adam"]}, "nothing is called"),
        ({"type": "Adam", "learning_rat": 1.0}, "Adam has no field 'learning_rat'; did you mean learning_rate"),
        ({"type": "Adam", "learning_rate": "1e-3"}, "learning_rate is the text '1e-3', a number is needed"),
        ({"type": "Adam"}, "learning_rate"),
        ({"type": "small"}, "'small' is a function; write"),
        ({"type": "Scale", "step_size": {"type": "class", "name": "small"}}, "'small', in step_size, is no class"),
        ({"type": "Scale", "step_size": object()}, "step_size is a object"),
        ({"learning_rate": 1.0}, 'the name of a class as its "type", got keys learning_rate'),
        ([], 'the name of a class as its "type", got list'),
        ({"type": "AbstractChain"}, "nothing is called 'AbstractChain'"),
    ],
)
def test_data_that_makes_no_sense_is_refused(data, message):
    with pytest.raises(TypeError, match=message):
        from_config(data)


def test_names_are_given_once():
    with pytest.raises(ValueError, match=r"'Adam' is the name of pytreeopt.optimizers.adam.Adam; give another"):
        configurable(name="Adam")(Halve)
    with pytest.raises(ValueError, match="'small' is the name of"):
        configurable(name="small")(decay)
    with pytest.raises(ValueError, match="'<lambda>' is no name"):
        configurable(lambda step: step)
    with pytest.raises(TypeError, match="neither a dataclass, a NamedTuple nor a function"):
        configurable(int)
    with pytest.raises(TypeError, match="a field called type"):
        configurable(dataclasses.make_dataclass("Typed", ["type"]))
    assert configurable(small) is small
