"""Taking apart what functions have captured: numbers on one side, everything else on the other.

What is found becomes a graph of nodes, since functions share variables and may refer to each other. A node says how to
put a value together again from its parts; two graphs are equal when they come from the same source and hold equal
values in all that is no number.
"""

import dataclasses
import enum
import functools
import inspect
import pathlib
import re
import types
from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pytreeopt import equality
from pytreeopt.base import AbstractHyperparameters, IgnoreExtraArgs

# What holds no number that could be exchanged.
_ATOMS = (
    types.NoneType | bool | int | complex | str | bytes | type | types.ModuleType | types.BuiltinFunctionType
    | types.MethodDescriptorType | types.WrapperDescriptorType | types.EllipsisType | types.CodeType
    | types.GenericAlias | types.UnionType | np.generic | np.dtype | np.ufunc | enum.Enum | range | slice
    | re.Pattern | pathlib.PurePath | inspect.Signature | jax.tree_util.PyTreeDef | jax.sharding.Sharding
    | jax.sharding.Mesh | jax.Device
)  # fmt: skip


def _is_number(value: Any) -> bool:
    if isinstance(value, jax.Array | np.ndarray):
        return jnp.issubdtype(value.dtype, jnp.number) or jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    return type(value) is float or isinstance(value, np.floating)


def _is_atom(value: Any) -> bool:
    if isinstance(value, set | frozenset):
        return all(map(_is_atom, value))
    return isinstance(value, _ATOMS)


def _is_local(function: types.FunctionType) -> bool:
    """Whether it was made by a call of another function, and so may be made again with other numbers."""
    return bool(function.__closure__) or "<locals>" in function.__code__.co_qualname


class _Fixed:
    """A value that is part of the program. Equal by value where it can be, else by identity."""

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return equality.equal(self.value, other.value) if isinstance(other, _Fixed) else NotImplemented

    def __hash__(self) -> int:
        return equality.hash_value(self.value)


class _Code:
    """A Python function without what it has captured. Equal when made by the same lines of source."""

    def __init__(self, function: types.FunctionType):
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        self.hollow = _function(function, (), {}, cells)
        self.defaults, self.keywords = len(function.__defaults__ or ()), tuple(function.__kwdefaults__ or ())

    def _identity(self) -> tuple[Any, ...]:
        # The globals too: they decide what the names in the code mean.
        return self.hollow.__code__, id(self.hollow.__globals__), self.defaults, self.keywords

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, _Code) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity())

    def filled(self, parts: Sequence[Any]) -> types.FunctionType:
        defaults, rest = parts[: self.defaults], parts[self.defaults :]
        keywords = dict(zip(self.keywords, rest, strict=False))
        return _function(self.hollow, tuple(defaults), keywords, tuple(rest[len(keywords) :]))


def _function(like: types.FunctionType, defaults: tuple, keywords: dict, cells: tuple) -> types.FunctionType:
    made = types.FunctionType(like.__code__, like.__globals__, like.__name__, defaults or None, cells or None)
    made.__kwdefaults__ = keywords or None
    for name in functools.WRAPPER_ASSIGNMENTS:
        if hasattr(like, name):
            setattr(made, name, getattr(like, name))
    vars(made).update(vars(like))
    return made


class _Kind(enum.Enum):
    NUMBER = enum.auto()  # how: the position among the numbers
    FIXED = enum.auto()  # how: the value
    CELL = enum.auto()  # a captured variable; functions may share it
    INSTANCE = enum.auto()  # how: the class and the names of the attributes
    WHOLE = enum.auto()  # how: a function of the parts, and what it needs besides


@dataclasses.dataclass
class _Node:
    kind: _Kind
    how: Any
    parts: tuple[int, ...] = ()
    # The value as it was found, for a node below which there is no number.
    found: Any = dataclasses.field(default=None, compare=False)
    holds_numbers: bool = dataclasses.field(default=True, compare=False)

    def __hash__(self) -> int:
        return hash((self.kind, self.how, self.parts))


def _of_treedef(treedef: Any, parts: Sequence[Any]) -> Any:
    return jax.tree.unflatten(treedef, parts)


def _of_keys(keys: tuple[_Fixed, ...], parts: Sequence[Any]) -> dict:
    return dict(zip((key.value for key in keys), parts, strict=True))


def _of_code(code: _Code, parts: Sequence[Any]) -> types.FunctionType:
    return code.filled(parts)


def _of_method(how: None, parts: Sequence[Any]) -> types.MethodType:
    return types.MethodType(*parts)


