# SPDX-License-Identifier: GPL-2.0
"""Worth of each part of the algorithm: a step removed, or a tunable moved, at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.tables import Cell, Section, Table, show
from cpuidle_lab.replay.candidates import MAINLINE, Candidate, parse
from cpuidle_lab.replay.library import TunableInfo
from cpuidle_lab.states.table import StateTable
from experiments.memo import Memo
from experiments.wteo import mechanisms
from experiments.wteo.steps_lab import InLab
from experiments.wteo.streams import AS_TOLD, SYNTH, StudyIntervals, Twist, grouped, play_all

PART = "ablation"
TITLE = "Ablations"

# Values of tunables that are known by name; others have all names, or values near the default.
AXES: dict[str, Sequence[str]] = {
    "learning_rate": ("5", "10", "25", "50", "100", "200", "400"),
    "half_life_ms": ("0", "100", "1000", "10000", "60000", "3600000"),
    "history_size": ("0", "8", "16", "32"),
}

# They change what is random, or who wins what: not a part of the algorithm.
_SKIPPED = ("seed", "latency_bias")


@dataclass(frozen=True)
class _Setting:
    value: str
    label: str
    twist: Twist = AS_TOLD


@dataclass(frozen=True)
class Axis:
    """A tunable and what it is set to.

    Attributes:
        name: of the tunable.
        values: as given on the command line.
        default: the one of them that is the default, "" if none is.
    """

    name: str
    values: Sequence[str]
    default: str


def _accepts(tunable: TunableInfo, text: str) -> bool:
    if tunable.names:
        return text in tunable.names
    return text.isdecimal() and tunable.min <= int(text) <= tunable.max


def _around(tunable: TunableInfo) -> list[str]:
    """Return values around the default, the least one too."""
    least, usual = tunable.min, tunable.default
    values = {least, usual // 4, usual // 2, usual, 2 * usual, 4 * usual}
    return [str(value) for value in sorted(values)]


def _axis(tunable: TunableInfo) -> Axis | None:
    wanted = AXES.get(tunable.name) or tunable.names or _around(tunable)
    values = [text for text in wanted if _accepts(tunable, text)]
    default = tunable.names[tunable.default] if tunable.names else str(tunable.default)
    if default not in values:
        values.append(default)
        if not tunable.names:
            values.sort(key=int)
    return Axis(tunable.name, values, default) if len(values) > 1 else None


def axes(who: Candidate) -> list[Axis]:
    """Return the tunables that can be moved."""
    moved = (_axis(each) for each in who.governor.tunables if each.name not in _SKIPPED)
    return [one for one in moved if one]


def _tables(subject: str, axes: Sequence[Axis]) -> list[tuple[str, list[_Setting], str]]:
    """Return what is moved, what it is set to, and which of these is the default."""
    found = [
        (axis.name, [_Setting(value, f"{subject}:{axis.name}={value}") for value in axis.values],
         axis.default)
        for axis in axes
    ]  # fmt: skip
    ends = [
        _Setting("events", subject),
        _Setting("tick and polling, too", subject, Twist(conceals=True)),
    ]
    return [*found, ("what ends an interval", ends, ends[0].value)]


def measure(
    subject: str, streams: Sequence[StudyIntervals], machines: Mapping[str, StateTable], memo: Memo,
    meter: Meter, in_lab: InLab,
) -> Section:  # fmt: skip
    """Remove each step, and measure each value of each tunable.

    Args:
        subject: the governor that is judged.
        streams: the suite and the corpus.
        machines: the state tables, by name.
        memo: where figures are kept.
        meter: shows progress.
        in_lab: what runs there without a step.
    """
    section = Section(PART, TITLE)
    mechanisms.measure(section, subject, streams, machines, memo, meter, in_lab)
    tables = _tables(subject, axes(parse(subject, False)[0]))
    references = [_Setting("", label) for label in MAINLINE]
    cases = [*references, *(case for _, cases, _ in tables for case in cases)]
    parsed = {case.label: parse(case.label, False)[0] for case in cases}
    jobs = [(s, parsed[case.label], case.twist) for case in cases for s in streams]
    figures = iter(play_all(jobs, memo, meter, "Ablations"))
    regret = {case: {s: next(figures).regret for s in streams} for case in cases}
    places = [
        (table if group == SYNTH else "corpus", mine) for group, table, mine in grouped(streams)
    ]
    better = {s: min(regret[case][s] for case in references) for s in streams}
    data = []
    for name, row_cases, default in tables:
        rows: list[list[Cell]] = []
        for case in row_cases:
            of = regret[case]
            means = [fmean(of[s] for s in members) for _, members in places]
            worst = max(streams, key=lambda s: of[s] - better[s])
            value = f"{case.value} (default)" if case.value == default else case.value
            harm = f"{show(of[worst] - better[worst], 1)} on {worst.table} {worst.name}"
            rows.append([value, *means, harm])
            data.append({
                "tunable": name, "value": case.value, "default": case.value == default,
                "regret": dict(zip((place for place, _ in places), means, strict=True)),
            })  # fmt: skip
        heads = (name, *(f"{place} %" for place, _ in places), "most above the better mainline")
        section.tables.append(Table(f"Mean regret by {name}", heads, rows))
    section.data["values"] = data
    return section
