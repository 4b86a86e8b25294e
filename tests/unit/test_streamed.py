# SPDX-License-Identifier: GPL-2.0
"""A recording that is read part by part comes to the figures of the whole one."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from cpuidle_lab.figures import frames
from cpuidle_lab.figures.analysis import Analysis
from cpuidle_lab.recording import streamed, trace
from cpuidle_lab.recording.formats.writer import Event as SomeEvent
from cpuidle_lab.recording.reader import Chunk, Ending, Schema, read_chunks, watched
from cpuidle_lab.recording.stock import Context
from cpuidle_lab.recording.streamed import SMALL, Streamed, Whole
from cpuidle_lab.recording.trace import Trace
from cpuidle_lab.states.table import StateTable
from tests.unit import synthetic
from tests.unit.kernel_events import KERNEL, MS, Kernel
from tests.unit.synthetic import Session
from tests.unit.tracedat import Trace as Written

EXIT = 2**32 - 1

# The reader's rounds have 65,536 rows; those of the tests so many, so that few events do.
ROUNDS = 7
PART_BYTES, MOST_BYTES = 20_000, 1_000_000


def in_rounds(
    path: Path, tables: Iterable[str], context: Context | None
) -> Iterator[Schema | Chunk | Ending]:
    """Yield the chunks of each CPU in rounds; rows that the reader makes come one round later."""
    whole: dict[int, list[Chunk]] = {}
    for piece in read_chunks(path, tables, context):
        if isinstance(piece, Chunk):
            whole.setdefault(int(piece.frame["cpu"][0]), []).append(piece)
            continue
        for chunks in whole.values():
            first = min(int(str(one.frame["ts"].min())) for one in chunks)
            step = (max(int(str(one.frame["ts"].max())) for one in chunks) - first) // ROUNDS + 1
            for n in range(ROUNDS + 1):
                for one in chunks:
                    late = one.table in ("period", "interval", "idle")
                    at = (pl.col("ts").cast(pl.Int64) - first) // step + late
                    if (frame := one.frame.filter(at == n)).height:
                        yield Chunk(one.table, frame)
        whole = {}
        yield piece


@pytest.fixture(scope="module", params=["phases", "no phases", "cpu_idle", "demo"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("streamed") / "trace.dat"
    if request.param == "cpu_idle":
        written = Written()
        for n in range(3000):
            written.add(0, 10_000 * n + 1, "cpu_idle", state=n % 3, cpu_id=0)
            written.add(0, 10_000 * n + 7 * (n % 900) + 200, "cpu_idle", state=EXIT, cpu_id=0)
        return written.write(target)
    if request.param == "demo":  # the kernel's governor, too
        return synthetic.demo(target, 8_000_000)
    session = Session(cpus=2)
    for governor, workload in (("wteo", "hackbench"), ("menu_ng", "bursts")):
        session.phase(governor, workload, 60_000_000, marked=request.param == "phases")
    return session.trace.write(target)


@pytest.fixture(scope="module")
def whole(path: Path) -> Trace:
    return trace.load(path)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "PART_BYTES", PART_BYTES)
    monkeypatch.setattr(streamed, "read_chunks", in_rounds)


def opened(path: Path) -> Streamed:
    return Streamed(path, None, lambda _: None)


def test_a_round_of_the_reader_has_all_events_up_to_a_moment(tmp_path: Path) -> None:
    session = Session(cpus=1)
    session.phase("wteo", "hackbench", 50_000_000)
    session.trace.write_large(tmp_path / "trace.dat", 200_000)
    last, round_ns, seen_ns, rounds = -1, 0, 0, 1
    order: dict[str, int] = {}
    shares: list[int] = []

    @contextmanager
    def meter(title: str, total: int) -> Iterator[Callable[[int], None]]:
        assert (title, total) == ("Reading", 1000)
        yield shares.append

    with watched(meter, "Reading", 1):
        for piece in read_chunks(tmp_path / "trace.dat"):
            if isinstance(piece, Schema):
                order = {name: number for number, (name, _) in piece.tables.items()}
            elif isinstance(piece, Chunk):
                if order[piece.table] <= last:
                    round_ns, rounds = seen_ns, rounds + 1
                last = order[piece.table]
                assert int(str(piece.frame["ts"].min())) >= round_ns
                seen_ns = max(seen_ns, int(str(piece.frame["ts"].max())))
    assert rounds >= 2
    # The share that was read is told in each round, and at the end all of it.
    assert len(shares) >= 3 and min(shares[:2]) > 0 and sum(shares) == 1000


def test_parts_are_the_whole(path: Path, whole: Trace) -> None:
    source = opened(path)
    parts = list(source.parts())
    assert len(parts) > len({*whole.tables["cpu_idle"]["cpu"]})
    assert source.facts.integrity == whole.integrity
    assert source.facts.state_tables == whole.state_tables
    assert source.last_ns == Whole(whole, lambda _: None).last_ns
    for name in whole.tables.keys() - {*SMALL, "decision", "outcome"}:
        rows = pl.concat([part.tables[name] for part in parts])
        assert rows.equals(whole.tables[name]), name
    for part in parts:
        large = {name: frame for name, frame in part.tables.items() if name not in SMALL}
        assert sum(int(frame.estimated_size()) for frame in large.values()) < MOST_BYTES


def test_figures_are_those_of_the_whole(path: Path, whole: Trace) -> None:
    found = Analysis(lambda look: Streamed(path, None, look)).judged()
    expected = Analysis(lambda look: Whole(whole, look)).judged()
    assert [one.governor for one in found] == [one.governor for one in expected]
    for one, other in zip(found, expected, strict=True):
        known = {name: value for name, value in other.values.items() if value is not None}
        assert {name for name, value in one.values.items() if value is not None} == known.keys()
        assert {name: one.values[name] for name in known} == pytest.approx(known, rel=1e-9)
        states = len(one.entries)
        assert one.pictures and other.pictures
        assert one.pictures.main_states(states) == other.pictures.main_states(states)
        assert one.pictures.rows_over_time(states) == other.pictures.rows_over_time(states)
        for name in ("entries", "reasons", "wakers", "chosen_ideal", "shares", "notes", "broken"):
            assert getattr(one, name) == getattr(other, name), name


def check_frames(path: Path) -> None:
    expected = frames.frames_of(path)
    parts = list(frames.frames_by_part(path))
    assert len(parts) > 2
    for name in ("decisions", "intervals", "idle"):
        rows = pl.concat([getattr(part, name) for part in parts])
        assert_frame_equal(rows, getattr(expected, name), check_exact=True)
    for part in parts:
        assert_frame_equal(part.states, expected.states)


def test_frames_of_parts_are_those_of_the_whole(path: Path) -> None:
    check_frames(path)


def test_an_interval_may_be_longer_than_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.unit.test_streamed.ROUNDS", 40)
    kernel = Kernel()
    for _ in range(3):
        kernel.idle(2, MS, sleep=17 * MS, delta=4 * MS)
        for _ in range(1500):
            kernel.idle(1, 3 * MS, sleep=20 * MS, delta=3 * MS, stop=False, tick=True, left=False)
    check_frames(kernel.write(tmp_path / "trace.dat"))


def test_pictures_have_all_periods_of_a_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CPUs of one table come before those of another, whatever their numbers are."""
    monkeypatch.setattr("tests.unit.test_streamed.ROUNDS", 12)
    states = "POLL:0:0:4000,C1:2:2:1500,C6:133:600:100"
    tables = (states, states.replace("133:600", "99:500"), states)
    lines = [f"stock machine cpus={n} tick_ns=4000000 states={one}" for n, one in enumerate(tables)]
    kernel = Kernel((*lines, KERNEL))
    for cpu, count in ((0, 20), (1, 20), (2, 3000)):
        step = 60 * MS // count
        for ts in range(kernel.now, kernel.now + 60 * MS, step):
            kernel.events += [
                SomeEvent(cpu, ts, "cpu_idle", {"state": 1, "cpu_id": cpu}),
                SomeEvent(cpu, ts + step // 2, "cpu_idle", {"state": EXIT, "cpu_id": cpu}),
            ]
    path = kernel.write(tmp_path / "trace.dat")
    (group,) = Analysis(lambda look: Streamed(path, None, look)).judged()
    assert group.pictures
    best = group.pictures._idle.best()
    assert (best.cpu, best.rows) == (2, 3000)


# Each row is read once, so the time does not grow with the square of the CPUs.
def test_idle_states_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def counted(path: Path, config: pl.DataFrame, *rest: Any) -> dict[int, StateTable]:
        read.append(config.height)
        return plain(path, config, *rest)

    plain = trace.state_tables_of
    monkeypatch.setattr(trace, "state_tables_of", counted)
    session = Session(cpus=4)
    session.phase("wteo", "bursts", 2_000_000)
    facts = Streamed(session.trace.write(tmp_path / "trace.dat"), None, lambda _: None).facts
    assert len(facts.state_tables) == 4
    assert sum(read) == facts.tables["config"].height
