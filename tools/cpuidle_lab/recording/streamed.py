# SPDX-License-Identifier: GPL-2.0
"""A trace read part by part, in memory that does not grow with it.

It is read twice: first for the facts that hold for all of it, then for its parts. A part has rows
of one CPU, or all rows of several. It ends before an interval, so that no idle period and no
interval lies in two.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Protocol

import polars as pl

from cpuidle_lab.recording import cause_events
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.columns import caused
from cpuidle_lab.recording.reader import TABLES, Chunk, Ending, Schema, empty, read_chunks
from cpuidle_lab.recording.stock import Context, left_out, omissions, table_notes
from cpuidle_lab.recording.trace import Integrity, Trace
from cpuidle_lab.recording.unseen import Unseen
from cpuidle_lab.states.table import StateTable

# A part has so many bytes, and the rows of an interval that goes on; twice as many of several CPUs.
PART_BYTES = 24 << 20

# Tables that are kept whole; of others, a part has its own rows.
SMALL = ("config", "tunable", "hint", "marker")
# A period has its decision and its outcome.
_UNUSED = ("state", "decision", "outcome")
_WANTED = (*(name for name in TABLES if name not in _UNUSED), "period", "interval")

# The column by which rows belong to decisions; rows of other tables do by their time.
_NUMBER = {"weights": "seq", "shadow": "seq", "period": "seq", "interval": "first_seq"}

# Tables that a recording of power:cpu_idle alone has not.
_MADE = ("period", "interval")

# Lines of markers that a report uses.
_MARKS = r"^\s*(phase|energy)\s"

Frames = dict[str, pl.DataFrame]
Look = Callable[[Trace], None]


class Source(Protocol):
    """A trace that is read part by part.

    Attributes:
        facts: what holds for all of it; tables that are not SMALL have no rows.
        last_ns: time of its last event.
        has_decisions: whether it has any.
        causes: facts of the interrupts that tell most of it; None where they do not.
        recorder: governor of a recording without decisions, "" if it is unknown or there are more.
    """

    facts: Trace
    last_ns: int
    has_decisions: bool
    causes: cause_events.Facts | None
    recorder: str

    def parts(self) -> Iterator[Trace]:
        """Yield its parts, CPU by CPU."""

    def caused(self, counts: caused.Counts) -> Iterator[caused.Rows]:
        """Yield what `causes` tell of each CPU whose idle states are known, and count it."""


class Whole:
    """A trace in memory as its only part."""

    def __init__(self, trace: Trace, look: Look) -> None:
        markers = _of_use("marker", trace.tables["marker"])
        self.facts = replace(trace, tables={**trace.tables, "marker": markers})
        last = (int(str(f["ts"].max())) for f in trace.tables.values() if f.height)
        self.last_ns = max(last, default=0)
        self.has_decisions = bool(trace.tables["period"].height)
        self.causes: cause_events.Facts | None = None
        self.recorder = ""
        look(self.facts)

    def parts(self) -> Iterator[Trace]:
        """Yield it."""
        yield self.facts

    def caused(self, _counts: caused.Counts) -> Iterator[caused.Rows]:
        """Yield nothing."""
        return iter(())


def _bytes(waiting: dict[str, list[pl.DataFrame]]) -> int:
    return sum(int(frame.estimated_size()) for frames in waiting.values() for frame in frames)


def _kept_back(joined: Frames, told: list[pl.DataFrame]) -> dict[str, tuple[str, int]]:
    """Return by table a column, and the value from which on rows belong to the next part.

    Args:
        joined: the tables.
        told: rows of cpu_idle whose decisions were read, if they have any.
    """
    intervals = joined.get("interval")
    since_ns, first_seq = None, 0
    if intervals is not None:
        last = intervals.row(-1, named=True)
        since_ns, first_seq = int(last["ts"]), int(last["first_seq"])
    # A long part without decisions: those before it wait.
    if told and (since_ns is None or since_ns <= int(told[0]["ts"][0])):
        events = pl.concat(told)
        entries = (events["state"] != tr.IDLE_EXIT).arg_true()
        if len(entries) and not _is_decided(joined, int(events["ts"][max(0, entries[-1] - 1)])):
            since_ns = int(events["ts"][entries[-1]])
    if since_ns is None:
        return {}
    return {
        name: (_NUMBER[name], first_seq) if name in _NUMBER else ("ts", since_ns) for name in joined
    }


def _is_decided(joined: Frames, since_ns: int) -> bool:
    """Tell whether decisions go on: an interval may be longer than a part."""
    periods = joined.get("period")
    return periods is not None and int(periods["ts"][-1]) >= since_ns


def _joined(waiting: Mapping[str, list[pl.DataFrame]]) -> Frames:
    return {name: pl.concat(frames) for name, frames in waiting.items()}


def _cut(
    waiting: dict[str, list[pl.DataFrame]],
) -> tuple[Frames, dict[str, list[pl.DataFrame]]]:
    """Divide rows into those of a part and those that wait."""
    joined = _joined(waiting)
    # Periods and intervals that the reader makes come a round later than their events.
    places = _kept_back(joined, waiting.get("cpu_idle", [])[:-1])
    part, rest = {}, {}
    for name, frame in joined.items():
        column, first = places.get(name, ("ts", 0))
        row = int(frame[column].search_sorted(first))
        if row:
            part[name] = frame[:row]
        if row < frame.height:
            rest[name] = [frame[row:]]
    return part, rest


class _Piece(NamedTuple):
    """Tables of a CPU.

    Attributes:
        tables: by name.
        is_whole: all rows of the CPU.
    """

    tables: Frames
    is_whole: bool


def _together(
    pieces: Iterator[_Piece | Schema | Ending],
) -> Iterator[Frames | Schema | Ending]:
    """Join all rows of several CPUs: queries take their time however few rows there are."""
    waiting: dict[str, list[pl.DataFrame]] = {}
    for piece in pieces:
        joins = isinstance(piece, _Piece) and piece.is_whole
        if waiting and (not joins or _bytes(waiting) >= PART_BYTES):
            yield _joined(waiting)
            waiting = {}
        if not isinstance(piece, _Piece):
            yield piece
        elif not joins:
            yield piece.tables
        else:
            for name, frame in piece.tables.items():
                waiting.setdefault(name, []).append(frame)


def _bare(schema: Schema) -> Frames:
    """Return all tables without rows; those of events that the trace lacks as trace.load()."""
    own = {name: empty(columns) for name, columns in schema.tables.values()}
    return {name: own.get(name, tr.ABSENT.get(name, pl.DataFrame())) for name in _WANTED}


@dataclass
class _Counts:
    """Counts of the first reading.

    Attributes:
        first_ns, last_ns: times of the first event and of the last.
        lost_known, lost_unknown, implausible: as of Integrity.
        idle: idle periods by CPU of which only power:cpu_idle tells.
        entries: events of power:cpu_idle by CPU that are no exits.
        has_decisions: whether there are any.
        unseen: time of the CPUs of which nothing is told.
    """

    first_ns: int = 2**63
    last_ns: int = 0
    lost_known: int = 0
    lost_unknown: int = 0
    implausible: int = 0
    idle: Counter[int] = field(default_factory=Counter)
    entries: Counter[int] = field(default_factory=Counter)
    has_decisions: bool = False
    unseen: Unseen = field(default_factory=Unseen)

    def add(self, tables: Frames) -> None:
        """Count the rows of a part."""
        times = [frame["ts"] for name, frame in tables.items() if name != "config"]
        self.first_ns = min([self.first_ns, *(int(str(one.min())) for one in times)])
        self.last_ns = max([self.last_ns, *(int(str(one.max())) for one in times)])
        if "period" in tables:
            self.has_decisions = True
            self.last_ns = max(self.last_ns, int(str(tables["period"]["out_ts"].max())))
            self.implausible += tr.implausible(tables["period"])
        if "lost" in tables:
            lost = tables["lost"]["events"]
            self.lost_known += int(lost.filter(lost > 0).sum())
            self.lost_unknown += int((lost < 0).sum())
        self.unseen.add(tables.get("cpu_idle"), tables.get("lost"))
        if "cpu_idle" in tables:
            entries = tables["cpu_idle"].filter(pl.col("state") != tr.IDLE_EXIT)
            self.entries.update(dict(entries.group_by("cpu").len().iter_rows()))
        if "idle" in tables:
            self.idle.update(dict(tables["idle"].group_by("cpu").len().iter_rows()))


class Streamed:
    """A trace.dat, or what stands for one; see Source."""

    def __init__(self, path: Path, context: Context | None, look: Look) -> None:
        """Read it a first time.

        Args:
            path: the recording.
            context: facts of a recording without the module; None: those that it tells itself.
            look: called with each part; of SMALL tables it has the rows so far.

        Raises:
            UserError: as trace.load().
        """
        self._path = path
        self._context = context or tr.context_in(path)
        self._gone: list[int] = []
        self._has_decided = True
        self.causes: cause_events.Facts | None = None
        names = {name for _, name in self._context.governors} if self._context else set()
        self.recorder = names.pop() if len(names) == 1 else ""
        counts = _Counts()
        self.facts = self._first(counts, look)
        self.last_ns, self.has_decisions = counts.last_ns, counts.has_decisions

    def parts(self) -> Iterator[Trace]:
        """Yield its parts, CPU by CPU: the second reading."""
        whole = {name: self.facts.tables[name] for name in SMALL}
        bare: Frames = {}
        others = [name for name in _WANTED if name not in SMALL]
        for tables in self._read(others):
            if isinstance(tables, Schema):
                bare = _bare(tables)
            if not isinstance(tables, dict):
                continue
            dropped = () if self._has_decided else _MADE
            every = {**bare, **tables, **whole, **{name: bare[name] for name in dropped}}
            if self._gone and "cpu_idle" in tables:
                known = ~pl.col("cpu").is_in(self._gone)
                every["cpu_idle"] = every["cpu_idle"].filter(known)
            yield replace(self.facts, tables=every)

    def caused(self, counts: caused.Counts) -> Iterator[caused.Rows]:
        """Yield what `causes` tell of each CPU whose idle states are known, and count it."""
        if self.causes and self._context:
            yield from caused.by_cpu(self._path, self.causes, self._context, counts)

    def _read(self, wanted: Sequence[str]) -> Iterator[Frames | Schema | Ending]:
        """Yield some tables of parts, between the schema and the ending."""
        wanted = [*wanted, *(["idle"] * bool(self._context))]
        return _together(self._pieces(wanted))

    def _pieces(self, wanted: Sequence[str]) -> Iterator[_Piece | Schema | Ending]:
        """Yield tables of one CPU after the other, between the schema and the ending."""
        waiting: dict[str, list[pl.DataFrame]] = {}
        order: dict[str, int] = {}
        cpu = last = -1
        is_whole, most = True, PART_BYTES
        for piece in read_chunks(self._path, wanted, self._context):
            of = int(piece.frame["cpu"][0]) if isinstance(piece, Chunk) else -1
            if waiting and of != cpu:
                yield _Piece(_joined(waiting), is_whole)
                waiting, is_whole, most = {}, True, PART_BYTES
            if isinstance(piece, Chunk):
                number = order[piece.table]
                # The reader writes the tables in their order: all rows up to a moment are there.
                if number <= last and _bytes(waiting) >= most:
                    # Without intervals, no row belongs to another.
                    part, waiting = (
                        _cut(waiting) if "interval" in wanted else (_joined(waiting), {})
                    )
                    most = PART_BYTES if part else 2 * most
                    if part:
                        is_whole = False
                        yield _Piece(part, is_whole)
                cpu, last = of, number
                waiting.setdefault(piece.table, []).append(piece.frame)
                continue
            if isinstance(piece, Schema):
                order = {name: number for number, (name, _) in piece.tables.items()}
            yield piece

    def _states(
        self, config: pl.DataFrame, known: Mapping[int, StateTable]
    ) -> dict[int, StateTable]:
        """Return the idle states that were known, and those that more rows tell."""
        if not config.height:
            return {**known}
        return tr.state_tables_of(self._path, config, known, self._context)

    def _first(self, counts: _Counts, look: Look) -> Trace:
        """Return the facts: the first reading."""
        small: Frames = {}
        state_tables: dict[int, StateTable] = {}
        schema, ending, bare = Schema(), Ending(0, 0, 0, 0, 0, 0, 0, 0), _bare(Schema())
        idle_cpus: set[int] = set()
        facts = Trace(self._path, 0, bare, {}, {}, Integrity(0, 0, 0, 0, 0, 0, 0, 0))
        # The time of an interval is that of a period.
        for tables in self._read([name for name in _WANTED if name != "interval"]):
            if isinstance(tables, Schema):
                schema, bare = tables, _bare(tables)
                small = {name: bare[name] for name in SMALL}
                facts = replace(facts, cpus=schema.cpus, symbols=schema.symbols)
            elif isinstance(tables, Ending):
                ending = tables
            else:
                counts.add(tables)
                if "cpu_idle" in tables:
                    idle_cpus.update(tables["cpu_idle"]["idle_cpu"].unique().to_list())
                for name in small.keys() & tables.keys():
                    small[name] = pl.concat([small[name], _of_use(name, tables[name])])
                if "config" in tables:
                    state_tables = self._states(tables["config"], state_tables)
                part = replace(facts, tables={**bare, **tables, **small})
                part.state_tables = state_tables
                tr.check_indices(self._path, part.tables, part.state_tables)
                look(part)
        facts.tables = {**bare, **small}
        facts.state_tables = state_tables
        return self._with_facts(facts, counts, ending, idle_cpus)

    def _with_facts(
        self, facts: Trace, counts: _Counts, ending: Ending, idle_cpus: set[int]
    ) -> Trace:
        """Add what only the end of a reading tells."""
        context, config = self._context, facts.tables["config"]
        gone = left_out(context, counts.idle) if context else {}
        self._gone = [int(cpu) for cpu in gone]
        if cause_events.may_tell(context, ending):
            self.causes = cause_events.facts_of(self._path)
        self._has_decided = not (self.causes or tr.is_timerless(context, ending))
        counts.has_decisions &= self._has_decided
        kept = sum(n for cpu, n in counts.entries.items() if cpu not in self._gone)
        tr.must_hold(self._path, counts.has_decisions, bool(kept), config, gone)
        said = []
        if context:
            notes = table_notes(context, sorted(idle_cpus - {*self._gone}))
            said = omissions({**tr.gaps(context, gone), "notes": notes})
        return replace(
            facts,
            integrity=self._integrity(counts, ending),
            omissions=[*said, *tr.name_notes(facts.state_tables)],
            way=context.way if context else "",
            changed=bool(context and context.changed),
            left_out_percent=tr.left_out_percent(gone, kept),
            unseen_percent=(
                0.0 if counts.has_decisions else counts.unseen.percent(counts.last_ns, self._gone)
            ),
            start_ns=counts.first_ns,
        )

    def _integrity(self, counts: _Counts, ending: Ending) -> Integrity:
        names = ("decisions_missing", "gaps", "without_outcome", "without_decision")
        told = {name: getattr(ending, name) if self._has_decided else 0 for name in names}
        return Integrity(
            ending.events, counts.lost_known, counts.lost_unknown, implausible=counts.implausible,
            **told,
        )  # fmt: skip


def _of_use(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a small table that are used."""
    return frame.filter(pl.col("text").str.contains(_MARKS)) if table == "marker" else frame
