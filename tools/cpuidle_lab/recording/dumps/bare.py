# SPDX-License-Identifier: GPL-2.0
"""Dumps of values without names: cat /sys/devices/system/cpu/cpu*/cpuidle/state*/*.

The attributes of a state stand in the order of the files' names. Which files there are differs by
kernel and state:

    [above below] [default_status] desc disable latency name power [rejected] residency
    [s2idle/time s2idle/usage] time usage

`desc` and `name` are words and the others numbers, so the count of numbers between words tells
which are there. A dump in which two layouts fit, or none, is refused.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording.dumps.model import (
    ABOVE,
    BELOW,
    DESC,
    EXIT,
    NAME,
    REJECTED,
    TARGET,
    TIME,
    USAGE,
    Cpu,
    Moment,
    State,
    number,
)

_STATUS = ("enabled", "disabled")
# Numbers behind a name, by how many there are.
_BEHIND = {
    4: ("power", TARGET, TIME, USAGE),
    5: ("power", REJECTED, TARGET, TIME, USAGE),
    6: ("power", TARGET, "s2idle/time", "s2idle/usage", TIME, USAGE),
    7: ("power", REJECTED, TARGET, "s2idle/time", "s2idle/usage", TIME, USAGE),
}
_BEFORE: dict[int, tuple[str, ...]] = {0: (), 2: (ABOVE, BELOW)}
# No state of a table has a longer name in the kernel, and none begins with a digit.
_NAME = re.compile(r"[A-Za-z][\w.+/ -]{0,15}")
# Numbers from one end of a name's record to the other.
_SHORTEST = 8


def _is_number(line: str) -> bool:
    return number(line) is not None or re.fullmatch(r"-\d{1,10}", line) is not None


def _names(lines: Sequence[str]) -> list[int]:
    """Return the places of names: a word, before it two numbers and a word, behind it four."""
    return [
        at
        for at in range(3, len(lines) - 4)
        if _NAME.fullmatch(lines[at])
        and number(lines[at - 1]) is not None
        and lines[at - 2] in ("0", "1")
        and not _is_number(lines[at - 3])
        and all(map(_is_number, lines[at + 1 : at + 5]))
    ]


def count(lines: Sequence[str]) -> int:
    """Return how many states there seem to be."""
    return len(_names(lines)) if len(lines) >= _SHORTEST else 0


def _numbers_from(lines: Sequence[str], start: int, step: int) -> int:
    """Return how many numbers follow each other."""
    found = 0
    while 0 <= start + step * found < len(lines) and _is_number(lines[start + step * found]):
        found += 1
    return found


def _head(lines: Sequence[str], name: int) -> tuple[int, dict[str, str]]:
    """Return the place of a record's status or description, and what is known from it on."""
    known = {DESC: lines[name - 3], "disable": lines[name - 2], EXIT: lines[name - 1],
             NAME: lines[name]}  # fmt: skip
    if lines[name - 4] in _STATUS and name >= 4:
        return name - 4, known | {"default_status": lines[name - 4]}
    return name - 3, known


def _fault(why: str) -> UserError:
    return UserError(
        f"holds values without names, and {why}; dump with names: "
        "grep -r . /sys/devices/system/cpu/cpu*/cpuidle"
    )


@dataclass(frozen=True)
class _Found:
    """A state in the text.

    Attributes:
        name: place of its name.
        start: place of its description, or of its status before that.
        known: the attributes from there to the name.
        behind: how many numbers follow the name.
        before: how many numbers precede the start, those of the state before included.
        inner: the next state follows these numbers at once.
    """

    name: int
    start: int
    known: dict[str, str]
    behind: int
    before: int
    inner: bool


def _states(lines: Sequence[str]) -> list[_Found]:
    names = _names(lines)
    heads = [_head(lines, name) for name in names]
    ends = [start for start, _ in heads[1:]] + [-1]
    found = []
    for name, (start, known), end in zip(names, heads, ends, strict=True):
        behind = _numbers_from(lines, name + 1, 1)
        before = _numbers_from(lines, start - 1, -1)
        found.append(_Found(name, start, known, behind, before, name + 1 + behind == end))
    return found


def _is_last(lines: Sequence[str], state: _Found, count: int, inner: set[int], before: int) -> bool:
    """Tell whether the numbers behind a name that occurs once are all that there were.

    They may be the first ones of a longer layout, or have those of a next state behind them.
    Layouts of other states, and counters that are not 0, tell that they are not.
    """
    if before and count - before in _BEHIND:
        return False
    last = lines[state.name + 1 : state.name + 1 + count][-2:]
    return count in inner and last != ["0", "0"]


