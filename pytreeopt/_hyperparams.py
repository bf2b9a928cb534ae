"""Hyperparameters by name: read them, evaluate their schedules, replace them."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from pytreeopt._counts import At, Reading
from pytreeopt._paths import Part, join, opened, put, resolve
from pytreeopt.base import AbstractHyperparameters, AbstractSchedule, GradientTransformation
from pytreeopt.errors import HyperparameterNameError, require_state
from pytreeopt.schedules.inject import InjectHyperparams, WrappedSchedule, is_number
from pytreeopt.schedules.scheduled import fields_for_schedules
from pytreeopt.states import InjectStatefulHyperparamsState

T = TypeVar("T")


def hyperparams(opt: Any, step: Any = None, *, integers: bool = False) -> OrderedDict[str, Any]:
    """The numbers that an optimizer is made of, by path, in the order of its fields.

    A path is made of field names, of positions in a tuple and of names in a mapping, as `"learning_rate"`; the
    members of a chain or partition stand without the name of the field that holds them, as `"1.b1"`,
    `"decoder.learning_rate"`. An optimizer such as `adamw` shows its own fields, not those of the chain it stands for.

    >>> import pytreeopt
    >>> opt = pytreeopt.chain(pytreeopt.clip(1.0), pytreeopt.sgd(pytreeopt.linear_schedule(0.5, 0.1, 4), 0.9))
    >>> dict(hyperparams(opt))
    {'0.max_delta': 1.0, '1.learning_rate.init_value': 0.5, '1.learning_rate.end_value': 0.1, '1.momentum': 0.9}
    >>> {path: float(value) for path, value in hyperparams(opt, step=2).items()}
    {'0.max_delta': 1.0, '1.learning_rate': 0.30000001192092896, '1.momentum': 0.9}

    The result is a pytree that keeps its order, and `replace(opt, hyperparams(opt))` is `opt`. So hypergradients are
    `jax.grad(lambda h: loss(replace(opt, h)))(hyperparams(opt))`.

    Args:
        opt: an optimizer, a transformation or a schedule of this package; a population too.
        step: None leaves schedules as they are, with numbers of their own. A number of updates evaluates them there.
            A state of `opt` evaluates each at the count that its next update will use, and gives what
            `inject_hyperparams` keeps in the state; where counts disagree: ValueError.
        integers: whether to give integers, keys and other numbers too, not only real floating ones.
    """
    if not isinstance(opt, AbstractHyperparameters):
        raise TypeError(
            f"hyperparams needs an optimizer or schedule of pytreeopt, got {type(opt).__name__}; {_cure(opt)}"
        )
    if step is not None and isinstance(opt, AbstractSchedule):
        raise TypeError(f"hyperparams: a schedule is evaluated by calling it, {type(opt).__name__}(...)(step)")
    clock = None if step is None else At(step) if _is_step(step) else Reading(step)
    found: OrderedDict[str, Any] = OrderedDict()
    _collect(opt, "", clock, found)
    wanted = _is_any_number if integers else _is_floating
    return OrderedDict((path, value) for path, value in found.items() if wanted(value))


def replace(opt: T, values: Mapping[str, Any] | None = None, /, **by_name: Any) -> T:
    """A copy with some hyperparameters changed, at any depth.

    >>> import pytreeopt
    >>> opt = pytreeopt.chain(pytreeopt.clip(1.0), pytreeopt.adam(1e-3))
    >>> replace(opt, learning_rate=3e-4, nesterov=True) == replace(opt, {"1.learning_rate": 3e-4, "1.nesterov": True})
    True

    Values may be traced, and may be anything that the field takes: a number, a schedule, another member of a chain,
    a static option (which is another program).

    Args:
        opt: an optimizer, a transformation or a schedule of this package; a population too.
        values: mapping from paths, see `hyperparams`, to values. The end of a path will do if no other ends so:
            `"learning_rate"` for `"1.learning_rate"`. An unknown name, or one that more than one path ends with, is an
            error that lists those it may mean, a TypeError and a KeyError.
        **by_name: the same, for names that are Python's.
    """
    if not isinstance(opt, AbstractHyperparameters):
        raise TypeError(f"replace needs an optimizer or schedule of pytreeopt, got {type(opt).__name__}; {_cure(opt)}")
    given = dict(values or {})
    for name, value in by_name.items():
        if name in given:
            raise HyperparameterNameError(f"replace: {name!r} is given twice")
        given[name] = value
    paths = resolve(opt, given, "replace")
    return put(opt, {paths[name]: value for name, value in given.items()})


def _cure(opt: Any) -> str:
    if isinstance(getattr(opt, "optimizer", None), AbstractHyperparameters):
        return "give its field optimizer"
    return "those of Optax keep their numbers in closures, see from_optax"


def _collect(node: Any, path: str, clock: At | Reading | None, found: OrderedDict[str, Any]) -> None:
    if isinstance(node, InjectHyperparams) and isinstance(clock, Reading):
        _collect_injected(node, path, clock, found)
        return
    here = opened(node)
    if here is None:
        found[path] = node
        return
    for part in here.parts:
        if part.is_static:
            continue
        below = join(path, part.name)
        if clock is not None and _is_schedule(node, part):
            schedule = part.value.schedule_fn if isinstance(part.value, WrappedSchedule) else part.value
            found[below] = schedule(clock.count_of(node, part.name))
        else:
            _collect(part.value, below, None if clock is None else clock.below(node, part), found)


def _collect_injected(node: InjectHyperparams, path: str, clock: Reading, found: OrderedDict[str, Any]) -> None:
    """The numbers are those of the state, in which they may have been changed; schedules have counts of their own."""
    state = require_state(clock.state, InjectStatefulHyperparamsState)
    schedules = node.schedules
    for name, value in node.arguments.items():
        below = join(path, name)
        if name in schedules:
            found[below] = schedules[name](state.hyperparams_states[name])
        elif is_number(value):
            found[below] = state.hyperparams[name]
        else:
            _collect(value, below, Reading(state.inner_state), found)


def _is_step(step: Any) -> bool:
    return isinstance(step, int | float | np.generic | np.ndarray | jax.Array)


def _is_schedule(node: Any, part: Part) -> bool:
    """Whether the part is evaluated at each step; a callable pytree from elsewhere is, where schedules are taken."""
    if isinstance(part.value, AbstractSchedule | WrappedSchedule):
        return True
    foreign = callable(part.value) and not isinstance(part.value, GradientTransformation)
    return foreign and isinstance(node, AbstractHyperparameters) and part.name in fields_for_schedules(type(node))


def _is_floating(x: Any) -> bool:
    return isinstance(x, float) or (hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating))


def _is_any_number(x: Any) -> bool:
    return isinstance(x, int | float | complex | np.generic | np.ndarray | jax.Array)
