"""`python -m parity.fuzz`: compares random optimizers with Optax on random trees and gradients, eagerly and compiled.

Examples come in chunks, each drawn from its own seed, so that a run can be split over processes and resumed.
"""

import argparse
import collections
import functools
import json
import multiprocessing
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import jax
import numpy as np
import optax

import pytreeopt
from parity.command import positive, watched
from parity.draws import cases
from parity.matrix import fingerprint, records
from parity.oracles import Step, compiled, difference, eager, in_parts, leaf_difference
from parity.problems import Problem, problem_of
from parity.recipes import Case

ORACLES: dict[str, Callable[[Any], Step]] = {"eager": eager, "jit": compiled}
EXAMPLES = 20
RESULTS = Path(".parity/fuzz.jsonl")
DEFECTS = ("differs", "ours raises")
BRANCHING = ("MultiSteps(", "apply_if_finite(", "conditionally_")


class Verdict(NamedTuple):
    """What a comparison came to, one of:

    equal: to the bit, over every step.
    both raise: at the same step.
    upstream raises, upstream is not finite, upstream changes a shape or dtype: equal up to there, ours goes on.
        A state that upstream builds otherwise and cannot update counts as raising.
    rounded: in half precision, within a few units of the params. Compiled, since the compiler may keep float32 between
        operations, or multiply by a reciprocal, in one of two programs that are equal without it; within a branch,
        which is compiled in eager code too, also in other precisions, by a unit or two of the greatest element. And
        behind `flatten`, which gives each leaf of a mixed tree its own dtype where upstream leaves the widest.
    differs, ours raises: a defect.
    """

    kind: str
    where: str = ""


def judge(case: Case, oracle: str) -> Verdict:
    """Runs both libraries and compares them step by step."""
    row = case.row()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = problem_of(row, "scalar", "float32", len(case.problem.gradients))
        wrap = optax.with_extra_args_support if row.extra else lambda tx: tx
        ours, our_error = run(lambda: ORACLES[oracle](row.build(pytreeopt)), given)
        theirs, their_error = run(lambda: ORACLES[oracle](wrap(row.build(optax))), given)
    kept = {"state": ours[0]["state"], "updates": given.params} if ours else None
    for step, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        found = difference(mine, other, f"step {step}" if step else "init")
        if found.ulp:
            if len(theirs) == 1 < len(ours) and jax.tree.structure(mine) != jax.tree.structure(other):
                return Verdict("upstream raises", their_error)
            verdict = explain(mine, other, kept, found.where)
            source = repr(case)
            branches = any(name in source for name in BRANCHING)
            may_round = oracle == "jit" or branches or "flatten(" in source
            if verdict.kind == "differs" and may_round and is_rounding(mine, other, given.params, branches):
                return Verdict("rounded", found.where)
            return verdict
    if len(ours) < len(theirs):
        return Verdict("ours raises", our_error)
    if len(theirs) < len(ours):
        return Verdict("upstream raises", their_error)
    return Verdict("both raise", f"{our_error} / {their_error}") if our_error else Verdict("equal")


def run(side: Callable[[], Step], given: Problem) -> tuple[list[dict[str, Any]], str]:
    """What a library returns: the first state, then updates and state of each step; and the error that ends it."""
    returned: list[dict[str, Any]] = []
    try:
        step = side()
        state = step.init(given.params)
        returned.append({"state": state})
        params = given.params
        for number in range(len(given.gradients)):
            gradient, extra = given.at(number, params)
            updates, state = step.update(gradient, state, params, extra)
            returned.append({"updates": updates, "state": state})
            params = optax.apply_updates(params, updates)
    except Exception as error:
        return returned, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return returned, ""


def explain(ours: Any, theirs: Any, kept: Any, where: str) -> Verdict:
    """Whether a difference is one that is meant."""
    if jax.tree.structure(ours) == jax.tree.structure(theirs):
        pairs = list(zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True))
        if any(fails_alone(x, y) for x, y in pairs):
            return Verdict("upstream is not finite", where)
        kept = {name: kept[name] for name in ours}
        if jax.tree.structure(kept) == jax.tree.structure(ours):
            at_start = list(zip(jax.tree.leaves(kept), pairs, strict=True))
            if any(aval(x) == aval(start) != aval(y) for start, (x, y) in at_start):
                return Verdict("upstream changes a shape or dtype", where)
    return Verdict("differs", where)


def fails_alone(ours: Any, theirs: Any) -> bool:
    """Whether a number of `theirs` is not finite where that of `ours` is, or NaN where that of `ours` is infinite.

    The parts of a complex number count each.
    """
    if aval(ours) != aval(theirs) or not is_inexact(ours):
        return False
    x, y = in_parts(np.asarray(ours)), in_parts(np.asarray(theirs))
    return bool(np.any((np.isfinite(x) & ~np.isfinite(y)) | (~np.isnan(x) & np.isnan(y))))


def is_rounding(ours: Any, theirs: Any, params: Any, branches: bool) -> bool:
    """Whether all that differs is half precision, by no more than 8 units of the greatest number among the params.

    With `branches` other precisions may differ too, by no more than 2 units of the greatest element of the leaf.
    """
    if jax.tree.structure(ours) != jax.tree.structure(theirs):
        return False
    scale = max([1.0, *(float(np.max(np.abs(x), initial=0.0)) for x in jax.tree.leaves(params))])
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        ulp, relative = leaf_difference(x, y)
        if ulp == 0:
            continue
        if aval(x) != aval(y) or not is_inexact(x):
            return False
        unit = float(jax.numpy.finfo(x.dtype).eps)
        if branches and relative <= 2 * unit:
            continue
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype not in (jax.numpy.float16, jax.numpy.bfloat16) or not np.all(np.isfinite(x) & np.isfinite(y)):
            return False
        if np.max(np.abs(x.astype(np.float32) - y.astype(np.float32)), initial=0.0) > 8 * scale * unit:
            return False
    return True


