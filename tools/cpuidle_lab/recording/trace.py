# SPDX-License-Identifier: GPL-2.0
"""Read trace.dat files into tables.

A decision and its outcome are joined by CPU and sequence number. What is missing is counted and
reported (`Integrity`), never filled in.

Longer than 500 lines: the facts of a trace, its tables and their checks are one another's terms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import polars as pl

from cpuidle_lab.base.abi import constant
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.host.marks import LINES_MAX, MACHINE, OWN_LINES, REQUEST
from cpuidle_lab.host.sysfs import cpu_list
from cpuidle_lab.recording.reader import (
    DEVICE_REQUESTS,
    REQUESTS,
    TABLES,
    Chunk,
    Ending,
    Schema,
    empty,
    read_chunks,
)
from cpuidle_lab.recording.stock import Context, context_of, left_out, omissions, table_notes
from cpuidle_lab.recording.unseen import IDLE_EXIT as IDLE_EXIT
from cpuidle_lab.states.table import CpuTable, StateTable, check_table, states_max

# The largest value of a s64: a timer that never expires, a limit that does not exist.
TIME_MAX = 2**63 - 1

# Columns of a period that are its outcome's, and their names in Trace.periods().
_OF_OUTCOME = {
    name: f"out_{name}" for name in ("residency_ns", "tick", "poll_time_limit")
}  # fmt: skip
_NO_OUTCOME = constant("CIL_OUTCOME_NONE")

# Bits of the decision's flags, kinds of outcome, tick marks and no base, as the module has them.
TICK_STOPPED = constant("CIL_DECISION_TICK_STOPPED")
REJECTED = constant("CIL_DECISION_REJECTED")
ASKED = constant("CIL_DECISION_ASKED")
ENTERED = constant("CIL_OUTCOME_ENTERED")
TICK_YES = constant("CIL_TICK_YES")
TICK_UNKNOWN = constant("CIL_TICK_UNKNOWN")
BASE_NONE = constant("CIL_STATE_NONE")


def context_in(path: Path, both: bool = False) -> Context | None:
    """Return what a recording without the module tells of itself; None of one with the module.

    Args:
        path: the trace.dat file.
        both: the module recorded, too; return what the recording tells all the same.

    Raises:
        UserError: as read_chunks(), or a line of the recorder cannot be read.
    """
    return _own_lines(path, both).context()


def context_with(path: Path, given: Sequence[CpuTable]) -> Context:
    """Return what is known of a recording without the module, with idle states given by the user.

    Args:
        path: the recording.
        given: idle states by range of CPUs.

    Raises:
        UserError: as context_in(), or the module's decisions are in it.
    """
    lines = _own_lines(path)
    if lines.decided:
        raise UserError(f"{path}: has the module's decisions and idle states; leave out --machine")
    try:
        context = lines.context()
    except UserError:  # of idle states that cannot be read, which are not needed
        marks = [mark for mark in lines.marks if not mark[1].startswith(MACHINE)]
        context = context_of(path, marks)
    return replace(context or Context(), given=given)


# Requests for a device count where it is a CPU, and the request one of latency; of an event
# without these fields it is not known.
_DEV_PM_QOS_RESUME_LATENCY = 1
_IS_OF_CPU = (pl.col("device") == "") | (
    pl.col("device").str.contains(r"^cpu\d+$") & (pl.col("type") == _DEV_PM_QOS_RESUME_LATENCY)
)


class OwnLines:
    """Marks that recorders of ours wrote, of a recording that is being read.

    Attributes:
        tables: those that add() needs.
        marks: time and text of each.
        decided: the module's decisions are in the recording.
    """

    tables = ("marker", "decision", *REQUESTS)

    def __init__(self, path: Path) -> None:
        self._path = path
        self.marks: list[tuple[int, str]] = []
        self.decided = False
        self._empty: list[int] = []
        self._ended: list[int] = []

    def add(self, piece: Chunk) -> None:
        """Take a chunk of any table.

        Raises:
            UserError: there are too many lines.
        """
        self.decided |= piece.table in ("decision", "period")
        if self.decided:
            return
        if piece.table in DEVICE_REQUESTS:
            rows = piece.frame.filter(_IS_OF_CPU)
            self.marks += [(ts, REQUEST) for ts in rows["ts"]]
        elif piece.table == "request_removed":
            self._ended += piece.frame["ts"].to_list()
        elif piece.table in REQUESTS:
            valued = pl.col("value") >= 0 if "value" in piece.frame.columns else pl.lit(True)
            self.marks += [(ts, REQUEST) for ts in piece.frame.filter(valued)["ts"]]
            self._empty += piece.frame.filter(~valued)["ts"].to_list()
        elif piece.table == "marker":
            lines = piece.frame.select("ts", pl.col("text").str.strip_chars())
            self.marks += lines.filter(pl.col("text").str.contains(OWN_LINES)).iter_rows()
        if len(self.marks) + len(self._ended) > LINES_MAX:
            raise UserError(f"{self._path}: has more than {LINES_MAX:,} lines of its recorder")

    def context(self) -> Context | None:
        """Return what the recording tells of itself; None of one with the module.

        Raises:
            UserError: a line cannot be read.
        """
        if self.decided:
            return None
        self._take_ends()
        return context_of(self._path, self.marks)

    def _take_ends(self) -> None:
        """Mark the ends of requests: each read of /dev/cpu_dma_latency ends one without value."""
        empty = sorted(self._empty)
        for ts in sorted(self._ended):
            if empty and empty[0] <= ts:
                del empty[0]
            else:
                self.marks.append((ts, REQUEST))
        self._empty, self._ended = empty, []


def _own_lines(path: Path, both: bool = False) -> OwnLines:
    """Return the marks of a recording; those before a decision are enough unless `both`."""
    lines = OwnLines(path)
    unread = {"decision"} if both else set()
    for piece in read_chunks(path, [name for name in OwnLines.tables if name not in unread]):
        if isinstance(piece, Chunk):
            lines.add(piece)
        if lines.decided:
            break
    return lines


@dataclass(frozen=True)
class Integrity:
    """Missing parts of a trace.

    Attributes:
        events: events read from the file, of any kind.
        lost_known: events that the kernel says it dropped.
        lost_unknown: places where the kernel dropped it does not know how many.
        decisions_missing: sequence numbers that no decision carries: lost, or made while the
            recording was off.
        gaps: places where sequence numbers are missing.
        without_outcome: decisions without outcome; normal after the last one of a CPU, at a switch
            of governors and at a restart.
        without_decision: outcomes whose decision is missing.
        implausible: outcomes with a residency longer than the time to the outcome; not used.
    """

    events: int
    lost_known: int
    lost_unknown: int
    decisions_missing: int
    gaps: int
    without_outcome: int
    without_decision: int
    implausible: int

    @property
    def complete(self) -> bool:
        """Nothing that was recorded is known to be missing."""
        return not (
            self.lost_known
            or self.lost_unknown
            or self.decisions_missing
            or self.without_decision
            or self.implausible
        )


def losses(integrity: Integrity) -> list[str]:
    """Return one sentence for each thing that is missing from a trace."""
    found = (
        (integrity.lost_known, "{:,} events were dropped while recording, as the kernel counted"),
        (
            integrity.lost_unknown,
            "in {:,} places an unknown number of events was dropped, or is damaged",
        ),
        (
            integrity.decisions_missing,
            f"{{:,}} decisions are missing in {integrity.gaps:,} gaps of the sequence numbers: "
            "lost, or made while the recording was off",
        ),
        (integrity.without_decision, "{:,} outcomes have lost their decision"),
        (
            integrity.implausible,
            "{:,} outcomes claim a longer residency than there was time for and were left out",
        ),
    )
    return [text.format(count) for count, text in found if count]


@dataclass
class Trace:
    """A trace in memory.

    Attributes:
        path: where it came from.
        cpus: number of CPUs.
        tables: the tables asked for, by name; empty ones where the trace has no such event.
        symbols: table and field: what the numbers mean.
        state_tables: idle states of each CPU that the trace describes.
        integrity: what is missing.
        omissions: parts of the recording that no figure counts, or only doubtfully, one sentence
            each.
        way: of a recording without the module, as the recorder said (stock.Told); else "".
        changed: the limits of idle states changed while it was recorded.
        left_out_percent: idle periods of CPUs whose idle states are not known, of all, %.
        unseen_percent: time of the CPUs of which nothing is told, of all, %; without decisions.
        start_ns: time of its first event; None where that of the tables is.
    """

    path: Path
    cpus: int
    tables: dict[str, pl.DataFrame]
    symbols: dict[tuple[str, str], dict[int, str]]
    state_tables: dict[int, StateTable]
    integrity: Integrity
    omissions: list[str] = field(default_factory=list)
    way: str = ""
    changed: bool = False
    left_out_percent: float = 0.0
    unseen_percent: float = 0.0
    start_ns: int | None = None

    @property
    def first_ns(self) -> int:
        """Time of its first event."""
        if self.start_ns is not None:
            return self.start_ns
        times = (int(str(frame["ts"].min())) for frame in self.tables.values() if frame.height)
        return min(times, default=0)

    def name_of(self, table: str, column: str, value: int) -> str:
        """Return what a number means; the column's name and the number if the trace is silent."""
        return self.symbols.get((table, column), {}).get(value) or f"{column} {value}"

    def periods(self) -> pl.DataFrame:
        """Return every decision with its outcome, as the reader joins them.

        Returns:
            One row for each decision, sorted by CPU and sequence number; the columns of the
            outcome are prefixed with `out_` and null where there is none.
        """
        made = in_order(self.tables["period"].rename(_OF_OUTCOME))
        has = (pl.col("out_kind") != _NO_OUTCOME) & _plausible("ts", "out_ts", "out_residency_ns")
        names = ("out_kind", "out_ts", "out_index", *_OF_OUTCOME.values())
        return made.with_columns(pl.when(has).then(name).alias(name) for name in names)

    @property
    def kernel(self) -> str:
        """Release of the kernel that recorded it; "" where the trace does not say."""
        config = self.tables["config"]
        return str(config["kernel"][0]) if config.height else ""


