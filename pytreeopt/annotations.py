"""What the annotations of fields say: which fields hold numbers, and what else those may hold."""

import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple


class NumberFields(NamedTuple):
    """Names of the dynamic fields that hold a number."""

    numbers: tuple[str, ...]  # and no schedule
    schedulable: tuple[str, ...]  # or a schedule
    optional: frozenset[str]  # or None


class OnFirstUse:
    """The `NumberFields` of a class, which it then keeps: all annotations together would lengthen the import."""

    def __get__(self, instance: Any, owner: Any) -> NumberFields:
        owner._number_fields = found = _number_fields(owner)
        return found


def _number_fields(cls: Any) -> NumberFields:
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError:  # a class whose annotations cannot be resolved here is not checked
        return NumberFields((), (), frozenset())
    kinds = {name: set(_alternatives(hints[name])) for name in cls._dynamic_fields}
    kinds = {name: kind for name, kind in kinds.items() if float in kind}
    schedulable = tuple(name for name, kind in kinds.items() if any(map(_is_schedule, kind)))
    numbers = tuple(name for name in kinds if name not in schedulable)
    return NumberFields(numbers, schedulable, frozenset(name for name, kind in kinds.items() if type(None) in kind))


def _alternatives(hint: Any) -> Iterator[Any]:
    """The types of which a field holds one, `AbstractSchedule` among them where it may be a schedule."""
    if typing.get_origin(hint) is Annotated:
        yield from hint.__metadata__
        hint = hint.__origin__
    parts = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else ()
    for part in parts:
        yield from _alternatives(part)
    if not parts:
        yield hint


def _is_schedule(kind: Any) -> bool:
    return getattr(kind, "evaluated_at_steps", False)
