# SPDX-License-Identifier: GPL-2.0
"""State tables by the name of a machine, from all that tells them: docs/machines.md.

A machine is named by one of

    skx                   of the emulator (emul/machines.c)
    this                  the running machine, from sysfs
    FILE.yaml             written by hand
    TRACE                 those of a recording
    DUMP                  those of a dump of sysfs (cpuidle-lab dump, grep, cpupower)
    pepc:genoa0           of a machine that was recorded elsewhere (states/machines.tsv)
    intel_idle:skx        of the kernel's driver; intel_idle:skx@6.12 of another kernel's
    dts:mt8183-1          of the kernel's device trees, likewise
    0-3=A.yaml,4-7=skx    of each range of CPUs, by any of these names
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.suggestions import did_you_mean
from cpuidle_lab.host import idle_states
from cpuidle_lab.host.machine import Host as Host
from cpuidle_lab.recording import columns, reader
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.formats import is_recording
from cpuidle_lab.states import machine_files
from cpuidle_lab.states.linux_source import NEWEST
from cpuidle_lab.states.machines import (
    DTS,
    HZ,
    INTEL_IDLE,
    PEPC,
    Known,
    emulated,
    emulated_names,
    of_kernel,
    recorded,
    tables_of,
)
from cpuidle_lab.states.table import CPUS_MAX, CpuTable, StateTable, check_table


def _among(known: Iterator[Known], spec: str) -> StateTable:
    names = []
    for each in known:
        if each.name == spec:
            return each.table
        names.append(each.name)
    raise UserError(f"unknown machine '{spec}'{did_you_mean(spec, names)}", USAGE)


def _of_recording(path: Path) -> list[CpuTable]:

    if path.is_dir():
        state_tables = columns.Recording(path).state_tables
    else:
        told = tr.context_in(path)
        if told and told.tables:
            return told.tables
        state_tables = {}
        for piece in reader.read_chunks(path, ("config",)):
            if isinstance(piece, reader.Chunk):
                state_tables = tr.state_tables_of(path, piece.frame, state_tables)
    if not state_tables:
        raise UserError(f"{path}: tells no idle states")
    return [CpuTable(cpu, cpu, table) for cpu, table in sorted(state_tables.items())]


def _one(spec: str, hz: int) -> list[CpuTable]:
    """Return the tables of a name without ranges."""
    kind, colon, name = spec.partition(":")
    if spec == "this":
        host = Host()
        found = tables_of(host, hz)
        if assumed := idle_states.assumption(host, hz):
            print(f"cpuidle-lab: {assumed}", file=sys.stderr)
        return found
    if colon and kind == PEPC:
        return _everywhere(_among(recorded(hz), spec))
    if colon and kind in (INTEL_IDLE, DTS):
        name, _, version = name.partition("@")
        table = _among(of_kernel(kind, version or NEWEST, hz), f"{kind}:{name}")
        check_table(spec, table)
        return _everywhere(table)
    if _is_file(spec):
        from cpuidle_lab.states import domain_files, machine_files

        found = machine_files.read(Path(spec), hz)
        domain_files.check(Path(spec), hz)
        return found
    path = Path(spec)
    if path.exists() and spec not in emulated_names():
        return _of_file(path, hz)
    if "/" in spec:
        try:
            path.stat()
        except OSError as error:
            raise UserError(f"{spec}: {error.strerror}") from None
    return _everywhere(emulated(spec, hz))


def _of_file(path: Path, hz: int) -> list[CpuTable]:
    """Return the tables of a dump or a recording."""
    # Not at the top: few recordings are given such tables.
    from cpuidle_lab.recording.dumps import reading
    from cpuidle_lab.recording.dumps import tables as dump_tables

    if reading.is_dump(path):
        return dump_tables.read(path, hz)
    if path.is_file() and not is_recording(path):
        raise UserError(
            f"{path}: is no machine: neither a machine file, whose name ends in .yaml, nor a "
            "recording, nor a dump of idle states"
        )
    return _of_recording(path)


def _is_file(spec: str) -> bool:
    return Path(spec).suffix in (".yaml", ".yml")


def _everywhere(table: StateTable) -> list[CpuTable]:
    return [CpuTable(0, CPUS_MAX, table)]


def _apart(tables: Sequence[CpuTable]) -> list[CpuTable]:
    """Return tables that share no CPU, by CPU, of some of which the last that has a CPU counts."""
    cuts = sorted({table.first for table in tables} | {table.last + 1 for table in tables})
    found: list[CpuTable] = []
    for first, end in pairwise(cuts):
        mine = [each.table for each in tables if each.first <= first <= each.last]
        if not mine:
            continue
        if found and (found[-1].last + 1, found[-1].table) == (first, mine[-1]):
            first = found.pop().first
        found.append(CpuTable(first, end - 1, mine[-1]))
    return found


def _assignments(spec: str) -> list[tuple[str, str]]:
    """Return range and name of each RANGE=MACHINE; none of a name without ranges.

    A range may have commas, too: 0-3,8=MACHINE.
    """
    found: list[tuple[str, str]] = []
    ranges: list[str] = []
    for part in spec.split(",") if re.match(r"\d[\d,-]*=", spec) else []:
        left, equal, name = part.partition("=")
        ranges.append(left)
        if equal:
            found.append((",".join(ranges), name))
            ranges = []
    return [*found, *([(",".join(ranges), "")] if ranges else [])]


def _assigned(ranges: str, name: str, hz: int) -> Iterator[CpuTable]:
    """Yield the tables of a machine for a range; those that differ by CPU for their CPUs alone."""
    if not name:
        raise ValueError(f"'{ranges}' has no machine")
    known = _apart(_one(name, hz))
    for first, last in machine_files.cpu_runs(ranges):
        if len({each.table for each in known}) == 1:
            yield CpuTable(first, last, known[0].table)
            continue
        mine = [
            replace(table, first=max(first, table.first), last=min(last, table.last))
            for table in known
            if table.first <= last and first <= table.last
        ]
        if sum(table.last + 1 - table.first for table in mine) != last + 1 - first:
            raise ValueError(f"{name} does not tell the idle states of all of CPU {first}-{last}")
        yield from mine


def told(spec: str, hz: int = HZ) -> list[CpuTable]:
    """Return the idle states that a name gives, of the CPUs that its source names.

    Args:
        spec: a name, see above, or RANGE=MACHINE,... (0-3=little.yaml,4-5=big.yaml).
        hz: scheduler ticks per second, where the source tells none.

    Raises:
        UserError: there is none of this name, it cannot be read, or a range is wrong.
    """
    if not 1 <= hz <= 10_000:
        raise UserError(f"a tick of {hz} Hz is out of range: 1 to 10000", USAGE)
    pairs = _assignments(spec)
    if not pairs:
        return _apart(_one(spec, hz))
    try:
        found = [table for pair in pairs for table in _assigned(*pair, hz)]
        machine_files.check_apart(found)
    except ValueError as error:
        raise UserError(f"{spec}: {error}", USAGE) from None
    return _apart(found)


def given(spec: str, hz: int = HZ) -> list[CpuTable]:
    """Return the idle states for a recording, by range of CPUs.

    Ranges that the user writes count. A machine or a recording with one table gives it to all CPUs.

    Args:
        spec: as for told().
        hz: likewise.

    Raises:
        UserError: likewise.
    """
    found = told(spec, hz)
    if _assignments(spec) or _is_file(spec) or len({each.table for each in found}) > 1:
        return found
    return _everywhere(found[0].table)


def by_table(tables: Iterable[CpuTable]) -> dict[StateTable, str]:
    """Return each state table with its CPUs: "0-3,7"; "" for all."""
    runs: dict[StateTable, list[CpuTable]] = {}
    for each in tables:
        runs.setdefault(each.table, []).append(each)
    return {table: cpus_of(mine) for table, mine in runs.items()}


def cpus_of(tables: Iterable[CpuTable]) -> str:
    """Return the CPUs of tables: "0-3,7"; "" for all."""
    found = [(table.first, table.last) for table in tables]
    if found == [(0, CPUS_MAX)]:
        return ""
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


def find(spec: str, hz: int = HZ) -> StateTable:
    """Return the one machine of a name.

    Args:
        spec: as for told().
        hz: likewise.

    Raises:
        UserError: likewise, or its CPUs have different idle states.
    """
    found = by_table(told(spec, hz))
    if len(found) > 1:
        hint = "" if _assignments(spec) else f"; choose one by a CPU, as in 0={spec}"
        cpus = "; ".join(f"CPU {cpus}" for cpus in found.values())
        raise UserError(
            f"{spec}: has {len(found)} tables of idle states ({cpus}) where one serves{hint}", USAGE
        )
    return next(iter(found))
