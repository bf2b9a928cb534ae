"""The demo in a small setting: what it claims to measure, its pictures, its errors."""

import pathlib
import sys

import jax
import numpy as np
import pytest
from sklearn.datasets import load_digits

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "docs" / "examples"))

import demo
import demo_grid
import demo_learn
import demo_replace
import demo_sweep
from demo_report import Report, aligned, plt
from demo_stopwatch import Stopwatch
from demo_training import Task, segments, train


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.load(seed=0)


@pytest.fixture(autouse=True)
def configuration():
    cache = jax.config.jax_enable_compilation_cache
    yield
    jax.config.update("jax_enable_compilation_cache", cache)


def check_presentation(report: Report, folder: pathlib.Path) -> None:
    picture = folder / "picture.png"
    figure = report.draw()
    figure.savefig(picture)
    plt.close(figure)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "\n" not in report.summary()
    assert len(aligned(report.table()).splitlines()) == len(report.table())


def test_the_split_keeps_every_digit_once(task):
    parts = task.training, task.validation, task.test
    assert [len(part.labels) for part in parts] == [1078, 359, 360]
    split = np.concatenate([np.column_stack([part.images * 16, part.labels]) for part in parts])
    whole = np.column_stack(load_digits(return_X_y=True))
    np.testing.assert_array_equal(split[np.lexsort(split.T)], whole[np.lexsort(whole.T)])
    for part in parts:
        np.testing.assert_allclose(np.bincount(part.labels) / len(part.labels), 0.1, atol=0.01)


def test_an_epoch_shows_every_training_digit_once(task):
    count = len(task.training.labels)
    batches = task.batches(steps=2, seed=0, size=count)
    for labels in batches.labels:
        np.testing.assert_array_equal(np.bincount(labels), np.bincount(task.training.labels))
    first, second = segments(batches, 2)
    np.testing.assert_array_equal(np.concatenate([first.images, second.images]), batches.images)


def test_the_stopwatch_counts_programs_and_splits_the_time():
    double = jax.jit(lambda x: jax.jit(lambda y: 2 * y)(x))
    x = np.ones(3, np.float32)
    with Stopwatch() as outer:
        with Stopwatch() as first:
            double(x).block_until_ready()
        with Stopwatch() as second:
            double(x).block_until_ready()
    assert (first.compilations, second.compilations, outer.compilations) == (1, 0, 1)
    assert 0 < first.compiling <= first.wall
    assert (second.compiling, second.running) == (0, second.wall)
    assert outer.compiling == pytest.approx(first.compiling)


def test_grid(task, tmp_path):
    grid = demo_grid.measure(task, steps=60, seed=0, shape=(4, 2), calls=3)
    assert grid.time.compilations == 1
    assert grid.accuracy.shape == (4, 2)
    assert grid.validation_loss[grid.best] == np.nanmin(grid.validation_loss)
    assert grid.accuracy[grid.best] > 80
    check_presentation(grid, tmp_path)


def test_sweep(task, tmp_path):
    train.clear_cache()  # other tests may have compiled for the same number of steps
    sweep = demo_sweep.measure(task, steps=40, seed=0, count=2)
    assert (sweep.ours.compilations, sweep.upstream.compilations) == (1, 2)
    np.testing.assert_allclose(sweep.ours.accuracies, sweep.upstream.accuracies, atol=0.5)
    for runs in (sweep.ours, sweep.upstream):
        assert runs.wall == pytest.approx(runs.compiling + runs.running)
        assert 0 < runs.running < runs.wall
    check_presentation(sweep, tmp_path)


def test_replace(task, tmp_path):
    train.clear_cache()
    change = demo_replace.measure(task, steps=80, seed=0)
    assert (change.first.compilations, change.second.compilations) == (1, 0)
    assert change.changed[-5:].mean() < change.unchanged[-5:].mean() < change.before[:5].mean()
    check_presentation(change, tmp_path)


@pytest.mark.slow
def test_learn(task, tmp_path):
    descent = demo_learn.measure(task, seed=0, descents=8, unrolled=15, resolution=4)
    assert descent.time.compilations == 1
    assert len(descent.losses) == 9
    assert np.isfinite(descent.losses).all()
    assert descent.losses[-1] < 0.9 * descent.losses[0]
    assert descent.rates[-1] > descent.rates[0]
    assert descent.b1s[-1] != descent.b1s[0]
    check_presentation(descent, tmp_path)


def test_the_program_prints_its_figures_and_writes_the_picture(tmp_path, capsys):
    demo.main(["--only", "replace", "--steps", "40", "--seed", "3", "--out", str(tmp_path / "new" / "folder")])
    printed = capsys.readouterr().out
    assert "compilations" in printed
    assert f"pictures in {tmp_path}/new/folder" in printed
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["replace.png"]


@pytest.mark.slow
def test_the_whole_program(tmp_path, capsys):
    demo.main(["--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"grid.png", "sweep.png", "replace.png", "learn.png"}
    best = next(line for line in printed.splitlines() if "its test accuracy" in line)
    assert float(best.split()[-2]) >= 95


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--steps", "3"], "argument --steps: must be at least 40, got 3"),
        (["--steps", "many"], "argument --steps: invalid int value: 'many'"),
        (["--seed", "-1"], "argument --seed: must be between 0 and 2**32 - 1, got -1"),
        (["--only", "nothing"], "argument --only: invalid choice: 'nothing'"),
        (["--grid"], "unrecognized arguments: --grid"),
        (["--out", __file__], "argument --out: cannot make the folder"),
    ],
)
def test_a_bad_option_is_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        demo.main(arguments)
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"demo.py: {message}")


def test_help_names_every_part_and_option(capsys):
    with pytest.raises(SystemExit) as stop:
        demo.main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert all(word in text for word in (*demo.PARTS, "--seed", "--steps", "--out", "--only"))
