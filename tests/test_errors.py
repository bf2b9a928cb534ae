"""Bad input: each error names the class, the field or argument, what it got, and the cure, in one line."""

import re

import jax
import jax.numpy as jnp
import pytest

import pytreeopt
from pytreeopt.errors import MissingParamsError, ParamsDtypeError, StructureError, WrongStateError

PARAMS = {"w": jnp.ones((2, 3)), "b": jnp.zeros(3)}
OTHER = {"w": jnp.ones((2, 3)), "c": jnp.zeros(3)}


def update(opt, state=None, params=PARAMS, updates=PARAMS):
    return opt.update(updates, opt.init(PARAMS) if state is None else state, params)


def with_a_bool():
    class WithABool(pytreeopt.AbstractStateless):
        flag: bool = False

        def transform(self, updates, params):
            return updates


def traced(build):
    return lambda: jax.jit(lambda x: build(x).init(PARAMS))(jnp.array(True))


ADAMW, SGD = pytreeopt.adamw(1e-3), pytreeopt.sgd(1e-3, momentum=0.9)
CASES = {
    "unknown keyword": (
        lambda: pytreeopt.adam(1e-3, beta1=0.9),
        TypeError,
        "Adam.__init__() got an unexpected keyword argument 'beta1'",
    ),
    "missing keyword": (lambda: pytreeopt.adam(), TypeError, "missing 1 required positional argument: 'learning_rate'"),
    "traced value in a static field": (
        traced(lambda flag: pytreeopt.sgd(0.1, nesterov=flag)),
        TypeError,
        "nesterov is static, part of the program, and must be a Python value; got a traced value",
    ),
    "array in a static field": (
        lambda: pytreeopt.sgd(0.1, nesterov=jnp.array(True)),
        TypeError,
        "nesterov is static, part of the program, and must be a Python value; got an array",
    ),
    "traced mask": (
        traced(lambda flag: pytreeopt.adamw(0.1, mask={"w": flag, "b": True})),
        TypeError,
        "mask is static, part of the program, and must hold Python values; got a traced value",
    ),
    "array as a mask's leaf": (
        lambda: pytreeopt.adamw(0.1, mask={"w": jnp.ones(3, bool), "b": True}),
        TypeError,
        "mask must hold one bool or label a leaf, got an array of shape (3,)",
    ),
    "dict in a static field": (
        lambda: pytreeopt.sgd(0.1, nesterov={}),
        TypeError,
        "nesterov is static and must be hashable, got dict",
    ),
    "no dtype": (
        lambda: pytreeopt.adam(0.1, mu_dtype="f33"),
        TypeError,
        "mu_dtype must be a dtype or None, got 'f33'",
    ),
    "params missing": (
        lambda: update(ADAMW, params=None),
        MissingParamsError,
        "AdamW.update: AddDecayedWeights needs params, got None; call update(grads, state, params)",
    ),
    "params missing, masked and nested": (
        lambda: update(pytreeopt.chain(pytreeopt.scale(1.0), pytreeopt.adamw(0.1, mask=True)), params=None),
        ValueError,
        "Chain.update: AdamW > AddDecayedWeights needs params, got None;",
    ),
    "params missing for a transformation alone": (
        lambda: update(pytreeopt.scale_by_param_block_rms(), params=None),
        TypeError,
        "ScaleByParamBlockRms.update needs params, got None;",
    ),
    "state of another optimizer": (
        lambda: update(SGD, pytreeopt.adam(0.1).init(PARAMS)),
        WrongStateError,
        "SGD.update: Trace needs the TraceState that its init returned, got ScaleByAdamState; pass the",
    ),
    "state of another chain length": (
        lambda: update(ADAMW, SGD.init(PARAMS)),
        ValueError,
        "AdamW.update has 3 members, got 2 states; pass the state that its init returned",
    ),
    "no state": (lambda: update(ADAMW, 0), AttributeError, "AdamW.update has 3 members, got int;"),
    "state without a name": (
        lambda: update(pytreeopt.named_chain(("a", SGD)), {"b": ()}),
        KeyError,
        "NamedChain.update finds no state for 'a' among ['b']; call init first",
    ),
    "empty chain": (lambda: pytreeopt.chain(), ValueError, "chain needs at least one transformation, got none"),
    "duplicate names": (
        lambda: pytreeopt.named_chain(("a", SGD), ("a", SGD)),
        ValueError,
        "named_chain needs distinct names, got ['a', 'a']",
    ),
    "zero decay_steps": (
        lambda: pytreeopt.cosine_decay_schedule(0.1, 0),
        ValueError,
        "CosineDecaySchedule: decay_steps must be positive, got 0",
    ),
    "negative decay_steps": (
        lambda: pytreeopt.cosine_decay_schedule(1, -5, alpha=0.0),
        ValueError,
        "CosineDecaySchedule: decay_steps must be positive, got -5",
    ),
    "decay shorter than warm-up": (
        lambda: pytreeopt.warmup_cosine_decay_schedule(0.0, 0.1, 10, 10),
        ValueError,
        "WarmupCosineDecaySchedule: decay_steps must be greater than warmup_steps, got 10 and 10",
    ),
    "zero decay_steps, seen at use": (
        lambda: pytreeopt.cosine_decay_schedule(1, 0, 0, 1)(0),
        ValueError,
        "decay_steps must be positive, got 0",
    ),
    "learning rate that is no number": (
        lambda: pytreeopt.adam("fast").init(PARAMS),
        TypeError,
        "Adam.init needs a number or a schedule as learning_rate, got str 'fast'",
    ),
    "learning rate that is a list": (
        lambda: pytreeopt.sgd([0.1]).init(PARAMS),
        TypeError,
        "SGD.init needs a number or a schedule as learning_rate, got tuple",
    ),
    "a number that is no number": (
        lambda: update(pytreeopt.adam(1e-3).replace(b1="0.9"), ADAMW.init(PARAMS)[:2]),
        TypeError,
        "Adam.update needs a number as b1, got str '0.9'",
    ),
    "schedule where Optax takes none": (
        lambda: pytreeopt.adam(1e-3, b1=pytreeopt.linear_schedule(0.8, 0.9, 10)).init(PARAMS),
        TypeError,
        "Adam.init cannot take a schedule as b1; give a number, or wrap the optimizer in scheduled(...)",
    ),
    "function where Optax takes no schedule": (
        lambda: pytreeopt.clip(lambda count: 1.0).init(PARAMS),
        TypeError,
        "Clip.init cannot take a schedule as max_delta;",
    ),
    "integer params": (
        lambda: pytreeopt.adam(1e-3).init({"w": jnp.arange(3)}),
        ParamsDtypeError,
        "Adam.init: ScaleByAdam needs floating or complex params, got int32 at ['w']; cast them, or leave them out",
    ),
    "integer params, factored": (
        lambda: pytreeopt.adafactor(1e-3).init(jnp.arange(3)),
        TypeError,
        "AdaFactor.init: ScaleByFactoredRms needs floating or complex params, got int32;",
    ),
    "updates and params of different structure": (
        lambda: update(ADAMW, params=OTHER),
        StructureError,
        "AdamW.update: AddDecayedWeights got trees of different structure (Dict key mismatch;",
    ),
    "updates and state of different structure": (
        lambda: update(SGD, updates=OTHER),
        ValueError,
        "SGD.update: Trace got trees of different structure (Dict key mismatch;",
    ),
    "mask of another structure": (
        lambda: pytreeopt.adamw(1e-3, mask={"w": True}).init(PARAMS),
        ValueError,
        "AdamW.init: AddDecayedWeights > Masked has a mask that is no prefix of the tree it masks (pytree structure",
    ),
    "a class where an optimizer is due": (
        lambda: pytreeopt.chain(pytreeopt.clip(1.0), pytreeopt.adam),
        TypeError,
        "expected a gradient transformation, got the class Adam; call it: Adam(...)",
    ),
    "a bool that is not static": (
        with_a_bool,
        TypeError,
        "WithABool.flag is a bool and so part of the program; declare it flag: bool = static(default)",
    ),
    "a bool that is text": (
        lambda: pytreeopt.sgd(0.1, 0.9, nesterov="no"),
        TypeError,
        "SGD: nesterov must be True or False, got 'no'",
    ),
    "a dtype that is none": (
        lambda: pytreeopt.adam(0.1, mu_dtype="floaty"),
        TypeError,
        "Adam: mu_dtype must be a dtype or None, got 'floaty'",
    ),
    "None for a number": (
        lambda: update(pytreeopt.adam(1e-3, b1=None)),
        TypeError,
        "Adam.init needs a number as b1, got NoneType 'None'",
    ),
    "text in a schedule": (
        lambda: pytreeopt.linear_schedule("0.1", 0.2, 3)(1),
        TypeError,
        "LinearSchedule needs a number as init_value, got str '0.1'",
    ),
    "a schedule in a schedule": (
        lambda: update(pytreeopt.adam(pytreeopt.linear_schedule(pytreeopt.constant_schedule(0.1), 0.2, 3))),
        TypeError,
        "LinearSchedule cannot take a schedule as init_value",
    ),
    "an update that is missing": (
        lambda: update(ADAMW, updates={**PARAMS, "w": None}),
        ValueError,
        "AdamW.update: ScaleByAdam got None where state or params have an array, which would be lost; give zeros,",
    ),
    "a field of a member": (
        lambda: pytreeopt.chain(ADAMW).replace(learning_rate=0.1),
        TypeError,
        "Chain.replace: no field 'learning_rate'; pytreeopt.replace finds names at any depth",
    ),
    "abstract": (lambda: pytreeopt.AbstractChain(), TypeError, "AbstractChain is abstract: it does not define chain;"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_message(case):
    call, error, message = case
    with pytest.raises(error, match=re.escape(message)) as info:
        call()
    assert "\n" not in str(info.value).strip()


def test_errors_are_the_same_inside_jit():
    with pytest.raises(ValueError, match=r"^AdamW\.update: AddDecayedWeights needs params"):
        jax.jit(lambda opt, state: opt.update(PARAMS, state))(ADAMW, ADAMW.init(PARAMS))


def test_a_failed_update_leaves_no_trace_of_it_in_the_next_error():
    """The names on an error belong to the call that failed."""
    for _ in range(2):
        with pytest.raises(MissingParamsError) as info:
            update(ADAMW, params=None)
        assert str(info.value).count("AdamW") == 1


def test_an_error_of_jax_has_a_note_on_where_and_on_the_population_that_was_not_mapped():
    population = pytreeopt.adam(jnp.array([0.1, 0.2, 0.3, 0.4]))
    with pytest.raises((TypeError, ValueError)) as info:
        population.update(PARAMS, population.init(PARAMS))
    (note,) = [note for note in info.value.__notes__ if note.startswith("In ")]
    where = "In ScaleByLearningRate.update, whose learning_rate has shape (4,)"
    assert note == f"{where}: a population is trained by jax.vmap over it."
