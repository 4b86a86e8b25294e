# SPDX-License-Identifier: GPL-2.0
"""State tables: the idle states of a CPU, the CPUs that have them, and their form as text."""

import re
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base.abi import constant
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.host.marks import MACHINE, NO_REQUEST, POLLING, plain

# The greatest number of a CPU.
CPUS_MAX = 65535

# Limits of belief for times of an idle state and of the tick, ns; as in tools/native/periods.h.
_STATE_TIME_MAX = 2**44
_TICK_MIN, _TICK_MAX = 100_000, 1_000_000_000
# The library keeps a power in 32 bits.
_POWER_MAX_UW = 2**32 - 1


def states_max() -> int:
    """Return how many idle states the kernel allows.

    The headers tell it, and commands on a running machine do without these.
    """
    return constant("CIL_STATE_MAX")


@dataclass(frozen=True)
class StateTable:
    """The idle states of a CPU, shallowest first.

    Attributes:
        names: names of the states.
        exit_latency_ns: worst case from the wake-up to the first instruction.
        target_residency_ns: shortest stay that pays.
        power_uw: power in the state, 0 where the machine does not say.
        polling: whether the CPU spins in the state.
        tick_ns: period of the scheduler tick.
    """

    names: tuple[str, ...]
    exit_latency_ns: tuple[int, ...]
    target_residency_ns: tuple[int, ...]
    power_uw: tuple[int, ...]
    polling: tuple[bool, ...]
    tick_ns: int

    @property
    def count(self) -> int:
        """Number of states."""
        return len(self.names)


@dataclass(frozen=True)
class CpuTable:
    """The idle states of some CPUs.

    Attributes:
        first, last: numbers of the CPUs.
        table: their idle states and tick.
        latency_req_us: latency request, NO_REQUEST without one.
        disabled: bit k is set if state k was disabled.
    """

    first: int
    last: int
    table: StateTable
    latency_req_us: int = NO_REQUEST
    disabled: int = 0


def check_table(path: Path | str, table: StateTable) -> None:
    """Refuse a state table that cannot be.

    Args:
        path: the file or place that describes it, for the message.
        table: the state table.

    Raises:
        UserError: it has no idle state or too many, or they contradict themselves.
    """
    latencies, residencies = table.exit_latency_ns, table.target_residency_ns
    columns = (latencies, residencies, table.power_uw, table.polling)
    if not 1 <= table.count <= states_max() or {table.count} != {*map(len, columns)}:
        raise UserError(f"{path}: claims a machine with {table.count} idle states")
    if not all(0 <= value < _STATE_TIME_MAX for value in (*latencies, *residencies)):
        raise UserError(f"{path}: claims idle states with impossible times")
    if not all(0 <= power <= _POWER_MAX_UW for power in table.power_uw):
        raise UserError(f"{path}: claims idle states with impossible powers")
    if list(residencies) != sorted(residencies):
        raise UserError(f"{path}: claims idle states that are not sorted by target residency")
    if any(table.polling[1:]):
        # The oracle would enter it again and again, and be dearer than others.
        raise UserError(f"{path}: claims a polling state that is not the first")
    if not _TICK_MIN <= table.tick_ns <= _TICK_MAX:
        raise UserError(f"{path}: claims a scheduler tick of {table.tick_ns} ns")


def _micro(text: str) -> int:
    """Return a power in uW that is given in mW.

    Raises:
        ValueError: it is no number, or finer than 1 uW.
    """
    match = re.fullmatch(r"(-?\d{1,20})(?:\.(\d{1,3}))?", text)
    if not match:
        raise ValueError(text)
    return int(match[1] + (match[2] or "").ljust(3, "0"))


def table_of(states: str, tick_ns: int) -> StateTable:
    """Return the state table of NAME:EXIT_US:TARGET_US[:POWER_MW],...

    Raises:
        ValueError: the text has another form.
    """
    parts = [state.split(":") for state in states.split(",")]
    if not all(3 <= len(part) <= 4 and part[0] for part in parts):
        raise ValueError(states)
    return StateTable(
        names=tuple(plain(part[0]) for part in parts),
        exit_latency_ns=tuple(int(part[1]) * 1000 for part in parts),
        target_residency_ns=tuple(int(part[2]) * 1000 for part in parts),
        power_uw=tuple(_micro(part[3]) if len(part) > 3 else 0 for part in parts),
        polling=tuple(part[0] in POLLING for part in parts),
        tick_ns=tick_ns,
    )


def machine_line(table: StateTable, cpus: str) -> str:
    """Return the line that tells the idle states of some CPUs.

    Args:
        table: the states and the tick.
        cpus: their numbers, as in "0-3".
    """
    states = ",".join(
        f"{plain(name)}:{latency // 1000}:{residency // 1000}:{power // 1000}"
        for name, latency, residency, power in zip(
            table.names,
            table.exit_latency_ns,
            table.target_residency_ns,
            table.power_uw,
            strict=True,
        )
    )
    return f"{MACHINE}cpus={cpus} tick_ns={table.tick_ns} states={states}"


def values_of(line: str) -> dict[str, str]:
    """Return the values NAME=VALUE of a recorder's line, by name."""
    return dict(word.partition("=")[::2] for word in line.split()[1:])


def cpu_table(path: Path, words: dict[str, str]) -> CpuTable:
    """Return the table that the words of a recorder's line tell.

    Args:
        path: the trace, for messages.
        words: values of the line, by name.

    Raises:
        UserError: a word is missing or cannot be read, or the table is impossible.
    """
    try:
        first, _, last = words["cpus"].partition("-")
        found = CpuTable(
            int(first),
            int(last or first),
            table_of(words["states"], int(words["tick_ns"])),
            int(words.get("latency_req_us", "-1")),
            int(words.get("disabled", "0"), 0) & 0xFFFF,
        )
    except (KeyError, ValueError):
        raise UserError(
            f"{path}: has a line 'stock machine' that cannot be read; give the idle states with "
            "--machine"
        ) from None
    check_table(path, found.table)
    return found
