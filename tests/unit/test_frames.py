# SPDX-License-Identifier: GPL-2.0
"""A recording as polars frames says what the report says; the example notebook runs on it."""

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import cpuidle_lab
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.figures import analysis, frames
from cpuidle_lab.figures.frames import Frames
from cpuidle_lab.figures.group import DECISIONS
from cpuidle_lab.recording import trace
from tests.unit import synthetic
from tests.unit.periods import MACHINE, Builder, Period
from tests.unit.test_kernelshark import stock
from tests.unit.tracedat import Trace

NOTEBOOK = Path(__file__).parents[2] / "docs" / "recording.ipynb"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.demo(tmp_path_factory.mktemp("session") / "trace.dat", 20_000_000)


@pytest.fixture(scope="module")
def recording(path: Path) -> Frames:
    return cpuidle_lab.open(path)


def test_the_frames_have_the_columns_that_are_promised(recording: Frames, tmp_path: Path) -> None:
    for found in (recording, cpuidle_lab.open(str(stock(tmp_path / "trace.dat")))):
        for name, layout in (
            ("decisions", frames.DECISIONS),
            ("intervals", frames.INTERVALS),
            ("idle", frames.IDLE),
            ("states", frames.STATES),
        ):
            assert getattr(found, name).schema == pl.Schema(layout), name


def test_regret_above_and_below_are_those_of_the_report(path: Path, recording: Frames) -> None:
    groups = [g for g in analysis.analyse(trace.load(path)) if g.source == DECISIONS]
    plain = [g for g in groups if "hints" not in g.governor and not g.governor.startswith("gate")]
    assert len(plain) >= 9
    # Some have periods within an exit latency, so both kinds occur.
    assert len({group.values["regret"] is None for group in plain}) == 2
    mine = recording.regret()
    for group in plain:
        here = (pl.col("workload") == group.workload) & (pl.col("governor") == group.governor)
        assert mine.filter(here)["regret"].item() == pytest.approx(group.values["regret"])
        rows = recording.decisions.filter(here)
        for name in ("above", "below"):
            share = 100 * float(str(rows[name].mean()))
            assert share == pytest.approx(group.values[name]), (group.governor, name)


def test_every_entered_decision_is_a_stay(recording: Frames) -> None:
    entered = recording.decisions.filter("entered")
    met = recording.idle.drop_nulls("seq").join(entered, on=["cpu", "seq"], validate="1:1")
    assert met.height == entered.height
    assert (met["index"] == met["out_index"].cast(pl.UInt32)).all()
    assert (met["start_ns"] >= met["ts"]).all() and (met["end_ns"] <= met["out_ts"]).all()
    # The kernel's menu has no decisions in the trace.
    assert recording.idle["seq"].null_count() > 100


def test_a_stay_ends_before_the_next_begins(recording: Frames) -> None:
    gaps = recording.idle.with_columns(next=pl.col("start_ns").shift(-1).over("cpu"))
    assert (gaps["end_ns"] <= gaps["next"]).drop_nulls().all()


def test_a_stock_recording_has_idle_alone(tmp_path: Path) -> None:
    found = cpuidle_lab.open(stock(tmp_path / "trace.dat"))
    assert (found.decisions.height, found.intervals.height, found.states.height) == (0, 0, 0)
    assert found.idle.height == 50 and set(found.idle["state"]) == {"state 0", "state 1", "state 2"}


@pytest.mark.parametrize("content", [None, b"", b"\x17\x08Dtracing6"])
def test_what_is_no_recording_is_one_sentence(tmp_path: Path, content: bytes | None) -> None:
    where = tmp_path / "trace.dat"
    if content is not None:
        where.write_bytes(content)
    with pytest.raises((UserError, FileNotFoundError)) as caught:
        cpuidle_lab.open(where)
    assert str(where) in str(caught.value) and "\n" not in str(caught.value)


def shown(cell: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does; return the value of an expression at its end."""
    body = ast.parse(cell)
    last = body.body[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(body, "cell", "exec"), names)
        return None
    exec(compile(ast.Module(body.body[:-1], []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_the_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE", str(path))
    notebook = json.loads(NOTEBOOK.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    names: dict[str, Any] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in cells)
    results = [shown("".join(cell["source"]), names) for cell in cells]
    tables = [result for result in results if result is not None]
    assert len(tables) == 4 and all(table.height > 1 for table in tables)
    assert tables[3]["lost_uj"].is_sorted(descending=True) and (tables[3]["lost_uj"] > 0).all()


# polars did not come to an end with one expression within the other for each CPU, or phase.
def test_many_cpus_and_phases_are_named_at_once(tmp_path: Path) -> None:
    builder = Builder(Trace(600))
    for cpu in range(600):
        builder.config(replace(MACHINE, names=("POLL", f"A{cpu}", "B")), cpu=cpu)
    for number in range(600):
        mark = f"phase governor=teo_ng workload=w{number}"
        builder.trace.mark(0, builder.now, mark)
        builder.now += 10
        builder.add(Period(1, 400_000))
    builder.trace.mark(0, builder.now, "phase end")
    builder.now += 10
    builder.add(Period(2, 800_000))
    builder.trace.add(599, builder.now, "cpu_idle", state=1, cpu_id=599)
    builder.trace.add(599, builder.now + 10, "cpu_idle", state=2**32 - 1, cpu_id=599)
    found = cpuidle_lab.open(builder.trace.write(tmp_path / "t.dat"))
    assert found.decisions["workload"].to_list() == [*(f"w{n}" for n in range(600)), ""]
    assert found.decisions["state"].to_list() == ["A0"] * 600 + ["B"]
    assert found.idle.filter(pl.col("cpu") == 599)["state"].to_list() == ["A599"]
