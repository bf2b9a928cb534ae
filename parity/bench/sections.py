"""What is measured, section by section. Each gives lines; a bound comes from the promise that the line checks."""

import math
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct

import pytreeopt
from parity.bench import contestants, cost
from parity.bench.clock import Clock, Times, python_calls, ratio, without_collector
from parity.bench.contestants import ARGUMENT, CLOSED, INJECT, NUMBERS, OPTAX, RATE, TJAX, Step, tree
from parity.bench.tables import Line
from parity.rows import ROWS


class Section(NamedTuple):
    title: str
    measure: Callable[[Clock], Iterator[Line]]


def timed(what: str, times: Times, ours: str, theirs: str, limit: float | None = None) -> Line:
    """A line from times in seconds, in a unit that reads well."""
    own, other = (statistics.median(times[name]) for name in (ours, theirs))
    unit, scale = next((u, s) for u, s in (("s", 1.0), ("ms", 1e3), ("us", 1e6)) if own * s >= 1 or u == "us")
    return Line(what, unit, own * scale, theirs, other * scale, ratio(times, ours, theirs), limit)


def compiles(clock: Clock) -> Iterator[Line]:
    """Programs in a sweep of 100 rates; every fifth of Optax's is enough to see that each compiles."""
    rates = np.logspace(-4, -1, 100)
    _, ours = cost.sweep_as_argument(rates, steps=1)
    _, theirs = cost.sweep_static(clock.watch(rates[::20]), steps=1)
    theirs *= 20
    yield Line("programs in a sweep of 100 learning rates", "", ours, "Optax, static", theirs, ours / theirs, 0.01)


def sweep(clock: Clock) -> Iterator[Line]:
    rates = np.logspace(-4, -1, 20)
    runs = {
        "pytreeopt": lambda: cost.sweep_as_argument(rates),
        "Optax, static": lambda: cost.sweep_static(rates),
        INJECT: lambda: cost.sweep_injected(rates),
    }
    times = clock.race(runs, rounds=3, warm=False)
    what = "20 learning rates, 50 steps of AdamW, from nothing"
    yield timed(what, times, "pytreeopt", "Optax, static", 1 / 12)
    yield timed(what, times, "pytreeopt", INJECT)


def counts(clock: Clock) -> Iterator[Line]:
    """Flops and bytes of every row's step; equations and calls of the interpreter at 100 leaves."""
    names = [name for name, row in ROWS.items() if row.default]
    costs = {name: [cost.of_row(ROWS[name], library) for library in (pytreeopt, optax)] for name in clock.watch(names)}
    for field, unit in (("flops", ""), ("bytes_accessed", "bytes"), ("temporary", "bytes")):
        found = {name: cost.ratios(name, *both)[field] for name, both in costs.items()}
        worst = max(found, key=lambda name: found[name])
        ours, theirs = (getattr(c, field) for c in costs[worst])
        what = f"{field.replace('_', ' ')} of the compiled step, the worst of {len(found)} optimizers ({worst})"
        yield Line(what, unit, ours, OPTAX, theirs, found[worst], cost.EQUAL)
    for name, excess in cost.EXCESS.items():
        for field in excess.allowed:
            ours, theirs = (getattr(c, field) for c in costs[name])
            times = ours / theirs if theirs else math.inf
            yield Line(f"{field.replace('_', ' ')} of {name}: {excess.reason}", "", ours, OPTAX, theirs, times)
    steps = contestants.steps(100)
    for step in steps.values():
        step.trace()
    for name in (CLOSED, ARGUMENT):
        found, theirs = (cost.equations(steps[key].trace().jaxpr) for key in (name, OPTAX))
        yield Line(f"equations traced at 100 leaves, {name}", "", found, OPTAX, theirs, found / theirs, 1)
        found, theirs = (python_calls(steps[key].trace) for key in (name, OPTAX))
        yield Line(f"calls of the interpreter while tracing, {name}", "", found, OPTAX, theirs, found / theirs, 0.6)


def tracing(clock: Clock) -> Iterator[Line]:
    steps = contestants.steps(1000)
    names = [name for name in (OPTAX, CLOSED, ARGUMENT, INJECT, TJAX) if name in steps]
    times = clock.race({name: steps[name].trace for name in names}, rounds=5)
    for name in (CLOSED, ARGUMENT):
        yield timed(f"tracing, {name}", times, name, OPTAX, {CLOSED: 0.5, ARGUMENT: 0.6}[name])
    yield from (timed("tracing, as an argument", times, ARGUMENT, other) for other in names[3:])
    times = clock.race({name: lambda s=steps[name]: s.trace().lower() for name in names}, rounds=5)
    yield timed("tracing and lowering, closed over", times, CLOSED, OPTAX)
    yield timed("tracing and lowering, as an argument", times, ARGUMENT, OPTAX, 0.8)
    yield from (timed("tracing and lowering, as an argument", times, ARGUMENT, other) for other in names[3:])


