# SPDX-License-Identifier: GPL-2.0
"""Recordings made both ways: the judge of `make stock`, and the memory that reading one takes."""

import resource
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.crossval import pairs as crossval
from cpuidle_lab.crossval import parts
from cpuidle_lab.crossval.parts import Part
from cpuidle_lab.host.marks import PROBES
from cpuidle_lab.recording import reader
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.columns import CUT, sliced
from cpuidle_lab.recording.native import compile_reader
from cpuidle_lab.recording.state_tables import find
from cpuidle_lab.states.linux_source import NEWEST
from tests.proofs.stock import costs, predict, run
from tests.unit.synthetic import Session
from tests.unit.tracedat import Event, Field

STATES = "POLL:0:0:1000,C1:2:2:450,C1E:10:20:300,C6:133:600:60"

# Memory that the reader may allocate; it maps a page of the file for each CPU.
MEMORY = 32 << 20


class BothWays(Session):
    """A session that has probes, too, and the marks of both ways.

    Attributes:
        probed: the probes tell of this phase.
    """

    def __init__(self) -> None:
        super().__init__(cpus=1)
        self.probed = True
        for number, (system, name, kind, *names) in enumerate(
            (
                ("cil_p1", "cil_sleep_length", "s64", "ret", "dn"),
                ("cil_p1", "cil_stop_tick", "unsigned long", "ip"),
                ("cil_p1", "cil_retain_tick", "unsigned long", "ip"),
                ("timer", "hrtimer_expire_entry", "u64", "function", "hrtimer"),
            ),
            600,
        ):
            members = [Field("number", kind, member) for member in names]
            self.trace.events[name] = Event(system, name, number, members)
        self.trace.mark(0, 1000, f"stock machine cpus=0 tick_ns=4000000 states={STATES}")
        self.trace.mark(0, 1001, "stock kernel=6.12.0-test way=probes")

    def _decision(self, cpu, governor, index, stop, left, hints):  # type: ignore[no-untyped-def]
        own = self.probed and governor != "gate"
        # Of the kernel's governor; then of the module's event, which is left out.
        for ret in () if own or not self.probed else (left, left + 5000):
            self.trace.add(0, cpu.now, "cil_sleep_length", ret=ret, dn=ret)
        super()._decision(cpu, governor, index, stop, left, hints)
        if self.probed:
            fate = "cil_stop_tick" if stop else "cil_retain_tick"
            if own:
                self.trace.add(0, cpu.now + 1, "cil_sleep_length", ret=left, dn=left)
            self.trace.add(0, cpu.now + 2, fate)

    def _outcome(self, cpu, *args, **values):  # type: ignore[no-untyped-def]
        super()._outcome(cpu, *args, **values)
        self.trace.add(0, cpu.now, "hrtimer_expire_entry", hrtimer=77)


def own_choices(part: Part) -> run.Choices:
    """Replay the project's governor alone, which needs no sources of the kernel."""
    return dict.fromkeys(("menu", "teo", "wteo"), run.first_choices(part, "wteo"))


def test_a_phase_that_one_way_lacks_is_a_row_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = BothWays()
    session.phase("menu_ng", "cyclictest", 50_000_000)
    session.probed = False
    session.phase("menu_ng", "hackbench", 5_000_000)
    session.probed = True
    session.phase("menu_ng", "bursts", 50_000_000)
    monkeypatch.setattr(run, "replayed", own_choices)
    rows = run.judge(run.read_ways(session.trace.write(tmp_path / "6.12-1.dat")), 1)
    found = {row.workload: row for row in rows if row.way == PROBES}
    assert list(found) == ["cyclictest", "hackbench", "bursts"]
    assert [row.matched > 0.9 for row in found.values()] == [True, False, True]
    missing = found["hackbench"]
    assert missing.decisions > 20 and (missing.matched, missing.facts, missing.close) == (0, 0, 0)
    assert (False, "probes: phases that both have: all but 1 of 3") in run.targets(rows)


