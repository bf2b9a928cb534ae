"""The matrix of comparisons: its cells, how they are run, and where finished ones are kept."""

import collections
import contextlib
import hashlib
import importlib.metadata
import json
import math
import multiprocessing
import multiprocessing.connection
import os
import platform
import signal
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

import parity
import pytreeopt
from parity import oracles, schedule_oracles
from parity.problems import DTYPES, SHAPES
from parity.row import Loose, Row
from parity.rows import ROWS, SCHEDULES

COUNTS = "counts"
TREES = (*SHAPES, COUNTS)
FEW_STEPS = 3
CLEAR_EVERY = 100
LONGEST_CHUNK = 200
DIED = "the process died"
VERSIONED = ("jax", "jaxlib", "optax", "flax", "numpy")


class Cell(NamedTuple):
    """One comparison. A schedule's `tree` is "counts", and its `steps` is the last count."""

    row: str
    tree: str
    dtype: str
    oracle: str
    steps: int


class Result(NamedTuple):
    """What came out. `allowed` is the relative difference that the row declares, 0 where bits must be equal."""

    cell: Cell
    ulp: float
    relative: float
    where: str
    allowed: float
    ok: bool


def names(substrings: Sequence[str] = ()) -> list[str]:
    """Names of the rows that contain one of the substrings, or all."""
    return [name for name in (*ROWS, *SCHEDULES) if not substrings or any(part in name for part in substrings)]


def cells(
    rows: Iterable[str],
    trees: Iterable[str] = TREES,
    dtypes: Iterable[str] = tuple(DTYPES),
    which: Sequence[str] = oracles.ORACLES,
    steps: int = 30,
    quick: bool = False,
) -> list[Cell]:
    """The cells that the rows allow. Cells of one dtype and tree are neighbours: they share compiled operations.

    With `quick`, each row is run on one tree only, and takes few steps if its eager steps compile.
    """
    rows, trees = tuple(rows), tuple(trees)
    made = []
    for dtype in dtypes:
        for tree in trees:
            for name in rows:
                if tree == COUNTS and name in SCHEDULES and dtype in schedule_oracles.DTYPES:
                    made += [Cell(name, tree, dtype, oracle, SCHEDULES[name].end) for oracle in which]
                if tree != COUNTS and name in ROWS and _runs(ROWS[name], tree, dtype, quick):
                    last = min(steps, FEW_STEPS) if quick and ROWS[name].costly else steps
                    made += [Cell(name, tree, dtype, oracle, last) for oracle in which]
    return made


def _runs(row: Row, tree: str, dtype: str, quick: bool) -> bool:
    return row.runs_on(tree) and row.runs_in(dtype) and (not quick or tree == row.tree)


def tolerance(cell: Cell) -> Loose | None:
    """What the cell's row declares."""
    if cell.tree == COUNTS:
        return schedule_oracles.tolerance(SCHEDULES[cell.row], cell.oracle)
    return oracles.tolerance(ROWS[cell.row], cell.oracle)


def run(cell: Cell) -> Result:
    """Runs one cell. A row that raises is a miss."""
    try:
        if cell.tree == COUNTS:
            found = schedule_oracles.compare(SCHEDULES[cell.row], cell.oracle, cell.dtype)
        else:
            found = oracles.compare(ROWS[cell.row], cell.oracle, cell.tree, cell.dtype, cell.steps)
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "")
        found = oracles.Difference(math.inf, f"{type(error).__name__}: {reason}", math.inf)
    loose = tolerance(cell)
    allowed = loose.allowed(cell.dtype) if loose else 0.0
    return Result(cell, found.ulp, found.relative, found.where, allowed, oracles.passes(found, loose, cell.dtype))


def run_here(todo: Iterable[Cell]) -> Iterator[Result]:
    """Runs cells in this process; what JAX has compiled is forgotten now and then, for the memory's sake."""
    for position, cell in enumerate(todo):
        if position and position % CLEAR_EVERY == 0:
            jax.clear_caches()
        yield run(cell)


