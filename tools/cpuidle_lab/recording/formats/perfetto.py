# SPDX-License-Identifier: GPL-2.0
"""Ftrace events in a Perfetto trace (protocol buffers).

A trace is a sequence of packets, which may be compressed; a packet may hold a bundle of one CPU's
events. The generated classes would parse whole messages: this reader takes packet by packet, and of
each only what it needs, so that a trace may be larger than memory. A test compares the field
numbers with those of the `perfetto` package.

Timers are not read: Perfetto replaces the addresses of timers and functions by numbers that hold
for a while, so neither a timer nor the tick can be told. What was left out is named in a last line.
"""

import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.host.marks import MARK
from cpuidle_lab.recording.formats.holes import Holes
from cpuidle_lab.recording.formats.writer import EVENTS, Event

# Field numbers of perfetto_trace.proto, by message.
PACKET = 1
FTRACE_EVENTS, SEQUENCE, PACKET_DROPPED, COMPRESSED_PACKETS = 1, 10, 42, 50
CPU, EVENT, LOST_EVENTS, BUNDLE_ERROR, BROKEN_PAGE = 1, 2, 3, 8, 512
TIMESTAMP, PRINT, SCHED_SWITCH, CPU_IDLE = 1, 3, 4, 13
STATE = 1
PREV_PID, NEXT_PID = 2, 6
BUF = 2
EVENT_NAME = 1
PID = 2

# Interrupts: the event's field, its name, and that of its number, which is field 1. Of interrupts
# that are raised for other CPUs Perfetto has no targets, so they are not read.
INTERRUPTS = {
    26: ("softirq_raise", "vec"),
    36: ("irq_handler_entry", "irq"),
    37: ("irq_handler_exit", "irq"),
    559: ("local_timer_entry", "vector"),
    560: ("local_timer_exit", "vector"),
}
_NUMBER, _NAME = 1, 2

# Events of a CPU that goes offline or comes back; in all its number is field 1.
OFFLINE = {
    19: "sched_cpu_hotplug",
    343: "cpuhp_exit",
    344: "cpuhp_multi_enter",
    345: "cpuhp_enter",
    346: "cpuhp_latency",
}

# Events that would tell more, and are left out; those of GENERIC carry their name.
GENERIC = 327
UNUSED = {
    542: "kprobe_event",
    551: "hrtimer_start",
    552: "hrtimer_cancel",
    553: "hrtimer_expire_entry",
    555: "timer_start",
    556: "timer_cancel",
    557: "timer_expire_entry",
}

# A packet is held whole, packed and unpacked.
_PACKET_MAX = 1 << 26
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Value = int | bytes


class _DamagedError(Exception):
    """The bytes are no message."""


class _LargeError(Exception):
    """A packet is larger than is held."""


# Two empty lines begin as a packet does; keys and numbers of packets are no characters of text.
_TEXT = re.compile(rb"[\t\n\f\r\x1b\x20-\xff]*")


def is_perfetto(head: bytes) -> bool:
    """Tell whether a file that begins so may be a Perfetto trace."""
    if len(head) < 2 or head[0] != PACKET << 3 | _BYTES or _TEXT.fullmatch(head):
        return False
    try:
        size, at = _varint(head, 1)
        first, _ = _varint(head, at)
    except _DamagedError:
        return False
    return 0 < size <= _PACKET_MAX and first >> 3 > 0 and first & 7 in (0, 1, 2, 5)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise _DamagedError
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        value: Value
        if kind == _VARINT:
            value, at = _varint(data, at)
        elif kind == _BYTES:
            size, at = _varint(data, at)
            if size > end - at:
                raise _DamagedError
            value, at = data[at : at + size], at + size
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
            if size > end - at:
                raise _DamagedError
            value, at = int.from_bytes(data[at : at + size], "little"), at + size
        else:
            raise _DamagedError
        yield key >> 3, value


def _stream_varint(stream: IO[bytes]) -> int | None:
    """Return a number from a file; None at its end."""
    data = b""
    while byte := stream.read(1):
        data += byte
        if byte[0] < 0x80:
            return _varint(data, 0)[0]
        if len(data) > 10:
            raise _DamagedError
    if data:
        raise _DamagedError
    return None


def _packets(stream: IO[bytes]) -> Iterator[bytes]:
    while (key := _stream_varint(stream)) is not None:
        size = _stream_varint(stream)
        if key != PACKET << 3 | _BYTES or size is None:
            raise _DamagedError
        if size > _PACKET_MAX:
            raise _LargeError
        data = stream.read(size)
        if len(data) != size:
            raise _DamagedError
        yield data


def _unpacked(packet: bytes) -> Iterator[list[tuple[int, Value]]]:
    """Yield the fields of a packet, and of those that it holds compressed."""
    fields = list(_fields(packet))
    yield fields
    for number, value in fields:
        if number == COMPRESSED_PACKETS and isinstance(value, bytes):
            inflater = zlib.decompressobj()
            data = inflater.decompress(value, _PACKET_MAX)
            if inflater.unconsumed_tail:
                raise _LargeError
            for key, inner in _fields(data):
                if key == PACKET and isinstance(inner, bytes):
                    yield list(_fields(inner))


