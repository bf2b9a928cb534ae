"""What optimizers that are pytrees can do, measured on handwritten digits.

A small network learns scikit-learn's digits with one compiled training function that takes the optimizer as an
argument. Each part prints its figures and writes a picture:

  grid      a grid of AdamW optimizers trained at once: vmap over learning rate and weight decay
  sweep     twenty learning rates one by one: one compilation, beside Optax's twenty
  replace   the learning rate changed in mid-run, without a compilation
  learn     learning rate and b1 learned by gradient descent through the training
"""

import argparse
import os
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

import jax

import demo_grid
import demo_learn
import demo_replace
import demo_sweep
from demo_report import Report, aligned, plt
from demo_training import Task

PARTS: dict[str, tuple[str, Callable[[Task, int, int], Report]]] = {
    "grid": ("A grid of optimizers trained at once", demo_grid.measure),
    "sweep": ("Learning rates one by one", demo_sweep.measure),
    "replace": ("The learning rate changed in mid-run", demo_replace.measure),
    "learn": ("Learning rate and b1 by gradient descent", lambda task, steps, seed: demo_learn.measure(task, seed)),
}
MIN_STEPS = 40


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see --help)\n")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(prog="demo.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seed", type=int, default=0, help="of the split, the initial parameters and the batches (default 0)"
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=500,
        help=f"training steps of grid, sweep and replace, at least {MIN_STEPS} (default 500)",
    )
    parser.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path("out"), help="folder for the pictures (default out)"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=PARTS,
        default=list(PARTS),
        metavar="PART",
        help="the parts to run, of grid, sweep, replace and learn (default all)",
    )
    options = parser.parse_args(arguments)
    if not 0 <= options.seed < 2**32:
        parser.error(f"argument --seed: must be between 0 and 2**32 - 1, got {options.seed}")
    if options.steps < MIN_STEPS:
        parser.error(f"argument --steps: must be at least {MIN_STEPS}, got {options.steps}")
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"argument --out: cannot make the folder {options.out}: {error.strerror}")
    if not os.access(options.out, os.W_OK):
        parser.error(f"argument --out: cannot write into {options.out}")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    begin = time.perf_counter()
    jax.config.update("jax_enable_compilation_cache", False)  # a program on disk would hide a compilation
    task = Task.load(options.seed)
    summaries = []
    for name in dict.fromkeys(options.only):
        title, measure = PARTS[name]
        jax.clear_caches()  # no part profits from what another one compiled
        report = measure(task, options.steps, options.seed)
        figure = report.draw()
        figure.savefig(options.out / f"{name}.png")
        plt.close(figure)
        print(f"\n{title}\n{aligned(report.table())}\n", flush=True)
        summaries.append((name, report.summary()))
    print(f"All in {time.perf_counter() - begin:.0f} s on {jax.devices()[0].platform}; pictures in {options.out}/")
    for name, summary in summaries:
        print(f"  {name + '.png':<13}{summary}")


if __name__ == "__main__":
    main()