_Record = dict[str, str] | None


def _records(lines: Sequence[str], found: Sequence[_Found], before: int) -> list[_Record] | None:
    """Return the attributes of each state, None where some are missing; None: they do not fit.

    Args:
        lines: of the text.
        found: the states in it.
        before: how many numbers each state begins with.
    """
    counts = [each.behind - before * each.inner for each in found]
    # The first may lack its beginning, and others are cut by the end or by other text.
    by_name: dict[str, set[int]] = {}
    for each, count in zip(found, counts, strict=True):
        if each.inner:
            by_name.setdefault(lines[each.name], set()).add(count)
    if any(len(kinds) > 1 for kinds in by_name.values()):
        return None
    inner = {count for kinds in by_name.values() for count in kinds}
    records: list[_Record] = []
    for each, count in zip(found, counts, strict=True):
        expected = by_name.get(lines[each.name], set())
        is_cut = each.before < before or (
            count not in expected if expected else not _is_last(lines, each, count, inner, before)
        )
        if not is_cut and count not in _BEHIND:
            return None
        if is_cut:
            records.append(None)
            continue
        values = dict(zip(_BEHIND[count], lines[each.name + 1 :], strict=False))
        misses = dict(zip(_BEFORE[before], lines[each.start - before : each.start], strict=True))
        records.append(misses | each.known | values)
    whole = [record for record in records if record]
    if not inner <= _BEHIND.keys() or len({REJECTED in record for record in whole}) > 1:
        return None
    return records if all(map(_is_possible, whole)) else None


def _is_possible(record: dict[str, str]) -> bool:
    """Tell whether the counters of a state agree: no time without an entry, no more misses."""
    numbers = {key: number(record.get(key)) or 0 for key in (USAGE, TIME, ABOVE, BELOW)}
    misses = numbers[ABOVE] + numbers[BELOW]
    # They are read one after the other, while the CPU goes on.
    slack = 2 + numbers[USAGE] // 100
    return misses <= numbers[USAGE] + slack and (numbers[USAGE] > 0 or not numbers[TIME])


def _choose(lines: Sequence[str]) -> list[tuple[str, _Record]]:
    """Return name and attributes of each state by the one order that fits."""
    found = _states(lines)
    fitting: list[tuple[int, list[_Record]]] = []
    for before in _BEFORE:
        records = _records(lines, found, before)
        if records is not None:
            # The numbers before the first state are its own, or those of a state that is cut.
            cuts = (found[0].before > before) + records.count(None)
            fitting.append((cuts, records))
    least = min((cuts for cuts, _ in fitting), default=0)
    chosen = [records for cuts, records in fitting if cuts == least]
    if len(chosen) != 1:
        raise _fault("two orders of them fit" if chosen else "no known order of them fits")
    return [(lines[each.name], record) for each, record in zip(found, chosen[0], strict=True)]


def _blocks(lines: Sequence[str]) -> Iterator[list[tuple[str, _Record]]]:
    """Yield the states of each CPU: a new one begins where a name occurs again."""
    block: list[tuple[str, _Record]] = []
    for name, record in _choose(lines):
        if name in [known for known, _ in block]:
            yield block
            block = []
        block.append((name, record))
    if block:
        yield block


def _is_sorted(states: Sequence[State]) -> bool:
    targets = [state.value(TARGET) or 0 for state in states]
    return all(low <= high for low, high in pairwise(targets))


def read(lines: Sequence[str]) -> tuple[Moment, ...]:
    """Return the one moment of such a dump.

    Args:
        lines: of the file.

    Raises:
        UserError: no order of attributes fits, or several do.
    """
    lines = [line for line in lines if line and not re.match(r"(?:cat|head|tail|ls): ", line)]
    cpus: list[Cpu] = []
    notes: list[str] = []
    blocks = list(_blocks(lines))
    # The first and the last may be parts; each other has the states of its CPU.
    known = {tuple(name for name, _ in block) for block in blocks[1:-1]}
    most = max(len(block) for block in blocks)
    for place, block in enumerate(blocks):
        states = tuple(State(record) for _, record in block if record is not None)
        is_whole = len(states) == len(block) and _is_sorted(states)
        if is_whole and (len(block) == most or tuple(name for name, _ in block) in known):
            cpus.append(Cpu(len(cpus), states))
        elif place == len(blocks) - 1:
            notes.append("its last CPU is left out: it is cut")
        elif place == 0:
            notes.append("its first CPU is left out: its beginning is missing")
        else:
            raise _fault(f"some of those of the CPU at place {place} are missing")
    return (Moment(tuple(cpus), numbered=False, notes=tuple(notes)),)
