# SPDX-License-Identifier: GPL-2.0
"""The CPUs that keep a domain from its deepest sleep, each with the reason and its energy.

The reference is a domain at its deepest level all the time. The energy beyond that is shared out:
power of being up, or not deep enough, in equal parts to the members that are not deep enough; the
price of entering a sleep, and of one cut too short to be entered, to the member that ended it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cpuidle_lab.domains.account import Account, Array, Stays

AWAKE, SHALLOW, SHORT = "awake", "shallow", "short"

UNKNOWN_CAUSE = "an unrecorded cause"

# Sums of floating-point numbers that differ by less are equal.
_SAME = 1e-6


@dataclass(frozen=True)
class Reasons:
    """Reasons of a CPU, by its stays.

    Attributes:
        woken: what ended each stay.
        chosen: which state it was in, and who had chosen that.
        ran_ns: when tasks began to run, in order.
        tasks: their names.
    """

    woken: Sequence[str]
    chosen: Sequence[str]
    ran_ns: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    tasks: Sequence[str] = ()


@dataclass
class Share:
    """One reason of one CPU.

    Attributes:
        cpu: the CPU.
        kind: AWAKE: it ran, SHALLOW: its state was not deep enough, SHORT: it ended a sleep.
        why: the task that ran, and what had woken the CPU; or who had chosen the state.
        time_ns: its equal part of the time in which members were not deep enough.
        alone_ns: time in which it was the only one.
        ended: sleeps that it ended.
        energy_pj: energy beyond the deepest level.
    """

    cpu: int
    kind: str
    why: str
    time_ns: float = 0.0
    alone_ns: float = 0.0
    ended: int = 0
    energy_pj: float = 0.0


def _running(rate: Array, length_ns: Array) -> Array:
    return np.concatenate([[0.0], np.cumsum(rate * length_ns)])


def _by_task(begin: Array, end: Array, why: Sequence[str], reasons: Reasons) -> tuple[
    Array, Array, Array
]:  # fmt: skip
    """Cut the times in which a CPU ran where a task began to run.

    Args:
        begin: of these times, in order.
        end: of them.
        why: what had woken it before each.
        reasons: of the CPU.

    Returns:
        Begin, end and reason of each part.
    """
    gap = np.searchsorted(begin, reasons.ran_ns, side="right") - 1
    inside = np.flatnonzero((gap >= 0) & (reasons.ran_ns < end[np.maximum(gap, 0)]))
    of = np.concatenate([np.arange(len(begin)), gap[inside]])
    at = np.concatenate([begin, reasons.ran_ns[inside]])
    words = [f"after {each}" for each in why]
    words += [f"{reasons.tasks[n]} after {why[gap[n]]}".lstrip() for n in inside.tolist()]
    # At equal times the part without a task is the first, of length 0.
    order = np.lexsort((np.arange(len(at)), at))
    at, of = at[order], of[order]
    following = np.append(at[1:], end[-1:])
    return at, np.minimum(following, end[of]), np.asarray(words, dtype=object)[order]


class _Blame:
    def __init__(self, found: Account) -> None:
        self._found = found
        self._shares: dict[tuple[int, str, str], Share] = {}
        length, power = found.length_ns, np.asarray(found.domain.costs.power_mw)
        waiting = len(found.cpus) - found.deep
        part = np.divide(1.0, waiting, out=np.zeros(len(length)), where=waiting > 0)
        beyond = power[found.level] - power[-1]
        # Running totals: of time, of time alone, and of energy, for each member not deep enough.
        self._totals = [
            _running(each, length) for each in (part, (waiting == 1) * 1.0, part * beyond)
        ]
        entry = np.asarray(found.domain.costs.entry_pj)
        self._ended_pj = entry[found.level] + np.where(waiting == 0, beyond * length, 0.0)
        self._ends = (found.level > 0) | (waiting == 0)

    def _add(self, cpu: int, kind: str, why: str, values: tuple[float, ...], ended: int) -> None:
        share = self._shares.setdefault((cpu, kind, why), Share(cpu, kind, why))
        time, alone, energy = values
        share.time_ns += time
        share.alone_ns += alone
        share.energy_pj += energy
        share.ended += ended

    def _spans(self, cpu: int, kind: str, begin: Array, end: Array, why: Array) -> None:
        """Add spans of time in which a CPU is not deep enough."""
        # Within a stretch nothing changes, so the totals rise evenly.
        edges = self._found.edges_ns
        first, span = edges[0], edges - edges[0]
        parts = [
            np.interp(end - first, span, total) - np.interp(begin - first, span, total)
            for total in self._totals
        ]
        names, place = np.unique(why, return_inverse=True)
        sums = [np.bincount(place, part, len(names)) for part in parts]
        for n, name in enumerate(names):
            time, alone, energy = (float(each[n]) for each in sums)
            self._add(cpu, kind, str(name), (time, alone, energy), 0)

    def add(self, cpu: int, stays: Stays, reasons: Reasons) -> None:
        """Add the times of a CPU."""
        found = self._found
        first, last = found.edges_ns[0], found.edges_ns[-1]
        begin = np.concatenate([[first], stays.end_ns])
        end = np.concatenate([stays.start_ns, [last]])
        gaps = end > begin
        if gaps.any():
            woken = [UNKNOWN_CAUSE, *reasons.woken]
            causes = [woken[n] for n in np.flatnonzero(gaps)]
            self._spans(cpu, AWAKE, *_by_task(begin[gaps], end[gaps], causes, reasons))
        shallow = stays.index < found.domain.needs[cpu][-1]
        if shallow.any():
            chosen = np.asarray(reasons.chosen, dtype=object)[shallow]
            self._spans(cpu, SHALLOW, stays.start_ns[shallow], stays.end_ns[shallow], chosen)
        mine = self._ends & (found.ender == found.cpus.index(cpu))
        place = np.searchsorted(stays.end_ns, found.edges_ns[1:][mine])
        for energy, n in zip(self._ended_pj[mine], place, strict=True):
            why = reasons.woken[n] if n < len(reasons.woken) else UNKNOWN_CAUSE
            self._add(cpu, SHORT, why, (0.0, 0.0, float(energy)), 1)

    def shares(self) -> list[Share]:
        """Return all, the dearest first."""
        return sorted(self._shares.values(), key=lambda each: -each.energy_pj)


def blame(
    found: Account, stays: Mapping[int, Stays], reasons: Mapping[int, Reasons]
) -> list[Share]:
    """Return who kept a domain from its deepest level, the dearest first.

    Args:
        found: the account.
        stays: of its CPUs that are known, within its span.
        reasons: by CPU.
    """
    result = _Blame(found)
    for cpu in found.cpus:
        result.add(cpu, stays[cpu], reasons[cpu])
    return result.shares()


def broken(found: Account, shares: Sequence[Share]) -> list[str]:
    """Return the rules that an account and its shares break, one sentence each."""
    span = float(found.edges_ns[-1] - found.edges_ns[0])
    reference = found.domain.costs.power_mw[-1] * span
    together = float(found.length_ns[found.deep == len(found.cpus)].sum())
    rules = {
        "the times of the levels sum to the wall time": (float(found.level_ns().sum()), span),
        "the shares of energy sum to the energy beyond the deepest level": (
            sum(each.energy_pj for each in shares) + reference, found.energy_pj(),
        ),
        "the shares of time sum to the time in which members were not deep enough": (
            sum(each.time_ns for each in shares), span - together,
        ),
    }  # fmt: skip
    said = [
        rule for rule, (one, other) in rules.items()
        if abs(one - other) > _SAME * max(1.0, abs(other), reference * _SAME)
    ]  # fmt: skip
    if (found.length_ns < 0).any():
        said.append("no stretch is shorter than 0")
    return said
