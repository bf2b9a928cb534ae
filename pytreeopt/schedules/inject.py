"""Hyperparameters in the state, as numbers or as schedules."""

import dataclasses
import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import DTypeLike
from optax import safe_increment
from optax.schedules import StatefulSchedule

from pytreeopt.base import AbstractHyperparameters, AbstractSchedule, GradientTransformation, as_dynamic, coerce
from pytreeopt.errors import require_state
from pytreeopt.fields import Named, StaticTree, as_static, is_leaf, static, static_dtype
from pytreeopt.states import InjectStatefulHyperparamsState, WrappedScheduleState


@final
class WrappedSchedule(AbstractHyperparameters):
    """A schedule that keeps its own count, in upstream's protocol of schedules with a state.

    Args:
        schedule_fn: the schedule; a plain function is compared by identity.
    """

    schedule_fn: AbstractSchedule | Callable[[Any], Any]

    def init(self) -> WrappedScheduleState:
        return WrappedScheduleState(count=jnp.zeros([], jnp.int32))

    def update(self, state: WrappedScheduleState, **extra_args: Any) -> WrappedScheduleState:
        del extra_args
        return WrappedScheduleState(count=safe_increment(state.count))

    def __call__(self, state: WrappedScheduleState, **extra_args: Any) -> Any:
        del extra_args
        return self.schedule_fn(state.count)


@final
class FixedArgument(AbstractHyperparameters):
    """An argument that is part of the program: a flag, a name, a dtype, a mask, a function. No leaves.

    Args:
        value: the argument, hashable, or a schedule with a state that is no pytree.
    """

    value: Any = static()


@final
class InjectHyperparams(GradientTransformation):
    """A transformation that is built anew at each step, from hyperparameters in its state.

    The numbers among `arguments` are frozen into the state at init: change them in `state.hyperparams`. Schedules are
    evaluated at each step, with a count of their own. Floats are stored in the widest dtype of the params, as in Optax:
    with bfloat16 params 0.999 is rounded to 1. unless `hyperparam_dtype` is float32.

    Args:
        inner_factory: makes the transformation.
        arguments: mapping from parameter names of `inner_factory` to its arguments; those that are part of the
            program are `FixedArgument`.
        hyperparam_dtype: dtype of floating hyperparameters in the state; None for the rule above.
    """

    inner_factory: Callable[..., Any] = static()
    arguments: Mapping[str, Any]  # pyright: ignore[reportGeneralTypeIssues]
    hyperparam_dtype: DTypeLike | None = static_dtype(None)

    def __post_init__(self):
        super().__post_init__()
        if isinstance(self.arguments, Mapping):
            names, values = tuple(self.arguments), self.arguments.values()
            vars(self)["arguments"] = Named(names, tuple(map(as_dynamic, names, values)))

    @property
    def numbers(self) -> dict[str, Any]:
        """The numeric hyperparameters as they are at init, by name."""
        return {name: value for name, value in self.arguments.items() if is_number(value)}

    @property
    def schedules(self) -> dict[str, Any]:
        """The schedules with their states, by name."""
        schedules = {name: _as_stateful(value) for name, value in self.arguments.items()}
        return {name: schedule for name, schedule in schedules.items() if schedule is not None}

    def init(self, params):
        dtype = self._dtype(params)
        hyperparams: dict[str, Any] = {name: jnp.asarray(_cast(value, dtype)) for name, value in self.numbers.items()}
        schedules = self.schedules
        states = {name: schedule.init() for name, schedule in schedules.items()}
        hyperparams |= {name: jnp.asarray(_cast(f(states[name]), dtype)) for name, f in schedules.items()}
        return InjectStatefulHyperparamsState(
            count=jnp.zeros([], jnp.int32),
            hyperparams=hyperparams,
            hyperparams_states=states,
            inner_state=self.inner(hyperparams).init(params),
        )

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, InjectStatefulHyperparamsState)
        dtype = self._dtype(updates if params is None else params)
        hyperparams = {name: _cast(value, dtype) for name, value in state.hyperparams.items()}
        schedules, states = self.schedules, state.hyperparams_states
        hyperparams |= {name: jnp.asarray(_cast(f(states[name], **extra_args), dtype)) for name, f in schedules.items()}
        new_states = {name: f.update(states[name], **extra_args) for name, f in schedules.items()}
        updates, inner_state = self.inner(hyperparams).update(updates, state.inner_state, params, **extra_args)
        return updates, InjectStatefulHyperparamsState(
            count=safe_increment(state.count),  # pyright: ignore[reportArgumentType]
            hyperparams=hyperparams,
            hyperparams_states=new_states,
            inner_state=inner_state,
        )

    def inner(self, hyperparams: Mapping[str, Any]) -> GradientTransformation:
        """The transformation with these values of its numbers and schedules."""
        bound = inspect.signature(self.inner_factory).bind_partial()
        for name, value in self.arguments.items():
            if name in hyperparams:
                value = hyperparams[name]
            elif isinstance(value, FixedArgument):
                value = value.value.tree if isinstance(value.value, StaticTree) else value.value
            bound.arguments[name] = value
        return coerce(self.inner_factory(*bound.args, **bound.kwargs))

    def _dtype(self, tree: Any) -> Any:
        if self.hyperparam_dtype is not None:
            return self.hyperparam_dtype
        return optax.tree.dtype(tree, "highest")


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | jax.Array | np.ndarray | np.generic) and not isinstance(
        value, bool | np.bool_
    )


