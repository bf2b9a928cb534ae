"""What optimizers that are pytrees can do, measured on handwritten digits.

A small network learns scikit-learn's digits with one compiled training function that takes the optimizer as an
argument. Each part prints its figures and writes a picture:

  grid      a grid of AdamW optimizers trained at once: vmap over learning rate and weight decay
  sweep     twenty learning rates one by one: one compilation, beside Optax's twenty
  replace   the learning rate changed in mid-run, without a compilation
  learn     learning rate and b1 learned by gradient descent through the training
"""

import argparse
import time
from collections.abc import Callable, Sequence

import jax

import demo_grid
import demo_learn
import demo_replace
import demo_sweep
from demo_report import Report, aligned, plt
from demo_training import Task
from example_program import Parser, Setting

PARTS: dict[str, tuple[str, Callable[[Task, int, int], Report]]] = {
    "grid": ("A grid of optimizers trained at once", demo_grid.measure),
    "sweep": ("Learning rates one by one", demo_sweep.measure),
    "replace": ("The learning rate changed in mid-run", demo_replace.measure),
    "learn": ("Learning rate and b1 by gradient descent", lambda task, steps, seed: demo_learn.measure(task, seed)),
}
MIN_STEPS = 40


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    steps = Setting(500, MIN_STEPS, "training steps of grid, sweep and replace")
    parser = Parser("demo.py", __doc__, steps=steps)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=PARTS,
        default=list(PARTS),
        metavar="PART",
        help="the parts to run, of grid, sweep, replace and learn (default all)",
    )
    return parser.read(arguments)


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
