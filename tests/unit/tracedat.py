# SPDX-License-Identifier: GPL-2.0
"""Write small trace.dat files (version 6), so that tests need no kernel.

The formats of the cpuidle_lab events are derived from module/trace.h, so a field that the
header loses or renames is lost here too, and the tests of the reader see it.
"""

import re
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

TOP = Path(__file__).resolve().parents[2]

PAGE = 4096
PAGE_HEADER = 16
# An option of trace.dat: its text follows the places of the pages.
CLOCK_OPTION = 4
UNAME_OPTION = 5
CONSTANTS = {"CIL_STATE_MAX": 10, "CPUIDLE_NAME_LEN": 16, "TASK_COMM_LEN": 16}
SIZES = {
    "char": (1, True), "s8": (1, True), "u8": (1, False), "u16": (2, False), "s32": (4, True),
    "u32": (4, False), "pid_t": (4, True), "s64": (8, True), "u64": (8, False),
    "unsigned int": (4, False), "unsigned long": (8, False),
}  # fmt: skip
CODES = {(1, False): "B", (2, False): "H", (4, False): "I", (8, False): "Q",
         (1, True): "b", (2, True): "h", (4, True): "i", (8, True): "q"}  # fmt: skip

HEADER_PAGE = (
    "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
    "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
    "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n"
)
HEADER_EVENT = (
    "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n"
    "\tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n"
    "\ttime_stamp : type == 31\n\tdata max type_len  == 28\n"
)
COMMON = (
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
    "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
)


@dataclass
class Field:
    """One field of an event: kind is number, array, string, bytes (dynamic) or tail."""

    kind: str
    type: str
    name: str
    count: int = 1
    offset: int = 0

    @property
    def size(self) -> int:
        """Bytes in the record."""
        if self.kind in ("string", "bytes"):
            return 4
        return 0 if self.kind == "tail" else SIZES[self.type][0] * self.count

    def declaration(self) -> str:
        """Return the line of the format file."""
        kind, name, signed = self.type, self.name, SIZES[self.type][1]
        if self.kind == "string":
            kind, name = "__data_loc char[]", self.name
        elif self.kind == "bytes":
            kind = f"__data_loc {self.type}[]"
        elif self.kind == "array":
            name = f"{self.name}[{self.count}]"
        elif self.kind == "tail":
            name = f"{self.name}[]"
        return (
            f"\tfield:{kind} {name};\toffset:{self.offset};\tsize:{self.size};"
            f"\tsigned:{int(signed)};\n"
        )


