# SPDX-License-Identifier: GPL-2.0
"""A recording as a trace for the viewer Perfetto.

Each CPU has three tracks: its idle periods as slices named by their states, its decisions as
instants with all inputs as arguments, and its regret as a counter. Slices have as arguments what
became of the decision behind them. The counter is the regret since the workload or the governor
changed: its last value is that of the report for this CPU. Domains have tracks below these.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import polars as pl
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    CounterDescriptor,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
)
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

from cpuidle_lab.figures.frames import DECISIONS, Frames

# The one writer of all packets; those of a CPU are in the order of time.
_SEQUENCE = 1

# Tracks: number of the kind plus this many times the CPU's number plus 1.
_SLICES, _DECISIONS, _REGRET = 1, 2, 3
_KINDS = 4

# Above all of them. By this number a file is known to be of this program.
_ROOT = int.from_bytes(b"cpuidle")
# Tracks that are of no CPU, from here on.
_FURTHER = 2**40
MARK = TrackDescriptor(uuid=_ROOT).SerializeToString()

# Inputs of a decision, and the decision; the rest is its outcome.
ARGUMENTS = tuple(DECISIONS)[: tuple(DECISIONS).index("entered")]
OUTCOME = ("residency_ns", "ended_by_tick", "ideal", "above", "below")

Row = Mapping[str, Any]


def track(kind: int, cpu: int) -> int:
    """Return the number of a CPU's track."""
    return _KINDS * (cpu + 1) + kind


def _root(frames: Frames) -> TracePacket:
    packet = TracePacket()
    packet.track_descriptor.uuid = _ROOT
    packet.track_descriptor.name = f"cpuidle {frames.path.name} {frames.kernel}".strip()
    return packet


def _tracks(cpu: int) -> Iterator[TracePacket]:
    for kind, name in ((_SLICES, "idle"), (_DECISIONS, "decisions"), (_REGRET, "regret")):
        packet = TracePacket()
        descriptor = packet.track_descriptor
        descriptor.uuid, descriptor.parent_uuid = track(kind, cpu), _ROOT
        descriptor.name = f"CPU {cpu} {name}"
        if kind == _REGRET:
            descriptor.counter.unit_name = "%"
            descriptor.counter.unit = CounterDescriptor.UNIT_UNSPECIFIED
        yield packet


def _event(ts: int, kind: int, cpu: int, event_type: int) -> TracePacket:
    packet = TracePacket()
    packet.timestamp = ts
    packet.track_event.type = event_type
    packet.track_event.track_uuid = track(kind, cpu)
    return packet


# Field of an annotation by the type of its value.
_VALUES = {bool: "bool_value", str: "string_value", int: "int_value"}


def _annotate(packet: TracePacket, values: Row) -> None:
    add = packet.track_event.debug_annotations.add
    for name, value in values.items():
        if value is not None:
            annotation = add()
            annotation.name = name
            setattr(annotation, _VALUES[type(value)], value)


def _decision(row: Row) -> TracePacket:
    packet = _event(row["ts"], _DECISIONS, row["cpu"], TrackEvent.TYPE_INSTANT)
    packet.track_event.name = f"{row['governor']}: {row['state']}"
    _annotate(packet, {name: row[name] for name in ARGUMENTS})
    return packet


def _begin(row: Row) -> TracePacket:
    packet = _event(row["start_ns"], _SLICES, row["cpu"], TrackEvent.TYPE_SLICE_BEGIN)
    packet.track_event.name = row["state"]
    _annotate(packet, {name: row[name] for name in ("governor", "seq", *OUTCOME)})
    return packet


def _end(row: Row) -> TracePacket:
    return _event(row["end_ns"], _SLICES, row["cpu"], TrackEvent.TYPE_SLICE_END)


def _counter(row: Row) -> TracePacket:
    packet = _event(row["end_ns"], _REGRET, row["cpu"], TrackEvent.TYPE_COUNTER)
    packet.track_event.double_counter_value = row["regret"]
    return packet


# Of a CPU, a workload and a governor: energies so far, its own and the oracle's.
Spent = dict[tuple[int, str, str], tuple[float, float]]
_PART = ["cpu", "workload", "governor"]