def test_the_kernels_governor_is_judged_by_what_it_asked_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run.RECORDERS == ("gate", "menu_ng", "teo_ng", "wteo")
    skl = run.script(["idle", "redis"], run.RECORDERS, 1, True, "skl", 7)
    assert "skl" in skl and "skl" not in run.script(["idle", "redis"], run.RECORDERS, 1)
    words = run.script(["idle", "redis"], run.RECORDERS, 1).splitlines()
    assert words.index("tune gate base menu") + 1 == words.index("afresh gate")
    # The reader takes few changes of the governor.
    afresh = [word for word in words if word.startswith("afresh ")]
    assert afresh == [f"afresh {name}" for name in run.RECORDERS for _ in range(2)]
    session = BothWays()
    session.phase("gate", "cyclictest", 50_000_000)
    monkeypatch.setattr(parts, "series", lambda _: NEWEST)
    monkeypatch.setattr(run, "replayed", own_choices)
    read = run.read_ways(session.trace.write(tmp_path / "6.12-1.dat"))
    assert {part.recorder.label for way in read.values() for part in way.values()} == {
        f"menu@{NEWEST}"
    }
    (row,) = (row for row in run.judge(read, 1) if row.way == PROBES)
    # The module did not see that it asked, nor whether the tick came.
    assert (row.matched, row.asked, row.inferred) == (1, 1, None)
    assert row.close == 1 and row.facts > 0.9 and row.verdicts > 0.9


def test_stays_are_above_or_below_as_the_kernel_counts_them() -> None:
    machine = find("skx")  # target residencies 0, 2, 20, 600 us; exit latencies 0, 2, 10, 133 us
    stays = {(0, 1): 0, (0, 2000): 1, (1, 1999): -1, (1, 2000): 0, (1, 21_999): 0, (1, 22_000): 1,
             (3, 599_999): -1, (3, 10**12): 0}  # fmt: skip
    index, stay_ns = np.array(list(stays)).T
    assert run.verdict(machine, index, stay_ns).tolist() == list(stays.values())


def test_each_way_of_recording_stands_with_its_costs_in_the_document() -> None:
    text = (TOP / "docs/measured/stock.md").read_text()
    rows = {tuple(line.split(" | ")[:2]) for line in text.splitlines() if line.startswith("| ")}
    wanted = {(f"| {name}", way) for name in costs.WORKLOADS for way in costs.WAYS}
    assert wanted <= rows
    assert {f"{event} alone" for event in ("power:cpu_idle_miss", "ipi")} <= set(costs.WAYS)


def test_predictions_by_a_way_stand_beside_the_modules_facts(tmp_path: Path) -> None:
    session = BothWays()
    for workload in ("bursts", "cyclictest"):
        for governor in ("menu_ng", "wteo"):
            session.phase(governor, workload, 400_000_000)
    session.phase("wteo", "idle", 100_000_000)  # too few intervals
    read = run.read_ways(session.trace.write(tmp_path / "6.12-1.dat"))
    found = {way: list(predict.pairs(read[run.FULL], read[way])) for way in (run.FULL, PROBES)}
    for full, told in zip(*found.values(), strict=True):
        assert (full.workload, full.recorded, full.replayed) == (
            told.workload, told.recorded, told.replayed,
        )  # fmt: skip
        assert full.real == told.real
        assert len(told.predicted) == 1 and told.predicted != told.real
    few = [part for part in read[run.FULL].values() if part.workload != "idle"]
    # The weight of what others ended is asked of cross-validation alone.
    assert found[run.FULL] == [replace(one, weight=0.0) for one in crossval.pairs(few)]
    governors = [one.recorded.partition(":")[0] for one in found[PROBES]]
    assert governors == ["menu_ng", "menu_ng", "wteo", "wteo"] * 2
    # The toy's probes tell other intervals than its module.
    allowed = {PROBES: 50.0}
    assert [met for met, _ in predict.targets(found, run.FULL, allowed)] == [True, True]
    worse = [
        replace(one, predicted=(replace(one.predicted[0], regret=900.0),)) for one in found[PROBES]
    ]
    for none_met in (worse, []):
        missed = predict.targets({**found, PROBES: none_met}, run.FULL, allowed)
        assert [met for met, _ in missed] == [True, False]
    assert predict.targets({run.FULL: [], PROBES: []}, run.FULL, allowed) == []


def test_the_end_of_a_phase_that_one_recording_alone_has_does_not_count(tmp_path: Path) -> None:
    session = BothWays()
    session.phase("menu_ng", "bursts", 400_000_000)
    ((start, whole),) = run.read_ways(session.trace.write(tmp_path / "6.12-1.dat"))[
        run.FULL
    ].items()
    intervals, periods = whole.kept[0]
    last = int(np.searchsorted(periods["seq"], intervals["first_seq"][-1]))
    without = sliced(intervals, 0, len(intervals["flags"]) - 1), sliced(periods, 0, last)
    flags = intervals["flags"].copy()
    flags[-1] |= CUT
    short, cut = (
        replace(whole, kept={0: kept})
        for kept in (without, ({**intervals, "flags": flags}, periods))
    )
    expected = list(predict.pairs({start: short}, {start: short}))
    for full in (short, cut):
        assert list(predict.pairs({start: full}, {start: whole})) == expected
    assert list(predict.pairs({start: whole}, {start: whole})) != expected