def in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """Return rows by CPU and number; a part of a recording has them so already."""
    if frame["cpu"].n_unique() == 1 and frame["seq"].is_sorted():
        return frame
    return frame.sort("cpu", "seq", maintain_order=True)


def _table(path: Path, row: dict[str, object]) -> StateTable:
    count = row["states"]
    assert isinstance(count, int)
    if not 1 <= count <= states_max():
        raise UserError(f"{path}: claims a machine with {count} idle states")
    arrays = {}
    for name in ("exit_latency_ns", "target_residency_ns", "power_mw"):
        values = row[name]
        assert isinstance(values, list)
        arrays[name] = tuple(int(value) for value in values[:count])
    names = str(row["names"]).split(",")
    names += [f"state {index}" for index in range(len(names), count)]
    polling, tick = row["polling"], row["tick_ns"]
    assert isinstance(polling, int) and isinstance(tick, int)
    table = StateTable(
        names=tuple(name or f"state {index}" for index, name in enumerate(names[:count])),
        exit_latency_ns=arrays["exit_latency_ns"],
        target_residency_ns=arrays["target_residency_ns"],
        power_uw=tuple(1000 * mw for mw in arrays["power_mw"]),
        polling=tuple(bool(polling >> index & 1) for index in range(count)),
        tick_ns=tick,
    )
    check_table(path, table)
    return table


