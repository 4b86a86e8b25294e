# SPDX-License-Identifier: GPL-2.0
"""From results to figures. What they mean is said in metrics.yaml, once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cpuidle_lab.base import resampling
from cpuidle_lab.compare.model import COUNTED_INTERVALS, Comparison, Result
from cpuidle_lab.compare.sources import Source
from cpuidle_lab.figures import invariants, metrics, told, withheld
from cpuidle_lab.figures.group import FEW_INTERVALS
from cpuidle_lab.figures.metrics import Metric
from cpuidle_lab.recording.columns import CPU_IDLE
from cpuidle_lab.recording.trace import losses
from cpuidle_lab.replay.candidates import (
    BAYES,
    BEST_KIND,
    BEST_MAINLINE,
    LIMIT_KIND,
    MAINLINE,
    OWN_KIND,
    RECORDED_KIND,
)
from cpuidle_lab.replay.recorded import RECORDED
from cpuidle_lab.states import newest

# Of the resampling.
_SEED = 1

# Shares of wake-ups that differ by less are equal: sums of floating-point numbers.
_SAME = 1e-6

# Percentage points that can be seen in the tables.
_WORSE = 0.05

# The figures of one governor on one recording.
KEYS = (
    "regret",
    "regret_least",
    "regret_most",
    "power_mw",
    "latency_p50_us",
    "latency_p99_us",
    "latency_max_us",
    "above",
    "below",
    "tick_wakeups",
    "asked",
    "instructions",
    "decisions_per_interval",
    "intervals",
    "skipped",
)


def definitions() -> dict[str, Metric]:
    """Return every figure by its key, in the order of metrics.yaml."""
    return metrics.definitions("compare")


def show(key: str, value: float | None) -> str:
    """Return a figure as text, "?" if it is unknown."""
    if value is None:
        return "?"
    text = definitions()[key].show(value)
    return text.removeprefix("-") if not any(digit in text for digit in "123456789") else text


def show_range(low: float | None, high: float | None) -> str:
    """Return two regrets as text, "" if they are unknown."""
    return "" if low is None else f"{show('regret', low)} to {show('regret', high)}"


def show_regret(result: Result) -> str:
    """Return a regret as text: a range where the recording leaves it open, "?" if unknown."""
    low, high = result.span or (None, None)
    one, other = show("regret", low), show("regret", high)
    return one if one == other else show_range(low, high)


def is_told(one: Result, other: Result) -> bool:
    """Tell whether the order of two governors is told by a recording.

    It is not where a regret is unknown. Where interrupts tell of sleep lengths, the ranges must be
    apart.
    """
    if one.span is None or other.span is None:
        return False
    if not (one.far or other.far):
        return True
    least = told.least_gap(one.doubt, other.doubt)
    return one.span[1] + least < other.span[0] or other.span[1] + least < one.span[0]


def untold(comparison: Comparison, source: Source) -> list[tuple[str, str]]:
    """Return the pairs of governors with regrets whose order a recording does not tell.

    The limits and the best mainline governor are in none.
    """
    real = [
        item
        for item in comparison.of_trace(source.label)
        if item.kind not in (BEST_KIND, LIMIT_KIND) and item.span
    ]
    return [
        (one.label, other.label)
        for n, one in enumerate(real)
        for other in real[n + 1 :]
        if not is_told(one, other)
    ]


def _percent(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None


def values(result: Result) -> dict[str, float | None]:
    """Return the figures of one governor on one recording, by the keys of KEYS."""
    if result.broken:
        return dict.fromkeys(KEYS)
    outcome = result.outcome
    rows = outcome.intervals + outcome.skipped
    low, high = result.span or (None, None)
    is_fact = result.kind == RECORDED_KIND
    return {
        "regret": result.regret,
        "regret_least": low,
        "regret_most": high,
        "power_mw": None
        if result.guessed or not outcome.idle_ns
        else outcome.cost_pj / outcome.idle_ns,
        "latency_p50_us": outcome.latency_us(0.50),
        "latency_p99_us": outcome.latency_us(0.99),
        "latency_max_us": outcome.latency_us(1.0),
        "above": outcome.share(outcome.above),
        "below": outcome.share(outcome.below),
        "tick_wakeups": outcome.share(outcome.ticks),
        "asked": None if is_fact else _percent(outcome.asked, outcome.decisions),
        "instructions": result.instructions,
        "decisions_per_interval": (
            outcome.decisions / outcome.intervals if outcome.intervals else None
        ),
        "intervals": outcome.intervals,
        "skipped": _percent(outcome.skipped, rows),
    }


def is_judged(result: Result) -> bool:
    """Tell whether a result has enough intervals for a judgement, and breaks no rule."""
    return result.outcome.intervals >= FEW_INTERVALS and not result.broken


@dataclass(frozen=True)
class Line:
    """One governor over all recordings.

    Attributes:
        label: of the governor.
        kind: of the governor.
        traces: recordings that can be judged.
        mean_regret: mean of their regrets, %.
        low, high: bootstrap interval of the mean; None with too few recordings.
        least_regret: regret on the best recording.
        worst_regret: regret on the worst recording.
        worst_trace: its label, "" if no recording is bad.
        lost_to_mainline: recordings on which the best mainline governor is better; None if there
            is none to compare with.
        values: means of the other figures; latencies of all wake-ups, each recording counting the
            same.
        least, most: as `mean_regret`, of the least and of the greatest regrets that sleep lengths
            allow; equal where all are known.
    """

    label: str
    kind: str
    traces: int
    mean_regret: float | None
    low: float | None
    high: float | None
    least_regret: float | None
    worst_regret: float | None
    worst_trace: str
    lost_to_mainline: int | None
    values: dict[str, float | None]
    least: float | None
    most: float | None


def _mean(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) / len(known) if known else None


def _latency_us(results: Sequence[Result], share: float) -> float | None:
    """Return a quantile of all wake-ups, each recording counting the same."""
    weights: dict[int, float] = {}
    for result in results:
        total = sum(result.outcome.latency_ns.values())
        for latency, count in result.outcome.latency_ns.items():
            weights[latency] = weights.get(latency, 0.0) + count / total
    need = share * sum(weights.values())
    done = 0.0
    for latency, weight in sorted(weights.items()):
        done += weight
        if done >= need - _SAME:
            return latency / 1000
    return None


def _lost(comparison: Comparison, results: Sequence[Result]) -> int | None:
    if BEST_MAINLINE not in comparison.governors:
        return None
    return sum(is_worse(comparison, result) for result in results)


def is_worse(comparison: Comparison, result: Result) -> bool:
    """Tell whether the best mainline governor is better on this recording."""
    best = comparison.results.get((result.trace, BEST_MAINLINE))
    if best is None or best.span is None or result.span is None:
        return False
    return result.span[0] >= best.span[1] + _WORSE


def _line(comparison: Comparison, label: str) -> Line:
    results = [item for item in comparison.of_governor(label) if is_judged(item)]
    known = [(value, item.trace) for item in results if (value := item.regret) is not None]
    regrets = [value for value, _ in known]
    worst, trace = max(known, default=(None, ""), key=lambda pair: pair[0])
    each = [values(item) for item in results]
    means = {
        key: _mean([item[key] for item in each]) for key in KEYS if not key.startswith("regret")
    }
    means["latency_p50_us"] = _latency_us(results, 0.50)
    means["latency_p99_us"] = _latency_us(results, 0.99)
    means["latency_max_us"] = _latency_us(results, 1.0)
    low, high = resampling.interval(regrets, _SEED)
    return Line(
        label,
        comparison.governors[label],
        len(known),
        _mean(regrets),
        low,
        high,
        min(regrets, default=None),
        worst,
        trace if worst else "",
        _lost(comparison, results),
        means,
        _mean([item["regret_least"] for item in each]),
        _mean([item["regret_most"] for item in each]),
    )


def lines(comparison: Comparison) -> list[Line]:
    """Return one line for each governor.

    The recorded one is first, then the recorder replayed, the least mean regret, limits last.
    """
    ranks = {RECORDED_KIND: -2, BEST_KIND: 1, LIMIT_KIND: 2}

    def order(line: Line) -> tuple[int, float]:
        mean = math.inf if line.mean_regret is None else line.mean_regret
        rank = -1 if is_check(comparison, line.label) else ranks.get(line.kind, 0)
        return rank, -mean if rank == ranks[LIMIT_KIND] else mean

    return sorted((_line(comparison, label) for label in comparison.governors), key=order)


def is_check(comparison: Comparison, label: str) -> bool:
    """Tell whether a governor recorded all recordings, so that its replay checks the instrument."""
    return all(source.is_recorder(label) for source in comparison.sources)


def best_line(found: Sequence[Line]) -> Line | None:
    """Return the governor to speak of first: the project's with the least mean regret, or any."""
    known = [line for line in found if line.mean_regret is not None and line.kind != RECORDED_KIND]
    own = [line for line in known if line.kind == OWN_KIND]
    return next(iter(own or known), None)


