# SPDX-License-Identifier: GPL-2.0
"""Errors of figures by causes of wake-ups: lab recordings, read by interrupts and by the module.

The module's events are the facts. A recording is read three times: by the module, by interrupts
alone, and by interrupts with the events of hrtimers.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.compare.worst import Worst
from cpuidle_lab.crossval.parts import Part, parts
from cpuidle_lab.figures.told import DRAWN, FAR, Doubt, Span, Told, distance, least_gap, widened
from cpuidle_lab.recording import columns
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.causes import KNOWN
from cpuidle_lab.recording.phases import Phase, phases_of
from cpuidle_lab.replay import recorded
from cpuidle_lab.replay.engine import Outcome, counterfactual
from cpuidle_lab.replay.library import governor
from cpuidle_lab.states.linux_source import series

# Kernel and CPUs of each boot.
BOOTS = (("6.1", 1), *((kernel, cpus) for kernel in ("6.12", "7.2") for cpus in (1, 2, 4)))

PLAIN, WITH_HRTIMERS = "interrupts", "interrupts, hrtimers"

CLOSE_NS, CLOSE_SHARE = 2000, 0.01
SAME_NS = 20_000
# Points by which a fact may lie outside of a range that holds it.
TOLERANCE = 0.5
# Regrets that are so much apart should be told, in so many pairs.
APART, TOLD = 5.0, 0.70
COVERED = 0.98

Array = npt.NDArray[Any]


@dataclass
class Row:
    """One workload on one kernel, recorded by one governor, read in one way.

    Attributes:
        way: PLAIN or WITH_HRTIMERS.
        kernel, cpus, workload, recorder: what was recorded.
        decisions: those of the module that an idle period of the way pairs with.
        known: share of them whose sleep length is known.
        close: share of these that are within 2 us or 1 %.
        same: first choices alike, by governor, with drawn sleep lengths.
        facts: regret by the module's recording, %, by governor.
        ranges: least and greatest regret by the way, likewise, without a margin.
        doubts: the other errors of each, by the way, likewise.
    """

    way: str
    kernel: str
    cpus: int
    workload: str
    recorder: str
    decisions: int = 0
    known: float = 0.0
    close: float = 0.0
    same: dict[str, float] = field(default_factory=dict)
    facts: dict[str, float] = field(default_factory=dict)
    ranges: dict[str, Span] = field(default_factory=dict)
    doubts: dict[str, Doubt] = field(default_factory=dict)

    def span(self, name: str) -> Span:
        """Return the range of a governor with the margin for other errors."""
        return widened(self.ranges[name], self.doubts[name])

    def covers(self, name: str) -> bool:
        """Tell whether a range holds the fact."""
        low, high = self.span(name)
        return low - TOLERANCE <= self.facts[name] <= high + TOLERANCE

    def pairs(self) -> Iterator[tuple[float, bool, bool]]:
        """Yield for each pair of governors points between them, whether told, whether rightly."""
        names = list(self.ranges)
        for n, one in enumerate(names):
            for other in names[n + 1 :]:
                apart = self.facts[one] - self.facts[other]
                mine, theirs = self.ranges[one], self.ranges[other]
                least = least_gap(self.doubts[one], self.doubts[other])
                above, below = mine[0] > theirs[1] + least, mine[1] + least < theirs[0]
                yield abs(apart), above or below, above == (apart > 0)


class Slice:
    """The intervals of one phase, which replay takes for a recording."""

    def __init__(self, told: Told, phase: Phase) -> None:
        self.path, self.state_tables = told.path, told.state_tables
        self._kept: dict[int, columns.Columns] = {}
        for cpu in told.cpus:
            found = []
            for chunk in told.intervals(cpu):
                first, end = np.searchsorted(chunk["start_ns"], [phase.start_ns, phase.end_ns])
                found.append(columns.sliced(chunk, int(first), int(end)))
            whole = columns.joined(found)
            if len(whole["flags"]):
                self._kept[cpu] = whole
        self.cpus = sorted(self._kept)

    def intervals(self, cpu: int, names: Sequence[str] | None = None) -> Iterator[columns.Columns]:
        """Yield the intervals of a CPU."""
        kept = self._kept[cpu]
        yield {name: kept[name] for name in names or kept}

    def rows(self, _table: str, cpu: int | None = None) -> int:
        """Return the number of intervals of one CPU or of all."""
        return sum(len(kept["flags"]) for of, kept in self._kept.items() if cpu in (None, of))


def _frame(recording: Part | Slice, spec: str) -> tuple[Outcome, pl.DataFrame]:
    """Replay a governor; return the outcome, and what it chose first in each interval."""
    outcome = counterfactual(recording, governor(spec), choices=True, jobs=1)  # type: ignore[arg-type]
    frames = [
        pl.DataFrame(
            {
                "ts": next(iter(recording.intervals(cpu, ["start_ns"])))["start_ns"],
                "cpu": np.full(len(chosen["index"]), cpu),
                "index": chosen["index"],
            }
        )
        for cpu, chosen in outcome.choices.items()
    ]
    return outcome, pl.concat(frames).sort("ts")


def _alike(mine: pl.DataFrame, other: pl.DataFrame, shift_ns: int) -> float:
    """Return the share of the intervals that both have in which the first choice is the same.

    Args:
        mine: of the module, by the governor's clock.
        other: of the way, by the clock of the trace.
        shift_ns: the latter less the former.
    """
    moved = mine.with_columns(ts=(pl.col("ts").cast(pl.Int64) + shift_ns))
    both = moved.join_asof(
        other.with_columns(pl.col("ts").cast(pl.Int64)), on="ts", by="cpu", strategy="nearest",
        tolerance=SAME_NS, check_sortedness=False,
    ).drop_nulls("index_right")  # fmt: skip
    return float((both["index"] == both["index_right"]).mean() or 0.0)  # type: ignore[arg-type]


def _shift(part: Part) -> int:
    """Return by how much the clock of the trace is ahead of the governor's, ns."""
    apart = [
        np.median(periods["ts"].astype(np.int64) - periods["now_ns"].astype(np.int64))
        for _, periods in part.kept.values()
    ]
    return int(np.median(apart)) if apart else 0


