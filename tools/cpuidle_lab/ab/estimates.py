# SPDX-License-Identifier: GPL-2.0
"""From a session's runs to figures and comparisons."""

from collections.abc import Callable
from dataclasses import dataclass

from cpuidle_lab.ab.record import Run, Session
from cpuidle_lab.base.resampling import FEWEST, Estimate, Kind, compare, estimate
from cpuidle_lab.host import energy

# A RAPL counter moves every millisecond; below this time that is a per mille of a run.
_SHORT_S = 1.0

LESS, MORE, NONE, UNKNOWN = "less", "more", "none", "unknown"

METRIC = "metric"

_LOWER, _HIGHER = "lower", "higher"

Value = Callable[[Run], float | None]


@dataclass(frozen=True)
class Figure:
    """Something that is measured in every run.

    Attributes:
        key: its name in JSON.
        label: its name in a table.
        unit: of its values.
        kind: how governors are compared.
        better: which values are: higher, lower, or "" for neither.
        claim: the sentence, with {b} and {a} for the governors and {change} for "3 % less"; "" if
            the table is enough.
        value: takes it from a run; None if the run does not have it.
    """

    key: str
    label: str
    unit: str
    kind: Kind
    better: str
    claim: str
    value: Value


@dataclass(frozen=True)
class Comparison:
    """One figure of one governor against the first one's.

    Attributes:
        figure: the figure.
        governor: the governor.
        reference: the first governor.
        change: mean change, in % or, for shares, in points; with it its interval. None if the
            values cannot be compared.
        verdict: LESS or MORE if the interval excludes no change, NONE if it does not, UNKNOWN
            without an interval.
        is_better: whether that is good; None if there is no difference, or neither is.
    """

    figure: Figure
    governor: str
    reference: str
    change: Estimate | None
    verdict: str
    is_better: bool | None


@dataclass(frozen=True)
class Summary:
    """Estimates and comparisons of a session.

    Attributes:
        figures: those that at least one complete round has for every governor.
        estimates: mean, median and interval by the figure's key and governor.
        comparisons: of every other governor with the first one.
        rounds: complete rounds.
        notes: what to know about them.
    """

    figures: list[Figure]
    estimates: dict[tuple[str, str], Estimate]
    comparisons: list[Comparison]
    rounds: int
    notes: list[str]


# The figures.


def _total(key: str, scale: float) -> Value:
    def value(run: Run) -> float | None:
        total = energy.totals(run.zones)[key]
        return None if total is None else total * scale

    return value


def _zone(name: str) -> Value:
    def value(run: Run) -> float | None:
        found = [zone.energy_mj for zone in run.zones if zone.zone == name]
        return found[0] / 1e3 if found and found[0] is not None else None

    return value


def _entries(run: Run) -> float | None:
    if not run.idle or not run.wall_s:
        return None
    return sum(state.usage for state in run.idle) / run.wall_s


def _wrong(attribute: str) -> Value:
    def value(run: Run) -> float | None:
        counts = [getattr(state, attribute) for state in run.idle or ()]
        entries = sum(state.usage for state in run.idle or ())
        return 100 * sum(counts) / entries if entries and None not in counts else None

    return value


def _residency(name: str) -> Value:
    def value(run: Run) -> float | None:
        if run.idle is None or not run.wall_s or not run.cpus:
            return None
        time_us = sum(state.time_us for state in run.idle if state.name == name)
        return 100 * time_us / (run.wall_s * 1e6 * run.cpus)

    return value


def _energy_figures(session: Session) -> list[Figure]:
    used = "{b} used {change} %s energy than {a}"
    figures = [
        Figure(
            "measured_j", "package energy", "J", Kind.RATIO, _LOWER, used % "package",
            _total("measured_mj", 1e-3),
        ),
        Figure(
            "measured_w", "package power", "W", Kind.RATIO, _LOWER, "",
            _total("measured_mw", 1e-3),
        ),
        Figure(
            "emulated_j", "emulated energy", "J", Kind.RATIO, _LOWER, used % "emulated",
            _total("emulated_mj", 1e-3),
        ),
        Figure(
            "emulated_w", "emulated power", "W", Kind.RATIO, _LOWER, "",
            _total("emulated_mw", 1e-3),
        ),
    ]  # fmt: skip
    zones = {zone.zone: zone for run in session.runs for zone in run.zones}
    measured = [zone for zone in zones.values() if zone.role == energy.MEASURED]
    single = [zone for zone in measured if len(measured) > 1]
    single += [zone for zone in zones.values() if zone.role in (energy.PART, energy.PLATFORM)]
    for zone in sorted(single, key=lambda zone: zone.zone):
        label = f"{zone.name} energy ({zone.zone})"
        key = f"zone_{zone.zone}_j"
        figures.append(Figure(key, label, "J", Kind.RATIO, _LOWER, "", _zone(zone.zone)))
    return figures