def headline(comparison: Comparison) -> str:
    """Return the answer in one sentence."""
    found = lines(comparison)
    best = best_line(found)
    if best is None:
        return "No recording has a regret that can be judged"
    if best.kind == LIMIT_KIND and any(item.untimed for item in comparison.results.values()):
        fact = next((line for line in found if line.kind == RECORDED_KIND), None)
        known = f"; recorded {show_mean(fact)} %" if fact and fact.mean_regret is not None else ""
        return f"No governor is ranked, since each needs timers{known}"
    several = len(comparison.sources) > 1
    where = f", worst {show('worst_regret', best.worst_regret)} % on {best.worst_trace}"
    mean = "mean regret" if several else "regret"
    parts = [f"{best.label}: {mean} {show_mean(best)} %{where if several else ''}"]
    by_label = {line.label: line for line in found}
    for label, title in (
        (RECORDED, "recorded"), (BEST_MAINLINE, "best mainline"), (BAYES, "floor estimate"),
    ):  # fmt: skip
        line = by_label.get(label)
        if line and line.mean_regret is not None:
            parts.append(f"{title} {show_mean(line)} %")
    return "; ".join(parts)


def show_mean(line: Line) -> str:
    """Return the mean regret of a governor as text: a range where recordings leave it open."""
    one, other = show("mean_regret", line.least), show("mean_regret", line.most)
    return one if one == other else f"{one} to {other}"


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return which points no other beats: none is at most equal in both and less in one.

    Args:
        points: two figures each, of which less is better.
    """
    return [
        n
        for n, (x, y) in enumerate(points)
        if not any(a <= x and b <= y and (a < x or b < y) for a, b in points)
    ]


def _below_floor(results: Sequence[Result]) -> str:
    """Return which governors come out below the floor estimate, "" if none does."""
    spans = {item.label: item.span for item in results if item.span}
    floor = spans.get(BAYES, (0.0, 0.0))[0] - _WORSE
    apart = (BEST_KIND, LIMIT_KIND, RECORDED_KIND)
    real = [item.label for item in results if item.kind not in apart]
    return ", ".join(label for label in real if label in spans and spans[label][1] < floor)


def _on_margin(results: Sequence[Result]) -> str:
    """Return what else may be wrong of regrets where interrupts tell of sleep lengths."""
    margins = ", ".join(
        f"{item.doubt.margin:.1f} ({item.label})"
        for item in results
        if item.span and item.kind not in (BEST_KIND, LIMIT_KIND, RECORDED_KIND)
    )
    if all(item.doubt.error is None for item in results):
        margins += "; name the recorder in --governors to know the error of the instrument"
    return f"besides its range a regret may be off, in points: {margins} (docs/stock.md)"


def _on_order(comparison: Comparison, source: Source) -> list[str]:
    """Return what a recording says of its recorder and of the order of governors."""
    said = []
    by_label = {item.label: item for item in comparison.of_trace(source.label)}
    fact = by_label.get(RECORDED)
    for label, item in by_label.items():
        if fact and fact.span and item.span and source.is_recorder(label):
            said.append(
                f"check of the instrument: recorded {show_regret(fact)} %, "
                f"{label} replayed {show_regret(item)} %"
            )
    if any(item.far for item in by_label.values()):
        said.append(_on_margin(list(by_label.values())))
    if pairs := untold(comparison, source):
        by_first: dict[str, list[str]] = {}
        for one, other in pairs:
            by_first.setdefault(one, []).append(other)
        text = "; ".join(f"{one} and {', '.join(others)}" for one, others in by_first.items())
        said.append(
            f"not told by this recording, since the ranges are too near for their errors: the "
            f"order of {text}"
        )
    needs = [label for label, item in by_label.items() if item.untimed and label != BEST_MAINLINE]
    if source.kind == CPU_IDLE and needs:
        said.append(
            f"not ranked, since they need timers, of which the recording tells nothing: "
            f"{', '.join(needs)}"
        )
    return said


def notes(comparison: Comparison) -> list[str]:
    """Return what a reader must know about the recordings."""
    found = []
    for source in comparison.sources:
        results = comparison.of_trace(source.label)
        played = [item for item in results if item.kind != RECORDED_KIND]
        if any(item.outcome.intervals < FEW_INTERVALS for item in played):
            few = f"fewer than {FEW_INTERVALS} intervals, so not in the summary"
            found.append(f"{source.label}: {few}")
        said = withheld.notes(source.shares)
        said += [withheld.denied(source.denied)] if source.denied else []
        found += [f"{source.label}: {line}" for line in said]
        found += [
            f"{source.label}, {item.label}: {invariants.said(rule)}"
            for item in results
            for rule in item.broken
        ]
        skipped = values(played[0])["skipped"] or 0
        if skipped >= 1:
            found.append(f"{source.label}: {skipped:.1f} % of the intervals cannot be played")
        if below := _below_floor(results):
            found.append(f"{source.label}: the floor estimate is too high; below it: {below}")
        found += [f"{source.label}: {line}" for line in _on_order(comparison, source)]
        found += [f"{source.label}: {line}" for line in losses(source.integrity)]
        found += [f"{source.label}: {line}" for line in comparison.remarks.get(source.label, [])]
    if {*comparison.governors} & {*MAINLINE} and (later := newest.newer()):
        found.append(later)
    if not comparison.counted:
        found.append(
            "instructions were not counted (--no-instructions, valgrind is missing, or the "
            f"recordings have more than {COUNTED_INTERVALS:,} intervals)"
        )
    return found
