"""Random optimizers are Optax's. `make fuzz` draws thousands; what it finds becomes a row."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreeopt
from parity import fuzz, recipes, rows
from parity.draws import simple
from parity.recipes import Case, Drawn, Leaf, Name, Pair, call

EXAMPLES, CHUNKS = 6, range(10)


@pytest.fixture(autouse=True, scope="module")
def forgotten():
    """What a hundred random programs leave in JAX's caches is of no use to other tests."""
    yield
    jax.clear_caches()


@pytest.mark.slow
@pytest.mark.parametrize("number", CHUNKS)
def test_random_optimizers_are_upstreams(number):
    found = fuzz.findings(number, EXAMPLES)
    assert len(found) == 2 * EXAMPLES
    assert not [fuzz.text(one) for one in found if one.kind in fuzz.DEFECTS]


def test_the_same_number_draws_the_same_cases(monkeypatch):
    monkeypatch.setattr(fuzz, "judge", lambda case, oracle: fuzz.Verdict("equal"))
    first, again, other = (fuzz.findings(number, 5) for number in (1, 1, 2))
    assert first == again != other


def problem(**options) -> Drawn:
    return Drawn({"a": Leaf((2,)), "b": Leaf(())}, **{"gradients": ("ordinary", "ordinary"), **options})


def differing(ours, theirs):
    """A recipe that builds another thing in either library."""

    class Differing(recipes.Call):
        def build(self, o):
            return recipes.build(theirs if o is optax else ours, o)

    return Differing(Name("differing"))


def refuses(*args):
    raise ValueError("no")


HALF = pytreeopt.stateless(lambda u, p: jax.tree.map(lambda x: x.astype(jnp.bfloat16), u))
NANS = optax.stateless(lambda u, p: jax.tree.map(lambda x: x * jnp.nan, u))
INFINITIES = optax.stateless(lambda u, p: jax.tree.map(lambda x: x * jnp.inf, u))
NAN_AND_ONE, NAN_AND_INFINITY = (
    optax.stateless(lambda u, p, second=second: {**u, "a": jnp.array([jnp.nan, second])}) for second in (1.0, jnp.inf)
)
PART_NAN, BOTH_NAN = (
    optax.stateless(lambda u, p, number=number: {**u, "a": jnp.full(2, number)})
    for number in (complex(np.nan, np.inf), complex(np.nan, np.nan))
)
VERDICTS = {
    "equal": (call("adam", 0.1), call("adam", 0.1)),
    "differs": (call("scale", 0.1), call("scale", 0.10000001)),
    "differs in state": (call("chain", call("scale", 0.1)), call("scale", 0.1)),
    "differs in dtype": (HALF, call("identity")),
    "differs in NaN": (call("scale", float("nan")), call("identity")),
    "ours raises": (pytreeopt.stateless(refuses), call("identity")),
    "upstream raises": (call("identity"), optax.stateless(refuses)),
    "both raise": (pytreeopt.stateless(refuses), optax.stateless(refuses)),
    "upstream is not finite": (call("identity"), NANS),
    "upstream is not finite in infinities": (INFINITIES, NANS),
    "upstream is not finite in a place beside our NaN": (NAN_AND_ONE, NAN_AND_INFINITY),
    "upstream is not finite in a complex part": (PART_NAN, BOTH_NAN),
    "differs in our complex part": (BOTH_NAN, PART_NAN),
    "differs in infinities": (INFINITIES, call("scale", -float("inf"))),
    "upstream changes a shape or dtype": (call("identity"), optax.stateless(HALF.f)),
}


@pytest.mark.parametrize("oracle", fuzz.ORACLES)
@pytest.mark.parametrize("expected", VERDICTS)
def test_verdicts(expected, oracle):
    verdict = fuzz.judge(Case(differing(*VERDICTS[expected]), problem()), oracle)
    assert verdict.kind == expected.partition(" in ")[0]


def test_a_state_that_upstream_cannot_update_counts_as_raising():
    verdict = fuzz.judge(Case(call("scale_by_sm3"), problem()), "eager")
    assert verdict.kind == "upstream raises"


