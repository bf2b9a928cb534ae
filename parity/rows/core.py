"""Rows of the shared building blocks, Adam's family, gradient descent and Adafactor."""

import jax
import jax.numpy as jnp

from parity.row import Loose, Row


def matrices(tree):
    """A mask as a function: true for leaves of rank 2."""
    return jax.tree.map(lambda x: x.ndim == 2, tree)


MASK = {"scalar": False, "vector": True, "layers": [{"kernel": True, "bias": None}, {}, {"kernel": False}]}


def falling(count):
    """A plain function as a schedule."""
    return 1e-2 / (1 + 0.1 * count)


def pull(update, param):
    """A function of a leaf."""
    return update - 0.1 * param


def pulled(updates, params):
    """A function of trees."""
    return jax.tree.map(pull, updates, params)


UNTRACED_SCHEDULE = Loose(1e-4, "a traced length takes the guarded path, and traced float32 numbers round")

STEP_POWER = "the power of the step count is taken in float32"
HALF_GUARD = Loose(
    2e-3, "the guard against 0/0 where eps rounds to 0 makes the compiler round elsewhere", dtypes=("float16",)
)

ROWS = {
    "identity": Row(lambda o: o.identity(), default=True),
    "set_to_zero": Row(lambda o: o.set_to_zero(), default=True),
    "stateless": Row(lambda o: o.stateless(pulled), default=True),
    "stateless_with_tree_map": Row(lambda o: o.stateless_with_tree_map(pull), default=True),
    "with_extra_args_support": Row(lambda o: o.with_extra_args_support(o.scale(0.5)), extra=("value",), default=True),
    "chain": Row(lambda o: o.chain(o.scale(0.3), o.trace(0.9), o.scale(-1.0)), default=True),
    "chain, nested": Row(lambda o: o.chain(o.chain(o.scale(0.4), o.scale_by_adam()), o.adamw(1e-2))),
    "named_chain": Row(lambda o: o.named_chain(("z", o.scale(0.3)), ("a", o.trace(0.9))), default=True),
    "scale": Row(lambda o: o.scale(-0.01), default=True),
    "scale_by_learning_rate": Row(lambda o: o.scale_by_learning_rate(1e-2), default=True),
    "scale_by_learning_rate, none": Row(lambda o: o.scale_by_learning_rate(None)),
    "scale_by_learning_rate, no flip": Row(lambda o: o.scale_by_learning_rate(1e-2, flip_sign=False)),
    "scale_by_learning_rate, function": Row(lambda o: o.scale_by_learning_rate(falling)),
    "scale_by_schedule": Row(
        lambda o: o.scale_by_schedule(o.linear_schedule(1e-1, 1e-2, 6)), default=True, untraced=UNTRACED_SCHEDULE
    ),
    "scale_by_schedule, function": Row(lambda o: o.scale_by_schedule(falling)),
    "trace": Row(lambda o: o.trace(0.9), default=True),
    "trace, nesterov": Row(lambda o: o.trace(0.9, nesterov=True)),
    "trace, dtype": Row(lambda o: o.trace(0.9, accumulator_dtype=jnp.bfloat16), complex=False, why="real dtype"),
    "ema": Row(lambda o: o.ema(0.9), default=True),
    "ema, biased": Row(lambda o: o.ema(0.9, debias=False)),
    "ema, dtype": Row(lambda o: o.ema(0.9, accumulator_dtype="bfloat16"), complex=False, why="real dtype"),
    "add_decayed_weights": Row(lambda o: o.add_decayed_weights(1e-2), default=True),
    "add_decayed_weights, zero": Row(lambda o: o.add_decayed_weights(0.0)),
    "add_decayed_weights, mask": Row(lambda o: o.add_decayed_weights(1e-2, MASK), trees=("nested",)),
    "add_decayed_weights, callable mask": Row(lambda o: o.add_decayed_weights(1e-2, matrices)),
    "add_decayed_weights, schedule": Row(
        lambda o: o.add_decayed_weights(o.linear_schedule(1e-1, 1e-2, 6)), untraced=UNTRACED_SCHEDULE
    ),
    "add_decayed_weights, function and mask": Row(lambda o: o.add_decayed_weights(falling, MASK), trees=("nested",)),
    "masked": Row(lambda o: o.masked(o.trace(0.9), MASK), default=True, trees=("nested",)),
    "masked, prefix": Row(
        lambda o: o.masked(o.adam(1e-2), {"scalar": True, "vector": False, "layers": True}), trees=("nested",)
    ),
    "masked, callable": Row(lambda o: o.masked(o.adamw(1e-2), matrices)),
    "masked, extra args": Row(
        lambda o: o.masked(o.adam(1e-2), MASK, mask_compatible_extra_args=True), ("value",), trees=("nested",)
    ),
    "clip": Row(lambda o: o.clip(0.3), default=True, complex=False, why="jnp.clip refuses complex numbers"),
    "clip_by_global_norm": Row(lambda o: o.clip_by_global_norm(0.7), default=True),
    "clip_by_global_norm, chained": Row(lambda o: o.chain(o.clip_by_global_norm(0.7), o.adamw(1e-2))),
    "clip_by_block_rms": Row(lambda o: o.clip_by_block_rms(0.3), default=True),
    "clip_by_block_rms, chained": Row(lambda o: o.chain(o.clip_by_block_rms(0.3), o.adamw(1e-2))),
    "scale_by_param_block_rms": Row(lambda o: o.scale_by_param_block_rms(), default=True),
    "scale_by_param_block_rms, floor": Row(lambda o: o.scale_by_param_block_rms(0.9)),
    "scale_by_factored_rms": Row(
        lambda o: o.scale_by_factored_rms(min_dim_size_to_factor=2), default=True, float32_inside=STEP_POWER
    ),
    "scale_by_factored_rms, whole": Row(lambda o: o.scale_by_factored_rms(factored=False, epsilon=1e-8)),
    "scale_by_factored_rms, function": Row(
        lambda o: o.scale_by_factored_rms(decay_rate_fn=lambda step, rate: rate / (1.0 + 0.1 * step))
    ),
    "scale_by_factored_rms, offset": Row(lambda o: o.scale_by_factored_rms(step_offset=-5, decay_rate=0.7)),
    "scale_by_adam": Row(lambda o: o.scale_by_adam(), default=True),
    "scale_by_adam, options": Row(
        lambda o: o.scale_by_adam(0.8, 0.95, 1e-4, 1e-6, mu_dtype=jnp.bfloat16, nesterov=True),
        complex=False,
        why="real mu_dtype",
        jit=HALF_GUARD,
    ),
    "adam": Row(lambda o: o.adam(1e-2), default=True),
    "adam, options": Row(lambda o: o.adam(1e-2, b1=0.8, b2=0.9, eps=1e-4, eps_root=1e-6)),
    "adam, nesterov": Row(lambda o: o.adam(1e-2, nesterov=True)),
    "adam, mu_dtype": Row(lambda o: o.adam(1e-2, mu_dtype="bfloat16"), complex=False, why="real mu_dtype"),
    "adam, schedule": Row(
        lambda o: o.adam(o.warmup_cosine_decay_schedule(0.0, 1e-2, 3, 9, 1e-4)), untraced=UNTRACED_SCHEDULE
    ),
    "adam, function": Row(lambda o: o.adam(falling)),
    "nadam": Row(lambda o: o.nadam(1e-2), default=True),
    "nadam, options": Row(
        lambda o: o.nadam(1e-2, 0.8, 0.9, 1e-4, 1e-6, "bfloat16"), complex=False, why="real mu_dtype", jit=HALF_GUARD
    ),
    "nadam, off": Row(lambda o: o.nadam(1e-2, nesterov=False)),
    "adamw": Row(lambda o: o.adamw(1e-2), default=True),
    "adamw, options": Row(lambda o: o.adamw(1e-2, b1=0.8, b2=0.9, eps=1e-4, eps_root=1e-6, weight_decay=0.1)),
    "adamw, nesterov": Row(lambda o: o.adamw(1e-2, nesterov=True), jit=HALF_GUARD),
    "adamw, mu_dtype": Row(lambda o: o.adamw(1e-2, mu_dtype="bfloat16"), complex=False, why="real mu_dtype"),
    "adamw, mask": Row(lambda o: o.adamw(1e-2, weight_decay=0.1, mask=MASK), trees=("nested",)),
    "adamw, callable mask": Row(lambda o: o.adamw(1e-2, weight_decay=0.1, mask=matrices)),
    "adamw, schedules": Row(
        lambda o: o.adamw(
            o.cosine_decay_schedule(1e-2, 8, 0.1), weight_decay=o.polynomial_schedule(0.1, 0.01, 2, 6, 1)
        ),
        untraced=UNTRACED_SCHEDULE,
    ),
    "adamw, zero decay": Row(
        lambda o: o.adamw(1e-2, weight_decay=0.0),
        untraced=Loose(1e-4, "a traced zero decay adds 0*p, and 1 - b2 is rounded to float32"),
    ),
    "adamw, joined": Row(
        lambda o: o.adamw(o.join_schedules([o.constant_schedule(1e-2), falling], [4])), untraced=UNTRACED_SCHEDULE
    ),
    "nadamw": Row(lambda o: o.nadamw(1e-2), default=True, jit=HALF_GUARD),
    "nadamw, options": Row(
        lambda o: o.nadamw(1e-2, 0.8, 0.9, 1e-4, 1e-6, "bfloat16"), complex=False, why="real mu_dtype", jit=HALF_GUARD
    ),
    "nadamw, off": Row(lambda o: o.nadamw(1e-2, weight_decay=0.1, mask=matrices, nesterov=False)),
    "sgd": Row(lambda o: o.sgd(1e-2), default=True),
    "sgd, momentum": Row(lambda o: o.sgd(1e-2, momentum=0.9)),
    "sgd, zero momentum": Row(lambda o: o.sgd(1e-2, momentum=0.0)),
    "sgd, nesterov": Row(lambda o: o.sgd(1e-2, momentum=0.9, nesterov=True)),
    "sgd, dtype": Row(
        lambda o: o.sgd(1e-2, momentum=0.9, accumulator_dtype=jnp.bfloat16), complex=False, why="real dtype"
    ),
    "sgd, schedule": Row(lambda o: o.sgd(o.linear_schedule(1e-1, 1e-3, 5), 0.9), untraced=UNTRACED_SCHEDULE),
    "adafactor": Row(lambda o: o.adafactor(1e-2, min_dim_size_to_factor=2), default=True, float32_inside=STEP_POWER),
    "adafactor, no rate": Row(lambda o: o.adafactor()),
    "adafactor, all": Row(
        lambda o: o.adafactor(1e-2, 2, 0.7, -3, False, 0.5, 0.9, jnp.float32, 1e-3, 1e-8, True, MASK),
        complex=False,
        why="real dtype_momentum",
        trees=("nested",),
    ),
    "adafactor, bare": Row(
        lambda o: o.adafactor(
            None, factored=False, clipping_threshold=None, multiply_by_parameter_scale=False, weight_decay_rate=falling
        )
    ),
    "adafactor, momentum": Row(
        lambda o: o.adafactor(falling, momentum=0.9, dtype_momentum="bfloat16", weight_decay_mask=matrices),
        complex=False,
        why="real dtype_momentum",
    ),
}
