"""Rows of the combinators and wrappers."""

import functools

import jax
import jax.numpy as jnp
import optax

from parity.row import Loose, Row
from parity.rows.core import MASK, UNTRACED_SCHEDULE, falling, matrices

SELECTED = Loose(
    {"float32": 1e-6, "float64": 1e-14},
    "JAX 0.12 contracts a product with the difference unless a finite one is selected first",
)
LABELS = {"scalar": "a", "vector": "b", "layers": [{"kernel": "a", "bias": None}, {}, {"kernel": "z"}]}
PREFIX = {"scalar": "b", "vector": "a", "layers": "b"}


def by_rank(tree):
    """Labels as a function."""
    return jax.tree.map(lambda x: "matrix" if x.ndim == 2 else "rest", tree)


def odd(step):
    return step % 2 == 1


def high(step, *, value, **_):
    return value > 1.2


def growing(step):
    return 1 + step


def norm(updates):
    return optax.tree.norm(updates)


def peak(updates):
    return jnp.max(jnp.abs(jnp.ravel(jax.tree.leaves(updates)[0])))


def third_is_bad(updates, step, params):
    """Skips where the first leaf is negative."""
    bad = jnp.ravel(jax.tree.leaves(updates)[0])[0].real < 0
    return bad, {"bad": bad}


skip_large = functools.partial(optax.skip_large_updates, max_squared_norm=14.0)


def paired(params, gradients):
    """Fast and slow parameters."""
    return optax.LookaheadParams(params, jax.tree.map(lambda x: 0.9 * x, params)), gradients


def spoilt(params, gradients):
    """An infinity or a NaN in some gradients."""
    values = (None, jnp.nan, None, jnp.inf, jnp.nan, jnp.nan)
    return params, [
        g if value is None else {**g, "vector": g["vector"].at[1].set(value)}
        for g, value in zip(gradients, values * len(gradients), strict=False)
    ]


IN_A_BRANCH = Loose(
    1e-15, "in a branch or with traced numbers the compiler contracts Adam's products otherwise", ("float64",)
)
ACCUMULATES_REALS = "a real accumulator"

