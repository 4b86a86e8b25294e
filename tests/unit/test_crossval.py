# SPDX-License-Identifier: GPL-2.0
"""Cross-validation: what is compared with what, how it is judged, what is refused.

The recordings here are made by toy governors under the names of real ones, so predictions are
wrong on purpose; tests/lab/test_crossval.py has real ones.
"""

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.crossval import misses, moved, own, pairs, part_tables, parts, plan, targets, trust
from cpuidle_lab.lab import keys as keys_of_runs
from cpuidle_lab.recording import columns
from cpuidle_lab.recording.phases import Phase
from cpuidle_lab.replay.engine import Run
from tests.proofs.crossval import assumptions
from tests.unit import test_former
from tests.unit.crossvalidating import BOTH, MS, pair, record
from tests.unit.kernel_events import Kernel
from tests.unit.synthetic import BASES, Session


def read(path: Path) -> list[parts.Part]:
    with columns.opened(path) as recording:
        return parts.parts(recording, path)


# ---- Phases. ----


def test_phases_are_recordings_of_their_own(tmp_path: Path) -> None:
    """Each phase has its governor, its workload, and intervals that lie in it."""
    path = record(tmp_path / "a.dat", *BOTH, ("teo_ng", "idle"))
    found = read(path)
    labels = [part.recorder.label.partition(":")[0] for part in found]
    assert list(zip(labels, (part.workload for part in found), strict=True)) == [
        *BOTH,
        ("teo_ng", "idle"),
    ]
    with columns.opened(path) as recording:
        total = recording.rows("interval")
    assert 0 < sum(part.count for part in found) <= total
    for part in found:
        for cpu in part.cpus:
            intervals, periods = part.kept[cpu]
            assert int(intervals["periods"].sum()) == len(periods["now_ns"])