def _as_stateful(value: Any) -> Any:
    """`value` as a schedule with a state, or None if it is no schedule."""
    if isinstance(value, FixedArgument):
        return value.value if _is_foreign_schedule(value.value) else None
    if isinstance(value, StatefulSchedule) and not isinstance(value, GradientTransformation):
        return value
    return WrappedSchedule(value) if callable(value) else None


def _is_foreign_schedule(value: Any) -> bool:
    """Whether it is an object with upstream's protocol that is no pytree."""
    return isinstance(value, StatefulSchedule) and not isinstance(value, GradientTransformation | type)


def _cast(value: Any, dtype: Any) -> Any:
    """Floats in `dtype`; arrays that have a dtype of their own keep it, and integers stay integers."""
    if isinstance(value, jax.Array) and not getattr(value, "weak_type", False):
        return value
    kind = value.dtype if hasattr(value, "dtype") else type(value)
    return jnp.asarray(value, dtype=dtype) if jnp.issubdtype(kind, jnp.floating) else value


def inject_hyperparams(
    inner_factory: Callable[..., Any],
    static_args: str | Iterable[str] = (),
    hyperparam_dtype: DTypeLike | None = None,
) -> Callable[..., InjectHyperparams]:
    """A factory like `inner_factory` whose numbers live in the state, where they may be changed, or are schedules.

    Args:
        inner_factory: makes a transformation from hyperparameters: a class of ours, a function, one of Optax's.
        static_args: names of the parameters that are neither numbers nor schedules though they look like it:
            functions, and integers that decide shapes. Not needed for a class of ours, which knows them.
        hyperparam_dtype: dtype of floating hyperparameters in the state; by default the widest of the params.
    """
    names = {static_args} if isinstance(static_args, str) else set(static_args)
    signature = inspect.signature(inner_factory)
    if not names <= set(signature.parameters):
        raise ValueError(
            f"inject_hyperparams: static_args must name parameters of {_name(inner_factory)}, "
            f"got {sorted(names - set(signature.parameters))}; it has {list(signature.parameters)}"
        )
    ours = _class_of_ours(inner_factory)
    converters = _static_converters(ours)

    @functools.wraps(inner_factory, updated=())
    def factory(*args: Any, **kwargs: Any) -> InjectHyperparams:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = {}
        for name, value in bound.arguments.items():
            if name in converters:
                value = FixedArgument(converters[name](name, value))
            elif name in names or not _is_dynamic(value, ours):
                value = fix(name, value)
            arguments[name] = value
        return InjectHyperparams(inner_factory, arguments, hyperparam_dtype)

    return factory


def inject_stateful_hyperparams(
    inner_factory: Callable[..., Any],
    static_args: str | Iterable[str] = (),
    hyperparam_dtype: DTypeLike | None = None,
) -> Callable[..., InjectHyperparams]:
    """The old name of `inject_hyperparams`.

    Args:
        inner_factory: see there.
        static_args: see there.
        hyperparam_dtype: see there.
    """
    warnings.warn("inject_stateful_hyperparams is deprecated; use inject_hyperparams", DeprecationWarning, stacklevel=2)
    return inject_hyperparams(inner_factory, static_args, hyperparam_dtype)


def _name(factory: Any) -> str:
    return getattr(factory, "__name__", type(factory).__name__)


def _class_of_ours(factory: Any) -> type | None:
    while isinstance(factory, functools.partial):
        factory = factory.func
    return factory if inspect.isclass(factory) and issubclass(factory, AbstractHyperparameters) else None


def _static_converters(ours: Any) -> dict[str, Callable[[str, Any], Any]]:
    """The static parameters of a class of ours, and what each does to its argument."""
    fields = dataclasses.fields(ours) if ours else ()
    return {f.name: f.metadata["convert"] for f in fields if not f.metadata.get("pytree_node", True)}


def _is_dynamic(value: Any, ours: type | None) -> bool:
    """Whether an argument is a number, a schedule that is or becomes a pytree, or holds hyperparameters of its own."""
    if value is None or is_number(value) or isinstance(value, AbstractHyperparameters):
        return True
    if callable(value):
        return not (is_leaf(value) and _is_foreign_schedule(value))
    leaves = jax.tree.leaves(value, is_leaf=lambda x: isinstance(x, AbstractHyperparameters))
    if ours and leaves and all(map(is_number, leaves)):
        return True
    return any(isinstance(leaf, AbstractHyperparameters | jax.Array) for leaf in leaves)


def fix(name: str, value: Any) -> FixedArgument:
    """`value` as a hashable part of the program, trees included."""
    try:
        return FixedArgument(as_static(name, value))
    except TypeError:
        return FixedArgument(StaticTree.of(value, name))
