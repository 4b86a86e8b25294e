# SPDX-License-Identifier: GPL-2.0
"""The project's form of a dump: sections of text, which `cpuidle-lab dump` writes.

A section is written where it differs from that of the moment before, and stands for both else.
Counters are written always, so that a dump that is cut does not lend them to a later moment.
docs/dumps.md describes the form for other programs.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.host.sysfs import cpu_list, parse_cpus
from cpuidle_lab.recording.dumps.model import CPUS, FIXED, Cpu, Moment, cpus_of

VERSION = 1
MAGIC = "cpuidle-lab dump "
_ABOUT = (
    "# Files of a machine's idle states: those of the machine, of each CPU, of each idle state.",
    f"# Paths are below {CPUS}/cpuN/cpuidle/stateM, or cpuN. Times are in us.",
    "# Read it with: cpuidle-lab diff BEFORE AFTER",
)
END = "[end]"
_ABSENT = "-"
_HEAD = re.compile(r"\[(moment|files|cpus|states|counters|end)(?: ([^\]]*))?\]")
_BEGIN = re.compile(rf"^\W*{MAGIC}(\d+)$")

# Attributes of states that come first among those that change.
_FIRST = ("usage", "time", "above", "below", "rejected", "disable")


# ---- Writing ----


def _cell(text: str | None) -> str:
    return _ABSENT if text is None else shlex.quote(" ".join(text.split()))


def _keys(known: Iterable[Mapping[str, str]], first: Sequence[str]) -> list[str]:
    """Return the names that occur, some of them first."""
    found = {name for each in known for name in each}
    return [name for name in first if name in found] + sorted(found.difference(first))


def _rows(heads: Sequence[str], rows: Iterable[Sequence[str | None]]) -> list[str]:
    return [" ".join(heads), *(" ".join(map(_cell, row)) for row in rows)]


def _tables(cpus: Sequence[Cpu]) -> list[str]:
    groups: dict[tuple[tuple[str | None, ...], ...], list[int]] = {}
    for cpu in cpus:
        table = tuple(tuple(state.files.get(key) for key in FIXED) for state in cpu.states)
        groups.setdefault(table, []).append(cpu.number)
    return _rows(
        ("cpus", "state", *FIXED),
        ((cpu_list(mine), str(k), *row) for table, mine in groups.items()
         for k, row in enumerate(table)),
    )  # fmt: skip


def _counters(cpus: Sequence[Cpu]) -> list[str]:
    told = [
        {key: text for key, text in state.files.items() if key not in FIXED}
        for cpu in cpus
        for state in cpu.states
    ]
    keys = _keys(told, _FIRST)
    places = [(str(cpu.number), str(k)) for cpu in cpus for k in range(len(cpu.states))]
    return _rows(
        ("cpu", "state", *keys),
        ((*place, *(each.get(key) for key in keys))
         for place, each in zip(places, told, strict=True)),
    )  # fmt: skip


def _sections(moment: Moment) -> Iterator[tuple[str, list[str]]]:
    """Yield title and lines of each section of a moment."""
    yield (
        "files",
        [f"{path} {line}" for path, text in moment.files.items() for line in text.splitlines()],
    )
    keys = _keys((cpu.files for cpu in moment.cpus), ())
    if keys:
        yield (
            "cpus",
            _rows(
                ("cpu", *keys),
                ((str(cpu.number), *(cpu.files.get(key) for key in keys)) for cpu in moment.cpus),
            ),
        )
    yield "states", _tables(moment.cpus)
    yield "counters", _counters(moment.cpus)


def text_of(moments: Iterable[Moment]) -> str:
    """Return the text of a dump."""
    lines = [f"{MAGIC}{VERSION}", *_ABOUT]
    last: dict[str, list[str]] = {}
    for moment in moments:
        lines += ["", f"[moment {moment.label}]" if moment.label else "[moment]"]
        for title, section in _sections(moment):
            if title == "counters" or last.get(title) != section:
                lines += [f"[{title}]", *section]
                last[title] = section
    return "\n".join([*lines, "", END, ""])


# ---- Reading ----


def begins(lines: Sequence[str]) -> bool:
    """Tell whether a line begins such a dump."""
    return any(_BEGIN.match(line) for line in lines)


def _cells(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # a quote is missing
        return []


def _table(lines: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the cells of each row by heading; rows of another length are no rows."""
    heads = lines[0].split() if lines else []
    for line in lines[1:]:
        row = _cells(line)
        if len(row) == len(heads):
            yield {head: text for head, text in zip(heads, row, strict=True) if text != _ABSENT}


def _files(lines: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        path, _, text = line.partition(" ")
        if path.startswith("/"):
            found[path] = f"{found[path]}\n{text}" if path in found else text
    return found


def _place(row: dict[str, str], *heads: str) -> list[int] | None:
    """Take numbers out of a row; None where one is none."""
    texts = [row.pop(head, "") for head in heads]
    are_numbers = all(re.fullmatch(r"\d{1,5}", text) for text in texts)
    return [int(text) for text in texts] if are_numbers else None


def _moment(sections: Mapping[str, Sequence[str]], label: str) -> Moment:
    states: dict[int, dict[int, dict[str, str]]] = {}
    for row in _table(sections.get("states", ())):
        try:
            cpus = parse_cpus(row.pop("cpus", ""))
        except ValueError:
            continue
        if place := _place(row, "state"):
            for cpu in cpus:
                states.setdefault(cpu, {})[place[0]] = dict(row)
    for row in _table(sections.get("counters", ())):
        place = _place(row, "cpu", "state")
        if place and place[1] in states.get(place[0], {}):
            states[place[0]][place[1]] |= row
    rows = _table(sections.get("cpus", ()))
    facts = {place[0]: row for row in rows if (place := _place(row, "cpu"))}
    found, notes = cpus_of(states, facts)
    return Moment(found, _files(sections.get("files", ())), label, notes=tuple(notes))


def read(lines: Sequence[str]) -> tuple[Moment, ...]:
    """Return the moments of such a dump, or of several in one file.

    Args:
        lines: of the file.

    Raises:
        UserError: it is of a later version, or has no moment.
    """
    moments: list[Moment] = []
    sections: dict[str, list[str]] = {}
    label: str | None = None
    current: list[str] = []
    for line in lines:
        if begin := _BEGIN.match(line):
            if int(begin[1]) != VERSION:
                raise UserError(
                    f"is a dump of version {begin[1]}; this program reads version {VERSION}"
                )
            sections, current = {}, []
        elif not (head := _HEAD.fullmatch(line)):
            if line and not line.startswith("#"):
                current.append(line)
        elif head[1] in ("moment", "end"):
            if label is not None:
                moments.append(_moment(sections, label))
            label = head[2] or "" if head[1] == "moment" else None
            sections.pop("counters", None)
            current = []
        else:
            current = sections[head[1]] = []
    if label is not None:
        cut = _moment(sections, label)
        moments.append(replace(cut, notes=("it is cut: its end is missing", *cut.notes)))
    if not moments:
        raise UserError("is a dump without a moment: a part of it is missing")
    return tuple(moments)
