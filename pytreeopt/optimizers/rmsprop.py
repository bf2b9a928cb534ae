"""RMSProp: gradients divided by the root of their average square, or of their variance."""

from typing import Any, final

import jax
import jax.numpy as jnp
import optax

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.errors import require_state
from pytreeopt.fields import static
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import (
    abs_sq,
    bias_correction,
    divide_by_root,
    full_like,
    keep_dtype,
    one_where_zero,
    update_moment,
    update_moment_per_elem_norm,
    vanishes,
    zeros_like,
)
from pytreeopt.states import (
    ScaleByRmsState,
    ScaleByRmsWithCountState,
    ScaleByRStdDevState,
    ScaleByRStdDevWithCountState,
)
from pytreeopt.transforms.accumulate import Trace
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.stateless import Identity


@final
class ScaleByRms(GradientTransformation):
    r"""Divides by the root of an average squared gradient.

    $$ v_t = (1-d)\, |g_t|^2 + d\, v_{t-1}, \qquad u_t = g_t \Big/ \sqrt{\hat v_t + \epsilon}
    \;\text{ or }\; g_t \Big/ \left( \sqrt{\hat v_t} + \epsilon \right) $$

    $\hat v_t$ is $v_t$, or $v_t / (1 - d^t)$ with bias correction. Where the divisor is 0, as at a zero gradient in
    float16, the gradient is left alone. Changing `initial_scale` after `init` has no effect.

    Args:
        decay: $d$, in [0, 1).
        eps: $\epsilon$, positive.
        initial_scale: $v_0$, not negative; frozen into the state at init.
        eps_in_sqrt: add $\epsilon$ inside the root.
        bias_correction: divide the average by $1 - d^t$; the state then counts the steps.

    References:
        Hinton, Overview of mini-batch gradient descent, 2012,
        https://www.cs.toronto.edu/~tijmen/csc321/slides/lecture_slides_lec6.pdf
    """

    decay: Numeric = 0.9
    eps: Numeric = 1e-8
    initial_scale: Numeric = 0.0
    eps_in_sqrt: bool = static(True)
    bias_correction: bool = static(False)

    def init(self, params):
        nu = full_like(params, self.initial_scale)
        if self.bias_correction:
            return ScaleByRmsWithCountState(count=jnp.zeros([], jnp.int32), nu=nu)
        return ScaleByRmsState(nu=nu)

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleByRmsWithCountState if self.bias_correction else ScaleByRmsState)
        nu = nu_hat = update_moment_per_elem_norm(updates, state.nu, self.decay, 2)
        kept = keep_dtype(nu, state.nu)
        if isinstance(state, ScaleByRmsWithCountState):
            count = optax.safe_increment(state.count)
            nu_hat = bias_correction(nu, self.decay, count)
            state = ScaleByRmsWithCountState(count=count, nu=kept)
        else:
            state = ScaleByRmsState(nu=kept)

        def divide(g, v):
            if self.eps_in_sqrt:
                return _rsqrt(v + self.eps, self.eps) * g
            return divide_by_root(1, v, self.eps) * g

        return leafwise(divide, updates, nu_hat), state


