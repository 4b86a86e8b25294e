# SPDX-License-Identifier: GPL-2.0
"""Harm on any stream, on every machine that the kernel knows, and on recorded ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

from cpuidle_lab.base.cache import digest
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.tables import Cell, Section, Table, Verdict, verdict
from cpuidle_lab.recording import synth
from cpuidle_lab.recording.laws import STREAMS
from cpuidle_lab.recording.laws import Stream as Law
from cpuidle_lab.replay.candidates import MAINLINE, Candidate, candidate
from cpuidle_lab.states.machines import DTS, INTEL_IDLE, PEPC, listed
from cpuidle_lab.states.table import StateTable, check_table
from experiments.memo import Memo, sources
from experiments.wteo.front import TEO
from experiments.wteo.streams import HZ, SEED, play, synthetic

PART = "machines"
TITLE = "Every machine the kernel knows"

# Kinds of tables, and their names in words.
KINDS = {
    INTEL_IDLE: "drivers/idle/intel_idle.c",
    DTS: "the arm64 device trees",
    PEPC: "recorded machines",
}

# The promise: percentage points of regret above the better mainline governor.
HARM_POINTS = 2.0

_LISTED = 20
_FORMAT = 2


@dataclass(frozen=True)
class Found:
    """A table of idle states.

    Attributes:
        kind: of KINDS.
        names: of the machines that have it.
        machine: its idle states.
    """

    kind: str
    names: tuple[str, ...]
    machine: StateTable

    @property
    def label(self) -> str:
        """The first name, and how many there are besides."""
        more = f" and {len(self.names) - 1} more" if len(self.names) > 1 else ""
        return self.names[0] + more


def tables() -> tuple[list[Found], list[str]]:
    """Return the tables, each once, and the names of those that the replay refuses.

    Raises:
        UserError: the kernel's sources cannot be had.
    """
    found: dict[object, tuple[str, list[str], StateTable]] = {}
    refused = []
    for kind in KINDS:
        for known in listed([kind], hz=HZ):
            machine = known.table
            try:
                check_table(Path(known.name), machine)
            except UserError:
                refused.append(known.name)
                continue
            key = (kind, machine.exit_latency_ns, machine.target_residency_ns, machine.polling)
            found.setdefault(key, (kind, [], machine))[1].append(known.name)
    return [Found(kind, tuple(names), machine) for kind, names, machine in found.values()], refused


def _figures(
    law: Law, machine: StateTable, count: int, governors: Sequence[Candidate]
) -> dict[str, tuple[float, float]]:
    """Return regret, %, and mean exit latency, us, by governor."""
    stream = synthetic(law, machine, "", count)
    figures = {who.label: play(stream, who) for who in governors}
    return {label: (one.regret, one.mean_latency_us) for label, one in figures.items()}


def _key(law: Law, machine: StateTable, count: int, governors: Sequence[Candidate]) -> str:
    """Return the hash of all that the figures depend on, without making the stream."""
    who = [(one.governor.spec, sources(one.governor.spec),
            one.governor.values(dict(one.settings))) for one in governors]  # fmt: skip
    made = digest([synth.code()])
    parts = (_FORMAT, made, law.name, law.parameters, count, SEED, HZ, machine, who)
    return digest([repr(parts)])


Of = Mapping[str, Sequence[float]]  # regret and latency
Result = tuple[Found, str, Of]  # with the name of the stream


def _harm(of: Of, subject: str) -> float:
    return of[subject][0] - min(of[label][0] for label in MAINLINE)


def _judge(
    section: Section, subjects: Sequence[str], found: Sequence[Result], refused: Sequence[str]
) -> None:
    rows: list[list[Cell]] = []
    for kind, words in KINDS.items():
        mine = [one for one in found if one[0].kind == kind]
        machines = {one[0].names: len(one[0].names) for one in mine}
        for subject in subjects:
            over = [one for one in mine if _harm(one[2], subject) > HARM_POINTS]
            worst = max(mine, key=lambda one: _harm(one[2], subject))
            text = (f"{len(over)} of {len(mine)} streams exceed it, on "
                    f"{len({one[0].names for one in over})} of {len(machines)} tables, worst "
                    f"{_harm(worst[2], subject):+.1f} ({worst[0].label}, {worst[1]})")  # fmt: skip
            promise = (f"{words}, {subject}: at most {HARM_POINTS:.0f} points above the better "
                       "mainline governor")  # fmt: skip
            section.verdicts.append(verdict(not over, promise, text))
            rows.append([
                words, sum(machines.values()), len(machines), subject,
                *(fmean(one[2][label][0] for one in mine) for label in (subject, *MAINLINE)),
                len(over), _harm(worst[2], subject),
            ])  # fmt: skip
        section.verdicts.append(_latency(subjects[-1], words, mine))
    heads = ("source", "machines", "tables", "governor", "regret %",
             *(f"{label} %" for label in MAINLINE), "streams over", "most above")  # fmt: skip
    note = (
        "Mean regret over all streams on all tables of a source. Machines with the same table are "
        "played once."
    )
    if refused:
        note += f" Refused, since not sorted by target residency: {', '.join(refused)}."
    section.tables.append(Table("Tables by their source", heads, rows, 1, note))


def _latency(subject: str, words: str, found: Sequence[Result]) -> Verdict:
    """Judge the mean exit latency of a governor on each table."""
    by_table: dict[tuple[str, ...], list[Result]] = {}
    for one in found:
        by_table.setdefault(one[0].names, []).append(one)
    more = {
        mine[0][0].label: fmean(one[2][subject][1] for one in mine)
        / fmean(one[2][TEO][1] for one in mine) - 1
        for mine in by_table.values()
    }  # fmt: skip
    above = [label for label, share in more.items() if share > 0]
    worst = max(more, key=lambda label: more[label])
    promise = f"{words}, {subject}: mean exit latency on each table at most that of {TEO}"
    figures = (f"{len(above)} of {len(more)} tables exceed it, worst {100 * more[worst]:+.1f} % "
               f"({worst})")  # fmt: skip
    return verdict(not above, promise, figures)


def _list(section: Section, subject: str, found: Sequence[Result]) -> None:
    over = sorted((one for one in found if _harm(one[2], subject) > HARM_POINTS),
                  key=lambda one: (-_harm(one[2], subject), one[0].names, one[1]))  # fmt: skip
    shown = over[:_LISTED]
    rows: list[list[Cell]] = [
        [one.label, stream, *(of[label][0] for label in (subject, *MAINLINE)), _harm(of, subject)]
        for one, stream, of in shown
    ]
    heads = ("machine", "stream", *(f"{label} %" for label in (subject, *MAINLINE)), "above")
    left = len(over) - len(shown)
    note = f"and {left} more, in --json" if left else ""
    title = f"Streams on which {subject} exceeds the limit"
    section.tables.append(Table(title, heads, rows, 1, note))
    section.data[subject] = [
        {"machines": list(one.names), "stream": stream, "harm": _harm(of, subject),
         "regret": {label: figures[0] for label, figures in of.items()}}
        for one, stream, of in over
    ]  # fmt: skip


def measure(
    subjects: Sequence[str], names: Sequence[str], count: int, memo: Memo, meter: Meter
) -> Section:
    """Measure harm on every table.

    Args:
        subjects: the governor that is judged; others that are to do no harm either. The last one
            is judged by its latency, too.
        names: of synth's streams.
        count: intervals of each.
        memo: where figures are kept.
        meter: shows progress.
    """
    section = Section(PART, TITLE)
    governors = [candidate(label) for label in (*subjects, *MAINLINE)]
    found, refused = tables()
    jobs = {
        (table.kind, table.names, name): (STREAMS[name], table.machine, count, governors)
        for table in found
        for name in names
    }
    keys = {job: _key(*arguments) for job, arguments in jobs.items()}
    work = {keys[job]: partial(_figures, *arguments) for job, arguments in jobs.items()}
    known = memo.fill(work, meter, "Every machine")
    of = {job: known[key] for job, key in keys.items()}
    results = [(one, name, of[one.kind, one.names, name]) for one in found for name in names]
    _judge(section, subjects, results, refused)
    for subject in subjects:
        _list(section, subject, results)
    return section
