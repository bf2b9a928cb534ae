"""Measurements of the updates on their way through a chain."""

from collections.abc import Callable, Mapping
from typing import Any, final

import jax

from pytreeopt.base import AbstractStateless, GradientTransformation, PyTree, coerce
from pytreeopt.combinators.agreement import filled, with_dtypes
from pytreeopt.combinators.named import named_children
from pytreeopt.errors import WrongStateError, require_state
from pytreeopt.fields import Named, is_leaf, static
from pytreeopt.states import EmptyState, MonitorState


@final
class Measure(AbstractStateless):
    """A function of the updates as a measure. No leaves; equal when the function is the same object.

    Args:
        function: maps the updates to a measurement.
    """

    function: Callable[[PyTree], Any] = static()

    def transform(self, updates, params):
        return self.function(updates)


@final
class Monitor(GradientTransformation):
    """Measures the updates and passes them on; `state.measurements` has what was measured last, by name.

    It is empty until the first update, as in Optax, which changes the structure of the state then. To carry the
    state through `lax.scan`, begin with `init_filled(opt, params)`.

    Args:
        measures: mapping from name to a function of the updates, or to a transformation whose updates are the
            measurement and whose state is kept (an average, say).
    """

    measures: Mapping[str, GradientTransformation | Callable[[PyTree], Any]]

    def __post_init__(self):
        super().__post_init__()
        if isinstance(self.measures, Mapping):
            vars(self)["measures"] = named_children(Named.of(self.measures).map(_as_measure))

    def init(self, params):
        measures = self.measures.values()
        return MonitorState({}, tuple(EmptyState() if callable(m) else coerce(m).init(params) for m in measures))

    def update(self, updates, state, params=None, **extra_args):
        old, states = require_state(state, MonitorState)
        if len(states) != len(self.measures):
            raise WrongStateError(f"has {len(self.measures)} measures, got {len(states)} states")
        measurements, new_states = {}, []
        for (name, measure), measure_state in zip(self.measures.items(), states, strict=True):
            if callable(measure):  # a callable pytree, which stays a subtree
                measurements[name] = measure(updates)
            else:
                measurements[name], measure_state = coerce(measure).update(updates, measure_state, params, **extra_args)
            if name in old:
                measurements[name] = with_dtypes(measurements[name], old[name])
            new_states.append(measure_state)
        return updates, MonitorState(measurements, tuple(new_states))


def _as_measure(measure: Any) -> Any:
    return Measure(measure) if callable(measure) and is_leaf(measure) else measure


def init_filled(opt: Any, params: PyTree, **extra_args: Any) -> PyTree:
    """`opt.init(params)` in the structure that the state has after the first update, with zeros for what is new.

    Only a `Monitor`, at any depth, makes a difference. `extra_args` are those of `update`.
    """
    opt = coerce(opt)
    state = opt.init(params)
    _, after = jax.eval_shape(lambda: opt.update(params, state, params, **extra_args))
    return filled(state, after)


monitor = Monitor
