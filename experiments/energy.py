# SPDX-License-Identifier: GPL-2.0
"""The emulated machine's account, and what it comes to at another busy power."""

from collections.abc import Sequence
from dataclasses import dataclass

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.states.table import StateTable

BUSY, OFFLINE = "busy", "offline"


@dataclass(frozen=True)
class Slot:
    """Part of a CPU's time in one idle state, busy, or offline: figures of the energy account."""

    cpu: int
    state: str
    power_mw: int
    entry_nj: int
    time_ns: int
    entries: int


def account(before: str, after: str) -> list[Slot]:
    """Return what the energy account counted between two readings of its table.

    Raises:
        UserError: they are not of one machine.
    """

    def rows(text: str) -> dict[tuple[int, str], list[int]]:
        lines = [line.split() for line in text.splitlines()[1:]]
        return {(int(words[0]), words[1]): [int(word) for word in words[2:6]] for words in lines}

    old, new = rows(before), rows(after)
    if not new or old.keys() != new.keys():
        raise UserError("the guest's energy accounts do not fit each other")
    return [
        Slot(cpu, state, power, entry, time - old[cpu, state][2], entries - old[cpu, state][3])
        for (cpu, state), (power, entry, time, entries) in new.items()
    ]


def domains_mj(before: str, after: str) -> float:
    """Return the energy of all domains between two readings of their account, mJ."""

    def read(text: str) -> int:
        return sum(int(line.split()[-1]) for line in text.splitlines()[1:])

    return (read(after) - read(before)) / 1000


def power_mw(slots: Sequence[Slot], machine: StateTable, busy: float = 1.0) -> float:
    """Return the mean modelled power of all CPUs together in mW, at another busy power.

    As the account itself (emul/README.md): time by power, and for each entry what makes a state
    and the next shallower one cost the same at the deeper one's target residency. A state draws
    at most the busy power.

    Args:
        slots: what the account counted.
        machine: its idle states.
        busy: busy power, as a part of the machine's own.
    """
    busy_mw = busy * next(slot.power_mw for slot in slots if slot.state == BUSY)
    draws = {slot.state: min(slot.power_mw, busy_mw) for slot in slots} | {BUSY: busy_mw}
    draws |= {
        name: busy_mw
        for name, polling in zip(machine.names, machine.polling, strict=True)
        if polling
    }
    # Milliwatts by nanoseconds are picojoules.
    entry_pj: dict[str, float] = {}
    total, before = 0.0, ""
    for name, residency_ns in zip(machine.names, machine.target_residency_ns, strict=True):
        total += (draws[before] - draws[name]) * residency_ns if before else 0.0
        entry_pj[name], before = total, name
    energy_pj = sum(
        slot.time_ns * draws[slot.state] + slot.entries * entry_pj.get(slot.state, 0.0)
        for slot in slots
    )
    return energy_pj / seconds(slots) / 1e9


def seconds(slots: Sequence[Slot]) -> float:
    """Return how long an account was kept: the mean of its CPUs."""
    online_ns = sum(slot.time_ns for slot in slots if slot.state != OFFLINE)
    return online_ns / len({slot.cpu for slot in slots}) / 1e9
