# SPDX-License-Identifier: GPL-2.0
"""Target 6: real programs on a stock kernel in the lab, each governor in turn, several seeds.

The governor that is judged has a second turn, in which a microsecond of wake-up latency is worth a
microsecond at full power, as it is for a program that waits for it while the machine runs.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean, stdev

from cpuidle_lab.base import resampling
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.tables import OPEN, Cell, Section, Table, Verdict, verdict
from cpuidle_lab.lab.turns import PROGRAMS, JudgedProgram, ProgramRun, Size
from cpuidle_lab.replay.candidates import Candidate, parse
from experiments.boots import figures
from experiments.memo import Memo
from experiments.wteo.front import energy_alone
from experiments.wteo.programs import KERNEL, MENU, TEO, cell

PART = "kernel"
TITLE = "In the kernel: real programs in the lab"

# The promise: throughput, of the reference's.
LEAST_THROUGHPUT = 0.99

# So many seeds that each of four turns is the first as often as the others.
FULL = Size(seeds=8, seconds=2)
QUICK = Size(seeds=4, seconds=1)


def _mean_and_spread(
    runs: Sequence[ProgramRun], value: Callable[[ProgramRun], float | None]
) -> tuple[Cell, Cell]:
    known = [number for run in runs if (number := value(run)) is not None]
    if not known:
        return None, None
    return fmean(known), stdev(known) if len(known) > 1 else None


def _mean(runs: Sequence[ProgramRun], value: Callable[[ProgramRun], float]) -> float:
    return fmean(value(run) for run in runs)


def _energy_of_work(run: ProgramRun) -> float:
    """Return the energy for a unit of work, mJ."""
    return run.energy_mj / run.amount


By = Mapping[
    tuple[str, str], Sequence[ProgramRun]
]  # by program and governor, in the order of seeds


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
        excess = resampling.compare(base, more, resampling.Kind.DIFFERENCE, 1)
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


def _slow(by: By, governor: str, programs: Sequence[str]) -> list[str]:
    """Return programs that get less done than promised, with the 95 % interval."""
    found = []
    for program in programs:
        both = (by[program, TEO], by[program, governor])
        base, mine = ([run.throughput for run in runs] for runs in both)
        share = fmean(mine) / fmean(base)
        spread = resampling.compare(base, mine, resampling.Kind.RATIO, 1)
        if share < LEAST_THROUGHPUT and spread:
            low, high = spread.low or share, spread.high or share
            found.append(f"{program} {100 * share:.2f} % ({100 * low:.1f} to {100 * high:.1f})")
    return found


def _judge_work(section: Section, by: By, governor: str, programs: Sequence[str]) -> None:
    slow = _slow(by, governor, programs)
    shares = {}
    for program in programs:
        mine, base = (_mean(by[program, who], _energy_of_work) for who in (governor, TEO))
        shares[program] = mine / base
    mean = fmean(shares.values())
    promise = (
        f"{governor}: each program gets {100 * LEAST_THROUGHPUT:.0f} % of the work with {TEO} done"
    )
    section.verdicts.append(verdict(not slow, promise, ", ".join(slow) or "all do"))
    promise = f"{governor}: they take less energy for a unit of work than with {TEO}, on average"
    figures = f"{100 * mean:.1f} % of that with {TEO}"
    dear = [f"{program} {100 * share:.1f} %" for program, share in shares.items() if share > 1]
    figures += f", more for {', '.join(dear)}" if dear else ""
    section.verdicts.append(verdict(mean < 1, promise, figures))


def _tables(
    section: Section, subject: str, governors: Sequence[str], runs: Sequence[ProgramRun]
) -> None:
    by: dict[tuple[str, str], list[ProgramRun]] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        by.setdefault((run.program, run.governor), []).append(run)
    programs = list(dict.fromkeys(run.program for run in runs))
    rows = [_row(by, program, who) for program in programs for who in governors]
    heads = ("program", "states", "governor", "seeds", "regret %", "+-", "energy mJ", "+-",
             f"work, % of {TEO}", "+-", "p99 us")  # fmt: skip
    note = (
        "Means over the seeds; +-: standard deviation from seed to seed. Regret: of what was "
        "recorded, as `cpuidle-lab report` has it. Energy: the emulated machine's own account, "
        "busy time included. Work: what the program got done in a second."
    )
    section.tables.append(Table("Programs in the lab", heads, rows, 1, note))
    _judge(section, by, energy_alone(subject), programs)
    _judge_work(section, by, subject, programs)


def _candidates(subject: str) -> list[Candidate]:
    """Return who has a turn: the subject comes first, then the same with no regard to latency."""
    names = [subject, energy_alone(subject), MENU, TEO]
    return [parse(name, False)[0] for name in dict.fromkeys(names)]


def measure(
    subject: str,
    size: Size,
    memo: Memo,
    meter: Meter,
    lab: bool,
    programs: Sequence[JudgedProgram] = PROGRAMS,
) -> Section:
    """Measure target 6.

    Args:
        subject: the governor that is judged, with its tunables.
        size: how much.
        memo: where figures are kept.
        meter: shows progress.
        lab: boot what is not in the memo.
        programs: which.

    Raises:
        UserError: a program failed in the guest, or events were lost.
    """
    section = Section(PART, TITLE)
    candidates = _candidates(subject)
    plan = [partial(cell, one, candidates, size) for one in programs]
    known = figures(plan, [KERNEL], lab, memo, meter, "Programs in the lab")
    missing = [one.name for one, runs in zip(programs, known, strict=True) if runs is None]
    found = [ProgramRun(**one) for runs in known for one in runs or ()]
    if missing:
        names = ", ".join(missing)
        section.verdicts.append(Verdict(OPEN, f"with these sources: {names}", "add --lab"))
    if found:
        _tables(section, subject, [one.label for one in candidates], found)
    section.data["runs"] = [vars(run) for run in found]
    return section
