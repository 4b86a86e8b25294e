# SPDX-License-Identifier: GPL-2.0
"""Constants of the rules of clones beside what programs with known work show in the lab."""

import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from cpuidle_lab.base.files import scratch
from cpuidle_lab.clone import build, calibrate, drafts, events, session
from cpuidle_lab.clone.events import PhaseEvents
from cpuidle_lab.clone.program import Kind, Program, Step, Task
from cpuidle_lab.clone.progress import Progress, turns
from cpuidle_lab.clone.session import Place, Regime
from cpuidle_lab.evidence.tables import Cell, Table

_ROUNDS, _ROUND_NS, _WORK_NS = 30, 5_000_000, 1_000_000
# Callbacks of RCU in a piece of work.
_FEW, _MANY = 20, 100
# Where the other CPU wakes up all the time, it sleeps and works so long.
_NAP = (Step(Kind.SLEEP, 100_000), Step(Kind.RUN, 5_000))
_NAPS = 1500
_HEADS = ("figure of the rules", "used", "measured")


def _pieces(callbacks: int = 0) -> list[Step]:
    """Return pieces of work at fixed times, which queue that many callbacks each."""
    half = Step(Kind.RUN, _WORK_NS // 2)
    queued = [Step(Kind.RCU, callbacks)] if callbacks else []
    starts = [Step(Kind.UNTIL, turn * _ROUND_NS) for turn in range(_ROUNDS)]
    # The last callbacks wait for the end of a grace period.
    grace = Step(Kind.UNTIL, 2 * _ROUNDS * _ROUND_NS)
    return [*(step for start in starts for step in (start, half, *queued, half)), grace]


def _program(name: str, *works: Sequence[Step]) -> Program:
    """Return a program of tasks that stay on their CPUs; the first one ends it."""
    tasks = [Task(f"t{cpu}", cpu=cpu, pinned=True, steps=[*steps])
             for cpu, steps in enumerate(works)]  # fmt: skip
    tasks[0].steps.append(Step(Kind.END))
    return Program(name, "menu", 2 * _ROUNDS * _ROUND_NS, 0, tasks)


def programs() -> list[Program]:
    """Return programs: without callbacks, with few, with many; with the other CPU busy; waking."""
    return [
        _program("alone", _pieces()),
        _program("few", _pieces(_FEW)),
        _program("many", _pieces(_MANY)),
        _program("busy", _pieces(), _pieces()),
        _program("waking", _pieces(), [Step(Kind.UNTIL), *_NAP * _NAPS]),
    ]


def _worked(phase: PhaseEvents) -> Iterator[tuple[float, float, int]]:
    """Yield time and work of the first task's pieces without a tick, ns, and the other's wake-ups.

    Work is by the rules.
    """
    progress = Progress(phase.events, shared=True)
    mine = [event for event in phase.events if event.cpu == 0 and event.name == "sched_switch"]
    ticks = [one.ts for one in phase.events if one.cpu == 0 and one.name == "hrtimer_expire_entry"]
    woken = [one.ts for one in phase.events if one.cpu == 1 and one.name == "cil_outcome"]
    for begin, end in pairwise(mine):
        time_ns = end.ts - begin.ts
        if begin.fields()["next_pid"] == "0" or time_ns < _WORK_NS:
            continue
        if not any(begin.ts < at < end.ts for at in ticks):
            work_ns = progress.until(0, end.ts) - progress.until(0, begin.ts)
            yield time_ns, work_ns, sum(begin.ts < at < end.ts for at in woken)


def _work(phases: Sequence[PhaseEvents], trace: Path) -> tuple[float, float]:
    """Return the usual length of a piece with callbacks, and the time of all softirqs of RCU, ns.

    The time is that of one phase.
    """
    rebuilt = [build.build(phase, trace) for phase in phases]
    found = [length for one in rebuilt for task in one.tasks
             for length in calibrate.pieces(task).get("SS", []) if length > _WORK_NS]  # fmt: skip
    return statistics.median(found), statistics.fmean(one.rcu_ns for one in rebuilt)


def table(kernel: str, seed: int) -> Table:
    """Measure, and return the table.

    Raises:
        UserError: the boot fails.
    """
    place = Place(kernel=kernel, seed=seed)
    with scratch() as folder:
        trace = folder / "constants.dat"
        session.played([[one] for one in programs()], [Regime("menu_ng")], place, trace)
        every = [*events.phases(events.read(trace), trace)]
        phases = [every[n : n + len(session.SHIFTS_NS)]
                  for n in range(0, len(every), len(session.SHIFTS_NS))]  # fmt: skip
        rows = _rows(phases, trace)
    return Table("", _HEADS, rows, 1)


def _rows(phases: Sequence[Sequence[PhaseEvents]], trace: Path) -> list[Sequence[Cell]]:
    """Return the rows of the phases of each program."""
    alone, _, _, busy, waking = ([one for phase in each for one in _worked(phase)]
                                 for each in phases)  # fmt: skip
    work_ns = statistics.median(work for _, work, _ in alone)
    both = statistics.median(work_ns / time for time, _, _ in busy)
    errors = [(work - work_ns) / times for _, work, times in waking if times]
    none_ns, none_rcu_ns = _work(phases[0], trace)
    rows: list[Sequence[Cell]] = [
        ["share of CPU 0 if both are busy, %", 100 * turns(2, frozenset({0, 1}))[0], 100 * both],
        ["error of work by each wake-up of the other CPU, ns", 0, statistics.fmean(errors)],
    ]
    for callbacks, each in ((_FEW, phases[1]), (_MANY, phases[2])):
        piece_ns, rcu_ns = _work(each, trace)
        served_ns = (rcu_ns - none_rcu_ns) / (callbacks * _ROUNDS)
        queued_ns = (piece_ns - none_ns) / callbacks
        rows += [
            [f"callback of RCU, {callbacks} in a row, ns", drafts.CALLBACK_NS, served_ns],
            [f"queueing it, {callbacks} in a row, ns", calibrate.QUEUE_NS, queued_ns],
        ]
    return rows
