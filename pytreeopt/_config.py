"""Optimizers as plain data and back."""

import collections
import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from pytreeopt import _registry as registry
from pytreeopt._paths import in_path, join
from pytreeopt.base import AbstractHyperparameters, FunctionPair
from pytreeopt.errors import HyperparameterNameError
from pytreeopt.fields import Named, StaticTree


def to_config(opt: Any) -> dict[str, Any]:
    """An optimizer as plain data: dicts with string keys, lists, strings, numbers, bools and None.

    >>> import pytreeopt
    >>> to_config(pytreeopt.sgd(0.1, momentum=0.9))["momentum"]
    0.9

    A class is a dict with its name as `"type"` and its fields; a list is a tuple, a dict without `"type"` a dict. What
    plain data has no form for is a dict whose `"type"` says what it is: an array with its dtype, a mapping with its
    order, infinity. So it can be written as JSON or YAML, and `from_config` makes an equal optimizer of it, static
    fields included. Where arrays are placed is not kept.

    Args:
        opt: an optimizer, a transformation or a schedule of this package, or of a class that is `configurable`.
            Functions are refused unless they are `configurable`; so are the objects of Optax, which are closures.
    """
    if not isinstance(opt, AbstractHyperparameters):
        raise TypeError(f"to_config needs an optimizer or schedule of pytreeopt, got {type(opt).__name__}")
    return _encode(opt, "")


def from_config(data: Mapping[str, Any]) -> Any:
    """The optimizer that `to_config` wrote, or that was written by hand.

    >>> from_config({"type": "AdamW", "learning_rate": 0.01}).weight_decay
    0.0001

    Only classes of this package, and what is marked `configurable`, are made: nothing is imported or evaluated because
    the data says so. Fields that are left out have their defaults; unknown ones are an error that lists near names.

    Args:
        data: as `to_config` gives it.
    """
    if not isinstance(data, Mapping) or "type" not in data:
        got = f"keys {', '.join(map(str, data)) or '(none)'}" if isinstance(data, Mapping) else type(data).__name__
        raise TypeError(f'from_config needs a mapping with the name of a class as its "type", got {got}')
    return _decode(data, "")


# Writing.


def _encode(value: Any, path: str) -> Any:
    if value is None or type(value) in (bool, str, int):
        return value
    if type(value) in _ENCODERS:
        return _ENCODERS[type(value)](value, path)
    if isinstance(value, jax.Array | np.ndarray):
        return _encode_array(value, path)
    if isinstance(value, np.dtype):
        return {"type": "dtype", "name": value.name}
    if type(value).__name__ == "InitStep" and isinstance(value, tuple):  # its field makes it of a pair
        return _encode_tuple(value, path)
    if registry.is_record(type(value)):
        return _encode_record(value, path)
    name = registry.name_of(value)
    if name is not None:
        return {"type": "class" if inspect.isclass(value) else "function", "name": name}
    raise TypeError(f"to_config: {_refusal(value, path or type(value).__name__)}")


def _refusal(value: Any, path: str) -> str:
    if inspect.isclass(value):
        return f"{path} is the class {value.__name__}, which is not registered; mark it @configurable"
    if callable(value):
        return (
            f"{path} is a function ({getattr(value, '__qualname__', type(value).__name__)}), which plain data cannot "
            "hold; mark it @configurable, or use a tree or a schedule of pytreeopt in its place"
        )
    return f"{path} is a {type(value).__name__}, which has no form as plain data"


def _encode_record(value: Any, path: str) -> dict[str, Any]:
    cls = type(value)
    if cls is FunctionPair:
        raise TypeError(
            f"to_config: {path or 'the optimizer'} is a pair of functions "
            f"({getattr(value.update, '__qualname__', '')}), whose hyperparameters are out of sight in "
            "closures; build it from pytreeopt"
        )
    name = registry.name_of(cls)
    if name is None:
        raise TypeError(
            f"to_config: {path or 'the optimizer'} is of the class {cls.__name__}, which is not registered; "
            "mark it @configurable"
        )
    data: dict[str, Any] = {"type": name}
    for field, default in registry.defaults(cls).items():
        x = getattr(value, field)
        if callable(x) and x is default and registry.name_of(x) is None:
            continue  # a function of the class's own: leaving it out says so
        data[field] = _encode(x, join(path, in_path(field)))
    return data


def _encode_float(value: float, path: str) -> Any:
    return value if np.isfinite(value) else {"type": "float", "value": repr(value)}


def _encode_complex(value: complex, path: str) -> Any:
    return {"type": "complex", "value": [_encode_float(value.real, path), _encode_float(value.imag, path)]}


def _encode_tuple(value: tuple[Any, ...], path: str) -> list[Any]:
    return [_encode(x, join(path, str(i))) for i, x in enumerate(value)]


def _encode_list(value: list[Any], path: str) -> dict[str, Any]:
    return {"type": "list", "items": _encode_tuple(tuple(value), path)}


def _encode_mapping(value: Mapping[Any, Any], path: str) -> dict[str, Any]:
    if type(value) is dict and "type" not in value and all(type(key) is str for key in value):
        return {key: _encode(x, join(path, key)) for key, x in value.items()}
    items = [[_encode(key, path), _encode(x, join(path, str(key)))] for key, x in value.items()]
    return {"type": _MAPPINGS[type(value)], "items": items}


def _encode_tree(value: StaticTree, path: str) -> dict[str, Any]:
    return {"type": "tree", "tree": _encode(value.tree, path)}


