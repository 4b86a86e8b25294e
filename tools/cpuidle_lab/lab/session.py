# SPDX-License-Identifier: GPL-2.0
"""Puts together the script of a traced session: machine, governors, tunables, workloads."""

import hashlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.settings import Setting
from cpuidle_lab.host import probes
from cpuidle_lab.host.machine import project_governors
from cpuidle_lab.host.marks import PROBES
from cpuidle_lab.host.unfinished import CLOCK
from cpuidle_lab.states.table import machine_line

if TYPE_CHECKING:
    from cpuidle_lab.states.table import StateTable

# State tables of cpuidle_emul.
MACHINES = ("skx", "icx", "spr", "gnr", "skl", "power9")
GOVERNORS = (*project_governors(TOP), "gate", "menu", "ladder")
# In front of a governor's name: the same as a program in BPF.
AS_BPF = "bpf:"

TRACE = "trace.dat"
STOCK = "stock.dat"
TRACE_MIB = 64
OUR_EVENTS = "cpuidle_lab"


# As the emulator's source has them (emul/machines.h): of a state, and how many there may be.
EXIT_MOST_US, TARGET_MOST_US, STATES_MOST = 100_000, 10_000_000, 10
NAME = re.compile(r"[A-Za-z0-9_.-]{1,15}")

_GROUP = "cil_p1"

# An entry of a table of tunables, which alone stands so far to the right; files beside the table's.
_TUNABLE = re.compile(r'^\t\t\.name = "(\w+)"', re.MULTILINE)
_FURTHER = {"gate": ("base", "latency_map")}


def _fault(machine: "StateTable", k: int) -> str:
    """Return why the emulator refuses a state, "" if it does not."""
    exits, targets = machine.exit_latency_ns, machine.target_residency_ns
    exit_us, target_us, name = exits[k] // 1000, targets[k] // 1000, machine.names[k]
    faults = (
        (machine.polling[k], "it polls, and is not the shallowest"),
        (not NAME.fullmatch(name), "its name is not 1 to 15 letters, digits, '_', '.' or '-'"),
        (name in machine.names[:k], "another state has its name"),  # find() shortens names
        (not 1 <= exit_us <= EXIT_MOST_US, f"its exit latency is not 1 to {EXIT_MOST_US} us"),
        (not exit_us <= target_us <= TARGET_MOST_US,
         f"its target residency is below its exit latency, or above {TARGET_MOST_US} us"),
        (k and (exits[k] < exits[k - 1] or targets[k] < targets[k - 1]),
         "its times are below those of the state before it"),
    )  # fmt: skip
    return next((text for is_so, text in faults if is_so), "")


def emulated(spec: str) -> str:
    """Return the emulator's parameters for a machine by any name that state_tables.find() takes.

    Raises:
        UserError: there is no such machine, or it cannot be emulated.
    """
    from cpuidle_lab.recording import state_tables

    if spec in MACHINES:
        return f"machine={spec}"

    return parameters(state_tables.find(spec), spec)


def parameters(machine: "StateTable", spec: str) -> str:
    """Return the emulator's parameters for a machine.

    Args:
        machine: its idle states.
        spec: its name, for messages.

    Raises:
        UserError: it cannot be emulated.
    """
    polls = machine.polling[0]
    if any(uw % 1000 for uw in machine.power_uw):
        raise UserError(
            f"{spec} cannot be emulated: the emulator counts whole mW; round the powers", USAGE
        )
    if machine.count > STATES_MOST:
        raise UserError(f"{spec} cannot be emulated: it has more than {STATES_MOST} states", USAGE)
    told = []
    for k in range(int(polls), machine.count):
        if fault := _fault(machine, k):
            raise UserError(f"{spec} cannot be emulated: {machine.names[k]}: {fault}", USAGE)
        power = f":{machine.power_uw[k] // 1000}" if machine.power_uw[k] else ""
        told.append(
            f"{machine.names[k]}:{machine.exit_latency_ns[k] // 1000}:"
            f"{machine.target_residency_ns[k] // 1000}{power}"
        )
    busy = f" busy_mw={machine.power_uw[0] // 1000}" if polls and machine.power_uw[0] else ""
    return f"states={','.join(told) or 'none'}" + (busy if polls else " poll=none")


def tunables(governor: str) -> list[str]:
    """Return the names of a governor's tunables, by the sources of the tree; menu has none."""
    sources = sorted((TOP / "governors" / governor).glob("*.c"))
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    return [*_TUNABLE.findall(text), *_FURTHER.get(governor, ())]


