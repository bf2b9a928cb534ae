"""Rows of `pytreeopt.contrib`: Adam's relatives, optimizers without a learning rate, MoMo, plateaus."""

from parity.row import NOT_ONE_NUMBER, Loose, Row
from parity.rows.core import MASK, UNTRACED_SCHEDULE, falling, matrices

UNCHECKED = Loose(1e-4, "upstream's constructor compares the number, and traced float32 numbers round")
WIDE, PROMOTES = ("float32", "complex64", "float64"), "upstream's schedule turns low precision into float32"

ROWS = {
    "scale_by_acprop": Row(lambda o: o.contrib.scale_by_acprop(eps=1e-3, eps_root=1e-2), default=True),
    "scale_by_acprop, defaults": Row(lambda o: o.contrib.scale_by_acprop()),
    "scale_by_acprop, options": Row(lambda o: o.contrib.scale_by_acprop(0.8, 0.95, 1e-4, 1e-4)),
    "acprop": Row(lambda o: o.contrib.acprop(1e-2, eps=1e-3, eps_root=1e-2), default=True),
    "acprop, defaults": Row(lambda o: o.contrib.acprop(1e-2)),
    "acprop, options": Row(
        lambda o: o.contrib.acprop(1e-2, b1=0.8, b2=0.9, eps=1e-4, eps_root=1e-4, weight_decay=0.1, mask=MASK),
        trees=("nested",),
    ),
    "acprop, schedule": Row(
        lambda o: o.contrib.acprop(o.linear_schedule(1e-2, 1e-3, 6), weight_decay=0.1, mask=matrices),
        untraced=UNTRACED_SCHEDULE,
    ),
    "scale_by_ademamix": Row(lambda o: o.contrib.scale_by_ademamix(), default=True),
    "scale_by_ademamix, schedules": Row(
        lambda o: o.contrib.scale_by_ademamix(b3=o.linear_schedule(0.9, 0.999, 5), alpha=falling),
        untraced=UNTRACED_SCHEDULE,
        dtypes=WIDE,
        why=PROMOTES,
    ),
    "scale_by_ademamix, options": Row(
        lambda o: o.contrib.scale_by_ademamix(0.8, 0.9, 0.99, 3.0, 1e-4, 1e-6, "float32"),
        dtypes=("float32", "bfloat16", "float16"),
        why="upstream's averages leave mu_dtype where the params are wider",
    ),
    "ademamix": Row(lambda o: o.contrib.ademamix(1e-2), default=True),
    "ademamix, options": Row(
        lambda o: o.contrib.ademamix(
            1e-2, 0.8, 0.9, 0.99, 3.0, eps=1e-4, eps_root=1e-6, mu_dtype="float32", weight_decay=0.1, mask=MASK
        ),
        dtypes=("float32", "bfloat16", "float16"),
        why="upstream's averages leave mu_dtype where the params are wider",
        trees=("nested",),
    ),
    "simplified_ademamix": Row(lambda o: o.contrib.simplified_ademamix(1e-2), default=True),
    "simplified_ademamix, options": Row(
        lambda o: o.contrib.simplified_ademamix(
            falling, b1=0.9, b2=0.9, alpha=2.0, eps=1e-4, eps_root=1e-6, weight_decay=0.1, mask=matrices
        )
    ),
    "scale_by_simplified_ademamix": Row(lambda o: o.contrib.scale_by_simplified_ademamix(), default=True),
    "scale_by_simplified_ademamix, options": Row(
        lambda o: o.contrib.scale_by_simplified_ademamix(0.9, 0.9, 2.0, 1e-4, 1e-6)
    ),
    "scale_by_simplified_ademamix, schedule": Row(
        lambda o: o.contrib.scale_by_simplified_ademamix(alpha=o.linear_schedule(1.0, 3.0, 5)),
        untraced=UNTRACED_SCHEDULE,
        dtypes=WIDE,
        why=PROMOTES,
    ),
    "scale_by_adopt": Row(
        lambda o: o.contrib.scale_by_adopt(), default=True, complex=False, why="jnp.clip refuses complex numbers"
    ),
    "scale_by_adopt, clip": Row(
        lambda o: o.contrib.scale_by_adopt(clip_value_fn=lambda t: 0.5 + 0.1 * t),
        complex=False,
        why="jnp.clip refuses complex numbers",
    ),
    "scale_by_adopt, unclipped": Row(
        lambda o: o.contrib.scale_by_adopt(0.8, 0.99, 1e-4, "float32", nesterov=True, use_clipping=False),
        dtypes=("float32", "bfloat16"),
        why="upstream's first step overflows in float16",
    ),
    "adopt": Row(lambda o: o.contrib.adopt(1e-2), default=True, complex=False, why="jnp.clip refuses complex numbers"),
    "adopt, options": Row(
        lambda o: o.contrib.adopt(falling, b1=0.8, b2=0.99, nesterov=True, clip_value_fn=lambda t: 0.5 + 0.1 * t),
        complex=False,
        why="jnp.clip refuses complex numbers",
    ),
    "adopt, mu_dtype": Row(
        lambda o: o.contrib.adopt(1e-2, eps=1e-3, mu_dtype="bfloat16"),
        complex=False,
        why="jnp.clip refuses complex numbers",
    ),
    "adopt, complex": Row(
        lambda o: o.contrib.adopt(1e-2, use_clipping=False), dtypes=("complex64",), why="the row of complex params"
    ),
    "scale_by_cocob": Row(lambda o: o.contrib.scale_by_cocob(), default=True),
    "scale_by_cocob, options": Row(lambda o: o.contrib.scale_by_cocob(10.0, 1e-3)),
    "cocob": Row(lambda o: o.contrib.cocob(), default=True),
    "cocob, options": Row(
        lambda o: o.contrib.cocob(falling, alpha=10.0, eps=1e-3, weight_decay=0.1, mask=MASK), trees=("nested",)
    ),
    "cocob, rate": Row(lambda o: o.contrib.cocob(0.3, weight_decay=0.1, mask=matrices)),
    "dadapt_adamw": Row(
        lambda o: o.contrib.dadapt_adamw(),
        default=True,
        dtypes=("float32", "bfloat16", "complex64", "float64"),
        why="upstream's first step is 0/0 in float16, where eps is 0",
    ),
    "dadapt_adamw, options": Row(
        lambda o: o.contrib.dadapt_adamw(0.5, (0.8, 0.9), 1e-3, 1e-2, 0.1),
    ),
    "dadapt_adamw, schedule": Row(
        lambda o: o.contrib.dadapt_adamw(o.linear_schedule(1.0, 0.1, 6), eps=1e-4),
        untraced=UNTRACED_SCHEDULE,
        dtypes=("float32", "bfloat16", "complex64", "float64"),
        why="upstream's estimate is 0/0 in float16",
    ),
    "prodigy": Row(
        lambda o: o.contrib.prodigy(),
        default=True,
        dtypes=("float32", "bfloat16", "complex64", "float64"),
        why="upstream's first step is 0/0 in float16, where eps is 0",
    ),
    "prodigy, options": Row(lambda o: o.contrib.prodigy(0.5, (0.8, 0.9), 0.95, 1e-2, 0.1, 0.8, 0.1)),
    "prodigy, safeguarded": Row(
        lambda o: o.contrib.prodigy(falling, eps=1e-2, estim_lr0=1e-2, weight_decay=1e-2, safeguard_warmup=True)
    ),
    "dog": Row(lambda o: o.contrib.dog(0.7, ("heuristic", 1e-2)), default=True),
    "dog, defaults": Row(lambda o: o.contrib.dog()),
    "dog, distance": Row(
        lambda o: o.contrib.dog(0.5, ("distance", 1e-2), 1e-4, weight_decay=0.1, mask=MASK), trees=("nested",)
    ),
    "dog, learning rate": Row(lambda o: o.contrib.dog(falling, ("learning_rate", 1e-2), weight_decay=0.0)),
    "dog, large": Row(lambda o: o.contrib.dog(init_step=("heuristic", 1e-2), weight_decay=0.1, mask=matrices)),
    "dowg": Row(lambda o: o.contrib.dowg(), default=True),
    "dowg, options": Row(lambda o: o.contrib.dowg(falling, 1e-2, 1e-3, weight_decay=0.1, mask=MASK), trees=("nested",)),
    "dowg, zero decay": Row(lambda o: o.contrib.dowg(0.5, weight_decay=0.0)),
    "scale_by_madgrad, defaults": Row(
        lambda o: o.contrib.scale_by_madgrad(1e-2), complex=False, why="cube roots are real"
    ),
    "scale_by_madgrad": Row(
        lambda o: o.contrib.scale_by_madgrad(1e-2, eps=1e-2),
        default=True,
        float32_inside="the root of the count",
        complex=False,
        why="cube roots are real",
    ),
    "scale_by_madgrad, options": Row(
        lambda o: o.contrib.scale_by_madgrad(falling, 0.8, 1e-4), complex=False, why="cube roots are real"
    ),
    "madgrad, defaults": Row(lambda o: o.contrib.madgrad(1e-2), complex=False, why="cube roots are real"),
    "madgrad": Row(
        lambda o: o.contrib.madgrad(1e-2, eps=1e-2),
        default=True,
        float32_inside="the root of the count",
        complex=False,
        why="cube roots are real",
    ),
    "madgrad, options": Row(
        lambda o: o.contrib.madgrad(o.linear_schedule(1e-2, 1e-3, 6), 0.8, weight_decay=0.1, eps=1e-4),
        complex=False,
        untraced=UNTRACED_SCHEDULE,
        why="cube roots are real",
    ),
    "madgrad, plain": Row(lambda o: o.contrib.madgrad(falling, momentum=0.0), complex=False, why="cube roots are real"),
    "momo": Row(lambda o: o.contrib.momo(), ("value",), default=True, costly=True),
    "momo, options": Row(lambda o: o.contrib.momo(0.1, 0.8, 0.5, 0.1), ("value",), costly=True),
    "momo, adaptive": Row(
        lambda o: o.contrib.momo(0.5, lower_bound=1.5, weight_decay=0.1, adapt_lower_bound=True),
        ("value",),
        costly=True,
    ),
    "momo, schedule": Row(
        lambda o: o.contrib.momo(o.linear_schedule(1.0, 0.1, 6)),
        ("value",),
        untraced=UNTRACED_SCHEDULE,
        dtypes=WIDE,
        why=PROMOTES,
        costly=True,
    ),
    "momo_adam": Row(lambda o: o.contrib.momo_adam(), ("value",), default=True, costly=True),
    "momo_adam, options": Row(
        lambda o: o.contrib.momo_adam(0.1, 0.8, 0.9, 1e-3, lower_bound=0.5, weight_decay=0.1), ("value",), costly=True
    ),
    "momo_adam, adaptive": Row(
        lambda o: o.contrib.momo_adam(0.5, lower_bound=1.5, weight_decay=0.1, adapt_lower_bound=True),
        ("value",),
        costly=True,
    ),
    "momo_adam, schedule": Row(
        lambda o: o.contrib.momo_adam(o.linear_schedule(1.0, 0.1, 6)),
        ("value",),
        untraced=UNTRACED_SCHEDULE,
        dtypes=WIDE,
        why=PROMOTES,
        costly=True,
    ),
    "normalize": Row(lambda o: o.contrib.normalize(), default=True, trees=NOT_ONE_NUMBER),
    "normalize, chained": Row(
        lambda o: o.chain(o.contrib.normalize(), o.sgd(1e-1, momentum=0.9)), trees=NOT_ONE_NUMBER
    ),
    "reduce_on_plateau": Row(
        lambda o: o.contrib.reduce_on_plateau(),
        ("value",),
        default=True,
        untraced=UNCHECKED,
    ),
    "reduce_on_plateau, plateau": Row(
        lambda o: o.contrib.reduce_on_plateau(0.5, patience=1, rtol=0.5, atol=1e-3, cooldown=1, min_scale=0.3),
        ("value",),
        untraced=UNCHECKED,
    ),
    "reduce_on_plateau, accumulated": Row(
        lambda o: o.chain(o.adam(1e-2), o.contrib.reduce_on_plateau(0.5, patience=2, rtol=0.9, accumulation_size=2)),
        ("value",),
        untraced=UNCHECKED,
    ),
}
