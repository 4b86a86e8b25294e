# SPDX-License-Identifier: GPL-2.0
"""The events of a recording that tell which task ran when, and what woke it.

They are read from the text of `trace-cmd report`: the reader of tables has no switches of tasks.
"""

import bisect
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import TRACE
from cpuidle_lab.base.packages import remedy

# Numbers of calls on x86-64: read, readv, recvfrom, recvmsg; write, writev, sendto, sendmsg;
# poll, epoll_wait, ppoll, epoll_pwait, epoll_pwait2; close.
READS, WRITES, POLLS = (0, 19, 45, 47), (1, 20, 44, 46), (7, 232, 271, 281, 441)
CLOSE = 3
CALLS = (*READS, *WRITES, *POLLS, CLOSE)

# All that a clone needs beside the module's own events.
CLONE_EVENTS = (
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup_new",
    "timer:hrtimer_start",
    "timer:hrtimer_expire_entry",
    "timer:hrtimer_expire_exit",
    "irq:softirq_raise",
    "irq:softirq_entry",
    "irq:softirq_exit",
)
# Calls on files, without their contents: in Linux 7.2 the events of single calls have those.
# The numbers are those of x86-64, of reading, writing and polling (calls.py).
CALL_MACHINE = "x86_64"
CALL_EVENTS = tuple(
    f"raw_syscalls:{event} -f " + "||".join(f"id=={number}" for number in CALLS)
    for event in ("sys_enter", "sys_exit")
)
TO_RECORD = "record with 'cpuidle-lab capture --clone', or in the lab with 'lab --causes'"

# A phase whose events span more is played in part.
PART_NS = 2_000_000_000

# The timer of the kernel's watchdog over soft lockups, each 4 s on each CPU.
WATCHDOG = "function=watchdog_timer_fn"

# Without plugins, whose forms of an event differ; with the context, and times in ns.
_REPORT = ("report", "-N", "-l", "-t", "-i")
_LINE = re.compile(
    r"\s*(?P<comm>.*)-(?P<pid>\d+)\s+(?P<cpu>\d+)(?P<flags>[^\d\s]\S{4,5})\s+"
    r"(?P<s>\d+)\.(?P<fraction>\d{9}): (?P<name>\w+):\s+(?P<text>.*)"
)
_FIELD = re.compile(r"(\w+)=(\S+)")
_LOST = re.compile(r"CPU:\d+ \[.*EVENTS DROPPED\]")
_MARK = re.compile(
    r"phase (?:(?P<end>end)|governor=(?P<governor>\S+) workload=(?P<workload>\S+)"
    r"(?: request_us=(?P<request>\d+))?)"
)

# Letters of the context: an interrupt, or a softirq that is served.
IN_INTERRUPT, IN_SOFTIRQ = frozenset("hHzZ"), "s"


@dataclass(frozen=True, slots=True)
class Event:
    """An event.

    Attributes:
        ts: its time, ns.
        cpu: where.
        comm: name of the task that ran.
        pid: its number; 0: the CPU was idle.
        context: letter of an interrupt or a softirq; else ".".
        name: of the event.
        text: its fields.
    """

    ts: int
    cpu: int
    comm: str
    pid: int
    context: str
    name: str
    text: str

    def fields(self) -> dict[str, str]:
        """Return the fields; where a task's name looks like a field, the true one comes later."""
        return dict(_FIELD.findall(self.text))


@dataclass(frozen=True)
class PhaseEvents:
    """A phase, from the marker of its beginning to that of its end.

    Attributes:
        governor: that recorded.
        workload: as the marker says.
        events: all of its time, both markers included.
        request_us: latency request that held meanwhile; None: none.
        watchdog: a time of the watchdog's timer on the first CPU that has one, and its period,
            ns; None: the recording has none.
    """

    governor: str
    workload: str
    events: Sequence[Event]
    request_us: int | None = None
    watchdog: tuple[int, int] | None = None

    @property
    def start_ns(self) -> int:
        """Time of its beginning."""
        return self.events[0].ts

    @property
    def end_ns(self) -> int:
        """Time of its end."""
        return self.events[-1].ts

    @property
    def watchdog_ns(self) -> int | None:
        """Time from its beginning to the next timer of the watchdog, ns; None: not known."""
        if self.watchdog is None:
            return None
        at, period = self.watchdog
        return (at - self.start_ns) % period


