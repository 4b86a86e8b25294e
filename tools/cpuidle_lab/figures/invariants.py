# SPDX-License-Identifier: GPL-2.0
"""Rules for every result of `report` and `compare`.

A result that breaks a rule is wrong, whatever the reason: its row shows "?" and the rule.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cpuidle_lab.states.costs import Costs

# Percentages and sums of floating-point numbers that differ by less are equal.
_SAME = 1e-6


@dataclass
class Facts:
    """The figures of a result. A missing one is None or empty, and breaks no rule.

    Attributes:
        regret: %.
        cost_pj, oracle_pj: energy that the regret is made of.
        length_ns: idle time that it is made of.
        models: costs of the states, of each kind of CPU.
        entries: idle periods by state.
        state_ns: time by state.
        idle_ns: idle time that the states share.
        parts: by name, the parts of a whole, and the whole.
        counts: by name, one number as it is found in several places.
    """

    regret: float | None = None
    cost_pj: float | None = None
    oracle_pj: float | None = None
    length_ns: float | None = None
    models: Sequence[Costs] = ()
    entries: Sequence[float] = ()
    state_ns: Sequence[float] = ()
    idle_ns: float | None = None
    parts: dict[str, tuple[Sequence[float], float]] = field(default_factory=dict)
    counts: dict[str, Sequence[float | None]] = field(default_factory=dict)


def _equal(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_SAME, abs_tol=_SAME)


def _regret(facts: Facts) -> bool:
    return facts.regret is None or facts.regret >= -_SAME


def _is_between(facts: Facts, cost_pj: float | None) -> bool:
    """Tell whether an energy is possible: the states' powers, and one entry for each period."""
    if cost_pj is None or facts.length_ns is None or not facts.models:
        return True
    least = min(min(model.power_mw) for model in facts.models)
    greatest = max(max(model.power_mw) for model in facts.models)
    entries = sum(
        count * max(model.entry_pj[k] for model in facts.models if k < len(model.entry_pj))
        for k, count in enumerate(facts.entries)
        if count
    )
    least_pj, greatest_pj = least * facts.length_ns, greatest * facts.length_ns + entries
    return least_pj * (1 - _SAME) <= cost_pj <= greatest_pj * (1 + _SAME)


def _power(facts: Facts) -> bool:
    return _is_between(facts, facts.cost_pj)


def _oracle(facts: Facts) -> bool:
    if facts.oracle_pj is None or facts.cost_pj is None:
        return True
    return facts.oracle_pj <= facts.cost_pj * (1 + _SAME)


def _time(facts: Facts) -> bool:
    return facts.idle_ns is None or _equal(sum(facts.state_ns), facts.idle_ns)


def _parts(facts: Facts) -> bool:
    return all(_equal(sum(parts), whole) for parts, whole in facts.parts.values())


def _counts(facts: Facts) -> bool:
    return all(len({*places} - {None}) <= 1 for places in facts.counts.values())


RULES: dict[str, Callable[[Facts], bool]] = {
    "a regret is not below 0": _regret,
    "power lies between the least and the greatest of the table, plus the price of the entries":
        _power,
    "the oracle's power is not above the governor's": _oracle,
    "the time in the states is the idle time": _time,
    "shares sum to 100 %": _parts,
    "counts are the same wherever they are shown": _counts,
}  # fmt: skip


def said(rule: str) -> str:
    """Return one sentence on a broken rule."""
    return f"no figure, since one contradicts a rule: {rule} (please report it)"


def broken(facts: Facts) -> list[str]:
    """Return the rules that a result breaks."""
    return [rule for rule, holds in RULES.items() if not holds(facts)]
