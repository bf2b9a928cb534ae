"""Rows of the schedules."""

from parity.row import Loose, ScheduleRow

GUARDED = Loose(1e-5, "a traced length takes the guarded path, and traced float32 numbers round")
ROUNDED = Loose(1e-5, "upstream cannot trace the keys or the scales of a mapping, and traced float32 numbers round")

# Fractional powers have lengths that are powers of two: compiled, upstream gives NaN at the end of others.

ROWS = {
    "constant_schedule": ScheduleRow(lambda o: o.constant_schedule(0.1), default=True),
    "constant_schedule, int": ScheduleRow(lambda o: o.constant_schedule(3)),
    "linear_schedule": ScheduleRow(lambda o: o.linear_schedule(1e-1, 1e-3, 10), default=True, untraced=GUARDED),
    "linear_schedule, begin": ScheduleRow(lambda o: o.linear_schedule(1e-3, 1e-1, 7, 3), untraced=GUARDED),
    "linear_schedule, no length": ScheduleRow(lambda o: o.linear_schedule(1e-1, 1e-3, 0), untraced=GUARDED),
    "linear_schedule, negative begin": ScheduleRow(lambda o: o.linear_schedule(1.0, 0.1, 7, -3), untraced=GUARDED),
    "linear_schedule, fractions": ScheduleRow(lambda o: o.linear_schedule(1.0, 0.1, 7.5, 2.5), untraced=GUARDED),
    "linear_schedule, ints": ScheduleRow(lambda o: o.linear_schedule(2, 9, 7), untraced=GUARDED),
    "polynomial_schedule": ScheduleRow(
        lambda o: o.polynomial_schedule(1e-1, 1e-3, 2.5, 8), default=True, untraced=GUARDED
    ),
    "polynomial_schedule, int": ScheduleRow(lambda o: o.polynomial_schedule(1.0, 0.1, 3, 7, 2), untraced=GUARDED),
    "polynomial_schedule, root": ScheduleRow(lambda o: o.polynomial_schedule(1.0, 0.1, 0.5, 8), untraced=GUARDED),
    "polynomial_schedule, power zero": ScheduleRow(lambda o: o.polynomial_schedule(1.0, 0.1, 0, 7), untraced=GUARDED),
    "exponential_decay": ScheduleRow(lambda o: o.exponential_decay(1e-1, 4, 0.7), default=True, untraced=GUARDED),
    "exponential_decay, options": ScheduleRow(
        lambda o: o.exponential_decay(1e-1, 3, 0.5, 2, True, 2e-2), untraced=GUARDED
    ),
    "exponential_decay, growth": ScheduleRow(
        lambda o: o.exponential_decay(1e-2, 3, 1.5, transition_begin=-2, end_value=5e-2), untraced=GUARDED
    ),
    "exponential_decay, bound above the start": ScheduleRow(
        lambda o: o.exponential_decay(1e-2, 3, 0.5, 4, end_value=5e-2), untraced=GUARDED
    ),
    "exponential_decay, no length": ScheduleRow(
        lambda o: o.exponential_decay(1e-1, 0, 0.7, end_value=0.5), untraced=GUARDED
    ),
    "exponential_decay, zero rate": ScheduleRow(
        lambda o: o.exponential_decay(1e-1, 5, 0.0, end_value=0.5), untraced=GUARDED
    ),
    "cosine_decay_schedule": ScheduleRow(lambda o: o.cosine_decay_schedule(1e-1, 10), default=True, untraced=GUARDED),
    "cosine_decay_schedule, options": ScheduleRow(
        lambda o: o.cosine_decay_schedule(1e-1, 10, 0.1, 1.7), untraced=GUARDED
    ),
    "cosine_decay_schedule, root": ScheduleRow(
        lambda o: o.cosine_decay_schedule(1e-1, 7.5, exponent=0.5), untraced=GUARDED
    ),
    "cosine_onecycle_schedule": ScheduleRow(
        lambda o: o.cosine_onecycle_schedule(12, 0.1), untraced=ROUNDED, default=True
    ),
    "cosine_onecycle_schedule, options": ScheduleRow(
        lambda o: o.cosine_onecycle_schedule(11, 0.1, 0.45, 10.0, 50), untraced=ROUNDED
    ),
    "cosine_onecycle_schedule, merged": ScheduleRow(lambda o: o.cosine_onecycle_schedule(2, 0.1), untraced=ROUNDED),
    "linear_onecycle_schedule": ScheduleRow(
        lambda o: o.linear_onecycle_schedule(12, 0.1), untraced=ROUNDED, default=True
    ),
    "linear_onecycle_schedule, options": ScheduleRow(
        lambda o: o.linear_onecycle_schedule(13, 0.1, 0.2, 0.7, 10.0, 50), untraced=ROUNDED
    ),
    "linear_onecycle_schedule, merged": ScheduleRow(lambda o: o.linear_onecycle_schedule(2, 0.1), untraced=ROUNDED),
    "piecewise_constant_schedule": ScheduleRow(
        lambda o: o.piecewise_constant_schedule(0.1, {9: 0.3, 4: 0.5}), default=True, untraced=ROUNDED
    ),
    "piecewise_constant_schedule, none": ScheduleRow(lambda o: o.piecewise_constant_schedule(0.1)),
    "piecewise_constant_schedule, zero": ScheduleRow(
        lambda o: o.piecewise_constant_schedule(0.1, {2: 2, 4: 0.0}), untraced=ROUNDED
    ),
    "piecewise_interpolate_schedule": ScheduleRow(
        lambda o: o.piecewise_interpolate_schedule("linear", 0.1, {9: 0.3, 4: 0.5}), default=True, untraced=ROUNDED
    ),
    "piecewise_interpolate_schedule, cosine": ScheduleRow(
        lambda o: o.piecewise_interpolate_schedule("cosine", 0.1, {4: 5.0, 9: 0.1, 12: 0.5}), untraced=ROUNDED
    ),
    "piecewise_interpolate_schedule, none": ScheduleRow(lambda o: o.piecewise_interpolate_schedule("cosine", 0.1)),
    "piecewise_interpolate_schedule, empty": ScheduleRow(lambda o: o.piecewise_interpolate_schedule("linear", 0.1, {})),
    "piecewise_interpolate_schedule, from zero": ScheduleRow(
        lambda o: o.piecewise_interpolate_schedule("linear", 0.1, {0: 2.0, 7: 0.0}), untraced=ROUNDED
    ),
    "sgdr_schedule": ScheduleRow(
        lambda o: o.sgdr_schedule(
            [
                {"init_value": 0.0, "peak_value": 0.1, "decay_steps": 6, "warmup_steps": 2},
                {"init_value": 0.01, "peak_value": 0.05, "warmup_steps": 0, "decay_steps": 7, "end_value": 1e-3},
            ]
        ),
        default=True,
        untraced=GUARDED,
    ),
    "sgdr_schedule, one, from a generator": ScheduleRow(
        lambda o: o.sgdr_schedule(
            {"init_value": 0.0, "peak_value": 0.1, "decay_steps": 6, "warmup_steps": 2, "exponent": power}
            for power in (2.0,)
        ),
        untraced=GUARDED,
    ),
    "warmup_constant_schedule": ScheduleRow(
        lambda o: o.warmup_constant_schedule(0.0, 1e-1, 6), default=True, untraced=GUARDED
    ),
    "warmup_constant_schedule, no length": ScheduleRow(
        lambda o: o.warmup_constant_schedule(0.0, 1e-1, 0), untraced=GUARDED
    ),
    "warmup_cosine_decay_schedule": ScheduleRow(
        lambda o: o.warmup_cosine_decay_schedule(0.0, 1e-1, 4, 12), default=True, untraced=GUARDED
    ),
    "warmup_cosine_decay_schedule, options": ScheduleRow(
        lambda o: o.warmup_cosine_decay_schedule(1e-3, 1e-1, 0, 9, 1e-4, 2.0), untraced=GUARDED
    ),
    "warmup_cosine_decay_schedule, zero peak": ScheduleRow(
        lambda o: o.warmup_cosine_decay_schedule(1e-3, 0.0, 4, 9, 1e-4), untraced=GUARDED
    ),
    "warmup_exponential_decay_schedule": ScheduleRow(
        lambda o: o.warmup_exponential_decay_schedule(0.0, 1e-1, 4, 3, 0.6), default=True, untraced=GUARDED
    ),
    "warmup_exponential_decay_schedule, options": ScheduleRow(
        lambda o: o.warmup_exponential_decay_schedule(1e-3, 1e-1, 3, 2, 0.6, 2, True, 2e-2), untraced=GUARDED
    ),
    "join_schedules": ScheduleRow(
        lambda o: o.join_schedules([o.linear_schedule(0.0, 1.0, 5), o.cosine_decay_schedule(1.0, 6)], [5]),
        default=True,
        untraced=GUARDED,
    ),
    "join_schedules, three": ScheduleRow(
        lambda o: o.join_schedules(
            [lambda t: 0.1 * t, o.constant_schedule(2.0), o.linear_schedule(2.0, 0.5, 3)], [3, 7]
        ),
        untraced=GUARDED,
    ),
    "join_schedules, one": ScheduleRow(
        lambda o: o.join_schedules([o.linear_schedule(0.0, 1.0, 5)], []), untraced=GUARDED
    ),
    "join_schedules, nested": ScheduleRow(
        lambda o: o.join_schedules(
            [
                o.warmup_exponential_decay_schedule(0.0, 1.0, 2, 2, 0.5),
                o.join_schedules([o.polynomial_schedule(1.0, 0.0, 0.5, 2), o.exponential_decay(1.0, 2, 0.9)], (3,)),
            ],
            [6],
        ),
        untraced=GUARDED,
    ),
}
