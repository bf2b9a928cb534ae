"""Which of upstream's names, and which parameters with a value other than the default, the rows exercise."""

import functools
import inspect
import types
from collections.abc import Iterable
from typing import Any

import numpy as np
import optax

from parity.upstream import NAMESPACES

COMPARED = (int, float, str, tuple)


@functools.cache
def entries() -> dict[str, Any]:
    """Path -> upstream's public factory, of each that has a counterpart here; an alias counts as what it names."""
    found: dict[str, Any] = {}
    for ours, theirs in NAMESPACES:
        prefix = theirs.__name__.replace("._", ".").partition(".")[2]
        for name, thing in vars(ours).items():
            factory = vars(theirs).get(name, thing)
            alias = hasattr(factory, "__name__") and hasattr(theirs, factory.__name__) and factory.__name__ != name
            if name[0] != "_" and factory is not thing and of_upstream(factory) and not alias:
                found.setdefault(f"{prefix}.{name}" if prefix else name, factory)
    names: dict[int, str] = {}
    for path, factory in found.items():
        names.setdefault(id(factory), path)
    return {path: found[path] for path in names.values()}


def of_upstream(thing: Any) -> bool:
    """Whether Optax defines it; a `partial` bears the name of no module."""
    module = getattr(getattr(thing, "func", thing), "__module__", None) or ""
    return module.partition(".")[0] == "optax"


def wanted() -> set[str]:
    """Every path, and `path.parameter`."""
    return {
        item
        for path, factory in entries().items()
        for item in (path, *(f"{path}.{name}" for name in inspect.signature(factory).parameters))
    }


class Recorder:
    """Upstream's namespace; it notes in `seen` what is called, and the arguments that are not the defaults."""

    def __init__(self, namespace: Any, seen: set[str]):
        self._namespace, self._seen = namespace, seen

    def __getattr__(self, name: str) -> Any:
        thing = getattr(self._namespace, name)
        if isinstance(thing, types.ModuleType):
            return Recorder(thing, self._seen)
        path = next((path for path, factory in entries().items() if factory is thing), None)
        return thing if path is None else self._noting(path, thing)

    def _noting(self, path: str, factory: Any) -> Any:
        signature = inspect.signature(factory)

        @functools.wraps(factory)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._seen.add(path)
            for name, value in signature.bind(*args, **kwargs).arguments.items():
                if not same(name, value, signature.parameters[name].default):
                    self._seen.add(f"{path}.{name}")
            return factory(*args, **kwargs)

        return call


def same(name: str, value: Any, default: Any) -> bool:
    """Whether an argument is the default in another spelling."""
    if default is inspect.Parameter.empty:
        return False
    if "dtype" in name and None not in (value, default):
        return np.dtype(value) == np.dtype(default)
    return value is default or (type(value) in COMPARED and type(default) in COMPARED and value == default)


def exercised(rows: Iterable[Any]) -> set[str]:
    """What building these rows calls, in the form of `wanted`."""
    seen: set[str] = set()
    for row in rows:
        row.build(Recorder(optax, seen))
    return seen
