"""All parity rows, by family. The key names the row in reports and tests."""

from parity.row import Loose as Loose, Row as Row, ScheduleRow as ScheduleRow
from parity.rows import (
    adaptive,
    combinators,
    contrib_a,
    contrib_b,
    core,
    experimental,
    inject,
    linesearch,
    schedules,
    simple,
)

FAMILIES = (core, combinators, inject, simple, adaptive, contrib_a, contrib_b, linesearch, experimental)
ROWS: dict[str, Row] = {name: row for family in FAMILIES for name, row in family.ROWS.items()}
SCHEDULES: dict[str, ScheduleRow] = schedules.ROWS
