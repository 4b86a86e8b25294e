# SPDX-License-Identifier: GPL-2.0
"""Dumps that `cpupower idle-info` prints: counters, and target residencies where it has them."""

import re
from collections.abc import Sequence

from cpuidle_lab.host.marks import POLLING
from cpuidle_lab.recording.dumps.model import (
    DESC,
    DRIVER,
    EXIT,
    GOVERNORS,
    NAME,
    TARGET,
    TIME,
    USAGE,
    Moment,
    cpus_of,
)

_CPU = re.compile(r"analyzing CPU (\d{1,5}):?")
_STATE = re.compile(r"(\S[^:]*?)( \(DISABLED\) ?)?:")
_LINE = re.compile(r"(Flags/Description|Latency|Residency|Usage|Duration): ?(.*)")
_KEYS = {
    "Flags/Description": DESC,
    "Latency": EXIT,
    "Residency": TARGET,
    "Usage": USAGE,
    "Duration": TIME,
}
_MACHINE = re.compile(r"CPUidle (driver|governor): (\S+)")
_PLACES = {"driver": DRIVER, "governor": GOVERNORS[0]}


def count(lines: Sequence[str]) -> int:
    """Return how many CPUs it prints."""
    return sum(bool(_CPU.fullmatch(line)) for line in lines)


def read(lines: Sequence[str]) -> tuple[Moment, ...]:
    """Return the moments: one, or more where CPUs occur again."""
    files: dict[str, str] = {}
    moments: list[dict[int, dict[int, dict[str, str]]]] = [{}]
    mine: dict[int, dict[str, str]] = {}
    state: dict[str, str] = {}
    for line in lines:
        if found := _CPU.fullmatch(line):
            cpu = int(found[1])
            if cpu in moments[-1]:
                moments.append({})
            mine = moments[-1].setdefault(cpu, {})
        elif found := _MACHINE.fullmatch(line):
            files.setdefault(_PLACES[found[1]], found[2])
        elif found := _LINE.fullmatch(line):
            state[_KEYS[found[1]]] = found[2]
        elif found := _STATE.fullmatch(line):
            state = {NAME: found[1], "disable": str(int(bool(found[2])))}
            if found[1] in POLLING:
                state[TARGET] = "0"  # the kernel's cpuidle_poll_state_init()
            mine[len(mine)] = state
    found_moments = []
    for states in moments:
        whole = {cpu: _with_usage(mine) for cpu, mine in states.items()}
        cpus, notes = cpus_of(whole, {})
        found_moments.append(Moment(cpus, files, notes=tuple(notes)))
    return tuple(found_moments)


def _with_usage(states: dict[int, dict[str, str]]) -> dict[int, dict[str, str]]:
    """Return the states without lines that end in a colon and are none."""
    kept = [state for state in states.values() if USAGE in state or EXIT in state]
    return dict(enumerate(kept))
