"""The base classes: what a gradient transformation, an optimizer and a schedule are.

To write a transformation: subclass `GradientTransformation`, declare the hyperparameters as fields, implement `init`
and `update`. To write an optimizer: subclass `AbstractChain`, declare the fields, say in `chain` what it is made of.
"""

import abc
import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jax.core import Tracer
from typing_extensions import dataclass_transform

from pytreeopt.annotations import OnFirstUse
from pytreeopt.equality import ByValue
from pytreeopt.errors import HyperparameterError, HyperparameterNameError, WrongStateError, named
from pytreeopt.fields import as_flag, as_static, as_static_tree, is_leaf, static
from pytreeopt.upstream_pair import UpstreamPair

PyTree: TypeAlias = Any
if TYPE_CHECKING:
    Numeric: TypeAlias = float | int | jax.Array | np.ndarray | np.floating | np.integer
else:
    Numeric = float | int  # what a command line can give: libraries build parsers from the annotations of fields
_NUMBERS = float | int | complex | jax.Array | np.ndarray | np.generic


@dataclass_transform(frozen_default=True, field_specifiers=(struct.field,))
class AbstractHyperparameters(ByValue, metaclass=abc.ABCMeta):
    """A frozen dataclass of hyperparameters, registered with JAX: dynamic fields are leaves, static ones are not.

    Every subclass is made a `flax.struct.dataclass` here, whether or not it wears the decorator.
    """

    _converters: ClassVar[tuple[tuple[str, Callable[[str, Any], Any], Container[type], Container[type]], ...]]
    _dynamic_fields: ClassVar[tuple[str, ...]]
    _number_fields: ClassVar[Any] = OnFirstUse()

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__()
        replace, own_init = cls.replace, "__init__" in cls.__dict__
        struct.dataclass(cls, eq=False, **kwargs)
        cls.replace = replace  # in place of flax's, whose errors say less
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        if not own_init:
            cls.__init__ = _all_at_once(cls.__init__, frozenset(field.name for field in fields))
        for field in fields:
            if field.type in (bool, str, "bool", "str") and field.metadata.get("pytree_node", True):
                kind = getattr(field.type, "__name__", field.type)
                raise TypeError(
                    f"{cls.__name__}.{field.name} is a {kind} and so part of the program; "
                    f"declare it {field.name}: {kind} = static(default)"
                )
        converters = {f.name: f.metadata.get("convert", as_dynamic) for f in fields}
        converters |= {f.name: as_flag for f in fields if f.type in (bool, "bool") and converters[f.name] is as_static}
        cls._converters = tuple(
            (name, convert, _KEPT.get(convert, _NONE), _array_types if convert is as_dynamic else ())
            for name, convert in converters.items()
        )
        _KEPT[as_dynamic].add(cls)
        cls._dynamic_fields = tuple(f.name for f in fields if f.metadata.get("pytree_node", True))
        cls._number_fields = OnFirstUse()

    def __post_init__(self):
        # JAX unflattens through __init__, with tracers, None, object(), axis numbers, shapes: look at types only.
        values = vars(self)
        for name, convert, kept, arrays in self._converters:
            value = values[name]
            kind = type(value)
            if kind not in kept and not (kind in arrays and value.weak_type):
                try:
                    values[name] = convert(name, value)
                except TypeError as error:
                    raise TypeError(f"{type(self).__name__}: {error}") from None

    def _check_hyperparameters(self) -> None:
        """Refuses, at use, what no number or schedule can be; JAX may put anything into the fields in between."""
        values, (numbers, schedulable, optional) = vars(self), self._number_fields
        for name in numbers:
            value = values[name]
            if type(value) is float or isinstance(value, _NUMBERS) or (value is None and name in optional):
                continue
            if isinstance(value, AbstractSchedule):
                raise HyperparameterError(
                    f"cannot take a schedule as {name}; give a number, or wrap the optimizer in scheduled(...)"
                )
            _refuse(name, value, "a number")
        for name in schedulable:
            value = values[name]
            if type(value) is float or isinstance(value, _NUMBERS | AbstractSchedule):
                continue
            if (value is None and name in optional) or callable(value):  # a foreign schedule with leaves of its own
                continue
            _refuse(name, value, "a number or a schedule")

    def _holds_placeholders(self) -> bool:
        """Whether this may be a tree of axis numbers, None or the like, in which values mean nothing.

        Such trees hold no float and no array; hyperparameters that a user gives hold at least a default that does.
        """
        values = (vars(self)[name] for name in self._dynamic_fields)
        return not any(isinstance(value, float | jax.Array) for value in values)

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, as `dataclasses.replace`; `pytreeopt.replace` reaches any depth."""
        try:
            return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]
        except TypeError:
            unknown = changes.keys() - {field.name for field in dataclasses.fields(self)}  # type: ignore[arg-type]
            if not unknown:
                raise
        raise HyperparameterNameError(
            f"{type(self).__name__}.replace: no field {min(unknown)!r}; pytreeopt.replace finds names at any depth"
        )

    @classmethod
    def of(cls, source: Any, **given: Any) -> Self:
        """Builds `cls` from the same-named fields of `source`; a field found in neither is a TypeError."""
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            if field.name not in given:
                try:
                    given[field.name] = vars(source)[field.name]
                except KeyError:
                    raise TypeError(
                        f"{cls.__name__}.of: {type(source).__name__} has no field {field.name!r}; give it by keyword"
                    ) from None
        return cls(**given)


def _all_at_once(init: Callable[..., None], names: frozenset[str]) -> Callable[..., None]:
    """The `__init__` of a dataclass; given every field by keyword, as when JAX unflattens, it sets all in one go."""

    @functools.wraps(init)
    def __init__(self, *args: Any, **fields: Any) -> None:
        if args or fields.keys() != names:
            return init(self, *args, **fields)
        vars(self).update(fields)
        self.__post_init__()

    return __init__


def _refuse(name: str, value: Any, wanted: str) -> typing.NoReturn:
    raise HyperparameterError(f"needs {wanted} as {name}, got {type(value).__name__} {str(value)[:60]!r}")


def as_dynamic(name: str, value: Any) -> Any:
    """One spelling for each hyperparameter. Exact and idempotent; looks at types, never at values.

    NumPy scalars become Python numbers (`1 - b2` stays a float64 constant), strong JAX scalars become weakly typed
    (they promote like a Python number and share its compilation), functions become leafless schedules.
    """
    if isinstance(value, jax.Array):
        if not isinstance(value, Tracer) and hasattr(value, "weak_type"):
            _array_types.add(type(value))
        return _weaken(value)
    if isinstance(value, AbstractHyperparameters | float | int):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.generic | np.ndarray):
        return value.item() if value.ndim == 0 and value.dtype not in (object, jax.dtypes.float0) else value
    if type(value) in (tuple, list):
        return tuple(x if x is None or type(x) is float else as_dynamic(name, x) for x in value)
    if callable(value) and is_leaf(value):
        return FunctionSchedule(value)
    if isinstance(value, optax.GradientTransformation) or (_is_pair(value) and is_leaf(value)):
        return coerce(value)  # a child from elsewhere: wrapped it is static, not a subtree of functions
    return value


_NONE = frozenset({type(None)})
# Types whose values a converter gives back as they are, so that it need not be called.
_KEPT: dict[Callable[..., Any], Any] = {
    as_dynamic: {*_NONE, float, int, bool},  # and every class of hyperparameters
    as_flag: _NONE | {bool, int},
    as_static: _NONE | {bool, int, float, str},
    as_static_tree: _NONE | {bool, str},
}
_array_types: set[type] = set()  # those seen so far: JAX's own isinstance is slow


def _is_pair(value: Any) -> bool:
    return callable(getattr(value, "init", None)) and callable(getattr(value, "update", None))


def _weaken(value: jax.Array) -> jax.Array:
    """The same number, weakly typed: differentiable, batchable, and a no-op in the compiled program."""
    if value.ndim or getattr(value, "weak_type", False):
        return value
    if not isinstance(value, Tracer) and (value.is_deleted() or value.sharding.memory_kind == "pinned_host"):
        return value
    if jnp.issubdtype(value.dtype, jnp.floating):
        return jax.lax.full_like(0.0, value)
    if jnp.issubdtype(value.dtype, jnp.integer):
        return jax.lax.full_like(0, value)
    return value


def _name_errors(cls: type, *methods: str) -> None:
    """Puts the class's name on the errors of these methods, and its hyperparameters' types under a check."""
    for method in methods:
        function = cls.__dict__.get(method)
        if inspect.isfunction(function) and not getattr(function, "__isabstractmethod__", False):
            setattr(cls, method, named(function))


class AbstractSchedule(AbstractHyperparameters):
    """A hyperparameter as a function of the step count, itself made of hyperparameters. To write one: `__call__`."""

    evaluated_at_steps: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        _name_errors(cls, "__call__")

    @abc.abstractmethod
    def __call__(self, count: Any) -> Any:
        """The value at step `count`, an integer scalar (or a float in a test)."""


@final
class FunctionSchedule(AbstractSchedule):
    """A plain function as a schedule. No leaves; equal when the function is the same object.

    Args:
        function: maps a step count to a value.
    """

    function: Callable[[Any], Any] = static()

    def __call__(self, count: Any) -> Any:
        return self.function(count)


if TYPE_CHECKING:
    ScalarOrSchedule: TypeAlias = Numeric | AbstractSchedule | Callable[[Any], Any]
else:
    ScalarOrSchedule = Annotated[Numeric, AbstractSchedule]  # a number to parsers


class GradientTransformation(AbstractHyperparameters, UpstreamPair):
    """Turns gradients into updates. To write one: declare fields, implement `init` and `update`.

    It is a pytree, so it can be an argument of a compiled function, stacked, differentiated and changed with
    `dataclasses.replace`; and it is Optax's pair of functions, so it can be used wherever Optax's are.
    `GradientTransformation(init_fn, update_fn)` makes one from two functions.
    """

    accepts_upstream_pairs = True

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        _name_errors(cls, "init", "update")

    @classmethod
    def _instantiated(cls) -> Any:
        return FunctionPair if cls is GradientTransformation else super()._instantiated()

    @abc.abstractmethod
    def init(self, params: PyTree) -> PyTree:
        """The state before the first update."""

    @abc.abstractmethod
    def update(self, updates: PyTree, state: PyTree, params: PyTree = None, **extra_args: Any) -> tuple[PyTree, PyTree]:
        """The transformed updates and the next state."""


@final
class FunctionPair(GradientTransformation):
    """A transformation given as two functions, compared by their identity; no leaves.

    Args:
        init: maps parameters to a state.
        update: maps updates, state, and parameters (with or without extra arguments) to updates and state.
    """

    init: Callable[..., Any] = static()  # type: ignore[assignment]
    update: Callable[..., Any] = static()  # type: ignore[assignment]


FunctionPair.__abstractmethods__ = frozenset()  # its fields are the methods


@final
class IgnoreExtraArgs(GradientTransformation):
    """Passes on only the extra arguments that the inner transformation takes.

    Args:
        inner: a transformation whose update takes no arbitrary keywords.
        accepted: names of the extra arguments that it does take.
    """

    inner: GradientTransformation
    accepted: tuple[str, ...] = static(())

    def init(self, params):
        return self.inner.init(params)

    def update(self, updates, state, params=None, **extra_args):
        taken = {name: extra_args[name] for name in self.accepted if name in extra_args}
        return self.inner.update(updates, state, params, **taken)


def coerce(tx: Any) -> GradientTransformation:
    """`tx` as a transformation of ours that takes any extra arguments.

    Upstream's pairs become static: Optax's extra-args type is passed them all, its plain type none, as in Optax.
    """
    if isinstance(tx, type):
        raise TypeError(f"expected a gradient transformation, got the class {tx.__name__}; call it: {tx.__name__}(...)")
    if type(tx) is FunctionPair:
        return _with_extra_args(tx)
    if isinstance(tx, UpstreamPair):
        return tx  # type: ignore[return-value]
    if isinstance(tx, optax.GradientTransformationExtraArgs):
        return _with_extra_args(FunctionPair(tx.init, tx.update))
    if isinstance(tx, optax.GradientTransformation):
        return IgnoreExtraArgs(FunctionPair(tx.init, tx.update))
    if _is_pair(tx):
        return _with_extra_args(FunctionPair(tx.init, tx.update))
    raise TypeError(f"expected a gradient transformation, got {type(tx).__name__}")


def _with_extra_args(pair: FunctionPair) -> GradientTransformation:
    try:
        parameters = list(inspect.signature(pair.update).parameters.values())
    except (TypeError, ValueError):
        return pair
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return pair
    extra = tuple(p.name for p in parameters if p.name not in ("updates", "state", "params"))
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:3]
    return IgnoreExtraArgs(pair, tuple(name for name in extra if name not in positional))


def with_extra_args_support(tx: Any) -> GradientTransformation:
    """`tx` itself, since every transformation here takes extra arguments; a foreign pair is wrapped."""
    return coerce(tx)


class AbstractStateless(GradientTransformation):
    """A transformation without a state. To write one: implement `transform`."""

    def init(self, params):
        del params
        return optax.EmptyState()

    def update(self, updates, state, params=None, **extra_args):
        # The state passes through: a run that swaps a schedule for a number keeps going.
        return self.transform(updates, params), state

    @abc.abstractmethod
    def transform(self, updates: PyTree, params: PyTree) -> PyTree:
        """The transformed updates; `params` may be None."""


class AbstractChain(GradientTransformation):
    """An optimizer that is a chain of transformations. To write one: implement the property `chain`."""

    @property
    @abc.abstractmethod
    def chain(self) -> tuple[GradientTransformation, ...]:
        """The members, in the order in which they are applied."""

    @functools.cached_property
    def _members(self) -> tuple[GradientTransformation, ...]:
        return tuple(map(coerce, self.chain))

    def init(self, params):
        return tuple(member.init(params) for member in self._members)

    def update(self, updates, state, params=None, **extra_args):
        members = self._members
        if not isinstance(state, tuple | list) or len(state) != len(members):
            got = f"{len(state)} states" if isinstance(state, tuple | list) else type(state).__name__
            raise WrongStateError(f"has {len(members)} members, got {got}; pass the state that its init returned")
        new_state = []
        for member, member_state in zip(members, state, strict=True):
            updates, member_state = member.update(updates, member_state, params, **extra_args)
            new_state.append(member_state)
        return updates, tuple(new_state)
