"""Distance over gradients: a step size for each leaf without a learning rate."""

from typing import final

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from pytreeopt.base import GradientTransformation, Numeric
from pytreeopt.errors import require_params, require_state
from pytreeopt.fields import static_dtype
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import in_precision_of, one_where_zero, require_inexact, sqrt
from pytreeopt.states import ScaleByDistanceOverGradientsState


@final
class ScaleByDistanceOverGradients(GradientTransformation):
    r"""Layer-wise DoG: scales each leaf by the greatest distance from its start over the root of its squared gradients.

    $$ d_t = \max(d_{t-1}, \lVert \theta_t - \theta_0 \rVert), \quad
    s_t = s_{t-1} + \lVert g_t \rVert^2, \quad u_t = c\, \frac{d_t}{\sqrt{s_t + \epsilon}}\, g_t, \qquad
    d_0 = r\, (1 + \lVert \theta_0 \rVert) $$

    For training without a tuned learning rate; average the parameters, as the authors advise. The sign of the updates
    is that of `global_scale`: descent needs -1. Changing `reps_rel` or `param_dtype` after `init` has no effect.

    Args:
        reps_rel: $r$, the first step relative to the params, positive; frozen into the state at init.
        eps: $\epsilon$, positive.
        param_dtype: dtype of the stored $\theta_0$; frozen into the state at init.
        global_scale: $c$, factor of the updates.

    References:
        Ivgi et al., DoG is SGD's Best Friend: A Parameter-Free Dynamic Step Size Schedule, 2023,
        https://arxiv.org/abs/2302.12022
    """

    reps_rel: Numeric = 1e-6
    eps: Numeric = 1e-8
    param_dtype: DTypeLike | None = static_dtype(jnp.float32)
    global_scale: Numeric = 1.0

    def init(self, params):
        def distance(x):
            # In the dtype that the distances will have: the state keeps it.
            kept = jnp.result_type(x.dtype, self.param_dtype or x.dtype)
            return (self.reps_rel * (1 + _norm(x - 0.0))).astype(kept)

        require_inexact(params)
        return ScaleByDistanceOverGradientsState(
            max_dist=leafwise(distance, params),
            grad_sum_of_squares=jax.tree.map(lambda x: jnp.zeros(1), params),
            init_params=jax.tree.map(lambda x: jnp.array(x, self.param_dtype or x.dtype, copy=True), params),
        )

    def update(self, updates, state, params=None, **extra_args):
        params = require_params(params)
        state = require_state(state, ScaleByDistanceOverGradientsState)
        max_dist = leafwise(
            lambda d, x, start: jnp.maximum(d, _norm(x - start)), state.max_dist, params, state.init_params
        )
        squares = leafwise(lambda s, g: s + jnp.square(g).sum(), state.grad_sum_of_squares, updates)

        def scale(g, d, s):
            eta = self.global_scale * (d / jnp.sqrt(one_where_zero(s + self.eps)))
            # The sums have shape (1,), which a scalar must not take on, and a dtype of their own.
            return in_precision_of((eta * g).reshape(jnp.shape(g)), g)

        new_state = ScaleByDistanceOverGradientsState(max_dist, squares, state.init_params)
        return leafwise(scale, updates, max_dist, squares), new_state


def _norm(x):
    return sqrt(jnp.square(x).sum())


scale_by_distance_over_gradients = ScaleByDistanceOverGradients
