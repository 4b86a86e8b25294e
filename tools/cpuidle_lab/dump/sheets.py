# SPDX-License-Identifier: GPL-2.0
"""The tables of a comparison as text, for terminal, mail and page alike."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cpuidle_lab.dump import groups
from cpuidle_lab.dump.figures import METRICS, WITHIN, Metric, Row, Value, difference
from cpuidle_lab.dump.report import Report

# Columns of the tables by state, in the order of reviewers: of counts, then of times.
OVERALL = ("idles", "idle_miss", "ratio", "belows", "aboves")
TIMES = ("time_s", "mean_us", "per_s", "paid_s", "rejected")
STATES = ("idles", "entries", "time", "mean_us", "ratio")
MISSES = ("belows", "aboves", "rejected", "per_s", "paid_s")
# Differences that are shown: of all states, of each.
CHANGES_ALL = ("idles", "time_s", "mean_us", "ratio", "aboves", "belows", "per_s", "paid_s")
CHANGES = ("entries", "time", "mean_us", "ratio", "rejected")

ABSENT = "-"


@dataclass(frozen=True)
class Sheet:
    """A table.

    Attributes:
        title: above it.
        heads: of the columns.
        rows: cells.
        left: columns whose text stands at the left.
        notes: below it.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int
    notes: tuple[str, ...] = ()


def letter(at: int) -> str:
    """Return the name of a side in tables: A, B, ..., then numbers."""
    return chr(ord("A") + at) if at < 26 else str(at + 1)


def heading(metric: Metric) -> str:
    """Return the heading of a figure: its unit stands in its name, or behind it."""
    return f"{metric.key} %" if metric.unit == "%" else metric.key


def number(value: float, digits: int) -> str:
    """Return a figure; one that would show as 0 and is not has a digit more."""
    text = f"{value:.{digits}f}"
    if value and not float(text):
        return f"{value:.1g}" if abs(value) >= 1e-6 else f"{value:.0e}"
    return text


def cell(metric: Metric, value: Value) -> str:
    """Return a figure with its spread, or a dash."""
    if value.mean is None:
        return ABSENT
    text = number(value.mean, metric.digits)
    return text if value.spread is None else f"{text}+-{number(value.spread, metric.digits)}"


def _reasons(rows: Sequence[Row], keys: Sequence[str]) -> tuple[str, ...]:
    """Return the reasons for dashes, those that the table shows itself left out."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        for key in keys:
            for value in row.values[key]:
                if value.why and not value.why.startswith("there is no"):
                    found.setdefault(value.why, {}).setdefault(key)
    return tuple(f"{ABSENT} {', '.join(keys)}: {why}" for why, keys in found.items())


def _sheet(title: str, first: str, rows: Sequence[Row], names: Sequence[str],
           keys: Sequence[str], count: int) -> Sheet:  # fmt: skip
    """Return a table with a line for each row and side.

    Args:
        title: above it.
        first: heading of the first column.
        rows: of the figures.
        names: text of the first column.
        keys: of the other columns.
        count: of sides.
    """
    lines = [
        (name, letter(at), *(cell(METRICS[key], row.values[key][at]) for key in keys))
        for name, row in zip(names, rows, strict=True)
        for at in range(count)
    ]
    if count == 1:
        lines = [(line[0], *line[2:]) for line in lines]
    heads = tuple(heading(METRICS[key]) for key in keys)
    side = ("side",) if count > 1 else ()
    return Sheet(title, (first, *side, *heads), tuple(lines), 1 + len(side), _reasons(rows, keys))


def overall(report: Report) -> Iterator[Sheet]:
    """Yield the tables of the sums over all states: of all CPUs, by type, by package."""
    rows = [row for row in report.rows if row.state == groups.EVERY and row.kind != groups.CPU]
    names = [row.title for row in rows]
    yield _sheet("Idle periods and misses", "CPUs", rows, names, OVERALL, len(report.sides))
    yield _sheet("Idle time", "CPUs", rows, names, TIMES, len(report.sides))


def by_state(report: Report, kinds: Sequence[str]) -> Iterator[Sheet]:
    """Yield the tables by state of the groups of some kinds."""
    wanted: dict[tuple[str, str], list[Row]] = {}
    for row in report.rows:
        if row.kind in kinds:
            wanted.setdefault((row.kind, row.group), []).append(row)
    for rows in wanted.values():
        title = rows[0].title
        title = f"{title[0].upper()}{title[1:]}, by idle state"
        names = [row.state for row in rows]
        for part, keys in enumerate((STATES, MISSES)):
            yield _sheet("" if part else title, "state", rows, names, keys, len(report.sides))


def changes(report: Report) -> Iterator[Sheet]:
    """Yield the differences of each other side from the first, for all CPUs."""
    if not report.comparable:
        return
    rows = [row for row in report.rows if row.kind == groups.ALL]
    for at in range(1, len(report.sides)):
        lines = []
        for row in sorted(rows, key=lambda row: row.state != groups.EVERY):
            for key in CHANGES_ALL if row.state == groups.EVERY else CHANGES:
                metric = METRICS[key]
                one, other = row.values[key][0], row.values[key][at]
                found = difference(metric, one, other)
                if found is None or (one.mean == other.mean == 0):
                    continue
                sign = "+" if found.change > 0 else ""
                change = sign + number(found.change, metric.digits)
                if metric.unit != "%" and found.percent is not None:
                    change = f"{found.percent:+.1f} %"
                word = WITHIN if found.verdict == WITHIN else found.word
                lines.append((row.state, heading(metric), cell(metric, one), cell(metric, other),
                              change, word))  # fmt: skip
        title = f"{letter(at)} less A: {report.sides[at].name} less {report.sides[0].name}"
        heads = ("state", "figure", "A", letter(at), "change", "meaning")
        note = "change: points of figures in percent, else percent of A"
        yield Sheet(title, heads, tuple(lines), 2, (note,))


def spent(report: Report) -> Iterator[Sheet]:
    """Yield the table of energies and other residencies, if there are any."""
    if report.extras:
        lines = []
        for (name, unit), values in report.extras.items():
            cells = [ABSENT if v.mean is None else number(v.mean, 3) for v in values]
            lines.append((name, unit, *cells))
        heads = ("counter", "unit", *(letter(at) for at in range(len(report.sides))))
        yield Sheet("Energies and residencies of packages and domains", heads, tuple(lines), 2)


def sides(report: Report) -> list[str]:
    """Return a line on each side: name, CPUs, runs, length."""
    found = []
    for at, side in enumerate(report.sides):
        known = [period.seconds for period in side.periods]
        seconds = [each for each in known if each is not None]
        length = f", {sum(seconds):.1f} s" if len(seconds) == len(known) else ""
        runs = len(side.periods)
        ends = [period.end for period in side.periods if period.end]
        driver = next((f", {end.driver}" for end in ends if end.driver), "")
        governor = next((f", {end.governor}" for end in ends if end.governor), "")
        found.append(
            f"{letter(at)}: {side.name}: {len(side.periods[0].cpus)} CPUs, {runs} "
            f"run{'s' if runs > 1 else ''}{length}{driver}{governor}"
        )
    return found


def warnings(report: Report) -> list[str]:
    """Return the warnings, each once, with the sides that it is on where not all have it."""
    found: dict[str, list[str]] = {}
    for at, warned in enumerate(report.warnings):
        for warn in warned:
            found.setdefault(warn.text, []).append(letter(at))
    count = len(report.sides)
    return [text if len(on) == count else f"{', '.join(on)}: {text}" for text, on in found.items()]
