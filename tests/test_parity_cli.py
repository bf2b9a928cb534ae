"""`python -m parity`: what it runs, what it keeps, what it says, how it ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import optax
import pytest

from parity import __main__ as cli, matrix, report
from parity.row import Row
from parity.rows import ROWS

TINY = ["--only", "sgd", "--trees", "scalar", "--steps", "2", "--dtypes", "float32", "--oracles", "eager"]
ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    jax.devices()  # so that no option can change the platform of the other tests
    platforms = jax.config.jax_platforms
    yield
    jax.config.update("jax_platforms", platforms)


@pytest.fixture
def cells_run(monkeypatch):
    """The cells that are run, in order."""
    seen = []
    run = matrix.run
    monkeypatch.setattr(matrix, "run", lambda cell: (seen.append(cell), run(cell))[1])
    return seen


def test_a_tiny_matrix(capsys):
    assert cli.main([*TINY, "--verbose"]) == 0
    shown = capsys.readouterr()
    assert "sgd, nesterov" in shown.out
    assert "equal to the bit, 0 within a stated tolerance, 0 missed" in shown.out
    assert "parity: 100% of" in shown.err


def test_only_misses_are_shown_unless_verbose(capsys):
    assert cli.main(TINY) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_second_start_goes_on_where_the_first_stopped(cells_run, capsys):
    assert cli.main(TINY) == 0
    every = list(cells_run)
    kept = cli.RESULTS.read_text().splitlines()
    assert len(kept) == len(every) > 3

    cells_run.clear()
    assert cli.main(TINY) == 0
    assert not cells_run

    cli.RESULTS.write_text("\n".join(kept[:2]) + "\n" + kept[2][:30])  # stopped while it wrote the third line
    assert cli.main(TINY) == 0
    assert cells_run == every[2:]
    assert "2 of" in capsys.readouterr().err

    cells_run.clear()
    assert cli.main([*TINY, "--fresh"]) == 0
    assert cells_run == every


def test_quick_runs_each_row_on_one_tree():
    cells = matrix.cells(matrix.names(), quick=True)
    assert len(cells) == len({cell._replace(tree="") for cell in cells})
    assert {cell.row for cell in cells} == set(matrix.names())
    assert all(cell.steps == matrix.FEW_STEPS for cell in cells if cell.row in ROWS and ROWS[cell.row].costly)


def test_changed_sources_or_other_steps_run_anew(cells_run, monkeypatch):
    assert cli.main(TINY) == 0
    first = list(cells_run)
    monkeypatch.setattr(matrix, "fingerprint", lambda: "other sources")
    assert cli.main(TINY) == 0
    assert cells_run == first * 2
    assert cli.main([*TINY, "--steps", "1"]) == 0
    assert len(cells_run) == 3 * len(first)


def test_what_the_environment_tells_the_compiler_is_run_anew(monkeypatch):
    first = matrix.fingerprint()
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert matrix.fingerprint() == first
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    assert matrix.fingerprint() != first


def test_what_is_not_compiled_is_no_proof(capsys):
    with jax.disable_jit(), pytest.raises(SystemExit):
        cli.main(TINY)
    assert "JAX_DISABLE_JIT is set" in capsys.readouterr().err


def test_an_interrupted_run_says_how_to_go_on(cells_run, monkeypatch, capsys):
    run = matrix.run

    def stop_at_third(cell):
        if len(cells_run) == 2:
            raise KeyboardInterrupt
        return run(cell)

    monkeypatch.setattr(matrix, "run", stop_at_third)
    assert cli.main(TINY) == 130
    assert "stopped at 2 of" in capsys.readouterr().err
    assert len(cli.RESULTS.read_text().splitlines()) == 2


def test_a_miss_is_reported(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(ROWS, "sgd, wrong", Row(lambda o: o.sgd(0.1 if o is optax else 0.2)))
    assert cli.main([*TINY, "--report", "out/parity.md"]) == 1
    shown = capsys.readouterr().out
    assert "sgd, wrong" in shown
    assert "MISS" in shown
    assert "scalar: step 0 ['updates']" in shown
    assert "1 missed" in shown
    assert "sgd, nesterov" not in shown

    text = (tmp_path / "out/parity.md").read_text()
    assert "## Misses" in text
    rows = sum(name.partition(",")[0] == "sgd" for name in ROWS)
    assert f" of {len(report.ENTRIES)} transformations" in text
    assert f"| sgd | {rows} | **" in text
    assert "| runs | each row on scalar, 2 steps |" in text
    data = json.loads((tmp_path / "out/parity.json").read_text(), parse_constant=pytest.fail)
    assert data["counts"]["missed"] == 1
    assert {"platform", "device", "jax", "optax"} <= data["environment"].keys()
    assert {"row", "tree", "dtype", "oracle", "steps", "ulp", "where", "ok"} <= data["results"][0].keys()


def test_a_row_that_raises_is_a_miss(monkeypatch, capsys):
    monkeypatch.setitem(ROWS, "sgd, broken", Row(lambda o: o.no_such_optimizer()))
    assert cli.main(TINY) == 1
    assert "AttributeError" in capsys.readouterr().out
    assert cli.main(TINY) == 1  # remembered too


@pytest.mark.parametrize(
    "options, message",
    [
        (["--only", "adamv"], "--only 'adamv' is part of no row's name; near it: adam"),
        (["--steps", "0"], "must be at least 1"),
        (["--trees", "oak"], "invalid choice: 'oak'"),
        (["--only", "clip", "--trees", "scalar", "--dtypes", "complex64", "--only", "nothing"], "'nothing'"),
        (["--only", "masked, prefix", "--trees", "scalar"], "run in none of these trees and dtypes"),
        (["--only", "sgd", "--platform", "tpu"], "platform tpu is not here"),
        (["--report", "out.json"], "must name a Markdown file"),
        (["--only", "sgd", "--report", f"{os.devnull}/parity.md"], "parity.md: its folder cannot be made"),
    ],
)
def test_bad_options(options, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(options)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_schedules_are_rows_too(capsys):
    assert cli.main(["--only", "sgdr_schedule", "--dtypes", "float32", "--verbose"]) == 0
    assert capsys.readouterr().out.count("sgdr_schedule") == 3 * len(matrix.names(["sgdr_schedule"]))


def test_worker_processes_give_every_cell_once(tmp_path):
    found = subprocess.run(
        [sys.executable, "-m", "parity", *TINY, "--shards", "2", "--platform", "cpu"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert found.returncode == 0, found.stderr
    kept = [json.loads(line) for line in cli.RESULTS.read_text().splitlines()]
    assert sorted(record["row"] for record in kept) == sorted(name for name in matrix.names(["sgd"]) if name in ROWS)


def test_a_worker_that_dies_costs_one_cell(monkeypatch):
    monkeypatch.setattr(matrix, "_work", _die_at_second)
    todo = [matrix.Cell(name, "scalar", "float32", "eager", 1) for name in ("sgd", "adam", "scale")]
    results = {result.cell.row: result for result in matrix.run_in_workers(todo, 1, None)}
    assert {name for name, result in results.items() if not result.ok} == {"adam"}
    assert "died with exit code 3" in results["adam"].where


def _die_at_second(chunk, sender, platform):
    for cell in chunk:
        if cell.row == "adam":
            os._exit(3)
        sender.send(matrix.Result(cell, 0.0, 0.0, "", 0.0, True))


def test_chunks_hold_every_cell_in_order():
    todo = matrix.cells(matrix.names())
    for shards in (1, 2, 7):
        parts = list(matrix.chunks(todo, shards))
        assert [cell for part in parts for cell in part] == todo
        assert max(map(len, parts)) <= matrix.LONGEST_CHUNK