def dispatch(clock: Clock) -> Iterator[Line]:
    for leaves, calls, limit in ((1, 200, 1.35), (100, 20, 1.1)):
        steps = contestants.steps(leaves)
        times = clock.race({name: step.run() for name, step in steps.items()}, rounds=21, calls=calls)
        what = f"one step, {leaves} {'leaf' if leaves == 1 else 'leaves'}"
        yield timed(f"{what}, {ARGUMENT}", times, ARGUMENT, OPTAX, limit)
        yield timed(f"{what}, {ARGUMENT}", times, ARGUMENT, INJECT, 1)
        yield timed(f"{what}, {CLOSED}", times, CLOSED, OPTAX)
        yield timed(f"{what}, {NUMBERS}", times, NUMBERS, OPTAX)
        if TJAX in times:
            yield timed(f"{what}, {ARGUMENT}", times, ARGUMENT, TJAX)


@struct.dataclass
class Plain:
    """AdamW's fields as a flax dataclass that does nothing else."""

    learning_rate: Any
    b1: Any = 0.9
    b2: Any = 0.999
    eps: Any = 1e-8
    eps_root: Any = 0.0
    mu_dtype: Any = struct.field(pytree_node=False, default=None)
    weight_decay: Any = 1e-4
    mask: Any = struct.field(pytree_node=False, default=None)
    nesterov: bool = struct.field(pytree_node=False, default=False, kw_only=True)


def objects(clock: Clock) -> Iterator[Line]:
    plain, ours = Plain(RATE), pytreeopt.adamw(RATE)
    pairs: dict[str, tuple[str, Callable[[], Any], Callable[[], Any], float | None]] = {
        "construction": (OPTAX, lambda: pytreeopt.adamw(RATE), lambda: optax.adamw(RATE), 1.0),
        "flatten": (PLAIN, lambda: jax.tree.flatten(ours), lambda: jax.tree.flatten(plain), None),
        "replace": (PLAIN, lambda: ours.replace(learning_rate=0.1), lambda: plain.replace(learning_rate=0.1), None),
        "hash": (PLAIN, lambda: hash(ours), lambda: hash(plain), None),
        "equality": (PLAIN, lambda: ours == pytreeopt.adamw(RATE), lambda: plain == Plain(RATE), None),
    }
    for what, kind in (("unflatten, Python numbers", lambda x: x), ("unflatten, arrays", pytreeopt.as_arrays)):
        (leaves, treedef), (plain_leaves, plain_treedef) = map(jax.tree.flatten, (kind(ours), kind(plain)))
        own = lambda leaves=leaves, treedef=treedef: jax.tree.unflatten(treedef, leaves)
        other = lambda leaves=plain_leaves, treedef=plain_treedef: jax.tree.unflatten(treedef, leaves)
        pairs[what] = (PLAIN, own, other, 2.0)
    for what, (against, own, other, limit) in clock.watch(list(pairs.items())):
        times = without_bar(clock).race({"pytreeopt": own, against: other}, rounds=15, calls=200)
        yield timed(f"{what}, AdamW", times, "pytreeopt", against, limit)
    times = without_bar(clock).race({name: lambda o=o: build_all(o) for name, o in LIBRARIES.items()}, rounds=25)
    yield timed("construction of every optimizer", times, "pytreeopt", OPTAX, 1.0)


PLAIN = "a plain flax dataclass"
LIBRARIES = {"pytreeopt": pytreeopt, OPTAX: optax}


def build_all(library: Any) -> None:
    for row in ROWS.values():
        if row.default:
            row.build(library)


def without_bar(clock: Clock) -> Clock:
    return Clock(clock.kind)


def eager(clock: Clock) -> Iterator[Line]:
    params = tree(100)
    for title, build, limit in (("AdamW", lambda o: o.adamw(RATE), 0.8), ("SGD", lambda o: o.sgd(RATE, 0.9), None)):
        runs = {}
        for name, library in LIBRARIES.items():
            opt = build(library)
            state = opt.init(params)
            runs[name] = lambda opt=opt, state=state: jax.block_until_ready(opt.update(params, state, params))
        times = clock.race(runs, rounds=21, calls=2)
        yield timed(f"one update without jit, 100 leaves, {title}", times, "pytreeopt", OPTAX, limit)


