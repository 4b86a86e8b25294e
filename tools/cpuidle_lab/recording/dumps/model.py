# SPDX-License-Identifier: GPL-2.0
"""The contents of a dump: at each moment, the files of the idle states of each CPU, as text.

A file is kept under its path, so that a form need not know it: an attribute of a state under its
path below the state's folder ("usage", "s2idle/time"), a fact of a CPU below the CPU's
("topology/core_id"), all others under their absolute path. Times are in us, as the kernel has them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cpuidle_lab.host.sysfs import cpu_list

CPUS = "/sys/devices/system/cpu"
KERNEL = "/proc/sys/kernel/osrelease"
UPTIME = "/proc/uptime"
GOVERNORS = (f"{CPUS}/cpuidle/current_governor", f"{CPUS}/cpuidle/current_governor_ro")
DRIVER = f"{CPUS}/cpuidle/current_driver"
ONLINE = f"{CPUS}/online"

NAME, DESC, EXIT, TARGET = "name", "desc", "latency", "residency"
USAGE, TIME, ABOVE, BELOW, REJECTED = "usage", "time", "above", "below", "rejected"
DISABLE = "disable"
# Attributes that never fall while a CPU is up.
COUNTERS = (USAGE, TIME, ABOVE, BELOW, REJECTED)
# Attributes that a driver sets once; all others may change.
FIXED = (NAME, EXIT, TARGET, "power", "default_status", DESC)

# The kernel counts in 64 bits; a thousand years have fewer microseconds than the second.
_MOST = 2**64
_COUNTED_MOST = 2**56


def number(text: str | None) -> int | None:
    """Return a whole number from 0 that a file of the kernel holds; None if it holds none."""
    if text and text.isascii() and text.isdecimal() and len(text) <= 20 and int(text) < _MOST:
        return int(text)
    return None


def _is_wrong(text: str) -> bool:
    value = number(text)
    return value is None or value >= _COUNTED_MOST


_OF_CPU = re.compile(r"\S*\bcpu(\d{1,5})/(?:cpuidle/state(\d{1,3})/)?(\S+)")


def place_of(path: str) -> tuple[int, int | None, str] | None:
    """Return CPU, state and path below it of a CPU's file; None: it is of the machine."""
    found = _OF_CPU.fullmatch(path)
    return (int(found[1]), int(found[2]) if found[2] else None, found[3]) if found else None


@dataclass(frozen=True)
class State:
    """An idle state of a CPU at one moment.

    Attributes:
        files: contents by attribute.
    """

    files: Mapping[str, str]

    def value(self, attribute: str) -> int | None:
        """Return the number in a file; None if there is none."""
        return number(self.files.get(attribute))

    @property
    def name(self) -> str:
        """The driver's name for it."""
        return self.files.get(NAME, "")

    @property
    def is_counted(self) -> bool:
        """Entries and time are known, and every counter can be one."""
        return None not in (self.value(USAGE), self.value(TIME)) and not self.fault

    @property
    def fault(self) -> str:
        """The first counter that none can be, as "usage: -1"; "" if there is none."""
        told = ((key, self.files.get(key)) for key in COUNTERS)
        bad = (f"{key}: {text}" for key, text in told if text is not None and _is_wrong(text))
        return next(bad, "")

    @property
    def identity(self) -> tuple[str, int | None, int | None]:
        """Name, exit latency and target residency."""
        return self.name, self.value(EXIT), self.value(TARGET)


@dataclass(frozen=True)
class Cpu:
    """A CPU at one moment.

    Attributes:
        number: its own, or its place in the dump where the dump has no numbers.
        states: shallowest first.
        files: facts on it by path: topology, latency request.
    """

    number: int
    states: tuple[State, ...]
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def table(self) -> tuple[tuple[str, int | None, int | None], ...]:
        """Identities of the states."""
        return tuple(state.identity for state in self.states)

    @property
    def is_counted(self) -> bool:
        """Entries and time of all states are known."""
        return bool(self.states) and all(state.is_counted for state in self.states)


@dataclass(frozen=True)
class Moment:
    """All that a dump tells of one moment.

    Attributes:
        cpus: in the order of the dump.
        files: facts on the machine by absolute path.
        label: "before 1", "after 1"; "" where the dump has one moment.
        numbered: the dump tells the CPUs' numbers.
        notes: sentences on the parts that are missing or assumed.
    """

    cpus: tuple[Cpu, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    numbered: bool = True
    notes: tuple[str, ...] = ()

    @property
    def kernel(self) -> str:
        """Release of the kernel; "" if unknown."""
        return self.files.get(KERNEL, "")

    @property
    def governor(self) -> str:
        """The governor in use; "" if unknown."""
        return next((self.files[name] for name in GOVERNORS if self.files.get(name)), "")

    @property
    def driver(self) -> str:
        """The cpuidle driver; "" if unknown."""
        return self.files.get(DRIVER, "")

    @property
    def uptime_s(self) -> float | None:
        """Seconds since boot; None if unknown."""
        first = self.files.get(UPTIME, "").partition(" ")[0]
        whole, _, part = first.partition(".")
        if number(whole) is None or (part and number(part) is None):
            return None
        return float(first)


@dataclass(frozen=True)
class Span:
    """Counts of one CPU's state over some time, of a form that tells differences.

    Attributes:
        entries, time_us, above, below: None if unknown.
    """

    name: str
    entries: int
    time_us: float
    above: int | None = None
    below: int | None = None


@dataclass(frozen=True)
class Interval:
    """Differences over some time, as turbostat prints them.

    Attributes:
        cpus: states of each CPU by its number.
        files: facts on each CPU by path.
        seconds: length of the time; None if unknown, so that times are in units of 1 % of it.
        notes: sentences on the parts that are missing or assumed.
    """

    cpus: Mapping[int, tuple[Span, ...]]
    files: Mapping[int, Mapping[str, str]]
    seconds: float | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dump:
    """The contents of a file.

    Attributes:
        form: name of the form.
        moments: in the order of the file; none where it holds an interval.
        interval: the differences that it holds in place of moments.
    """

    form: str
    moments: tuple[Moment, ...] = ()
    interval: Interval | None = None


def cpus_of(
    states: Mapping[int, Mapping[int, Mapping[str, str]]],
    facts: Mapping[int, Mapping[str, str]],
) -> tuple[tuple[Cpu, ...], list[str]]:
    """Return CPUs in the order of their numbers, and sentences on those that lack a state.

    Args:
        states: contents of files by CPU, state and attribute.
        facts: contents of other files of the CPUs.
    """
    found, gaps = [], []
    for cpu in sorted(states):
        mine = states[cpu]
        if sorted(mine) == list(range(len(mine))):
            ordered = tuple(State(mine[k]) for k in sorted(mine))
            found.append(Cpu(cpu, ordered, facts.get(cpu, {})))
        else:
            gaps.append(cpu)
    return tuple(found), [left_out(gaps, "states are missing")] if gaps else []


def left_out(cpus: Iterable[int], why: str) -> str:
    """Return the sentence on CPUs that are left out."""
    return f"CPU {cpu_list(sorted(cpus))} is left out: {why}"
