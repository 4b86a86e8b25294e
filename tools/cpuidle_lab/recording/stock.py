# SPDX-License-Identifier: GPL-2.0
"""Facts that the recording of an unmodified kernel tells beside its events: docs/stock.md.

host/marks.py has the lines from which the reader learns the idle states, the tick, the latency
request and the kernel. One that cannot be read is a `UserError`: a wrong table makes every figure
wrong.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.host.machine import parse_version
from cpuidle_lab.host.marks import END, MACHINE, MARK, NO_REQUEST, PHASE, REQUEST, plain
from cpuidle_lab.host.sysfs import cpu_list
from cpuidle_lab.states.table import CPUS_MAX, CpuTable, StateTable, cpu_table, values_of

# Timer migration is by a hierarchy of CPUs from this kernel on.
MIGRATES_SINCE = (6, 9)

_TIME_MAX = 2**63 - 1
_UNFIT = re.compile(r"[^\w.+-]")
_GOVERNORS_MAX = 60


def _option(cpus: CpuTable) -> str:
    """Return the option of the reader that gives it a table."""
    table = cpus.table
    request = _TIME_MAX if cpus.latency_req_us < 0 else cpus.latency_req_us * 1000
    polling = sum(spins << k for k, spins in enumerate(table.polling))
    states = ";".join(
        f"{plain(name)},{latency},{residency},{round(power / 1000)}"
        for name, latency, residency, power in zip(
            table.names,
            table.exit_latency_ns,
            table.target_residency_ns,
            table.power_uw,
            strict=True,
        )
    )
    return (
        f"--machine={cpus.first}-{cpus.last};{table.tick_ns};{request};{cpus.disabled};"
        f"{polling};{states}"
    )


@dataclass
class Context:
    """Facts that are known of a recording beside its events.

    Attributes:
        tables: idle states, as the recording tells; the last that has a CPU counts.
        given: idle states that the user gives, for CPUs that no two have; they precede `tables`.
        governors: names with the time from which they decided, ns.
        kernel: release, "" if unknown.
        way: PROBES, EVENTS or CPU_IDLE, as the recorder said; "" if it did not.
        unused: events that the recording has and its reader leaves out, "" if there are none.
        strict: the module recorded, too; leave out the answers that its decision event asked for.
        no_probes: leave out what probes told.
        by_interrupts: read the recording by the causes of wake-ups, whatever else it has.
        hrtimers: use the events of hrtimers then.
        changed: one sentence for each change of the limits of idle states while it was recorded.
    """

    tables: list[CpuTable] = field(default_factory=list)
    given: Sequence[CpuTable] = ()
    governors: list[tuple[int, str]] = field(default_factory=list)
    kernel: str = ""
    way: str = ""
    unused: str = ""
    strict: bool = False
    no_probes: bool = False
    by_interrupts: bool = False
    hrtimers: bool = True
    changed: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        """Return the governors' names, by their numbers."""
        return list(dict.fromkeys(name for _, name in self.governors)) or ["unknown"]

    def known(self) -> list[CpuTable]:
        """Return the tables that count; the last that has a CPU counts.

        Latency requests and disabled states stay those that the recording tells.
        """
        both = [
            replace(
                own,
                first=max(own.first, given.first),
                last=min(own.last, given.last),
                table=given.table,
            )
            for own in self.tables
            for given in self.given
            if own.first <= given.last and given.first <= own.last
        ]
        return [*self.tables, *self.given, *both]

    def table(self, cpu: int) -> "StateTable | None":
        """Return the idle states of a CPU; None: not known."""
        return next((t.table for t in reversed(self.known()) if t.first <= cpu <= t.last), None)

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
            *(_option(table) for table in tables),
            *(f"--governor={ts};{names.index(name)};{plain(name)}" for ts, name in changes),
            f"--kernel={_UNFIT.sub('_', self.kernel)[:80]}",
        ]


def _migrates(kernel: str) -> bool:
    """Tell whether a kernel lets another CPU serve timers of the wheel that are not pinned."""
    try:
        return parse_version(kernel) >= MIGRATES_SINCE
    except ValueError:
        return False


def context_of(path: Path, marks: Iterable[tuple[int, str]]) -> Context | None:
    """Return what the marks of a trace tell; None of one without any.

    Args:
        path: the trace, for messages.
        marks: time (ns) and text, in any order.

    Raises:
        UserError: a line cannot be read.
    """
    context, found = Context(), False
    ends: list[CpuTable] = []
    requests: list[int] = []
    in_order = sorted(marks)
    for ts, text in in_order:
        words = values_of(text)
        if text.startswith(PHASE):
            context.governors.append((ts, words["governor"]))
        if text == REQUEST:
            requests.append(ts)
        if not text.startswith(MARK) or text == REQUEST:
            continue
        found = True
        if text.startswith(END):
            ends.append(cpu_table(path, words))
        elif text.startswith(MACHINE):
            table = cpu_table(path, words)
            if table not in context.tables:
                context.tables.append(table)
        else:
            context.kernel = words.get("kernel", context.kernel)
            context.way = words.get("way", context.way)
            context.unused = words.get("unused", context.unused)
            if words.get("governor"):
                context.governors.append((ts, words["governor"]))
    context.governors = _changes(context.governors)
    if len(context.governors) > _GOVERNORS_MAX:
        raise UserError(f"{path}: changes its governor more often than {_GOVERNORS_MAX} times")
    context.changed = _limits_changed(context.tables, ends)
    if requests:
        found = True
        context.changed.append(
            f"latency requests were set or ended {len(requests):,} times while it was recorded, "
            f"first at {requests[0] / 1e9:.3f} s of its clock"
        )
    return context if found else None


def _limits_changed(begin: Sequence[CpuTable], end: Sequence[CpuTable]) -> list[str]:
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


def left_out(context: Context, periods: Mapping[int, int]) -> dict[str, int]:
    """Return the CPUs whose idle states a recording without the module does not tell.

    Args:
        context: what is known of it; without any idle states no CPU is left out.
        periods: idle periods by CPU.

    Returns:
        The idle periods of each, by its number as text.
    """
    known = context.known()
    return {
        str(cpu): count
        for cpu, count in sorted(periods.items())
        if known and not any(table.first <= cpu <= table.last for table in known)
    }


def table_notes(context: Context, cpus: Sequence[int]) -> list[str]:
    """Return a sentence for each table that the user gives to CPUs that may differ.

    Args:
        context: what is known of a recording.
        cpus: those that it has.
    """
    own = replace(context, given=())
    said = []
    for table in context.given:
        mine = [cpu for cpu in cpus if table.first <= cpu <= table.last]
        kinds = len({own.table(cpu) for cpu in mine})
        unsure = not context.tables and (table.first, table.last) == (0, CPUS_MAX)
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
            table_notes() has them, "causes" as caused.notes() does.
    """
    said = []
    for name in ("changed", "notes", "causes"):
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
