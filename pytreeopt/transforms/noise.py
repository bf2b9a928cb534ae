"""Gaussian noise on the updates."""

import functools
import inspect
import warnings
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
import optax

from pytreeopt.base import GradientTransformation, Numeric
from pytreeopt.errors import require_state
from pytreeopt.fields import called_by_user, static
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import sqrt
from pytreeopt.states import AddNoiseState

_signature = functools.cache(inspect.signature)


class AbstractNoise(GradientTransformation):
    """What takes a `key`, or the deprecated `seed`: it warns a user who gives no key. Subclasses have both fields."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if called_by_user(cls, args, kwargs):
            given = _signature(cls.__init__).bind(None, *args, **kwargs).arguments
            if given.get("seed") is not None:
                warnings.warn(f"{cls.__name__}: `seed` is deprecated, use `key`", DeprecationWarning, stacklevel=2)
            elif given.get("key") is None:
                warnings.warn(f"{cls.__name__}: got no `key`, the noise is that of key=0", UserWarning, stacklevel=2)
        return super().__new__(cls, *args, **kwargs)

    def __post_init__(self):
        super().__post_init__()
        if vars(self)["key"] is not None and vars(self)["seed"] is not None:
            raise ValueError(f"{type(self).__name__}: give key or seed, not both")


@final
class AddNoise(AbstractNoise):
    r"""Adds Gaussian noise whose variance fades.

    $$ u_t = g_t + \sigma_t\, \xi_t, \qquad \xi_t \sim \mathcal N(0, 1), \qquad \sigma_t^2 = \eta / t^\gamma $$

    A member of a population has its own noise if it has its own key. Changing `key` after `init` has no effect.

    Args:
        eta: $\eta$, variance of the noise at the first step, not negative.
        gamma: $\gamma$, power with which the variance fades, not negative.
        key: key of the noise, or an integer seed; frozen into the state at init. None warns and is 0.
        seed: deprecated: an integer that stands for `key`; only one of the two may be given.

    References:
        Neelakantan et al., Adding Gradient Noise Improves Learning for Very Deep Networks, 2015,
        https://arxiv.org/abs/1511.06807
    """

    eta: Numeric
    gamma: Numeric
    key: jax.Array | int | None = None
    seed: int | None = static(None, kw_only=True)

    def init(self, params):
        key = self.seed if self.key is None else self.key
        return AddNoiseState(count=jnp.zeros([], jnp.int32), rng_key=fresh_key(0 if key is None else key))

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, AddNoiseState)
        count = jnp.asarray(optax.safe_increment(state.count))
        deviation = sqrt(self.eta / count**self.gamma)
        rng_key, sample_key = jax.random.split(state.rng_key)
        noise = optax.tree.random_like(sample_key, updates, jax.random.normal)
        out = leafwise(lambda g, xi: g + deviation * xi, updates, noise)
        return out, AddNoiseState(count=count, rng_key=rng_key)


def fresh_key(key: Any) -> jax.Array:
    """A typed key that shares no buffer with the optimizer's: the state may be donated."""
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return jnp.copy(key)
    if isinstance(key, jax.Array | np.ndarray) and key.ndim and key.dtype == jnp.uint32:  # jax.random.PRNGKey's
        return jax.random.wrap_key_data(jnp.copy(key))
    return jax.random.key(key)


add_noise = AddNoise
