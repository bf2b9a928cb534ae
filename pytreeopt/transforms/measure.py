"""Measurements of the updates, kept in the state or passed on."""

from collections.abc import Callable
from typing import Any, final

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from pytreeopt.base import GradientTransformation, Numeric
from pytreeopt.errors import WrongStateError, require_state
from pytreeopt.fields import dynamic, static, static_dtype
from pytreeopt.numerics import keep_dtype
from pytreeopt.states import EmptyState, SnapshotState
from pytreeopt.transforms.accumulate import Ema


@final
class Snapshot(GradientTransformation):
    """Leaves the updates as they are and keeps a measurement of them in the state, under a name.

    `optax.tree.get(state, name)` reads it. Before the first update it is the measurement of the params.

    Args:
        measure_name: the name.
        measure: maps the updates to a tree of arrays; compared by identity.
    """

    measure_name: str = static()
    measure: Callable[[Any], Any] = static()

    def init(self, params):
        return SnapshotState({self.measure_name: jax.tree.map(_copy, self.measure(params))})

    def update(self, updates, state, params=None, **extra_args):
        old = require_state(state, SnapshotState).measurement.get(self.measure_name)
        new = jax.tree.map(_copy, self.measure(updates))
        if jax.tree.structure(new) == jax.tree.structure(old) and all(map(_is_array, jax.tree.leaves((new, old)))):
            new = keep_dtype(new, old)
        return updates, SnapshotState({self.measure_name: new})


def _is_array(x: Any) -> bool:
    return isinstance(x, jax.Array)


def _copy(x: Any) -> Any:
    """A measure may return the very buffers that it was given, and the state may be donated."""
    return jnp.copy(x) if _is_array(x) else x


@final
class MeasureWithEma(GradientTransformation):
    r"""Replaces the updates by an exponential moving average of a measurement of them; for `monitor`.

    $$ m_t = (1 - d)\, f(g_t) + d\, m_{t-1}, \qquad u_t = m_t / (1 - d^t) $$

    A measurement of bools or integers is averaged as floats.

    Args:
        measure: $f$, maps the updates to a tree of arrays; compared by identity.
        decay: $d$, in [0, 1).
        debias: divide by $1 - d^t$.
        accumulator_dtype: dtype of the stored average; None keeps that of the measurement.
    """

    measure: Callable[[Any], Any] = static()
    decay: Numeric = dynamic()  # no default: said so for type checkers, which take `static()` for one
    debias: bool = static(True)
    accumulator_dtype: DTypeLike | None = static_dtype(None)

    @property
    def _ema(self) -> Ema:
        return Ema(self.decay, self.debias, self.accumulator_dtype)

    def init(self, params):
        return EmptyState(), self._ema.init(jax.tree.map(_as_float, self.measure(params)))

    def update(self, updates, state, params=None, **extra_args):
        if not isinstance(state, tuple | list) or len(state) != 2:
            raise WrongStateError(f"needs the pair of states that its init returned, got {type(state).__name__}")
        average, ema_state = self._ema.update(jax.tree.map(jnp.asarray, self.measure(updates)), state[1])
        return average, (EmptyState(), ema_state)


def _as_float(x: Any) -> jax.Array:
    x = jnp.asarray(x)
    return x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(float)


snapshot, measure_with_ema = Snapshot, MeasureWithEma