ROWS = {
    "partition": Row(
        lambda o: o.partition({"z": o.scale(0.3), "a": o.trace(0.9), "b": o.adam(1e-2)}, LABELS),
        default=True,
        trees=("nested",),
    ),
    "partition, prefix": Row(lambda o: o.partition({"b": o.adamw(1e-2), "a": o.sgd(1e-2)}, PREFIX), trees=("nested",)),
    "partition, callable": Row(lambda o: o.partition({"rest": o.sgd(1e-2), "matrix": o.adamw(1e-2)}, by_rank)),
    "partition, one label": Row(lambda o: o.multi_transform({"a": o.adam(1e-2), "b": o.sgd(1e-2)}, "a")),
    "partition, unused label": Row(
        lambda o: o.partition({1: o.adam(1e-2), 0: o.sgd(1e-2)}, dict.fromkeys(PREFIX, 1)), trees=("nested",)
    ),
    "partition, extra args": Row(
        lambda o: o.partition({"a": o.adam(1e-2), "b": o.scale(0.1)}, PREFIX, mask_compatible_extra_args=True),
        extra=("value",),
        trees=("nested",),
    ),
    "freeze": Row(lambda o: o.freeze(MASK), default=True, trees=("nested",)),
    "freeze, all": Row(lambda o: o.chain(o.adam(1e-2), o.freeze(True))),
    "freeze, callable": Row(lambda o: o.chain(o.adam(1e-2), o.freeze(matrices))),
    "selective_transform": Row(
        lambda o: o.selective_transform(o.adam(1e-2), freeze_mask=MASK), default=True, trees=("nested",)
    ),
    "selective_transform, none": Row(lambda o: o.selective_transform(o.adam(1e-2), freeze_mask=False)),
    "monitor": Row(lambda o: o.monitor({"norm": norm, "ema": o.ema(0.9)}), default=True, grows=True),
    "monitor, order": Row(lambda o: o.chain(o.monitor({"z": norm, "a": o.ema(0.8), "m": peak}), o.sgd(1e-2))),
    "conditionally_mask": Row(lambda o: o.conditionally_mask(o.trace(0.9), odd), default=True, costly=True),
    "conditionally_mask, extra args": Row(
        lambda o: o.conditionally_mask(o.adam(1e-2), high, True), extra=("value",), costly=True
    ),
    "conditionally_transform": Row(lambda o: o.conditionally_transform(o.trace(0.9), odd), default=True, costly=True),
    "conditionally_transform, extra args": Row(
        lambda o: o.conditionally_transform(o.adamw(1e-2), high, forward_extra_args=True), extra=("value",), costly=True
    ),
    "apply_if_finite": Row(lambda o: o.apply_if_finite(o.adam(1e-2), 2), default=True, costly=True),
    "apply_if_finite, spoilt": Row(
        lambda o: o.apply_if_finite(o.adamw(1e-2), 1), trees=("nested",), prepare=spoilt, costly=True
    ),
    "apply_if_finite, never": Row(
        lambda o: o.apply_if_finite(o.trace(0.9), 100), trees=("nested",), prepare=spoilt, costly=True
    ),
    "flatten": Row(lambda o: o.flatten(o.trace(0.9)), default=True),
    "flatten, adamw": Row(lambda o: o.flatten(o.adamw(1e-2))),
    "flatten, norm": Row(lambda o: o.flatten(o.chain(o.clip_by_global_norm(0.5), o.sgd(1e-2, 0.9)))),
    "lookahead": Row(lambda o: o.lookahead(o.sgd(1e-2, 0.9), 2, 0.5), default=True, prepare=paired),
    "lookahead, reset": Row(
        lambda o: o.lookahead(o.adam(1e-2), 3, 0.3, reset_state=True), prepare=paired, jit=SELECTED
    ),
    "lookahead, every step": Row(lambda o: o.lookahead(o.adamw(1e-2), 1, 0.8), prepare=paired, jit=SELECTED),
    "MultiSteps": Row(
        lambda o: o.MultiSteps(o.sgd(1e-2, 0.9), 2),
        default=True,
        complex=False,
        why=ACCUMULATES_REALS,
        float32_inside="gradients are accumulated in float32",
        costly=True,
    ),
    "MultiSteps, sum": Row(
        lambda o: o.MultiSteps(o.adamw(1e-2), 3, False), complex=False, why=ACCUMULATES_REALS, costly=True
    ),
    "MultiSteps, one": Row(
        lambda o: o.MultiSteps(o.adam(1e-2), 1), complex=False, why=ACCUMULATES_REALS, costly=True, loop=IN_A_BRANCH
    ),
    "MultiSteps, function": Row(
        lambda o: o.MultiSteps(o.adam(1e-2), growing),
        complex=False,
        why=ACCUMULATES_REALS,
        costly=True,
        loop=IN_A_BRANCH,
    ),
    "MultiSteps, schedule": Row(
        lambda o: o.MultiSteps(o.adam(falling), o.constant_schedule(2)),
        complex=False,
        why=ACCUMULATES_REALS,
        costly=True,
        jit=IN_A_BRANCH,
    ),
    "MultiSteps, dtype": Row(
        lambda o: o.MultiSteps(o.adam(1e-2), 2, accumulator_dtype="bfloat16"),
        complex=False,
        why=ACCUMULATES_REALS,
        costly=True,
        jit=IN_A_BRANCH,
    ),
    "MultiSteps, complex": Row(
        lambda o: o.MultiSteps(o.adam(1e-2), 2, accumulator_dtype=jnp.complex64),
        dtypes=("complex64",),
        why="complex",
        costly=True,
    ),
    "MultiSteps, skip not finite": Row(
        lambda o: o.MultiSteps(o.adamw(1e-2), 2, should_skip_update_fn=o.skip_not_finite),
        trees=("nested",),
        prepare=spoilt,
        complex=False,
        why=ACCUMULATES_REALS,
        costly=True,
    ),
    "MultiSteps, skip large": Row(
        lambda o: o.MultiSteps(o.adam(1e-2), 2, True, skip_large, jnp.float32),
        complex=False,
        why=ACCUMULATES_REALS,
        costly=True,
        jit=IN_A_BRANCH,
    ),
    "MultiSteps, skip some": Row(
        lambda o: o.MultiSteps(o.adam(1e-2), 2, True, third_is_bad), complex=False, why=ACCUMULATES_REALS, costly=True
    ),
    "MultiSteps, pair": Row(
        lambda o: o.MultiSteps(o.adam(1e-2), 2).gradient_transformation(),
        complex=False,
        why=ACCUMULATES_REALS,
        costly=True,
        jit=IN_A_BRANCH,
    ),
    "nested: chain in partition in MultiSteps in apply_if_finite": Row(
        lambda o: o.apply_if_finite(
            o.MultiSteps(
                o.partition({"matrix": o.chain(o.trace(0.9), o.adamw(falling)), "rest": o.sgd(1e-2)}, by_rank), 2
            ),
            5,
        ),
        trees=("nested",),
        prepare=spoilt,
        complex=False,
        why=ACCUMULATES_REALS,
        costly=True,
    ),
    "nested: warm-up under a condition": Row(
        lambda o: o.conditionally_transform(o.adam(o.warmup_cosine_decay_schedule(0.0, 1e-2, 2, 6)), odd),
        untraced=UNTRACED_SCHEDULE,
        costly=True,
    ),
    "nested: masked callables": Row(
        lambda o: o.chain(
            o.masked(o.chain(o.trace(0.9), o.masked(o.scale(0.5), matrices)), matrices),
            o.named_chain(("x", o.adam(1e-2))),
        ),
        costly=True,
    ),
    "nested: partition in lookahead": Row(
        lambda o: o.lookahead(o.partition({"a": o.adam(1e-2), "b": o.sgd(1e-2)}, PREFIX), 2, 0.5, True),
        prepare=paired,
        trees=("nested",),
        costly=True,
    ),
    "nested: conditions": Row(
        lambda o: o.chain(
            o.conditionally_transform(o.clip_by_global_norm(0.5), odd),
            o.conditionally_mask(o.flatten(o.selective_transform(o.adamw(1e-2), freeze_mask=False)), odd),
        ),
        costly=True,
    ),
}
