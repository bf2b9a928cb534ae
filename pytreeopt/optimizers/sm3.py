"""SM3: Adagrad with one accumulator for each row, column, and other slice."""

import functools
from typing import Any, final

import jax
import jax.numpy as jnp

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric
from pytreeopt.errors import ComplexParamsError, require_state
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import inverse_root, keep_dtype, update_moment, zeros_like
from pytreeopt.states import ScaleBySM3State
from pytreeopt.transforms.scale import Scale


@final
class ScaleBySM3(GradientTransformation):
    r"""SM3's direction: the average of gradients over the root of accumulated squares, kept per slice of each axis.

    $$ \nu_t = c\, g_t^2 + \beta_2 \min_i \mu^{(i)}_{t-1}, \quad \mu^{(i)}_t = \max_{j \ne i} \nu_t, \quad
    u_t = (1-\beta_1)\, \frac{g_t}{\sqrt{\nu_t + \epsilon}} + \beta_1 u_{t-1}, \quad
    c = 1-\beta_2 \text{, or 1 for } \beta_2 = 1 $$

    where $\mu^{(i)}$ has one number for each index of axis $i$, the minimum is over the slices that an element lies
    in, and the maximum over the other axes. Vectors and scalars have one accumulator for each element.

    Args:
        b1: $\beta_1$, decay of the average direction, in [0, 1).
        b2: $\beta_2$, decay of the accumulators, in (0, 1]; 1 sums up, as Adagrad does. The rule jumps at 1, so no
            derivative there tells of smaller values.
        eps: $\epsilon$, added inside the root, positive.

    References:
        Anil et al., Memory-Efficient Adaptive Optimization, 2019, https://arxiv.org/abs/1901.11150
    """

    b1: Numeric = 0.9
    b2: Numeric = 1.0
    eps: Numeric = 1e-8

    def init(self, params):
        if any(map(jnp.iscomplexobj, jax.tree.leaves(params))):
            raise ComplexParamsError("needs real params, got complex ones; wrap it in split_real_and_imaginary(...)")
        nu = zeros_like(params)
        return ScaleBySM3State(mu=jax.tree.map(_accumulators, params), nu=nu)

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleBySM3State)
        b2, eps = self.b2, self.eps
        if isinstance(b2, float | int):
            weight = 1.0 - b2 if b2 != 1.0 else 1.0
        else:
            weight = jnp.where(b2 == 1.0, 1.0, 1.0 - b2)

        def accumulate(g, slices):
            if g.ndim < 2:
                least = slices[0]
            else:
                least = functools.reduce(jnp.minimum, map(functools.partial(_along, g.ndim), range(g.ndim), slices))
            return weight * g**2 + b2 * least

        squares = leafwise(accumulate, updates, state.mu)
        factor = leafwise(lambda t: inverse_root(t, eps), squares)
        direction = leafwise(lambda g, a: g * a, updates, factor)
        nu = update_moment(direction, state.nu, self.b1, 1)
        mu = leafwise(_slices, squares)
        return nu, ScaleBySM3State(mu=keep_dtype(mu, state.mu), nu=keep_dtype(nu, state.nu))


def _accumulators(param: Any) -> list[Any]:
    """Zeros for each axis, by way of a sum, so that a sharded leaf gives sharded accumulators; one for a scalar."""
    if param.ndim == 0:
        return [jnp.zeros_like(param)]
    axes = range(param.ndim)
    others = [tuple(other for other in axes if other != axis) for axis in axes]
    return [jnp.zeros_like(jax.eval_shape(functools.partial(jnp.sum, axis=axis), param)) for axis in others]


def _along(rank: int, axis: int, values: Any) -> Any:
    """A vector along one axis of an array of that rank."""
    return jnp.reshape(values, [1] * axis + [-1] + [1] * (rank - axis - 1))


def _slices(squares: Any) -> list[Any]:
    """The greatest element of each slice, axis by axis."""
    if squares.ndim < 2:
        return [squares]
    axes = range(squares.ndim)
    return [jnp.max(squares, axis=[other for other in axes if other != axis]) for axis in axes]


@final
class SM3(AbstractChain):
    r"""SM3: Adagrad with momentum in the memory of rows and columns.

    For huge embeddings whose optimizer state must be small; like Adagrad it slows down on long runs.

    $$ \theta_t = \theta_{t-1} - \eta\, u_t, \qquad u_t \text{ as in `ScaleBySM3` with } \beta_2 = 1 $$

    Args:
        learning_rate: $\eta$, a number; no schedule.
        momentum: $\beta_1$, decay of the average direction, in [0, 1).

    References:
        Anil et al., Memory-Efficient Adaptive Optimization, 2019, https://arxiv.org/abs/1901.11150
    """

    learning_rate: Numeric
    momentum: Numeric = 0.9

    @property
    def chain(self):
        return ScaleBySM3(self.momentum), Scale(-self.learning_rate)


scale_by_sm3, sm3 = ScaleBySM3, SM3
