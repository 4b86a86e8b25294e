# SPDX-License-Identifier: GPL-2.0
"""The counts of a period: the difference of two dumps, CPU by CPU.

CPUs are matched by number. Where a dump has no numbers they are matched by place, then by the
orders of a shell and of numbers: each by its table, and by counters that only grow. Dumps that
match in several ways are refused. A CPU whose counters fell is left out, and a sentence says so.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording.dumps import reading
from cpuidle_lab.recording.dumps.model import (
    COUNTERS,
    DISABLE,
    EXIT,
    TARGET,
    Cpu,
    Dump,
    Interval,
    Moment,
    State,
    left_out,
)

_SINCE_BOOT = "it counts since boot, the work of booting included"

# Two dumps tell the time between them to that, s: their files are read one after the other.
_SLACK_S = 1.0


@dataclass(frozen=True)
class Counts:
    """Counts of one idle state of one CPU, or their sum.

    Attributes:
        entries: how often it was entered.
        time_us: time in it.
        above, below: entries that were too deep, too shallow; None if unknown.
        rejected: entries that the driver refused; None if unknown.
        paid_us: entries times exit latency; None if unknown.
    """

    entries: int = 0
    time_us: float = 0.0
    above: int | None = 0
    below: int | None = 0
    rejected: int | None = 0
    paid_us: int | None = 0

    def __add__(self, other: "Counts") -> "Counts":
        """Return the sum; unknown and known is unknown."""

        def add(a: int | None, b: int | None) -> int | None:
            return None if a is None or b is None else a + b

        return Counts(
            self.entries + other.entries,
            self.time_us + other.time_us,
            add(self.above, other.above),
            add(self.below, other.below),
            add(self.rejected, other.rejected),
            add(self.paid_us, other.paid_us),
        )


@dataclass(frozen=True)
class StateCounts:
    """A state of a CPU over a period.

    Attributes:
        name: the driver's.
        exit_us, target_us: exit latency and target residency; None if unknown.
        disabled: at the begin, at the end; None if unknown.
        counts: over the period.
    """

    name: str
    exit_us: int | None
    target_us: int | None
    disabled: tuple[bool | None, bool | None]
    counts: Counts


@dataclass(frozen=True)
class CpuCounts:
    """A CPU over a period.

    Attributes:
        number: of the CPU, or its place in the dump.
        states: shallowest first.
        files: facts on it.
    """

    number: int
    states: tuple[StateCounts, ...]
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Period:
    """The counts between two dumps.

    Attributes:
        name: of the files.
        cpus: that are counted.
        seconds: its length; None if unknown.
        timed: times are in us, not in shares of an unknown length.
        numbered: the CPUs' numbers are known.
        begin, end: the two dumps; None where there is none.
        notes: sentences on the parts that are missing or assumed.
    """

    name: str
    cpus: tuple[CpuCounts, ...]
    seconds: float | None
    timed: bool = True
    numbered: bool = True
    begin: Moment | None = None
    end: Moment | None = None
    notes: tuple[str, ...] = ()


# ---- Matching ----

Pair = tuple[Cpu, Cpu]


def _fits(before: Cpu, after: Cpu) -> bool:
    """Tell whether a CPU of one dump can be one of a later dump."""
    return before.table == after.table and not _fallen(before, after)


def _fallen(before: Cpu, after: Cpu) -> bool:
    return any(
        (low := old.value(key)) is not None and (high := new.value(key)) is not None and high < low
        for old, new in zip(before.states, after.states, strict=True)
        for key in COUNTERS
    )


def _in_orders(cpus: Sequence[Cpu]) -> Iterator[Sequence[Cpu]]:
    """Yield the CPUs as they are, and as if their places were by the shell or by number."""
    yield cpus
    shell = sorted(range(len(cpus)), key=str)
    if shell != list(range(len(cpus))):
        yield [cpus[place] for place in shell]
        yield [cpus[shell.index(place)] for place in range(len(cpus))]


def _ways(few: Sequence[Cpu], many: Sequence[Cpu], fits: Callable[[Cpu, Cpu], bool]) -> int:
    """Return in how many ways the few can stand among the many in their order, 2 at most."""
    ways = [1] + [0] * len(few)
    for other in many:
        for place in range(len(few), 0, -1):
            if ways[place - 1] and fits(few[place - 1], other):
                ways[place] = min(2, ways[place] + ways[place - 1])
    return ways[-1]


def _only_way(
    few: Sequence[Cpu], many: Sequence[Cpu], fits: Callable[[Cpu, Cpu], bool]
) -> list[Pair]:
    """Return the pairs of the one way in which the few stand among the many."""
    found: list[Pair] = []
    rest = list(many)
    for place, cpu in enumerate(few):
        while not (fits(cpu, rest[0]) and _ways(few[place + 1 :], rest[1:], fits)):
            rest.pop(0)
        found.append((cpu, rest.pop(0)))
    return found


def _by_place(before: Sequence[Cpu], after: Sequence[Cpu]) -> tuple[list[Pair], list[str]]:
    """Match CPUs without numbers.

    Raises:
        UserError: they cannot be, or in several ways.
    """
    if len(before) == len(after):
        for turn, ordered in enumerate(_in_orders(after)):
            pairs = list(zip(before, ordered, strict=True))
            if all(_fits(*pair) for pair in pairs):
                notes = ["the CPUs of the two dumps stand in different orders: one is the shell's"]
                return pairs, notes * bool(turn)
        raise UserError("no order of their CPUs lets every counter grow")
    few, many = sorted((before, after), key=len)

    def fits(one: Cpu, other: Cpu) -> bool:
        return _fits(one, other) if few is before else _fits(other, one)

    ways = _ways(few, many, fits)
    if ways != 1:
        why = "in no way" if not ways else "in several ways"
        raise UserError(
            f"they have {len(before)} and {len(after)} CPUs without numbers, which match {why}; "
            "dump with names: grep -r . /sys/devices/system/cpu/cpu*/cpuidle"
        )
    pairs = _only_way(few, many, fits)
    note = f"{len(many) - len(few)} CPUs of one dump are left out: the other lacks them"
    return [pair if few is before else pair[::-1] for pair in pairs], [note]


def _is_part(one: Cpu, other: Cpu) -> bool:
    """Tell whether one table is the beginning of the other."""
    common = min(len(one.states), len(other.states))
    return len(one.states) != len(other.states) and one.table[:common] == other.table[:common]


def _by_number(before: Moment, after: Moment) -> tuple[list[Pair], list[str]]:
    old = {cpu.number: cpu for cpu in before.cpus}
    new = {cpu.number: cpu for cpu in after.cpus}
    both = sorted(old.keys() & new.keys())
    notes = []
    if lost := old.keys() ^ new.keys():
        notes.append(left_out(lost, "one of the dumps lacks it; it may have been offline"))
    pairs = [(old[cpu], new[cpu]) for cpu in both]
    parts = [one.number for one, other in pairs if _is_part(one, other)]
    if parts:
        notes.append(left_out(parts, "one of the dumps lacks some of its states"))
        pairs = [pair for pair in pairs if pair[0].number not in parts]
    for one, other in pairs:
        if one.table != other.table:
            raise UserError(
                f"they are of different machines or drivers: CPU {one.number} has "
                f"{_table(one)}, then {_table(other)}"
            )
    fallen = [one.number for one, other in pairs if _fallen(one, other)]
    if fallen:
        notes.append(
            left_out(fallen, "counters went backwards or wrapped; it may have been offline")
        )
    return [pair for pair in pairs if pair[0].number not in fallen], notes


def _table(cpu: Cpu) -> str:
    return ", ".join(
        f"{name} {'-' if low is None else low}/{'-' if high is None else high}"
        for name, low, high in cpu.table
    )


# ---- Two dumps ----


def _earlier(one: Moment, other: Moment) -> bool:
    """Tell whether the other dump is surely the earlier one."""
    if one.numbered and other.numbered:
        later = {cpu.number: cpu for cpu in other.cpus}
        pairs = [(cpu, later[cpu.number]) for cpu in one.cpus if cpu.number in later]
    else:
        pairs = list(zip(one.cpus, other.cpus, strict=False))
    pairs = [(a, b) for a, b in pairs if a.table == b.table and a.states != b.states]
    return bool(pairs) and all(_fallen(a, b) and not _fallen(b, a) for a, b in pairs)


def _refuse_others(before: Moment, after: Moment) -> None:
    """Refuse dumps that are surely not of one boot of one machine.

    Raises:
        UserError: their kernels, tables or numbers of CPUs differ.
    """
    if before.kernel and after.kernel and before.kernel != after.kernel:
        raise UserError(
            f"they are of two kernels, {before.kernel} and {after.kernel}; give two dumps of each, "
            "or --since-boot"
        )
    tables = [{cpu.table for cpu in moment.cpus} for moment in (before, after)]
    if not tables[0] & tables[1]:
        raise UserError(
            f"they are of different machines: {_table(before.cpus[0])}; {_table(after.cpus[0])}"
        )


def _number_of(before: State, after: State, key: str) -> int | None:
    old, new = before.value(key), after.value(key)
    return None if old is None or new is None else new - old


def _flag(state: State) -> bool | None:
    value = state.value(DISABLE)
    return None if value is None else bool(value)


def _counts(before: State, after: State) -> StateCounts:
    entries, time_us, above, below, rejected = (_number_of(before, after, key) for key in COUNTERS)
    exit_us = after.value(EXIT)
    counts = Counts(
        entries or 0,
        float(time_us or 0),
        above,
        below,
        rejected,
        None if exit_us is None else exit_us * (entries or 0),
    )
    flags = (_flag(before), _flag(after))
    return StateCounts(after.name, exit_us, after.value(TARGET), flags, counts)


def _cpu_counts(before: Cpu, after: Cpu) -> CpuCounts:
    states = tuple(map(_counts, before.states, after.states))
    return CpuCounts(after.number, _named_apart(states), dict(after.files))


def _named_apart(states: Sequence[StateCounts]) -> tuple[StateCounts, ...]:
    """Give numbers to the states of a CPU whose names occur twice."""
    names = [state.name for state in states]
    return tuple(
        state if names.count(state.name) == 1 else replace(state, name=f"{state.name}#{k}")
        for k, state in enumerate(states)
    )


def between(before: Moment, after: Moment, name: str) -> Period:
    """Return the counts between two dumps of one boot.

    Args:
        before: the earlier one; if it is surely the later one, the two are swapped.
        after: the later one.
        name: of the files.

    Raises:
        UserError: they are of different machines, kernels or boots, or cannot be matched.
    """
    notes = [*before.notes, *after.notes]
    _refuse_others(before, after)
    if _earlier(before, after):
        before, after = after, before
        notes.append("the dumps were given in the wrong order, and are swapped")
    if before.numbered and after.numbered:
        pairs, found = _by_number(before, after)
    else:
        pairs, found = _by_place(before.cpus, after.cpus)
    if not pairs:
        raise UserError(
            "no CPU has counters that grew: the dumps are of different boots or machines "
            "(--since-boot compares such dumps); " + "; ".join(found)
        )
    begin, end = before.uptime_s, after.uptime_s
    seconds = None if begin is None or end is None else end - begin
    if seconds is not None and seconds <= 0:
        seconds = None
        found.append("the uptime did not grow, so the length of the period is unknown")
    cpus = tuple(_cpu_counts(*pair) for pair in pairs)
    numbered = before.numbered and after.numbered
    period = Period(name, cpus, seconds, numbered=numbered, begin=before, end=after,
                    notes=tuple(dict.fromkeys([*notes, *found])))  # fmt: skip
    return _believed(period)


def since_boot(moment: Moment, name: str) -> Period:
    """Return the counts of a dump since boot, or since each CPU was last brought online."""
    empty = dict.fromkeys(COUNTERS, "0")
    cpus = tuple(
        _cpu_counts(
            replace(cpu, states=tuple(
                State({**state.files, **{k: v for k, v in empty.items() if k in state.files}})
                for state in cpu.states)),
            cpu,
        )
        for cpu in moment.cpus
    )  # fmt: skip
    return _believed(Period(name, cpus, moment.uptime_s, numbered=moment.numbered, end=moment,
                            notes=(*moment.notes, _SINCE_BOOT)))  # fmt: skip


def _of_interval(interval: Interval, name: str) -> Period:
    cpus = tuple(
        CpuCounts(
            cpu,
            tuple(
                StateCounts(each.name, None, None, (None, None), Counts(
                    each.entries, each.time_us, each.above, each.below, None, None))
                for each in spans
            ),
            dict(interval.files.get(cpu, {})),
        )
        for cpu, spans in interval.cpus.items()
    )  # fmt: skip
    seconds, timed = interval.seconds, interval.seconds is not None
    return _believed(Period(name, cpus, seconds, timed=timed, notes=interval.notes))


def _believed(period: Period) -> Period:
    """Return a period without a length that its own idle times contradict."""
    if period.seconds is None or not period.timed:
        return period
    most_us = max(sum(state.counts.time_us for state in cpu.states) for cpu in period.cpus)
    if most_us <= (period.seconds + _SLACK_S) * 1e6:
        return period
    note = (
        f"a CPU was idle for {most_us / 1e6:.3f} s of {period.seconds:.3f} s, "
        "so the length of the period is not believed"
    )
    return replace(period, seconds=None, notes=(*period.notes, note))


# ---- Files ----


class AloneError(UserError):
    """A dump of one moment has no partner."""


def _name(paths: Iterable[Path]) -> str:
    return ", ".join(path.name for path in paths)


def _own_periods(path: Path, dump: Dump) -> list[Period]:
    """Return the periods that one file holds: its moments are pairs."""
    if dump.interval:
        return [_of_interval(dump.interval, path.name)]
    if len(dump.moments) % 2:
        raise UserError(f"{path}: holds {len(dump.moments)} moments, which are no pairs")
    return [
        _between(before, after, f"{path.name} {number_ or ''}".strip(), str(path))
        for number_, (before, after) in enumerate(list(pairwise(dump.moments))[::2], start=1)
    ]


def _between(before: Moment, after: Moment, name: str, what: str) -> Period:
    try:
        return between(before, after, name)
    except UserError as error:
        raise UserError(f"{what}: {error.message}", error.exit_code) from None


def _named(path: Path, moment: Moment, other: Moment) -> Moment:
    """Return a moment whose notes name its file, where they do not hold for both."""
    notes = (note if note in other.notes else f"{path.name}: {note}" for note in moment.notes)
    return replace(moment, notes=tuple(notes))


def of_files(paths: Sequence[Path], from_boot: bool = False) -> list[Period]:
    """Return the periods of files: of each that holds pairs, else of each two files.

    Args:
        paths: dumps.
        from_boot: each dump is a period since boot.

    Raises:
        UserError: one cannot be read, or they are no pairs.
    """
    found: list[Period] = []
    waiting: list[tuple[Path, Moment]] = []
    for path in paths:
        dump = reading.read(path)
        if from_boot and dump.moments:
            found.append(since_boot(dump.moments[0], path.name))
        elif len(dump.moments) == 1:
            waiting.append((path, dump.moments[0]))
            if len(waiting) == 2:
                (one, before), (other, after) = waiting
                before, after = _named(one, before, after), _named(other, after, before)
                found.append(_between(before, after, _name((one, other)), f"{one}, {other}"))
                waiting = []
        else:
            found += _own_periods(path, dump)
    if waiting:
        raise AloneError(
            f"{waiting[0][0]} holds one moment and has no partner: give the dump after it, or "
            "--since-boot to count from boot"
        )
    return found
