# SPDX-License-Identifier: GPL-2.0
"""Columns: what a recording carries, how it is written and read, and what is refused."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpuidle_lab import cli
from cpuidle_lab.base.errors import FAILURE, USAGE, UserError
from cpuidle_lab.recording import columns as co
from cpuidle_lab.recording import reader as recording_reader
from cpuidle_lab.recording import trace as tr
from tests.proofs.throughput import reader
from tests.unit import synthetic
from tests.unit.intervals_model import (
    CONFIG,
    MACHINE,
    Decided,
    add,
    made,
)
from tests.unit.tracedat import Trace


def names_in(folder: Path) -> list[str]:
    """Return what is in a directory."""
    return sorted(path.name for path in folder.iterdir())


# ---- power:cpu_idle alone. ----


def test_cpu_idle_only(tmp_path: Path) -> None:
    trace = Trace(2)
    for ts, state in [(100, -1), (200, 2), (500, -1), (900, 1), (950, -1), (1000, 0), (1100, 1),
                      (1400, -1), (1500, 1)]:  # fmt: skip
        trace.add(1, ts, "cpu_idle", state=state % 2**32, cpu_id=1)
    recording = made(trace, tmp_path)
    assert (recording.kind, recording.cpus, recording.state_tables) == (co.CPU_IDLE, [1], {})
    rows = recording.table("interval")
    unknown, gap = co.UNKNOWN, co.UNKNOWN | co.GAP
    names = ["start_ns", "length_ns", "busy_ns", "index", "flags"]
    assert rows.select(names).rows() == [
        (200, 300, 400, 2, gap),
        (900, 50, 50, 1, unknown),
        (1100, 300, 100, 1, gap),
    ]
    for name in ("timer_ns", "tick_phase_ns", "latency_req_ns", "hint_ns"):
        assert set(rows[name]) == {-1}
    assert recording.table("period").height == 0


# Lost events in the middle of an idle period leave nothing to be said of it.
def test_cpu_idle_lost(tmp_path: Path) -> None:
    trace = Trace()
    trace.add(0, 100, "cpu_idle", state=1, cpu_id=0)
    trace.add(0, 200, "cpu_idle", state=2**32 - 1, cpu_id=0, lost=4)
    trace.add(0, 300, "cpu_idle", state=1, cpu_id=0)
    trace.add(0, 350, "cpu_idle", state=2**32 - 1, cpu_id=0)
    recording = made(trace, tmp_path)
    assert recording.table("interval").select("start_ns", "length_ns", "flags").rows() == [
        (300, 50, co.UNKNOWN | co.GAP)
    ]
    assert recording.integrity.lost_known == 4


# Where decisions tell more, power:cpu_idle is not used, whichever CPU has them.
def test_decisions_come_first(tmp_path: Path) -> None:
    trace = Trace(2)
    trace.add(0, 100, "cpu_idle", state=1, cpu_id=0)
    trace.add(0, 200, "cpu_idle", state=2**32 - 1, cpu_id=0)
    add(trace, 1, [Decided(seq=1, now=10**9, residency=500)])
    recording = made(trace, tmp_path)
    assert (recording.kind, recording.cpus) == (co.TRACE, [1])
    assert recording.rows("interval") == 1
    assert not (recording.path / "idle").exists()


# ---- What a recording carries besides. ----


def test_everything_else_arrives(tmp_path: Path) -> None:
    trace = Trace(2)
    for cpu in (0, 1):
        add(trace, cpu, [Decided(seq=1, now=10**9, residency=500)])
    shadow = {"seq": 1, "generation": 4, "governor": 1, "flags": 4, "index": 2, "stop_tick": 1,
              "reason": 33, "row": 255}  # fmt: skip
    trace.put(1, 10**9 + 9, "shadow", shadow)
    trace.put(0, 10**9 + 1, "state", {"seq": 1, "total": 3, "governor": 2, "data": b"\0\1\2"})
    trace.put(0, 10**9 + 2, "tunable", {"generation": 4, "name": "a", "value": "1"})
    trace.put(0, 10**9 + 3, "hint", {"limit_ns": 5, "pid": 6, "cpu": -1, "what": 2, "comm": "x"})
    trace.mark(0, 10**9 + 4, "phase end")
    recording = made(trace, tmp_path)
    loaded = tr.load(tmp_path / "t.dat", with_state=True)
    assert recording.kernel == "6.12.0-test"
    assert recording.state_tables == loaded.state_tables == {0: MACHINE, 1: MACHINE}
    assert recording.name_of("decision", "reason", 33) == loaded.name_of("decision", "reason", 33)
    read_too = {*co.SMALL, "decision", "outcome"}
    assert recording.symbols == {k: v for k, v in loaded.symbols.items() if k[0] in read_too}
    for name in co.SMALL:
        ours, theirs = recording.table(name), loaded.tables[name]
        assert ours.height == theirs.height
        assert not ours.height or ours.select(theirs.columns).equals(theirs), name
    assert recording.table("shadow").row(0, named=True) == {"ts": 10**9 + 9, "cpu": 1, **shadow}


# A decision before the idle states are known is a period, in no interval, and counted.
def test_before_the_configuration(tmp_path: Path) -> None:
    trace = Trace()
    early = [Decided(seq=s, now=s * 10_000, residency=500) for s in (1, 2)]
    late = [Decided(seq=s, now=s * 10_000 + 10**9, residency=500) for s in (3, 4)]
    add(trace, 0, late)
    config = trace._records[0].pop(0)
    add(trace, 0, early)
    trace._records[0] = [item for item in trace._records[0] if item[0] != 1_000]
    trace._records[0].append((10**9, *config[1:]))
    recording = made(trace, tmp_path)
    assert recording.unplaced == 2
    assert recording.rows("period") == 4
    rows = recording.table("interval")
    assert rows["first_seq"].to_list() == [3, 4]
    assert [flags & co.GAP for flags in rows["flags"]] == [co.GAP, 0]


# ---- Writer and Recording. ----


def interval_rows(count: int, cpu: int = 0, **changes: Any) -> pl.DataFrame:
    """Return intervals that can be."""
    columns: dict[str, Any] = {name: np.zeros(count, np.int64) for name in synthetic.PLAIN}
    columns |= {
        "answers": 0,
        **{name: [[]] * count for name in co.ANSWERS},
        "cpu": np.full(count, cpu),
        "start_ns": np.arange(count) * 1000,
        "length_ns": np.full(count, 500),
        **changes,
    }
    return pl.DataFrame(columns).cast(co.INTERVAL)  # type: ignore[arg-type]


META = {"kind": co.SYNTH, "source": "test", "machines": {0: co.describe(MACHINE)}, "law": {"a": 1}}


def test_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cpuidle_lab.recording.columns.writer.PART_ROWS", 1000)
    with co.Writer(tmp_path / "c", META) as writer:
        for cpu, count in ((0, 700), (0, 700), (3, 10), (3, 2990)):
            start = np.arange(count) * 1000 + int(str(writer.meta.get(f"end {cpu}", 0)))
            writer.meta[f"end {cpu}"] = int(start[-1])
            writer.add("interval", interval_rows(count, cpu, start_ns=start))
    recording = co.Recording(tmp_path / "c")
    assert recording.cpus == [0, 3]
    assert [(part.cpu, part.rows) for part in recording.parts["interval"]] == [
        (0, 1000), (0, 400), (3, 1000), (3, 1000), (3, 1000),
    ]  # fmt: skip
    assert recording.law == {"a": 1}
    assert (recording.rows("interval"), recording.rows("interval", 3)) == (4400, 3000)
    chunks = list(recording.intervals(3))
    assert [len(chunk["cpu"]) for chunk in chunks] == [1000, 1000, 1000]
    assert chunks[0]["start_ns"].dtype == np.uint64 and chunks[0]["length_ns"].dtype == np.int64
    assert list(next(recording.intervals(3, ["flags"]))) == ["flags"]
    assert recording.table("config").schema == pl.Schema(co.SMALL["config"])
    assert names_in(tmp_path) == ["c"]


# A CPU has one grid of ticks: it was there before the kernel told of it.
def test_the_grid_is_known_backwards(tmp_path: Path) -> None:
    with co.Writer(tmp_path / "c", META) as writer:
        writer.add("interval", interval_rows(4, tick_phase_ns=np.array([-1, -1, 7, 8])))
    (chunk,) = co.Recording(tmp_path / "c").intervals(0)
    assert chunk["tick_phase_ns"].tolist() == [7, 7, 7, 8]


# Whatever stops a writer, nothing of it stays, and what was there before does.
def test_writer_is_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "c"
    with pytest.raises(KeyboardInterrupt), co.Writer(target, META) as writer:
        writer.add("interval", interval_rows(10))
        raise KeyboardInterrupt
    assert not names_in(tmp_path)
    with co.Writer(target, META) as writer:
        writer.add("interval", interval_rows(10))
    with pytest.raises(ZeroDivisionError), co.Writer(target, META) as writer:
        writer.add("interval", interval_rows(20))
        raise ZeroDivisionError
    assert co.Recording(target).rows("interval") == 10
    with co.Writer(target, META) as writer:
        writer.add("interval", interval_rows(30))
    assert co.Recording(target).rows("interval") == 30
    assert names_in(tmp_path) == ["c"]


def test_a_full_disk_is_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = "parquet: underlying IO error: No space left on device (os error 28)"

    def write(*_: object, **__: object) -> None:
        raise pl.exceptions.ComputeError(full)

    monkeypatch.setattr(pl.DataFrame, "write_parquet", write)
    with pytest.raises(OSError) as caught, co.Writer(tmp_path / "c", {}) as writer:
        writer.add("interval", interval_rows(3))
    assert (caught.value.errno, caught.value.filename) == (28, str(tmp_path / "c"))
    assert names_in(tmp_path) == []


def refused(action: Callable[[], object], *words: str, code: int = FAILURE) -> None:
    """Demand a refusal in one sentence that holds the words."""
    with pytest.raises(UserError) as caught:
        action()
    assert caught.value.exit_code == code
    assert "\n" not in caught.value.message
    for word in words:
        assert word in caught.value.message


def test_foreign_target(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("dear")
    (tmp_path / "file").write_text("dear")
    (tmp_path / "link").symlink_to(tmp_path / "full")
    for name, why in (("full", "holds thesis.tex"), ("file", "exists"), ("link", "holds thesis")):
        refused(lambda: co.Writer(tmp_path / name, META), why, code=USAGE)  # noqa: B023
    refused(lambda: co.Writer(tmp_path / "no" / "c", META), "no such directory", code=USAGE)
    assert names_in(tmp_path) == ["file", "full", "link"]
    assert (tmp_path / "full" / "thesis.tex").read_text() == "dear"


# ---- Bad traces. ----


def lie(folder: Path, *words: str, **changes: object) -> None:
    """Demand that a trace with a false config event is refused, and leaves nothing."""
    trace = Trace()
    add(trace, 0, [Decided(seq=1, now=10**9, residency=500)])
    trace._records[0].pop(0)
    trace.put(0, 1_000, "config", {**CONFIG, "cpu": 0, **changes})
    refuse_trace(trace.write(folder / "lie.dat"), *words)


def refuse_trace(path: Path, *words: str) -> None:
    """Demand that a trace is refused, and leaves nothing."""
    before = names_in(path.parent)
    refused(lambda: co.write(path, path.parent / "made"), str(path), *words)
    assert names_in(path.parent) == before


def test_lying_machines(tmp_path: Path) -> None:
    lie(tmp_path, "11 idle states", states=11)
    lie(tmp_path, "0 idle states", states=0)
    lie(tmp_path, "idle state 1", "does not have", states=1)
    lie(tmp_path, "impossible times", exit_latency_ns=[0, -2, 3])
    lie(tmp_path, "impossible times", target_residency_ns=[0, 3, 2**60])
    lie(tmp_path, "not sorted", target_residency_ns=[0, 5_000, 2_000])
    lie(tmp_path, "tick of 0 ns", tick_ns=0)
    lie(tmp_path, "one CPU that tells of another", cpu=5)
    trace = Trace()
    add(trace, 0, [Decided(seq=1, now=10**9, residency=500)])
    trace.put(0, 2_000, "config", {**CONFIG, "cpu": 0, "power_mw": [5, 5, 5]})
    refuse_trace(trace.write(tmp_path / "lie.dat"), "changed while it was recorded")


# Equal residencies, one state and ten are no lies.
@pytest.mark.parametrize("count", [1, 10])
def test_machines_that_can_be(tmp_path: Path, count: int) -> None:
    trace = Trace()
    add(trace, 0, [Decided(seq=1, now=10**9, residency=500, index=0, entered=0)])
    trace._records[0].pop(0)
    values = [7] * count
    trace.put(0, 1_000, "config", {**CONFIG, "cpu": 0, "states": count, "power_mw": values,
              "exit_latency_ns": values, "target_residency_ns": values})  # fmt: skip
    assert made(trace, tmp_path).state_tables[0].count == count


def test_lying_events(tmp_path: Path) -> None:
    def events(*decided: Decided) -> Path:
        trace = Trace()
        add(trace, 0, list(decided))
        return trace.write(tmp_path / "lie.dat")

    one = Decided(seq=5, now=10**9, residency=500)
    two = replace(one, now=2 * 10**9)
    refuse_trace(events(one, two), "decision 5 of CPU 0 comes after 5")
    refuse_trace(events(one, replace(two, seq=4)), "decision 4 of CPU 0 comes after 5")
    refuse_trace(events(one, replace(two, seq=6, index=3)), "decision 6", "idle state 3")
    refuse_trace(events(one, replace(two, seq=6, entered=9)), "outcome 6", "idle state 9")
    refuse_trace(events(replace(one, kind=7)), "unknown kind 7")

    trace = Trace()
    add(trace, 0, [one])
    trace.add(0, 10**9 + 600, "outcome", seq=5, index=1)
    refuse_trace(trace.write(tmp_path / "lie.dat"), "outcome 5 of CPU 0 occurs twice")
    trace = Trace()
    add(trace, 0, [one])
    trace.add(0, 3 * 10**9, "decision", seq=6, now_ns=2**63, index=1)
    refuse_trace(trace.write(tmp_path / "lie.dat"), "impossible time")
    trace = Trace()
    trace.add(0, 100, "cpu_idle", state=4000, cpu_id=0)
    refuse_trace(trace.write(tmp_path / "lie.dat"), "impossible idle state 4000")


# A residency that cannot have been stays in its period and is in no interval.
def test_implausible_residency(tmp_path: Path) -> None:
    trace = Trace()
    rows = [Decided(seq=s, now=s * 10**7, residency=500) for s in (1, 2, 3)]
    add(trace, 0, rows)
    ts, record, lost = trace._records[0][-3]
    at = trace.events["outcome"].fields[2].offset
    assert record[at : at + 8] == (500).to_bytes(8, "little")
    record = record[:at] + (2**63).to_bytes(8, "little") + record[at + 8 :]
    trace._records[0][-3] = ts, record, lost
    recording = made(trace, tmp_path)
    assert recording.integrity == tr.load(tmp_path / "t.dat").integrity
    assert recording.integrity.implausible == 1
    assert recording.table("period")["residency_ns"].to_list() == [500, 2**63, 500]
    rows_made = recording.table("interval")
    assert rows_made["first_seq"].to_list() == [1, 3]
    assert rows_made["flags"][1] & co.GAP and rows_made["busy_ns"][0] == 0


# The clock of the decisions jumps: what lies between is not counted as busy.
@pytest.mark.parametrize("jump", [-(10**8), 2**51])
def test_jumping_clock(tmp_path: Path, jump: int) -> None:
    trace = Trace()
    add(trace, 0, [Decided(seq=1, now=10**9, residency=500)])
    trace.add(0, 2 * 10**9, "decision", seq=2, now_ns=10**9 + jump, index=1, governor=2)
    trace.add(0, 2 * 10**9 + 900, "outcome", seq=2, residency_ns=800, index=1, governor=2)
    rows = made(trace, tmp_path).table("interval").sort("first_seq")
    assert rows["busy_ns"].to_list() == [0, 0]
    assert rows["flags"][1] & co.GAP


def test_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "x"
    refuse_trace(path, "No such file")
    path.write_bytes(b"")
    refuse_trace(path, "is empty")
    path.write_bytes(b"#!/bin/sh\n" * 1000)
    refuse_trace(path, "is not a trace.dat")
    trace = Trace()
    trace.mark(0, 1_000, "hello")
    refuse_trace(trace.write(path), "no idle periods", "trace-cmd record")
    trace = Trace()
    add(trace, 0, [Decided(seq=1, now=10**9, residency=500)])
    trace._records[0].pop(0)
    refuse_trace(trace.write(path), "cpuidle_lab:cil_config")
    trace = Trace()
    add(trace, 0, [Decided(seq=1, now=10**9, residency=500)])
    data = trace.write(path).read_bytes()
    for size in (20, 1000, len(data) - 4096, len(data) - 1):
        path.write_bytes(data[:size])
        refuse_trace(path)


# ---- Bad columns. ----


@pytest.fixture
def columns(tmp_path: Path) -> Path:
    with co.Writer(tmp_path / "c", META) as writer:
        writer.add("interval", interval_rows(10))
    return tmp_path / "c"


def read(path: Path) -> None:
    """Read all there is."""
    recording = co.Recording(path)
    for cpu in recording.cpus:
        for _ in (*recording.intervals(cpu), *recording.periods(cpu)):
            pass


def test_damaged_columns(columns: Path) -> None:
    read(columns)
    part = columns / "interval" / "00000.parquet"
    data = part.read_bytes()
    for broken in (b"", b"PAR1", data[: len(data) // 2], data[:-1], b"x" * 500):
        part.write_bytes(broken)
        refused(lambda: read(columns), str(part), "damaged")
    part.unlink()
    refused(lambda: read(columns), str(part), "missing")
    interval_rows(9).write_parquet(part)
    refused(lambda: read(columns), "9 rows")
    interval_rows(10).drop("flags").write_parquet(part)
    refused(lambda: read(columns), "flags")
    interval_rows(10).cast({"flags": pl.Int64}).write_parquet(part)
    refused(lambda: read(columns), "flags")
    nothing = pl.Series("flags", [None] * 10, dtype=pl.UInt8)
    interval_rows(10).with_columns(nothing).write_parquet(part)
    refused(lambda: read(columns), "flags")


# Replay relies on these.
@pytest.mark.parametrize(
    ("name", "values", "word"),
    [
        ("length_ns", [-1] * 10, "impossible length_ns: -1"),
        ("length_ns", [2**52] * 10, "impossible length_ns"),
        ("start_ns", [*range(9), 2**62], "impossible start_ns"),
        ("start_ns", [*range(9), 0], "runs backwards in start_ns"),
        ("busy_ns", [-1] * 10, "impossible busy_ns: -1"),
        ("timer_ns", [-3 - 2**40] * 10, f"impossible timer_ns: {-3 - 2**40}"),
        ("index", [3] * 10, "idle state 3"),
        ("last_index", [0] * 9 + [254], "idle state 254"),
    ],
)
def test_lying_columns(columns: Path, name: str, values: list[int], word: str) -> None:
    rows = interval_rows(10, 0, **{name: np.array(values)})
    rows.write_parquet(columns / "interval" / "00000.parquet")
    refused(lambda: read(columns), str(columns), word)


def answered(counts: list[int], first: int = 0) -> dict[str, Any]:
    """Return answers, so many for each interval, all of them different."""
    numbers = iter(range(first, first + sum(counts)))
    lists = [[next(numbers) for _ in range(count)] for count in counts]
    return {
        "answers": counts,
        "answer_at_ns": lists,
        **{
            name: [[number - (name == "answer_timer_ns") * 2 for number in some] for some in lists]
            for name in co.ANSWERS
            if name != "answer_at_ns"
        },
    }


# Replay counts the answers of each interval: one too many would be of foreign memory.
@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"answers": [2, 0, 0]}, "number of answer_at_ns"),
        ({"answers": [0, 0, 0]}, "number of answer_at_ns"),
        ({"answer_timer_ns": [[], [], []]}, "number of answer_timer_ns"),
        ({"answer_timer_ns": [[1], [], [2]]}, "number of answer_timer_ns"),
        ({"answer_at_ns": [[None], [], []]}, "number of answer_at_ns"),
        ({"answer_at_ns": [None, [], []]}, "answer_at_ns"),
        ({"answer_at_ns": [[2**62], [], []]}, f"impossible answer_at_ns: {2**62}"),
        ({"answer_timer_ns": [[-3 - 2**40], [], []]}, "impossible answer_timer_ns"),
    ],
)
def test_lying_answers(tmp_path: Path, changes: dict[str, Any], word: str) -> None:
    with co.Writer(tmp_path / "c", META) as writer:
        writer.add("interval", interval_rows(3, **answered([1, 0, 0])))
    read(tmp_path / "c")
    rows = interval_rows(3, **{**answered([1, 0, 0]), **changes})
    rows.write_parquet(tmp_path / "c" / "interval" / "00000.parquet")
    refused(lambda: read(tmp_path / "c"), str(tmp_path / "c"), word)


# In memory the answers of all rows follow each other; parts of it are cut and joined with them.
@given(counts=st.lists(st.integers(0, 3), min_size=1, max_size=12), data=st.data())
def test_answers_in_memory(counts: list[int], data: st.DataObject) -> None:
    frame = interval_rows(len(counts), **answered(counts))
    whole = co.in_memory(frame)
    assert whole["answers"].tolist() == counts
    assert whole["answer_at_ns"].tolist() == list(range(sum(counts)))
    assert [whole[name].dtype for name in co.ANSWERS] == [np.uint64] + [np.int64] * 4
    first = data.draw(st.integers(0, len(counts)))
    end = data.draw(st.integers(first, len(counts)))
    part, same = co.sliced(whole, first, end), co.in_memory(frame[first:end])
    assert part.keys() == same.keys()
    assert all(np.array_equal(part[name], same[name]) for name in same)
    pieces = [co.sliced(whole, 0, first), part, co.sliced(whole, end, len(counts))]
    again = co.joined(pieces)
    assert all(np.array_equal(again[name], whole[name]) for name in whole)


# The reader packs them into bytes; a table without them has none.
@given(counts=st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_packed_answers(counts: list[int]) -> None:
    given = answered(counts)
    packed = [
        b"".join(
            number.to_bytes(8, "little", signed=True)
            for one in zip(*some, strict=True)
            for number in one
        )
        for some in zip(*(given[name] for name in co.ANSWERS), strict=True)
    ]
    plain = interval_rows(len(counts)).drop("answers", *co.ANSWERS)
    found = co.with_answers(plain.with_columns(answers=pl.Series(packed, dtype=pl.Binary)))
    for name, values in given.items():
        assert found[name].to_list() == values, name
    assert co.with_answers(plain)["answers"].to_list() == [0] * len(counts)
    assert co.with_answers(plain)["answer_at_ns"].to_list() == [[] for _ in counts]


# Parts are cut between rows, wherever their answers are.
def test_answers_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cpuidle_lab.recording.columns.writer.PART_ROWS", 4)
    counts = [0, 2, 1, 0, 3, 0, 0, 1, 5, 0]
    with co.Writer(tmp_path / "c", META) as writer:
        writer.add("interval", interval_rows(10, **answered(counts)))
    chunks = list(co.Recording(tmp_path / "c").intervals(0))
    assert [chunk["answers"].tolist() for chunk in chunks] == [counts[:4], counts[4:8], counts[8:]]
    assert [chunk["answer_at_ns"].tolist() for chunk in chunks] == [
        [0, 1, 2], [3, 4, 5, 6], [7, 8, 9, 10, 11],
    ]  # fmt: skip


def test_time_runs_backwards_between_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cpuidle_lab.recording.columns.writer.PART_ROWS", 10)
    with co.Writer(tmp_path / "c", META) as writer:
        writer.add("interval", interval_rows(10))
        writer.add("interval", interval_rows(10))
    refused(lambda: read(tmp_path / "c"), "runs backwards")


def test_bad_meta(columns: Path) -> None:
    meta = columns / "meta.json"
    text = meta.read_text()
    for broken in ("", "[]", "{", "{}", text[: len(text) // 2]):
        meta.write_text(broken)
        refused(lambda: co.Recording(columns), str(columns))
    good = json.loads(text)

    def lying(*words: str, **changes: object) -> None:
        meta.write_text(json.dumps({**good, **changes}))
        refused(lambda: co.Recording(columns), str(columns), *words)

    lying("format 99", format=99)
    lying("format 2", "reads 3", "make it again from the trace", format=2)
    lying("damaged", parts=None)
    lying("damaged", parts={"interval": [[0]]})
    lying("damaged", cpus="x")
    lying("damaged", integrity={"gaps": "many"})
    lying("machine", machines={"0": {"names": ["a"]}})
    lying("11 idle states", machines={"0": co.describe(replace(MACHINE, names=("x",) * 11))})
    lying(
        "0 idle states",
        machines={"0": {name: [] for name in co.describe(MACHINE)} | {"tick_ns": 1}},
    )
    lying("not sorted", machines={"0": {**co.describe(MACHINE), "target_residency_ns": [0, 9, 3]}})
    meta.unlink()
    refused(lambda: co.Recording(columns), "no Parquet directory")
    refused(lambda: co.Recording(columns / "absent"), "no Parquet directory")


# A directory and a trace open alike; nothing of the second one's columns stays.
def test_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    trace = Trace()
    add(trace, 0, [Decided(seq=1, now=10**9, residency=500)])
    recording = made(trace, tmp_path)
    expected = recording.table("interval")
    for path in (tmp_path / "t.dat", tmp_path / "columns"):
        with co.opened(path) as found:
            assert found.table("interval").equals(expected)
    assert not names_in(tmp_path / "tmp")
    with pytest.raises(UserError), co.opened(tmp_path / "nothing"):
        pass
    assert not names_in(tmp_path / "tmp")


# ---- The command, memory, speed. ----


def test_a_recording_of_the_module_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = synthetic.Session(cpus=1)
    session.phase("wteo", "bursts", 5_000_000)
    path = session.trace.write(tmp_path / "trace.dat")
    runs: list[Path] = []
    find = recording_reader.native_reader

    def counted() -> Path:
        runs.append(path)
        return find()

    monkeypatch.setattr(recording_reader, "native_reader", counted)
    co.write(path, tmp_path / "columns")
    assert len(runs) == 1


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = Trace()
    add(trace, 0, [Decided(seq=s, now=s * 10**6, residency=500) for s in (1, 2, 4)])
    path, out = trace.write(tmp_path / "t.dat"), tmp_path / "c"
    assert cli.main(["export", str(path), "--parquet", str(out)]) == 0
    text = capsys.readouterr().out
    assert "1 decisions in 1 gaps" in text and "period" in text and str(out) in text
    assert cli.main(["export", str(path), "--parquet", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"]["period"] == 3 and found["integrity"]["gaps"] == 1
    assert found["integrity"]["events"] == 7
    assert cli.main(["export", str(path), "--parquet", str(tmp_path)]) == 2
    assert "holds c/config" in capsys.readouterr().err
    assert cli.main(["export", str(path), "--parquet", str(out), "--force"]) == 2
    assert "--force goes with --perfetto" in capsys.readouterr().err
    assert cli.main(["export", str(tmp_path / "no"), "--parquet", str(tmp_path / "d")]) == 1
    assert not (tmp_path / "d").exists()


# Ten times as many events take no more memory.
@pytest.mark.full
def test_memory_is_bounded(tmp_path: Path) -> None:
    session = synthetic.Session(cpus=1)
    session.phase("menu_ng", "hackbench", 100_000_000)
    peaks = []
    for events in (300_000, 3_000_000):
        path = tmp_path / f"{events}.dat"
        written = session.trace.write_large(path, events)
        assert reader.events_of(path) == written >= events
        peaks.append(max(reader.measured(path)[3] for _ in range(3)))
        code = (
            "import resource, sys; from pathlib import Path;"
            "from cpuidle_lab.recording import columns;"
            "columns.write(Path(sys.argv[1]), Path(sys.argv[2]));"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(path), str(tmp_path / "c")],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(Path(co.__file__).parents[3])},
        )
        peaks.append(int(done.stdout))
    reader_small, writer_small, reader_large, writer_large = peaks
    assert reader_large < reader_small + 4_000
    # A part, and what polars needs to write it.
    assert writer_large < writer_small + 150_000
    recording = co.Recording(tmp_path / "c")
    assert recording.integrity.events == written and recording.integrity.complete
    assert recording.rows("period") > 500_000
