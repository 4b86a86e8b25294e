# SPDX-License-Identifier: GPL-2.0
"""Write events as a trace.dat (version 6) that the one reader understands.

The layout is that of trace-cmd.dat.v6(5): formats, then pages of 4096 bytes for each CPU, as the
kernel's ring buffer has them.
"""

import struct
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self

from cpuidle_lab.base.errors import UserError

PAGE = 4096
_PAGE_HEADER = 16
_CPUS_MAX = 4096
TIME_MAX = 1 << 62
_DELTA_MAX = 1 << 27
_TEXT_MAX = 2000

# Flags of a page: events before it are missing, and their number follows its events.
_MISSED, _MISSED_COUNTED = 1 << 31, 1 << 30
# Events are missing, and it is not known how many.
UNCOUNTED = -1

# Name of a field: type, offset, size, signed.
Fields = dict[str, tuple[str, int, int, bool]]

_HEADER_PAGE = (
    b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
    b"\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    b"\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
    b"\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n"
)
_HEADER_EVENT = (
    b"# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n"
    b"\tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n"
    b"\ttime_stamp : type == 31\n\tdata max type_len  == 28\n"
)
_COMMON: Fields = {
    "common_type": ("unsigned short", 0, 2, False),
    "common_flags": ("unsigned char", 2, 1, False),
    "common_preempt_count": ("unsigned char", 3, 1, False),
    "common_pid": ("int", 4, 4, True),
}

# Events that are read out of other formats: system, number, fields.
EVENTS: dict[str, tuple[str, int, Fields]] = {
    "print": ("ftrace", 5, {"ip": ("unsigned long", 8, 8, False), "buf": ("char", 16, 0, True)}),
    "cpu_idle": ("power", 400, {"state": ("u32", 8, 4, False), "cpu_id": ("u32", 12, 4, False)}),
    "sched_switch": ("sched", 401, {"prev_pid": ("pid_t", 8, 4, True),
                                    "next_pid": ("pid_t", 12, 4, True)}),
    "tick_stop": ("timer", 402, {"success": ("int", 8, 4, True)}),
    "hrtimer_expire_entry": ("timer", 403, {"function": ("void *", 8, 8, False),
                                            "hrtimer": ("void *", 16, 8, False)}),
    # Kernels before 6.9 tell no "dn": the format has it only if an event has.
    "cil_sleep_length": ("cil", 404, {"ret": ("s64", 8, 8, True), "dn": ("s64", 16, 8, True)}),
    "cil_got_tick": ("cil", 408, {"ret": ("u8", 8, 1, False)}),
    "hrtimer_start": ("timer", 409, {"hrtimer": ("void *", 8, 8, False),
                                     "expires": ("s64", 16, 8, True),
                                     "function": ("void *", 24, 8, False)}),
    "hrtimer_start_expired": ("timer", 410, {"hrtimer": ("void *", 8, 8, False)}),
    "hrtimer_cancel": ("timer", 411, {"hrtimer": ("void *", 8, 8, False)}),
    "hrtimer_rearm": ("timer", 412, {"next_event": ("s64", 8, 8, True)}),
    "timer_start": ("timer", 413, {"timer": ("void *", 8, 8, False),
                                   "expires": ("unsigned long", 16, 8, False),
                                   "bucket_expiry": ("unsigned long", 24, 8, False),
                                   "now": ("unsigned long", 32, 8, False),
                                   "flags": ("unsigned int", 40, 4, False)}),
    "timer_cancel": ("timer", 414, {"timer": ("void *", 8, 8, False)}),
    "timer_expire_entry": ("timer", 415, {"timer": ("void *", 8, 8, False),
                                          "function": ("void *", 16, 8, False)}),
    "softirq_raise": ("irq", 416, {"vec": ("unsigned int", 8, 4, False)}),
    "pm_qos_add_request": ("power", 418, {"value": ("s32", 8, 4, True)}),
    "pm_qos_update_request": ("power", 419, {"value": ("s32", 8, 4, True)}),
    "pm_qos_remove_request": ("power", 431, {"value": ("s32", 8, 4, True)}),
    "cil_reflect": ("cil", 417, {"res": ("u64", 8, 8, False), "bits": ("u32", 16, 4, False)}),
    "cil_stop_tick": ("cil", 405, {"ip": ("unsigned long", 8, 8, False)}),
    "cil_retain_tick": ("cil", 406, {"ip": ("unsigned long", 8, 8, False)}),
    "cil_idle_exit": ("cil", 407, {"ip": ("unsigned long", 8, 8, False)}),
    "cpuhp_enter": ("cpuhp", 420, {"cpu": ("unsigned int", 8, 4, False)}),
    "irq_handler_entry": ("irq", 421, {"irq": ("int", 8, 4, True), "name": ("char", 12, 0, True)}),
    "irq_handler_exit": ("irq", 422, {"irq": ("int", 8, 4, True)}),
    # A mask of CPUs, as wide as any that text has.
    "ipi_raise": ("ipi", 423, {"target_cpus": ("u64", 8, 128, False),
                               "reason": ("const char *", 136, 8, False)}),
    "local_timer_entry": ("irq_vectors", 424, {"vector": ("int", 8, 4, True)}),
    "local_timer_exit": ("irq_vectors", 425, {"vector": ("int", 8, 4, True)}),
    "reschedule_entry": ("irq_vectors", 426, {"vector": ("int", 8, 4, True)}),
    "call_function_entry": ("irq_vectors", 427, {"vector": ("int", 8, 4, True)}),
    "call_function_single_entry": ("irq_vectors", 428, {"vector": ("int", 8, 4, True)}),
    "irq_work_entry": ("irq_vectors", 429, {"vector": ("int", 8, 4, True)}),
    "ipi_send_cpu": ("ipi", 430, {"cpu": ("unsigned int", 8, 4, False),
                                  "callback": ("void *", 16, 8, False)}),
}  # fmt: skip

