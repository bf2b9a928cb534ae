"""Upstream's names and parameters that no parity row exercises, and why."""

PAIR = "the type of a pair of functions, not a transformation: tests/test_base.py"
PRINTS = "prints, and changes no number: tests/test_linesearch.py"
SOPHIA_PRINTS = "prints, and changes no number: tests/test_contrib_b.py"

SKIPPED: dict[str, str] = {
    "GradientTransformation": PAIR,
    "GradientTransformationExtraArgs": PAIR,
    "contrib.sam.batch_axis_name": "needs a mapped axis, which a row has not: tests/test_contrib_b.py",
    "contrib.sophia.print_win_rate_every_n_steps": SOPHIA_PRINTS,
    "contrib.sophia.verbose": SOPHIA_PRINTS,
    "scale_by_backtracking_linesearch.verbose": PRINTS,
    "scale_by_zoom_linesearch.verbose": PRINTS,
}
