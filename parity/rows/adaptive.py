"""Rows of the optimizers that scale each coordinate or each layer by what they have seen of it."""

import jax
import jax.numpy as jnp

from parity.row import Loose, Row
from parity.rows.core import MASK, UNTRACED_SCHEDULE, falling, matrices


def without_scalars(params, gradients):
    """Scalars as vectors of one element: upstream's SM3 raises an IndexError at rank 0."""
    return jax.tree.map(jnp.atleast_1d, (params, gradients))


WIDE = ("float32", "bfloat16", "float64")

HALF_SM3 = Loose(
    4e-2, "upstream cannot trace b2; a factor of 1 that the compiler cannot drop rounds once more, and momentum cancels"
)
FROMAGE = Loose(1e-6, "upstream's traced 1/sqrt(1 + lr^2) - 1 cancels in float32; here it does not")

ROWS = {
    # Finite differences need an eps that is not tiny beside their steps.
    "scale_by_belief": Row(lambda o: o.scale_by_belief(eps_root=1e-3), default=True),
    "scale_by_belief, bare": Row(lambda o: o.scale_by_belief()),
    "scale_by_belief, options": Row(lambda o: o.scale_by_belief(0.8, 0.95, 1e-4, 1e-6, nesterov=True)),
    "adabelief": Row(lambda o: o.adabelief(1e-2, eps_root=1e-3), default=True),
    "adabelief, bare": Row(lambda o: o.adabelief(1e-2)),
    "adabelief, options": Row(lambda o: o.adabelief(1e-2, b1=0.8, b2=0.9, eps=1e-4, eps_root=1e-6)),
    "adabelief, nesterov": Row(lambda o: o.adabelief(1e-2, nesterov=True)),
    "adabelief, schedule": Row(lambda o: o.adabelief(o.linear_schedule(1e-1, 1e-3, 5)), untraced=UNTRACED_SCHEDULE),
    "scale_by_adadelta": Row(lambda o: o.scale_by_adadelta(0.8, 1e-3), default=True),
    "scale_by_adadelta, bare": Row(lambda o: o.scale_by_adadelta()),
    "adadelta": Row(lambda o: o.adadelta(1.0, eps=1e-3), default=True),
    "adadelta, bare": Row(lambda o: o.adadelta(1.0)),
    "adadelta, no rate": Row(lambda o: o.adadelta(None, rho=0.8)),
    "adadelta, options": Row(lambda o: o.adadelta(0.5, 0.8, 1e-3, 1e-2, MASK), trees=("nested",)),
    "adadelta, callable mask": Row(lambda o: o.adadelta(falling, weight_decay=falling, weight_decay_mask=matrices)),
    "scale_by_rss": Row(lambda o: o.scale_by_rss(), default=True),
    "scale_by_rss, options": Row(lambda o: o.scale_by_rss(0.0, 1e-3)),
    "adagrad": Row(lambda o: o.adagrad(1e-2), default=True),
    "adagrad, options": Row(lambda o: o.adagrad(1e-2, initial_accumulator_value=0.3, eps=1e-3)),
    "adagrad, function": Row(lambda o: o.adagrad(falling)),
    "scale_by_adamax": Row(lambda o: o.scale_by_adamax(), default=True),
    "scale_by_adamax, options": Row(lambda o: o.scale_by_adamax(0.8, 0.9, 1e-3)),
    "adamax": Row(lambda o: o.adamax(1e-2), default=True),
    "adamax, function": Row(lambda o: o.adamax(falling, b1=0.8, b2=0.9, eps=1e-3)),
    "adamaxw": Row(lambda o: o.adamaxw(1e-2), default=True),
    "adamaxw, mask": Row(lambda o: o.adamaxw(1e-2, 0.8, 0.9, 1e-3, 0.1, MASK), trees=("nested",)),
    "adamaxw, callable mask": Row(lambda o: o.adamaxw(falling, weight_decay=falling, mask=matrices)),
    "scale_by_adan": Row(lambda o: o.scale_by_adan(), default=True),
    "scale_by_adan, options": Row(lambda o: o.scale_by_adan(0.9, 0.8, 0.95, 1e-4, 1e-6)),
    "adan": Row(lambda o: o.adan(1e-2), default=True),
    "adan, options": Row(lambda o: o.adan(1e-2, 0.9, 0.8, 0.95, 1e-4, 1e-6, 0.1, MASK), trees=("nested",)),
    "adan, callable mask": Row(lambda o: o.adan(falling, weight_decay=falling, mask=matrices)),
    "scale_by_amsgrad": Row(lambda o: o.scale_by_amsgrad(), default=True),
    "scale_by_amsgrad, options": Row(
        lambda o: o.scale_by_amsgrad(0.8, 0.95, 1e-4, 1e-6, mu_dtype=jnp.bfloat16),
        complex=False,
        why="real mu_dtype",
    ),
    "scale_by_amsgrad, biased": Row(lambda o: o.scale_by_amsgrad(bias_correction_mu=False, bias_correction_nu=False)),
    "amsgrad": Row(lambda o: o.amsgrad(1e-2), default=True),
    "amsgrad, biased mu": Row(lambda o: o.amsgrad(1e-2, bias_correction_mu=False)),
    "amsgrad, biased nu": Row(lambda o: o.amsgrad(1e-2, 0.8, 0.9, 1e-4, 1e-6, bias_correction_nu=False)),
    "amsgrad, biased": Row(lambda o: o.amsgrad(falling, bias_correction_mu=False, bias_correction_nu=False)),
    "amsgrad, mu_dtype": Row(lambda o: o.amsgrad(1e-2, mu_dtype="bfloat16"), complex=False, why="real mu_dtype"),
    "scale_by_radam": Row(lambda o: o.scale_by_radam(), default=True),
    "scale_by_radam, options": Row(lambda o: o.scale_by_radam(0.8, 0.95, 1e-4, 1e-6, 4.5, nesterov=True)),
    "radam": Row(lambda o: o.radam(1e-2), default=True),
    "radam, never": Row(lambda o: o.radam(1e-2, b2=0.5)),
    "radam, nesterov": Row(lambda o: o.radam(1e-2, nesterov=True)),
    "radam, function": Row(lambda o: o.radam(falling, b1=0.8, b2=0.9, eps=1e-4, eps_root=1e-6, threshold=4.2)),
    "scale_by_yogi": Row(lambda o: o.scale_by_yogi(initial_accumulator_value=1e-3), default=True),
    "scale_by_yogi, bare": Row(lambda o: o.scale_by_yogi()),
    "scale_by_yogi, options": Row(lambda o: o.scale_by_yogi(0.8, 0.9, 1e-2, 1e-4, 1e-3)),
    "yogi": Row(lambda o: o.yogi(1e-2), default=True),
    "yogi, function": Row(lambda o: o.yogi(falling, b1=0.8, b2=0.9, eps=1e-2)),
    "scale_by_novograd": Row(lambda o: o.scale_by_novograd(), default=True, costly=True),
    "scale_by_novograd, options": Row(
        lambda o: o.scale_by_novograd(0.8, 0.5, 1e-4, 1e-6, 1e-2, mu_dtype=jnp.bfloat16),
        complex=False,
        dtypes=("float32", "bfloat16", "float64"),
        why="real mu_dtype; from float16 params upstream's two branches differ in dtype",
        costly=True,
    ),
    "novograd": Row(lambda o: o.novograd(1e-2), default=True, costly=True),
    "novograd, function": Row(lambda o: o.novograd(falling, 0.8, 0.5, 1e-4, 1e-6, 1e-2), costly=True),
    "scale_by_trust_ratio": Row(lambda o: o.scale_by_trust_ratio(1e-3, 0.1, 1e-2), default=True),
    "scale_by_trust_ratio, bare": Row(lambda o: o.scale_by_trust_ratio()),
    "scale_by_trust_ratio, floor": Row(lambda o: o.scale_by_trust_ratio(0.9)),
    "lamb": Row(lambda o: o.lamb(1e-2), default=True),
    "lamb, options": Row(lambda o: o.lamb(1e-2, 0.8, 0.9, 1e-4, 1e-6, 0.1, MASK), trees=("nested",)),
    "lamb, callable mask": Row(lambda o: o.lamb(falling, weight_decay=falling, mask=matrices)),
    "lars": Row(lambda o: o.lars(1e-2), default=True),
    "lars, options": Row(lambda o: o.lars(1e-2, 0.1, MASK, 0.01, 1e-3, MASK, 0.8, nesterov=True), trees=("nested",)),
    "lars, callable masks": Row(
        lambda o: o.lars(falling, falling, weight_decay_mask=matrices, trust_ratio_mask=matrices)
    ),
    "lars, no masks": Row(lambda o: o.lars(1e-2, 0.1, weight_decay_mask=None, trust_ratio_mask=False)),
    "fromage": Row(
        lambda o: o.fromage(1e-2),
        default=True,
        untraced=FROMAGE,
    ),
    "fromage, options": Row(lambda o: o.fromage(0.3, min_norm=0.9), untraced=FROMAGE),
    "fromage, zero": Row(lambda o: o.fromage(0.0), untraced=Loose(1e-6, "a traced zero adds 0*p")),
    "fromage, function": Row(lambda o: o.fromage(falling)),
    "fromage, schedule": Row(lambda o: o.fromage(o.linear_schedule(1e-1, 1e-2, 5)), untraced=UNTRACED_SCHEDULE),
    "scale_by_sm3": Row(
        lambda o: o.scale_by_sm3(),
        default=True,
        prepare=without_scalars,
        dtypes=WIDE,
        untraced=Loose(1e-5, "upstream cannot trace b2; traced 1 - b1 rounds to float32"),
        no_gradient={"b2": "the rule jumps at b2 = 1"},
        why="upstream refuses complex params; float16 has rows of its own",
    ),
    "scale_by_sm3, decaying": Row(
        lambda o: o.scale_by_sm3(0.8, 0.9, 1e-3),
        prepare=without_scalars,
        dtypes=WIDE,
        untraced=Loose(1e-5, "upstream cannot trace b2; traced 1 - b2 rounds to float32"),
        why="upstream refuses complex params; float16 has rows of its own",
    ),
    "scale_by_sm3, float16": Row(
        lambda o: o.scale_by_sm3(),
        prepare=without_scalars,
        dtypes=("float16",),
        untraced=HALF_SM3,
        why="the row of float16",
    ),
    "scale_by_sm3, decaying in float16": Row(
        lambda o: o.scale_by_sm3(0.8, 0.9, 1e-3),
        prepare=without_scalars,
        dtypes=("float16",),
        untraced=HALF_SM3,
        why="the row of float16",
    ),
    "sm3": Row(
        lambda o: o.sm3(1e-2),
        default=True,
        complex=False,
        prepare=without_scalars,
        why="upstream refuses complex params",
    ),
    "sm3, momentum": Row(
        lambda o: o.sm3(1e-2, 0.8), complex=False, prepare=without_scalars, why="upstream refuses complex params"
    ),
    "scale_by_rprop": Row(lambda o: o.scale_by_rprop(1e-2), default=True, complex=False, why="jnp.clip is for reals"),
    "scale_by_rprop, options": Row(
        lambda o: o.scale_by_rprop(1e-2, 0.7, 1.5, 8e-3, 2e-2), complex=False, why="jnp.clip is for reals"
    ),
    "rprop": Row(lambda o: o.rprop(1e-2), default=True, complex=False, why="jnp.clip is for reals"),
    "rprop, options": Row(lambda o: o.rprop(1e-2, 0.7, 1.5, 8e-3, 2e-2), complex=False, why="jnp.clip is for reals"),
}
