"""Wall time of a block, split into compiling and running, and the number of programs compiled in it."""

import time
from types import TracebackType
from typing import Self

import jax

# What JAX does with a function whose arguments have new shapes or types, in this order.
_TRACE = "/jax/core/compile/jaxpr_trace_duration"
_LOWER = "/jax/core/compile/jaxpr_to_mlir_module_duration"
_COMPILE = "/jax/core/compile/backend_compile_duration"

_running: list["Stopwatch"] = []


class Stopwatch:
    """Measures a `with` block. JAX itself reports each tracing, lowering and compiling; the rest is running.

    A function that is traced within another reports a time within the other's, so it is their union that counts.
    Results must be waited for inside the block.
    """

    def __init__(self) -> None:
        self.compilations = 0
        self.wall = 0.0
        self._compiling: list[tuple[float, float]] = []

    def __enter__(self) -> Self:
        self._begin = time.perf_counter()
        _running.append(self)
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        _running.remove(self)
        self.wall = time.perf_counter() - self._begin

    @property
    def compiling(self) -> float:
        """Seconds of tracing, lowering and compiling."""
        total, covered = 0.0, self._begin
        for begin, end in sorted(self._compiling):
            total += max(0.0, end - max(begin, covered))
            covered = max(covered, end)
        return total

    @property
    def running(self) -> float:
        """Seconds of everything else."""
        return self.wall - self.compiling

    def record(self, event: str, seconds: float) -> None:
        end = time.perf_counter()
        self._compiling.append((end - seconds, end))
        self.compilations += event == _COMPILE


def _listen(event: str, seconds: float, **details: str | int) -> None:
    if event in (_TRACE, _LOWER, _COMPILE):
        for stopwatch in _running:
            stopwatch.record(event, seconds)


jax.monitoring.register_event_duration_secs_listener(_listen)