_MACHINE_COLUMNS = ["machine_cpu", "states", "names", "polling", "tick_ns", "exit_latency_ns",
                    "target_residency_ns", "power_mw"]  # fmt: skip


def state_tables_of(
    path: Path,
    config: pl.DataFrame,
    known: Mapping[int, StateTable] | None = None,
    context: Context | None = None,
) -> dict[int, StateTable]:
    """Return the idle states of each CPU that config events tell of.

    Powers of the events are in whole mW, so those of a recording without the module are not used.

    Args:
        path: the trace, for messages.
        config: the events.
        known: what earlier ones told.
        context: facts of a recording without the module; None: of one with it.

    Raises:
        UserError: they contradict themselves, or each other.
    """
    state_tables = dict(known or {})
    for row in config.select(_MACHINE_COLUMNS).unique(maintain_order=True).iter_rows(named=True):
        table = (context and context.table(row["machine_cpu"])) or _table(path, row)
        if state_tables.setdefault(row["machine_cpu"], table) != table:
            raise UserError(
                f"{path}: the idle states of CPU {row['machine_cpu']} changed while it was "
                "recorded; record each machine on its own"
            )
    return state_tables


def name_notes(state_tables: Mapping[int, StateTable]) -> list[str]:
    """Return a sentence where figures by state have names that not all CPUs have.

    Args:
        state_tables: idle states by CPU.
    """
    if len({table.names for table in state_tables.values()}) < 2:
        return []
    cpu = max(state_tables, key=lambda cpu: state_tables[cpu].count)
    return [
        f"CPUs name their idle states differently: figures by state are those of its number on all "
        f"CPUs, under the names of CPU {cpu}"
    ]


