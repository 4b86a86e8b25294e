# SPDX-License-Identifier: GPL-2.0
"""Reads what the guest of a soak has written."""

import re
from dataclasses import dataclass, field

SECTION = re.compile(r"^== (\w+) ?(.*)\n", re.MULTILINE)
FILE_LINE = re.compile(r"^(/.*):([^:\n]*)$", re.MULTILINE)


@dataclass(frozen=True)
class Slot:
    """A line of the energy account: one CPU in one state.

    Attributes:
        mw: power.
        entry_nj: energy of one entry.
        time_ns: spent there.
        entries: into it.
        energy_uj: as the account says.
    """

    mw: int
    entry_nj: int
    time_ns: int
    entries: int
    energy_uj: int


@dataclass(frozen=True)
class Account:
    """The energy account, read on one CPU between two looks at the clock.

    Attributes:
        cpu: where it was read.
        before_ns: monotonic clock before.
        after_ns: and after.
        zone_uj: of the powercap zone, before and after the table.
        slots: the table, by CPU and name of the state.
        kernel: time in us and usage of each state of that CPU, as the kernel counts them.
    """

    cpu: int
    before_ns: int
    after_ns: int
    zone_uj: tuple[int, int]
    slots: dict[tuple[int, str], Slot]
    kernel: list[tuple[int, int]]


@dataclass
class Sample:
    """Values that were written at one time.

    Attributes:
        operations: served by the modules so far.
        sleepers: tasks that have hints.
        recount: what the recount of hints says.
        slab: per cache, objects in use and the size of one, bytes.
        memory: as meminfo and so on say, KiB; numbers of files, tasks, areas.
        accounts: one for each CPU.
    """

    operations: int
    sleepers: int
    recount: str
    slab: dict[str, tuple[int, int]] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    accounts: list[Account] = field(default_factory=list)

    @property
    def at_ns(self) -> int:
        """Return the monotonic clock at the first look at an account."""
        return self.accounts[0].before_ns


@dataclass(frozen=True)
class Record:
    """All that a segment left.

    Attributes:
        samples: in order.
        states: what a governor has learned: its name, and its file.
        current: from when on (ns) which governor decided, over which base.
    """

    samples: list[Sample]
    states: list[tuple[str, str]]
    current: list[tuple[int, str, str]]


def parse(text: str) -> Record:
    """Return the record that a guest wrote.

    Raises:
        ValueError: it is not whole.
    """
    record = Record([], [], [])
    parts = SECTION.split(text)[1:]
    for kind, about, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if kind == "state":
            record.states.append((about, body))
        elif kind == "current":
            at_ns, governor, base = about.split()
            record.current.append((int(at_ns), governor, base))
        elif kind == "sample":
            operations, sleepers, recount = about.split(" ", 2)
            record.samples.append(Sample(int(operations), int(sleepers), recount))
        elif kind == "slab":
            for line in body.splitlines():
                name, objects, size = line.split()
                record.samples[-1].slab[name] = int(objects), int(size)
        elif kind == "memory":
            for line in body.splitlines():
                name, _, value = line.partition(":")
                record.samples[-1].memory[name] = int(value.split()[0])
        elif kind == "account":
            record.samples[-1].accounts.append(_account(int(about), body))
        elif kind != "end":
            raise ValueError(f"unknown section {kind}")
    if any(not (sample.slab and sample.accounts) for sample in record.samples):
        raise ValueError("a sample is not whole")
    return record


def _account(cpu: int, body: str) -> Account:
    lines = body.split()
    zone: list[int] = []
    slots: dict[tuple[int, str], Slot] = {}
    counts: dict[str, list[int]] = {"time": [], "usage": []}
    for path, value in FILE_LINE.findall(body):
        if path.endswith("/energy_uj"):
            zone.append(int(value))
        elif path.endswith("/energy"):
            words = value.split()
            if words[0] != "cpu":
                slots[int(words[0]), words[1]] = Slot(*map(int, words[2:]))
        else:
            counts[path.rpartition("/")[2]].append(int(value))
    kernel = list(zip(counts["time"], counts["usage"], strict=True))
    return Account(cpu, int(lines[0]), int(lines[-1]), (zone[0], zone[1]), slots, kernel)
