"""How the parts of the demo present what they measured: aligned tables and one style of picture."""

from typing import Protocol

import matplotlib

matplotlib.use("Agg")  # draws into files, needs no display

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#2a6fbb", "#e07b39", "#8a8f98"

plt.rcParams.update(
    {
        "figure.dpi": 150,
        "figure.constrained_layout.use": True,
        "font.size": 10,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#e6e8eb",
        "legend.frameon": False,
    }
)


class Report(Protocol):
    """What a part of the demo found."""

    def table(self) -> list[tuple[str, ...]]:
        """The measured figures, a label and one or more columns in each row."""
        ...

    def summary(self) -> str:
        """The finding, in one line."""
        ...

    def draw(self) -> Figure:
        """The picture."""
        ...


def aligned(rows: list[tuple[str, ...]]) -> str:
    """Rows as text: labels to the left, all other columns to the right."""
    widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(max(map(len, rows)))]
    lines = ["   ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=False)) for row in rows]
    return "\n".join(f"  {row[0]:<{widths[0]}}{line[widths[0] :]}" for row, line in zip(rows, lines, strict=True))
