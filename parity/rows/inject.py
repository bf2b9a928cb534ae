"""Rows of hyperparameters in the state."""

import jax.numpy as jnp
import numpy as np

from parity.row import Loose, Row
from parity.rows.core import MASK, falling, matrices

SCHEDULE = Loose(1e-4, "a traced length takes the guarded path, and traced float32 numbers round")

NO_FLOAT16 = {
    "dtypes": ("float32", "bfloat16", "complex64", "float64"),
    "why": "upstream raises the decays to the power of the count in float16; here that is float32, as without inject",
}


def row32(build, **traits):
    """A row that mixes precisions under float64."""
    return Row(
        build, dtypes=("float32",), why="hyperparameters count as Python numbers, upstream's widen or narrow", **traits
    )


ROWS = {
    "inject_hyperparams": Row(lambda o: o.inject_hyperparams(o.adamw)(1e-2), default=True, **NO_FLOAT16),
    "inject_hyperparams, schedules": Row(
        lambda o: o.inject_hyperparams(o.adamw)(
            o.linear_schedule(1e-2, 1e-3, 4), b1=o.cosine_decay_schedule(0.9, 5, 0.5), weight_decay=falling
        ),
        untraced=SCHEDULE,
        dtypes=("float32", "float64", "complex64"),
        why="upstream rounds b2 to 1 in half precision and divides 0 by 0",
    ),
    "inject_hyperparams, sgd": Row(lambda o: o.inject_hyperparams(o.sgd)(learning_rate=falling, momentum=0.9)),
    "inject_hyperparams, array": row32(lambda o: o.inject_hyperparams(o.sgd)(np.asarray(1e-2), jnp.float32(0.8))),
    "inject_hyperparams, mask": Row(
        lambda o: o.inject_hyperparams(o.adamw, static_args="mask")(1e-2, weight_decay=0.1, mask=matrices),
        **NO_FLOAT16,
    ),
    "inject_hyperparams, mask tree": row32(
        lambda o: o.inject_hyperparams(o.adamw, "mask")(1e-2, weight_decay=0.1, mask=MASK, mu_dtype="float32"),
        trees=("nested",),
    ),
    "inject_hyperparams, dtype": row32(
        lambda o: o.inject_hyperparams(o.adam, hyperparam_dtype=jnp.float32)(1e-2, b2=0.99)
    ),
    "inject_hyperparams, adafactor": row32(
        lambda o: o.inject_hyperparams(o.adafactor, static_args=("min_dim_size_to_factor", "dtype_momentum"))(
            1e-2, min_dim_size_to_factor=2, momentum=0.9
        )
    ),
    "inject_hyperparams, chained": Row(
        lambda o: o.chain(o.clip_by_global_norm(0.7), o.inject_hyperparams(o.adam)(falling)), **NO_FLOAT16
    ),
    "inject_hyperparams, function": Row(
        lambda o: o.inject_hyperparams(
            lambda rate, decay: o.chain(o.add_decayed_weights(decay), o.sgd(rate, momentum=0.9))
        )(falling, 1e-2)
    ),
    "WrappedSchedule": Row(
        lambda o: o.inject_hyperparams(o.sgd)(o.schedules.WrappedSchedule(o.constant_schedule(1e-2)), momentum=0.9),
        default=True,
    ),
    "inject_stateful_hyperparams": Row(
        lambda o: o.inject_stateful_hyperparams(o.adam)(1e-2), default=True, **NO_FLOAT16
    ),
    "inject_hyperparams, scale": Row(lambda o: o.inject_hyperparams(o.scale)(step_size=lambda step: 0.1 * (step + 1))),
    "inject_stateful_hyperparams, options": row32(
        lambda o: o.inject_stateful_hyperparams(o.adamw, "mask", jnp.float32)(falling, b2=0.99, mask=matrices)
    ),
}