def twin_notes(state_tables: Mapping[int, StateTable]) -> list[str]:
    """Return a sentence for each pair of states that have one target residency.

    Args:
        state_tables: idle states by CPU.
    """
    found: dict[tuple[str, str, float], list[int]] = {}
    for cpu, table in sorted(state_tables.items()):
        states = list(zip(table.names, table.target_residency_ns, strict=True))
        for (one, target), (other, same) in pairwise(states):
            if target == same:
                found.setdefault((one, other, target / 1000), []).append(cpu)
    return [
        f"{one} and {other} of CPU {cpu_list(cpus)} have one target residency, {target:g} us: "
        "only their powers tell them apart"
        for (one, other, target), cpus in found.items()
    ]


def check_indices(
    path: Path, tables: Mapping[str, pl.DataFrame], state_tables: Mapping[int, StateTable]
) -> None:
    """Refuse indices that no state table of the trace has.

    Raises:
        UserError: a decision or an outcome names one.
    """
    if not state_tables:
        return
    most = max(table.count for table in state_tables.values())
    least = min(table.count for table in state_tables.values())
    counts = pl.DataFrame(
        {"cpu": list(state_tables), "count": [table.count for table in state_tables.values()]},
        schema={"cpu": pl.UInt16, "count": pl.UInt8},
    )
    outcomes = pl.col("out_kind") != _NO_OUTCOME
    for name, column, has in (("decision", "index", True), ("outcome", "out_index", outcomes)):
        periods = tables["period"]
        if not periods.height or int(str(periods[column].max())) < least:
            continue
        frame = periods.filter(has).select("cpu", "seq", index=column)
        bad = frame.join(counts, on="cpu", how="left").filter(
            pl.col("index") >= pl.col("count").fill_null(most)
        )
        if bad.height:
            row = bad.row(0, named=True)
            raise UserError(
                f"{path}: {name} {row['seq']} of CPU {row['cpu']} names idle state {row['index']}, "
                f"which its machine does not have"
            )


def _check_unique(path: Path, tables: dict[str, pl.DataFrame]) -> None:
    for name in ("decision", "outcome"):
        frame = tables[name].select("cpu", "seq")
        if frame.is_duplicated().any():
            raise UserError(
                f"{path}: a {name} occurs twice with the same CPU and sequence number; was the "
                "module reloaded while it was recorded?"
            )


# The clocks of a residency and of the events may differ by so much.
_CLOCK_TOLERANCE_NS = 1_000_000


