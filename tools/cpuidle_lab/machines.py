# SPDX-License-Identifier: GPL-2.0
"""Machines as tables of idle states, from wherever one can have them: docs/stock.md.

A machine is named by one of

    skx                   of the emulator (emul/machines.c)
    this                  the running machine, from sysfs
    FILE.yaml             written by hand
    TRACE                 that of a recording, its first CPU
    pepc:genoa0           of a machine that was recorded elsewhere (machines.tsv)
    intel_idle:skx        of the kernel's driver; intel_idle:skx@6.12 of another kernel's
    dts:mt8183-1          of the kernel's device trees, likewise
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab import idle_tables
from cpuidle_lab.errors import USAGE, UserError
from cpuidle_lab.host import Machine as Host
from cpuidle_lab.idle_tables import plain
from cpuidle_lab.linux_source import NEWEST
from cpuidle_lab.stock import POLLING, Table, machine_of, told_of
from cpuidle_lab.trace import Machine, check_machine

HZ = 250
_S = 1_000_000_000

RECORDED = Path(__file__).parent / "machines.tsv"
PEPC, INTEL_IDLE, DTS = "pepc", "intel_idle", "dts"


# ---- The running machine ----


def tables_of(host: Host, hz: int = HZ) -> list[Table]:
    """Return the idle states of all CPUs of a machine; neighbours with the same share a table.

    Args:
        host: the machine.
        hz: ticks per second, where it does not tell them.

    Raises:
        UserError: no CPU has idle states.
    """
    told = told_of(Path("this machine"), [(0, line) for line in idle_tables.lines(host, hz)])
    assert told is not None
    return told.tables


# ---- Machines by name ----


@dataclass(frozen=True)
class Known:
    """A machine of a list.

    Attributes:
        name: as `find` takes it.
        source: where the table is from.
        machine: its idle states.
    """

    name: str
    source: str
    machine: Machine


def _of_states(states: Iterable[tuple[str, int, int]], hz: int) -> Machine:
    text = ",".join(f"{plain(name)}:{exit_us}:{target_us}" for name, exit_us, target_us in states)
    return machine_of(text, _S // hz)


def recorded(hz: int = HZ) -> Iterator[Known]:
    """Yield the machines of machines.tsv."""
    for line in RECORDED.read_text().splitlines():
        if line and not line.startswith("#"):
            name, states = line.split("\t")
            machine = machine_of(states.replace(" ", ","), _S // hz)
            yield Known(f"{PEPC}:{name}", "recorded, published with pepc", machine)


def built_in(hz: int = HZ) -> Iterator[Known]:
    """Yield the emulator's machines."""
    from cpuidle_lab import synth

    for name in synth.machine_names():
        yield Known(name, "the emulator", synth.built_in(name, hz))


def of_kernel(kind: str, version: str = NEWEST, hz: int = HZ) -> Iterator[Known]:
    """Yield the machines of a kernel's sources.

    Args:
        kind: INTEL_IDLE or DTS.
        version: of the kernel.
        hz: ticks per second.

    Raises:
        UserError: the sources cannot be had.
    """
    from cpuidle_lab import kernel_tables

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


def _among(known: Iterator[Known], spec: str) -> Machine:
    names = []
    for each in known:
        if each.name == spec:
            return each.machine
        names.append(each.name)
    from cpuidle_lab.cli import did_you_mean

    raise UserError(f"unknown machine '{spec}'{did_you_mean(spec, names)}", USAGE)


def _of_yaml(path: Path, hz: int) -> Machine:
    """Read a machine that the user wrote: docs/stock.md."""
    import yaml

    try:
        text = yaml.safe_load(path.read_text())
        states = text["states"]
        names = [plain(str(state["name"])) for state in states]
        machine = Machine(
            names=tuple(names),
            exit_latency_ns=tuple(round(1000 * state["exit_latency_us"]) for state in states),
            target_residency_ns=tuple(
                round(1000 * state["target_residency_us"]) for state in states
            ),
            power_uw=tuple(1000 * int(state.get("power_mw", 0)) for state in states),
            polling=tuple(
                bool(state.get("polling", name in POLLING))
                for name, state in zip(names, states, strict=True)
            ),
            tick_ns=_S // int(text.get("hz", hz)),
        )
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, KeyError, ValueError,
            AttributeError, OverflowError, ZeroDivisionError, RecursionError):  # fmt: skip
        raise UserError(
            f"{path}: is no machine: it must have 'states', each with name, exit_latency_us and "
            "target_residency_us"
        ) from None
    check_machine(path, machine)
    return machine


def _of_recording(path: Path) -> Machine:
    from cpuidle_lab import columns, trace_stream
    from cpuidle_lab import trace as tr

    if path.is_dir():
        machines = columns.Recording(path).machines
    else:
        told = tr.told_by(path)
        if told and told.tables:
            return told.tables[0].machine
        machines = {}
        for piece in trace_stream.read_chunks(path, ("config",)):
            if isinstance(piece, trace_stream.Chunk):
                machines = tr.machines_of(path, piece.frame, machines)
    if not machines:
        raise UserError(f"{path}: tells no idle states")
    return machines[min(machines)]


def find(spec: str, hz: int = HZ) -> Machine:
    """Return a machine by its name.

    Args:
        spec: see above.
        hz: scheduler ticks per second, where the source tells none.

    Raises:
        UserError: there is none of this name, or it cannot be read.
    """
    from cpuidle_lab import synth

    if not 1 <= hz <= 10_000:
        raise UserError(f"a tick of {hz} Hz is out of range: 1 to 10000", USAGE)
    kind, colon, name = spec.partition(":")
    if spec == "this":
        host = Host()
        tables = tables_of(host, hz)
        if assumed := idle_tables.assumption(host, hz):
            print(f"cpuidle-lab: {assumed}", file=sys.stderr)
        return tables[0].machine
    if colon and kind == PEPC:
        return _among(recorded(hz), spec)
    if colon and kind in (INTEL_IDLE, DTS):
        name, _, version = name.partition("@")
        found = _among(of_kernel(kind, version or NEWEST, hz), f"{kind}:{name}")
        check_machine(Path(spec), found)
        return found
    path = Path(spec)
    if path.suffix in (".yaml", ".yml"):
        return _of_yaml(path, hz)
    if path.exists() and spec not in synth.machine_names():
        return _of_recording(path)
    return synth.built_in(spec, hz)
