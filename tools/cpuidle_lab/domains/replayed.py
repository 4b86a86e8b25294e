# SPDX-License-Identifier: GPL-2.0
"""Governors on all CPUs of a recording together: what CPUs and domains would have cost."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.compare.sources import Source, open_source, ways_of
from cpuidle_lab.domains.account import FAR, Account, Array, Stays
from cpuidle_lab.domains.joint import Intervals, Joint, accounts_of, idle_pj, intervals_of, joint
from cpuidle_lab.domains.observed import source_notes, tree_of
from cpuidle_lab.figures import withheld
from cpuidle_lab.figures.group import notes_on_powers
from cpuidle_lab.figures.told import Told
from cpuidle_lab.host.sysfs import cpu_list
from cpuidle_lab.recording.columns import CPU_IDLE, INTERRUPTS, Recording, joined
from cpuidle_lab.replay.candidates import Candidate
from cpuidle_lab.replay.engine import INTERVAL_TYPES, Run
from cpuidle_lab.states.domains import Domain
from cpuidle_lab.states.table import CpuTable

OWN, JOINT = "oracle of each CPU", "joint oracle"

# Energies that differ by less are equal: sums of floating-point numbers.
_SAME = 1e-6


@dataclass(frozen=True)
class Row:
    """A governor on all CPUs.

    Attributes:
        label: of the governor.
        cpus_pj: cost of the CPUs' intervals.
        domains_pj: cost of the domains while all of their CPUs were idle.
        accounts: by domain.
        latency_ns: exit latency of domains that each wake-up of a CPU waited for, sorted.
        stays: of each CPU.
        untimed: it needs timers, of which the recording tells nothing.
    """

    label: str
    cpus_pj: float
    domains_pj: float
    accounts: Mapping[str, Account]
    latency_ns: Array
    stays: Mapping[int, Stays]
    untimed: bool = False

    @property
    def cost_pj(self) -> float:
        """Cost of the machine."""
        return self.cpus_pj + self.domains_pj

    def deep_percent(self, name: str) -> float | None:
        """Return the share of a domain's idle time at its deepest level."""
        found = self.accounts[name]
        idle = float(found.length_ns[found.idle].sum())
        return 100 * float(found.level_ns()[-1]) / idle if idle else None

    def latency_us(self, share: float) -> float | None:
        """Return the least added latency within which this share of the wake-ups is done."""
        if not len(self.latency_ns):
            return None
        place = max(0, int(np.ceil(share * len(self.latency_ns))) - 1)
        return float(self.latency_ns[place]) / 1000


@dataclass(frozen=True)
class Replayed:
    """Governors on a recording.

    Attributes:
        source: the recording.
        tree: its domains.
        rows: the governors, and the oracle of each CPU.
        intervals: by CPU, those that all are judged by.
        joint: the joint oracle.
        missing: CPUs of the domains that the recording does not have.
        notes: what a reader must know.
        broken: rules that figures break; then none is shown.
    """

    source: Source
    tree: list[Domain]
    rows: list[Row]
    intervals: Mapping[int, Intervals]
    joint: Joint
    missing: list[int]
    notes: list[str]
    broken: list[str]

    @property
    def path(self) -> Path:
        """The recording's file."""
        return self.source.path

    @property
    def withheld(self) -> bool:
        """The recording leaves out or guesses too much for a regret."""
        return bool(withheld.above(self.source.shares))

    def regret(self, row: Row) -> tuple[float, float, float] | None:
        """Return a regret of the machine, its part by own errors, and by unknown neighbours, %."""
        best = self.joint.cost_pj
        if self.withheld or self.broken or row.untimed or not best:
            return None
        own = 100 * (row.cost_pj - self.joint.own_pj) / best
        neighbours = 100 * (self.joint.own_pj - best) / best
        return own + neighbours, own, neighbours


def _judged(chunk: Mapping[str, Array], choices: Mapping[str, Array]) -> Array:
    found: Array = (choices["decisions"] > 0) & (chunk["length_ns"] > 0)
    return found


@dataclass(frozen=True)
class _Played:
    """A governor on one CPU: stays in intervals that count, their cost, whether it asked.

    `kept` tells which intervals count.
    """

    stays: Stays
    cost_pj: float
    asked: bool
    kept: Array


