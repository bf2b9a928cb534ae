"""The results of the matrix as a table, as Markdown and as JSON."""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from parity.matrix import Result, to_record, tolerance
from parity.problems import DTYPES
from parity.rows import ROWS, SCHEDULES

EXPLANATION = (
    "In units in the last place, over trees, oracles and steps, the updates and every leaf of the state; "
    "0 is equality to the bit. The oracles: `eager`; `jit`, compiled with the optimizer closed over; `argument`, "
    "compiled with the optimizer as an argument, beside Optax's made of the same traced numbers, or beside Optax's "
    "compiled with its numbers as constants where it cannot trace them. Traced numbers are float32, also where leaves "
    "are float64, and a dtype names the params': a state may hold another. Where Optax changes the dtype of a state in "
    "mid-run, its values are cast back before they are compared."
)
ENTRIES = {name.partition(",")[0] for name, row in {**ROWS, **SCHEDULES}.items() if row.default}
TOLERANCES = (
    "`relative` is the difference beside the greatest element of its leaf, and may not exceed `allowed`. A number near "
    "0, left by two that cancel, is many units off where the last bit of these is."
)
TOLERANCE_HEAD = ("row", "dtype", "oracle", "ulp", "relative", "allowed", "reason")


class Line(NamedTuple):
    """The worst result over the trees."""

    row: str
    dtype: str
    oracle: str
    worst: Result

    @property
    def verdict(self) -> str:
        if not self.worst.ok:
            return "MISS"
        return "equal" if self.worst.ulp == 0 else "close"

    @property
    def place(self) -> str:
        worst = self.worst
        if worst.ulp == 0:
            return ""
        place = f"{worst.cell.tree}: {worst.where}"
        if worst.allowed and math.isfinite(worst.relative):
            place += f"; relative {worst.relative:.1e}, allowed {worst.allowed:.1e}"
        return place


def lines(results: Iterable[Result]) -> list[Line]:
    """One line for each row, dtype and oracle, in the order in which the rows are declared."""
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.cell.row, result.cell.dtype, result.cell.oracle), []).append(result)
    return [Line(*key, max(group, key=lambda r: (not r.ok, r.ulp))) for key, group in groups.items()]


def ulps(number: float) -> str:
    """A distance, short."""
    return f"{number:.0f}" if number < 1e5 else f"{number:.0e}"


def table(shown: Sequence[Line]) -> str:
    """Columns for a terminal."""
    head = ("row", "dtype", "oracle", "ulp", "verdict", "place")
    body = [(line.row, line.dtype, line.oracle, ulps(line.worst.ulp), line.verdict, line.place) for line in shown]
    widths = [max(len(entry[column]) for entry in (head, *body)) for column in range(len(head) - 1)]
    return "\n".join(
        "  ".join((*(text.ljust(width) for text, width in zip(entry, widths, strict=False)), entry[-1])).rstrip()
        for entry in (head, *body)
    )


def counts(results: Sequence[Result]) -> dict[str, int]:
    """How many cells there are of each kind."""
    equal = sum(result.ulp == 0 for result in results)
    missed = sum(not result.ok for result in results)
    return {"cells": len(results), "equal": equal, "close": len(results) - equal - missed, "missed": missed}


def summary(results: Sequence[Result], environment: dict[str, str]) -> str:
    """One sentence."""
    n = counts(results)
    return (
        f"{n['cells']} cells of {len({r.cell.row for r in results})} rows on {environment['platform']}: "
        f"{n['equal']} equal to the bit, {n['close']} within a stated tolerance, {n['missed']} missed "
        f"(jax {environment['jax']}, optax {environment['optax']})"
    )


def markdown(results: Sequence[Result], environment: dict[str, str]) -> str:
    """The report: environment, worst difference of each name in each dtype, misses, tolerances, what was left out."""
    shown = lines(results)
    dtypes = [dtype for dtype in DTYPES if any(line.dtype == dtype for line in shown)]
    cell_of: dict[tuple[str, str], list[Line]] = {}
    for line in shown:
        cell_of.setdefault((line.row, line.dtype), []).append(line)
    rows = list(dict.fromkeys(line.row for line in shown))
    rows_of: dict[str, list[str]] = {}
    for row in rows:
        rows_of.setdefault(row.partition(",")[0], []).append(row)
    entries = [
        (name, str(len(group)), *(_worst([x for row in group for x in cell_of.get((row, d), [])]) for d in dtypes))
        for name, group in rows_of.items()
    ]
    found, every = ENTRIES & rows_of.keys(), len(ENTRIES)
    parts = [
        "# Parity with Optax",
        summary(results, environment) + ".",
        markdown_table(("", ""), environment.items()),
        "## Worst difference of each name",
        f"{len(found)} of {every} transformations, optimizers, combinators and schedules. {EXPLANATION}",
        markdown_table(("name", "rows", *dtypes), entries),
    ]
    missed = [line for line in shown if line.verdict == "MISS"]
    if missed:
        entries = [(line.row, line.dtype, line.oracle, ulps(line.worst.ulp), line.place) for line in missed]
        parts += ["## Misses", markdown_table(("row", "dtype", "oracle", "ulp", "place"), entries)]
    close = [line for line in shown if line.verdict == "close"]
    if close:
        parts += [
            "## Within a stated tolerance",
            TOLERANCES,
            markdown_table(TOLERANCE_HEAD, map(_tolerance_entry, close)),
        ]
    absent = {row: [dtype for dtype in DTYPES if not ROWS[row].runs_in(dtype)] for row in rows if row in ROWS}
    left_out = [(row, ", ".join(dtypes), ROWS[row].why) for row, dtypes in absent.items() if dtypes]
    if left_out:
        parts += ["## Dtypes left out", markdown_table(("row", "without", "reason"), left_out)]
    return "\n\n".join(parts) + "\n"


def as_json(results: Sequence[Result], environment: dict[str, str]) -> str:
    """The same for programs: every cell."""
    made: dict[str, Any] = {"environment": environment, "counts": counts(results)}
    made["results"] = [to_record(result) for result in results]
    return json.dumps(made, indent=1) + "\n"


def _worst(group: Sequence[Line]) -> str:
    if not group:
        return "–"
    worst = max(group, key=lambda line: (not line.worst.ok, line.worst.ulp))
    text = ulps(worst.worst.ulp)
    return {"MISS": f"**{text}**", "close": f"{text} ({worst.oracle})", "equal": text}[worst.verdict]


def _tolerance_entry(line: Line) -> tuple[str, ...]:
    loose, worst = tolerance(line.worst.cell), line.worst
    figures = (ulps(worst.ulp), f"{worst.relative:.1e}", f"{worst.allowed:.1e}")
    return (line.row, line.dtype, line.oracle, *figures, loose.reason if loose else "")


def markdown_table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    entries = [[text.replace("|", "\\|") for text in entry] for entry in body]
    return "\n".join("| " + " | ".join(entry) + " |" for entry in (head, ["---"] * len(head), *entries))
