# SPDX-License-Identifier: GPL-2.0
"""A recording as a trace for the viewer Perfetto.

Each CPU has three tracks: its idle periods as slices named by their states, its decisions as
instants with all inputs as arguments, and its regret as a counter. Slices have as arguments what
became of the decision behind them. The counter is the regret since the workload or the governor
changed: its last value is that of the report for this CPU.
"""

from collections.abc import Iterator, Mapping
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

# The one writer of all packets; its packets are in the order of time.
_SEQUENCE = 1

# Tracks: number of the kind plus this many times the CPU's number plus 1.
_SLICES, _DECISIONS, _REGRET = 1, 2, 3
_KINDS = 4

# Above all of them. By this number a file is known to be of this program.
_ROOT = int.from_bytes(b"cpuidle")
MARK = TrackDescriptor(uuid=_ROOT).SerializeToString()

# Inputs of a decision, and the decision; the rest is its outcome.
ARGUMENTS = tuple(DECISIONS)[: tuple(DECISIONS).index("entered")]
OUTCOME = ("residency_ns", "ended_by_tick", "ideal", "above", "below")

Row = Mapping[str, Any]


def track(kind: int, cpu: int) -> int:
    """Return the number of a CPU's track."""
    return _KINDS * (cpu + 1) + kind


def _descriptors(frames: Frames) -> Iterator[TracePacket]:
    packet = TracePacket()
    packet.track_descriptor.uuid = _ROOT
    packet.track_descriptor.name = f"cpuidle {frames.path.name} {frames.kernel}".strip()
    yield packet
    for cpu in sorted(frames.idle["cpu"].unique().to_list()):
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


def _annotate(packet: TracePacket, values: Row) -> None:
    for name, value in values.items():
        if value is None:
            continue
        annotation = packet.track_event.debug_annotations.add()
        annotation.name = name
        if isinstance(value, bool):
            annotation.bool_value = value
        elif isinstance(value, str):
            annotation.string_value = value
        else:
            annotation.int_value = value


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


def regrets(frames: Frames) -> pl.DataFrame:
    """Return the regret so far at the end of each judged interval: cpu, end_ns, regret (%)."""
    part = ["cpu", "workload", "governor"]
    spent, oracle = (pl.col(name).cum_sum().over(part) for name in ("cost_pj", "oracle_pj"))
    return (
        frames.intervals.filter("judged")
        .with_columns(end_ns=pl.col("ts") + pl.col("length_ns").cast(pl.UInt64), oracle=oracle)
        .with_columns(regret=100 * (spent / oracle - 1))
        .filter(pl.col("oracle") > 0)
        .select("cpu", "end_ns", "regret")
    )


def _in_time(frames: Frames) -> Iterator[TracePacket]:
    """Yield all events in the order of time; a slice ends before the next one begins."""
    outcome = frames.decisions.select("cpu", "seq", "governor", *OUTCOME)
    slices = frames.idle.join(outcome, on=["cpu", "seq"], how="left", maintain_order="left")
    slices = slices.with_columns(end_ns=pl.max_horizontal("end_ns", pl.col("start_ns") + 1))
    sources = (
        (slices, "end_ns", _end),
        (regrets(frames), "end_ns", _counter),
        (frames.decisions, "ts", _decision),
        (slices, "start_ns", _begin),
    )
    order = pl.concat(
        frame.select(ts=column, source=pl.lit(n, pl.UInt8), row=pl.int_range(pl.len()))
        for n, (frame, column, _) in enumerate(sources)
    ).sort("ts", "source", maintain_order=True)
    for _, source, row in order.iter_rows():
        frame, _, make = sources[source]
        yield make(frame.row(row, named=True))


def write(frames: Frames, target: IO[bytes]) -> int:
    """Write a recording as a trace for Perfetto.

    Args:
        frames: the recording.
        target: a binary file.

    Returns:
        The number of events.
    """
    builder = StreamingTraceProtoBuilder(target)
    first = True
    for packet in _descriptors(frames):
        packet.trusted_packet_sequence_id = _SEQUENCE
        if first:
            packet.sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
            first = False
        builder.write_packet(packet)
    count = 0
    for packet in _in_time(frames):
        packet.trusted_packet_sequence_id = _SEQUENCE
        builder.write_packet(packet)
        count += 1
    return count
