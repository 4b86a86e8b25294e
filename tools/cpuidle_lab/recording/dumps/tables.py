# SPDX-License-Identifier: GPL-2.0
"""The state tables of a dump's CPUs: its files are read as those of the running machine."""

import struct
import sys
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.host import idle_states
from cpuidle_lab.host.machine import Host
from cpuidle_lab.host.sysfs import Tree
from cpuidle_lab.recording.dumps import reading
from cpuidle_lab.recording.dumps.model import CPUS, EXIT, TARGET, Moment, number, place_of
from cpuidle_lab.states.machines import tables_of
from cpuidle_lab.states.table import CpuTable


class MomentTree(Tree):
    """The files of a moment, as those of a machine.

    Args:
        moment: has them.
    """

    def __init__(self, moment: Moment) -> None:
        super().__init__("/nonexistent")
        self._files = moment.files
        self._cpus = {cpu.number: cpu for cpu in moment.cpus}

    def read_bytes(self, name: str) -> bytes | None:
        """Return the contents of a file; None if the dump lacks it."""
        text = self._files.get(name)
        if place := place_of(name):
            text = self._of_cpu(*place)
        if name.startswith("/dev/"):
            return struct.pack("=I", value) if (value := number(text)) is not None else None
        return None if text is None else text.encode()

    def _of_cpu(self, number_: int, state: int | None, path: str) -> str | None:
        cpu = self._cpus.get(number_)
        if cpu is None:
            return None
        if state is None:
            return cpu.files.get(path)
        return cpu.states[state].files.get(path) if state < len(cpu.states) else None

    def names(self, directory: str) -> list[str]:
        """Return the names of the CPUs; no other directory is listed."""
        return [f"cpu{each}" for each in self._cpus] if directory == CPUS else []


def _moment(path: Path) -> Moment:
    dump = reading.read(path)
    if not dump.moments:
        raise UserError(f"{path}: {dump.form} tells no latencies of idle states: take a dump")
    moment = dump.moments[0]
    for cpu in moment.cpus:
        for state in cpu.states:
            missing = [key for key in (EXIT, TARGET) if state.value(key) is None]
            if missing:
                what = {EXIT: "exit latency", TARGET: "target residency"}[missing[0]]
                raise UserError(
                    f"{path}: tells no {what} of {state.name or 'an idle state'}; add it below "
                    "the state, as in 'Residency: 20', or take a dump of sysfs"
                )
    if not moment.numbered and len({cpu.table for cpu in moment.cpus}) > 1:
        raise UserError(f"{path}: has several tables of idle states and no CPU numbers")
    return moment


def read(path: Path, hz: int) -> list[CpuTable]:
    """Return the state tables of a dump's CPUs, as they were at its first moment.

    What is missing or assumed is said on standard error.

    Args:
        path: the dump.
        hz: ticks per second where it tells none.

    Raises:
        UserError: it is no dump, a latency or a residency is missing, or a table is impossible.
    """
    moment = _moment(path)
    host = Host(MomentTree(moment))
    notes = [*moment.notes, idle_states.assumption(host, hz)]
    for note in filter(None, notes):
        print(f"cpuidle-lab: {path}: {note}", file=sys.stderr)
    return tables_of(host, hz, path)
