"""`python -m parity.bench`: how it measures, and what it writes."""

import json

import pytest

from parity.bench import __main__ as bench, tables
from parity.bench.clock import Clock, ratio
from parity.bench.sections import SECTIONS, exponent
from parity.bench.tables import BEGIN, END, Line


def test_contestants_take_turns():
    turns = []
    things = {name: lambda name=name: turns.append(name) for name in "abc"}
    times = Clock("cpu").race(things, rounds=3, calls=2, warm=False)
    assert "".join(turns) == "aabbccbbccaaccaabb"
    assert {name: len(seconds) for name, seconds in times.items()} == {"a": 3, "b": 3, "c": 3}


def test_a_ratio_is_the_median_of_the_rounds():
    assert ratio({"ours": [1.0, 20.0, 3.0], "theirs": [2.0, 10.0, 4.0]}, "ours", "theirs") == 0.75


def test_an_exponent_is_the_slope_from_100_leaves_on():
    found = {(f"step, {n:,} leaves", "x"): [n**1.5] for n in (100, 1_000, 10_000)} | {("step, 10 leaves", "x"): [9e9]}
    assert exponent("step", "x", found) == pytest.approx(1.5)


def test_verdicts():
    line = Line("a | b", "us", 2.0, "Optax", 1.0, 2.0)
    assert [line._replace(limit=limit).verdict for limit in (None, 2.0, 1.9)] == ["", "met", "MISSED"]
    assert "| a \\| b | 2 us | Optax | 1 us | 2 |" in tables.markdown({"Title": [line]}, {"jax": "1"})


def test_the_page_keeps_its_prose():
    page = tables.put_between(f"before {BEGIN} old {END} after", "new")
    assert page == f"before {BEGIN}\n\nnew\n\n{END} after"
    with pytest.raises(ValueError, match="lacks"):
        tables.put_between("a page", "new")


def test_the_documentation_has_the_marks():
    assert tables.put_between(bench.PAGE.read_text(encoding="utf-8"), "new")


@pytest.mark.slow
def test_one_section_is_measured_and_written(tmp_path, capsys):
    file = tmp_path / "out" / "bench.md"
    status = bench.main(["--only", "objects", "--clock", "cpu", "--out", str(file)])
    written = json.loads(file.with_suffix(".json").read_text())
    lines = written["sections"][SECTIONS["objects"].title]
    assert status == any(line["verdict"] == "MISSED" for line in lines)
    assert {"construction, AdamW", "unflatten, arrays, AdamW"} <= {line["what"] for line in lines}
    assert {"jax", "optax", "clock", "device"} <= set(written["environment"])
    assert lines[0]["what"] in file.read_text()
    assert lines[0]["what"] in capsys.readouterr().out
