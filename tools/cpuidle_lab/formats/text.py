# SPDX-License-Identifier: GPL-2.0
"""Events as lines of text.

`trace-cmd report`, /sys/kernel/tracing/trace, Android's systrace HTML (which has such lines in a
page) and `perf script` all write

    COMM-PID [CPU] FLAGS SECONDS.FRACTION: EVENT: FIELD=VALUE ...

Lines of another form, and of events that are not needed, are passed over.
"""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from cpuidle_lab.formats.writer import EVENTS, Event

# A longer line is none of a trace: Android's page holds scripts in such lines.
_LINE_MAX = 1 << 16

_LINE = re.compile(
    r"\[(\d{1,4})\]\s+(?:[^\s\d:]\S{2,9}\s+|\S{4,9}\s+(?=\d+\.))?(\d{1,12})\.(\d{6}|\d{9}):\s+"
    r"(?:\d+\s+)?(?:(\w+):)?(\w+):\s*(.*)$"
)
_PAIR = re.compile(r"(\w+)=(\S+)")
# As trace-cmd report shows a switch: comm:pid [priority] state ==> comm:pid [priority].
_SWITCH = re.compile(r":(\d{1,9}) \[\d+\] \S+ ==> .*:(\d{1,9}) \[")
_LOST = re.compile(r"CPU:(\d{1,4}) \[(?:LOST \d+ EVENTS|EVENTS DROPPED)\]|\[CPU:(\d{1,4}) LOST")
# Of struct timer_list, as the kernel shows it: deferrable (does not wake an idle CPU), pinned.
_WHEEL_FLAGS = {"D": 0x80000, "P": 0x100000}
_WHEEL_CPU = 0x3FFFF
_MARKS = ("tracing_mark_write", "print")


def is_text(head: bytes) -> bool:
    """Tell whether a file that begins so may be such text."""
    if b"\0" in head:
        return False
    lines = head.decode(errors="replace").splitlines()
    return any(
        _LINE.search(line) or line.startswith(("# tracer:", "<!DOCTYPE html", "<html", "cpus="))
        for line in lines
    )


def _number(text: str) -> int:
    word = text.rstrip(",")
    if word in ("yes", "no"):
        return int(word == "yes")
    for base in (0, 16):
        with contextlib.suppress(ValueError):
            return int(word, base)
    return 0


def _wheel_timer(pairs: dict[str, str], values: dict[str, int]) -> dict[str, int]:
    """Return what the kernel's text tells of a timer: [timeout=JIFFIES] in place of the time."""
    if "timeout" not in pairs:
        return values
    timeout = _number(pairs["timeout"].rstrip("]"))
    flags = _number(pairs.get("cpu", "")) & _WHEEL_CPU
    for letter in pairs.get("flags", "").split("|"):
        flags |= _WHEEL_FLAGS.get(letter, 0)
    return values | {"now": values.get("expires", 0) - timeout, "flags": flags}


def _event(line: str, lost: set[int]) -> Event | None:
    found = _LINE.search(line)
    if not found:
        return None
    cpu_text, seconds, fraction, _, name, rest = found.groups()
    name = "print" if name in _MARKS else name
    if name not in EVENTS:
        return None
    cpu = int(cpu_text)
    ts = int(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0"))
    text, values = "", {}
    if name == "print":
        text = re.sub(r"^(?:0x)?[0-9a-f]{6,}:?\s+|^tracing_mark_write:\s*", "", rest).strip()
    else:
        pairs = dict(_PAIR.findall(rest))
        text = pairs.get("function", "").partition("/")[0].partition("+")[0]
        values = {key: _number(pairs[key]) for key in EVENTS[name][2] if key in pairs}
        if name == "timer_start":
            values = _wheel_timer(pairs, values)
        switch = _SWITCH.search(rest) if name == "sched_switch" and not values else None
        if switch:
            values = {"prev_pid": int(switch[1]), "next_pid": int(switch[2])}
    if name == "cpu_idle" and "state" not in values:
        return None
    was_lost = cpu in lost
    lost.discard(cpu)
    return Event(cpu, ts, name, values, text, was_lost)


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines that are short enough for a trace."""
    begins = True
    with path.open("rb") as stream:
        while data := stream.readline(_LINE_MAX):
            if begins and len(data) < _LINE_MAX:
                yield data
            begins = data.endswith(b"\n")


def events(path: Path) -> Iterator[Event]:
    """Yield the events of a file of text, line by line."""
    lost: set[int] = set()
    for data in _lines(path):
        line = data.decode(errors="replace").rstrip().removesuffix("\\n\\")
        if dropped := _LOST.search(line):
            lost.add(int(dropped[1] or dropped[2]))
        elif event := _event(line, lost):
            yield event
