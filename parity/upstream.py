"""The Optax object that a pytreeopt object stands for, rebuilt from its fields, whatever the fields hold."""

import dataclasses
import functools
import inspect
from typing import Any

import optax

import pytreeopt
from pytreeopt.base import FunctionPair, FunctionSchedule, IgnoreExtraArgs
from pytreeopt.fields import Named, StaticTree

NAMESPACES = (
    (pytreeopt, optax),
    (pytreeopt.contrib, optax.contrib),
    (pytreeopt.transforms, optax.transforms),
    (pytreeopt.schedules, optax.schedules),
)


@functools.cache
def factories() -> dict[type, Any]:
    """Our class -> upstream's factory of the same lower-case name."""
    found: dict[type, Any] = {}
    for ours, theirs in NAMESPACES:
        for name, thing in vars(ours).items():
            factory = getattr(theirs, name, None)
            if inspect.isclass(thing) and dataclasses.is_dataclass(thing) and factory is not None:
                found.setdefault(thing, factory)
    return found


def to_upstream(thing: Any) -> Any:
    """`thing` as upstream's, field by field; numbers, traced or not, stay as they are."""
    match thing:
        case pytreeopt.Chain():
            return optax.chain(*map(to_upstream, thing.transforms))
        case pytreeopt.NamedChain():
            return optax.named_chain(*((name, to_upstream(tx)) for name, tx in thing.transforms.items()))
        case FunctionSchedule():
            return thing.function
        case FunctionPair():
            return optax.GradientTransformationExtraArgs(thing.init, thing.update)
        case IgnoreExtraArgs():
            return optax.GradientTransformation(thing.inner.init, thing.inner.update)
        case StaticTree():
            return thing.tree
        case Named():
            return {name: to_upstream(value) for name, value in thing.items()}
        case tuple() if type(thing) is tuple:
            return tuple(map(to_upstream, thing))
    factory = factories().get(type(thing))
    if factory is None:
        return thing
    return factory(**{f.name: to_upstream(getattr(thing, f.name)) for f in dataclasses.fields(thing)})
