# SPDX-License-Identifier: GPL-2.0
"""What the recording of an unmodified kernel must tell beside its events: docs/stock.md.

`cpuidle-lab capture --stock` writes lines into the trace, from which the reader learns the idle
states, the tick, the latency request and the kernel:

    stock machine cpus=0-3 tick_ns=4000000 latency_req_us=-1 disabled=0x0 states=POLL:0:0:0,C1:2:2:0
    stock kernel=6.12.107 governor=menu way=probes

At its end it writes the lines once more, as "stock end ..." in place of "stock machine ...".

A small reader of another format adds the line "stock unused=EVENT,EVENT".

A state is NAME:EXIT_LATENCY_US:TARGET_RESIDENCY_US:POWER_MW; one of the names in POLLING spins. The
lines "phase governor=NAME workload=NAME" tell later governors. A line that cannot be read is a
`UserError`: a wrong table makes every figure wrong.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.host.idle_states import plain
from cpuidle_lab.host.machine import parse_version
from cpuidle_lab.host.sysfs import cpu_list

if TYPE_CHECKING:
    from cpuidle_lab.recording.trace import Machine

# Begins the lines.
MARK = "stock "
MACHINE = f"{MARK}machine "
END = f"{MARK}end "
PHASE = "phase governor="

# Stands for an event of the kernel: a latency request changes.
REQUEST = f"{MARK}request"

# The marks that tell of a recording, and how many of them are believed.
OWN_LINES = f"^(?:{MARK}|{PHASE})"
LINES_MAX = 1 << 16

# Names of the states in which a CPU spins, as the kernel's drivers have them.
POLLING = ("POLL", "snooze")

PROBES, EVENTS, CPU_IDLE = "probes", "events", "cpu_idle"

# No latency request, as PM QoS has it.
NO_REQUEST = -1

# The greatest number of a CPU.
CPUS_MAX = 65535

# Timer migration is by a hierarchy of CPUs from this kernel on.
MIGRATES_SINCE = (6, 9)

_TIME_MAX = 2**63 - 1
_UNFIT = re.compile(r"[^\w.+-]")
_GOVERNORS_MAX = 60


@dataclass(frozen=True)
class Table:
    """The idle states of some CPUs.

    Attributes:
        first, last: numbers of the CPUs.
        machine: their idle states and tick.
        latency_req_us: latency request, NO_REQUEST without one.
        disabled: bit k is set if state k was disabled.
    """

    first: int
    last: int
    machine: "Machine"
    latency_req_us: int = NO_REQUEST
    disabled: int = 0

    def option(self) -> str:
        """Return the option of the reader."""
        machine = self.machine
        request = _TIME_MAX if self.latency_req_us < 0 else self.latency_req_us * 1000
        polling = sum(spins << k for k, spins in enumerate(machine.polling))
        states = ";".join(
            f"{plain(name)},{latency},{residency},{round(power / 1000)}"
            for name, latency, residency, power in zip(
                machine.names,
                machine.exit_latency_ns,
                machine.target_residency_ns,
                machine.power_uw,
                strict=True,
            )
        )
        return (
            f"--machine={self.first}-{self.last};{machine.tick_ns};{request};{self.disabled};"
            f"{polling};{states}"
        )


@dataclass
class Told:
    """What is known of a recording beside its events.

    Attributes:
        tables: idle states, as the recording tells; the last that has a CPU counts.
        given: idle states that the user gives, for CPUs that no two have; they precede `tables`.
        governors: names with the time from which they decided, ns.
        kernel: release, "" if unknown.
        way: PROBES, EVENTS or CPU_IDLE, as the recorder said; "" if it did not.
        unused: events that the recording has and its reader leaves out, "" if there are none.
        strict: the module recorded, too; leave out the answers that its decision event asked for.
        no_probes: leave out what probes told.
        changed: one sentence for each change of the limits of idle states while it was recorded.
    """

    tables: list[Table] = field(default_factory=list)
    given: Sequence[Table] = ()
    governors: list[tuple[int, str]] = field(default_factory=list)
    kernel: str = ""
    way: str = ""
    unused: str = ""
    strict: bool = False
    no_probes: bool = False
    changed: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        """Return the governors' names, by their numbers."""
        return list(dict.fromkeys(name for _, name in self.governors)) or ["unknown"]

    def known(self) -> list[Table]:
        """Return the tables that count; the last that has a CPU counts.

        Latency requests and disabled states stay those that the recording tells.
        """
        both = [
            replace(
                told,
                first=max(told.first, given.first),
                last=min(told.last, given.last),
                machine=given.machine,
            )
            for told in self.tables
            for given in self.given
            if told.first <= given.last and given.first <= told.last
        ]
        return [*self.tables, *self.given, *both]

    def machine(self, cpu: int) -> "Machine | None":
        """Return the idle states of a CPU; None: not known."""
        return next((t.machine for t in reversed(self.known()) if t.first <= cpu <= t.last), None)

    def options(self) -> list[str]:
        """Return the options of the reader; empty where no idle states are known."""
        tables = self.known()
        if not tables:
            return []
        names = self.names()
        changes = sorted(self.governors) or [(0, "unknown")]
        return [
            *(["--strict"] if self.strict else []),
            *(["--no-probes"] if self.no_probes else []),
            *(["--migrates"] if _migrates(self.kernel) else []),
            *(table.option() for table in tables),
            *(f"--governor={ts};{names.index(name)};{plain(name)}" for ts, name in changes),
            f"--kernel={_UNFIT.sub('_', self.kernel)[:80]}",
        ]