def _idle_figures(session: Session) -> list[Figure]:
    names = dict.fromkeys(state.name for run in session.runs for state in run.idle or ())
    share = Kind.DIFFERENCE
    return [
        Figure("entries_per_s", "idle entries", "/s", Kind.RATIO, "", "", _entries),
        Figure("above", "entered too deep (above)", "%", share, _LOWER, "", _wrong("above")),
        Figure("below", "entered too shallow (below)", "%", share, _LOWER, "", _wrong("below")),
        *(
            Figure(f"time_{name}", f"time in {name}", "%", share, "", "", _residency(name))
            for name in names
        ),
    ]


def figures(session: Session) -> list[Figure]:
    """Return all figures that a session may have."""
    plan = session.head["plan"]
    work: list[Figure] = []
    if plan["command"]:
        work = [
            Figure(
                "wall_s", "wall time", "s", Kind.RATIO, _LOWER,
                "{b} took {change} time than {a}", lambda run: run.wall_s,
            ),
            Figure(
                METRIC, "metric", "", Kind.RATIO, plan["better"],
                "the metric was {change} under {b} than under {a}", lambda run: run.metric,
            ),
        ]  # fmt: skip
    return [*_energy_figures(session), *work, *_idle_figures(session)]


# The comparisons.


def _change(base: list[float], other: list[float], kind: Kind, seed: int) -> Estimate | None:
    """Compare as `resampling.compare`, but in % or points, so that 0 is no change."""
    found = compare(base, other, kind, seed)
    if found is None or kind is Kind.DIFFERENCE:
        return found

    def percent(ratio: float) -> float:
        return 100 * (ratio - 1)

    return Estimate(
        found.count,
        percent(found.mean),
        percent(found.median),
        None if found.low is None else percent(found.low),
        None if found.high is None else percent(found.high),
    )


def _compare(figure: Figure, governor: str, reference: str, change: Estimate | None) -> Comparison:
    if change is None or change.low is None:
        return Comparison(figure, governor, reference, change, UNKNOWN, None)
    if not change.excludes(0):
        return Comparison(figure, governor, reference, change, NONE, None)
    verdict = MORE if change.mean > 0 else LESS
    good = MORE if figure.better == _HIGHER else LESS
    is_better = verdict == good if figure.better else None
    return Comparison(figure, governor, reference, change, verdict, is_better)


def _pairs(session: Session, figure: Figure) -> dict[str, list[float]]:
    """Return the values by governor, of the rounds in which all of them have one."""
    values: dict[str, list[float]] = {name: [] for name in session.governors}
    for runs in session.rounds:
        found = {name: figure.value(runs[name]) for name in session.governors}
        for name, value in found.items():
            if value is not None and None not in found.values():
                values[name].append(value)
    return values


def _notes(session: Session, shown: list[Figure], values: dict[str, int]) -> list[str]:
    plan, end = session.head["plan"], session.end
    notes = [str(warning) for warning in session.head["warnings"]]
    rounds = len(session.rounds)
    if rounds < plan["rounds"]:
        notes.append(f"{rounds} of {plan['rounds']} rounds are complete; the others do not count")
    if rounds < FEWEST:
        notes.append(f"with fewer than {FEWEST} rounds there are no intervals, so nothing is shown")
    changed = ", ".join(map(str, (end or {}).get("changed", [])))
    if changed:
        notes.append(f"the machine was changed meanwhile: {changed}")
    unread = sorted({zone for run in session.runs for zone in run.unread})
    if unread:
        notes.append(f"no energy of {', '.join(unread)}: cannot be read")
    keys = {figure.key for figure in shown}
    if not keys & {"measured_j", "emulated_j"}:
        notes.append("there is no energy counter that covers a package")
    if "emulated_j" in keys:
        notes.append("emulated energy comes from a table: it says nothing about real hardware")
    if "measured_j" in keys and min(run.wall_s for run in session.runs) < _SHORT_S:
        notes.append("some runs are shorter than 1 s: too short for the energy counters")
    for figure in shown:
        if values[figure.key] < rounds:
            notes.append(f"{figure.label}: known in {values[figure.key]} of {rounds} rounds only")
    return notes


def summarize(session: Session) -> Summary:
    """Return what a session says; only complete rounds count."""
    reference, *others = session.governors
    seed = int(session.head["plan"]["seed"])
    shown: list[Figure] = []
    counts: dict[str, int] = {}
    estimates: dict[tuple[str, str], Estimate] = {}
    comparisons: list[Comparison] = []
    for figure in figures(session):
        values = _pairs(session, figure)
        counts[figure.key] = len(values[reference])
        if not values[reference]:
            continue
        shown.append(figure)
        for name in session.governors:
            estimates[figure.key, name] = estimate(values[name], seed)
        for name in others:
            change = _change(values[reference], values[name], figure.kind, seed)
            comparisons.append(_compare(figure, name, reference, change))
    notes = _notes(session, shown, counts)
    return Summary(shown, estimates, comparisons, len(session.rounds), notes)
