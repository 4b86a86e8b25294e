# SPDX-License-Identifier: GPL-2.0
"""Lists of machines as state tables: the emulator's, recorded ones, those of a kernel's sources."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.host import idle_states
from cpuidle_lab.host.machine import Host as Host
from cpuidle_lab.host.marks import plain
from cpuidle_lab.states import kernel_tables
from cpuidle_lab.states.linux_source import NEWEST
from cpuidle_lab.states.table import CpuTable, StateTable, cpu_table, table_of, values_of

HZ = 250
_S = 1_000_000_000

RECORDED = Path(__file__).parent / "machines.tsv"
PEPC, INTEL_IDLE, DTS = "pepc", "intel_idle", "dts"


# ---- The running machine ----


def tables_of(host: Host, hz: int = HZ, source: Path = Path("this machine")) -> list[CpuTable]:
    """Return the idle states of all CPUs of a machine; neighbours with the same share a table.

    Args:
        host: the machine.
        hz: ticks per second, where it does not tell them.
        source: of its files, for messages.

    Raises:
        UserError: no CPU has idle states.
    """
    return [cpu_table(source, values_of(line)) for line in idle_states.lines(host, hz)]


# ---- The emulator's machines ----

_EMULATED = TOP / "emul" / "machines.c"
_HEAD = re.compile(r'\.name = "(\w+)", \.poll_name = "(\w+)", \.busy_mw = (\d+),')
_STATE = re.compile(r'\{ "([\w.-]+)",\s*(\d+),\s*(\d+),\s*(\d+) \}')


@cache
def emulated_names() -> tuple[str, ...]:
    """Return the names of the machines that the emulator has."""
    return tuple(name for name, _, _ in _HEAD.findall(_EMULATED.read_text()))


def emulated(name: str, hz: int) -> StateTable:
    """Return one of the emulator's machines, read from its source.

    Args:
        name: "skx", for example.
        hz: scheduler ticks per second.

    Raises:
        UserError: there is no such machine, or no such tick.
    """
    if not 1 <= hz <= 10_000:
        raise UserError(f"a tick of {hz} Hz is out of range: 1 to 10000", USAGE)
    text = _EMULATED.read_text()
    for head in _HEAD.finditer(text):
        if head[1] != name:
            continue
        states = _STATE.findall(text[head.end() : text.index("\n\t}", head.end())])
        return StateTable(
            names=(head[2], *(state[0] for state in states)),
            exit_latency_ns=(0, *(int(state[1]) * 1000 for state in states)),
            target_residency_ns=(0, *(int(state[2]) * 1000 for state in states)),
            power_uw=tuple(1000 * int(mw) for mw in (head[3], *(state[3] for state in states))),
            polling=(True, *(False for _ in states)),
            tick_ns=_S // hz,
        )
    raise UserError(f"unknown machine '{name}'; `cpuidle-lab machines` lists them", USAGE)


# ---- Lists of machines ----


@dataclass(frozen=True)
class Known:
    """A machine of a list.

    Attributes:
        name: as `find` takes it.
        source: where the table is from.
        table: its idle states.
        cpus: the CPUs that have them: "0-3,7"; "" for all.
    """

    name: str
    source: str
    table: StateTable
    cpus: str = ""


def _of_states(states: Iterable[tuple[str, int, int]], hz: int) -> StateTable:
    text = ",".join(f"{plain(name)}:{exit_us}:{target_us}" for name, exit_us, target_us in states)
    return table_of(text, _S // hz)


def recorded(hz: int = HZ) -> Iterator[Known]:
    """Yield the machines of machines.tsv."""
    for line in RECORDED.read_text().splitlines():
        if line and not line.startswith("#"):
            name, states = line.split("\t")
            table = table_of(states.replace(" ", ","), _S // hz)
            yield Known(f"{PEPC}:{name}", "recorded, published with pepc", table)


def built_in(hz: int = HZ) -> Iterator[Known]:
    """Yield the emulator's machines."""
    for name in emulated_names():
        yield Known(name, "the emulator", emulated(name, hz))


def of_kernel(kind: str, version: str = NEWEST, hz: int = HZ) -> Iterator[Known]:
    """Yield the machines of a kernel's sources.

    Args:
        kind: INTEL_IDLE or DTS.
        version: of the kernel.
        hz: ticks per second.

    Raises:
        UserError: the sources cannot be had.
    """
    tables = kernel_tables.fetch(version)
    for name, states in tables.tables[kind].items():
        yield Known(f"{kind}:{name}", f"Linux {tables.package_version}", _of_states(states, hz))


def listed(kinds: list[str], version: str = NEWEST, hz: int = HZ) -> list[Known]:
    """Return all machines of some kinds: "emul", PEPC, INTEL_IDLE, DTS."""
    found: list[Known] = []
    for kind in kinds:
        if kind == "emul":
            found += built_in(hz)
        elif kind == PEPC:
            found += recorded(hz)
        else:
            found += of_kernel(kind, version, hz)
    return found
