# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab experiment two-regimes`: idle periods that are long because of the state.

One boot for each seed has the program under each governor. Its recording under teo_ng is rebuilt,
and the clone is played with C2 allowed and with C2 disabled on one CPU.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from cpuidle_lab.base.progress import Meter
from cpuidle_lab.clone import build, calibrate, events, play, program
from cpuidle_lab.clone.program import Program
from cpuidle_lab.clone.session import FEW_NS, OTHERWISE, Place, Regime, calibrated
from cpuidle_lab.crossval.parts import Part, parts
from cpuidle_lab.evidence.tables import Section, Table
from cpuidle_lab.lab import LabResult, LabRun, programs
from cpuidle_lab.lab.session import OUR_EVENTS, TRACE, PhasePlan, Session
from cpuidle_lab.recording.columns import opened
from experiments.boots import NOT_BOOTED, boots, limit_s, sources
from experiments.experiment import ORIGINAL, QUICK, Findings, Request, Row
from experiments.memo import Memo

HERE = Path(__file__).parent
MACHINE = HERE / "machine.yaml"
# Code that plans the boots and reads their results.
CODE = [Path(__file__), MACHINE, *map(Path, (build.__file__, calibrate.__file__, play.__file__))]
TALK = programs.Program("talk", "experiments/two_regimes/talk.c")

GOVERNORS = {
    "menu": OTHERWISE["menu"],
    "menu_ng": Regime("menu_ng"),
    "teo_ng": Regime("teo_ng"),
    "wteo": Regime("wteo"),
}
# The governor of the report, and one that stays in the slow regime of the lab's machine.
_REPORTED, RECORDER = "menu", "teo_ng"
C2 = 2
# CPU and number of the state, on the one CPU where the report disables it.
OFF = ((1, C2),)
# By name: what the page calls it, rests before the rounds, and what is disabled.
ALLOWED, DISABLED, QUIET = "allowed", "disabled", "quiet"
CASES: Mapping[str, tuple[str, int, tuple[tuple[int, int], ...]]] = {
    ALLOWED: ("C2 allowed", 60, ()),
    DISABLED: ("C2 off on one CPU", 60, OFF),
    QUIET: ("C2 allowed, no rests before", 0, ()),
}

ROUNDS = {QUICK: 300, ORIGINAL: 10_000}
USUAL_ROUNDS = 1500

# Rounds of the end that are judged: the first half is the way there.
_PART = 0.5
_TRACE_MIB, _MEMORY_MIB = 128, 1152


def _run(plans: Sequence[PhasePlan], files: Mapping[str, bytes], seed: int, scale: str) -> LabRun:
    recorded = (OUR_EVENTS, *events.CLONE_EVENTS)
    return LabRun(
        Session(str(MACHINE), plans, recorded, trace_mib=_TRACE_MIB).script(),
        seed=seed,
        files=dict(files),
        memory_mib=_MEMORY_MIB,
        real_time=False,
        time_limit_s=limit_s(scale, 1800),
        turn_us=10,
    )


def program_run(scale: str, seed: int) -> LabRun:
    """Return the boot with the program itself, under each governor."""
    rounds = ROUNDS.get(scale, USUAL_ROUNDS)
    plans = [
        PhasePlan(regime.governor, f"{name}-{case}", f"talk {rests} {rounds}", regime.settings,
                  disabled=off)
        for name, regime in GOVERNORS.items()
        for case, (_, rests, off) in CASES.items()
    ]  # fmt: skip
    return _run(plans, programs.file(TALK), seed, scale)


def figures(part: Part) -> dict[str, float]:
    """Return the period of a round, the idle period of CPU 0 and C2's share, of the last rounds."""
    (chunk,) = part.intervals(0, ["start_ns", "length_ns", "index"])
    last = slice(round(len(chunk["index"]) * (1 - _PART)), None)
    exit_ns = np.asarray(part.state_tables[0].exit_latency_ns)
    index = chunk["index"][last]
    return {
        "round_us": float(np.median(np.diff(chunk["start_ns"][last]))) / 1000,
        "idle_us": float(np.median(chunk["length_ns"][last] + exit_ns[index])) / 1000,
        "deep": 100 * float(np.mean(index == C2)),
    }


def _figures(result: LabResult) -> dict[str, list[dict[str, float]]]:
    """Return the figures of each workload of a boot, one for each time that it ran."""
    trace = result.files / TRACE
    found: dict[str, list[dict[str, float]]] = {}
    with opened(trace) as recording:
        for part in parts(recording, trace):
            found.setdefault(part.workload, []).append(figures(part))
    return found


def _rebuilt(result: LabResult) -> Program:
    """Return the program of a boot's first phase under the recorder with C2 allowed."""
    trace = result.files / TRACE
    wanted = f"{RECORDER}-{ALLOWED}"
    phases = events.phases(events.read(trace), trace)
    return build.build(next(one for one in phases if one.workload == wanted), trace, pin=True)


def _read_program(result: LabResult) -> dict[str, Any]:
    """Return the program's figures and what is rebuilt of it, for the memo."""
    return {"figures": _figures(result), "program": _rebuilt(result).text()}


def _parsed(text: str) -> Program:
    return program.parse(text.splitlines(), Path("memo"))


def clone_run(clone: Program, cases: Sequence[str], seed: int, scale: str) -> LabRun:
    """Return the boot that plays a clone under its recorder, at three shifts against the tick."""
    plans = [
        GOVERNORS[RECORDER].plan(clone, workload=f"{RECORDER}-{case}", disabled=CASES[case][2],
                                 shift_ns=shift)
        for case in cases for shift in FEW_NS
    ]  # fmt: skip
    return _run(plans, play.files({"clone": clone}), seed, scale)


