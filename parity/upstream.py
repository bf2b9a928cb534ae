"""The Optax object that a pytreeopt object stands for, rebuilt from its fields, whatever the fields hold."""

import dataclasses
import functools
import inspect
from collections.abc import Iterator
from typing import Any

import optax

import pytreeopt
from pytreeopt.base import FunctionPair, FunctionSchedule, IgnoreExtraArgs
from pytreeopt.fields import Named, StaticTree
from pytreeopt.schedules.inject import FixedArgument
from pytreeopt.schedules.piecewise import BoundariesAndScales
from pytreeopt.transforms.monitor import Measure

NAMESPACES = (
    (pytreeopt, optax),
    (pytreeopt.contrib, optax.contrib),
    (pytreeopt.transforms, optax.transforms),
    (pytreeopt.schedules, optax.schedules),
    (pytreeopt.experimental.aggregating, optax.experimental.aggregating),
)


@functools.cache
def factories() -> dict[type, Any]:
    """Our class -> upstream's factory of the same lower-case name."""
    found: dict[type, Any] = {}
    for ours, theirs in NAMESPACES:
        for name, thing in vars(ours).items():
            factory = vars(theirs).get(name)  # no attribute access: deprecated names warn
            if inspect.isclass(thing) and dataclasses.is_dataclass(thing) and factory is not None:
                found.setdefault(thing, factory)
    # Classes that stand for another, whose name upstream's factory bears.
    ours, theirs = pytreeopt.experimental.aggregating, optax.experimental.aggregating
    found[ours.AggregatorProcess] = theirs.process
    found[ours.AverageIncrementallyAggregator] = theirs.average_incrementally_updates
    return found


def to_upstream(thing: Any) -> Any:
    """`thing` as upstream's, field by field; numbers, traced or not, stay as they are."""
    match thing:
        case pytreeopt.Chain():
            return optax.chain(*map(to_upstream, thing.transforms))
        case pytreeopt.NamedChain():
            return optax.named_chain(*((name, to_upstream(tx)) for name, tx in thing.transforms.items()))
        case pytreeopt.MultiSteps():
            return _multi_steps(thing)
        case pytreeopt.Lookahead():
            values = {f.name: to_upstream(getattr(thing, f.name)) for f in dataclasses.fields(thing)}
            return optax.lookahead(**values | {"sync_period": _Period(thing.sync_period)})
        case FunctionSchedule() | Measure():
            return thing.function
        case FunctionPair():
            return optax.GradientTransformationExtraArgs(thing.init, thing.update)
        case IgnoreExtraArgs():
            return optax.GradientTransformation(thing.inner.init, thing.inner.update)
        case StaticTree():
            return thing.tree
        case Named():
            return {name: to_upstream(value) for name, value in thing.items()}
        case FixedArgument():
            return to_upstream(thing.value)
        case pytreeopt.InjectHyperparams():
            return injected(thing)
        case BoundariesAndScales():
            return dict(thing)
        case tuple() if type(thing) is tuple:
            return tuple(map(to_upstream, thing))
    factory = factories().get(type(thing))
    if factory is None:
        return thing
    return factory(**{name: to_upstream(value) for name, value in _arguments(factory, thing)})


def _arguments(factory: Any, thing: Any) -> Iterator[tuple[str, Any]]:
    """A field that the factory does not know has been renamed in a later Optax: it stands at the same position."""
    names = list(inspect.signature(factory).parameters)
    for position, field in enumerate(dataclasses.fields(thing)):
        yield field.name if field.name in names else names[position], getattr(thing, field.name)


def _multi_steps(thing: pytreeopt.MultiSteps) -> optax.GradientTransformationExtraArgs:
    """Upstream's takes no traced number of mini-steps, but a function that returns one; its own object is no pair."""
    values = {f.name: to_upstream(getattr(thing, f.name)) for f in dataclasses.fields(thing)}
    k = values["every_k_schedule"]
    theirs = optax.MultiSteps(**values | {"every_k_schedule": k if callable(k) else lambda step: k})
    return optax.GradientTransformationExtraArgs(theirs.init, theirs.update)


def injected(thing: pytreeopt.InjectHyperparams) -> Any:
    """Upstream's injection of the same arguments; it must be told which of them are static."""
    factory = factories().get(thing.inner_factory, thing.inner_factory)
    fixed = [name for name, value in thing.arguments.items() if isinstance(value, FixedArgument)]
    inject = optax.inject_hyperparams(factory, fixed, thing.hyperparam_dtype)
    return inject(**{name: to_upstream(value) for name, value in thing.arguments.items()})


class _Period:
    """A number that says it is large enough: upstream's lookahead compares with 1 in Python, which a tracer refuses."""

    def __init__(self, value: Any):
        self.value = value

    def __lt__(self, other: Any) -> bool:
        return False

    def __sub__(self, other: Any) -> Any:
        return self.value - other

    def __rmod__(self, other: Any) -> Any:
        return other % self.value
