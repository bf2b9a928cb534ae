"""All parity rows, by family. The key names the row in reports and tests."""

from parity.row import Loose as Loose
from parity.row import Row as Row
from parity.row import ScheduleRow as ScheduleRow
from parity.rows import core, schedules

ROWS: dict[str, Row] = {**core.ROWS}
SCHEDULES: dict[str, ScheduleRow] = {**schedules.ROWS}
