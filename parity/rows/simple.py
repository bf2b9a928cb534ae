"""Rows of Lion, RMSProp, sign and optimistic methods, Polyak's step, noise, and small transformations."""

import warnings

import jax
import jax.numpy as jnp

from parity.row import NOT_FLOAT16, Loose, Row
from parity.rows.core import MASK, UNTRACED_SCHEDULE, falling, matrices

REAL_DTYPE = "real dtype of the state"
STORED_DIRECTION = "real; in float16 a bfloat16 average makes upstream's stored direction float32, ours stays"
SIGN = "zero: the sign is piecewise constant"
STORED_DISTANCES = (
    "the distances take the dtype of the stored params, upstream's only with the first update; it is real"
)
VALUE = "the value that is given is a float32 number"
NOT_NEGATIVE = Loose(
    1e-3, "the maximum that keeps the variance from being negative makes the compiler round elsewhere", ("float16",)
)
NOT_REACHED = "zero: the bound is not reached"


def deprecated_adam(o, *args, **kwargs):
    """Both libraries warn that it is deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return o.optimistic_adam(*args, **kwargs)


def unseeded(build):
    """Both libraries warn where no key, or a seed, is given."""

    def quiet(o):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return build(o)

    return quiet


def without_scalars(params, gradients):
    """Upstream gives the update of a scalar the shape (1,), and with it the parameter."""
    raised = lambda tree: jax.tree.map(jnp.atleast_1d, tree)
    return raised(params), [raised(gradient) for gradient in gradients]


def nonnegative(params, gradients):
    return jax.tree.map(jnp.abs, params), gradients


def with_nans(params, gradients):
    spoil = lambda x: jnp.where(x > 0.5, jnp.nan, x)
    return params, [jax.tree.map(spoil, gradient) if step % 2 else gradient for step, gradient in enumerate(gradients)]


def rank_five(params, gradients):
    """Kernels of every rank for which there is a rule."""

    def raised(tree):
        return [
            tree,
            *(
                jax.tree.map(
                    lambda x, n=n: (
                        jnp.broadcast_to(
                            jnp.atleast_2d(x).reshape((-1,) + (1,) * (n - 1)), (jnp.size(x), *range(2, n + 1))
                        )
                        * jnp.arange(1, n + 1, dtype=x.dtype)
                    ),
                    tree,
                )
                for n in (3, 4, 5)
            ),
        ]

    return raised(params), [raised(gradient) for gradient in gradients]


def norms(tree):
    return jax.tree.map(jnp.linalg.norm, tree)


def itself(tree):
    return tree


def is_long(tree):
    """A measurement made of bools."""
    return jax.tree.map(lambda x: jnp.linalg.norm(x) > 1.0, tree)


ROWS = {
    "scale_by_lion": Row(
        lambda o: o.scale_by_lion(), default=True, no_gradient={"b1": SIGN, "b2": SIGN, "smooth_beta": SIGN}
    ),
    "scale_by_lion, smooth": Row(lambda o: o.scale_by_lion(0.8, 0.95, mode="smooth", smooth_beta=2.0)),
    "scale_by_lion, refined": Row(lambda o: o.scale_by_lion(mode="refined")),
    "scale_by_lion, dtype": Row(lambda o: o.scale_by_lion(mu_dtype=jnp.bfloat16), complex=False, why=REAL_DTYPE),
    "lion": Row(lambda o: o.lion(1e-2), default=True, no_gradient={"b1": SIGN, "b2": SIGN}),
    "lion, options": Row(
        lambda o: o.lion(1e-2, 0.8, 0.95, "bfloat16", 0.1, MASK), complex=False, why=REAL_DTYPE, trees=("nested",)
    ),
    "lion, schedules": Row(
        lambda o: o.lion(o.linear_schedule(1e-2, 1e-3, 5), weight_decay=falling, mask=matrices),
        untraced=UNTRACED_SCHEDULE,
    ),
    "lion, no decay": Row(
        lambda o: o.lion(1e-2, weight_decay=0.0),
        untraced=Loose(1e-4, "a traced 1 - b2 is rounded in float32"),
    ),
    "add_noise": Row(lambda o: o.add_noise(0.01, 0.55, 0), default=True),
    "add_noise, typed key": Row(lambda o: o.add_noise(0.01, 1.0, jax.random.key(7))),
    "add_noise, seed": Row(unseeded(lambda o: o.add_noise(0.01, 0.55, seed=3))),
    "add_noise, no key": Row(unseeded(lambda o: o.add_noise(0.01, 0.55))),
    "noisy_sgd": Row(lambda o: o.noisy_sgd(1e-2, key=0), default=True),
    "noisy_sgd, seed": Row(unseeded(lambda o: o.noisy_sgd(1e-2, seed=3))),
    "noisy_sgd, schedule": Row(lambda o: o.noisy_sgd(falling, 0.1, 0.9, jax.random.key(1))),
    "scale_by_optimistic_gradient": Row(lambda o: o.scale_by_optimistic_gradient(), default=True),
    "scale_by_optimistic_gradient, options": Row(lambda o: o.scale_by_optimistic_gradient(0.7, 0.4)),
    "optimistic_gradient_descent": Row(lambda o: o.optimistic_gradient_descent(1e-2), default=True),
    "optimistic_gradient_descent, schedule": Row(lambda o: o.optimistic_gradient_descent(falling, 0.7, 0.4)),
    "optimistic_adam": Row(lambda o: deprecated_adam(o, 1e-2), default=True),
    "optimistic_adam, options": Row(
        lambda o: deprecated_adam(o, 1e-2, 2e-2, 0.8, 0.9, 1e-4, 1e-6, "bfloat16", nesterov=False),
        complex=False,
        dtypes=("float32", "bfloat16", "float64"),
        why=STORED_DIRECTION,
    ),
    "optimistic_adam_v2": Row(lambda o: o.optimistic_adam_v2(1e-2), default=True),
    "optimistic_adam_v2, options": Row(
        lambda o: o.optimistic_adam_v2(
            falling, alpha=0.7, beta=0.4, b1=0.8, b2=0.9, eps=1e-4, eps_root=1e-6, mu_dtype=jnp.bfloat16, nesterov=False
        ),
        complex=False,
        dtypes=("float32", "bfloat16", "float64"),
        why=STORED_DIRECTION,
    ),
    "scale_by_polyak": Row(
        lambda o: o.scale_by_polyak(0.5),
        extra=("value",),
        default=True,
        no_gradient={"max_learning_rate": NOT_REACHED},
        float32_inside=VALUE,
    ),
    "scale_by_polyak, defaults": Row(lambda o: o.scale_by_polyak(), extra=("value",)),
    "scale_by_polyak, bounded": Row(lambda o: o.scale_by_polyak(0.1, 0.02, 0.3), extra=("value",)),
    "scale_by_polyak, sps+": Row(lambda o: o.scale_by_polyak(1.0, 2.0, variant="sps+"), extra=("value",)),
    "polyak_sgd": Row(
        lambda o: o.polyak_sgd(f_min=0.5),
        extra=("value",),
        default=True,
        no_gradient={"max_learning_rate": NOT_REACHED},
        float32_inside=VALUE,
    ),
    "polyak_sgd, defaults": Row(lambda o: o.polyak_sgd(), extra=("value",)),
    "polyak_sgd, sps+": Row(lambda o: o.polyak_sgd(0.05, 0.5, 1.0, 0.1, "sps+"), extra=("value",)),
    "polyak_sgd, schedule": Row(lambda o: o.polyak_sgd(scaling=falling, f_min=-0.1), extra=("value",)),
    "scale_by_rms": Row(lambda o: o.scale_by_rms(), default=True),
    "scale_by_rms, scale": Row(lambda o: o.scale_by_rms(0.8, 1e-4, 1.0)),
    "scale_by_rms, eps outside": Row(lambda o: o.scale_by_rms(eps_in_sqrt=False)),
    "scale_by_rms, corrected": Row(lambda o: o.scale_by_rms(bias_correction=True)),
    "scale_by_rms, corrected, eps outside": Row(lambda o: o.scale_by_rms(eps_in_sqrt=False, bias_correction=True)),
    "scale_by_stddev": Row(lambda o: o.scale_by_stddev(), default=True, jit=NOT_NEGATIVE),
    "scale_by_stddev, scale": Row(lambda o: o.scale_by_stddev(0.8, 1e-4, 1.0), jit=NOT_NEGATIVE),
    "scale_by_stddev, eps outside": Row(lambda o: o.scale_by_stddev(eps_in_sqrt=False), jit=NOT_NEGATIVE),
    "scale_by_stddev, corrected": Row(lambda o: o.scale_by_stddev(initial_scale=0.5, bias_correction=True)),
    "scale_by_stddev, corrected, eps outside": Row(
        lambda o: o.scale_by_stddev(initial_scale=0.5, eps_in_sqrt=False, bias_correction=True)
    ),
    "rmsprop": Row(lambda o: o.rmsprop(1e-2), default=True),
    "rmsprop, momentum": Row(lambda o: o.rmsprop(1e-2, momentum=0.9)),
    "rmsprop, nesterov": Row(lambda o: o.rmsprop(falling, 0.8, 1e-4, 1.0, False, momentum=0.9, nesterov=True)),
    "rmsprop, centered": Row(lambda o: o.rmsprop(1e-2, centered=True)),
    "rmsprop, centered, corrected": Row(
        lambda o: o.rmsprop(1e-2, initial_scale=0.5, centered=True, momentum=0.9, bias_correction=True)
    ),
    "rmsprop, corrected": Row(
        lambda o: o.rmsprop(o.linear_schedule(1e-2, 1e-3, 5), eps_in_sqrt=False, bias_correction=True),
        untraced=UNTRACED_SCHEDULE,
    ),
    "scale_by_sign": Row(lambda o: o.scale_by_sign(), default=True),
    "sign_sgd": Row(lambda o: o.sign_sgd(1e-2), default=True),
    "sign_sgd, schedule": Row(lambda o: o.sign_sgd(falling)),
    "signum": Row(lambda o: o.signum(1e-2), default=True, no_gradient={"beta": SIGN}),
    "signum, options": Row(lambda o: o.signum(falling, 0.8, "bfloat16"), complex=False, why=REAL_DTYPE),
    "scale_by_distance_over_gradients": Row(
        lambda o: o.scale_by_distance_over_gradients(),
        default=True,
        prepare=without_scalars,
        casts=True,
        complex=False,
        why=STORED_DISTANCES,
    ),
    "scale_by_distance_over_gradients, options": Row(
        lambda o: o.scale_by_distance_over_gradients(1e-3, 1e-4, jnp.bfloat16, -1.0),
        prepare=without_scalars,
        casts=True,
        complex=False,
        why=STORED_DISTANCES,
    ),
    "apply_every": Row(lambda o: o.apply_every(2), default=True),
    "apply_every, one": Row(lambda o: o.apply_every()),
    "apply_every, three, chained": Row(lambda o: o.chain(o.adam(1e-2), o.apply_every(3))),
    "centralize": Row(lambda o: o.centralize(), default=True),
    "centralize, chained": Row(
        lambda o: o.chain(o.centralize(), o.adamw(1e-2)),
        dtypes=NOT_FLOAT16,
        why="a square that underflows: NaN in Optax",
    ),
    "normalize_by_update_norm": Row(lambda o: o.normalize_by_update_norm(), default=True),
    "normalize_by_update_norm, options": Row(lambda o: o.normalize_by_update_norm(-0.1, 1e-2)),
    "scale_by_param_block_norm": Row(
        lambda o: o.scale_by_param_block_norm(), default=True, no_gradient={"min_scale": NOT_REACHED}
    ),
    "scale_by_param_block_norm, floor": Row(lambda o: o.scale_by_param_block_norm(1.5)),
    "adaptive_grad_clip": Row(lambda o: o.adaptive_grad_clip(0.2), default=True, no_gradient={"eps": NOT_REACHED}),
    "adaptive_grad_clip, floor": Row(lambda o: o.adaptive_grad_clip(0.2, 1.5)),
    "adaptive_grad_clip, ranks": Row(lambda o: o.adaptive_grad_clip(0.2), prepare=rank_five, costly=True),
    "adaptive_grad_clip, axis": Row(lambda o: o.adaptive_grad_clip(0.2, axis=-1), prepare=without_scalars),
    "adaptive_grad_clip, axes": Row(lambda o: o.adaptive_grad_clip(0.2, axis=(0,)), prepare=without_scalars),
    "adaptive_grad_clip, chained": Row(lambda o: o.chain(o.adaptive_grad_clip(0.2), o.adamw(1e-2))),
    "keep_params_nonnegative": Row(
        lambda o: o.keep_params_nonnegative(), default=True, prepare=nonnegative, complex=False, why="ordered numbers"
    ),
    "keep_params_nonnegative, chained": Row(
        lambda o: o.chain(o.sgd(0.5), o.keep_params_nonnegative()), complex=False, why="ordered numbers"
    ),
    "zero_nans": Row(lambda o: o.zero_nans(), default=True),
    "zero_nans, some": Row(lambda o: o.chain(o.zero_nans(), o.adam(1e-2)), prepare=with_nans),
    "snapshot": Row(lambda o: o.snapshot("norms", norms), default=True),
    "snapshot, itself": Row(lambda o: o.chain(o.snapshot("gradient", itself), o.adam(1e-2))),
    "measure_with_ema": Row(lambda o: o.measure_with_ema(norms, 0.9), default=True),
    "measure_with_ema, options": Row(lambda o: o.measure_with_ema(norms, 0.9, False, jnp.bfloat16)),
    "measure_with_ema, bool": Row(
        lambda o: o.measure_with_ema(is_long, 0.9),
        casts=True,
        jit=Loose(5e-7, "the average of a bool that is cast is contracted otherwise"),
        why="upstream starts with bools",
    ),
}
