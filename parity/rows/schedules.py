"""Rows of the schedules."""

from parity.row import Loose, ScheduleRow

GUARDED = Loose(1e-5, "a traced length takes the guarded path, and traced float32 numbers round")

ROWS = {
    "constant_schedule": ScheduleRow(lambda o: o.constant_schedule(0.1), default=True),
    "linear_schedule": ScheduleRow(lambda o: o.linear_schedule(1e-1, 1e-3, 10), default=True, untraced=GUARDED),
    "linear_schedule, begin": ScheduleRow(lambda o: o.linear_schedule(1e-3, 1e-1, 7, 3), untraced=GUARDED),
    "linear_schedule, no length": ScheduleRow(lambda o: o.linear_schedule(1e-1, 1e-3, 0), untraced=GUARDED),
    "linear_schedule, negative begin": ScheduleRow(lambda o: o.linear_schedule(1.0, 0.1, 7, -3), untraced=GUARDED),
    "polynomial_schedule": ScheduleRow(
        lambda o: o.polynomial_schedule(1e-1, 1e-3, 2.5, 10), default=True, untraced=GUARDED
    ),
    "polynomial_schedule, int": ScheduleRow(lambda o: o.polynomial_schedule(1.0, 0.1, 3, 7, 2), untraced=GUARDED),
    "polynomial_schedule, root": ScheduleRow(lambda o: o.polynomial_schedule(1.0, 0.1, 0.5, 7), untraced=GUARDED),
    "cosine_decay_schedule": ScheduleRow(lambda o: o.cosine_decay_schedule(1e-1, 10), default=True, untraced=GUARDED),
    "cosine_decay_schedule, options": ScheduleRow(
        lambda o: o.cosine_decay_schedule(1e-1, 10, 0.1, 1.7), untraced=GUARDED
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
    "join_schedules": ScheduleRow(
        lambda o: o.join_schedules([o.linear_schedule(0.0, 1.0, 5), o.cosine_decay_schedule(1.0, 6)], [5]),
        default=True,
        untraced=GUARDED,
    ),
    "join_schedules, three": ScheduleRow(
        lambda o: o.join_schedules(
            [lambda t: 0.1 * t, o.constant_schedule(2.0), o.linear_schedule(2.0, 0.0, 3)], [3, 7]
        ),
        untraced=GUARDED,
    ),
}