def _of_partial(how: tuple[type, tuple[str, ...]], parts: Sequence[Any]) -> functools.partial:
    cls, names = how
    positional, keywords = parts[: len(parts) - len(names)], parts[len(parts) - len(names) :]
    return cls(*positional, **dict(zip(names, keywords, strict=True)))


def _of_fields(how: tuple[type, tuple[str, ...]], parts: Sequence[Any]) -> Any:
    cls, names = how
    return cls(**dict(zip(names, parts, strict=True)))


class _Opener:
    """Walks through a value; collects the nodes, the numbers with their paths, and what could not be opened."""

    def __init__(self, static: Collection[str]):
        self.static = static
        self.nodes: list[_Node] = []
        self.numbers: dict[str, Any] = {}
        self.kept: set[str] = set()
        self.unopened: list[str] = []
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []  # an id belongs to its object as long as that lives

    def open(self, value: Any, path: str) -> int:
        if id(value) in self._seen:
            return self._seen[id(value)]
        position = len(self.nodes)
        self.nodes.append(_Node(_Kind.FIXED, None))
        if not isinstance(value, float):  # equal numbers may be one object, and yet two hyperparameters
            self._seen[id(value)] = position
            self._alive.append(value)
        node = self._node(value, path)
        node.found = value
        self.nodes[position] = node
        return position

    def _node(self, value: Any, path: str) -> _Node:
        if _is_number(value):
            return self._number(value, path.removeprefix("."))
        if _is_atom(value) or isinstance(value, jax.Array | np.ndarray):
            return _Node(_Kind.FIXED, _Fixed(value))
        if isinstance(value, types.CellType):
            return self._cell(value, path)
        if isinstance(value, types.FunctionType):
            return self._function(value, path) if _is_local(value) else _Node(_Kind.FIXED, _Fixed(value))
        if isinstance(value, types.MethodType):
            return self._whole(_of_method, None, [(value.__func__, path), (value.__self__, path)])
        if isinstance(value, functools.partial):
            arguments = [(x, f"{path}[{i}]") for i, x in enumerate(value.args)]
            keywords = [(x, f"{path}.{name}") for name, x in value.keywords.items()]
            how = (type(value), tuple(value.keywords))
            return self._whole(_of_partial, how, [(value.func, path), *arguments, *keywords])
        if type(value) is dict:  # JAX would sort the keys
            parts = [(x, f"{path}[{key!r}]") for key, x in value.items()]
            return self._whole(_of_keys, tuple(map(_Fixed, value)), parts)
        if isinstance(value, IgnoreExtraArgs):  # a wrapper of ours around a foreign pair, of no interest in a path
            parts = [(value.inner, path), (value.accepted, path)]
            return self._whole(_of_fields, (IgnoreExtraArgs, ("inner", "accepted")), parts)
        if isinstance(value, AbstractHyperparameters):
            names = tuple(field.name for field in dataclasses.fields(value))  # type: ignore[arg-type]
            parts = [(getattr(value, name), f"{path}.{name}") for name in names]
            return self._whole(_of_fields, (type(value), names), parts)
        if not dataclasses.is_dataclass(value) and not jax.tree_util.all_leaves([value]):
            children, treedef = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda x: x is not value)
            parts = [(child, path + jax.tree_util.keystr(keys)) for keys, child in children]
            return self._whole(_of_treedef, treedef, parts)
        return self._instance(value, path)

    def _number(self, value: Any, path: str) -> _Node:
        kept = [name for name in self.static if path == name or path.endswith(f".{name}")]
        if kept:
            self.kept.update(kept)
            return _Node(_Kind.FIXED, _Fixed(value))
        name, count = path, 1
        while name in self.numbers:  # two variables of one name, in nested functions
            count += 1
            name = f"{path} ({count})"
        self.numbers[name] = value
        return _Node(_Kind.NUMBER, len(self.numbers) - 1)

    def _cell(self, cell: types.CellType, path: str) -> _Node:
        try:
            content = cell.cell_contents
        except ValueError:  # not assigned yet
            return _Node(_Kind.CELL, None)
        return _Node(_Kind.CELL, None, (self.open(content, path),))

    def _function(self, function: types.FunctionType, path: str) -> _Node:
        code = _Code(function)
        arguments = function.__code__.co_varnames[: function.__code__.co_argcount]
        defaults = function.__defaults__ or ()
        named = zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True)
        parts = [(x, f"{path}.{name}") for name, x in (*named, *(function.__kwdefaults__ or {}).items())]
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        return self._whole(_of_code, code, [*parts, *((cell, f"{path}.{name}") for name, cell in cells)])

    def _whole(self, make: Callable[[Any, Sequence[Any]], Any], how: Any, parts: list[tuple[Any, str]]) -> _Node:
        return _Node(_Kind.WHOLE, (make, how), tuple(self.open(part, path) for part, path in parts))

    def _instance(self, value: Any, path: str) -> _Node:
        cls = type(value)
        try:
            if cls.__new__ is not object.__new__:
                raise TypeError
            state: Any = object.__getstate__(value)  # a dict of attributes, one of slots, both or None
        except TypeError:
            return self._closed(value, path)
        whole, slots = state if isinstance(state, tuple) else (state, None)
        attributes = {**(whole or {}), **(slots or {})}
        names = tuple(
            name for name in attributes if not isinstance(getattr(cls, name, None), functools.cached_property)
        )
        parts = tuple(self.open(attributes[name], f"{path}.{name}") for name in names)
        return _Node(_Kind.INSTANCE, (cls, names), parts)

    def _closed(self, value: Any, path: str) -> _Node:
        """What cannot be put together again, a compiled function say. Reported unless it is known to hold nothing."""
        inside = _Opener(())
        wrapped = getattr(value, "__wrapped__", None)
        if wrapped is not None:
            inside.open(wrapped, path)
        if wrapped is None or inside.numbers or inside.unopened:
            self.unopened.append(f"{path.removeprefix('.')} ({type(value).__name__})")
        return _Node(_Kind.FIXED, _Fixed(value))

    def mark(self) -> None:
        """Finds the nodes below which there is no number: those are used as they were found."""
        users: dict[int, list[int]] = {}
        for position, node in enumerate(self.nodes):
            for part in node.parts:
                users.setdefault(part, []).append(position)
        reached, todo = set(), [i for i, node in enumerate(self.nodes) if node.kind is _Kind.NUMBER]
        while todo:
            position = todo.pop()
            if position not in reached:
                reached.add(position)
                todo.extend(users.get(position, ()))
        for position, node in enumerate(self.nodes):
            node.holds_numbers = position in reached
            if node.holds_numbers:
                node.found = None


