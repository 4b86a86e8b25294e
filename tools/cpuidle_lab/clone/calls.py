# SPDX-License-Identifier: GPL-2.0
"""Calls of tasks on pipes and sockets, and which of their files are joined.

A recording has the number of a call, its file, its size and its result. It has no contents, and
does not tell what a file is. So a file that is read is joined with the one that another task wrote
to before, if that holds for most reads.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cpuidle_lab.clone.events import CLOSE, READS, WRITES, Event
from cpuidle_lab.clone.program import JOINTS_MOST, Joint

_CALL = re.compile(r"NR (\d+) (?:= (-?\d+)|\(([0-9a-f]+),)")
_NET_RX = "vec=3 "

# So many reads tell, and such a share of them must follow a write to the file that is joined.
_ENOUGH, _MOST = 4, 0.5
# A wake-up counts as so many of them.
_WAKE_UP = 10
# Their bytes differ by less than such a share.
_APART = 0.2
# A task's number, that of its file, and how often it had closed a file of that number.
File = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Call:
    """The beginning or the end of a call.

    Attributes:
        number: of the call.
        file: its first argument, where it begins.
        result: where it ends; None: it begins.
    """

    number: int
    file: int
    result: int | None

    @classmethod
    def of(cls, event: Event) -> "Call | None":
        """Return the call of an event; None: it has another form."""
        found = _CALL.match(event.text)
        if not found:
            return None
        number, result, file = found.groups()
        return cls(int(number), int(file or "0", 16), None if result is None else int(result))


class Files:
    """The files of tasks: a number is given to another file once its file is closed."""

    def __init__(self) -> None:
        self._closed: Counter[tuple[int, int]] = Counter()

    def of(self, pid: int, call: Call) -> File:
        """Return the file that a call begins to use; a closed one is forgotten."""
        key = pid, call.file
        if call.number == CLOSE:
            self._closed[key] += 1
        return *key, self._closed[key]


# Of a task that is in no call.
_NONE = Call(-1, 0, None), (0, 0, 0)


@dataclass
class _Seen:
    """Calls on files, while the events are read.

    Attributes:
        votes: by file that was read, the files that others had written to last.
        sent: messages by file that was written to.
        got: times of messages by file that was read.
        written, read: bytes by file.
        full: by file, when its writer fell asleep, and what it had sent.
        net: files whose writing raised the softirq of a packet.
        inside: call and file of each task that is in one.
        files: of all tasks.
        last: files that were last written to.
        taken: tasks whose read has its message, and has not ended.
        early: end and bytes of a read that began before the phase: of the file read next.
    """

    votes: dict[File, Counter[File]] = field(default_factory=lambda: defaultdict(Counter))
    sent: Counter[File] = field(default_factory=Counter)
    got: dict[File, list[int]] = field(default_factory=lambda: defaultdict(list))
    written: Counter[File] = field(default_factory=Counter)
    read: Counter[File] = field(default_factory=Counter)
    full: dict[File, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    net: set[File] = field(default_factory=set)
    inside: dict[int, tuple[Call, File]] = field(default_factory=dict)
    files: Files = field(default_factory=Files)
    last: tuple[File, ...] = ()
    taken: set[int] = field(default_factory=set)
    early: dict[int, tuple[int, int]] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Take an event."""
        if event.name in ("sys_enter", "sys_exit"):
            if call := Call.of(event):
                self._call(event, call)
            return
        call, file = self.inside.get(event.pid, _NONE)
        if event.name == "sched_waking":
            self._wakes(event, call, file)
        if call.number not in WRITES:
            return
        if event.name == "softirq_raise" and _NET_RX in event.text + " ":
            self.net.add(file)
        elif event.name == "sched_switch" and " prev_state=S" in event.text:
            self.full[file].append((event.ts, self.sent[file]))

    def _wakes(self, event: Event, call: Call, file: File) -> None:
        """Take a wake-up from one call into another: it tells more than the order of calls."""
        other, others = self.inside.get(int(event.fields()["pid"]), _NONE)
        if call.number in READS and other.number in WRITES:
            self.votes[file][others] += _WAKE_UP
            # The writer may go on, and wait again, before the call ends.
            if event.pid not in self.taken:
                self.got[file].append(event.ts)
                self.taken.add(event.pid)
        elif call.number in WRITES and other.number in READS:
            self.votes[others][file] += _WAKE_UP

    def _call(self, event: Event, call: Call) -> None:
        pid = event.pid
        if call.result is None:
            file = self.files.of(pid, call)
            self.inside[pid] = call, file
            if call.number in WRITES:
                self.last = (*self.last[-1:], file)
            elif call.number in READS and pid in self.early:
                at, size = self.early.pop(pid)
                self.got[file].append(at)
                self.read[file] += size
            return
        begun, file = self.inside.pop(pid, _NONE)
        if call.result <= 0:
            return
        if begun.number < 0 and call.number in READS:
            self.early[pid] = event.ts, call.result
        if begun.number in WRITES:
            self.sent[file] += 1
            self.written[file] += call.result
        elif begun.number in READS:
            if pid not in self.taken:
                self.got[file].append(event.ts)
            self.taken.discard(pid)
            self.read[file] += call.result
            if before := next((one for one in reversed(self.last) if one[0] != pid), None):
                self.votes[file][before] += 1


def _partners(seen: _Seen) -> Iterable[tuple[File, File]]:
    """Yield files that are written and read, each pair once in its direction."""
    best: dict[File, tuple[int, File]] = {}
    for reader, votes in seen.votes.items():
        writer, count = votes.most_common(1)[0]
        apart = abs(seen.read[reader] - seen.written[writer])
        if (count >= max(_ENOUGH, _MOST * votes.total())
                and apart < _APART * seen.written[writer]):  # fmt: skip
            best[writer] = max(best.get(writer, (0, reader)), (count, reader))
    return ((writer, reader) for writer, (_, reader) in best.items())


def _slots(seen: _Seen, writer: File, reader: File) -> int:
    """Return how many messages a pipe has room for; 0: its writer never waited."""
    got = seen.got[reader]
    under_way = Counter(sent - bisect_right(got, ts) for ts, sent in seen.full.get(writer, ()))
    if not under_way or sum(under_way.values()) < _ENOUGH:
        return 0
    return max(1, under_way.most_common(1)[0][0])


def joined(events: Iterable[Event]) -> tuple[list[Joint], Mapping[File, int]]:
    """Return pipes and sockets, and the number of the end that each file is.

    Args:
        events: of a phase.
    """
    seen = _Seen()
    for event in events:
        seen.take(event)
    joints: list[Joint] = []
    ends: dict[File, int] = {}
    ways = dict(_partners(seen))
    for writer, reader in ways.items():
        if writer in ends or reader in ends or len(joints) == JOINTS_MOST:
            continue
        both = ways.get(reader) == writer
        slots = 0 if both else _slots(seen, writer, reader)
        # Others are as well rebuilt by posts.
        if slots or (both and {writer, reader} & seen.net):
            ends[writer], ends[reader] = 2 * len(joints), 2 * len(joints) + 1
            joints.append(Joint(slots))
    return joints, ends