def compare_lengths(row: Row, full: Part, sleep: pl.DataFrame) -> None:
    """Compare sleep lengths of the module's decisions with those of the way.

    Args:
        row: filled.
        full: the phase, as the module tells it.
        sleep: `start_ns`, `cpu`, `known` and `least_ns` of the intervals of the way.
    """
    found = []
    for cpu, (intervals, periods) in full.kept.items():
        first = np.isin(periods["seq"], intervals["first_seq"])
        mine = pl.DataFrame(
            {"ts": periods["ts"][first].astype(np.int64),
             "truth": periods["sleep_length_ns"][first]}
        ).sort("ts")  # fmt: skip
        theirs = sleep.filter(pl.col("cpu") == cpu).select(
            ts=pl.col("start_ns").cast(pl.Int64), known="known", guess="least_ns"
        )
        # The idle state is entered after the decision.
        found.append(
            mine.join_asof(theirs, on="ts", strategy="forward", tolerance=SAME_NS).drop_nulls()
        )
    both = pl.concat(found)
    known = both.filter(pl.col("known") == KNOWN)
    error = (pl.col("guess") - pl.col("truth")).abs()
    limit = pl.max_horizontal(pl.lit(CLOSE_NS), pl.col("truth") * CLOSE_SHARE)
    row.decisions = both.height
    row.known = known.height / max(1, both.height)
    row.close = float(known.select((error <= limit).mean()).item() or 0.0)


def _read(trace: Path, way: str, folder: Path) -> columns.Recording:
    told = tr.context_in(trace, both=True)
    if told is None:
        raise UserError(f"{trace}: was not recorded both ways")
    changed = replace(
        told, by_interrupts=True, hrtimers=way == WITH_HRTIMERS, no_probes=True, way=way
    )
    columns.write(trace, folder / way.replace(", ", "-"), context=changed)
    return columns.Recording(folder / way.replace(", ", "-"))


def judge(trace: Path, cpus: int) -> list[Row]:
    """Compare both ways of a trace with what the module tells, phase by phase."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="ranges-", dir=TOP / "build") as name:
        folder = Path(name)
        columns.write(trace, folder / "full")
        full = columns.Recording(folder / "full")
        marks = phases_of(full.table("marker"), tr.TIME_MAX)
        by_start = {min(int(p["ts"].min()) for _, p in part.kept.values()): part
                    for part in parts(full, trace)}  # fmt: skip
        for way in (PLAIN, WITH_HRTIMERS):
            recording = _read(trace, way, folder)
            if recording.kind != columns.INTERRUPTS:
                raise UserError(f"{trace}: has no interrupts; record with --interrupts")
            sleep = recording.table("sleep")
            costs = _recorded_costs(recording)
            for start, part in by_start.items():
                phase = next(one for one in marks if one.start_ns <= start < one.end_ns)
                error = _error(part, phase, recording, costs)
                rows.append(_row(way, cpus, part, phase, recording, sleep, error))
    return rows


def _recorded_costs(recording: columns.Recording) -> pl.DataFrame:
    """Return start, cost and least cost of all intervals, under the governor that recorded."""
    judged = recorded.outcome(Told(recording, DRAWN), choices=True).choices
    return pl.concat(
        pl.DataFrame(
            {
                "start_ns": columns.joined(list(recording.intervals(cpu, ["start_ns"])))[
                    "start_ns"
                ],
                "cost": chosen["cost_pj"],
                "least": chosen["oracle_pj"],
            }
        )
        for cpu, chosen in judged.items()
    )


def _error(
    part: Part, phase: Phase, recording: columns.Recording, costs: pl.DataFrame
) -> float | None:
    """Return the points from the recorded regret of a phase to the recorder's, replayed."""
    within = pl.col("start_ns").is_between(phase.start_ns, phase.end_ns, closed="left")
    cost, least = costs.filter(within).select(pl.col("cost").sum(), pl.col("least").sum()).row(0)
    if not least:
        return None
    told = [Slice(Told(recording, each), phase) for each in (DRAWN, FAR)]
    found = [_frame(one, part.recorder.label)[0].regret or 0.0 for one in told]
    return distance(100 * (cost / least - 1), (min(found), max(found)))


