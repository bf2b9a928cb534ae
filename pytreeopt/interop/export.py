"""`jax.export`: exported functions that take an optimizer and its state as arguments."""

import contextlib
import dataclasses
import importlib
import json
import types
from typing import Any

import jax
import numpy as np
from jax import export

from pytreeopt import states
from pytreeopt._classes import concrete_classes
from pytreeopt.base import AbstractHyperparameters
from pytreeopt.contrib._dog import InitStep
from pytreeopt.fields import Named, StaticTree
from pytreeopt.schedules.scheduled import ScheduledState

_registered: set[type] = set()


def register(*classes: type[AbstractHyperparameters]) -> None:
    """Teaches `jax.export` to save functions whose arguments or results hold optimizers, schedules and their states.

    An exported training step takes its optimizer as an argument, so the learning rate can still be changed after
    loading. The static fields are saved as JSON: plain values, dtypes, masks, and functions by the name under which
    they can be imported. Both the program that saves and the one that loads call this; again does no harm. Load only
    what you trust, as the names are imported.

    Args:
        classes: the classes, your own say; without any, all that are defined.
    """
    for cls in classes or concrete_classes():
        _register(cls, [field.name for field in dataclasses.fields(cls) if not field.metadata.get("pytree_node", True)])  # type: ignore[arg-type]
    for cls in (Named, InitStep):
        _register(cls, None)
    for cls in (*vars(states).values(), ScheduledState):
        if isinstance(cls, type) and issubclass(cls, tuple) and cls not in _registered:
            _registered.add(cls)
            with contextlib.suppress(ValueError):  # another library may have registered Optax's states
                export.register_namedtuple_serialization(cls, serialized_name=_name(cls))


def _name(thing: Any) -> str:
    return f"{thing.__module__}:{thing.__qualname__}"


def _register(cls: type, static: list[str] | None) -> None:
    """`static` names the parts of JAX's auxiliary data, for errors; None where it is one value."""
    if cls in _registered:
        return
    _registered.add(cls)

    def serialize(aux: Any) -> bytes:
        names = [cls.__name__] if static is None else [f"{cls.__name__}.{name}" for name in static]
        parts = [aux] if static is None else aux
        return json.dumps([_encoded(part, name) for part, name in zip(parts, names, strict=True)]).encode()

    def deserialize(data: bytes) -> Any:
        parts = tuple(map(_decoded, json.loads(data)))
        return parts[0] if static is None else parts

    export.register_pytree_node_serialization(
        cls, serialized_name=_name(cls), serialize_auxdata=serialize, deserialize_auxdata=deserialize
    )


def _encoded(value: Any, owner: str) -> Any:
    """As JSON: plain values are themselves, all else is a dictionary with one key, the kind."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) in (tuple, list):
        return {type(value).__name__: [_encoded(part, owner) for part in value]}
    if type(value) is dict:
        return {"dict": [[_encoded(key, owner), _encoded(part, owner)] for key, part in value.items()]}
    if isinstance(value, StaticTree):
        return {"tree": _encoded(value.tree, owner)}
    if isinstance(value, np.dtype):
        return {"dtype": value.name}
    if isinstance(value, types.FunctionType | type) and _imported(_name(value)) is value:
        return {"name": _name(value)}
    raise TypeError(
        f"{owner} holds {value!r}, which cannot be exported; give plain values, or functions that can be imported"
    )


def _decoded(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    match kind:
        case "tuple":
            return tuple(map(_decoded, content))
        case "list":
            return list(map(_decoded, content))
        case "dict":
            return {_decoded(key): _decoded(part) for key, part in content}
        case "tree":
            return StaticTree.of(_decoded(content))
        case "dtype":
            return jax.numpy.dtype(content)
        case _:
            return _imported(content)


def _imported(name: str) -> Any:
    """What `module:qualified.name` stands for, or None."""
    module, _, path = name.partition(":")
    try:
        thing: Any = importlib.import_module(module)
        for part in path.split("."):
            thing = getattr(thing, part)
    except (ImportError, AttributeError):
        return None
    return thing
