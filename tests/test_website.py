"""What the site is made of: facts read from the code, pictures, and the programs of the tutorials."""

import json
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "docs" / "examples"), str(ROOT / "docs" / "website")]

import checkpoint
import facts
import lbfgs
import pytreeopt
import recompiles
import schedule_plots
import trajectories
from demo_report import plt
from demo_training import train


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_every_optimizer_is_found():
    inventory = json.loads((ROOT / "tests" / "inventory.json").read_text())
    assert {entry.name for entry in facts.optimizers()} == {e["name"] for e in inventory if e["kind"] == "alias"}


@pytest.mark.parametrize("optimizer", facts.optimizers(), ids=lambda optimizer: optimizer.name)
def test_the_table_has_something_to_say(optimizer):
    assert optimizer.summary.endswith(".")
    assert optimizer.references
    for label, url in optimizer.references:
        assert url.startswith("https://")
        assert label.split()[-1].isdigit(), "author and year"
    assert optimizer.fields(static=False)


def test_bytes_of_state():
    measured = {optimizer.name: optimizer.bytes_per_parameter for optimizer in facts.optimizers()}
    wanted = {"sgd": 0, "lion": 4, "adamw": 8, "amsgrad": 12, "lbfgs": 92, "adafactor": 0.008}
    assert {name: measured[name] for name in wanted} == pytest.approx(wanted, rel=0.05, abs=1e-4)


def test_every_public_class_has_a_place_in_the_reference():
    placed = {thing for things in facts.floors().values() for thing in things}
    ours = [x for x in vars(pytreeopt).values() if (getattr(x, "__module__", None) or "").startswith("pytreeopt.")]
    assert {thing for thing in ours if not (isinstance(thing, type) and issubclass(thing, tuple))} - placed == set()
    assert not [floor for floor in facts.floors() if floor not in facts.FLOORS], (
        "give the floor a title in facts.FLOORS"
    )


def test_every_schedule_has_its_numbers_in_its_picture():
    plotted = {type(schedule) for schedule in schedule_plots.schedules().values()}
    assert plotted == set(schedule_plots.MARKS)
    known = {cls for cls in facts.classes() if issubclass(cls, pytreeopt.AbstractSchedule)}
    assert {cls.__name__ for cls in known - plotted} == {"AbstractSchedule", "FunctionSchedule"}


@pytest.mark.parametrize("name", ["warmup_cosine_decay_schedule", "sgdr_schedule", "exponential_decay"])
def test_levels_lie_on_the_curve(name):
    schedule = schedule_plots.schedules()[name]
    for mark in schedule_plots.MARKS[type(schedule)](schedule):
        if isinstance(mark, schedule_plots.Level):
            assert float(schedule(mark.step)) == pytest.approx(float(mark.value), abs=1e-6), mark
    schedule_plots.draw(schedule)


def test_spans_do_not_cover_each_other():
    span = schedule_plots.Span
    assert schedule_plots.rows([span("a", 0, 4), span("b", 0, 9), span("c", 9, 12)]) == [0, 1, 0]


@pytest.mark.parametrize("name", ["sgd", "dpsgd", "polyak_sgd"])
def test_a_path_begins_at_the_start_and_goes_down(name):
    (optimizer,) = [entry for entry in facts.optimizers() if entry.name == name]
    for plane, path in zip(trajectories.PLANES, trajectories.paths(optimizer), strict=True):
        assert path.points.shape == (trajectories.STEPS + 1, 2)
        np.testing.assert_allclose(path.points[0], plane.start, rtol=1e-6)
        assert path.loss < plane.function(jnp.asarray(plane.start))
        assert (path.rate is None) == (name == "polyak_sgd")


def test_recompiles(tmp_path, capsys):
    recompiles.main(["--count", "3", "--out", str(tmp_path)])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[-2:] for line in lines[1:]] == [["3", "3"], ["1", "3"], ["1", "1"]]
    assert (tmp_path / "recompiles.png").exists()


@pytest.mark.slow
def test_lbfgs(tmp_path, capsys):
    lbfgs.main(["--steps", "40", "--out", str(tmp_path)])
    printed = capsys.readouterr().out.splitlines()[1:]
    ends = [float(line.split()[-2 if "not reached" not in line else -3]) for line in printed]
    assert ends[0] == min(ends)
    assert (tmp_path / "lbfgs.png").exists()


@pytest.mark.slow
def test_checkpoint(tmp_path, capsys):
    train.clear_cache()
    checkpoint.main(["--steps", "40", "--out", str(tmp_path)])
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in printed[1:3]] == ["0", "0"]
    assert printed[3].split()[-1] == printed[4].split()[-1] != printed[5].split()[-1]
    assert (tmp_path / "checkpoint.png").exists()


def test_a_checkpoint_brings_its_own_numbers(tmp_path):
    saved, params = pytreeopt.adamw(3e-3, b1=0.8), {"w": jnp.ones(2)}
    checkpoint.save(tmp_path / "file", saved, params, saved.init(params))
    restored, _, state = checkpoint.load(tmp_path / "file", pytreeopt.adamw(0.0), params)
    assert restored == saved
    assert jax.tree.structure(state) == jax.tree.structure(saved.init(params))
