"""The classes that plain data may name and that other libraries want to be told of."""

import importlib

from pytreeopt.base import AbstractHyperparameters


def concrete_classes() -> tuple[type[AbstractHyperparameters], ...]:
    """Every transformation and schedule that is defined, those of users too, and can have objects."""
    importlib.import_module("pytreeopt.contrib")
    importlib.import_module("pytreeopt.experimental.aggregating")
    found: dict[type[AbstractHyperparameters], None] = {}
    todo = [AbstractHyperparameters]
    while todo:
        for cls in todo.pop().__subclasses__():
            if cls not in found:
                found[cls] = None
                todo.append(cls)
    return tuple(cls for cls in found if not cls.__abstractmethods__)  # type: ignore[attr-defined]
