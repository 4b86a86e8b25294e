# SPDX-License-Identifier: GPL-2.0
"""Removal of names from a trace.dat, in place.

Texts that events carry become TASK: names of tasks, files, devices and whatever else they are. Of
a kernel thread its kind stays, since a clone needs that. Texts that readers need stay: those of the
module's events, the lines that a recorder writes, without the workload, and names of interrupts.
The table of tasks and the name of the host go, too, and the rest of each page, where the ring
buffer may hold older events.

The file is of version 6, which is not compressed (trace-cmd.dat.v6(5)). It keeps its length.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import TRACE
from cpuidle_lab.base.kernel_threads import KERNEL_THREAD
from cpuidle_lab.host.marks import MARK, PHASE

VERSION = 6
TASK = b"t"

_OWN_SYSTEM, _TASK_FIELD = "cpuidle_lab", "comm"
# Events of other systems whose texts stay: the reader names causes by them.
_KEPT = ("irq_handler_entry",)
_PRINT = "print"
_OWN_LINE = re.compile(
    rf"{MARK}|phase end\n?$|{PHASE}|"
    r"energy zone=\S+ energy_uj=\d+ max_energy_range_uj=\d+ name=\S+\n?$".encode()
)
_WORKLOAD = re.compile(rb"(?<= workload=)\S+")

# Options of a file.
_DONE, _UNAME = 0, 5
_PROGRAMS = (6, 10)  # functions that were probed, address maps of processes

_FIELD = re.compile(r"field:(?P<kind>[^;]*?)\s*(?P<name>\w+)(?P<array>\[\w*\])?;"
                    r"\s*offset:(?P<offset>\d+);\s*size:(?P<size>\d+);")  # fmt: skip

# The head of a file is no larger, and so many bytes of pages are read at once.
_HEAD_MOST, _CHUNK = 64 << 20, 1 << 20

# Lengths of entries of a page (type_len).
_LONG, _PADDING, _TIMES = 0, 29, (30, 31)
_COMMIT = (1 << 27) - 1
_COUNTED = 1 << 30


@dataclass(frozen=True)
class _Text:
    """A text of an event.

    Attributes:
        name: of the field.
        offset, size: of it; size 0: to the end of the event.
        located: the field tells the place of the text in the event.
        relative: that place is counted from the field's end.
    """

    name: str
    offset: int
    size: int
    located: bool
    relative: bool


def _texts(form: str, system: str) -> tuple[int, str, list[_Text]]:
    """Return number and name of an event, and its texts that must go."""
    name = re.search(r"^name: (.*)", form, re.MULTILINE)
    number = re.search(r"^ID: (\d+)", form, re.MULTILINE)
    if not (name and number):
        raise ValueError("an event without a name")
    found = []
    for field in _FIELD.finditer(form):
        kind, located = field["kind"], "_loc" in field["kind"]
        is_text = "char" in kind.split() or "char[]" in kind
        kept = name[1] in _KEPT or (system == _OWN_SYSTEM and field["name"] != _TASK_FIELD)
        if is_text and not kept and (located or field["array"]):
            found.append(_Text(field["name"], int(field["offset"]), int(field["size"]), located,
                               "__rel_loc" in kind))  # fmt: skip
    return int(number[1]), name[1], found


def nameless(text: bytes | bytearray) -> bytes:
    """Return what may stay of a name."""
    kind = KERNEL_THREAD.match(text.decode(errors="replace"))
    return kind[0].encode() if kind else TASK


def line(text: bytes | bytearray) -> bytes:
    """Return what may stay of a line that was written to trace_marker."""
    return _WORKLOAD.sub(TASK, text) if _OWN_LINE.match(text) else TASK


class _File:
    """The head of a trace.dat or some of its pages, and a place in it."""

    def __init__(self, data: bytearray) -> None:
        self.data = data
        if data[: len(TRACE)] != TRACE or data[10:12] != b"6\0":
            raise ValueError(f"no trace of version {VERSION}")
        self.end = ">" if data[12] else "<"
        self.at = 18
        self.events: dict[int, tuple[str, list[_Text]]] = {}

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from(self.end + code, self.data, self.at)
        self.at += struct.calcsize(self.end + code)
        return int(value)

    def word(self) -> str:
        stop = self.data.find(b"\0", self.at)
        word = self.data[self.at : stop].decode()
        self.at = stop + 1
        return word

    def block(self, code: str) -> tuple[int, int]:
        size = self.number(code)
        self.at += size
        if self.at > len(self.data):
            raise ValueError("it is cut short")
        return self.at - size, self.at

    def put(self, first: int, stop: int, text: bytes) -> None:
        """Write a text, and 0 up to where the former one ended."""
        self.data[first:stop] = text[: stop - first].ljust(stop - first, b"\0")

    def note(self, count: int, system: str) -> None:
        """Note the texts of some events."""
        for _ in range(count):
            first, stop = self.block("Q")
            number, name, texts = _texts(self.data[first:stop].decode(errors="replace"), system)
            if texts:
                self.events[number] = name, texts

    def head(self) -> tuple[int, int, int]:
        """Read the head; return the number of CPUs, the size of a page, and where its data is."""
        self.word()
        page = self.data[slice(*self.block("Q"))].decode()
        self.word()
        self.block("Q")
        self.note(self.number("I"), "ftrace")
        for _ in range(self.number("I")):
            system = self.word()
            self.note(self.number("I"), system)
        self.block("I")  # the kernel's symbols
        self.block("I")  # texts of the kernel's source
        self._tasks(*self.block("Q"))
        cpus = self.number("I")
        self._options()
        for field in _FIELD.finditer(page):
            if field["name"] == "data":
                offset = int(field["offset"])
                return cpus, offset + int(field["size"]), offset
        raise ValueError("its pages have no form")

    def _tasks(self, first: int, stop: int) -> None:
        told = self.data[first:stop].rstrip(b"\0").split(b"\n")
        lines = [text.partition(b" ") for text in told]
        left = b"".join(pid + b" " + nameless(name) + b"\n" for pid, _, name in lines if pid)
        # A name without letters grows by one.
        self.data[first:stop] = left[: stop - first].ljust(stop - first, b"\n")

    def _options(self) -> None:
        if self.word() != "options  ":
            raise ValueError("it has no options")
        while (kind := self.number("H")) != _DONE:
            first, stop = self.block("I")
            if kind == _UNAME:
                words = self.data[first:stop].rstrip(b"\0").split(b" ")
                self.put(first, stop, b" ".join([*words[:1], TASK, *words[2:]]))
            elif kind in _PROGRAMS:
                self.put(first, stop, b"")
        if self.word() != "flyrecord":
            raise ValueError("it has no pages")

    def entries(self, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield begin and end of each event of a page."""
        at, long = first, struct.Struct(self.end + "I")
        while at + 4 <= stop:
            (head,) = long.unpack_from(self.data, at)
            kind, delta = (
                (head & 31, head >> 5) if self.end == "<" else (head >> 27, head & _COMMIT)
            )
            at += 4
            if kind in _TIMES:
                at += 4
            elif kind == _PADDING and not delta:
                return
            elif kind in (_LONG, _PADDING):
                (size,) = long.unpack_from(self.data, at)
                if kind == _LONG:
                    yield at + 4, at + size
                at += max(size, 4)
            else:
                yield at, at + 4 * kind
                at += 4 * kind

    def places(self, cpus: int) -> list[tuple[int, int]]:
        """Return begin and size of the pages of each CPU, with which the head ends."""
        return [(self.number("Q"), self.number("Q")) for _ in range(cpus)]

    def page(self, first: int, size: int, head: int) -> None:
        """Remove the texts of a page."""
        (commit,) = struct.unpack_from(
            f"{self.end}{'Q' if head == 16 else 'I'}", self.data, first + 8
        )
        stop = first + head + (commit & _COMMIT)
        if stop > first + size:
            raise ValueError("a page is longer than itself")
        for begin, end in self.entries(first + head, stop):
            (number,) = struct.unpack_from(f"{self.end}H", self.data, begin)
            if number in self.events:
                self.event(begin, min(end, stop), *self.events[number])
        rest = stop + 8 * bool(commit & _COUNTED)
        if rest < first + size:
            self.put(rest, first + size, b"")

    def event(self, begin: int, end: int, name: str, texts: list[_Text]) -> None:
        """Remove the texts of an event."""
        for text in texts:
            first, stop = begin + text.offset, end
            if text.located:
                (place,) = struct.unpack_from(f"{self.end}I", self.data, first)
                first = (first + 4 if text.relative else begin) + (place & 0xFFFF)
                stop = first + (place >> 16)
            elif text.size:
                stop = first + text.size
            if not begin <= first <= stop <= end:
                raise ValueError(f"an event {name} is longer than itself")
            told = self.data[first:stop].partition(b"\0")[0]
            left = line(told) if name == _PRINT else nameless(told)
            self.put(first, stop, left[: max(0, stop - first - 1)])


def _scrub(stream: IO[bytes]) -> None:
    trace = _File(bytearray(stream.read(_HEAD_MOST)))
    cpus, size, head = trace.head()
    places = trace.places(cpus)
    stream.seek(0)
    stream.write(trace.data[: trace.at])
    for first, length in places:
        for at in range(first, first + length, _CHUNK):
            stream.seek(at)
            wanted = min(_CHUNK, first + length - at)
            trace.data = bytearray(stream.read(wanted))
            if len(trace.data) < wanted:
                raise ValueError("it is cut short")
            for page in range(0, len(trace.data), size):
                trace.page(page, size, head)
            stream.seek(at)
            stream.write(trace.data)


def scrub(path: Path) -> None:
    """Remove the names from a trace.

    Raises:
        UserError: it is no trace of version 6, or is damaged.
    """
    try:
        with path.open("r+b") as stream:
            _scrub(stream)
    except (ValueError, struct.error, IndexError) as error:
        raise UserError(f"the names cannot be removed from the trace: {error}") from error
