# SPDX-License-Identifier: GPL-2.0
"""Data of `cpuidle-lab watch`: two looks at a machine, and the changes between them.

Nothing here wakes a CPU: the kernel and the module count by themselves. A CPU's idle time is
counted when it wakes up, so a long sleep shows late.
"""

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.figures.invariants import Facts, broken
from cpuidle_lab.host.machine import DEBUGFS, LAB, MOVED, Host

SHADOW = f"{LAB}/shadow"
SHADOW_STATS = f"{LAB}/shadow_stats"
HINTS = f"{LAB}/gate/hints"
BASE = f"{LAB}/gate/base"

NO_SHADOW = "none"
GATE = "gate"
ACTIVE = "active"

_CPUS = "/sys/devices/system/cpu"


@dataclass(frozen=True)
class StateCount:
    """Counts of the kernel for one idle state of one CPU.

    Attributes:
        name: of the state.
        usage: how often it was entered.
        time_us: time spent in it.
        above: how often a shallower state would have been right.
        below: how often a deeper one would have been.
        latency_us: its exit latency, by the driver's table.
    """

    name: str
    usage: int
    time_us: int
    above: int = 0
    below: int = 0
    latency_us: int = 0


@dataclass(frozen=True)
class Tally:
    """A line of shadow_stats, or a sum of such lines.

    Attributes:
        cpu: the CPU, or -1 for a sum over CPUs.
        governor: its name.
        role: `active`, or `shadow`.
        decisions: number of decisions.
        agree: of these, for the same state as the governor in use.
        deeper: for a deeper one.
        shallower: for a shallower one.
        cost: modelled cost of the states decided on, in the module's unit.
        oracle_cost: modelled cost of the cheapest states allowed, in the same unit.
    """

    cpu: int
    governor: str
    role: str
    decisions: int
    agree: int
    deeper: int
    shallower: int
    cost: int
    oracle_cost: int

    @property
    def regret(self) -> float | None:
        """Modelled one-shot regret, 0.1 for 10 % above the oracle; None if unknown or below 0."""
        value = self.cost / self.oracle_cost - 1 if self.oracle_cost else None
        is_wrong = value is not None and broken(Facts(regret=100 * value))
        return None if is_wrong else value

    def share(self, count: int) -> float | None:
        """Return a count as a part of the decisions, 0 to 1; None without any."""
        return count / self.decisions if self.decisions else None


@dataclass(frozen=True)
class Look:
    """A machine at one moment.

    Attributes:
        when_s: a monotonic clock, in seconds.
        governor: the governor in use; "" if unknown.
        base: the gate's base, if the gate is in use and its base can be read.
        states: what was counted for the idle states, shallowest first, by CPU.
        tallies: the lines of shadow_stats; None if it cannot be read.
        limits_us: the smallest latency hint on each CPU that has one, under the gate.
        shadows: governors in the list of shadows.
    """

    when_s: float
    governor: str
    base: str | None
    states: dict[int, list[StateCount]]
    tallies: list[Tally] | None
    limits_us: dict[int, int]
    shadows: tuple[str, ...]


@dataclass(frozen=True)
class CpuView:
    """One CPU between two looks.

    Attributes:
        cpu: its number.
        entries_per_s: idle states entered, per second.
        idle: part of the time spent in each state, 0 to 1, by its name, shallowest first.
        awake: part of the time not spent idle, 0 to 1.
        limit_us: smallest latency hint at the end; None if there is none.
        decisions_per_s: of our governor, per second; None if it does not tell.
    """

    cpu: int
    entries_per_s: float
    idle: dict[str, float]
    awake: float
    limit_us: int | None
    decisions_per_s: float | None


@dataclass(frozen=True)
class View:
    """A machine between two looks.

    Attributes:
        seconds: time between them.
        governor: the governor in use at the end.
        base: under the gate, its base.
        cpus: the CPUs.
        governors: sums over the CPUs since the shadows have started: first the governor in use,
            then the shadows; empty without shadows.
        note: why something is missing; "" if nothing is.
    """

    seconds: float
    governor: str
    base: str | None
    cpus: list[CpuView]
    governors: list[Tally]
    note: str


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


def _online(machine: Host) -> list[int]:
    """Return the CPUs that are online; where the kernel does not tell, all."""
    listing = machine.tree.read(f"{_CPUS}/online")
    if listing is None:
        names = machine.tree.names(_CPUS)
        return sorted(int(name[3:]) for name in names if re.fullmatch(r"cpu\d+", name))
    cpus: list[int] = []
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", listing):
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def _states(machine: Host, cpu: int) -> list[StateCount]:
    directory = f"{_CPUS}/cpu{cpu}/cpuidle"
    names = machine.tree.names(directory)
    numbers = sorted(int(name[5:]) for name in names if re.fullmatch(r"state\d+", name))

    def read(number: int, name: str) -> str | None:
        return machine.tree.read(f"{directory}/state{number}/{name}")

    return [
        StateCount(
            read(number, "name") or f"state{number}",
            _number(read(number, "usage")),
            _number(read(number, "time")),
            _number(read(number, "above")),
            _number(read(number, "below")),
            _number(read(number, "latency")),
        )
        for number in numbers
    ]


def parse_stats(text: str) -> list[Tally]:
    """Return the lines of shadow_stats; what is not understood is left out."""
    tallies = []
    for line in text.splitlines():
        match = re.fullmatch(r"(\d+) (\S+) (active|shadow)((?: \d+){6})", line)
        if match:
            numbers = map(int, match[4].split())
            tallies.append(Tally(int(match[1]), match[2], match[3], *numbers))
    return tallies


