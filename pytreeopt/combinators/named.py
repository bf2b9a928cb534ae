"""Transformations by name."""

from collections.abc import Mapping
from typing import Any

from pytreeopt.base import as_dynamic
from pytreeopt.fields import Named


def named_children(value: Any) -> Any:
    """A mapping as a `Named` of transformations of ours; anything else, a placeholder of JAX, is left alone."""
    if not isinstance(value, Mapping):
        return value
    return Named.of(value).map(lambda child: as_dynamic("", child))
