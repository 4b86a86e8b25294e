# SPDX-License-Identifier: GPL-2.0
"""Text of other programs that no reader takes: it lacks CPUs, clocks or columns that have names.

Each has a sentence that names it, and a command that gives a form that is read.
"""

import re
from dataclasses import dataclass

_SCRIPT = "perf script --ns --show-lost-events -i perf.data >trace.txt"
_RECORD = "trace-cmd record -C mono -e power:cpu_idle"
_DELIMITERS = ",;\t"
# Lines of a table that are looked at.
_ROWS = 20


@dataclass(frozen=True)
class Other:
    """A form that is not read.

    Attributes:
        name: as docs/formats.md has it.
        pattern: found in a file of that form.
        sentence: name of the form, and the way to one that is read.
    """

    name: str
    pattern: re.Pattern[str]
    sentence: str


def _other(name: str, pattern: str, sentence: str) -> Other:
    return Other(name, re.compile(pattern, re.MULTILINE), sentence)


_TIME = r"(?:\d{1,12}[.,]\d{3,9}:?|\[[\d:.,]{5,30}\])"

OTHERS = (
    _other(
        "`perf trace`",
        rf"^\s*{_TIME}\s.*\bpower:cpu_idle(?:\(|:?\s*state: ?|:state=)",
        f"is the output of perf trace, which tells no CPUs; record by perf record -a -e "
        f"power:cpu_idle, and print it: {_SCRIPT}",
    ),
    _other(
        "bpftrace",
        r"^(?:Attaching|Attached) \d{1,4} probes?\b|^@\w*\[?.*\]?: *(?:\d+|$)",
        f"is the output of bpftrace, whose columns have no names; record instead: {_RECORD}",
    ),
    _other(
        "a list of KernelShark",
        r"(?i:\bTime ?Stamp\b.*\bLatency\b.*\bEvent\b)|\bpower/cpu_idle\b.*\bstate=",
        "is a list of KernelShark; print the trace.dat that it shows: "
        "trace-cmd report -t trace.dat >trace.txt",
    ),
    _other(
        "LTTng, by babeltrace",
        r"^\[[^\]]{5,40}\]\s.*\bpower_cpu_idle: \{",
        f"is text of babeltrace, from LTTng; record instead: {_RECORD}",
    ),
    _other(
        "perf script without CPUs",
        rf"^\s*\S.*?\s{_TIME}\s+(?:\d+\s+)?(?:power:)?cpu_idle:\s.*\bstate=",
        f"does not tell the CPUs of its events; print it with them: {_SCRIPT}",
    ),
)
CSV = Other(
    "CSV",
    re.compile(r"cpu_?idle|c-?state", re.IGNORECASE),
    "is a table of CSV, whose columns have no known names; print the recording that it was made "
    f"of: trace-cmd report -t trace.dat >trace.txt, or {_SCRIPT}",
)


def _is_table(lines: list[str]) -> bool:
    """Tell whether all lines have as many columns, at least three."""
    return len(lines) > 1 and any(
        len(counts) == 1 and min(counts) >= 2
        for counts in ({line.count(mark) for line in lines} for mark in _DELIMITERS)
    )


def sentence_on(head: bytes) -> str:
    """Return what a file is that begins so, and what to do; "" where it is of no such form."""
    if b"\0" in head:
        return ""
    text = head.decode(errors="replace")
    found = next((other.sentence for other in OTHERS if other.pattern.search(text)), "")
    lines = text.splitlines()[:_ROWS]
    if not found and _is_table(lines) and CSV.pattern.search(text):
        return CSV.sentence
    return found
