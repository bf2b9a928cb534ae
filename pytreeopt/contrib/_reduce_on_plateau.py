"""A smaller step once the loss stops to fall."""

from typing import final

import jax
import jax.numpy as jnp
import optax
from optax import safe_increment

from pytreeopt.base import GradientTransformation, Numeric
from pytreeopt.errors import MissingArgumentError, require_state
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import like, require_inexact
from pytreeopt.states import ReduceLROnPlateauState


@final
class ReduceOnPlateau(GradientTransformation):
    r"""Multiplies the updates by a scale that falls whenever a loss has not improved for a while.

    The average of `accumulation_size` losses has improved if it is below
    $(1 - \mathrm{rtol})\, \mathrm{best} - \mathrm{atol}$. After `patience` averages without, the scale becomes
    $\max(\mathrm{scale} \cdot \mathrm{factor}, \mathrm{min\_scale})$, and `cooldown` averages pass before it counts
    again. `update` needs the loss, `value=`. Numbers that are only compared have derivative zero.

    Args:
        factor: multiplies the scale, in (0, 1), else ValueError; a traced number is not checked.
        patience: number of averages without improvement, at least 1.
        rtol: relative improvement that counts, in [0, 1], else ValueError; not 0 together with `atol`.
        atol: absolute improvement that counts, not negative, else ValueError.
        cooldown: number of averages to wait after a reduction.
        accumulation_size: number of losses in an average, at least 1.
        min_scale: the least scale.
    """

    factor: Numeric = 0.1
    patience: Numeric = 10
    rtol: Numeric = 1e-4
    atol: Numeric = 0.0
    cooldown: Numeric = 0
    accumulation_size: Numeric = 1
    min_scale: Numeric = 0.0

    def __post_init__(self):
        super().__post_init__()
        if not self._holds_placeholders():
            self._check_values()

    def _check_values(self) -> None:
        name = type(self).__name__
        factor, rtol, atol = (x if isinstance(x, int | float) else None for x in (self.factor, self.rtol, self.atol))
        if factor is not None and not 0.0 < factor < 1.0:
            raise ValueError(f"{name}: factor must be in (0, 1), got {factor}")
        if rtol is not None and not 0.0 <= rtol <= 1.0:
            raise ValueError(f"{name}: rtol must be in [0, 1], got {rtol}")
        if atol is not None and not atol >= 0.0:
            raise ValueError(f"{name}: atol must not be negative, got {atol}")
        if rtol == 0.0 and atol == 0.0:
            raise ValueError(f"{name}: rtol or atol must be positive, got 0 for both")

    def init(self, params):
        self._check_values()
        require_inexact(params)
        lowest, highest = optax.tree.dtype(params, "lowest"), optax.tree.dtype(params, "highest")
        plateau_count, cooldown_count, count = (jnp.zeros([], jnp.int32) for _ in range(3))
        return ReduceLROnPlateauState(
            scale=jnp.array(1.0, lowest),
            best_value=jnp.array(float("inf"), highest),
            plateau_count=plateau_count,
            cooldown_count=cooldown_count,
            count=count,
            avg_value=jnp.array(0.0, highest),
        )

    def update(self, updates, state, params=None, *, value, **extra_args):
        self._check_values()
        state = require_state(state, ReduceLROnPlateauState)
        if value is None:
            raise MissingArgumentError("needs the loss, got None; call update(grads, state, params, value=loss)")
        count = safe_increment(state.count)
        average = (state.count * state.avg_value + jnp.astype(value, state.avg_value.dtype)) / count
        state = state._replace(avg_value=like(average, state.avg_value), count=count)
        state = jax.lax.cond(count == self.accumulation_size, self._judge, lambda state: state, state)
        scale = state.scale
        return leafwise(lambda g: scale * g, updates), state

    def _judge(self, state):
        """The state after a complete average."""
        average = state.avg_value
        improved = average < (1 - self.rtol) * state.best_value - self.atol
        waited = jnp.where(improved, 0, safe_increment(state.plateau_count))
        reduce = waited == self.patience
        cooling = state.cooldown_count > 0

        def cool():
            return jnp.zeros([], jnp.int32), state.scale, state.cooldown_count - 1

        def watch():
            scale = jnp.maximum(jnp.where(reduce, state.scale * self.factor, state.scale), self.min_scale)
            cooldown = jnp.where(reduce, self.cooldown, 0).astype(jnp.int32)
            return jnp.where(reduce, 0, waited), like(scale, state.scale), cooldown

        plateau_count, scale, cooldown_count = jax.lax.cond(cooling, cool, watch)
        return ReduceLROnPlateauState(
            scale=scale,
            best_value=jnp.where(improved, average, state.best_value),
            plateau_count=plateau_count,
            cooldown_count=cooldown_count,
            count=jnp.zeros([], jnp.int32),
            avg_value=jnp.zeros([], average.dtype),
        )


reduce_on_plateau = ReduceOnPlateau
