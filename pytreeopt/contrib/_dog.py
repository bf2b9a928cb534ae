"""DoG: the distance travelled over the gradients met, as a learning rate."""

from typing import Any, final

import flax.serialization
import jax
import jax.numpy as jnp
import optax

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule, as_dynamic
from pytreeopt.errors import require_params, require_state
from pytreeopt.fields import static_tree
from pytreeopt.leafwise import leafwise
from pytreeopt.numerics import copy, like, norm, one_where_zero, require_inexact, sqrt
from pytreeopt.states import DoGState
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.stateless import Identity
from pytreeopt.transforms.weight_decay import AddDecayedWeights

KINDS = ("distance", "learning_rate", "heuristic")


@jax.tree_util.register_pytree_with_keys_class
class InitStep(tuple):
    """The pair (kind, value) of DoG's first step: the kind is part of the program, the value is a leaf."""

    __slots__ = ()

    @classmethod
    def of(cls, given: Any) -> Any:
        """From a pair with a kind; anything else (a placeholder put in by JAX, say) is left alone."""
        if isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[0], str):
            kind, value = given
            if kind not in KINDS:
                raise ValueError(f"init_step must be one of {', '.join(KINDS)} and a number, got {kind!r}")
            return cls((kind, as_dynamic("init_step", value)))
        return given

    def __reduce__(self):
        return InitStep, (tuple(self),)

    def tree_flatten_with_keys(self):
        return ((jax.tree_util.SequenceKey(1), self[1]),), self[0]

    def tree_flatten(self):
        return (self[1],), self[0]

    @classmethod
    def tree_unflatten(cls, kind, children):
        return cls((kind, *children))


flax.serialization.register_serialization_state(
    InitStep,
    lambda step: {"0": step[0], "1": step[1]},
    lambda step, state: InitStep((state["0"], state["1"])),
)


@final
class ScaleByDoG(GradientTransformation):
    r"""Multiplies the updates by DoG's step size, see `DoG`.

    `init` freezes the parameters and `init_step` into the state.

    Args:
        init_step: pair of a kind and a number: "distance" gives $r_0$, "heuristic" gives
            $r_0 / (1 + \lVert x_0 \rVert)$, "learning_rate" gives $\eta_0$ (which `update` reads).
        eps: $\epsilon$, added to the sum of squared norms, positive.

    References:
        Ivgi et al., DoG is SGD's Best Friend: A Parameter-Free Dynamic Step Size Schedule, 2023,
        https://arxiv.org/abs/2302.12022
    """

    init_step: tuple[str, Numeric]
    eps: Numeric = 1e-8

    def __post_init__(self):
        super().__post_init__()
        vars(self)["init_step"] = InitStep.of(self.init_step)

    def init(self, params):
        require_inexact(params)
        dtype = optax.tree.dtype(params, "lowest")
        kind, value = self.init_step
        distance = {
            "distance": lambda: value,
            "heuristic": lambda: value * (1 + norm(params)),
            "learning_rate": lambda: 0.0,
        }[kind]()
        return DoGState(
            is_init_step=jnp.array(True),
            init_params=copy(params),
            max_dist=jnp.array(distance, dtype),
            sum_sq_norm_grads=jnp.array(0.0, dtype),
        )

    def update(self, updates, state, params=None, **extra_args):
        params = require_params(params)
        state = require_state(state, DoGState)
        distance = norm(leafwise(lambda x0, x: x0 - x, state.init_params, params))
        max_dist = like(jnp.maximum(state.max_dist, distance), state.max_dist)
        total = state.sum_sq_norm_grads + optax.tree.norm(updates, squared=True)
        total = like(total, state.sum_sq_norm_grads)
        radicand = total + self.eps
        if radicand.dtype == jnp.float16:  # in which eps is 0
            radicand = one_where_zero(radicand)
        rate = max_dist / sqrt(radicand)
        kind, value = self.init_step
        if kind == "learning_rate":
            rate = jnp.where(state.is_init_step, value, rate)
        return leafwise(lambda g: rate * g, updates), DoGState(
            is_init_step=jnp.array(False),
            init_params=state.init_params,
            max_dist=max_dist,
            sum_sq_norm_grads=total,
        )


@final
class DoG(AbstractChain):
    r"""Distance over gradients: gradient descent that needs no learning rate.

    To be combined with an average of the iterates, as its authors advise.

    $$ \bar r_t = \max_{k \le t} \lVert x_k - x_0 \rVert, \quad G_t = \sum_{k \le t} \lVert g_k \rVert^2, \quad
    x_{t+1} = x_t - \eta_t \frac{\bar r_t}{\sqrt{G_t + \epsilon}}\, g_t $$

    `init` freezes the parameters and `init_step` into the state.

    Args:
        learning_rate: $\eta$, a number or a schedule, 1 as a rule.
        init_step: pair of a kind and a number: "distance" gives $r_0$, "heuristic" gives
            $r_0 / (1 + \lVert x_0 \rVert)$, "learning_rate" gives the first step size. Small: the first
            step must not diverge.
        eps: $\epsilon$, added to the sum of squared norms, positive.
        weight_decay: a number or a schedule, not decoupled; None leaves it out.
        mask: tree of bools, or function of the params that makes one: where true, weights decay.

    References:
        Ivgi et al., DoG is SGD's Best Friend: A Parameter-Free Dynamic Step Size Schedule, 2023,
        https://arxiv.org/abs/2302.12022
    """

    learning_rate: ScalarOrSchedule = 1.0
    init_step: tuple[str, Numeric] = ("heuristic", 1e-6)
    eps: Numeric = 1e-8
    weight_decay: ScalarOrSchedule | None = None
    mask: Any = static_tree(None)

    def __post_init__(self):
        super().__post_init__()
        vars(self)["init_step"] = InitStep.of(self.init_step)

    @property
    def chain(self):
        decay = Identity() if self.weight_decay is None else AddDecayedWeights.of(self)
        return decay, ScaleByDoG.of(self), ScaleByLearningRate.of(self, flip_sign=True)


dog = DoG