@pytest.mark.parametrize("cached_bytes", [1, 1 << 20])
def test_phases_are_the_same_held_and_read_part_by_part(
    cached_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of a recording end within phases, and a phase within a part."""
    monkeypatch.setattr(part_tables, "CACHED_BYTES", cached_bytes)
    monkeypatch.setattr("cpuidle_lab.recording.columns.writer.PART_ROWS", 300)
    path = record(tmp_path / "a.dat", *BOTH, *BOTH)
    with columns.opened(path) as recording:
        assert len(recording.parts["period"]) > 2 * len(recording.cpus)
        pairs = list(zip(parts.parts(recording, path), parts.whole(recording, path), strict=True))
        assert len(pairs) == 4
        for held, streamed in pairs:
            assert (held.count, held.judged) == (streamed.count, streamed.judged)
            for cpu in held.cpus:
                assert held.last_seq(cpu) == streamed.last_seq(cpu)
                for kept, read_again in zip(
                    held.kept[cpu],
                    (streamed.intervals(cpu), streamed.periods(cpu)),
                    strict=True,
                ):
                    again = columns.joined(list(read_again))
                    assert len(again) > 10
                    assert all(np.array_equal(kept[name], again[name]) for name in again)


def test_tunables_name_the_recorder(tmp_path: Path) -> None:
    """The synthetic recordings say learning_rate=50 and half_life_ms=0, which are not defaults."""
    _, wteo = read(record(tmp_path / "a.dat", *BOTH))
    assert wteo.recorder.label == "wteo:learning_rate=50:half_life_ms=0"
    assert dict(wteo.recorder.settings) == {"learning_rate": "50", "half_life_ms": "0"}


def test_a_program_in_bpf_is_replayed_as_its_policy(tmp_path: Path) -> None:
    path = record(tmp_path / "a.dat", ("bpf", "bursts"))
    (part,) = read(path)
    assert part.recorder.label == "wteo:learning_rate=50:half_life_ms=0"
    with columns.opened(path) as recording:
        (found,), why = trust.trust(recording, path)
    assert not why
    assert found.recorder == part.recorder.label
    assert 0 < found.intervals <= part.count


def test_a_program_of_other_sources_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BASES, "bpf", "bpf:lazy@0123456789abcdef")
    with pytest.raises(UserError, match="unknown governor 'lazy'; there are"):
        read(record(tmp_path / "a.dat", ("bpf", "bursts")))


def test_a_program_that_was_taken_off_in_a_phase_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session()
    session.phase("bpf", "bursts", 100 * MS)
    monkeypatch.setitem(BASES, "bpf", "bpf:teo_ng (wteo@0123456789abcdef took too long)")
    session.phase("bpf", "bursts", 100 * MS)
    path = session.trace.write(tmp_path / "a.dat")
    assert len({part.recorder.governor.name for part in read(path)}) == 2
    monkeypatch.setattr(parts, "phases_of", lambda *_: [Phase("bpf", "bursts", 0, 2**62)])
    with pytest.raises(UserError, match="the governor changed while bursts ran"):
        read(path)


def test_without_the_module_each_phase_begins_afresh(tmp_path: Path) -> None:
    """Marks tell the governors, and no event what one has learned."""
    kernel = Kernel()
    for name in ("teo_ng", "wteo", "wteo"):
        kernel.add(1000, "print", f"phase governor={name} workload=calls")
        for _ in range(20):
            kernel.idle(1, 300_000, sleep=MS, delta=MS, stop=False)
    path = kernel.write(tmp_path / "a.dat")
    found = read(path)
    assert [part.recorder.label for part in found] == ["teo_ng", "wteo", "wteo"]
    assert all(part.count > 0 and not [*part.before[0].chunks()] for part in found)
    with columns.opened(path) as recording, pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "phases_of", lambda *_: [])
        with pytest.raises(UserError, match="several governors"):
            list(parts.whole(recording, path))


def test_replay_goes_on_where_a_phase_has_the_state_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording with one state and many phases: each interval is played once, with one result."""
    path = test_former.recorded(tmp_path / "a.dat")
    with columns.opened(path) as recording:
        times = columns.joined(list(recording.checked("period", 0)))["ts"].tolist()
    ends = times[:: len(times) // 20]
    phases = [
        Phase("wteo_rfc", f"load {n}", *span) for n, span in enumerate(itertools.pairwise(ends))
    ]
    monkeypatch.setattr(parts, "phases_of", lambda *_: phases)
    found = read(path)
    assert len(found) >= 20
    wanted = [own.play(part, part, restore=True) for part in found]
    played: list[int] = []
    plain = Run.play

    def counting(run: Run, chunk: Any, choices: bool) -> Any:
        played.append(len(chunk["flags"]))
        return plain(run, chunk, choices)

    with monkeypatch.context() as patch, own.Replay() as replay:
        patch.setattr(Run, "play", counting)
        once = [replay.play(part) for part in found]
    assert [one.cost_pj for one in once] == [one.cost_pj for one in wanted]
    assert [list(one.reasons) for one in once] == [list(one.reasons) for one in wanted]
    assert sum(played) <= len(times)


def test_a_recording_without_phases_is_refused(tmp_path: Path) -> None:
    path = record(tmp_path / "a.dat", ("teo_ng", "bursts"))
    with columns.opened(path) as recording, pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "phases_of", lambda *_: [])
        with pytest.raises(UserError, match="has no phases"):
            parts.parts(recording, path)
        # All of it has one governor, so its recorder can be replayed all the same.
        (whole,) = parts.whole(recording, path)
        assert whole.recorder.label.startswith("teo_ng")


def test_a_recording_whose_phases_have_no_decisions_is_refused(tmp_path: Path) -> None:
    """Else its check would say nothing of energy, and would pass."""
    path = record(tmp_path / "a.dat", ("teo_ng", "bursts"))
    with columns.opened(path) as recording, pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "phases_of", lambda *_: [Phase("teo_ng", "late", 2**61, 2**62)])
        for read_all in (parts.parts, parts.whole):
            with pytest.raises(UserError, match="has no phases"):
                list(read_all(recording, path))


