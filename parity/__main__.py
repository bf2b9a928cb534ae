"""`python -m parity`: compares every row with Optax over the whole matrix of trees, dtypes and oracles."""

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path

import jax

from parity import matrix, report
from parity.command import positive, watched
from parity.matrix import Cell, Result, Store
from parity.oracles import ORACLES
from parity.problems import DTYPES

RESULTS = Path(".parity/results.jsonl")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what the command line asks for; the exit status is 1 on a miss, 2 on bad options."""
    parser = parse()
    options = parser.parse_args(arguments)
    rows = matrix.names(options.only)
    unknown = [part for part in options.only if not matrix.names([part])]
    if unknown:
        near = difflib.get_close_matches(unknown[0], matrix.names())
        hint = f"; near it: {', '.join(near)}" if near else ""
        parser.error(f"--only {unknown[0]!r} is part of no row's name{hint}")
    cells = matrix.cells(rows, options.trees, options.dtypes, options.oracles, options.steps, options.quick)
    if not cells:
        parser.error("these rows run in none of these trees and dtypes")
    try:
        platform = matrix.use_platform(options.platform, shared=options.shards > 1)
    except RuntimeError as error:
        parser.error(str(error))
    if options.shards > 1 and platform == "tpu":
        parser.error("--shards must be 1 on a TPU: only one process can use it")
    if jax.config.jax_disable_jit:
        parser.error("JAX_DISABLE_JIT is set, with which nothing is compiled; unset it")
    if options.report is not None:
        try:
            options.report.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            parser.error(f"--report {options.report}: its folder cannot be made: {error.strerror}")

    if options.fresh:
        RESULTS.unlink(missing_ok=True)
    store = Store(RESULTS, platform)
    wanted = set(cells)
    finished = {cell: result for cell, result in store.read().items() if cell in wanted}
    todo = [cell for cell in cells if cell not in finished]
    if finished:
        print(f"parity: {len(finished)} of {len(cells)} cells are in {RESULTS} already", file=sys.stderr)
    new = matrix.run_here(todo) if options.shards == 1 else matrix.run_in_workers(todo, options.shards, platform)
    try:
        for result in watched(store.keep(new), len(finished), len(cells)):
            finished[result.cell] = result
    except KeyboardInterrupt:
        print(f"\nparity: stopped at {len(finished)} of {len(cells)}; the same command goes on here", file=sys.stderr)
        return 130

    results = in_order(finished, rows)
    lines = report.lines(results)
    shown = lines if options.verbose else [line for line in lines if line.verdict == "MISS"]
    if shown:
        print(report.table(shown))
    environment = {**matrix.environment(platform), "runs": runs(options)}
    print(report.summary(results, environment))
    if options.report is not None:
        options.report.write_text(report.markdown(results, environment), encoding="utf-8")
        options.report.with_suffix(".json").write_text(report.as_json(results, environment), encoding="utf-8")
    return 0 if all(result.ok for result in results) else 1


def parse() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser("python -m parity", description=__doc__.partition(": ")[2])
    add = parser.add_argument
    add("--only", action="append", default=[], metavar="SUBSTRING", help="rows whose name contains it; repeatable")
    add("--trees", nargs="+", choices=matrix.TREES, default=matrix.TREES, help="counts: the schedules")
    add("--dtypes", nargs="+", choices=tuple(DTYPES), default=tuple(DTYPES), help="default: all")
    add("--oracles", nargs="+", choices=ORACLES, default=ORACLES, help="default: all")
    add("--steps", type=positive, default=30, help="updates in a run (default: %(default)s)")
    add("--quick", action="store_true", help="each row on one tree, few steps where eager steps are slow")
    add("--platform", choices=("cpu", "cuda", "tpu"), help="default: what JAX chooses")
    add("--shards", type=positive, default=1, metavar="N", help="worker processes (default: %(default)s)")
    add("--report", type=markdown_file, metavar="FILE", help="write a Markdown report, and JSON beside it")
    add("--fresh", action="store_true", help=f"forget the finished cells in {RESULTS}")
    add("--verbose", action="store_true", help="print every line, not only the misses")
    return parser


def runs(options: argparse.Namespace) -> str:
    """In words, on which trees and for how long each row is run."""
    if options.quick:
        return f"each row on one tree, {options.steps} steps, {matrix.FEW_STEPS} where eager steps are slow"
    return f"each row on {', '.join(options.trees)}, {options.steps} steps"


def markdown_file(text: str) -> Path:
    path = Path(text)
    if path.suffix == ".json" or path.is_dir():
        raise argparse.ArgumentTypeError(f"must name a Markdown file, got {text}")
    return path


def in_order(finished: dict[Cell, Result], rows: Sequence[str]) -> list[Result]:
    """By row, then dtype, whatever the order in which they were run."""
    place = {name: index for index, name in enumerate((*rows, *DTYPES, *ORACLES, *matrix.TREES))}
    key = lambda cell: (place[cell.row], place[cell.dtype], place[cell.oracle], place[cell.tree])
    return [finished[cell] for cell in sorted(finished, key=key)]


if __name__ == "__main__":
    sys.exit(main())
