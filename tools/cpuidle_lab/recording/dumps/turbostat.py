# SPDX-License-Identifier: GPL-2.0
"""Text of turbostat: entries and residencies of idle states over its intervals.

A column NAME counts the entries of a state, NAME% its share of time, NAME+ entries that were too
shallow (below), NAME- those that were too deep (above). Counters of the hardware (CPU%c6, Pkg%pc6)
are other things and are left out. A header begins each interval. Rows without a CPU are sums.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording.dumps.model import Interval, Span

# The columns of CPUs that are not of idle states, by the fact that they tell.
_FACTS = {"Package": "topology/physical_package_id", "Core": "topology/core_id"}
_SECONDS = re.compile(r"(\d+\.\d+) sec")


@dataclass
class _Sums:
    """Sums over the intervals of one CPU's state; None is unknown."""

    entries: int
    percent: float
    above: int | None
    below: int | None


def _states(heads: Sequence[str]) -> list[str]:
    """Return the names with a column of entries and one of residency."""
    return [head for head in heads if f"{head}%" in heads and "%" not in head]


def _is_header(words: Sequence[str]) -> bool:
    return ("CPU" in words or "Busy%" in words) and bool(_states(words))


def count(lines: Sequence[str]) -> int:
    """Return how many headers with residencies of idle states there are."""
    return sum(_is_header(line.split()) for line in lines)


_Row = dict[str, str]


def _is_cell(word: str) -> bool:
    return bool(re.fullmatch(r"-|(?:0x)?[\da-fA-F]+|\d+\.\d+(?:e[+-]?\d+)?", word))


def _intervals(lines: Sequence[str]) -> list[dict[int, _Row]]:
    """Return the rows of single CPUs of each interval."""
    found: list[dict[int, _Row]] = []
    heads: list[str] = []
    sums = 0
    for line in lines:
        words = line.split()
        if _is_header(words):
            heads, sums = words, 0
            found.append({})
        elif heads and len(words) == len(heads) and all(map(_is_cell, words)):
            row = dict(zip(heads, words, strict=True))
            is_sum = not row.get("CPU", "-").isdecimal()
            sums += is_sum
            # A later version of turbostat prints its header once.
            if (is_sum and sums > 1) or (not is_sum and int(row["CPU"]) in found[-1]):
                found.append({})
                sums = int(is_sum)
            if not is_sum:
                found[-1][int(row["CPU"])] = row
    return [interval for interval in found if interval]


def _sum(rows: Sequence[_Row], name: str) -> _Sums:
    def total(suffix: str) -> int | None:
        known = [row[name + suffix] for row in rows if name + suffix in row]
        return sum(map(int, known)) if len(known) == len(rows) else None

    percent = sum(float(row[f"{name}%"]) for row in rows)
    return _Sums(total("") or 0, percent, total("-"), total("+"))


def _seconds(lines: Sequence[str], whole: Sequence[dict[int, _Row]], lost: int) -> float | None:
    """Return the length of all intervals; None if no column or line tells it."""
    rows = [row for interval in whole for row in interval.values()]
    if all("usec" in row for row in rows):
        return sum(float(row["usec"]) for row in rows) / 1e6 / len(whole[0])
    told = [float(found[1]) for line in lines if (found := _SECONDS.fullmatch(line))]
    return told[0] if len(told) == len(whole) == 1 and not lost else None


def read(lines: Sequence[str]) -> Interval:
    """Return the sum of all intervals.

    Args:
        lines: of the text.

    Raises:
        UserError: it has no rows of single CPUs, or a column is no number.
    """
    found = _intervals(lines)
    if not found:
        raise UserError("is text of turbostat without rows of single CPUs: leave out --Summary")
    cpus = {cpu for interval in found for cpu in interval}
    names = {tuple(_states(list(row))) for interval in found for row in interval.values()}
    states = min(names)
    if len(names) > 1:
        raise UserError("is text of turbostat whose headers differ")
    whole = [interval for interval in found if interval.keys() == cpus]
    if not whole:
        raise UserError("is text of turbostat with CPUs missing in each interval")
    lost = len(found) - len(whole)
    notes = [f"{lost} of {len(found)} intervals are left out: CPUs are missing"] if lost else []
    try:
        seconds = _seconds(lines, whole, lost)
        if not seconds:
            notes.append("turbostat does not tell the length of its intervals (column usec)")
        scale = (seconds * 1e6 / len(whole) if seconds else 1.0) / 100
        spans = {cpu: _spans([each[cpu] for each in whole], states, scale) for cpu in sorted(cpus)}
    except ValueError:
        raise UserError("is text of turbostat with a column that is no number") from None
    facts = {
        cpu: {_FACTS[head]: text for head, text in row.items() if head in _FACTS}
        for cpu, row in whole[0].items()
    }
    return Interval(spans, facts, seconds or None, tuple(notes))


def _spans(rows: Sequence[_Row], names: Sequence[str], scale: float) -> tuple[Span, ...]:
    sums = [(name, _sum(rows, name)) for name in names]
    return tuple(
        Span(name, each.entries, each.percent * scale, each.above, each.below)
        for name, each in sums
    )