def _doubt(outcome: Outcome, loop_ns: int, error: float | None) -> Doubt:
    """Return the errors of a regret beside its range, as `compare` does."""
    worst = Worst(0)
    for cpu, chosen in outcome.choices.items():
        worst.add(cpu, 0, chosen)
    spread = 100 * worst.excess_pj / (outcome.oracle_pj or 1.0)
    return Doubt(error, spread, outcome.begins(loop_ns))


def _row(
    way: str,
    cpus: int,
    part: Part,
    phase: Phase,
    recording: columns.Recording,
    sleep: pl.DataFrame,
    error: float | None,
) -> Row:
    row = Row(way, part.kernel, cpus, part.workload, part.recorder.label)
    mine = sleep.filter(pl.col("start_ns").is_between(phase.start_ns, phase.end_ns))
    compare_lengths(row, part, mine)
    told = [Slice(Told(recording, each), phase) for each in (DRAWN, FAR)]
    kernel = series(part.kernel)
    for name, spec in (("menu", f"menu@{kernel}"), ("teo", f"teo@{kernel}"), ("wteo", "wteo")):
        fact, chosen = _frame(part, spec)
        outcomes, frames = zip(*(_frame(one, spec) for one in told), strict=True)
        regrets = [outcome.regret or 0.0 for outcome in outcomes]
        row.facts[name] = fact.regret or 0.0
        row.ranges[name] = min(regrets), max(regrets)
        row.doubts[name] = _doubt(outcomes[0], recording.loop_ns, error)
        row.same[name] = _alike(chosen, frames[0], _shift(part))
    return row


def targets(rows: Sequence[Row]) -> list[tuple[bool, str]]:
    """Return each target of each way: whether it is met, and the figures."""
    found = []
    for way in dict.fromkeys(row.way for row in rows):
        mine = [row for row in rows if row.way == way]
        covered = [row.covers(name) for row in mine for name in row.ranges]
        pairs = [pair for row in mine for pair in row.pairs()]
        wrong = sum(told and not right and apart > TOLERANCE for apart, told, right in pairs)
        far = [told for apart, told, _ in pairs if apart > APART]
        share, told = (sum(each) / max(1, len(each)) for each in (covered, far))
        found += [
            (share >= COVERED, f"{way}: the range holds the fact in {100 * share:.1f} % of "
             f"{len(covered)} (target {100 * COVERED:g} %)"),
            (not wrong, f"{way}: {wrong} of {len(pairs)} pairs in a wrong order that is told"),
            (told >= TOLD, f"{way}: of {len(far)} pairs more than {APART:g} points apart "
             f"{100 * told:.0f} % told (target {100 * TOLD:g} %)"),
        ]  # fmt: skip
    return found


def show(rows: Sequence[Row], met: Sequence[tuple[bool, str]]) -> None:
    """Print the table and the targets."""
    print("| way | kernel | CPUs | workload | recorder | decisions | known % | close % | same % "
          "menu, teo, wteo | regret: fact, range |")  # fmt: skip
    print("|---|---|--:|---|---|--:|--:|--:|---|---|")
    for row in rows:
        same = " ".join(f"{100 * one:.1f}" for one in row.same.values())
        regrets = ", ".join(
            f"{row.facts[name]:.1f} ({low:.1f} to {high:.1f})"
            for name, (low, high) in ((name, row.span(name)) for name in row.ranges)
        )
        print(f"| {row.way} | {series(row.kernel)} | {row.cpus} | {row.workload} | {row.recorder} "
              f"| {row.decisions:,} | {100 * row.known:.1f} | {100 * row.close:.1f} | {same} "
              f"| {regrets} |")  # fmt: skip
    for held, text in met:
        print(f"- {'held' if held else 'MISSED'}: {text}")


def as_json(rows: Sequence[Row], met: Sequence[tuple[bool, str]]) -> dict[str, object]:
    """Return everything as one object."""
    return {
        "rows": [asdict(row) for row in rows],
        "targets": [{"met": held, "text": text} for held, text in met],
    }