@final
class ScaleByStddev(GradientTransformation):
    r"""Divides by the standard deviation of the gradient, from two averages.

    $$ m_t = (1-d)\, g_t + d\, m_{t-1}, \quad v_t = (1-d)\, |g_t|^2 + d\, v_{t-1}, \quad
    u_t = g_t \Big/ \sqrt{\hat v_t - |\hat m_t|^2 + \epsilon}
    \;\text{ or }\; g_t \Big/ \left( \sqrt{\hat v_t - |\hat m_t|^2} + \epsilon \right) $$

    $\hat m_t, \hat v_t$ are $m_t, v_t$, or those over $1 - d^t$ with bias correction. A variance that rounding makes
    negative counts as 0. Changing `initial_scale` after `init` has no effect.

    Args:
        decay: $d$, in [0, 1).
        eps: $\epsilon$, positive.
        initial_scale: $v_0$, not negative; frozen into the state at init.
        eps_in_sqrt: add $\epsilon$ inside the root.
        bias_correction: divide both averages by $1 - d^t$; the state then counts the steps.

    References:
        Graves, Generating Sequences With Recurrent Neural Networks, 2013, https://arxiv.org/abs/1308.0850
    """

    decay: Numeric = 0.9
    eps: Numeric = 1e-8
    initial_scale: Numeric = 0.0
    eps_in_sqrt: bool = static(True)
    bias_correction: bool = static(False)

    def init(self, params):
        mu, nu = zeros_like(params), full_like(params, self.initial_scale)
        if self.bias_correction:
            return ScaleByRStdDevWithCountState(count=jnp.zeros([], jnp.int32), mu=mu, nu=nu)
        return ScaleByRStdDevState(mu=mu, nu=nu)

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, ScaleByRStdDevWithCountState if self.bias_correction else ScaleByRStdDevState)
        mu = mu_hat = update_moment(updates, state.mu, self.decay, 1)
        nu = nu_hat = update_moment_per_elem_norm(updates, state.nu, self.decay, 2)
        kept = {"mu": keep_dtype(mu, state.mu), "nu": keep_dtype(nu, state.nu)}
        if isinstance(state, ScaleByRStdDevWithCountState):
            count = optax.safe_increment(state.count)
            mu_hat, nu_hat = bias_correction(mu, self.decay, count), bias_correction(nu, self.decay, count)
            state = ScaleByRStdDevWithCountState(count=count, **kept)
        else:
            state = ScaleByRStdDevState(**kept)

        def divide(g, m, v):
            variance = v - abs_sq(m)
            if self.eps_in_sqrt:
                radicand = variance + self.eps
                if not jnp.iscomplexobj(radicand):
                    radicand = jnp.where(radicand < 0, self.eps, radicand)
                return _rsqrt(radicand, self.eps) * g
            return divide_by_root(1, _not_negative(variance), self.eps) * g

        return leafwise(divide, updates, mu_hat, nu_hat), state


def _rsqrt(radicand: Any, eps: Any) -> Any:
    """One over the root; 1 where that is 1/0 since `eps` rounds to 0."""
    return jax.lax.rsqrt(one_where_zero(radicand, vanishes(eps, radicand.dtype)))


def _not_negative(x: Any) -> Any:
    return x if jnp.iscomplexobj(x) else jnp.maximum(x, 0)


@final
class RMSProp(AbstractChain):
    r"""RMSProp: gradient descent with a step size for each weight, from the gradients' recent size.

    For recurrent networks and reinforcement learning, by tradition; elsewhere `Adam` is the safer choice.

    $$ \theta_t = \theta_{t-1} - v_t, \qquad v_t = \eta_t\, u_t + \mu\, v_{t-1},
    \qquad u_t \text{ as in `ScaleByRms` or `ScaleByStddev`} $$

    Changing `initial_scale` after `init` has no effect.

    Args:
        learning_rate: $\eta$, a number or a schedule.
        decay: $d$, decay of the averages, in [0, 1).
        eps: $\epsilon$, positive.
        initial_scale: first value of the average square, not negative (PyTorch: 0, TensorFlow 1: 1); frozen into the
            state at init.
        eps_in_sqrt: add $\epsilon$ inside the root; PyTorch adds it outside.
        centered: divide by the standard deviation of the gradients instead of their root mean square.
        momentum: $\mu$, in [0, 1), or None: no momentum is stored.
        nesterov: look one step ahead; only with momentum.
        bias_correction: divide the averages by $1 - d^t$.

    References:
        Hinton, Overview of mini-batch gradient descent, 2012,
        https://www.cs.toronto.edu/~tijmen/csc321/slides/lecture_slides_lec6.pdf
        Graves, Generating Sequences With Recurrent Neural Networks, 2013, https://arxiv.org/abs/1308.0850
    """

    learning_rate: ScalarOrSchedule
    decay: Numeric = 0.9
    eps: Numeric = 1e-8
    initial_scale: Numeric = 0.0
    eps_in_sqrt: bool = static(True)
    centered: bool = static(False)
    momentum: Numeric | None = None
    nesterov: bool = static(False)
    bias_correction: bool = static(False)

    @property
    def chain(self):
        scaling = ScaleByStddev if self.centered else ScaleByRms
        momentum = Identity() if self.momentum is None else Trace(self.momentum, self.nesterov)
        return scaling.of(self), ScaleByLearningRate(self.learning_rate), momentum


scale_by_rms, scale_by_stddev, rmsprop = ScaleByRms, ScaleByStddev, RMSProp