def _corrected(recorded: Program, played: Program) -> Program:
    """Return the clone whose pieces are as long as recorded, by its first run."""
    costs = calibrated(Place())
    own = calibrate.corrected(recorded, [played], costs)
    return calibrate.without(recorded, costs, own)


def _each(found: Sequence[Any], workload: str, figure: str) -> list[float]:
    """Return a figure of each boot, the mean of its shifts."""
    return [fmean(one[figure] for one in each[workload]) for each in found]


def _rows(real: Sequence[Any], clones: Sequence[Any]) -> list[Row]:
    """Return the report's figures beside those of the program and of its clone."""
    rows = [
        Row(f"{_REPORTED}, {CASES[case][0]}: idle period", f"{reported:g} us",
            _each(real, f"{_REPORTED}-{case}", "idle_us"), "us",
            agrees=(0.75 * reported, 1.25 * reported))
        for case, reported in ((ALLOWED, 175.0), (DISABLED, 20.0))
    ]  # fmt: skip
    for case in (ALLOWED, DISABLED):
        workload = f"{RECORDER}-{case}"
        mine, played = _each(real, workload, "idle_us"), _each(clones, workload, "idle_us")
        fact = fmean(mine)
        rows += [
            Row(f"{RECORDER}, {CASES[case][0]}: idle period", ours=mine, unit="us"),
            Row(f"its clone, {CASES[case][0]}: idle period", f"the program: {fact:.3g} us",
                played, "us", agrees=(0.95 * fact, 1.05 * fact)),
        ]  # fmt: skip
    return rows


def _table(real: Sequence[Any], clones: Sequence[Any]) -> Table:
    rows: list[list[Any]] = []
    for found, who, cases in (
        *((real, name, CASES) for name in GOVERNORS),
        (clones, RECORDER, (ALLOWED, DISABLED)),
    ):
        for case in cases:
            workload = f"{who}-{case}"
            told = [fmean(_each(found, workload, one)) for one in ("round_us", "idle_us", "deep")]
            rows.append([f"clone, {who}" if found is clones else who, CASES[case][0], *told])
    heads = ("", "", "round, us", "idle period of CPU 0, us", "of them in C2, %")
    note = (
        "Medians of the second half of a phase, means of the seeds. A round is a request, the work "
        "and the answer. Before the rounds CPU 0 rests 60 times for 3 ms, or not at all."
    )
    return Table("The end of each phase", heads, rows, 1, note)


class TwoRegimes:
    """A request and an answer between two CPUs, and the clone of that."""

    name = "two-regimes"
    title = "Idle periods that are long because of the state"
    claim = (
        "A request and an answer between two CPUs take 120 us with idle periods of 175 us where "
        "menu may use C2. With C2 disabled on one of the CPUs it is 17 us and 20 us."
    )
    source = "Chris Friesen, linux-pm, June 2025; Ice Lake, 6.6 RT, menu"
    question = (
        "Does the program have two regimes in the lab, too? Does a clone that is made of the slow "
        "one go to the quick one as the program does? Which governors leave the slow one by "
        "themselves?"
    )
    in_lab = True

    def refusals(self, _: Request) -> list[str]:
        """Return nothing: the guest has the program."""
        return []

    def measure(self, request: Request, memo: Memo, meter: Meter) -> Findings:
        """Boot the program, the clone's first run, and the clone, once for each seed."""
        seeds, scale = range(1, request.seeds + 1), request.scale
        result = Findings(same=_SAME, differs=_DIFFERS, meaning=_MEANING)
        result.sources = sources(CODE)

        def booted(runs: Sequence[LabRun], read: Any, title: str) -> list[Any]:
            return boots(runs, read, CODE, request, memo, meter, title)

        real = booted([program_run(scale, seed) for seed in seeds], _read_program, "Talking")
        if not all(real):
            result.rows.append(Row(self.title, note=NOT_BOOTED))
            return result
        recorded = [_parsed(one["program"]) for one in real]
        first = [calibrate.without(one, calibrated(Place())) for one in recorded]
        runs = [
            clone_run(one, [ALLOWED], seed, scale) for one, seed in zip(first, seeds, strict=True)
        ]
        tried = booted(runs, _read_program, "Playing the clone once")
        if not all(tried):
            result.rows.append(Row(self.title, note=NOT_BOOTED))
            return result
        clones = [_corrected(one, _parsed(again["program"]))
                  for one, again in zip(recorded, tried, strict=True)]  # fmt: skip
        runs = [clone_run(one, [ALLOWED, DISABLED], seed, scale)
                for one, seed in zip(clones, seeds, strict=True)]  # fmt: skip
        played = booted(runs, _figures, "Playing the clone")
        if not all(played):
            result.rows.append(Row(self.title, note=NOT_BOOTED))
            return result
        facts = [one["figures"] for one in real]
        result.rows = _rows(facts, played)
        result.sections.append(Section("two-regimes", self.title, tables=[_table(facts, played)]))
        return result


_SAME = """\
Two CPUs, a request and an answer, and C2 disabled on one of the CPUs. With C2 the idle periods are
about nine times as long, under a governor that stays there."""
_DIFFERS = """\
The report has no table of idle states. C2's exit latency is half the difference of its two periods,
and its target residency is a guess just above that. The program has pipes and fixed work. Under
that table menu of 6.12 does not stay in the slow regime, and the report's menu is of 6.6."""
_MEANING = """\
teo_ng does not leave the slow regime: C2 makes each CPU wait for the other, and the waiting pays
for C2. It stays there without rests before, too. menu, menu_ng and wteo leave it by themselves.

The clone was made of the slow regime alone. With C2 disabled on one CPU it goes to the quick one,
as the program does. A replay of the slow recording has the long periods for each governor."""

EXPERIMENT = TwoRegimes()