def aval(x: Any) -> tuple[Any, ...]:
    return jax.numpy.shape(x), jax.numpy.result_type(x)


def is_inexact(x: Any) -> bool:
    return jax.numpy.issubdtype(jax.numpy.result_type(x), jax.numpy.inexact)


class Found(NamedTuple):
    """A case under one oracle, and what came of it."""

    case: str
    oracle: str
    kind: str
    where: str


class Chunk(NamedTuple):
    """What came of all the cases of a seed: how many of each verdict, and the defects."""

    number: int
    counts: dict[str, int]
    defects: list[Found]


def findings(number: int, examples: int, shrink: bool = False) -> list[Found]:
    """Draws cases from the seed `number` and judges them; with `shrink` the first defect is made small and raised."""
    found: list[Found] = []

    @hypothesis.seed(number)
    @hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate, *([hypothesis.Phase.shrink] if shrink else [])],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(cases())
    def compare(case: Case) -> None:
        for oracle in ORACLES:
            found.append(Found(repr(case), oracle, *judge(case, oracle)))
            if shrink:
                assert found[-1].kind not in DEFECTS, text(found[-1])

    compare()
    return found


def text(found: Found) -> str:
    """A defect, and the row to paste."""
    return f"{found.oracle}: {found.kind}: {found.where}\n    {found.case}"


def run_chunk(number: int, examples: int) -> Chunk:
    """The chunk `number` of so many examples. What JAX has compiled is forgotten after it, for the memory's sake."""
    found = findings(number, examples)
    jax.clear_caches()
    counts = collections.Counter(one.kind for one in found)
    return Chunk(number, dict(counts), [one for one in found if one.kind in DEFECTS])


def run_chunks(numbers: Sequence[int], examples: int, shards: int) -> Iterator[Chunk]:
    """Chunks as they are finished, in `shards` processes that are renewed now and then."""
    if shards == 1:
        yield from (run_chunk(number, examples) for number in numbers)
        return
    # The executor of concurrent.futures stops for ever when Python 3.11 renews its workers.
    with multiprocessing.get_context("spawn").Pool(shards, maxtasksperchild=5) as pool:
        yield from pool.imap_unordered(functools.partial(run_chunk, examples=examples), numbers)


def kept(stamp: dict[str, Any]) -> dict[int, Chunk]:
    """The chunks of earlier runs that still hold."""
    found = {}
    for record in records(RESULTS, stamp):
        defects = [Found(*one) for one in record["defects"]]
        found[record["number"]] = Chunk(record["number"], record["counts"], defects)
    return found


def keep(chunks: Iterable[Chunk], stamp: dict[str, Any]) -> Iterator[Chunk]:
    """Passes chunks on, each written down first."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as file:
        for one in chunks:
            file.write("\n" * (file.tell() > 0) + json.dumps({**one._asdict(), **stamp}))
            file.flush()
            yield one


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what the command line asks for; the exit status is 1 on a defect."""
    parser = argparse.ArgumentParser("python -m parity.fuzz", description=__doc__.partition(": ")[2])
    add = parser.add_argument
    add("--examples", type=positive, default=2000, help=f"optimizers, by the {EXAMPLES} (default: %(default)s)")
    add("--shards", type=positive, default=1, metavar="N", help="worker processes (default: %(default)s)")
    add("--fresh", action="store_true", help=f"forget the finished chunks in {RESULTS}")
    add("--shrink", type=int, metavar="CHUNK", help="draw this chunk again and make its first defect small")
    options = parser.parse_args(arguments)
    if options.shrink is not None:
        try:
            findings(options.shrink, EXAMPLES, shrink=True)
        except AssertionError as error:
            print(error)
            return 1
        print(f"fuzz: no defect in chunk {options.shrink}")
        return 0
    if options.fresh:
        RESULTS.unlink(missing_ok=True)
    stamp = {"examples": EXAMPLES, "fingerprint": fingerprint(), "hypothesis": hypothesis.__version__}
    numbers = range(-(-options.examples // EXAMPLES))
    finished = {number: one for number, one in kept(stamp).items() if number in numbers}
    todo = [number for number in numbers if number not in finished]
    if finished:
        print(f"fuzz: {len(finished)} of {len(numbers)} chunks are in {RESULTS} already", file=sys.stderr)
    new = keep(run_chunks(todo, EXAMPLES, options.shards), stamp)
    try:
        for one in watched(new, len(finished), len(numbers), "fuzz", "chunks"):
            finished[one.number] = one
            for defect in one.defects:
                print(f"chunk {one.number}: {text(defect)}", flush=True)
    except KeyboardInterrupt:
        print(f"\nfuzz: stopped at {len(finished)} of {len(numbers)} chunks; the same command goes on here")
        return 130
    counts = sum((collections.Counter(one.counts) for one in finished.values()), collections.Counter())
    print(f"fuzz: of {counts.total()} comparisons, {len(ORACLES)} for each optimizer: ", end="")
    print(", ".join(f"{number} {kind}" for kind, number in counts.most_common()))
    failed = sorted(number for number, one in finished.items() if one.defects)
    if failed:
        print(f"fuzz: defects in chunks {failed}; `python -m parity.fuzz --shrink {failed[0]}` makes one small")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