def _numbers(data: Value) -> dict[int, Value]:
    if not isinstance(data, bytes):
        raise _DamagedError
    return dict(_fields(data))


def _number(fields: dict[int, Value], key: int) -> int:
    value = fields.get(key, 0)
    if not isinstance(value, int):
        raise _DamagedError
    return value


def _unused(fields: dict[int, Value]) -> str:
    """Return the name of an event that would tell more; "" of others."""
    if GENERIC in fields:
        told = _numbers(fields[GENERIC]).get(EVENT_NAME, b"")
        name = told.decode(errors="replace") if isinstance(told, bytes) else ""
        return name if name in EVENTS else ""
    return next((name for number, name in UNUSED.items() if number in fields), "")


def _event(cpu: int, fields: dict[int, Value], unused: set[str]) -> Event | None:
    ts = _number(fields, TIMESTAMP)
    if CPU_IDLE in fields:
        told = _numbers(fields[CPU_IDLE])
        return Event(cpu, ts, "cpu_idle", {"state": _number(told, STATE)})
    if SCHED_SWITCH in fields:
        told = _numbers(fields[SCHED_SWITCH])
        values = {"prev_pid": _number(told, PREV_PID), "next_pid": _number(told, NEXT_PID)}
        return Event(cpu, ts, "sched_switch", values)
    if PRINT in fields:
        text = _numbers(fields[PRINT]).get(BUF, b"")
        if isinstance(text, bytes):
            return Event(cpu, ts, "print", text=text.decode(errors="replace").strip())
    for number in INTERRUPTS.keys() & fields.keys():
        return _interrupt(cpu, number, fields)
    if name := _unused(fields):
        unused.add(name)
    return None


def _interrupt(cpu: int, number: int, fields: dict[int, Value]) -> Event:
    name, of = INTERRUPTS[number]
    told = _numbers(fields[number])
    text = told.get(_NAME, b"") if name == "irq_handler_entry" else b""
    if not isinstance(text, bytes):
        raise _DamagedError
    return Event(
        cpu, _number(fields, TIMESTAMP), name, {of: _number(told, _NUMBER)},
        text=text.decode(errors="replace"), pid=_number(fields, PID) & 0x7FFFFFFF,
    )  # fmt: skip


class _Bundles:
    """Makes events of bundles, and remembers what is lost before the next of each CPU.

    Attributes:
        unused: names of events that would tell more.
    """

    def __init__(self) -> None:
        self.unused: set[str] = set()
        self._holes = Holes()
        # CPUs whose events a sequence of packets has carried.
        self._carried: dict[int, set[int]] = {}

    def of(self, packet: list[tuple[int, Value]]) -> Iterator[Event]:
        """Yield the events of a packet."""
        head = {key: value for key, value in packet if key != FTRACE_EVENTS}
        carried = self._carried.setdefault(_number(head, SEQUENCE), set())
        if _number(head, PACKET_DROPPED):
            for cpu in carried:
                self._holes.lost(cpu)
        for key, bundle in packet:
            if key == FTRACE_EVENTS and isinstance(bundle, bytes):
                yield from self._bundle(bundle, carried)

    def _bundle(self, data: bytes, carried: set[int]) -> Iterator[Event]:
        fields = list(_fields(data))
        head = {key: value for key, value in fields if key != EVENT}
        cpu = _number(head, CPU)
        carried.add(cpu)
        if _number(head, LOST_EVENTS) or BUNDLE_ERROR in head or BROKEN_PAGE in head:
            self._holes.lost(cpu)
        for key, value in fields:
            if key == EVENT and isinstance(value, bytes):
                told = dict(_fields(value))
                for number in OFFLINE.keys() & told.keys():
                    self._holes.off(_number(_numbers(told[number]), CPU))
                event = _event(cpu, told, self.unused)
                if event:
                    yield from self._holes.place(event)


def events(path: Path) -> Iterator[Event]:
    """Yield the events of a Perfetto trace; at last, a line that names those left out.

    Raises:
        UserError: the file is damaged or truncated.
    """
    bundles = _Bundles()
    last: Event | None = None
    try:
        with path.open("rb") as stream:
            for packet in _packets(stream):
                for fields in _unpacked(packet):
                    for last in bundles.of(fields):
                        yield last
    except _LargeError:
        raise UserError(
            f"{path}: has a packet of more than {_PACKET_MAX >> 20} MiB, which is not read"
        ) from None
    except (_DamagedError, zlib.error):
        raise UserError(f"{path}: is a Perfetto trace, but truncated or damaged") from None
    if last and bundles.unused:
        names = ",".join(sorted(bundles.unused))
        yield Event(last.cpu, last.ts, "print", text=f"{MARK}unused={names}")