def regrets(frames: Frames, before: Spent | None = None) -> pl.DataFrame:
    """Return the regret so far at the end of each judged interval: cpu, end_ns, regret (%).

    Args:
        frames: the recording, or a part of it.
        before: energies of the parts before; updated.
    """
    known = before if before is not None else {}
    rows = [(*key, *energies) for key, energies in known.items()]
    names = [*_PART, "spent_before", "oracle_before"]
    kinds = [pl.UInt16, pl.String, pl.String, pl.Float64, pl.Float64]
    earlier = pl.DataFrame(rows, schema=dict(zip(names, kinds, strict=True)), orient="row")
    told = frames.intervals.filter("judged").join(
        earlier, on=_PART, how="left", maintain_order="left"
    )
    spent, oracle = (
        pl.col(f"{name}_pj").cum_sum().over(_PART) + pl.col(f"{of}_before").fill_null(0.0)
        for name, of in (("cost", "spent"), ("oracle", "oracle"))
    )
    told = told.with_columns(
        end_ns=pl.col("ts") + pl.col("length_ns").cast(pl.UInt64), spent=spent, oracle=oracle
    )
    for *key, mine, best in told.group_by(_PART).agg(pl.last("spent", "oracle")).iter_rows():
        known[key[0], key[1], key[2]] = mine, best
    return (
        told.with_columns(regret=100 * (pl.col("spent") / pl.col("oracle") - 1))
        .filter(pl.col("oracle") > 0)
        .select("cpu", "end_ns", "regret")
    )


def _in_time(frames: Frames, before: Spent) -> Iterator[TracePacket]:
    """Yield all events in the order of time; a slice ends before the next one begins."""
    outcome = frames.decisions.select("cpu", "seq", "governor", *OUTCOME)
    slices = frames.idle.join(outcome, on=["cpu", "seq"], how="left", maintain_order="left")
    slices = slices.with_columns(end_ns=pl.max_horizontal("end_ns", pl.col("start_ns") + 1))
    sources = (
        (slices, "end_ns", _end),
        (regrets(frames, before), "end_ns", _counter),
        (frames.decisions, "ts", _decision),
        (slices, "start_ns", _begin),
    )
    order = pl.concat(
        frame.select(ts=column, source=pl.lit(n, pl.UInt8))
        for n, (frame, column, _) in enumerate(sources)
    ).sort("ts", "source", maintain_order=True)
    rows = [frame.sort(column, maintain_order=True).iter_rows(named=True)
            for frame, column, _ in sources]  # fmt: skip
    for source in order["source"]:
        yield sources[source][2](next(rows[source]))


@dataclass
class Written:
    """Counts of an export.

    Attributes:
        events: written.
        decisions, idle_periods: in the recording.
    """

    events: int = 0
    decisions: int = 0
    idle_periods: int = 0


# Slices of a track: begin, end (ns) and name.
Slices = Sequence[tuple[int, int, str]]


def _further(tracks: Mapping[str, Slices]) -> Iterator[TracePacket]:
    """Yield tracks of slices, each with its slices in the order of time."""
    for number, (name, slices) in enumerate(tracks.items(), start=1):
        packet = TracePacket()
        packet.track_descriptor.uuid = _FURTHER + number
        packet.track_descriptor.parent_uuid = _ROOT
        packet.track_descriptor.name = name
        yield packet
        for begin, end, said in slices:
            for ts, kind in (
                (begin, TrackEvent.TYPE_SLICE_BEGIN),
                (end, TrackEvent.TYPE_SLICE_END),
            ):
                packet = TracePacket()
                packet.timestamp = ts
                packet.track_event.type = kind
                packet.track_event.track_uuid = _FURTHER + number
                if ts == begin:
                    packet.track_event.name = said
                yield packet


def write(
    parts: Iterable[Frames], target: IO[bytes], further: Mapping[str, Slices] | None = None
) -> Written:
    """Write a recording as a trace for Perfetto.

    Args:
        parts: of the recording; the events of each are in the order of time.
        target: a binary file.
        further: tracks of slices, by name.
    """
    builder = StreamingTraceProtoBuilder(target)
    found, before = Written(), Spent()
    known: set[int] = set()

    def put(packet: TracePacket) -> None:
        packet.trusted_packet_sequence_id = _SEQUENCE
        builder.write_packet(packet)

    for number, frames in enumerate(parts):
        if not number:
            head = _root(frames)
            head.sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
            put(head)
        for cpu in sorted({*frames.idle["cpu"].unique().to_list()} - known):
            known.add(cpu)
            for packet in _tracks(cpu):
                put(packet)
        for packet in _in_time(frames, before):
            put(packet)
            found.events += 1
        found.decisions += frames.decisions.height
        found.idle_periods += frames.idle.height
    for packet in _further(further or {}):
        put(packet)
        found.events += packet.HasField("track_event")
    return found