def _play(recording: Recording, candidate: Candidate, cpu: int) -> _Played:
    table = recording.state_tables[cpu]
    trails, starts, ends, cost, which = [], [], [], 0.0, []
    with Run(candidate.governor, table, dict(candidate.settings), cpu) as run:
        run.follow()
        for chunk in recording.intervals(cpu, list(INTERVAL_TYPES)):
            choices = run.play(chunk, choices=True)
            trails.append(run.trail())
            kept = _judged(chunk, choices)
            which.append(kept)
            starts.append(chunk["start_ns"][kept].astype(np.int64))
            ends.append(starts[-1] + chunk["length_ns"][kept])
            cost += float(choices["cost_pj"][kept].sum())
        asked = run.totals().asked > 0
    trail = joined(trails)
    start, end = (trail[name].astype(np.int64) for name in ("start_ns", "end_ns"))
    first, last = np.concatenate(starts), np.concatenate(ends)
    place = np.searchsorted(first, start, side="right") - 1
    mine = place >= 0
    if len(first):
        mine &= end <= last[place]
    due = np.minimum(trail["next_ns"], np.uint64(FAR)).astype(np.int64)
    index = trail["index"].astype(np.int64)
    stays = Stays(start[mine], end[mine], index[mine], due[mine])
    return _Played(stays, cost, asked, np.concatenate(which))


def _intervals(recording: Recording, cpu: int, kept: Array) -> Intervals:
    names = ["start_ns", "length_ns", "latency_req_ns", "disabled"]
    told = joined(list(recording.intervals(cpu, names)))
    mine = {name: told[name][kept].astype(np.int64) for name in names}
    return intervals_of(recording.state_tables[cpu], *(mine[name] for name in names))


def _latencies(accounts: Mapping[str, Account], stays: Mapping[int, Stays]) -> Array:
    """Return the exit latencies of domains that wake-ups waited for, one for each, sorted."""
    rows = []
    for found in accounts.values():
        exits, cpus = np.asarray(found.domain.exits_ns), np.asarray(found.cpus)
        slept = found.level > 0
        rows.append(np.stack([cpus[found.ender[slept]], found.edges_ns[1:][slept],
                              exits[found.level[slept]]], axis=1))  # fmt: skip
    told = np.concatenate([np.zeros((0, 3), np.int64), *rows])
    _, place = np.unique(told[:, :2], axis=0, return_inverse=True)
    added = np.bincount(place.reshape(-1), told[:, 2]).astype(np.int64)
    wakeups = sum(len(each.start_ns) for each in stays.values())
    return np.sort(np.concatenate([np.zeros(wakeups - len(added), np.int64), added]))


def row_of(
    label: str, tree: Sequence[Domain], stays: Mapping[int, Stays], cpus_pj: float,
    untimed: bool = False,
) -> Row:  # fmt: skip
    """Return the row of stays, given the cost of the CPUs."""
    first = min(int(each.start_ns[0]) for each in stays.values())
    last = max(int(each.end_ns[-1]) for each in stays.values())
    accounts = accounts_of(tree, stays, first, last)
    waited = _latencies(accounts, stays)
    return Row(label, cpus_pj, idle_pj(accounts), accounts, waited, stays, untimed)


def _broken(rows: Sequence[Row], best: Joint) -> list[str]:
    """Return the rules that the figures break."""
    said = []
    least = best.cost_pj * (1 - _SAME)
    if best.own_pj < least or any(row.cost_pj < least for row in rows if not row.untimed):
        said.append("the joint oracle's energy is not above a governor's")
    idle = {
        name: {int(row.accounts[name].length_ns[row.accounts[name].idle].sum()) for row in rows}
        for name in rows[0].accounts
    }
    if any(len(times) > 1 for times in idle.values()):
        said.append("a domain's idle time is the same under each governor")
    return said


def _notes(source: Source, recording: Recording, missing: list[int], best: Joint) -> list[str]:
    said = [*withheld.notes(source.shares), *notes_on_powers(recording.state_tables.values())]
    if recording.kind == INTERRUPTS:
        said.append(
            "interrupts do not tell all sleep lengths, so governors have two rows: once those that "
            "are not known are drawn from those known nearby, once they are far"
        )
    if missing:
        said.append(
            f"nothing is known of CPU {cpu_list(missing)}, which count as asleep: the times that "
            "their domains sleep are upper bounds, and regrets are of a machine that has them so"
        )
    if not best.is_exact:
        said.append(
            "too many CPUs for the joint oracle: the regret is against a lower bound, at most "
            f"{100 * (best.own_pj / best.cost_pj - 1):.3f} % below it"
        )
    return said


