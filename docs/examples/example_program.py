"""The command line that the programs share: options, figures on the screen, a picture in a folder."""

import argparse
import os
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

import jax

from demo_report import Report, aligned, plt


class Setting(NamedTuple):
    """An option that is a whole number."""

    default: int
    least: int
    text: str


class Parser(argparse.ArgumentParser):
    """Options of a program, `--seed` and `--out` among them; an error is one line."""

    def __init__(self, program: str, description: str | None, **settings: Setting):
        super().__init__(prog=program, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        self._settings = settings
        self.add_argument("--seed", type=int, default=0, help="of everything that is drawn at random (default 0)")
        for name, (default, least, text) in settings.items():
            text = f"{text}, at least {least} (default {default})"
            self.add_argument(f"--{name}", type=int, default=default, help=text)
        self.add_argument(
            "--out", type=pathlib.Path, default=pathlib.Path("out"), help="folder for the pictures (default out)"
        )

    def read(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """The options, checked; the folder is made."""
        options = self.parse_args(arguments)
        if not 0 <= options.seed < 2**32:
            self.error(f"argument --seed: must be between 0 and 2**32 - 1, got {options.seed}")
        for name, setting in self._settings.items():
            if getattr(options, name) < setting.least:
                self.error(f"argument --{name}: must be at least {setting.least}, got {getattr(options, name)}")
        try:
            options.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.error(f"argument --out: cannot make the folder {options.out}: {error.strerror}")
        if not os.access(options.out, os.W_OK):
            self.error(f"argument --out: cannot write into {options.out}")
        return options

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see --help)\n")


def run(
    program: str,
    description: str | None,
    measure: Callable[..., Report],
    arguments: Sequence[str] | None = None,
    **settings: Setting,
) -> Report:
    """Measures with the options as keywords, prints the figures and saves the picture under the program's name."""
    options = vars(Parser(program, description, **settings).read(arguments))
    picture = options.pop("out") / pathlib.Path(program).with_suffix(".png").name
    begin = time.perf_counter()
    report = measure(**options)
    figure = report.draw()
    figure.savefig(picture)
    plt.close(figure)
    print(f"{aligned(report.table())}\n{report.summary()}")
    print(f"{picture}, in {time.perf_counter() - begin:.0f} s on {jax.devices()[0].platform}")
    return report
