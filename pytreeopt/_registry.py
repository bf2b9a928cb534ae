"""The classes and functions that plain data may name."""

import dataclasses
import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from pytreeopt._classes import concrete_classes
from pytreeopt.errors import HyperparameterNameError
from pytreeopt.states import GaLoreDimensionNumbers, MuonDimensionNumbers

T = TypeVar("T")

_registered: dict[str, Any] = {}


@overload
def configurable(thing: T, /) -> T: ...
@overload
def configurable(*, name: str) -> Callable[[T], T]: ...
def configurable(thing: Any = None, /, *, name: str | None = None) -> Any:
    """Lets `to_config` and `from_config` name a class or function of yours; a decorator.

    >>> import jax, pytreeopt
    >>> @configurable
    ... def matrices(params):
    ...     return jax.tree.map(lambda x: x.ndim == 2, params)
    >>> opt = pytreeopt.adamw(1e-3, mask=matrices)
    >>> pytreeopt.from_config(pytreeopt.to_config(opt)) == opt
    True

    Args:
        thing: a subclass of a class of this package, a dataclass, a NamedTuple, or a function. Its module must have
            been imported before data that names it is read.
        name: what data calls it, its own name by default. A name that something else bears: ValueError.
    """
    if thing is None:
        return lambda thing: _register(thing, name or thing.__name__)
    return _register(thing, thing.__name__)


def _register(thing: Any, name: str) -> Any:
    if not (is_record(thing) or (callable(thing) and not inspect.isclass(thing))):
        raise TypeError(f"configurable: {name} is neither a dataclass, a NamedTuple nor a function")
    if is_record(thing) and "type" in defaults(thing):
        raise TypeError(f"configurable: {name} has a field called type, the word that tells a class in plain data")
    if not name.isidentifier():
        raise ValueError(f"configurable: {name!r} is no name; give one, as in @configurable(name=...)")
    other = _registered.get(name, own().get(name))
    if other is not None and _origin(other) != _origin(thing):
        raise ValueError(f"configurable: {name!r} is the name of {'.'.join(_origin(other))}; give another, by name=...")
    _registered[name] = thing
    return thing


def _origin(thing: Any) -> tuple[str, str]:
    return thing.__module__, thing.__qualname__


@functools.cache
def own() -> dict[str, type]:
    """The classes of this package that can be made."""
    ours = (cls for cls in concrete_classes() if cls.__module__.startswith("pytreeopt."))
    public = (cls for cls in ours if not cls.__name__.startswith("_"))
    return {cls.__name__: cls for cls in (GaLoreDimensionNumbers, MuonDimensionNumbers, *public)}


def name_of(thing: Any) -> str | None:
    """What data calls a class or function; None if it must not be named."""
    for name, registered in _registered.items():
        if registered is thing:
            return name
    name = getattr(thing, "__name__", "")
    return name if own().get(name) is thing else None


def find(name: Any) -> Any:
    """The class or function that data calls so."""
    try:
        return _registered[name] if name in _registered else own()[name]
    except (KeyError, TypeError):
        near = difflib.get_close_matches(str(name), [*_registered, *own()], n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "mark a class or function of your own @configurable"
        raise HyperparameterNameError(f"from_config: nothing is called {name!r}; {hint}") from None


def is_record(cls: Any) -> bool:
    """Whether it is a class that is made of its fields, by keyword."""
    return inspect.isclass(cls) and (dataclasses.is_dataclass(cls) or is_named_tuple(cls))


def is_named_tuple(cls: Any) -> bool:
    return issubclass(cls, tuple) and not dataclasses.is_dataclass(cls) and hasattr(cls, "_fields")


def defaults(cls: Any) -> dict[str, Any]:
    """The fields of a record, with their defaults; `dataclasses.MISSING` where there is none."""
    if is_named_tuple(cls):
        return {name: cls._field_defaults.get(name, dataclasses.MISSING) for name in cls._fields}
    return {field.name: field.default for field in dataclasses.fields(cls) if field.init}