def _plausible(begin: str, end: str, residency: str) -> pl.Expr:
    """Tell where there was time for a residency between a decision and its outcome."""
    span = (pl.col(end) - pl.col(begin)).cast(pl.Float64) * 1.01 + _CLOCK_TOLERANCE_NS
    return (pl.col(end) >= pl.col(begin)) & (pl.col(residency).cast(pl.Float64) <= span)


def implausible(periods: pl.DataFrame) -> int:
    """Count outcomes, of the table of that name, that Trace.periods() leaves out."""
    has = pl.col("out_kind") != _NO_OUTCOME
    return int(periods.select((has & ~_plausible("ts", "out_ts", "residency_ns")).sum()).item())


def _drop_implausible(tables: dict[str, pl.DataFrame]) -> int:
    """Drop outcomes that claim a longer residency than there was time for; return how many."""
    begin = tables["decision"].select("cpu", "seq", begin="ts")
    outcomes = tables["outcome"].join(begin, on=["cpu", "seq"], how="left", maintain_order="left")
    kept = outcomes.filter(_plausible("begin", "ts", "residency_ns").fill_null(True)).drop("begin")
    dropped = outcomes.height - kept.height
    tables["outcome"] = kept
    return dropped


def _integrity(tables: dict[str, pl.DataFrame], events: int, implausible: int) -> Integrity:
    decisions = tables["decision"].select("cpu", "seq")
    step = (
        decisions.sort("cpu", "seq")
        .select(step=pl.col("seq").cast(pl.Int64).diff().over("cpu"))
        .filter(pl.col("step") > 1)
    )
    outcomes = tables["outcome"].select("cpu", "seq")
    lost = tables["lost"]["events"]
    return Integrity(
        events=events,
        lost_known=int(lost.filter(lost > 0).sum() or 0),
        lost_unknown=int((lost < 0).sum() or 0),
        decisions_missing=int((step["step"] - 1).sum() or 0),
        gaps=step.height,
        without_outcome=decisions.join(outcomes, on=["cpu", "seq"], how="anti").height,
        without_decision=outcomes.join(decisions, on=["cpu", "seq"], how="anti").height,
        implausible=implausible,
    )


def no_idle_periods(path: Path) -> UserError:
    """Return the error of a recording that holds none."""
    return UserError(
        f"{path}: holds no idle periods, neither cpuidle_lab:* nor power:cpu_idle events; "
        "record with trace-cmd record -e cpuidle_lab -e power:cpu_idle"
    )


def is_timerless(context: Context | None, ending: Ending) -> bool:
    """Tell whether a recording without the module has power:cpu_idle alone: no decisions.

    Args:
        context: what is known of it; None of a recording with the module.
        ending: what its reading came to.
    """
    return context is not None and bool(context.known()) and not ending.asked + ending.inferred


def _collect(
    path: Path, wanted: list[str], context: Context | None
) -> tuple[Schema, dict[str, pl.DataFrame], Ending]:
    schema, ending = Schema(), Ending(0, 0, 0, 0, 0, 0, 0, 0)
    parts: dict[str, list[pl.DataFrame]] = {}
    for piece in read_chunks(path, wanted, context):
        if isinstance(piece, Schema):
            schema = piece
            parts = {name: [empty(columns)] for name, columns in schema.tables.values()}
        elif isinstance(piece, Chunk):
            parts[piece.table].append(piece.frame)
        else:
            ending = piece
    return schema, {name: pl.concat(frames) for name, frames in parts.items()}, ending


# The columns that the code relies on, for events that a trace does not have.
ABSENT: dict[str, pl.DataFrame] = {
    "decision": pl.DataFrame(schema={"ts": pl.UInt64, "cpu": pl.UInt16, "seq": pl.UInt64,
                                     "index": pl.UInt8, "governor": pl.UInt8}),
    "outcome": pl.DataFrame(schema={"ts": pl.UInt64, "cpu": pl.UInt16, "seq": pl.UInt64,
                                    "index": pl.UInt8, "residency_ns": pl.UInt64}),
}  # fmt: skip