def test_columns_that_contradict_themselves_are_refused(tmp_path: Path) -> None:
    """Replay writes into a table by the idle state, so a phase must name none that is missing."""
    columns.write(record(tmp_path / "a.dat", BOTH[0]), tmp_path / "a")
    table = tmp_path / "a/period/00000.parquet"
    wrong = pl.read_parquet(table).with_columns(index=pl.lit(250, pl.UInt8))
    wrong.write_parquet(table)
    with pytest.raises(UserError, match="'period' of CPU 0 names idle state 250"):
        read(tmp_path / "a")


def test_columns_that_do_not_tell_their_governor_are_refused(tmp_path: Path) -> None:
    columns.write(record(tmp_path / "a.dat", BOTH[0]), tmp_path / "a")
    table = tmp_path / "a/config/00000.parquet"
    pl.read_parquet(table).with_columns(seq=pl.lit(2**40, pl.UInt64)).write_parquet(table)
    with pytest.raises(UserError, match="no config event tells which governor decided on CPU 0"):
        read(tmp_path / "a")


# ---- Pairs. ----


def test_every_governor_is_replayed_on_every_recording(tmp_path: Path) -> None:
    found = read(record(tmp_path / "a.dat", *BOTH))
    done: list[int] = []
    judged = pairs.pairs(found, done.append)
    assert len(judged) == len(done) == pairs.count(found) == 4
    assert sum(one.own for one in judged) == 2
    for one in judged:
        assert one.real[0].regret >= 0
        assert one.predicted[0].regret >= 0
        assert sum(one.real[0].residency) == pytest.approx(100)


def test_the_fact_does_not_depend_on_the_prediction(tmp_path: Path) -> None:
    """All pairs with one replayed governor have the same fact: its own recording."""
    judged = pairs.pairs(read(record(tmp_path / "a.dat", *BOTH)))
    for label in {one.replayed for one in judged}:
        assert len({one.real for one in judged if one.replayed == label}) == 1


def test_seeds_are_averaged() -> None:
    one = pair("a", "b", [10.0, 12.0], [9.0, 11.0])
    assert one.error == pytest.approx(1.0)
    assert one.spread == pytest.approx(2**0.5)


# ---- Intervals that moved. ----


def places(**shares: float) -> Any:
    """Return shares in % of the first steps that end by timer (t0) and other causes (o0)."""
    found = np.zeros((moved.STEPS, len(moved.ENDS)))
    for name, share in shares.items():
        found[int(name[1:]), {"t": 0, "o": 2}[name[0]]] = share
    return found


def test_equal_intervals_have_not_moved() -> None:
    same = places(t3=50, o4=50)
    found = moved.moved([same, same], [same, same])
    assert (found.percent, found.chance) == (0, 0)


def test_the_distance_is_the_share_that_changes_its_place() -> None:
    """A fifth of the intervals is longer in the other recording; between seeds a tenth moves."""
    mine = places(t32=70, t40=30)
    theirs, other = places(t32=50, t40=40, o40=10), places(t32=50, t40=30, o40=20)
    found = moved.moved([mine, mine], [theirs, other])
    assert found.percent == pytest.approx(20)
    assert found.chance == pytest.approx(10)
    assert found.most == "+20 % 16-17 us, timer"
    assert moved.moved([theirs], [mine]).chance == 0


def test_a_recording_that_was_waited_for_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one process waits for another's lock, the other makes it."""
    boot = plan.Boot("skx", "6.12", 1, (("idle", 1),))
    monkeypatch.setattr(plan, "key_of", lambda _: "0")
    made = tmp_path / f"{boot.name}-0.trace.dat"

    @contextmanager
    def locked(_: Path) -> Iterator[None]:
        made.touch()
        yield

    monkeypatch.setattr(plan, "locked", locked)
    monkeypatch.setattr(plan, "run_lab", None)
    assert boot.record(tmp_path) == made


