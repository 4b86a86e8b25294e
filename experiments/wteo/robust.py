# SPDX-License-Identifier: GPL-2.0
"""Target 5: wrong power figures, odd state tables, and drivers that do not do as they are told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.tables import Cell, Section, Table, verdict
from cpuidle_lab.recording import state_tables
from cpuidle_lab.replay.candidates import Candidate, parse
from cpuidle_lab.states.linux_source import NEWEST
from cpuidle_lab.states.table import StateTable
from experiments.memo import Memo
from experiments.wteo.streams import (
    AS_TOLD,
    HZ,
    Figures,
    StudyIntervals,
    Twist,
    laws,
    play_all,
    shortened,
    suite,
)
from experiments.wteo.streams import synthetic as make

PART = "robust"
TITLE = "Wrong powers, odd state tables, drivers that do something else"

REFERENCE = f"teo@{NEWEST}"

# The promises: points of mean regret by wrong powers; points above the reference on a stream.
POWER_POINTS = 5.0
HARM_POINTS = 2.0

_US = 1000
_MANY = 32

# Powers that the governor is told: all wrong alike, and wrong against each other.
RIGHT = Twist(powers=(1.0,))
ALIKE: dict[str, Twist] = {
    "not given (default)": AS_TOLD,
    "all halved": Twist(powers=(0.5,)),
    "all doubled": Twist(powers=(2.0,)),
    "unknown": Twist(powers=(0.0,)),
}
CONTRARY: dict[str, Twist] = {
    "polling state halved": Twist(powers=(0.5, 1.0)),
    "polling state doubled": Twist(powers=(2.0, 1.0)),
    "every other halved": Twist(powers=(1.0, 0.5) * _MANY),
    "every other doubled": Twist(powers=(1.0, 2.0) * _MANY),
    "deep states doubled": Twist(powers=(1.0, 1.0, 1.0, 2.0)),
    "deep states halved": Twist(powers=(1.0, 1.0, 1.0, 0.5)),
}


@dataclass(frozen=True)
class Odd:
    """A machine that is not as others.

    Attributes:
        name: of the case.
        streams: what is played on it.
        twist: what the driver does.
    """

    name: str
    streams: Sequence[StudyIntervals]
    twist: Twist = AS_TOLD


def equal_residencies(machine: StateTable, pays_ns: int) -> StateTable:
    """Return a machine whose states, but for the polling one, pay from the same time on."""
    return replace(
        machine,
        target_residency_ns=(0, *(pays_ns for _ in machine.names[1:])),
    )


def without_polling(machine: StateTable) -> StateTable:
    """Return a machine whose shallowest state is the first that does not poll."""
    return replace(
        machine,
        names=machine.names[1:],
        exit_latency_ns=machine.exit_latency_ns[1:],
        target_residency_ns=(0, *machine.target_residency_ns[2:]),
        power_uw=machine.power_uw[1:],
        polling=machine.polling[1:],
    )


def without(streams: Sequence[StudyIntervals], disabled: int) -> list[StudyIntervals]:
    """Return the streams with some states disabled, bit k for state k."""
    found = []
    for stream in streams:
        part = dict(stream.intervals[0])
        part["disabled"] = np.full_like(part["disabled"], disabled)
        found.append(replace(stream, intervals={0: part}))
    return found


def _driver(deepest: int) -> Mapping[str, Twist]:
    last, before = 1 << deepest, 1 << (deepest - 1)
    return {
        "deepest demoted always": Twist(demoted=last, every=1),
        "deepest demoted every other time": Twist(demoted=last, every=2),
        "deepest two demoted always": Twist(demoted=last | before, every=1),
        "deepest rejected every other time": Twist(rejected=last, every=2),
        "all rejected one in ten": Twist(rejected=(2 << deepest) - 2, every=10),
    }


def odd_cases(table: str, count: int, names: Sequence[str]) -> list[Odd]:
    """Return the odd machines that are made of one of the emulator's."""
    machine = state_tables.find(table, HZ)
    plain = suite([table], count, laws(names))
    deepest = machine.count - 1
    tables = {
        "equal residencies": equal_residencies(machine, 200 * _US),
        "no polling state": without_polling(machine),
        "two states": shortened(machine, 2),
    }
    found = [
        *(
            Odd(name, [make(law, odd, table, count) for law in laws(names)])
            for name, odd in tables.items()
        ),
        *(Odd(f"{name} disabled", without(plain, 1 << k)) for k, name in enumerate(machine.names)),
        Odd("all but the deepest disabled", without(plain, (1 << deepest) - 1)),
        *(Odd(name, plain, twist) for name, twist in _driver(deepest).items()),
    ]  # fmt: skip
    return [replace(odd, name=f"{table}: {odd.name}") for odd in found]


