"""Interleaved timing, and counts that are the same on every run."""

import contextlib
import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}

Times = dict[str, list[float]]


class Clock:
    """Times several things in turn, round after round, so that what slows the machine slows them all.

    Args:
        kind: "wall", or "cpu" for the processor time of this process, which a busy machine disturbs less.
        watch: wraps the iterator over rounds, for a progress bar.
    """

    def __init__(self, kind: str = "wall", watch: Callable[[range], Any] = iter):
        self.kind, self.now, self.watch = kind, CLOCKS[kind], watch

    def race(self, things: Mapping[str, Callable[[], Any]], rounds: int, calls: int = 1, warm: bool = True) -> Times:
        """Seconds a call of each, one number a round. The order rotates; garbage is collected between."""
        if warm:
            for thing in things.values():
                thing()
        times: Times = {name: [] for name in things}
        with without_collector():
            for number in self.watch(range(rounds)):
                for name in _rotated(list(things), number):
                    times[name].append(self.time(things[name], calls))
                gc.collect()
        return times

    def time(self, thing: Callable[[], Any], calls: int = 1) -> float:
        """Seconds a call."""
        begin = self.now()
        for _ in range(calls):
            thing()
        return (self.now() - begin) / calls


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """No garbage collection of Python's own accord; what is there already is left out of those asked for."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _rotated(names: list[str], by: int) -> Iterator[str]:
    by %= len(names)
    yield from names[by:]
    yield from names[:by]


def ratio(times: Times, ours: str, theirs: str) -> float:
    """The median of the rounds' ratios: both sides of one ratio were measured within moments."""
    return statistics.median(a / b for a, b in zip(times[ours], times[theirs], strict=True))


def python_calls(thing: Callable[[], Any]) -> int:
    """How many Python and C functions are called in it: the work of the interpreter, as a number that never varies."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    with without_collector():  # what is freed in between may call back
        sys.setprofile(note)
        try:
            thing()
        finally:
            sys.setprofile(None)
    return count