# The event that says that its CPU goes offline or comes back.
OFFLINE = "cpuhp_enter"
# Events that alone tell nothing of idle CPUs.
_BESIDE = (
    "print", OFFLINE, *(name for name, (_, number, _) in EVENTS.items() if number > 420),
)  # fmt: skip

# Events with a text of their own at the end.
WITH_TEXT = ("print", "irq_handler_entry")
# The event whose reason is a text of the kernel, of which it has the address.
_RAISE = "ipi_raise"

# Events whose function is told by its name.
WITH_FUNCTION = ("hrtimer_expire_entry", "hrtimer_start", "timer_expire_entry")

# Functions are numbered from here, since only their names are known; so many are kept.
_FUNCTIONS = 0xFFFF000000000000
_FUNCTIONS_MAX = 1 << 16
_REASONS = 0xFFFFE00000000000
# Names of so many tasks are kept.
_TASKS_MAX = 1 << 15


@dataclass(frozen=True)
class Event:
    """One event of whatever format.

    Attributes:
        cpu: CPU that recorded it, and went idle or woke up.
        ts: time, ns.
        name: a key of EVENTS.
        values: fields by name; those missing are 0.
        text: of an event of WITH_TEXT; of one of WITH_FUNCTION the function; of an interrupt that
            is raised for other CPUs its reason.
        lost: how many events before it are missing, or UNCOUNTED.
        pid: task that ran.
        comm: its name.
    """

    cpu: int
    ts: int
    name: str
    values: dict[str, int] = field(default_factory=dict)
    text: str = ""
    lost: int = 0
    pid: int = 0
    comm: str = ""


def _format(name: str, number: int, fields: Fields) -> bytes:
    def line(key: str, kind: str, offset: int, size: int, signed: bool) -> str:
        shown = f"{key}[]" if not size else key
        return f"\tfield:{kind} {shown};\toffset:{offset};\tsize:{size};\tsigned:{int(signed)};\n"

    common = "".join(line(key, *told) for key, told in _COMMON.items())
    own = "".join(line(key, *told) for key, told in fields.items())
    last = list(fields)[-1]
    shown = "(%s)" if name == _RAISE else "%s" if not fields[last][2] else "%d"
    return (
        f'name: {name}\nID: {number}\nformat:\n{common}\n{own}\nprint fmt: "{shown}", REC->{last}\n'
    ).encode()