def _powers(
    section: Section, mine: Candidate, streams: Sequence[StudyIntervals], memo: Memo, meter: Meter
) -> None:
    twists = {"as they are": RIGHT, **ALIKE, **CONTRARY}
    jobs = [(stream, mine, twist) for twist in twists.values() for stream in streams]
    figures = iter(play_all(jobs, memo, meter, "Wrong powers"))
    regrets = {name: {s: next(figures).regret for s in streams} for name in twists}
    tables = list(dict.fromkeys(stream.table for stream in streams))
    means = {
        (name, table): fmean(r for s, r in of.items() if s.table == table)
        for name, of in regrets.items()
        for table in tables
    }
    rows: list[list[Cell]] = [[name, *(means[name, table] for table in tables)] for name in twists]
    title = "Mean regret in %, by the powers that the governor is told"
    note = "Told by the machine; a governor that reads no powers has the same regret in each row."
    section.tables.append(Table(title, ("powers", *tables), rows, 1, note))
    section.data["powers"] = [
        {"powers": name, "table": table, "regret": mean} for (name, table), mean in means.items()
    ]
    worse = {key: mean - means["as they are", key[1]] for key, mean in means.items()}
    for title, members in (("halved, doubled or unknown", ALIKE), ("that contradict", CONTRARY)):
        worst = max((key for key in worse if key[0] in members), key=lambda key: worse[key])
        promise = f"powers {title} cost at most {POWER_POINTS:.0f} points of mean regret"
        most = f"{worse[worst]:+.1f} at worst ({worst[1]}, {worst[0]})"
        section.verdicts.append(verdict(worse[worst] <= POWER_POINTS, promise, most))


def _odd(section: Section, mine: Candidate, cases: Sequence[Odd], memo: Memo, meter: Meter) -> None:
    reference = parse(REFERENCE, False)[0]
    jobs = [(s, who, odd.twist) for odd in cases for s in odd.streams for who in (mine, reference)]
    figures = iter(play_all(jobs, memo, meter, "Odd machines"))
    rows: list[list[Cell]] = []
    data = []
    over: list[tuple[float, str, str]] = []
    for odd in cases:
        pairs: list[tuple[StudyIntervals, Figures, Figures]] = [
            (stream, next(figures), next(figures)) for stream in odd.streams
        ]
        worse = [(ours.regret - teo.regret, odd.name, s.name) for s, ours, teo in pairs]
        over += [one for one in worse if one[0] > HARM_POINTS]
        worst = max(worse)
        means = (fmean(ours.regret for _, ours, _ in pairs), fmean(t.regret for _, _, t in pairs))
        rows.append([odd.name, *means, worst[0], worst[2]])
        data += [
            {"case": odd.name, "stream": s.name, "mine": a.regret, "reference": b.regret}
            for s, a, b in pairs
        ]
    heads = ("machine", f"{mine.label} %", f"{REFERENCE} %", "most above", "on")
    note = (
        "Mean regret over the streams, and the stream on which it is most above the reference. The "
        "oracle's driver enters what was chosen, so part of the regret of the last cases could not "
        "be avoided."
    )
    section.tables.append(Table("Odd machines", heads, rows, 1, note))
    section.data["odd"] = data
    promise = f"on odd machines never more than {HARM_POINTS:.0f} points above {REFERENCE}"
    figures_ = f"{len(over)} of {len(data)} streams exceed it"
    if over:
        most = max(over)
        figures_ += f", worst {most[0]:+.1f} ({most[1]}, {most[2]})"
    section.verdicts.append(verdict(not over, promise, figures_))


def measure(
    subject: str,
    tables: Sequence[str],
    names: Sequence[str],
    count: int,
    memo: Memo,
    meter: Meter,
) -> Section:
    """Measure target 5.

    Args:
        subject: the governor that is judged.
        tables: names of the emulator's machines.
        names: of synth's streams.
        count: intervals of each.
        memo: where figures are kept.
        meter: shows progress.
    """
    section = Section(PART, TITLE)
    mine = parse(subject, False)[0]
    _powers(section, mine, suite(tables, count, laws(names)), memo, meter)
    cases = [odd for table in tables for odd in odd_cases(table, count, names)]
    _odd(section, mine, cases, memo, meter)
    return section