def _encode_array(x: Any, path: str) -> dict[str, Any]:
    if isinstance(x, Tracer):
        raise TypeError(f"to_config: {path} is traced, and has no value to write; call it outside of jit")
    shape = list(x.shape)
    if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        words = np.asarray(jax.random.key_data(x)).ravel().tolist()
        return {"type": "key", "impl": str(jax.random.key_impl(x)), "shape": shape, "data": words}
    values, kind = np.asarray(x).ravel(), "array" if isinstance(x, jax.Array) else "numpy"
    if jnp.issubdtype(values.dtype, jnp.complexfloating):
        data = [part for z in values.astype(np.complex128).tolist() for part in (z.real, z.imag)]
    elif jnp.issubdtype(values.dtype, jnp.floating):
        data = values.astype(np.float64).tolist()
    elif values.dtype == bool or jnp.issubdtype(values.dtype, jnp.integer):
        data = values.astype(object).tolist()
    else:
        raise TypeError(f"to_config: {path} is an array of {values.dtype}, which has no form as plain data")
    data = [y if not isinstance(y, float) or np.isfinite(y) else repr(y) for y in data]
    weak = {"weak_type": True} if getattr(x, "weak_type", False) else {}
    return {"type": kind, "dtype": values.dtype.name, "shape": shape, "data": data, **weak}


_MAPPINGS: dict[type, str] = {dict: "dict", collections.OrderedDict: "OrderedDict", Named: "named"}
_ENCODERS: dict[type, Callable[[Any, str], Any]] = {
    float: _encode_float,
    complex: _encode_complex,
    tuple: _encode_tuple,
    list: _encode_list,
    StaticTree: _encode_tree,
    **dict.fromkeys(_MAPPINGS, _encode_mapping),
}


# Reading.


def _decode(data: Any, path: str) -> Any:
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if isinstance(data, list | tuple):
        return tuple(_decode(x, join(path, str(i))) for i, x in enumerate(data))
    if not isinstance(data, Mapping):
        raise TypeError(f"from_config: {path} is a {type(data).__name__}, which is no plain data")
    if "type" not in data:
        return {key: _decode(x, join(path, str(key))) for key, x in data.items()}
    if isinstance(data["type"], str) and data["type"] in _DECODERS:
        return _DECODERS[data["type"]](data, path)
    return _decode_record(data, path)


def _decode_record(data: Mapping[str, Any], path: str) -> Any:
    cls = registry.find(data["type"])
    if not registry.is_record(cls):
        raise TypeError(f'from_config: {data["type"]!r} is a function; write {{"type": "function", "name": ...}}')
    fields = registry.defaults(cls)
    values = {}
    for name, x in data.items():
        if name == "type":
            continue
        if name not in fields:
            near = difflib.get_close_matches(str(name), fields, n=3) or list(fields)
            raise HyperparameterNameError(
                f"from_config: {cls.__name__} has no field {name!r}; did you mean {' or '.join(near)}?"
            )
        values[name] = _decode(x, join(path, in_path(name)))
        if isinstance(x, str) and name in getattr(cls, "_dynamic_fields", ()):
            raise TypeError(
                f"from_config: {join(path, name)} is the text {x!r}, a number is needed; YAML takes 1e-3 for text, "
                "and 1.0e-3 for a number"
            )
    return cls(**values)


def _decode_items(data: Mapping[str, Any], path: str) -> list[tuple[Any, Any]]:
    return [(_decode(key, path), _decode(x, join(path, str(key)))) for key, x in data["items"]]


def _decode_named(data: Mapping[str, Any], path: str) -> Named:
    items = _decode_items(data, path)
    return Named([key for key, _ in items], [x for _, x in items])


def _decode_array(data: Mapping[str, Any], path: str) -> Any:
    dtype = jnp.dtype(data["dtype"])
    numbers = data["data"]
    if jnp.issubdtype(dtype, jnp.complexfloating):
        numbers = [complex(float(re), float(im)) for re, im in zip(numbers[::2], numbers[1::2], strict=True)]
    elif jnp.issubdtype(dtype, jnp.floating):
        numbers = [float(x) for x in numbers]
    values = np.array(numbers, dtype).reshape(data["shape"])
    if data["type"] == "numpy":
        return values
    return _weak(jnp.asarray(values)) if data.get("weak_type") else jnp.asarray(values)


def _weak(x: jax.Array) -> jax.Array:
    """The same numbers, weakly typed, as the stacked fields of a population are."""
    zero = 0.0 if jnp.issubdtype(x.dtype, jnp.floating) else 0
    return jax.vmap(lambda scalar: jax.lax.full_like(zero, scalar))(x.ravel()).reshape(x.shape)


def _decode_key(data: Mapping[str, Any], path: str) -> jax.Array:
    words = jnp.asarray(np.array(data["data"], np.uint32).reshape(*data["shape"], -1))
    return jax.random.wrap_key_data(words, impl=data["impl"])


def _decode_name(data: Mapping[str, Any], path: str) -> Any:
    found = registry.find(data["name"])
    if inspect.isclass(found) != (data["type"] == "class"):
        raise TypeError(f"from_config: {data['name']!r}, in {path}, is no {data['type']}")
    return found


_DECODERS: dict[str, Callable[[Mapping[str, Any], str], Any]] = {
    "float": lambda data, path: float(data["value"]),
    "complex": lambda data, path: complex(*(_decode(x, path) for x in data["value"])),
    "list": lambda data, path: list(_decode(data["items"], path)),
    "dict": lambda data, path: dict(_decode_items(data, path)),
    "OrderedDict": lambda data, path: collections.OrderedDict(_decode_items(data, path)),
    "named": _decode_named,
    "tree": lambda data, path: StaticTree.of(_decode(data["tree"], path), path),
    "dtype": lambda data, path: jnp.dtype(data["name"]),
    "array": _decode_array,
    "numpy": _decode_array,
    "key": _decode_key,
    "class": _decode_name,
    "function": _decode_name,
}