def test_a_recording_may_be_larger_than_memory(tmp_path: Path) -> None:
    session = BothWays()
    session.phase("menu_ng", "hackbench", 5_000_000)
    path = tmp_path / "large.dat"
    session.trace.write_large(path, 2_500_000)
    told = tr.context_in(path, both=True)
    assert told and path.stat().st_size > 2 * MEMORY
    command = [str(reader.native_reader()), str(path), *told.options(), "period", "interval"]
    found = [
        subprocess.run(
            command,
            capture_output=True,
            preexec_fn=partial(resource.setrlimit, resource.RLIMIT_DATA, (limit, limit)),
            check=False,
        )
        for limit in (MEMORY, resource.RLIM_INFINITY)
    ]
    assert [(one.returncode, one.stderr) for one in found] == [(0, b"")] * 2
    # Nothing is left out for want of memory.
    assert found[0].stdout == found[1].stdout


def _write_both(plain: Path, packed: Path) -> None:
    """Write a recording larger than MEMORY, as it is and compressed."""
    session = BothWays()
    session.phase("menu_ng", "hackbench", 5_000_000)
    session.trace.write_large(plain, 2_500_000)
    convert = ["trace-cmd", "convert", "--file-version", "7", "--compression", "any"]
    subprocess.run([*convert, "-i", str(plain), "-o", str(packed)], check=True, capture_output=True)
    assert packed.stat().st_size < plain.stat().st_size / 2


# libtracecmd before 3.3 keeps all that it has unpacked; the reader opens the file again.
def test_a_packed_recording_may_be_larger_than_memory(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain.dat", tmp_path / "packed.dat"
    _write_both(plain, packed)
    compile_reader(tmp_path, f"-DUNPACKED_MAX={MEMORY // 8}")
    told = tr.context_in(plain, both=True)
    assert told
    for options in ((*told.options(), "period", "interval"), ("interval", "decision")):
        found = [
            subprocess.run(
                [str(program), str(packed), *options],
                capture_output=True,
                preexec_fn=partial(resource.setrlimit, resource.RLIMIT_DATA, (limit, limit)),
                check=False,
            )
            for program, limit in (
                (tmp_path / "trace-columns", MEMORY),
                (reader.native_reader(), resource.RLIM_INFINITY),
            )
        ]
        assert [one.returncode for one in found] == [0, 0], found[0].stderr
        assert found[0].stdout == found[1].stdout


# trace-cmd compresses what it records. Where that cannot be unpacked, the library returns no more
# events, as at the end.
def test_a_recording_that_cannot_be_unpacked_is_refused(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain.dat", tmp_path / "packed.dat"
    _write_both(plain, packed)
    told = tr.context_in(plain, both=True)
    assert told
    options = (*told.options(), "period", "interval")

    def read(path: Path, limit: int) -> tuple[int, str]:
        done = subprocess.run(
            [str(reader.native_reader()), str(path), *options],
            capture_output=True,
            preexec_fn=partial(resource.setrlimit, resource.RLIMIT_DATA, (limit, limit)),
            check=False,
        )
        return done.returncode, done.stdout[-200:].decode(errors="replace") + done.stderr.decode()

    assert read(packed, resource.RLIM_INFINITY)[0] == 0
    code, said = read(packed, MEMORY)
    assert code and "needs more memory than there is" in said
    damaged = bytearray(packed.read_bytes())
    middle = len(damaged) // 2
    for place in range(middle, middle + 8):
        damaged[place] ^= 0x5A
    packed.write_bytes(damaged)
    code, said = read(packed, resource.RLIM_INFINITY)
    assert code and "cannot be unpacked" in said


def test_a_decision_that_one_way_lacks_is_not_taken_for_the_next() -> None:
    """As where two CPUs of the lab take turns: the kernel asks again within 20 us."""
    mine = pl.DataFrame({"ts": [1_000, 16_000, 90_000], "cpu": [0, 0, 1]})
    other = pl.DataFrame({"ts": [16_010, 90_000], "cpu": [0, 0], "index": [2, 3]})
    assert run.paired(mine, other)["s_index"].to_list() == [None, 2, 3]
    assert run.paired(mine, other, "cpu")["s_index"].to_list() == [None, 2, None]