def parse_limits(text: str) -> dict[int, int]:
    """Return the smallest limit in us on each CPU that has a hinted task, from gate/hints."""
    limits: dict[int, int] = {}
    for limit, cpu in re.findall(r"^\d+ (\d+) (\d+) ", text, re.MULTILINE):
        limits[int(cpu)] = min(int(limit), limits.get(int(cpu), int(limit)))
    return limits


def look(machine: Host) -> Look:
    """Look at a machine; what cannot be read is left out."""
    tree = machine.tree
    governor = machine.governor()
    is_gate = governor == GATE
    states = {cpu: _states(machine, cpu) for cpu in _online(machine)}
    stats = tree.read(SHADOW_STATS)
    return Look(
        when_s=time.monotonic(),
        governor=governor,
        base=tree.read(BASE) if is_gate else None,
        states={cpu: counts for cpu, counts in states.items() if counts},
        tallies=None if stats is None else parse_stats(stats),
        limits_us=parse_limits(tree.read(HINTS) or "") if is_gate else {},
        shadows=shadow_list(machine),
    )


def _since(now: int, before: int) -> int:
    """Return by how much a counter has grown; one that has shrunk began again at zero."""
    return now - before if now >= before else now


def _active(tallies: Iterable[Tally] | None) -> dict[int, Tally]:
    return {tally.cpu: tally for tally in tallies or () if tally.role == ACTIVE}


def _cpu_view(before: Look, now: Look, cpu: int, seconds: float) -> CpuView:
    counts = now.states[cpu]
    old = before.states.get(cpu, [])
    if [count.name for count in old] != [count.name for count in counts]:
        old = [StateCount(count.name, 0, 0) for count in counts]
    pairs = list(zip(counts, old, strict=True))
    entered = sum(_since(new.usage, count.usage) for new, count in pairs)
    # Sleep before the last look may be counted in this one.
    idle = {
        new.name: min(1.0, _since(new.time_us, count.time_us) / 1e6 / seconds)
        for new, count in pairs
    }
    decided = None
    active = _active(now.tallies).get(cpu)
    if active is not None:
        last = _active(before.tallies).get(cpu)
        decided = _since(active.decisions, last.decisions if last else 0) / seconds
    return CpuView(
        cpu,
        entered / seconds,
        idle,
        max(0.0, 1 - sum(idle.values())),
        now.limits_us.get(cpu),
        decided,
    )


def totals(tallies: Iterable[Tally]) -> list[Tally]:
    """Return the sums over the CPUs: of the governor in use, then of each shadow."""
    sums: dict[tuple[str, str], list[int]] = {}
    for tally in tallies:
        values = sums.setdefault((tally.role, tally.governor), [0] * 6)
        for n, value in enumerate(
            (
                tally.decisions,
                tally.agree,
                tally.deeper,
                tally.shallower,
                tally.cost,
                tally.oracle_cost,
            )
        ):
            values[n] += value
    return sorted(
        (Tally(-1, governor, role, *values) for (role, governor), values in sums.items()),
        key=lambda tally: tally.role != ACTIVE,
    )


def _why_nothing_is_counted(machine: Host, now: Look) -> str:
    if machine.module_version() is None:
        return "no shadow governors: cpuidle_lab is not loaded (sudo modprobe cpuidle_lab)"
    if not machine.is_mounted(DEBUGFS):
        return f"no shadow governors: sudo mount -t debugfs debugfs {DEBUGFS}"
    if machine.lockdown() != "none":
        return f"no shadow governors: the kernel is locked down ({machine.lockdown()})"
    if machine.tree.read(f"{LAB}/version") is None:
        return "no shadow governors and no hints are shown: only root can read them (use sudo)"
    if now.tallies is None:
        return f"no shadow governors: {SHADOW_STATS} is missing, the module is older than this tool"
    if now.governor not in machine.lab_governors():
        return f"no decisions are known: {now.governor or 'none'} is no governor of cpuidle_lab"
    if not now.shadows:
        return "no shadow governors: --shadow wteo,menu_ng would show some"
    return "the shadow governors have not decided yet"


def compare(machine: Host, before: Look, now: Look) -> View:
    """Return what happened between two looks at a machine."""
    seconds = max(now.when_s - before.when_s, 1e-3)
    cpus = [_cpu_view(before, now, cpu, seconds) for cpu in sorted(now.states)]
    note = ""
    if not cpus:
        note = "no idle states: the machine has no idle driver, or cpuidle is off"
    elif not now.tallies:
        note = _why_nothing_is_counted(machine, now)
    return View(seconds, now.governor, now.base, cpus, totals(now.tallies or ()), note)


def shadow_list(machine: Host) -> tuple[str, ...]:
    """Return the governors in the list of shadows; none, too, if it cannot be read."""
    listing = machine.tree.read(SHADOW)
    return () if listing in (None, "", NO_SHADOW) else tuple((listing or "").split())


def check_shadows(machine: Host, shadows: Iterable[str]) -> None:
    """Raise a `UserError` unless these governors can be made shadows."""
    if machine.module_version() is None:
        raise UserError("cpuidle_lab is not loaded: sudo modprobe cpuidle_lab")
    if not machine.tree.may_write(SHADOW):
        raise UserError(f"cannot write {SHADOW}: shadow governors need root and debugfs (use sudo)")
    known = [name for name in machine.lab_governors() if name != GATE]
    for name in shadows:
        if name not in known:
            raise UserError(
                MOVED.get(name) or f"'{name}' cannot be a shadow, only: {' '.join(known) or 'none'}"
            )


def set_shadows(machine: Host, shadows: Iterable[str]) -> None:
    """Make these governors the list of shadows; they start to learn, and to be counted, afresh.

    Raises:
        UserError: the kernel refuses.
    """
    machine.tree.write(SHADOW, " ".join(shadows) or NO_SHADOW)