@dataclass(frozen=True)
class PhasePlan:
    """A phase to be recorded: a workload under a governor, between two markers of the trace.

    Attributes:
        governor: as in current_governor.
        workload: name of the phase in the trace and of its output's file.
        command: shell command.
        tunables: set before the governor takes over.
        setup: shell command that makes ready what the workload needs, before the trace begins;
            /lab/servers has functions for that (see workloads.files).
        request_us: latency request that holds meanwhile; None: none.
        disabled: CPU and state of what is disabled meanwhile.
    """

    governor: str
    workload: str
    command: str
    tunables: Sequence[Setting] = ()
    setup: str = ""
    request_us: int | None = None
    disabled: tuple[tuple[int, int], ...] = ()

    def lines(self) -> list[str]:
        """Return the lines of the guest's script."""
        name, _, program = self.governor.partition(":")
        return [
            *([f"bpf_attach {program}"] if program else []),
            *(
                f"tune {each.governor} {each.name} {shlex.quote(each.value)}"
                for each in self.tunables
            ),
            *self.begins(name),
            *self._limited(self.calls()),
        ]

    def begins(self, governor: str) -> list[str]:
        """Return the lines that let a governor begin: what another phase taught does not count."""
        return [f"afresh {governor}"]

    def _limited(self, calls: list[str]) -> list[str]:
        if self.request_us is not None:
            calls = [f"request {self.request_us}", *calls, "request_end"]
        off, on = (
            [f"{word} {cpu} {state}" for cpu, state in self.disabled]
            for word in ("disable", "enable")
        )
        return [*off, *calls, *on]

    def calls(self) -> list[str]:
        """Return the lines that run the workload between the markers."""
        return [f"phase {shlex.quote(self.workload)} sh -c {shlex.quote(self.command)}"]


def _probe(line: str) -> str:
    return f"echo {shlex.quote(line)} >>$tracing/kprobe_events"


def stock_start(
    machine: str, trace_mib: int, events: Sequence[tuple[str, str]] = probes.KERNEL_EVENTS
) -> list[str]:
    """Return the lines of the guest's script that begin to record by probes.

    Args:
        machine: as emulated() takes it.
        trace_mib: room for the trace.
        events: to record beside the probes, with their filters, where the kernel has them.
    """
    from cpuidle_lab.recording import state_tables

    (new, *_), (old, *others) = (probes.lines(_GROUP, delta) for delta in (True, False))
    words = [
        f"$([ ! -e $tracing/events/{event.replace(':', '/')} ] || printf %s '-e {event}')"
        + (f" -f {shlex.quote(only)}" if only else "")
        for event, only in events
    ]
    table = machine_line(state_tables.find(machine), "0-63")
    return [
        # Kernels before 6.9 refuse the second field.
        f"{{ {_probe(new)}; }} 2>/dev/null || {_probe(old)} || fail 'no probe'",
        *(f"{_probe(line)} || fail 'no probe'" for line in others),
        f"trace-cmd start -C {CLOCK} -b $(({trace_mib} * 1024 / $(nproc))) -e {_GROUP} "
        f"{' '.join(words)} >/dev/null || fail 'tracing did not start'",
        f"mark {shlex.quote(table)}",
        f'mark "stock kernel=$(uname -r) way={PROBES}"',
    ]


@dataclass(frozen=True)
class Session:
    """All phases of one boot, in one trace.

    Attributes:
        machine: as emulated() takes it.
        phases: in their order.
        events: event systems or events to record; none: no trace.
        trace_mib: room for them.
        stock: phases of the kernel's governors that come last, in a trace STOCK of their own, by
            probes as `capture --stock` records.
        modules: to load beside the project's.
        domains: the emulator's parameter for them, see trees.emulated_domains(); "": none.
    """

    machine: str
    phases: Sequence[PhasePlan]
    events: Sequence[str] = field(default=(OUR_EVENTS,))
    trace_mib: int = TRACE_MIB
    stock: Sequence[PhasePlan] = ()
    modules: Sequence[str] = ()
    domains: str = ""

    def script(self) -> str:
        """Return the guest's script.

        Raises:
            UserError: the machine is unknown.
        """
        lines = [
            ". /lab/functions",
            f"load cpuidle_emul {emulated(self.machine)} {self.domains}".rstrip(),
            "load cpuidle_lab",
            *(f"load {module}" for module in self.modules),
            *self._setup(),
            # The seed moves the session against the tick and the timers of the boot.
            "usleep $((LAB_SEED * 7919 % 4000 + 1000))",
        ]
        if self.events:
            lines.append(f"trace_start {self.trace_mib} {shlex.join(self.events)}")
            lines += self._tell_domains()
        lines += [line for phase in self.phases for line in phase.lines()]
        if self.events:
            lines.append(f"trace_stop {TRACE}")
        if self.stock:
            lines += stock_start(self.machine, self.trace_mib)
            lines += self._tell_domains()
            lines += [line for phase in self.stock for line in phase.lines()]
            lines.append(f"trace_stop {STOCK}")
        return "\n".join(lines)

    def _tell_domains(self) -> list[str]:
        """Return the lines that write the domains into the trace, on the CPU that is read first."""
        if not self.domains:
            return []
        line = self.domains.replace("=", " ", 1)
        return [
            "taskset -cp 0 $$ >/dev/null",
            f"mark {shlex.quote(line)}",
            "taskset -cp 0-1023 $$ >/dev/null",
        ]

    def _setup(self) -> list[str]:
        phases = (*self.stock, *self.phases)
        commands = list(dict.fromkeys(phase.setup for phase in phases if phase.setup))
        return [". /lab/servers", *commands] if commands else []


def sha256(path: Path) -> str:
    """Return the hash of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