class _Pages:
    """The pages of one CPU, on the way to a file."""

    def __init__(self) -> None:
        # Closed by the writer.
        self.spool: IO[bytes] = tempfile.TemporaryFile(prefix="cpuidle-lab-")  # noqa: SIM115
        self.size = 0
        self.last = 0
        self._start = 0
        self._lost = 0
        self._body = bytearray()

    def add(self, ts: int, record: bytes, lost: int) -> None:
        """Add a record; `ts` never decreases."""
        need = len(record) + 24
        if lost or not self._body or len(self._body) + need > PAGE - _PAGE_HEADER:
            self.close()
            self._start = self.last = ts
            self._lost = lost
        delta = ts - self.last
        if delta >= _DELTA_MAX:
            extend = 30 | (delta % _DELTA_MAX) << 5
            self._body += struct.pack("<II", extend, delta // _DELTA_MAX & 0xFFFFFFFF)
            delta = 0
        words = len(record) // 4
        if words <= 28:
            self._body += struct.pack("<I", words | delta << 5)
        else:
            self._body += struct.pack("<II", delta << 5, len(record) + 4)
        self._body += record
        self.last = ts

    def close(self) -> None:
        """Write the page."""
        if not self._body:
            return
        commit = len(self._body) | (_MISSED if self._lost else 0)
        if self._lost > 0:
            commit |= _MISSED_COUNTED
            self._body += struct.pack("<Q", self._lost)
        page = struct.pack("<QQ", self._start, commit) + self._body
        self.spool.write(page.ljust(PAGE, b"\0"))
        self.size += PAGE
        self._body = bytearray()


class Writer:
    """Writes a trace.dat; use it in a `with` statement.

    Attributes:
        count: events written.
    """

    def __init__(self, target: Path) -> None:
        """Begin.

        Args:
            target: the file to be made.
        """
        self._target = target
        self._pages: dict[int, _Pages] = {}
        self._functions: dict[str, int] = {}
        self._reasons: dict[str, int] = {}
        self._tasks: dict[int, str] = {1: "init"}
        self._has_delta = False
        self.count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            for pages in self._pages.values():
                pages.spool.close()

    def add(self, event: Event) -> None:
        """Add an event.

        Raises:
            UserError: it names an impossible CPU or time, or time runs backwards on its CPU.
        """
        if not 0 <= event.cpu < _CPUS_MAX:
            raise UserError(f"the recording names the impossible CPU {event.cpu}")
        if not 0 <= event.ts < TIME_MAX:
            raise UserError(f"the recording has an event at the impossible time {event.ts} ns")
        if event.cpu not in self._pages:
            self._pages[event.cpu] = _Pages()
        pages = self._pages[event.cpu]
        if event.ts < pages.last:
            raise UserError(
                f"the recording is damaged: time runs backwards on CPU {event.cpu} at {event.ts} ns"
            )
        pages.add(event.ts, self._pack(event), event.lost)
        self._has_delta |= "dn" in event.values
        if event.comm and len(self._tasks) < _TASKS_MAX:
            self._tasks.setdefault(event.pid, "_".join(event.comm.split())[:15])
        self.count += event.name not in _BESIDE

    def _pack(self, event: Event) -> bytes:
        _, number, fields = EVENTS[event.name]
        values = dict(event.values)
        if event.name in WITH_FUNCTION:
            values["function"] = self._function(event.text[:80])
        if event.name == _RAISE:
            text = event.text[:40].replace('"', "")
            known = len(self._reasons) < _FUNCTIONS_MAX or text in self._reasons
            place = self._reasons.setdefault(text, len(self._reasons)) if known else 0
            values["reason"] = _REASONS + 64 * (place + 1)
        record = bytearray(struct.pack("<HBBi", number, 0, 0, event.pid & 0x7FFFFFFF))
        for name, (_, offset, size, _signed) in fields.items():
            record = record.ljust(offset + size, b"\0")
            if size:
                mask = (1 << 8 * size) - 1
                record[offset : offset + size] = (values.get(name, 0) & mask).to_bytes(
                    size, "little"
                )
        if event.name in WITH_TEXT:
            record += event.text.encode()[:_TEXT_MAX] + b"\n" * (event.name == "print") + b"\0"
        return bytes(record) + bytes(-len(record) % 4)

    def _function(self, name: str) -> int:
        """Return the address that stands for a function; 0 where there are too many."""
        if name not in self._functions and len(self._functions) == _FUNCTIONS_MAX:
            return 0
        return _FUNCTIONS + 16 * (self._functions.setdefault(name, len(self._functions)) + 1)

    def _head(self, cpus: int) -> bytes:
        def number(code: str, value: int) -> bytes:
            return struct.pack(f"<{code}", value)

        out = bytearray(b"\x17\x08\x44tracing6\0\0\x08" + number("I", PAGE))
        for name, text in ((b"header_page", _HEADER_PAGE), (b"header_event", _HEADER_EVENT)):
            out += name + b"\0" + number("Q", len(text)) + text
        systems: dict[str, list[bytes]] = {}
        for event, (system, key, fields) in EVENTS.items():
            told = {name: at for name, at in fields.items() if name != "dn" or self._has_delta}
            systems.setdefault(system, []).append(_format(event, key, told))
        ftrace = systems.pop("ftrace")
        out += number("I", len(ftrace)) + b"".join(number("Q", len(t)) + t for t in ftrace)
        out += number("I", len(systems))
        for system, texts in systems.items():
            out += system.encode() + b"\0" + number("I", len(texts))
            out += b"".join(number("Q", len(t)) + t for t in texts)
        symbols = "".join(
            f"{_FUNCTIONS + 16 * (n + 1):x} t {name}\n" for name, n in self._functions.items()
        ).encode()
        names = "".join(f"{pid} {comm}\n" for pid, comm in self._tasks.items()).encode()
        reasons = "".join(
            f'0x{_REASONS + 64 * (n + 1):x} : "{text}"\n' for text, n in self._reasons.items()
        ).encode()
        for text in (symbols, reasons):
            out += number("I", len(text)) + text
        out += number("Q", len(names)) + names
        return bytes(out + number("I", cpus) + b"options  \0" + bytes(2) + b"flyrecord\0")

    def _finish(self) -> None:
        cpus = max(self._pages, default=0) + 1
        head = bytearray(self._head(cpus))
        offset = (len(head) + 16 * cpus + PAGE - 1) // PAGE * PAGE
        for pages in self._pages.values():
            pages.close()
        for cpu in range(cpus):
            size = self._pages[cpu].size if cpu in self._pages else 0
            head += struct.pack("<QQ", offset, size)
            offset += size
        with self._target.open("wb") as stream:
            stream.write(head + bytes(-len(head) % PAGE))
            for cpu in range(cpus):
                if cpu not in self._pages:
                    continue
                spool = self._pages[cpu].spool
                spool.seek(0)
                while piece := spool.read(1 << 20):
                    stream.write(piece)