def chunks(todo: Sequence[Cell], shards: int) -> Iterator[Sequence[Cell]]:
    """Splits cells for `shards` processes: long stretches first, short ones at the end, so that all end together."""
    start = 0
    while start < len(todo):
        length = min(LONGEST_CHUNK, max(10, (len(todo) - start) // (2 * shards)))
        yield todo[start : start + length]
        start += length


def run_in_workers(todo: Sequence[Cell], shards: int, platform: str | None) -> Iterator[Result]:
    """Runs each chunk in a process of its own, `shards` at a time. A process that dies costs one cell: a miss."""
    context = multiprocessing.get_context("spawn")
    waiting = collections.deque(chunks(todo, shards))
    running: dict[Any, tuple[Any, collections.deque[Cell]]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < shards:
                chunk = waiting.popleft()
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(chunk, sender, platform), daemon=True)
                process.start()
                sender.close()
                running[receiver] = process, collections.deque(chunk)
            for receiver in multiprocessing.connection.wait(list(running)):
                process, left = running[receiver]
                try:
                    result = receiver.recv()
                except EOFError:
                    process.join()
                    del running[receiver]
                    if left:
                        where = f"{DIED} with exit code {process.exitcode}"
                        yield Result(left.popleft(), math.inf, math.inf, where, 0.0, False)
                    if left:
                        waiting.appendleft(tuple(left))
                else:
                    left.popleft()
                    yield result
    finally:
        for process, _ in running.values():
            process.terminate()


def _work(chunk: Sequence[Cell], sender: Any, platform: str | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its workers
    use_platform(platform, shared=True)
    with contextlib.suppress(BrokenPipeError):
        for result in run_here(chunk):
            sender.send(result)


def use_platform(name: str | None, shared: bool = False) -> str:
    """Makes JAX use `name`, or leaves it the choice, and gives the platform's name; a RuntimeError if it is not there.

    With `shared`, several processes use a GPU at once: none takes most of its memory at the start.
    """
    if shared:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if name is not None:
        jax.config.update("jax_platforms", name)
    wanted = name or f"{jax.config.jax_platforms}, of JAX_PLATFORMS,"
    try:
        found = jax.default_backend()
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "") or "this jaxlib has no such platform"
        raise RuntimeError(f"platform {wanted} is not here: {reason}") from None
    found = "cuda" if found == "gpu" else found
    if name not in (None, found):
        raise RuntimeError(f"platform {name} is not here, or JAX was started with {found} before")
    return found


def environment(platform_name: str) -> dict[str, str]:
    """Where the numbers come from: device and versions."""
    versions = {name: importlib.metadata.version(name) for name in VERSIONED}
    device = f"{jax.devices()[0].device_kind} ({platform.machine()})"
    return {"platform": platform_name, "device": device, "python": platform.python_version(), **versions}


def fingerprint() -> str:
    """A digest of all that decides the numbers: sources, versions, machine, and what the environment tells JAX."""
    versions = [importlib.metadata.version(name) for name in VERSIONED]
    told = {name: value for name, value in os.environ.items() if name == "XLA_FLAGS" or name.startswith("JAX_")}
    told.pop("JAX_PLATFORMS", None)
    about = [versions, platform.python_version(), platform.machine(), sorted(told.items())]
    digest = hashlib.sha256(json.dumps(about).encode())
    for package in (parity, pytreeopt):
        folder = Path(package.__path__[0])
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def records(path: Path, stamp: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The JSON lines of a file that bear a stamp. A line that was cut off when a run was stopped is left out."""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            record = json.loads(line)
            if stamp.items() <= record.items():
                yield record


class Store:
    """Finished cells in a file of JSON lines, each with the platform and the fingerprint that it holds for."""

    def __init__(self, path: Path, platform: str):
        self.path = path
        self.stamp = {"platform": platform, "fingerprint": fingerprint()}

    def read(self) -> dict[Cell, Result]:
        """Results that still hold."""
        return {result.cell: result for result in map(from_record, records(self.path, self.stamp))}

    def keep(self, results: Iterable[Result]) -> Iterator[Result]:
        """Passes results on, each written down first; cells whose process died are run again the next time."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            if file.tell() and not self.path.read_bytes().endswith(b"\n"):
                file.write("\n")
            for result in results:
                if not result.where.startswith(DIED):
                    file.write(json.dumps({**to_record(result), **self.stamp}) + "\n")
                    file.flush()
                yield result


def to_record(result: Result) -> dict[str, Any]:
    """A result as plain data; JSON knows no infinity, so that is a string."""
    record = {**result.cell._asdict(), **result._asdict()}
    del record["cell"]
    return {key: str(value) if value == math.inf else value for key, value in record.items()}


def from_record(record: dict[str, Any]) -> Result:
    cell = Cell(*(record[name] for name in Cell._fields))
    ulp, relative = float(record["ulp"]), float(record["relative"])
    return Result(cell, ulp, relative, record["where"], record["allowed"], record["ok"])
