# SPDX-License-Identifier: GPL-2.0
"""Warnings on a period: states and tables that make its figures mean something else."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cpuidle_lab.dump.periods import Counts, CpuCounts, Period, StateCounts
from cpuidle_lab.host.marks import POLLING
from cpuidle_lab.host.sysfs import cpu_list

# A state is said to be rejected from this share of its attempts on, %.
_REJECTED = 10.0
# A mean stay is far below the target residency under this part of it, of so many entries at least.
_FAR = 0.5
_ENTRIES = 100


@dataclass(frozen=True)
class Warn:
    """A warning.

    Attributes:
        kind: word for programs.
        text: one sentence.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class _State:
    """A state of one table, with the CPUs that have the table.

    Attributes:
        state: names and times.
        cpus: where it is.
        counts: of these CPUs together.
    """

    state: StateCounts
    cpus: tuple[int, ...]
    counts: Counts

    def text(self, period: Period) -> str:
        """Return name and CPUs, the latter where not all have it."""
        where = "CPU" if period.numbered else "the CPUs at place"
        on = "" if len(self.cpus) == len(period.cpus) else f" on {where} {cpu_list(self.cpus)}"
        return f"{self.state.name}{on}"


_Key = tuple[str, int | None, int | None]


def _key(state: StateCounts) -> _Key:
    return state.name, state.exit_us, state.target_us


def _tables(period: Period) -> dict[tuple[_Key, ...], list[CpuCounts]]:
    found: dict[tuple[_Key, ...], list[CpuCounts]] = {}
    for cpu in period.cpus:
        found.setdefault(tuple(map(_key, cpu.states)), []).append(cpu)
    return found


def _states(period: Period) -> Iterator[list[_State]]:
    """Yield the states of each table."""
    for cpus in _tables(period).values():
        yield [
            _State(
                cpus[0].states[k],
                tuple(cpu.number for cpu in cpus),
                sum((cpu.states[k].counts for cpu in cpus), Counts()),
            )
            for k in range(len(cpus[0].states))
        ]


def _rejected(period: Period, each: _State) -> str:
    rejected, entries = each.counts.rejected or 0, each.counts.entries
    if not rejected or 100 * rejected < _REJECTED * (rejected + entries):
        return ""
    if not entries:
        return (
            f"{each.text(period)} is always rejected ({rejected} times): driver or firmware "
            "refuse it"
        )
    return (
        f"{each.text(period)} is rejected {rejected} times and entered {entries} times: driver or "
        "firmware refuse it"
    )


def _disabled(period: Period, each: _State) -> str:
    flags = [
        (cpu.number, state.disabled)
        for cpu in period.cpus
        for state in cpu.states
        if cpu.number in each.cpus and _key(state) == _key(each.state)
    ]
    off = [number for number, told in flags if told == (True, True)]
    changed = [number for number, told in flags if None not in told and told[0] != told[1]]
    where = "CPU" if period.numbered else "the CPUs at place"
    if changed:
        return f"{each.state.name} was enabled or disabled meanwhile on {where} {cpu_list(changed)}"
    if off and len(off) == len(each.cpus):
        return f"{each.text(period)} is disabled"
    return f"{each.state.name} is disabled on {where} {cpu_list(off)}" if off else ""


def _never(period: Period, each: _State) -> str:
    quiet = not each.counts.entries and not each.counts.rejected
    if not quiet or _disabled(period, each):
        return ""
    return f"{each.text(period)} is never entered"


def _latency(period: Period, each: _State) -> str:
    low, high = each.state.target_us, each.state.exit_us
    if low is None or high is None or high <= low:
        return ""
    return f"{each.text(period)} has an exit latency of {high} us above its target of {low} us"


def _short(period: Period, each: _State) -> str:
    target, entries = each.state.target_us, each.counts.entries
    if not period.timed or not target or entries < _ENTRIES or each.state.name in POLLING:
        return ""
    mean = each.counts.time_us / entries
    if mean >= _FAR * target:
        return ""
    return (
        f"{each.text(period)}: the mean stay of {mean:.1f} us is far below its target, {target} us"
    )


_OF_STATES: tuple[tuple[str, Callable[[Period, _State], str]], ...] = (
    ("rejected", _rejected),
    ("never_entered", _never),
    ("disabled", _disabled),
    ("exit_above_target", _latency),
    ("short_stays", _short),
)


def _same_targets(period: Period, states: list[_State]) -> Iterator[str]:
    by_target: dict[int, list[_State]] = {}
    for each in states:
        if each.state.target_us is not None:
            by_target.setdefault(each.state.target_us, []).append(each)
    for target, mine in by_target.items():
        if len(mine) > 1:
            names = " and ".join(each.state.name for each in mine[:-1])
            yield f"{names} and {mine[-1].text(period)} have one target residency, {target} us"


def _nothing(period: Period, total: Counts) -> str:
    """Return the sentence on a period in which no idle state was entered."""
    if (
        period.begin is None
        or period.end is None
        or any((total.time_us, total.above, total.below, total.rejected))
    ):
        return "no CPU entered an idle state"
    if period.seconds:
        return f"no CPU entered an idle state in the {period.seconds:.1f} s between the two dumps"
    return "the two dumps are the same: nothing happened between them"


def of(period: Period) -> Iterator[Warn]:
    """Yield the warnings on a period, the worst first."""
    tables = list(_states(period))
    total = sum((each.counts for states in tables for each in states), Counts())
    for kind, find in _OF_STATES:
        if kind == "never_entered" and not total.entries:
            continue
        for states in tables:
            yield from (Warn(kind, text) for each in states if (text := find(period, each)))
    for states in tables:
        yield from (Warn("same_target", text) for text in _same_targets(period, states))
    if len(tables) > 1:
        where = "CPU" if period.numbered else "places"
        runs = "; ".join(f"{where} {cpu_list(states[0].cpus)}" for states in tables)
        yield Warn("tables_differ", f"the CPUs have {len(tables)} tables of idle states: {runs}")
    if not total.entries:
        yield Warn("nothing", _nothing(period, total))
    for note in period.notes:
        yield Warn("dump", note)
