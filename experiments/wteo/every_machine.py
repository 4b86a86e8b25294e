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
from cpuidle_lab.evidence.tables import Cell, Section, Table, verdict
from cpuidle_lab.recording import synth
from cpuidle_lab.recording.laws import STREAMS
from cpuidle_lab.recording.laws import Stream as Law
from cpuidle_lab.replay.candidates import MAINLINE, Candidate, candidate, parse
from cpuidle_lab.states.machines import DTS, INTEL_IDLE, PEPC, listed
from cpuidle_lab.states.table import StateTable, check_table
from experiments.memo import Memo, sources
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
_FORMAT = 1


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


def _regrets(
    law: Law, machine: StateTable, count: int, governors: Sequence[Candidate]
) -> dict[str, float]:
    stream = synthetic(law, machine, "", count)
    return {who.label: play(stream, who).regret for who in governors}


def _key(law: Law, machine: StateTable, count: int, governors: Sequence[Candidate]) -> str:
    """Return the hash of all that the regrets depend on, without making the stream."""
    who = [(one.governor.spec, sources(one.governor.spec),
            one.governor.values(dict(one.settings))) for one in governors]  # fmt: skip
    made = digest([synth.code()])
    parts = (_FORMAT, made, law.name, law.parameters, count, SEED, HZ, machine, who)
    return digest([repr(parts)])


Regrets = Mapping[str, float]
Result = tuple[Found, str, Regrets]  # with the name of the stream


def _harm(of: Regrets, subject: str) -> float:
    return of[subject] - min(of[label] for label in MAINLINE)


def _judge(section: Section, subject: str, found: Sequence[Result], refused: Sequence[str]) -> None:
    rows: list[list[Cell]] = []
    for kind, words in KINDS.items():
        mine = [one for one in found if one[0].kind == kind]
        over = [one for one in mine if _harm(one[2], subject) > HARM_POINTS]
        machines = {one[0].names: len(one[0].names) for one in mine}
        worst = max(mine, key=lambda one: _harm(one[2], subject))
        text = (f"{len(over)} of {len(mine)} streams exceed it, on "
                f"{len({one[0].names for one in over})} of {len(machines)} tables, worst "
                f"{_harm(worst[2], subject):+.1f} ({worst[0].label}, {worst[1]})")  # fmt: skip
        promise = f"{words}: at most {HARM_POINTS:.0f} points above the better mainline governor"
        section.verdicts.append(verdict(not over, promise, text))
        rows.append([
            words, sum(machines.values()), len(machines),
            *(fmean(one[2][label] for one in mine) for label in (subject, *MAINLINE)),
            len(over), _harm(worst[2], subject),
        ])  # fmt: skip
    heads = ("source", "machines", "tables", *(f"{label} %" for label in (subject, *MAINLINE)),
             "streams over", "most above")  # fmt: skip
    note = (
        "Mean regret over all streams on all tables of a source. Machines with the same table are "
        "played once."
    )
    if refused:
        note += f" Refused, since not sorted by target residency: {', '.join(refused)}."
    section.tables.append(Table("Tables by their source", heads, rows, 1, note))


def _list(section: Section, subject: str, found: Sequence[Result]) -> None:
    over = sorted((one for one in found if _harm(one[2], subject) > HARM_POINTS),
                  key=lambda one: (-_harm(one[2], subject), one[0].names, one[1]))  # fmt: skip
    shown = over[:_LISTED]
    rows: list[list[Cell]] = [
        [one.label, stream, *(of[label] for label in (subject, *MAINLINE)), _harm(of, subject)]
        for one, stream, of in shown
    ]
    heads = ("machine", "stream", *(f"{label} %" for label in (subject, *MAINLINE)), "above")
    left = len(over) - len(shown)
    note = f"and {left} more, in --json" if left else ""
    section.tables.append(Table("Streams on which the limit is exceeded", heads, rows, 1, note))
    section.data = {
        "over": [
            {"machines": list(one.names), "stream": stream, "regret": dict(of),
             "harm": _harm(of, subject)}
            for one, stream, of in over
        ]
    }  # fmt: skip


def measure(subject: str, names: Sequence[str], count: int, memo: Memo, meter: Meter) -> Section:
    """Measure harm on every table.

    Args:
        subject: the governor that is judged.
        names: of synth's streams.
        count: intervals of each.
        memo: where figures are kept.
        meter: shows progress.
    """
    section = Section(PART, TITLE)
    governors = [parse(subject, False)[0], *(candidate(label) for label in MAINLINE)]
    found, refused = tables()
    jobs = {
        (table.kind, table.names, name): (STREAMS[name], table.machine, count, governors)
        for table in found
        for name in names
    }
    keys = {job: _key(*arguments) for job, arguments in jobs.items()}
    work = {keys[job]: partial(_regrets, *arguments) for job, arguments in jobs.items()}
    known = memo.fill(work, meter, "Every machine")
    of = {job: known[key] for job, key in keys.items()}
    subject = governors[0].label
    results = [(one, name, of[one.kind, one.names, name]) for one in found for name in names]
    _judge(section, subject, results, refused)
    _list(section, subject, results)
    return section
