"""Differentially private gradients: clipped example by example, averaged, with noise."""

from typing import final

import jax
from optax import per_example_global_norm_clip

from pytreeopt.base import AbstractChain, Numeric, ScalarOrSchedule
from pytreeopt.errors import StructureError, require_state
from pytreeopt.fields import static
from pytreeopt.states import DifferentiallyPrivateAggregateState
from pytreeopt.transforms.accumulate import Trace
from pytreeopt.transforms.noise import AbstractNoise, fresh_key
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.stateless import Identity


@final
class DifferentiallyPrivateAggregate(AbstractNoise):
    r"""Averages the gradients of single examples, each clipped to a norm, and adds Gaussian noise.

    $$ u = \frac1B \left( \sum_{i=1}^B g_i \min\left(1, \frac{C}{\lVert g_i \rVert}\right) + \sigma C\, \xi \right),
    \qquad \xi \sim \mathcal N(0, 1) $$

    The first axis of every leaf of the updates is the batch of $B$ examples; params have no such axis, so it stands
    first in a chain. Changing `key` after `init` has no effect.

    Args:
        l2_norm_clip: $C$, greatest norm of an example's gradient, positive.
        noise_multiplier: $\sigma$, ratio of the noise's deviation to $C$, not negative.
        key: key of the noise, or an integer seed; frozen into the state at init. None warns and is 0.
        seed: deprecated: an integer that stands for `key`; only one of the two may be given.

    References:
        Abadi et al., Deep Learning with Differential Privacy, 2016, https://arxiv.org/abs/1607.00133
    """

    l2_norm_clip: Numeric
    noise_multiplier: Numeric
    key: jax.Array | int | None = None
    seed: int | None = static(None, kw_only=True)

    def init(self, params):
        key = self.seed if self.key is None else self.key
        return DifferentiallyPrivateAggregateState(rng_key=fresh_key(0 if key is None else key))

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, DifferentiallyPrivateAggregateState)
        leaves, treedef = jax.tree.flatten(updates)
        sizes = {leaf.shape[:1] for leaf in leaves}
        if len(sizes) != 1 or () in sizes:
            shapes = ", ".join(str(leaf.shape) for leaf in leaves) or "no leaves"
            raise StructureError(f"needs the gradients of single examples, one batch axis first, got {shapes}")
        ((batch_size,),) = sizes
        deviation = self.l2_norm_clip * self.noise_multiplier
        clipped, _ = per_example_global_norm_clip(leaves, self.l2_norm_clip)
        rng_key, *keys = jax.random.split(state.rng_key, len(leaves) + 1)
        noised = [
            (g + deviation * jax.random.normal(key, g.shape, g.dtype)) / batch_size
            for g, key in zip(jax.tree.leaves(clipped), keys, strict=True)
        ]
        return treedef.unflatten(noised), DifferentiallyPrivateAggregateState(rng_key=rng_key)


@final
class DPSGD(AbstractChain):
    r"""Gradient descent on differentially private gradients.

    For training on data about people; what privacy it buys depends on the noise, the sampling and the number of
    steps, and is computed elsewhere. Updates are the gradients of single examples, the batch axis first.

    $$ \theta_t = \theta_{t-1} - \eta_t\, v_t, \qquad v_t = u_t + \mu\, v_{t-1}, \quad
    u_t \text{ as in `DifferentiallyPrivateAggregate`} $$

    Changing `seed` after `init` has no effect.

    Args:
        learning_rate: $\eta$, a number or a schedule.
        l2_norm_clip: $C$, greatest norm of an example's gradient, positive.
        noise_multiplier: $\sigma$, ratio of the noise's deviation to $C$, not negative.
        seed: an integer, or a key; frozen into the state at init.
        momentum: $\mu$ of `Trace`, in [0, 1); None stores no momentum.
        nesterov: look one step ahead; only with momentum.

    References:
        Abadi et al., Deep Learning with Differential Privacy, 2016, https://arxiv.org/abs/1607.00133
    """

    learning_rate: ScalarOrSchedule
    l2_norm_clip: Numeric
    noise_multiplier: Numeric
    seed: jax.Array | int
    momentum: Numeric | None = None
    nesterov: bool = static(False)

    @property
    def chain(self):
        private = DifferentiallyPrivateAggregate(self.l2_norm_clip, self.noise_multiplier, self.seed)
        momentum = Identity() if self.momentum is None else Trace(self.momentum, self.nesterov)
        return private, momentum, ScaleByLearningRate(self.learning_rate)


differentially_private_aggregate, dpsgd = DifferentiallyPrivateAggregate, DPSGD
