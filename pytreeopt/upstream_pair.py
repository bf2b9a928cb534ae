"""What makes an optimizer also upstream's pair `(init, update)`.

Libraries and scripts ask `isinstance(tx, optax.GradientTransformation)`, unpack `init, update = tx`, and Optax's own
combinators drop the extra arguments of anything that is no `GradientTransformationExtraArgs`. So every optimizer is
an instance of that named tuple. The tuple's own slots hold nothing: each hook below replaces one way in which a
named tuple would expose them.
"""

import abc
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Self

import optax


class _Hidden:
    """Makes `hasattr(opt, "_fields")` false: flax.serialization, orbax and optax.tree take it for a named tuple."""

    def __get__(self, instance: Any, owner: Any = None):
        raise AttributeError("_fields")


class PairMeta(abc.ABCMeta):
    """Lets upstream's own objects pass `isinstance(tx, GradientTransformation)` for the one class that says so."""

    accepts_upstream_pairs = False

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return "accepts_upstream_pairs" in cls.__dict__ and isinstance(instance, optax.GradientTransformation)


def _rebuild(cls: type, values: dict[str, Any]) -> Any:
    return cls(**values)


_NOTHING = (None, None)


class UpstreamPair(optax.GradientTransformationExtraArgs, metaclass=PairMeta):
    """The pair protocol over the methods `init` and `update`."""

    init: Callable[..., Any]  # type: ignore[assignment]
    update: Callable[..., Any]  # type: ignore[assignment]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # JAX builds an object at each unflatten: this is all that it costs beside a plain dataclass.
        if cls.__abstractmethods__:  # type: ignore[attr-defined]
            cls = cls._instantiated()
        return tuple.__new__(cls, _NOTHING)

    @classmethod
    def _instantiated(cls) -> Any:
        """Refuses an abstract class, since abc does not stop the instantiation of a tuple subclass."""
        missing = ", ".join(sorted(cls.__abstractmethods__))  # type: ignore[attr-defined]
        raise TypeError(f"{cls.__name__} is abstract: it does not define {missing}; use a subclass that does")

    _fields = _Hidden()  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return iter((self.init, self.update))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: Any) -> Any:
        return (self.init, self.update)[index]

    def __contains__(self, item: Any) -> bool:
        return item in (self.init, self.update)

    def __reversed__(self) -> Iterator[Callable[..., Any]]:
        return iter((self.update, self.init))

    def __add__(self, other: Any) -> Any:
        return (self.init, self.update, *other)

    def __radd__(self, other: Any) -> Any:
        return (*other, self.init, self.update)

    def index(self, value: Any, *bounds: Any) -> int:
        return (self.init, self.update).index(value, *bounds)

    def count(self, value: Any) -> int:
        return (self.init, self.update).count(value)

    __mul__ = __rmul__ = None  # type: ignore[assignment]

    def _order(self, other: Any) -> Any:
        return NotImplemented

    __lt__ = __le__ = __gt__ = __ge__ = _order

    def _replace(self, **functions: Any) -> optax.GradientTransformationExtraArgs:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Upstream's tuple with one function exchanged; `replace` is for hyperparameters."""
        return optax.GradientTransformationExtraArgs(self.init, self.update)._replace(**functions)

    def _asdict(self) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return {"init": self.init, "update": self.update}

    def __getnewargs__(self) -> tuple[Any, ...]:
        return ()

    def __reduce__(self) -> Any:
        fields = dataclasses.fields(self)  # pyright: ignore[reportArgumentType]
        return _rebuild, (type(self), {field.name: getattr(self, field.name) for field in fields})
