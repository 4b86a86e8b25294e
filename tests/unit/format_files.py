# SPDX-License-Identifier: GPL-2.0
"""Files of other formats that tests share."""

from cpuidle_lab.recording.formats import perfetto
from tests.unit.kernel_events import EXIT

MARKERS = 1_000_000


MEMORY = 64 << 20


# Of a Perfetto event of an idle CPU; the reader does without it.
CPU_ID = 2


def field(number: int, value: int | bytes) -> bytes:
    """Return a field of a protocol buffer."""

    def varint(n: int) -> bytes:
        out = b""
        while n >= 128:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def idle_packet(ts: int, state: int, more: bytes = b"") -> bytes:
    """Return the fields of a packet with one idle event of CPU 3."""
    told = field(perfetto.STATE, state) + field(CPU_ID, 3)
    event = field(perfetto.TIMESTAMP, ts) + field(perfetto.CPU_IDLE, told)
    bundle = field(perfetto.CPU, 3) + more + field(perfetto.EVENT, event)
    return field(perfetto.FTRACE_EVENTS, bundle)


TEXT = "".join(
    f"  <idle>-0  [00{n % 2}] d..1. {n}.{n:06}: cpu_idle: state={(1, EXIT)[n % 2]} cpu_id=0\n"
    for n in range(40)
).encode()
