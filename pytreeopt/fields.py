"""How hyperparameters are declared: static fields, dtypes, trees of masks or labels, and holders of named values."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from flax import serialization, struct
from jax.core import Tracer

MISSING: Any = object()  # stands for "no default" where None is a value


def _field(default: Any, convert: Callable[[str, Any], Any], *, pytree_node: bool, kw_only: bool) -> Any:
    options: dict[str, Any] = {"kw_only": True} if kw_only else {}
    if default is not MISSING:
        options["default"] = default
    return struct.field(pytree_node=pytree_node, metadata={"convert": convert}, **options)


def static(default: Any = MISSING, *, kw_only: bool = False) -> Any:
    """A hyperparameter that belongs to the program: another value is another compilation."""
    return _field(default, as_static, pytree_node=False, kw_only=kw_only)


def static_dtype(default: Any = MISSING, *, kw_only: bool = False) -> Any:
    """A dtype in any spelling, or None; kept as a NumPy dtype."""
    return _field(default, as_dtype, pytree_node=False, kw_only=kw_only)


def static_tree(default: Any = MISSING, *, kw_only: bool = False) -> Any:
    """A tree of masks or labels, or a function that makes one from the parameters."""
    return _field(default, as_static_tree, pytree_node=False, kw_only=kw_only)


def dynamic(default: Any = MISSING, *, kw_only: bool = False) -> Any:
    """A leaf or subtree of the optimizer; needed only to say `kw_only`, since fields are dynamic by default."""
    return struct.field(kw_only=kw_only) if default is MISSING else struct.field(default=default, kw_only=kw_only)


def called_by_user(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call of `cls`, as its `__new__` sees it, is a user's, who may be warned.

    JAX, pickle and `dataclasses.replace` rebuild an object from its fields, all of them by keyword.
    """
    return bool(args) or len(kwargs) < len(dataclasses.fields(cls))  # type: ignore[arg-type]


def as_static(name: str, value: Any) -> Any:
    """A hashable Python value; arrays and traced values are refused. Callables without a hash get their identity's."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list):
        value = tuple(value)
    if isinstance(value, jax.Array | np.ndarray):
        what = "a traced value" if isinstance(value, Tracer) else f"an array ({type(value).__name__})"
        raise TypeError(f"{name} is static, part of the program, and must be a Python value; got {what}")
    try:
        hash(value)
    except TypeError:
        if callable(value):
            return ByIdentity(value)
        raise TypeError(f"{name} is static and must be hashable, got {type(value).__name__}") from None
    return value


class ByIdentity:
    """A callable without a hash, such as an object of a dataclass: equal to itself alone, as functions are."""

    def __init__(self, function: Callable[..., Any]):
        self.__wrapped__ = function  # so that `inspect.signature` sees the parameters of its own

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByIdentity) and self.__wrapped__ is other.__wrapped__

    def __hash__(self) -> int:
        return id(self.__wrapped__)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)


def as_flag(name: str, value: Any) -> Any:
    """A bool; 0 and 1 will do, what has a truth of its own will not."""
    value = as_static(name, value)
    if isinstance(value, bool | int | None):
        return value
    raise TypeError(f"{name} must be True or False, got {value!r}")


def as_dtype(name: str, value: Any) -> np.dtype | None:
    """The dtype that JAX will use for it: 64 bits become 32 unless x64 is enabled."""
    if value is None:
        return None
    try:
        return jax.dtypes.canonicalize_dtype(value)
    except TypeError:
        raise TypeError(f"{name} must be a dtype or None, got {value!r}") from None


def as_static_tree(name: str, value: Any) -> Any:
    """A `StaticTree`; single Python values and functions stay as they are."""
    if value is None or isinstance(value, StaticTree | bool | str):
        return value
    if is_leaf(value):
        return as_static(name, value) if callable(value) else _static_leaf(name, value)
    return StaticTree.of(value, name)


def is_leaf(value: Any) -> bool:
    """Whether JAX sees `value` as one leaf: true of functions, false of callable modules."""
    return jax.tree_util.all_leaves([value])


def _static_leaf(name: str, leaf: Any) -> Any:
    if isinstance(leaf, Tracer):
        raise TypeError(f"{name} is static, part of the program, and must hold Python values; got a traced value")
    if isinstance(leaf, np.generic | np.ndarray | jax.Array):
        if np.ndim(leaf) != 0:
            raise TypeError(f"{name} must hold one bool or label a leaf, got an array of shape {np.shape(leaf)}")
        return leaf.item()
    return leaf


@struct.dataclass
class StaticTree:
    """A tree of Python values as one hashable value, compared by value; `tree` gives it back."""

    leaves: tuple[Any, ...] = struct.field(pytree_node=False)
    treedef: Any = struct.field(pytree_node=False)

    @classmethod
    def of(cls, tree: Any, name: str = "the tree") -> "StaticTree":
        leaves, treedef = jax.tree.flatten(tree)
        return cls(tuple(_static_leaf(name, leaf) for leaf in leaves), treedef)

    @functools.cached_property
    def tree(self) -> Any:
        return jax.tree.unflatten(self.treedef, self.leaves)


def resolve_tree(tree_or_function: Any, params: Any) -> Any:
    """The tree of a `static_tree` field: what was given, or what the function makes of `params`."""
    if isinstance(tree_or_function, StaticTree):
        leaves = tree_or_function.leaves
        # A tree of functions is called whole: the container is then a callable module.
        if leaves and all(map(callable, leaves)) and callable(tree_or_function.tree):
            return tree_or_function.tree(params)
        return tree_or_function.tree
    return tree_or_function(params) if callable(tree_or_function) else tree_or_function


@jax.tree_util.register_pytree_with_keys_class
class Named(Mapping):
    """A mapping from static names, in the order given, to dynamic values; reads like the dict that was given.

    JAX sorts the keys of a dict, and the order of names has meaning in chains and monitors.
    """

    __slots__ = ("_names", "_values")

    def __init__(self, names: Sequence[Any], values: Sequence[Any]):
        self._names, self._values = tuple(names), tuple(values)

    @classmethod
    def of(cls, mapping: Any) -> Any:
        """From a mapping; anything else (a placeholder put in by JAX, say) is left alone."""
        if isinstance(mapping, Mapping) and not isinstance(mapping, cls):
            return cls(tuple(mapping), tuple(mapping.values()))
        return mapping

    def __getitem__(self, name: Any) -> Any:
        for key, value in zip(self._names, self._values, strict=True):
            if key == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key!r}: {value!r}" for key, value in self.items()) + "}"

    def __hash__(self) -> int:
        return hash(self._names)

    def __reduce__(self):
        return type(self), (self._names, self._values)

    def map(self, f: Callable[[Any], Any]) -> "Named":
        return Named(self._names, tuple(map(f, self._values)))

    def tree_flatten_with_keys(self):
        keys = (jax.tree_util.DictKey(name) for name in self._names)
        return tuple(zip(keys, self._values, strict=True)), self._names

    def tree_flatten(self):
        return self._values, self._names

    @classmethod
    def tree_unflatten(cls, names, values):
        return cls(names, tuple(values))


def _to_state_dict(named: Named) -> dict[str, Any]:
    return {str(name): serialization.to_state_dict(value) for name, value in named.items()}


def _from_state_dict(named: Named, state: dict[str, Any]) -> Named:
    items = named.items()
    return Named(
        tuple(named), [serialization.from_state_dict(value, state[str(name)], str(name)) for name, value in items]
    )


serialization.register_serialization_state(Named, _to_state_dict, _from_state_dict)
