# SPDX-License-Identifier: GPL-2.0
"""Target 6: real programs on a stock kernel in the lab, each governor in turn, several seeds."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from cpuidle_lab import statistics
from cpuidle_lab.errors import UserError
from cpuidle_lab.study.memo import Memo
from cpuidle_lab.study.programs import (
    MENU,
    PROGRAMS,
    TEO,
    Program,
    Run,
    Size,
    boot,
    key_of,
    lab_run,
)
from cpuidle_lab.study.tables import OPEN, Cell, Section, Table, Verdict, verdict

PART = "kernel"
TITLE = "In the kernel: real programs in the lab"

# What is promised: throughput, of the reference's.
LEAST_THROUGHPUT = 0.99

FULL = Size(seeds=5, seconds=2)
QUICK = Size(seeds=2, seconds=1)


def _mean_and_spread(
    runs: Sequence[Run], value: Callable[[Run], float | None]
) -> tuple[Cell, Cell]:
    known = [number for run in runs if (number := value(run)) is not None]
    if not known:
        return None, None
    return fmean(known), stdev(known) if len(known) > 1 else None


By = Mapping[tuple[str, str], Sequence[Run]]  # by program and governor, in the order of seeds


def _beaten(by: By, subject: str, program: str) -> list[tuple[str, bool]]:
    """Return who has less mean regret on a program, and whether that is more than the spread."""
    mine = [run.regret for run in by[program, subject]]
    found = []
    for other in (TEO, MENU):
        theirs = [run.regret for run in by[program, other]]
        pairs = [
            (b, a) for b, a in zip(theirs, mine, strict=True) if a is not None and b is not None
        ]
        if not pairs:
            continue
        base, more = zip(*pairs, strict=True)
        excess = statistics.compare(base, more, statistics.Kind.DIFFERENCE, 1)
        if excess and excess.mean > 0:
            found.append((f"{program} ({excess.mean:+.1f} to {other})", excess.excludes(0)))
    return found


def _row(by: By, program: str, governor: str) -> list[Cell]:
    mine, base = by[program, governor], by[program, TEO]
    usual = fmean(run.throughput for run in base) / 100
    work, work_spread = _mean_and_spread(mine, lambda run: run.throughput / usual)
    return [
        program, mine[0].machine, governor, len(mine),
        *_mean_and_spread(mine, lambda run: run.regret),
        *_mean_and_spread(mine, lambda run: run.energy_mj),
        work,
        work_spread,
        _mean_and_spread(mine, lambda run: run.p99_us)[0],
    ]  # fmt: skip


def _judge(section: Section, by: By, subject: str, programs: Sequence[str]) -> None:
    beaten = [one for program in programs for one in _beaten(by, subject, program)]
    promise = "no program has more regret than with teo or menu, beyond the spread of the seeds"
    sure = [name for name, certain in beaten if certain]
    others = [name for name, certain in beaten if not certain]
    figures = ", ".join(sure) or "none"
    figures += f"; more, but within the spread: {', '.join(others)}" if others else ""
    section.verdicts.append(verdict(not sure, promise, figures))
    means = {
        governor: fmean(
            run.regret
            for program in programs
            for run in by[program, governor]
            if run.regret is not None
        )
        for governor in (subject, MENU, TEO)
    }
    order = sorted(means, key=lambda governor: means[governor])
    figures = ", ".join(f"{governor} {means[governor]:.1f} %" for governor in order)
    promise = f"{subject} has the least mean regret over the programs, as in replay"
    section.verdicts.append(verdict(order[0] == subject, promise, figures))
    slow = []
    for program in programs:
        mine, base = (fmean(run.throughput for run in by[program, who]) for who in (subject, TEO))
        if mine < LEAST_THROUGHPUT * base:
            slow.append(f"{program} {100 * mine / base:.2f} %")
    promise = f"each program gets {100 * LEAST_THROUGHPUT:.0f} % of the work with {TEO} done"
    section.verdicts.append(verdict(not slow, promise, ", ".join(slow) or "all do"))


def _tables(section: Section, subject: str, runs: Sequence[Run]) -> None:
    by: dict[tuple[str, str], list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        by.setdefault((run.program, run.governor), []).append(run)
    programs = list(dict.fromkeys(run.program for run in runs))
    rows = [
        _row(by, program, who)
        for program in programs
        for who in dict.fromkeys((subject, MENU, TEO))
    ]
    heads = ("program", "states", "governor", "seeds", "regret %", "+-", "energy mJ", "+-",
             f"work, % of {TEO}", "+-", "p99 us")  # fmt: skip
    note = (
        "Means over the seeds; +-: standard deviation from seed to seed. Regret: of what was "
        "recorded, as `cpuidle-lab report` has it. Energy: the emulated machine's own account, "
        "busy time included. Work: what the program got done in a second."
    )
    section.tables.append(Table("Programs in the lab", heads, rows, 1, note))
    _judge(section, by, subject, programs)


def measure(
    subject: str, size: Size, memo: Memo, lab: bool, programs: Sequence[Program] = PROGRAMS
) -> Section:
    """Measure target 6.

    Args:
        subject: the governor that is judged, with its default tunables.
        size: how much.
        memo: where figures are kept.
        lab: boot what is not in the memo.
        programs: which.

    Raises:
        UserError: a program failed in the guest, or events were lost.
    """
    section = Section(PART, TITLE)
    if ":" in subject:
        section.verdicts.append(Verdict(OPEN, "programs", "the lab runs default tunables only"))
        return section
    governors = list(dict.fromkeys((TEO, MENU, subject)))
    found: list[Run] = []
    missing: list[str] = []
    for program in programs:
        run = lab_run(program, governors, size)
        key = key_of(program, run)
        known: list[Mapping[str, Any]] | None = memo.get(key)
        if known is None and lab:
            known = [vars(one) for one in boot(program, run)]
            if key_of(program, run) != key:
                raise UserError("the modules' sources changed while they ran; run it again")
            memo.put(key, known)
        if known is None:
            missing.append(program.name)
        else:
            found += [Run(**one) for one in known]
    if missing:
        names = ", ".join(missing)
        section.verdicts.append(Verdict(OPEN, f"with these sources: {names}", "add --lab"))
    if found:
        _tables(section, subject, found)
    section.data["runs"] = [vars(run) for run in found]
    return section