def _micro(text: str) -> int:
    """Return a power in uW that is given in mW.

    Raises:
        ValueError: it is no number, or finer than 1 uW.
    """
    match = re.fullmatch(r"(-?\d{1,20})(?:\.(\d{1,3}))?", text)
    if not match:
        raise ValueError(text)
    return int(match[1] + (match[2] or "").ljust(3, "0"))


def machine_of(states: str, tick_ns: int) -> "Machine":
    """Return the machine of NAME:EXIT_US:TARGET_US[:POWER_MW],...

    Raises:
        ValueError: the text has another form.
    """
    from cpuidle_lab.recording.trace import Machine

    parts = [state.split(":") for state in states.split(",")]
    if not all(3 <= len(part) <= 4 and part[0] for part in parts):
        raise ValueError(states)
    return Machine(
        names=tuple(plain(part[0]) for part in parts),
        exit_latency_ns=tuple(int(part[1]) * 1000 for part in parts),
        target_residency_ns=tuple(int(part[2]) * 1000 for part in parts),
        power_uw=tuple(_micro(part[3]) if len(part) > 3 else 0 for part in parts),
        polling=tuple(part[0] in POLLING for part in parts),
        tick_ns=tick_ns,
    )


def machine_line(machine: "Machine", cpus: str) -> str:
    """Return the line that tells the idle states of some CPUs.

    Args:
        machine: the states and the tick.
        cpus: their numbers, as in "0-3".
    """
    states = ",".join(
        f"{plain(name)}:{latency // 1000}:{residency // 1000}:{power // 1000}"
        for name, latency, residency, power in zip(
            machine.names,
            machine.exit_latency_ns,
            machine.target_residency_ns,
            machine.power_uw,
            strict=True,
        )
    )
    return f"{MACHINE}cpus={cpus} tick_ns={machine.tick_ns} states={states}"


def _migrates(kernel: str) -> bool:
    """Tell whether a kernel lets another CPU serve timers of the wheel that are not pinned."""
    try:
        return parse_version(kernel) >= MIGRATES_SINCE
    except ValueError:
        return False


def _table(path: Path, words: dict[str, str]) -> Table:
    from cpuidle_lab.recording.trace import check_machine

    try:
        first, _, last = words["cpus"].partition("-")
        table = Table(
            int(first),
            int(last or first),
            machine_of(words["states"], int(words["tick_ns"])),
            int(words.get("latency_req_us", "-1")),
            int(words.get("disabled", "0"), 0) & 0xFFFF,
        )
    except (KeyError, ValueError):
        raise UserError(
            f"{path}: has a line 'stock machine' that cannot be read; give the idle states with "
            "--machine"
        ) from None
    check_machine(path, table.machine)
    return table


def told_of(path: Path, marks: Iterable[tuple[int, str]]) -> Told | None:
    """Return what the marks of a trace tell; None of one without any.

    Args:
        path: the trace, for messages.
        marks: time (ns) and text, in any order.

    Raises:
        UserError: a line cannot be read.
    """
    told, found = Told(), False
    ends: list[Table] = []
    requests: list[int] = []
    in_order = sorted(marks)
    for ts, text in in_order:
        words = dict(word.partition("=")[::2] for word in text.split()[1:])
        if text.startswith(PHASE):
            told.governors.append((ts, words["governor"]))
        if text == REQUEST:
            requests.append(ts)
        if not text.startswith(MARK) or text == REQUEST:
            continue
        found = True
        if text.startswith(END):
            ends.append(_table(path, words))
        elif text.startswith(MACHINE):
            table = _table(path, words)
            if table not in told.tables:
                told.tables.append(table)
        else:
            told.kernel = words.get("kernel", told.kernel)
            told.way = words.get("way", told.way)
            told.unused = words.get("unused", told.unused)
            if words.get("governor"):
                told.governors.append((ts, words["governor"]))
    told.governors = _changes(told.governors)
    if len(told.governors) > _GOVERNORS_MAX:
        raise UserError(f"{path}: changes its governor more often than {_GOVERNORS_MAX} times")
    told.changed = _limits_changed(told.tables, ends)
    if requests:
        found = True
        since = (requests[0] - in_order[0][0]) / 1e9
        told.changed.append(
            f"latency requests were set {len(requests):,} times while it was recorded, first "
            f"{since:.3f} s after its beginning"
        )
    return told if found else None


