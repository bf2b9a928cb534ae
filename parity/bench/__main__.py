"""`python -m parity.bench`: measures pytreeopt beside Optax and writes docs/performance.md."""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from parity import matrix
from parity.bench import tables
from parity.bench.clock import CLOCKS, Clock
from parity.bench.sections import SECTIONS, chosen
from parity.bench.tables import Line

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what the command line asks for; the exit status is 1 if a bound is missed."""
    options = parse().parse_args(arguments)
    platform = matrix.use_platform(options.platform)
    environment = matrix.environment(platform) | {
        "cores": str(os.cpu_count()),
        "clock": f"{options.clock} time, interleaved, median",
    }
    sections = chosen(options.only)
    found: dict[str, list[Line]] = {}
    for number, (name, section) in enumerate(sections.items(), 1):
        started = time.perf_counter()
        clock = Clock(options.clock, watch=bar(f"{number}/{len(sections)} {name}"))
        found[section.title] = list(section.measure(clock))
        seconds = time.perf_counter() - started
        print(f"\n{section.title} ({seconds:.0f} s)\n{tables.text(found[section.title])}", flush=True)
    environment["load"] = f"{os.getloadavg()[0]:.1f} processes on average at the end"
    write(options, found, environment)
    missed = [line for lines in found.values() for line in lines if line.verdict == "MISSED"]
    print(f"\n{len(missed)} bounds missed" + "".join(f"\n  {line.what}: {line.ratio:.3g}" for line in missed))
    return 1 if missed else 0


def parse() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser("python -m parity.bench", description=__doc__.partition(": ")[2])
    add = parser.add_argument
    add("--only", nargs="+", choices=tuple(SECTIONS), default=(), help="these sections, printed and not written")
    add("--clock", choices=tuple(CLOCKS), default="wall", help="cpu on a busy machine (default: %(default)s)")
    add("--platform", choices=("cpu", "cuda", "tpu"), help="default: what JAX chooses")
    add("--out", type=Path, metavar="FILE", help="write the tables there as Markdown, and JSON beside it")
    return parser


def write(options: argparse.Namespace, found: dict[str, list[Line]], environment: dict[str, str]) -> None:
    """Puts a whole run into the documentation, and any run into `--out`."""
    measured = tables.markdown(found, environment)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(measured + "\n", encoding="utf-8")
        options.out.with_suffix(".json").write_text(tables.as_json(found, environment), encoding="utf-8")
    elif not options.only:
        PAGE.write_text(tables.put_between(PAGE.read_text(encoding="utf-8"), measured), encoding="utf-8")
        PAGE.with_suffix(".json").write_text(tables.as_json(found, environment), encoding="utf-8")
        print(f"\nwritten: {PAGE} and {PAGE.with_suffix('.json').name}")


def bar(title: str) -> Any:
    """Wraps an iterable in a progress bar; away from a terminal there is a line at its start."""

    def watch(rounds: Any) -> Iterator[Any]:
        if sys.stderr.isatty():
            from tqdm import tqdm

            yield from tqdm(rounds, desc=title, leave=False)
        else:
            print(f"bench {title}: {len(rounds)} rounds", file=sys.stderr, flush=True)
            yield from rounds

    return watch


if __name__ == "__main__":
    sys.exit(main())