@dataclass(frozen=True)
class _Rows:
    """Rows of governors, and the intervals that they are of.

    Attributes:
        source, tree, rows: as of Replayed.
        recording: as it was recorded.
        intervals: by CPU.
        cpus: those that the recording has.
    """

    source: Source
    tree: list[Domain]
    rows: list[Row]
    recording: Recording
    intervals: dict[int, Intervals]
    cpus: list[int]


def _rows(
    path: Path, spec: str, candidates: Sequence[Candidate], given: Sequence[CpuTable],
    stack: ExitStack,
) -> _Rows:  # fmt: skip
    """Play governors on all CPUs of a recording, which is open as long as the stack.

    Raises:
        UserError: as of replay().
    """
    source, recording = open_source(path, path.name, given, stack)
    ways = ways_of(recording)
    cpus = [cpu for cpu in recording.cpus if recording.rows("interval", cpu)]
    if unknown := [cpu for cpu in cpus if cpu not in recording.state_tables]:
        raise UserError(f"{path}: the idle states of CPU {cpu_list(unknown)} are unknown")
    tables = {cpu: recording.state_tables[cpu] for cpu in cpus}
    tree = tree_of(spec, tables, 0, path)
    rows, kept = [], {}
    for candidate, told in product(candidates, ways):
        played = {cpu: _play(told, candidate, cpu) for cpu in cpus}
        kept = {cpu: each.kept for cpu, each in played.items()}
        asked = any(each.asked for each in played.values())
        stays = {cpu: each.stays for cpu, each in played.items() if len(each.stays.start_ns)}
        if len(stays) < 2:
            raise UserError(f"{path}: has idle intervals of {len(stays)} CPU; domains need two")
        cost = sum(each.cost_pj for each in played.values())
        way = f", timers {told.way}" if isinstance(told, Told) else ""
        untimed = recording.kind == CPU_IDLE and asked
        rows.append(row_of(candidate.label + way, tree, stays, cost, untimed))
    intervals = {
        cpu: each for cpu in cpus if len((each := _intervals(ways[0], cpu, kept[cpu])).start_ns)
    }
    return _Rows(source, tree, rows, recording, intervals, cpus)


def rows_alone(
    path: Path, spec: str, candidates: Sequence[Candidate], given: Sequence[CpuTable] = ()
) -> dict[str, Row]:
    """Replay governors as replay() does, without the oracles; return rows by governor.

    Where sleep lengths were told in two ways, the row of the drawn ones counts.

    Raises:
        UserError: as of replay().
    """
    with ExitStack() as stack:
        found = _rows(path, spec, candidates, given, stack)
    each = len(found.rows) // len(candidates)
    firsts = found.rows[::each]
    return {one.label: row for one, row in zip(candidates, firsts, strict=True)}


def deep_ns(row: Row) -> tuple[int, int]:
    """Return the time of the outermost domains at their deepest level, and their idle time."""
    deep, idle = 0, 0
    for name, found in row.accounts.items():
        if not any(name in other.domain.asks for other in row.accounts.values()):
            deep += int(found.level_ns()[-1])
            idle += int(found.length_ns[found.idle].sum())
    return deep, idle


def replay(
    path: Path, spec: str, candidates: Sequence[Candidate], given: Sequence[CpuTable] = ()
) -> Replayed:
    """Replay governors on all CPUs of a recording.

    Args:
        path: of the recording.
        spec: name of a tree, or a machine file.
        candidates: the governors.
        given: idle states of a recording without the module.

    Raises:
        UserError: the recording cannot be replayed, or the tree does not fit.
    """
    with ExitStack() as stack:
        found = _rows(path, spec, candidates, given, stack)
    tree, intervals = found.tree, found.intervals
    best = joint(tree, intervals)
    alone = sum(float(each.cost_pj.min(axis=1).sum()) for each in intervals.values())
    stays = {cpu: each.cheapest() for cpu, each in intervals.items()}
    rows = [*found.rows, row_of(OWN, tree, stays, alone)]
    missing = sorted({cpu for domain in tree for cpu in domain.cpus} - set(found.cpus))
    notes = [*_notes(found.source, found.recording, missing, best), *source_notes(tree)]
    return Replayed(found.source, tree, rows, intervals, best, missing, notes, _broken(rows, best))
