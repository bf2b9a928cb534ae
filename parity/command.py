"""What the command lines of parity, fuzz and Optax's own tests share: an option, and how far a run is."""

import argparse
import sys
import time
from collections.abc import Iterator
from typing import Any


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


def watched(results: Iterator[Any], done: int, total: int, name: str = "parity", units: str = "cells") -> Iterator[Any]:
    """Passes results on and tells how far the run is: a bar on a terminal, else a line every 10%."""
    try:
        from tqdm import tqdm
    except ImportError:
        tqdm = None
    if tqdm is not None and sys.stderr.isatty():
        yield from tqdm(results, desc=name, unit=units[:-1], initial=done, total=total, smoothing=0.05)
        return
    started = time.perf_counter()
    for number, result in enumerate(results, done + 1):
        if 10 * number // total > 10 * (number - 1) // total:
            seconds = time.perf_counter() - started
            print(f"{name}: {100 * number // total}% of {total} {units}, {seconds:.0f} s", file=sys.stderr, flush=True)
        yield result
