"""The programs of docs/examples in small settings: what they claim to measure, their pictures, their options."""

import importlib
import pathlib
import sys

import jax
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "docs" / "examples"))

import pytreeopt

OPTIONS = {
    "meta_learning": "--unrolled",
    "learned_rates": "--orders",
    "maml": "--inner",
    "implicit": "--steps",
    "population_based_training": "--members",
    "many_devices": "--width",
}


@pytest.fixture
def run(tmp_path, capsys):
    """Runs a program as from the command line; checks what it prints and draws; returns what it found."""

    def run(name, *arguments):
        report = importlib.import_module(name).main([*map(str, arguments), "--out", str(tmp_path)])
        printed = capsys.readouterr().out
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert [path.name for path in tmp_path.iterdir()] == [f"{name}.png"]
        lines = printed.splitlines()
        assert lines[-2] == report.summary()
        assert len(lines) == len(report.table()) + 2
        return report

    return run


@pytest.mark.slow
def test_meta_learning(run):
    learned = run("meta_learning", "--unrolled", 16, "--descents", 8)
    for losses, path in (learned.first_order, learned.second_order):
        assert np.isfinite(path).all()
        assert losses.min() < 0.9 * losses[0]
    assert learned.second_order[0][-1] < learned.first_order[0][len(learned.second_order[0]) - 1]
    kept, segments = learned.memory.values()
    assert segments < 0.7 * kept


@pytest.mark.slow
def test_learned_rates(run):
    rates = run("learned_rates", "--unrolled", 6, "--descents", 10, "--orders", 1)
    last = [losses[-1] for losses in rates.losses.values()]
    first = {float(losses[0]) for losses in rates.losses.values()}
    assert max(first) - min(first) < 1e-5
    assert last[2] < last[0] < max(first)
    assert min(rates.accuracies.values()) > 60


@pytest.mark.slow
def test_maml(run):
    fits = run("maml", "--steps", 100, "--inner", 2)
    errors = fits.errors["meta-learned"]
    assert errors[-1] < errors[0] / 2
    assert fits.rates[1] != fits.rates[0]
    assert fits.curves["meta-learned"][-20:].mean() < fits.curves["meta-learned"][:20].mean()


@pytest.mark.slow
def test_implicit(run):
    gradients = run("implicit", "--steps", 600, "--points", 2)
    assert gradients.difference < 1e-3
    assert gradients.memory_implicit < gradients.memory_unrolled[600] / 10
    assert gradients.memory_unrolled[600] > 1.9 * gradients.memory_unrolled[300]
    derivatives = pytreeopt.hyperparams(gradients.implicit[0])
    assert abs(derivatives["1.learning_rate"]) < 1e-3 * abs(derivatives["0.weight_decay"])


@pytest.mark.slow
def test_population_based_training(run):
    history = run("population_based_training", "--members", 8, "--generations", 6, "--steps", 10)
    assert history.time.compilations == 1
    np.testing.assert_array_equal(history.losses[0], history.losses_alone[0])
    assert np.nanmedian(history.losses[-1]) < np.nanmedian(history.losses_alone[-1])
    rates = history.hyperparams["learning_rate"]
    assert rates.shape == history.losses.shape == (6, 8)
    changed = rates[1:] != rates[:-1]
    assert (changed.sum(axis=1) <= 2).all()  # a quarter of the members, a generation
    assert changed.any()
    for before, after, moved in zip(rates[:-1], rates[1:], changed, strict=True):
        ratios = after[moved][:, None] / before
        assert (np.isclose(ratios, 0.7, rtol=1e-4) | np.isclose(ratios, 1.4, rtol=1e-4)).any(axis=1).all()


@pytest.mark.slow
def test_many_devices(run):
    devices = run("many_devices", "--members", 16, "--steps", 6, "--width", 64)
    assert len(devices.kept_sharded) == jax.device_count() == 8
    assert sorted(devices.device) == sorted(list(range(8)) * 2)
    assert len(devices.differences) == 3
    assert max(devices.differences.values()) < 1e-6
    assert devices.kept_sharded.max() < 1.01 * devices.kept_replicated.max() / 8


@pytest.mark.parametrize("name", OPTIONS)
def test_help_and_errors(name, capsys):
    program = importlib.import_module(name)
    with pytest.raises(SystemExit) as stop:
        program.main(["--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert program.__doc__.splitlines()[0] in shown
    assert OPTIONS[name] in shown
    for wrong in ([OPTIONS[name], "-1"], ["--seed", "-1"], ["--out", __file__]):
        with pytest.raises(SystemExit) as stop:
            program.main(wrong)
        assert stop.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"{name}.py: argument {wrong[0]}: ")