def imports(clock: Clock) -> Iterator[Line]:
    times: Times = {"import pytreeopt": [], "import optax, flax.struct": []}
    now = {"wall": "perf_counter", "cpu": "process_time"}[clock.kind]
    for _ in clock.watch(range(7)):
        for statement, found in times.items():
            code = f"import time; t = time.{now}(); {statement}; print(time.{now}() - t)"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            found.append(float(done.stdout))
    yield timed("import", times, "import pytreeopt", "import optax, flax.struct", 1.15)


def population(clock: Clock) -> Iterator[Line]:
    rates = jnp.logspace(-3, -1, 64)
    together, alone = jax.jit(jax.vmap(cost.train)), jax.jit(cost.train)
    stacked, members = (
        jax.vmap(pytreeopt.adamw)(rates),
        [pytreeopt.as_arrays(pytreeopt.adamw(float(rate))) for rate in rates],
    )
    one_by_one = "one after another"
    runs = {
        "vmapped": lambda: jax.block_until_ready(together(stacked)),
        one_by_one: lambda: [jax.block_until_ready(alone(member)) for member in members],
    }
    yield timed("64 runs of 50 steps", clock.race(runs, rounds=9), "vmapped", one_by_one)


def growth(clock: Clock) -> Iterator[Line]:
    """Stages of both libraries by the number of leaves, and the exponents between the sizes.

    Compiling and running stop at 1,000 leaves: the compiler's own time grows faster, for both alike.
    """
    found: dict[tuple[str, str], list[float]] = {}
    for leaves in clock.watch(SIZES):
        steps = contestants.steps(leaves)
        for number in range(ROUNDS.get(leaves, 1)):
            for name in (OPTAX, ARGUMENT)[:: 1 if number % 2 else -1]:
                with without_collector():
                    for stage, seconds in stages(clock, steps[name], leaves <= COMPILED):
                        found.setdefault((f"{stage}, {leaves:,} leaves", name), []).append(seconds)
    for what in dict.fromkeys(what for what, _ in found):
        yield timed(what, {name: found[what, name] for name in (ARGUMENT, OPTAX)}, ARGUMENT, OPTAX)
    for stage in STAGES:
        own, other = (exponent(stage, name, found) for name in (ARGUMENT, OPTAX))
        yield Line(f"{stage}: exponent of the growth", "", own, OPTAX, other, own / other)


SIZES, COMPILED, ROUNDS = (10, 100, 1_000, 10_000), 1_000, {10: 7, 100: 5}
STAGES = ("trace", "lower", "compile", "step")


def stages(clock: Clock, step: Step, compiles: bool) -> Iterator[tuple[str, float]]:
    """Seconds of each stage, the first three once."""
    kept: list[Any] = []
    yield "trace", clock.time(lambda: kept.append(step.trace()))
    yield "lower", clock.time(lambda: kept.append(kept[0].lower()))
    if compiles:
        yield "compile", clock.time(lambda: kept.append(kept[1].compile()))
        run = lambda: jax.block_until_ready(kept[2](*step.arguments))
        run()
        yield "step", clock.time(run, calls=30)


def exponent(stage: str, name: str, found: dict[tuple[str, str], list[float]]) -> float:
    """Slope of log time over log leaves from 100 leaves on, where what a call costs at all no longer counts."""
    sizes = [n for n in SIZES if n >= 100 and (f"{stage}, {n:,} leaves", name) in found]
    seconds = [statistics.median(found[f"{stage}, {n:,} leaves", name]) for n in sizes]
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


SECTIONS: dict[str, Section] = {
    "compiles": Section("Programs", compiles),
    "sweep": Section("A sweep of learning rates", sweep),
    "counts": Section("Counts, the same on every run", counts),
    "trace": Section("Tracing 1,000 leaves", tracing),
    "dispatch": Section("Calling the compiled step", dispatch),
    "objects": Section("The optimizer as an object", objects),
    "eager": Section("Without jit", eager),
    "import": Section("Import", imports),
    "population": Section("A population", population),
    "growth": Section("Growth with the number of leaves", growth),
}


def chosen(only: Sequence[str]) -> dict[str, Section]:
    """The sections named, or all."""
    return {name: section for name, section in SECTIONS.items() if not only or name in only}
