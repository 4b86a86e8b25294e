# SPDX-License-Identifier: GPL-2.0
"""From a trace to figures, for each governor and workload, part by part."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import polars as pl

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.figures import wakers
from cpuidle_lab.figures.cpu_idle import add_untold, idle_periods, of_cpu_idle
from cpuidle_lab.figures.decisions import (
    Decided,
    add_decisions,
    decisions_of,
    labelled,
    of_decisions,
)
from cpuidle_lab.figures.group import Group, Sums
from cpuidle_lab.figures.interrupted import Ends, Interrupted, add_caused, of_interrupts
from cpuidle_lab.figures.intervals import GROUP
from cpuidle_lab.figures.pictures import Pictures
from cpuidle_lab.host import energy
from cpuidle_lab.recording.columns import caused
from cpuidle_lab.recording.phases import Phase, phases_of
from cpuidle_lab.recording.streamed import Look, Source, Whole
from cpuidle_lab.recording.trace import Trace, no_idle_periods, twin_notes

Progress = Callable[[int], None]
_Sums = TypeVar("_Sums", bound=Sums)


def phases(trace: Trace) -> list[Phase]:
    """Return the phases that markers in a trace in memory delimit; none without markers."""
    last_ns = Whole(trace, lambda _: None).last_ns
    return phases_of(trace.tables["marker"], last_ns + 1)


def _first_word(governor: str) -> str:
    return re.split(r"[^A-Za-z0-9_]", governor)[0]


@dataclass
class _Seen:
    """Facts of a first look at the parts, for a trace without markers.

    Attributes:
        spans: of each label, when its first decision was made and its last one ended.
        has_decisions: a part has any.
        first_idle_ns: first event of power:cpu_idle.
    """

    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    has_decisions: bool = False
    first_idle_ns: int = 2**63

    def look(self, part: Trace) -> None:
        """Take a part."""
        self.has_decisions |= bool(part.tables["period"].height)
        idle = part.tables["cpu_idle"]
        if idle.height and int(str(idle["ts"].min())) < self.first_idle_ns:
            stays = idle_periods(part)
            if stays.height:
                self.first_idle_ns = min(self.first_idle_ns, int(str(stays["ts"].min())))
        if part.tables["marker"].height:
            return
        if not part.tables["period"].height:
            return
        decided = labelled(part)
        end = pl.max_horizontal(pl.col("ts").max(), pl.col("out_ts").max().fill_null(0))
        spans = decided.group_by("label").agg(pl.col("ts").min(), end.alias("end"))
        for label, start_ns, end_ns in spans.iter_rows():
            start, stop = self.spans.get(label, (start_ns, end_ns))
            self.spans[label] = min(start, start_ns), max(stop, end_ns)


class Analysis:
    """Figures of a recording that is read part by part.

    Attributes:
        source: the recording.
        phases: those that markers delimit; none without markers.
        groups: the figures, in the order of the recording.
    """

    def __init__(self, open_source: Callable[[Look], Source], drawn: int | None = None) -> None:
        """Read all parts.

        Args:
            open_source: opens the recording, and calls a function with each part.
            drawn: phases that have pictures; None: all.

        Raises:
            UserError: the recording contradicts itself.
        """
        seen = _Seen()
        self.source = open_source(seen.look)
        facts = self.source.facts
        self.phases = phases_of(facts.tables["marker"], self.source.last_ns + 1)
        self._starts = np.array([phase.start_ns for phase in self.phases], np.uint64)
        self._ends = np.array([phase.end_ns for phase in self.phases], np.uint64)
        self._spans = self._without_markers(seen) if not self.phases else self.phases
        self._drawn = len(self._spans) if drawn is None else drawn
        self._decided: dict[int, Decided] = {}
        self._untold: dict[int, Sums] = {}
        self._caused: dict[int, Interrupted] = {}
        self._last: dict[int, int] = {}
        has_wakers = bool(self.source.causes)
        if self.source.causes:
            self._add_caused()
        else:
            for part in self.source.parts():
                self._add(part)
                has_wakers |= wakers.are_named(part)
        self._by_phase = dict(self._groups())
        self.groups = list(self._by_phase.values())
        for group in self.groups:
            group.wakers = group.wakers if has_wakers else {}
        self._add_energy()

    def judged(self) -> list[Group]:
        """Return the groups.

        Raises:
            UserError: there is none, since the markers hold no idle period.
        """
        if not self.groups and not self.phases:
            raise no_idle_periods(self.source.facts.path)
        if not self.groups:
            raise UserError(
                f"{self.source.facts.path}: no idle period lies in any of the {len(self.phases)} "
                "phases"
            )
        return self.groups

    def withheld(self, decisions: pl.DataFrame) -> pl.DataFrame:
        """Return those rows of decisions_of() whose governor has no regret."""
        unjudged = [n for n, group in self._by_phase.items() if group.values["regret"] is None]
        return self.decided(decisions).filter(pl.col(GROUP).is_in(unjudged))

    def _without_markers(self, seen: _Seen) -> list[Phase]:
        """Return a phase for each governor; or one for all, of which only power:cpu_idle tells."""
        if not self.source.has_decisions:
            name = self.source.recorder or "governor unknown"
            return [Phase(name, "", seen.first_idle_ns, self.source.last_ns)]
        spans = sorted(seen.spans.items(), key=lambda item: item[1][0])
        return [Phase(label, "", *span) for label, span in spans]

    def _during(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add the phase of each row as `group`; rows in none are left out."""
        ts = frame["ts"].to_numpy()
        number = np.searchsorted(self._starts, ts, "right") - 1
        in_one = (number >= 0) & (ts < self._ends[number])
        return frame.with_columns(pl.Series(GROUP, number)).filter(pl.Series(in_one))

    def decided(self, decisions: pl.DataFrame) -> pl.DataFrame:
        """Add the group of each row of decisions_of(), as `group`; rows in none are left out."""
        if not decisions.height:
            return decisions.with_columns(pl.Series(GROUP, [], pl.Int64))
        names = [_first_word(phase.governor or "") for phase in self.phases]
        if not self.phases:
            numbers = {phase.governor: n for n, phase in enumerate(self._spans)}
            group = pl.col("label").replace_strict(numbers, default=None, return_dtype=pl.Int64)
            return decisions.with_columns(group.alias(GROUP)).drop_nulls(GROUP)
        plain = pl.lit(pl.Series(names, dtype=pl.String)).gather(pl.col(GROUP))
        return self._during(decisions).filter(pl.col("governor_name") == plain)

    def _sums(self, kind: type[_Sums], n: int) -> _Sums:
        """Return the sums of a group, which has none yet."""
        span = self._spans[n]
        pictures = Pictures(span.start_ns, span.end_ns) if n < self._drawn else None
        return kind((span.start_ns, span.end_ns), pictures=pictures)

    def _add(self, part: Trace) -> None:
        decisions = self.decided(decisions_of(part, self._last))
        for n in decisions[GROUP].unique():
            if n not in self._decided:
                self._decided[n] = self._sums(Decided, n)
        if decisions.height:
            add_decisions(part, decisions, self._decided)
        if not self.phases and self.source.has_decisions:
            return
        stays = idle_periods(part)
        if not stays.height:
            return
        stays = self._during(stays) if self.phases else stays.with_columns(pl.lit(0).alias(GROUP))
        for n in self._untold.keys() & self._decided.keys():
            del self._untold[n]
        stays = stays.filter(~pl.col(GROUP).is_in([*self._decided]))
        for n in stays[GROUP].unique():
            if n not in self._untold:
                self._untold[n] = self._sums(Sums, n)
        if stays.height:
            add_untold(part, stays, self._untold)

    def _add_caused(self) -> None:
        """Add what interrupts tell, CPU by CPU."""
        assert self.source.causes
        facts, counts = self.source.facts, caused.Counts()
        ends = Ends(self.source.causes, [(one.start_ns, one.end_ns) for one in self._spans])
        for rows in self.source.caused(counts):
            facts.state_tables[rows.cpu] = rows.table  # with the tick that was learnt
            ends.add(rows.cpu, rows.stays, rows.table)
            stays = rows.period
            stays = (
                self._during(stays) if self.phases else stays.with_columns(pl.lit(0).alias(GROUP))
            )
            for n in stays[GROUP].unique():
                if n not in self._caused:
                    self._caused[n] = self._sums(Interrupted, n)
            if stays.height:
                add_caused(facts, rows, stays, self._caused)
        for n, count in enumerate(ends.counts()):
            if n in self._caused:
                self._caused[n].ended = count
        facts.omissions += caused.notes(self.source.causes, counts)
        facts.omissions += twin_notes(facts.state_tables)

    def _groups(self) -> Iterator[tuple[int, Group]]:
        for n, phase in enumerate(self._spans):
            facts, governor = self.source.facts, phase.governor or ""
            if sums := self._decided.get(n):
                yield n, of_decisions(facts, phase.workload, self._label(governor, sums), sums)
            elif ended := self._caused.get(n):
                yield n, of_interrupts(facts, phase.workload, governor, ended)
            elif untold := self._untold.get(n):
                alone = not self.source.has_decisions
                yield n, of_cpu_idle(facts, phase.workload, governor, untold, alone)

    def _label(self, governor: str, sums: Decided) -> str:
        """Return how a governor is called: of gate and bpf with what they contain."""
        if not self.phases or _first_word(governor) not in ("gate", "bpf"):
            return governor
        return " and ".join(sorted(sums.labels)) + " + hints" * bool(sums.counts["hinted"])

    def _add_energy(self) -> None:
        """Add what the energy counters say of each phase."""
        marks = self.source.facts.tables["marker"]
        if not self.phases or not marks.height:
            return
        marks = marks.filter(pl.col("text").str.contains(r"^\s*energy\s"))
        rows = marks.sort("ts", maintain_order=True).select("ts", "text").rows()
        for group in self.groups:
            group.zones = energy.spent(
                row for row in rows if group.start_ns <= row[0] < group.end_ns
            )
            group.values |= energy.totals(group.zones)


def analyse(trace: Trace) -> list[Group]:
    """Return the figures of each governor and workload, in the order of the recording.

    Raises:
        UserError: as Analysis and Analysis.judged().
    """
    return Analysis(lambda look: Whole(trace, look)).judged()