@pytest.mark.parametrize(("wrapper", "kind"), [("flatten", "rounded"), ("with_extra_args_support", "differs")])
def test_only_behind_flatten_may_eager_half_precision_round(wrapper, kind):
    rounds = optax.stateless(lambda u, p: jax.tree.map(lambda x: x * (1 + 2**-10), u))
    case = Case(
        call(wrapper, differing(rounds, optax.identity())), Drawn([Leaf((2,), "float16")], gradients=["ordinary"])
    )
    assert fuzz.judge(case, "eager").kind == kind


def test_a_case_prints_as_a_row_that_is_the_same_case():
    tree = [Pair(Leaf((3,), "bfloat16"), None), {"a": Leaf(())}, ()]
    recipe = call(
        "chain", call("masked", call("sgd", rows.core.falling), [True, None, (False,)]), call("apply_every", k=2)
    )
    case = Case(recipe, Drawn(tree, "zeros", ("some NaN", "denormal"), 3))
    names = {"Row": rows.Row, "Drawn": Drawn, "Leaf": Leaf, "Pair": Pair, "falling": rows.core.falling}
    row = eval(repr(case), names)
    assert row.prepare == case.problem
    assert str(row.build(pytreeopt)) == str(case.row().build(pytreeopt))
    assert "lambda o: o.chain(o.masked(o.sgd(falling), [True, None, (False,)]), o.apply_every(k=2))" in repr(case)


def test_every_simple_transformation_can_be_drawn():
    assert {"adam", "scale_by_adam", "sgd", "contrib.prodigy", "apply_every"} <= set(simple())
    assert not {"chain", "masked", "lbfgs", "stateless"} & set(simple())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "complex64"])
@pytest.mark.parametrize("kind", recipes.KINDS)
def test_kinds_of_numbers(kind, dtype):
    (_, gradients) = Drawn([Leaf((50,), dtype)] * 5, gradients=(kind,))(None, None)
    x = np.concatenate([np.asarray(leaf, np.complex64) for leaf in gradients[0]])
    assert all(leaf.dtype == dtype for leaf in gradients[0])
    assert np.isnan(x).any() == ("NaN" in kind or (dtype == "complex64" and "inf" in kind))
    assert np.isfinite(x).all() == (kind[-3:] not in ("NaN", "inf"))


CLI = ["--examples", "3"]


@pytest.fixture
def little_work(tmp_path, monkeypatch):
    """Chunks of one example, judged by `verdict`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fuzz, "EXAMPLES", 1)
    run: list[str] = []

    def judge(case, oracle):
        run.append(oracle)
        return fuzz.Verdict("differs", "here") if "differs" in run else fuzz.Verdict("equal")

    monkeypatch.setattr(fuzz, "judge", judge)
    return run


def test_a_second_run_goes_on_where_the_first_stopped(little_work, capsys):
    assert fuzz.main(["--examples", "2"]) == 0
    assert len(little_work) == 4
    with fuzz.RESULTS.open("a") as file:
        file.write('\n{"cut off')
    assert fuzz.main(CLI) == 0
    assert len(little_work) == 6
    assert "6 equal" in capsys.readouterr().out
    assert fuzz.main([*CLI, "--fresh"]) == 0
    assert len(little_work) == 12


def test_a_defect_fails_the_run_and_is_printed_as_a_row(little_work, capsys):
    little_work.append("differs")
    assert fuzz.main(CLI) == 1
    shown = capsys.readouterr().out
    assert "eager: differs: here\n    Row(lambda o: " in shown
    assert "--shrink 0" in shown
    assert fuzz.main(["--shrink", "0"]) == 1
    assert "differs: here" in capsys.readouterr().out


@pytest.mark.slow
def test_every_chunk_is_run_though_worker_processes_are_renewed():
    assert sorted(chunk.number for chunk in fuzz.run_chunks(range(11), 1, 2)) == list(range(11))


def test_shrinking_without_a_defect(little_work, capsys):
    assert fuzz.main(["--shrink", "0"]) == 0
    assert "no defect in chunk 0" in capsys.readouterr().out