def _limits_changed(begin: Sequence[Table], end: Sequence[Table]) -> list[str]:
    """Return one sentence for each difference of what a recorder found first and last."""
    before, after = (
        {
            cpu: (table.latency_req_us, table.disabled)
            for table in tables
            for cpu in range(table.first, table.last + 1)
        }
        for tables in (begin, end)
    )
    found: dict[str, list[int]] = {}
    for cpu in before.keys() & after.keys():
        (was_us, was_off), (is_us, is_off) = before[cpu], after[cpu]
        if was_us != is_us:
            words = ("none" if us == NO_REQUEST else f"{us} us" for us in (was_us, is_us))
            found.setdefault(f"the latency request changed: {' to '.join(words)}", []).append(cpu)
        if was_off != is_off:
            text = f"the disabled states changed: {was_off:#x} to {is_off:#x}"
            found.setdefault(text, []).append(cpu)
    return [f"{text}, on CPU {cpu_list(cpus)}" for text, cpus in sorted(found.items())]


def _changes(governors: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the first mark of each run of marks of the same governor."""
    return [each for n, each in enumerate(governors) if not n or governors[n - 1][1] != each[1]]


def stock_line(stock: Mapping[str, object]) -> str:
    """Return one sentence on a recording without the module.

    Args:
        stock: "way", and decisions by how their timer is known: "asked", "inferred", "untold";
            and "fateless", of which nothing tells whether the tick was kept.
    """
    asked, inferred, untold, fateless = (
        int(str(stock.get(name, 0))) for name in ("asked", "inferred", "untold", "fateless")
    )
    total = max(1, asked + inferred + untold)
    way = f", by {stock['way']}" if stock.get("way") else ""
    text = (
        f"recorded without the module{way}: the kernel told the next timer in "
        f"{100 * asked / total:.1f} % of {total:,} decisions, other events in "
        f"{100 * inferred / total:.1f} %, nothing in {100 * untold / total:.1f} %"
    )
    if fateless:
        text += f"; of {100 * fateless / total:.1f} % it is not known whether the tick was kept"
    return text


def left_out(told: Told, periods: Mapping[int, int]) -> dict[str, int]:
    """Return the CPUs whose idle states a recording without the module does not tell.

    Args:
        told: what is known of it; without any idle states no CPU is left out.
        periods: idle periods by CPU.

    Returns:
        The idle periods of each, by its number as text.
    """
    known = told.known()
    return {
        str(cpu): count
        for cpu, count in sorted(periods.items())
        if known and not any(table.first <= cpu <= table.last for table in known)
    }


def table_notes(told: Told, cpus: Sequence[int]) -> list[str]:
    """Return a sentence for each table that the user gives to CPUs that may differ.

    Args:
        told: what is known of a recording.
        cpus: those that it has.
    """
    own = replace(told, given=())
    said = []
    for table in told.given:
        mine = [cpu for cpu in cpus if table.first <= cpu <= table.last]
        kinds = len({own.machine(cpu) for cpu in mine})
        unsure = not told.tables and (table.first, table.last) == (0, CPUS_MAX)
        if kinds > 1 or (unsure and len(mine) > 1):
            but = f", although the recording tells {kinds} different ones" if kinds > 1 else ""
            said.append(
                f"one table of idle states serves CPU {cpu_list(mine)}{but}; --machine "
                "RANGE=MACHINE,... gives each kind of CPU its own"
            )
    return said


def omissions(stock: Mapping[str, object]) -> list[str]:
    """Return one sentence for each part of a recording that no figure counts, or only doubtfully.

    Args:
        stock: "left_out" as left_out() has it, "unused" and "changed" as in Told, "notes" as
            table_notes() has them.
    """
    said = []
    for name in ("changed", "notes"):
        lines = stock.get(name)
        said += [str(line) for line in lines] if isinstance(lines, list) else []
    gone = stock.get("left_out")
    if isinstance(gone, Mapping) and gone:
        said.append(
            f"no line '{MACHINE.strip()}' tells the idle states of CPU "
            f"{cpu_list([int(cpu) for cpu in gone])}: {sum(gone.values()):,} idle periods are left "
            "out; --machine gives idle states to all CPUs of a trace"
        )
    if stock.get("unused"):
        said.append(f"the recording has events that are not used: {stock['unused']}")
    return said