def parsed(lines: Iterable[str], path: Path) -> Iterator[Event]:
    """Yield the events of a report's lines.

    Args:
        lines: as `trace-cmd report -N -l -t` prints them.
        path: the recording, for messages.

    Raises:
        UserError: events were lost.
    """
    for line in lines:
        found = _LINE.match(line)
        if found:
            ts = int(found["s"]) * 10**9 + int(found["fraction"])
            yield Event(ts, int(found["cpu"]), found["comm"], int(found["pid"]),
                        found["flags"][2], found["name"], found["text"])  # fmt: skip
        elif _LOST.match(line):
            raise UserError(
                f"{path}: events were lost while it was recorded, so a clone would lack wake-ups; "
                "record a shorter time, or with a larger buffer"
            )


def _is_trace(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(TRACE)) == TRACE


def read(path: Path) -> list[Event]:
    """Return the events of a recording.

    Raises:
        UserError: it cannot be read, or has no events of the scheduler.
    """
    if not path.exists():
        raise UserError(f"{path}: cannot be read: No such file or directory")
    if not path.is_file() or not _is_trace(path):
        raise UserError(f"{path}: is not a trace.dat file; a clone needs the trace.dat itself")
    program = shutil.which("trace-cmd")
    if not program:
        raise UserError(f"a clone needs trace-cmd: {remedy('trace-cmd')}")
    done = subprocess.run(
        [program, *_REPORT, str(path)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise UserError(f"{path}: trace-cmd cannot read it: {done.stderr.strip()[-200:]}")
    return checked(list(parsed(done.stdout.splitlines(), path)), path)


def checked(events: list[Event], path: Path) -> list[Event]:
    """Return the events of a recording if a clone can be built from them.

    Raises:
        UserError: a kind of event that each clone needs is missing.
    """
    there = {event.name for event in events}
    for event in ("sched_switch", "sched_waking", "hrtimer_start", "hrtimer_expire_entry"):
        if event not in there:
            raise UserError(f"{path}: has no event {event}, which a clone needs; {TO_RECORD}")
    return events


def _watchdog(events: Iterable[Event]) -> tuple[int, int] | None:
    """Return PhaseEvents.watchdog: when the timer expired, and how much later it does again."""
    expired: dict[int, tuple[int, int]] = {}
    found: dict[int, tuple[int, int]] = {}
    for event in events:
        if WATCHDOG not in event.text:
            continue
        if event.name == "hrtimer_expire_entry":
            expired[event.cpu] = event.ts, int(event.fields()["now"])
        elif event.name == "hrtimer_start" and event.cpu in expired:
            # A start without an expiry is that of another threshold.
            at, now = expired.pop(event.cpu)
            found[event.cpu] = at, max(1, int(event.fields()["expires"]) - now)
    return found[min(found)] if found else None


def phases(events: Sequence[Event], path: Path) -> list[PhaseEvents]:
    """Return the phases of a recording, in their order.

    Raises:
        UserError: there is none.
    """
    found: list[PhaseEvents] = []
    watchdog = _watchdog(events)
    running: tuple[int, re.Match[str]] | None = None
    for place, event in enumerate(events):
        mark = _MARK.search(event.text) if event.name == "print" else None
        if mark is None:
            continue
        if running:
            start, begin = running
            found.append(
                PhaseEvents(
                    begin["governor"],
                    begin["workload"],
                    events[start : place + 1],
                    int(begin["request"]) if begin["request"] else None,
                    watchdog,
                )
            )
        running = None if mark["end"] else (place, mark)
    if not found:
        raise UserError(
            f"{path}: has no phases (markers 'phase governor=NAME workload=NAME', as the lab and "
            "capture write them)"
        )
    return found


def part_of(phase: PhaseEvents, most_ns: int = PART_NS) -> tuple[PhaseEvents, str]:
    """Return the part of a phase that is played, and a sentence on it; "" of a whole one.

    Of a long phase it is the stretch whose wake-ups are nearest to the mean.
    """
    length = phase.end_ns - phase.start_ns
    if length <= most_ns:
        return phase, ""
    count = length // most_ns
    at = [event.ts for event in phase.events]
    edges = [bisect.bisect_left(at, phase.start_ns + k * most_ns) for k in range(count + 1)]
    woken = [event.name == "sched_waking" for event in phase.events]
    found = [sum(woken[a:b]) for a, b in pairwise(edges)]
    mean = sum(found) / count
    best = min(range(count), key=lambda k: abs(found[k] - mean))
    events = phase.events[edges[best] : edges[best + 1]]
    sentence = (
        f"of {length / 1e9:.1f} s the {most_ns / 1e9:g} s from {best * most_ns / 1e9:g} s on are "
        "rebuilt, whose wake-ups are nearest to the mean"
    )
    return replace(phase, events=events), sentence