class Program:
    """A value without its numbers: hashable, and equal for two values that differ in their numbers alone."""

    def __init__(self, nodes: Sequence[_Node]):
        self._nodes = tuple(nodes)
        self._hash = hash(self._nodes)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Program) and self._hash == other._hash and self._nodes == other._nodes

    def __hash__(self) -> int:
        return self._hash

    def __deepcopy__(self, memo: Any) -> "Program":
        return self

    def __reduce__(self) -> Any:
        return Program, (self._nodes,)

    def __repr__(self) -> str:
        functions = [node.how[1].hollow for node in self._nodes if node.kind is _Kind.WHOLE and node.how[0] is _of_code]
        return f"<{', '.join(dict.fromkeys(function.__module__ for function in functions))}>"

    def build(self, numbers: Sequence[Any]) -> Any:
        """The value with these numbers in the places of its own."""
        made: dict[int, Any] = {}
        unfilled: list[tuple[Any, _Node]] = []  # filled at the end, so that functions may refer to each other

        def make(position: int) -> Any:
            if position not in made:
                made[position] = value(self._nodes[position])
            return made[position]

        def value(node: _Node) -> Any:
            if not node.holds_numbers:
                return node.found
            if node.kind is _Kind.NUMBER:
                return numbers[node.how]
            if node.kind is _Kind.WHOLE:
                put_together, how = node.how
                return put_together(how, [make(part) for part in node.parts])
            shell = types.CellType() if node.kind is _Kind.CELL else object.__new__(node.how[0])
            unfilled.append((shell, node))
            return shell

        whole = make(0)
        while unfilled:
            shell, node = unfilled.pop()
            parts = [make(part) for part in node.parts]
            if node.kind is _Kind.CELL:
                (shell.cell_contents,) = parts
            else:
                for name, part in zip(node.how[1], parts, strict=True):
                    object.__setattr__(shell, name, part)
        return whole


@dataclasses.dataclass(frozen=True)
class Opened:
    """What `open_closures` found.

    Args:
        numbers: by path.
        program: the value without them.
        kept: those names of static numbers that there are.
        unopened: paths to what could not be opened, with its type.
    """

    numbers: dict[str, Any]
    program: Program
    kept: frozenset[str]
    unopened: tuple[str, ...]


def open_closures(value: Any, static: Collection[str] = ()) -> Opened:
    """Separates the numbers that `value` has captured, at any depth, from the rest.

    Args:
        value: functions, or anything that holds functions.
        static: names or whole paths of numbers that stay in the program.
    """
    opener = _Opener(static)
    opener.open(value, "")
    opener.mark()
    return Opened(opener.numbers, Program(opener.nodes), frozenset(opener.kept), tuple(opener.unopened))