def test_a_recording_depends_on_all_of_its_run() -> None:
    """Also on what no field of a run says: how the machine is started."""
    run = plan.Boot("skx", "6.12", 1, (("idle", 1),)).run()
    keys = {keys_of_runs.key_of(run)}
    changed: list[dict[str, Any]] = [
        {"seed": 2}, {"turn_us": 7}, {"memory_mib": 512}, {"changes": {"Kbuild": ""}},
    ]  # fmt: skip
    keys |= {keys_of_runs.key_of(replace(run, **one)) for one in changed}
    assert len(keys) == 1 + len(changed)
    assert keys_of_runs.key_of(replace(run, time_limit_s=1)) in keys


def test_intervals_are_counted_by_length_and_end(tmp_path: Path) -> None:
    for part in read(record(tmp_path / "a.dat", *BOTH)):
        found = moved.shares(part)
        assert found.sum() == pytest.approx(100)
        chunks = [chunk for cpu in part.cpus for chunk in part.intervals(cpu)]
        flags, told = (np.concatenate([c[name] for c in chunks]) for name in ("flags", "length_ns"))
        whole = told[(told > 0) & (flags & columns.CUT == 0)]
        octaves = Counter(max(0, int(length // 1000).bit_length() - 1) for length in whole)
        for octave in range(moved.STEPS // 8):
            share = found[8 * octave : 8 * octave + 8].sum()
            assert share == pytest.approx(100 * octaves[octave] / len(whole))

        timers = np.count_nonzero(flags[(told > 0) & (flags & columns.CUT == 0)] & columns.TIMER)
        assert found[:, 0].sum() == pytest.approx(100 * timers / len(whole))


def test_steps_may_begin_at_other_lengths() -> None:
    def found(length_us: float, shift: float) -> moved.Shares:
        chunk = {"length_ns": np.array([1000 * length_us]), "flags": np.zeros(1, dtype=np.uint8)}
        part: Any = SimpleNamespace(cpus=[0], intervals=lambda *_: [chunk])
        return moved.shares(part, shift)

    # 16 us is the edge of two steps of the usual grid alone.
    for shift, percent in ((0, 100), (0.25, 0), (0.5, 0), (0.75, 0)):
        apart = moved.moved([found(15.99, shift)], [found(16.01, shift)])
        assert apart.percent == percent


@pytest.mark.parametrize(
    ("error", "real", "missed"),
    [(0.29, 5.0, False), (0.31, 5.0, True), (0.9, 100.0, False), (1.1, 100.0, True)],
)
def test_own_recordings(error: float, real: float, missed: bool) -> None:
    """Within 0.3 points or 1 % of the figure, whichever is larger; below as well as above."""
    for sign in (1, -1):
        assert targets.is_missed(pair("a", "a", [real + sign * error], [real])) is missed


def test_an_error_within_the_spread_is_none() -> None:
    inside = pair("a", "b", [13.0, 13.0], [5.0, 15.0])
    assert inside.error == pytest.approx(3.0)
    assert not targets.is_missed(inside)
    assert targets.is_missed(pair("a", "b", [13.0, 13.0], [9.9, 10.1]))
    # A governor's own recording is the same in both, so its seeds explain nothing.
    assert targets.is_missed(pair("a", "a", [13.0, 13.0], [5.0, 15.0]))


def test_errors_of_two_seeds_do_not_make_up_for_each_other() -> None:
    one = pair("a", "a", [15.0, 5.0, 10.0], [10.0, 10.0, 10.0])
    assert one.error == pytest.approx(0)
    assert one.size == pytest.approx(10 / 3)
    assert targets.is_missed(one)
    (own, *_) = targets.judge([one, pair("b", "b", [1.0] * 3, [1.0] * 3)])
    assert "1 of 2 (50.0 %); mean error 1.67, worst 3.33" in own.figures


def test_what_is_within_the_spread_alone_is_told() -> None:
    cross = [pair("a", "b", [13.0, 13.0], [5.0, 15.0]), pair("b", "a", [1.0], [1.0])]
    within = targets.judge(cross)[2]
    assert "2 of 2 (100.0 %)" in within.figures
    assert "1 of 2 (50.0 %)" in within.figures


def test_what_is_aborted_cut_or_overslept_has_no_regret() -> None:
    flags = np.array([0, columns.CUT, columns.OVERSLEPT, columns.TIMER], np.uint8)
    told = {"length_ns": np.array([0, 5, 5, 5]), "flags": flags}
    assert parts.has_regret(told).tolist() == [False, False, False, True]


def test_the_right_one_must_be_better() -> None:
    """Real: b has 4 points less. On a's recording it is predicted to have less, or more."""
    own = [pair("a", "a", [10.0], [10.0]), pair("b", "b", [6.0], [6.0])]
    right, wrong = pair("a", "b", [9.0], [6.0]), pair("a", "b", [10.5], [6.0])
    assert [d.right for d in targets.differences([*own, right])] == [True]
    assert [d.right for d in targets.differences([*own, wrong])] == [False]
    small = [pair("a", "a", [10.0], [10.0]), pair("b", "b", [9.5], [9.5])]
    assert targets.differences([*small, pair("a", "b", [12.0], [9.5])]) == []


def test_every_target_can_be_missed() -> None:
    good = [pair("a", "a", [10.0], [10.0]), pair("b", "b", [6.0], [6.0])]
    assert targets.held(targets.judge([*good, pair("a", "b", [6.1], [6.0])]))
    bad = [pair("a", "a", [11.0], [10.0], late=4 * 10**6), pair("b", "b", [6.0], [6.0])]
    verdicts = targets.judge([*bad, pair("a", "b", [14.0], [6.0], p99="C1")])
    assert [one.state for one in verdicts] == ["MISSED"] * 6


def test_machines_and_kernels_are_told_apart() -> None:
    old = [
        pair("teo_ng", "teo_ng", [10.0], [10.0]),
        pair("wteo", "wteo", [4.0], [5.0], late=10**6),
        pair("teo_ng", "wteo", [8.0], [5.0]),
        pair("wteo", "teo_ng", [11.0], [10.0]),
    ]
    assert not targets.by_machine(old).rows
    new = [pair(p.recorded, p.replayed, [1.0], [1.0], kernel="7.2.12+deb14") for p in old]
    first, second = targets.by_machine([*old, *new]).rows
    # By the recordings of each of both, the other one is rightly the better or worse one.
    assert first == ["C6 133 us", "6.12", 2, 1, 0.5, 2.0, 50.0, 100.0, pytest.approx(0.05)]
    assert second == ["C6 133 us", "7.2.12+deb14", 2, 0, 0.0, 0.0, 100.0, None, 0.0]


def test_overslept_time_is_that_of_a_workload() -> None:
    """Of ten seconds 8 ms: 0.08 %. Of one of the two workloads 16 ms: 0.16 %."""
    calm = [pair("a", "a", [10.0] * 5, [10.0] * 5), pair("b", "b", [6.0] * 5, [6.0] * 5)]
    late = pair("c", "c", [6.0] * 5, [6.0] * 5, late=16 * 10**5)
    assert targets.overslept_share([*calm[:1], late]) == pytest.approx(0.0008)
    assert targets.held(targets.judge([*calm[:1], late]))
    alone = pair("c", "c", [6.0] * 5, [6.0] * 5, late=16 * 10**5, workload="calls")
    verdict = targets.judge([*calm, alone])[-1]
    assert verdict.state == "MISSED"
    assert "0.160 % at most (calls)" in verdict.figures


def test_intervals_make_the_error_of_a_governor_on_its_own_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them together make all of it. Toy governors recorded, so there is one."""
    found = read(record(tmp_path / "a.dat", *BOTH))
    judged = pairs.pairs(found)
    missed = [one for one in judged if one.own and targets.is_missed(one)]
    assert missed
    monkeypatch.setattr(misses, "SHOWN", 10**6)
    rows = misses.intervals(found, judged).rows
    for one in missed:
        points = [float(str(row[-1])) for row in rows if row[2] == one.recorded]
        assert sum(points) == pytest.approx(one.error)
        assert abs(points[0]) == max(map(abs, points))


# ---- The command. ----


def test_results_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = record(tmp_path / "a.dat", *BOTH)
    out = tmp_path / "out"
    code = main(["crossval", str(path), "-o", str(out), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert code == 1  # toy governors are not predicted
    assert len(told["pairs"]) == 4
    assert json.loads((out / "crossval.json").read_text()) == told
    assert (out / "crossval.svg").read_text().startswith("<svg")
    assert "| workload |" in (out / "crossval.md").read_text()


def test_tables_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = record(tmp_path / "a.dat", *BOTH)
    assert main(["crossval", str(path)]) == 1
    shown = capsys.readouterr().out
    assert "bursts" in shown
    assert "on its own recordings within 0.3 points" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give recordings, or --record"),
        (["x.dat", "--record"], "give recordings, or --record"),
        (["x.dat", "--seeds", "2"], "go with --record"),
        (["--record", "--seeds", "0"], "--seeds must be above 0"),
        (["--record", "--only", "nonsense"], "unknown workload 'nonsense'"),
    ],
)
def test_wrong_usage(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["crossval", *arguments]) == 2
    assert message in capsys.readouterr().err


def refused(capsys: pytest.CaptureFixture[str], out: Path, *paths: Path) -> str:
    """Return the sentence with which recordings are refused; what is there must stay."""
    out.mkdir(exist_ok=True)
    (out / "crossval.json").write_text("kept")
    assert main(["crossval", *map(str, paths), "-o", str(out)]) == 1
    assert (out / "crossval.json").read_text() == "kept"
    error = capsys.readouterr().err.strip()
    assert error.count("\n") == 0
    return error


def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    alone = record(tmp_path / "alone.dat", ("teo_ng", "bursts"))
    assert "under teo_ng" in refused(capsys, out, alone)
    other = record(tmp_path / "other.dat", ("wteo", "hackbench"))
    assert "alone" in refused(capsys, out, alone, other)
    apart = record(tmp_path / "apart.dat", ("wteo", "bursts"))
    assert "record them in one" in refused(capsys, out, alone, apart)
    twice = record(tmp_path / "twice.dat", *BOTH, ("teo_ng", "bursts"))
    assert "twice" in refused(capsys, out, twice)
    short = record(tmp_path / "short.dat", ("teo_ng", "idle"), ("wteo", "idle"))
    assert "below 200" in refused(capsys, out, short)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "7.2.0-test"}, "of the same workload, machine and kernel"),
        ({"machines": {"exit_latency_ns": [0, 1, 2, 266_000]}}, "machine and kernel"),
        ({"integrity": {"lost_known": 1}}, "events were lost"),
    ],
)
def test_the_command_refuses_what_differs_or_is_incomplete(
    change: dict[str, Any],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two phases of one session each, as Parquet directories; the second one is changed."""
    folders = []
    for number, phase in enumerate(BOTH):
        folders.append(tmp_path / str(number))
        trace = record(tmp_path / f"{number}.dat", phase)
        assert main(["export", str(trace), "--parquet", str(folders[-1])]) == 0
    capsys.readouterr()
    meta = json.loads((folders[1] / "meta.json").read_text())
    for key, value in change.items():
        if isinstance(value, str):
            meta[key] = value
            continue
        found = meta[key].values() if key == "machines" else [meta[key]]
        for one in found:
            one.update(value)
    (folders[1] / "meta.json").write_text(json.dumps(meta))
    assert message in refused(capsys, tmp_path / "out", *folders)


def test_each_changed_assumption_fits_the_sources() -> None:
    for change in assumptions.CHANGES:
        assert (TOP / change.file).read_text().count(change.old) == 1, change.name
