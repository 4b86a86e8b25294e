# SPDX-License-Identifier: GPL-2.0
"""Events as lines of text.

`trace-cmd report`, /sys/kernel/tracing/trace, Android's systrace HTML (which has such lines in a
page) and `perf script` all write

    COMM-PID [CPU] FLAGS SECONDS.FRACTION: EVENT: FIELD=VALUE ...

Lines of another form, and of events that are not needed, are passed over. A program for mail may
have broken a line at a blank, and quoted it.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording.formats.holes import Holes
from cpuidle_lab.recording.formats.writer import EVENTS, UNCOUNTED, Event
from cpuidle_lab.states.table import states_max

# A longer line is none of a trace: Android's page holds scripts in such lines.
_LINE_MAX = 1 << 16
# A line that was broken was no longer.
_BROKEN_MAX = 1 << 12

_LINE = re.compile(
    r"\[(\d{1,4})\]\s+(?:[^\s\d:]\S{2,9}\s+|\S{4,9}\s+(?=\d+[.,]))?"
    # perf writes a comma where the language does.
    r"(\d{1,12})[.,](\d{6}|\d{9}):\s+"
    # The time since the event before, of --ts-diff; the period of perf.
    r"(?:\(\+?\d+\)\s+)?(?:\d+\s+)?(?:(\w+):)?(\w+):\s*(.*)$"
)
# The CPU without brackets, before the flags: not told from other numbers where lines are broken.
_LATENCY = re.compile(r"-\d{1,9}\s+\d{1,4}[.dDbBX][.a-zA-Z]\S{2,5}\s.*: cpu_idle: ")
# A time without a fraction, of the clocks counter, x86-tsc and others.
_UNITLESS = re.compile(r"\[\d{1,4}\]\s+(?:\S{2,10}\s+)?\d{1,20}:\s+(?:power:)?cpu_idle:")
# Beginning of an event's line, and places where it may have been broken before its name.
_HEAD = re.compile(r"^(?:[^\[]*[-\s])?\d{1,9}\s+(?:\([-\s\d]{4,8}\)\s+)?\[(\d{1,4})\](?=\s|$)")
_CUT = re.compile(r"^[^\[]*\[(\d{1,4})\](?:\s+[^\s:]{3,10})?(?:\s+\d{1,12}[.,]\d{6,9}:)?\s*$")
# Colours, and other marks for a terminal.
_TERMINAL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_QUOTED = re.compile(r"^(?:>\s?)+")
_PAIR = re.compile(r"(\w+)=(\S+)")
# As trace-cmd report shows a switch: comm:pid [priority] state ==> comm:pid [priority].
_SWITCH = re.compile(r":(\d{1,9}) \[\d+\] \S+ ==> .*:(\d{1,9}) \[")

# Words of programs for a loss.
_ROWS, _GONE = "(?:events|samples|records)", "(?:lost|dropped|missed)"
# That events are missing here: the CPU if it is told, and their number if that is.
_LOSSES = tuple(
    re.compile(pattern)
    for pattern in (
        # The kernel's trace and trace_pipe; its log puts a time before it.
        r"\bCPU:(?P<cpu>\d{1,4}) \[LOST (?P<events>\d{1,18}) EVENTS\]",
        # trace-cmd report, which puts the name of a buffer or file before it where it has several.
        r"\bCPU:(?P<cpu>\d{1,4}) \[(?P<events>\d{1,18}) EVENTS DROPPED\]",
        # perf script --show-lost-events.
        r"(?:\[(?P<cpu>\d{1,4})\].*)?\bPERF_RECORD_LOST\w*:? .*?lost (?P<events>\d{1,18})",
        # The first two without a number, or cut off by a program for mail.
        r"\bCPU:(?P<cpu>\d{1,4})\b.*\b(?:LOST|DROPPED|EVENTS)\b",
        r"(?:\[(?P<cpu>\d{1,4})\].*)?\bPERF_RECORD_LOST",
        # perf trace, bpftrace and others, in their words.
        rf"(?i:\[(?:{_GONE} {_ROWS}|{_ROWS} {_GONE})\])",
        rf"(?i:\b{_GONE}:? (?P<events>\d{{1,18}}) {_ROWS}\b)",
        rf"(?i:\b(?P<events>\d{{1,18}}) {_ROWS} (?:were )?{_GONE}\b)",
        rf"(?i:\b(?:lost|missed) {_ROWS}: *(?P<events>\d{{1,18}})\b)",
        rf"(?i:\b{_ROWS} {_GONE}: *(?P<events>\d{{1,18}})\b)",
    )
)
# The CPU of a loss, in such words.
_OF_CPU = re.compile(r"(?i:\bcpu[ :#]{0,2}(\d{1,4})\b)")
_LOSS_BEGINS = re.compile(r"^\s*\[?CPU:\d")
# The kernel overwrote events older than those that follow.
_OVERWRITTEN = re.compile(r"^#\s+entries-in-buffer/entries-written:\s+(\d{1,18})/(\d{1,18})")
# That events are missing, and not where.
_UNPLACED = (
    (
        re.compile(r"Processed \d+ (?:events and lost [1-9]\d* chunks|samples and lost \d)"),
        "print it with perf script --show-lost-events",
    ),
    (
        re.compile(r"^(?:dropped events|commit overrun): [1-9]"),
        "record it again, with the option overwrite of ftrace and a larger buffer",
    ),
)
# Of events of a CPU that goes offline or comes back: where its number is.
_OFFLINE = {
    **dict.fromkeys(
        ("cpuhp_enter", "cpuhp_multi_enter", "cpuhp_exit", "cpuhp_latency"), r"\bcpu:\s*(\d{1,4})"
    ),
    **dict.fromkeys(("sched_cpu_hotplug", "cpu_hotplug"), r"\bcpu[ =](\d{1,4})"),
    "suspend_resume": r"^CPU_O(?:FF|N)\[(\d{1,4})\]",
}

# States that are the end of a stay: PWR_EVENT_EXIT, as 32 bits, as 64, and with a sign.
_EXITS = (2**32 - 1, 2**64 - 1, -1)
# A number at the end of a file, of which digits may be missing.
_CUT_STATE = re.compile(r"\bstate=\d{0,9}$")

# Of struct timer_list, as the kernel shows it: deferrable (does not wake an idle CPU), pinned.
_WHEEL_FLAGS = {"D": 0x80000, "P": 0x100000}
_WHEEL_CPU = 0x3FFFF
# Task before the CPU: comm-pid, with a group's number in brackets where ftrace shows it; perf has a
# blank between them.
_TASK = re.compile(r"^\s*(.{1,40}?)(?:-|\s+)(\d{1,9})\s+(?:\([-\s\d]{4,8}\)\s*)?$")
# An interrupt that is raised for other CPUs: words of a mask, and its reason.
_RAISED = re.compile(r"target_mask=([0-9a-f,]{1,320})\s+\(([^)]{1,40})\)")
# A latency request: of all CPUs, in kernels before 5.7 with a class, or of one CPU.
_IS_OF_CPU = re.compile(
    r"^(?:(?:pm_qos_class=)?CPU_DMA_LATENCY )?value=|^device=cpu\d+ type=DEV_PM_QOS_RESUME_LATENCY "
)
# Events of idle CPUs in kernels before 2.6.38.
_FORMER = ("power_start", "power_end")
_MARKS = ("tracing_mark_write", "print")
_PAGE_BEGINS = ("# tracer:", "<!DOCTYPE html", "<html", "cpus=")


def is_text(head: bytes) -> bool:
    """Tell whether a file that begins so may be such text."""
    if b"\0" in head:
        return False
    lines = head.decode(errors="replace").splitlines()
    return any(
        found or line.startswith(_PAGE_BEGINS) or _LATENCY.search(line) or _UNITLESS.search(line)
        for line, found in _whole(lines)
    )


def _begins(line: str) -> bool:
    """Tell whether a line is no later part of one that was broken."""
    return (
        not line
        or line.startswith(("#", "<", "=> "))
        or line[0].isspace()
        or bool(_HEAD.search(line) or _LOSS_BEGINS.search(line))
    )


def _is_complete(line: str, found: re.Match[str] | None) -> bool:
    """Tell whether a line has all that was on it before a program for mail broke it."""
    if not found:
        return not _HEAD.search(line) and ("]" in line or not _LOSS_BEGINS.search(line))
    name, rest = found[5], found[6]
    if name not in EVENTS:
        return name not in (*_MARKS, *_OFFLINE)
    return EVENTS[name][2].keys() <= dict(_PAIR.findall(rest)).keys() or bool(_SWITCH.search(rest))


def _whole(lines: Iterable[str]) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Yield lines, those that were broken put together, and what _LINE finds in each."""
    whole, found = "", None
    for line in lines:
        if "\x1b" in line:
            line = _TERMINAL.sub("", line)
        if line.startswith(">"):
            line = _QUOTED.sub("", line)
        match = _LINE.search(line)
        if match or _begins(line) or len(whole) > _BROKEN_MAX or _is_complete(whole, found):
            yield whole, found
            whole, found = line, match
        else:
            whole = f"{whole.rstrip()} {line}"
            found = _LINE.search(whole)
    yield whole, found