@dataclass
class Event:
    """One event: its formats and how to pack it."""

    system: str
    name: str
    number: int
    fields: list[Field]
    symbols: dict[str, dict[int, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        offset = 8
        for item in self.fields:
            align = 4 if item.kind in ("string", "bytes") else SIZES[item.type][0]
            offset = (offset + align - 1) // align * align
            item.offset = offset
            offset += item.size
        self.size = offset

    def format(self) -> str:
        """Return the text of the event's format file."""
        shown, values = [], []
        for name, symbols in self.symbols.items():
            pairs = ", ".join(f'{{ {number}, "{text}" }}' for number, text in symbols.items())
            shown.append(f"{name}=%s")
            values.append(f"__print_symbolic(REC->{name}, {pairs})")
        if not shown:
            item = next(item for item in reversed(self.fields) if item.kind in ("number", "tail"))
            shown.append("%s" if item.kind == "tail" else "%d")
            values.append(f"REC->{item.name}")
        return (
            f"name: {self.name}\nID: {self.number}\nformat:\n{COMMON}\n"
            + "".join(item.declaration() for item in self.fields)
            + f'\nprint fmt: "{" ".join(shown)}", {", ".join(values)}\n'
        )

    def pack(self, values: Mapping[str, object], order: str) -> bytes:
        """Return the record in the byte order "<" or ">"; fields not named are zero."""
        unknown = values.keys() - {item.name for item in self.fields}
        assert not unknown, f"{self.name} has no field {unknown}"
        record = bytearray(self.size)
        struct.pack_into(f"{order}HBBi", record, 0, self.number, 0, 0, 1)
        for item in self.fields:
            value = values.get(item.name)
            if item.kind in ("string", "bytes"):
                content = (value or b"") if item.kind == "bytes" else f"{value or ''}\0".encode()
                assert isinstance(content, bytes)
                struct.pack_into(f"{order}I", record, item.offset, len(content) << 16 | len(record))
                record += content
            elif item.kind == "tail":
                record += f"{value}\0".encode()
            elif isinstance(value, str):
                record[item.offset : item.offset + item.size] = value.encode().ljust(
                    item.size, b"\0"
                )[: item.size]
            elif value is not None:
                code = CODES[SIZES[item.type]]
                numbers = list(value) if isinstance(value, list | tuple) else [value]
                struct.pack_into(f"{order}{len(numbers)}{code}", record, item.offset, *numbers)
        return bytes(record) + bytes(-len(record) % 4)


def _number(text: str) -> int:
    return CONSTANTS[text] if text in CONSTANTS else int(text, 0)


def _reasons() -> dict[int, str]:
    text = (TOP / "governors/common/reasons.h").read_text()
    found = re.findall(r'X\(\w+,\s*(\d+),\s*"([^"]+)"\)', text)
    return {int(number): name for number, name in found}


def _fields(entry: str) -> list[Field]:
    fields = []
    for macro, arguments in re.findall(r"__(field|array|string|dynamic_array)\(([^)]*)\)", entry):
        words = [word.strip() for word in arguments.split(",")]
        if macro == "field":
            fields.append(Field("number", words[0], words[1]))
        elif macro == "array":
            fields.append(Field("array", words[0], words[1], _number(words[2])))
        elif macro == "string":
            fields.append(Field("string", "char", words[0]))
        else:
            fields.append(Field("bytes", words[0], words[1]))
    return fields


HINTS = {0: "set", 1: "inherit", 2: "move", 3: "remove", 4: "exit"}
GOVERNORS = {0: "teo_ng", 1: "menu_ng", 2: "wteo", 3: "gate", 4: "bpf"}


def events() -> dict[str, Event]:
    """Return the events of module/trace.h by their names without the prefix, and two others."""
    text = (TOP / "module/trace.h").read_text()
    found: dict[str, Event] = {}
    pattern = r"TRACE_EVENT(?:_FN)?\((\w+),.*?TP_STRUCT__entry\((.*?)\n\t\),"
    for number, (name, entry) in enumerate(re.findall(pattern, text, re.DOTALL), start=1500):
        fields = _fields(entry)
        names = {item.name for item in fields}
        symbols = {}
        if "governor" in names:
            symbols["governor"] = GOVERNORS
        if name == "cil_hint":
            symbols["what"] = HINTS
        if "reason" in names:
            symbols["reason"] = _reasons()
        key = name.removeprefix("cil_")
        found[key] = Event("cpuidle_lab", name, number, fields, symbols)
    found["cpu_idle"] = Event(
        "power",
        "cpu_idle",
        400,
        [Field("number", "u32", "state"), Field("number", "u32", "cpu_id")],
    )
    found["print"] = Event(
        "ftrace", "print", 5, [Field("number", "unsigned long", "ip"), Field("tail", "char", "buf")]
    )
    return found


class Trace:
    """A trace being made.

    Attributes:
        cpus: number of CPUs.
        events: the events that the file will describe; tests may remove or change them.
        order: byte order of the machine that records, "<" or ">".
        clock: the file trace_clock of the kernel, "" where the recorder did not tell.
        tasks: the table of tasks.
        uname: of the machine, "" where the recorder did not tell.
    """

    def __init__(self, cpus: int = 1, order: str = "<") -> None:
        self.cpus = cpus
        self.order = order
        self.clock = ""
        self.tasks = "1 init\n"
        self.uname = ""
        self.events = events()
        self._records: dict[int, list[tuple[int, bytes, int]]] = defaultdict(list)

    def add(self, cpu: int, ts: int, name: str, /, *, lost: int = 0, **values: object) -> None:
        """Add an event.

        Args:
            cpu: CPU that recorded it.
            ts: time, ns.
            name: name of the event.
            lost: the kernel says that so many events before this one are missing (-1: it does not
                know how many).
            values: fields.
        """
        self.put(cpu, ts, name, values, lost)

    def put(
        self, cpu: int, ts: int, name: str, values: Mapping[str, object], lost: int = 0
    ) -> None:
        """Add an event whose fields are given as a mapping; otherwise as add()."""
        self._records[cpu].append((ts, self.events[name].pack(values, self.order), lost))

    def mark(self, cpu: int, ts: int, text: str) -> None:
        """Add a line written to trace_marker."""
        self.add(cpu, ts, "print", buf=text + "\n")

    def _number(self, code: str, value: int) -> bytes:
        return struct.pack(f"{self.order}{code}", value)

    def _word(self, kind: int, delta: int) -> bytes:
        """Head of an event in the ring buffer: 5 bits of type or length, 27 bits of time."""
        return self._number("I", kind | delta << 5 if self.order == "<" else kind << 27 | delta)

    def _pages(self, cpu: int) -> bytes:
        pages = bytearray()
        start = last = 0
        body = bytearray()
        missing = 0

        def close() -> None:
            nonlocal body
            if body:
                commit = len(body) | (missing and 1 << 31)
                if missing > 0 and len(body) <= PAGE - PAGE_HEADER - 8:
                    commit |= 1 << 30
                    tail = self._number("Q", missing)
                else:
                    tail = b""
                page = self._number("Q", start) + self._number("Q", commit) + body + tail
                pages.extend(page.ljust(PAGE, b"\0"))
            body = bytearray()

        for ts, record, lost in sorted(self._records[cpu], key=lambda item: item[0]):
            need = len(record) + 16 + 8
            if lost or not body or len(body) + need > PAGE - PAGE_HEADER:
                close()
                start = last = ts
                missing = lost
            delta = ts - last
            if delta >= 1 << 27:
                body += self._word(30, delta & 0x7FFFFFF) + self._number("I", delta >> 27)
                delta = 0
            words = len(record) // 4
            if words <= 28:
                body += self._word(words, delta)
            else:
                body += self._word(0, delta) + self._number("I", len(record) + 4)
            body += record
            last = ts
        close()
        return bytes(pages)

    def _headers(self) -> bytes:
        out = bytearray(b"\x17\x08\x44tracing6\0")
        out += (b"\0" if self.order == "<" else b"\1") + b"\x08" + self._number("I", PAGE)
        for name, text in (("header_page", HEADER_PAGE), ("header_event", HEADER_EVENT)):
            out += name.encode() + b"\0" + self._number("Q", len(text)) + text.encode()
        systems: dict[str, list[Event]] = defaultdict(list)
        for event in self.events.values():
            systems[event.system].append(event)
        ftrace = systems.pop("ftrace", [])
        out += self._number("I", len(ftrace)) + self._formats(ftrace)
        out += self._number("I", len(systems))
        for system, members in systems.items():
            out += (
                system.encode() + b"\0" + self._number("I", len(members)) + self._formats(members)
            )
        cmdlines = self.tasks.encode()
        out += bytes(8) + self._number("Q", len(cmdlines)) + cmdlines
        options = self._number("H", CLOCK_OPTION) + self._number("I", 0) if self.clock else b""
        if self.uname:
            told = self.uname.encode() + b"\0"
            options += self._number("H", UNAME_OPTION) + self._number("I", len(told)) + told
        return bytes(out + self._number("I", self.cpus) + b"options  \0" + options + bytes(2))

    def write(self, path: Path) -> Path:
        """Write the file and return its path."""
        out = bytearray(self._headers() + b"flyrecord\0")
        data = [self._pages(cpu) for cpu in range(self.cpus)]
        offset = len(out) + 16 * self.cpus + 8 * bool(self.clock) + len(self.clock)
        offset = (offset + PAGE - 1) // PAGE * PAGE
        for pages in data:
            out += self._number("Q", offset) + self._number("Q", len(pages))
            offset += len(pages)
        if self.clock:
            out += self._number("Q", len(self.clock)) + self.clock.encode()
        out += bytes(-len(out) % PAGE)
        path.write_bytes(bytes(out) + b"".join(data))
        return path

    def write_large(self, path: Path, events: int) -> int:
        """Write the events again and again, as time and numbers go on.

        Args:
            path: the file.
            events: how many to write at least.

        Returns:
            How many were written. The trace is little-endian.
        """
        assert self.order == "<"
        each = [bytearray(self._pages(cpu)) for cpu in range(self.cpus)]
        times = [ts for records in self._records.values() for ts, _, _ in records]
        step_ns = max(times) - min(times) + 1_000_000
        copies = -(-events // len(times))
        head = bytearray(self._headers() + b"flyrecord\0")
        offset = first = (len(head) + 16 * self.cpus + PAGE - 1) // PAGE * PAGE
        for pages in each:
            head += struct.pack("<QQ", offset, len(pages) * copies)
            offset += len(pages) * copies
        with path.open("wb") as stream:
            stream.write(head.ljust(first, b"\0"))
            for pages in each:
                for copy in self._copies(pages, copies, step_ns):
                    stream.write(copy)
        return copies * len(times)

    def _copies(self, data: bytearray, copies: int, step_ns: int) -> Iterator[memoryview]:
        """Yield the pages of a CPU so many times, each later than the one before."""
        pages = np.frombuffer(data, dtype=np.uint8)
        moving = self._moving(bytes(data))
        # Every byte of the pages as the first one of a number.
        words = np.ndarray((max(0, len(pages) - 7),), "<u8", pages, strides=(1,))
        steps = dict.fromkeys(moving, step_ns)
        if numbers := moving.get("seq"):
            steps["seq"] = int(words[numbers].max() - words[numbers].min()) + 1
        for _ in range(copies):
            yield pages.data
            for name, places in moving.items():
                words[places] += np.uint64(steps[name])

    def _moving(self, pages: bytes) -> dict[str, list[int]]:
        """Return where the times of pages, and the fields `seq` and `now_ns` of events are."""
        numbers = {event.number: event for event in self.events.values()}
        found: dict[str, list[int]] = {"ts": []}
        for start in range(0, len(pages), PAGE):
            found["ts"].append(start)
            at = start + PAGE_HEADER
            end = at + int.from_bytes(pages[start + 8 : start + 12], "little") % (1 << 20)
            while at < end:
                (word,) = struct.unpack_from("<I", pages, at)
                kind, at = word & 31, at + 4
                if kind == 30:
                    at += 4
                    continue
                size = kind * 4
                if not kind:
                    (size,) = struct.unpack_from("<I", pages, at)
                    size, at = size - 4, at + 4
                for item in numbers[struct.unpack_from("<H", pages, at)[0]].fields:
                    if item.name in ("seq", "now_ns"):
                        found.setdefault(item.name, []).append(at + item.offset)
                at += size
        return found

    def _formats(self, members: list[Event]) -> bytes:
        texts = [event.format().encode() for event in members]
        return b"".join(self._number("Q", len(text)) + text for text in texts)
