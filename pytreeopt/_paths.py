"""Paths to the parts of an optimizer, as a reader writes them: `1.learning_rate`, `decoder.b1`, `betas.0`."""

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax

from pytreeopt.base import AbstractHyperparameters
from pytreeopt.errors import HyperparameterNameError
from pytreeopt.schedules.inject import FixedArgument, fix

# The members of a combinator stand in a path without the name of the field that holds them.
UNNAMED = ("transforms", "arguments")
LISTED = 12  # how many paths an error lists


class Part(NamedTuple):
    """What stands below a node under a name; the name is empty for a field that is left out of paths."""

    name: str
    value: Any
    is_static: bool = False


class Opened(NamedTuple):
    """A node's parts, and what puts it together again from new values of them."""

    parts: tuple[Part, ...]
    close: Callable[[Sequence[Any]], Any]


def opened(node: Any) -> Opened | None:
    """The parts of a node, static ones included; None for a leaf."""
    if isinstance(node, AbstractHyperparameters):
        return _opened_fields(node)
    if jax.tree_util.all_leaves([node]):
        return None
    children, treedef = jax.tree_util.tree_flatten_with_path(node, is_leaf=lambda x: x is not node)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in children]
    if len(set(names)) < len(names):  # labels such as 1 and "1"
        names = [repr(getattr(path[-1], "key", path[-1])) for path, _ in children]
    values = [value for _, value in children]
    parts = tuple(
        Part(name, value, isinstance(value, FixedArgument)) for name, value in zip(names, values, strict=True)
    )
    return Opened(parts, treedef.unflatten)


def _opened_fields(node: AbstractHyperparameters) -> Opened:
    names = [field.name for field in dataclasses.fields(node)]  # type: ignore[arg-type]
    parts = tuple(Part(in_path(name), vars(node)[name], name not in node._dynamic_fields) for name in names)

    def close(values: Sequence[Any]) -> Any:
        old = vars(node)
        return node.replace(**{name: x for name, x in zip(names, values, strict=True) if x is not old[name]})

    return Opened(parts, close)


def in_path(field: str) -> str:
    """What a field is called in a path."""
    return "" if field in UNNAMED else field


def join(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name


def entries(node: Any, path: str = "") -> Iterator[tuple[str, Part]]:
    """Path and part for everything below `node` that has a name, inner nodes and static fields included."""
    here = opened(node)
    for part in here.parts if here else ():
        below = join(path, part.name)
        if part.name:
            yield below, part
        if not part.is_static:
            yield from entries(part.value, below)


def leaf_paths(opt: Any) -> list[str]:
    """The path of each leaf, in the order of `jax.tree.leaves`."""
    here = opened(opt)
    if here is None:
        return [""]
    return [join(name, path) for name, value, is_static in here.parts if not is_static for path in leaf_paths(value)]


def resolve(opt: Any, names: Iterable[str], caller: str) -> dict[str, str]:
    """The path that each name means: a path, or the end of exactly one. Keeps the order of the names."""
    known = [path for path, _ in entries(opt)]
    found: dict[str, str] = {}
    for name in names:
        path = _resolve_one(name, known, type(opt).__name__, caller)
        for other_name, other in found.items():
            if path == other or path.startswith(f"{other}.") or other.startswith(f"{path}."):
                raise HyperparameterNameError(f"{caller}: {other_name!r} and {name!r} both say what {path} is")
        found[name] = path
    return found


def _resolve_one(name: str, known: list[str], owner: str, caller: str) -> str:
    if name in known:
        return name
    matches = [path for path in known if path.endswith(f".{name}")]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise HyperparameterNameError(
            f"{caller}: {owner} has more than one {name!r}: {_listed(matches)}; give a path, as in "
            f"{{{matches[0]!r}: ...}}"
        )
    ends = [path.rpartition(".")[2] for path in known]
    unique = [end for end in ends if ends.count(end) == 1 and not end.isdigit()]
    near = difflib.get_close_matches(name, [*known, *unique], n=3)
    hint = f"did you mean {' or '.join(dict.fromkeys(near))}?" if near else f"it has {_listed(known) or 'none'}"
    raise HyperparameterNameError(f"{caller}: {owner} has no hyperparameter {name!r}; {hint}")


def _listed(paths: list[str]) -> str:
    return ", ".join(paths[:LISTED]) + (", ..." if len(paths) > LISTED else "")


def put(node: Any, values: Mapping[str, Any], path: str = "") -> Any:
    """`node` with the values at these paths; what does not change stays the same object."""
    here = opened(node)
    if here is None:
        return node
    new = [_changed(part, values, join(path, part.name)) for part in here.parts]
    if all(x is part.value for x, part in zip(new, here.parts, strict=True)):
        return node
    return here.close(new)


def _changed(part: Part, values: Mapping[str, Any], path: str) -> Any:
    if part.name and path in values:
        value = values[path]
        return fix(part.name, value) if isinstance(part.value, FixedArgument) else value
    return part.value if part.is_static else put(part.value, values, path)