def _number(text: str) -> int:
    """Return a number of an event's text; 0 where it is none."""
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


def _state(text: str) -> int | None:
    """Return the state of a `cpu_idle` event; None: it cannot be one."""
    try:
        state = int(text, 0)
    except ValueError:
        return None
    if state in _EXITS:
        return _EXITS[0]
    return state if 0 <= state < states_max() else None


def _values(name: str, rest: str, pairs: dict[str, str]) -> dict[str, int]:
    values = {key: _number(pairs[key]) for key in EVENTS[name][2] if key in pairs}
    if name == "timer_start":
        return _wheel_timer(pairs, values)
    switch = _SWITCH.search(rest) if name == "sched_switch" and not values else None
    return {"prev_pid": int(switch[1]), "next_pid": int(switch[2])} if switch else values


def _event(found: re.Match[str], holes: Holes) -> Event | None:
    cpu_text, seconds, fraction, _, name, rest = found.groups()
    if name in _OFFLINE and (gone := re.search(_OFFLINE[name], rest)):
        holes.off(int(gone[1]))
    if name in _FORMER:
        raise UserError(
            "has the events power_start and power_end of kernels before 2.6.38, whose states have "
            "other numbers; record with a later kernel: trace-cmd record -e power:cpu_idle"
        )
    name = "print" if name in _MARKS else name
    name = "pm_qos_update_request" if name.startswith("dev_pm_qos_") else name
    if name not in EVENTS or name in _OFFLINE:
        return None
    cpu = int(cpu_text)
    ts = int(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0"))
    if name == "print":
        text = re.sub(r"^(?:0x)?[0-9a-f]{6,}:?\s+|^tracing_mark_write:\s*", "", rest).strip()
        return Event(cpu, ts, name, text=text)
    task = _TASK.search(found.string[: found.start()])
    comm, pid = (task[1], int(task[2])) if task else ("", 0)
    if name == "ipi_raise":
        raised = _RAISED.search(rest)
        mask = int(raised[1].replace(",", ""), 16) if raised else 0
        reason = raised[2] if raised else ""
        return Event(cpu, ts, name, {"target_cpus": mask}, reason, pid=pid, comm=comm)
    if name == "irq_handler_entry":
        irq, _, handler = rest.partition(" name=")
        values = {"irq": _number(irq.removeprefix("irq="))}
        return Event(cpu, ts, name, values, handler.strip(), pid=pid, comm=comm)
    if name == "pm_qos_update_request" and not _IS_OF_CPU.search(rest):
        return None
    # Text behind the fields of an event is none of them.
    pairs = dict(reversed(_PAIR.findall(rest)))
    values = _values(name, rest, pairs)
    if name == "cpu_idle":
        state = _state(pairs.get("state", ""))
        if state is None:
            holes.lost(cpu)
            return None
        values = {"state": state, "cpu_id": cpu}
    function = pairs.get("function", "").partition("/")[0].partition("+")[0]
    return Event(cpu, ts, name, values, function, pid=pid, comm=comm)


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines that are short enough for a trace."""
    begins = True
    with path.open("rb") as stream:
        while data := stream.readline(_LINE_MAX):
            if begins and len(data) < _LINE_MAX:
                yield data
            begins = data.endswith(b"\n")


def _text_of(data: bytes) -> str:
    line = data.decode(errors="replace")
    if not line.endswith("\n"):
        line = _CUT_STATE.sub("", line)
    return line.rstrip().removesuffix("\\n\\")


def _note_loss(path: Path, line: str, holes: Holes) -> None:
    """Note what a line that is no event says of missing ones; the event of a cut line is one."""
    if _LATENCY.search(line):
        raise UserError(
            f"{path}: is in the latency format; print it by trace-cmd report without -l, or by the "
            "kernel without the option latency-format"
        )
    if _UNITLESS.search(line):
        raise UserError(
            f"{path}: has times of a clock that does not count ns; record with "
            "trace-cmd record -C mono"
        )
    for pattern, remedy in _UNPLACED:
        if pattern.search(line):
            raise UserError(f"{path}: says that events were lost, and not where; {remedy}")
    if overwritten := _OVERWRITTEN.search(line):
        holes.lost(None, max(int(overwritten[2]) - int(overwritten[1]), 0))
    elif told := next((found for loss in _LOSSES if (found := loss.search(line))), None):
        named = told.groupdict()
        cpu, events = named.get("cpu"), named.get("events")
        if "cpu" not in named and (of := _OF_CPU.search(line)):
            cpu = of[1]
        holes.lost(int(cpu) if cpu else None, int(events) if events else UNCOUNTED)
    elif _HEAD.search(line) and (cut := _CUT.search(line)):
        holes.lost(int(cut[1]))


def events(path: Path) -> Iterator[Event]:
    """Yield the events of a file of text, line by line.

    Raises:
        UserError: it says that events were lost, and not where; it is in the latency format, of a
            clock that does not count ns, or of a kernel before 2.6.38.
    """
    holes = Holes()
    for line, found in _whole(map(_text_of, _lines(path))):
        if not found:
            _note_loss(path, line, holes)
            continue
        try:
            event = _event(found, holes)
        except UserError as error:
            raise UserError(f"{path}: {error.message}") from None
        if event:
            yield from holes.place(event)
