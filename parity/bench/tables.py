"""The results as text: for a terminal, for the documentation, for programs."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from parity.report import markdown_table

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
HEAD = ("what", "pytreeopt", "against", "its figure", "ratio", "at most", "")


class Line(NamedTuple):
    """One comparison. `limit` bounds the ratio; None where a figure is listed only."""

    what: str
    unit: str
    ours: float
    against: str
    theirs: float
    ratio: float
    limit: float | None = None

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return ""
        return "met" if self.ratio <= self.limit else "MISSED"


def entry(line: Line) -> tuple[str, ...]:
    limit = "" if line.limit is None else number(line.limit)
    figures = (f"{number(line.ours)} {line.unit}".strip(), line.against, f"{number(line.theirs)} {line.unit}".strip())
    return (line.what, *figures, number(line.ratio), limit, line.verdict)


def number(x: float) -> str:
    """Three digits, or all of a whole number and of one just above 1."""
    if math.isinf(x):
        return "∞"
    if x == int(x) and abs(x) < 1e6:
        return f"{int(x):,}"
    return f"{x:.4f}" if 1 < x < 1.001 else f"{x:.3g}" if abs(x) < 1000 else f"{x:,.0f}"


def text(lines: Iterable[Line]) -> str:
    """Columns for a terminal."""
    body = [HEAD, *map(entry, lines)]
    widths = [max(len(row[column]) for row in body) for column in range(len(HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in body
    )


def markdown(sections: Mapping[str, Sequence[Line]], environment: Mapping[str, str]) -> str:
    """A table of the machine and versions, and one for each section."""
    parts = [markdown_table(("", ""), environment.items())]
    for title, lines in sections.items():
        parts += [f"### {title}", markdown_table(HEAD, map(entry, lines))]
    return "\n\n".join(parts)


def as_json(sections: Mapping[str, Sequence[Line]], environment: Mapping[str, str]) -> str:
    """The same for programs."""
    made: dict[str, Any] = {"environment": dict(environment)}
    made["sections"] = {
        title: [{**line._asdict(), "verdict": line.verdict} for line in lines] for title, lines in sections.items()
    }
    return json.dumps(made, indent=1) + "\n"


def put_between(page: str, measured: str) -> str:
    """The page with what stands between its marks exchanged."""
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"the page lacks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{measured}\n\n{END}{after}"