def _leave_out(context: Context, tables: dict[str, pl.DataFrame]) -> dict[str, int]:
    """Drop CPUs whose idle states are not known; return them with their idle periods."""
    counts = tables.pop("idle", pl.DataFrame({"cpu": []})).group_by("cpu").len()
    found = left_out(context, dict(counts.iter_rows()))
    if found:
        gone = [int(cpu) for cpu in found]
        tables["cpu_idle"] = tables["cpu_idle"].filter(~pl.col("cpu").is_in(gone))
    return found


def gaps(context: Context, gone: Mapping[str, int]) -> dict[str, object]:
    """Return what stock.omissions() needs of a recording without the module."""
    return {"left_out": gone, "unused": context.unused, "changed": context.changed}


def left_out_percent(gone: Mapping[str, int], kept: int) -> float:
    """Return the share of idle periods of CPUs that were left out, %.

    Args:
        gone: these idle periods by CPU.
        kept: those of the other CPUs.
    """
    return 100 * sum(gone.values()) / (sum(gone.values()) + kept) if gone else 0.0


def must_hold(
    path: Path, decisions: bool, idle: bool, config: pl.DataFrame, gone: Mapping[str, int]
) -> None:
    """Refuse a recording without idle periods, or with decisions and without idle states.

    Args:
        path: of the recording.
        decisions: it has any.
        idle: it has events of power:cpu_idle.
        config: its table of that name.
        gone: idle periods that were left out, by CPU.

    Raises:
        UserError: it does not hold what a report needs.
    """
    if not decisions and not idle:
        if gone:
            raise UserError(f"{path}: {omissions({'left_out': gone})[0]}")
        raise no_idle_periods(path)
    if decisions and not config.height:
        raise UserError(
            f"{path}: has decisions but no cpuidle_lab:cil_config event, so the idle states are "
            "unknown; record with -e cpuidle_lab (all of its events)"
        )


# Tables that a recording of power:cpu_idle alone has not.
DECIDED = ("decision", "outcome", "period", "interval")


def load(path: Path, *, with_state: bool = False, context: Context | None = None) -> Trace:
    """Read a whole trace.

    Args:
        path: the trace.dat file.
        with_state: read the checkpoints of the governors' state, too (large).
        context: what is known of a recording without the module; None: what it tells itself.

    Raises:
        UserError: the file cannot be read, is no trace, is damaged, contradicts itself, or has
            neither our events nor power:cpu_idle.
    """
    wanted = [name for name in (*TABLES, "period", "interval") if name != "state" or with_state]
    context = context or context_in(path)
    schema, tables, ending = _collect(path, [*wanted, *(["idle"] * bool(context))], context)
    gone = _leave_out(context, tables) if context else {}
    if is_timerless(context, ending):
        tables = {name: frame for name, frame in tables.items() if name not in DECIDED}
    for name in wanted:
        tables.setdefault(name, ABSENT.get(name, pl.DataFrame()))
    state_tables = (
        state_tables_of(path, tables["config"], context=context) if tables["config"].height else {}
    )
    said = []
    if context:
        notes = table_notes(context, sorted(tables["cpu_idle"]["idle_cpu"].unique()))
        said = omissions({**gaps(context, gone), "notes": notes})
    idle = tables["cpu_idle"]
    must_hold(path, bool(tables["decision"].height), bool(idle.height), tables["config"], gone)
    _check_unique(path, tables)
    check_indices(path, tables, state_tables)
    implausible = _drop_implausible(tables)
    return Trace(
        path=path,
        cpus=schema.cpus,
        tables=tables,
        symbols=schema.symbols,
        state_tables=state_tables,
        integrity=_integrity(tables, ending.events, implausible),
        omissions=[*said, *name_notes(state_tables)],
        way=context.way if context else "",
        changed=bool(context and context.changed),
        left_out_percent=left_out_percent(
            gone, int((idle["state"] != IDLE_EXIT).sum()) if gone else 0
        ),
    )
