# SPDX-License-Identifier: GPL-2.0
"""The model of what an idle period costs: E(k) + P(k) * its length, in each state k."""

import math
from dataclasses import dataclass
from itertools import pairwise

from cpuidle_lab.states.table import StateTable

# A state of unknown power that pays after so long is taken to draw half of what polling does.
_HALF_POWER_NS = 10_000


@dataclass(frozen=True)
class Costs:
    """The energy model of a state table.

    Attributes:
        power_mw: power in each state.
        entry_pj: price of entering and leaving each state.
        derived: the powers are derived from the target residencies: illustrative.
    """

    power_mw: tuple[float, ...]
    entry_pj: tuple[float, ...]
    derived: bool


def _derived(table: StateTable) -> list[float]:
    """Return powers that fall with the square root of the target residency, mW.

    They fall by a sixteenth at least from state to state.
    """
    powers: list[float] = []
    for target in table.target_residency_ns:
        value = 1000.0 / (1 + math.sqrt(target / _HALF_POWER_NS))
        powers.append(min(value, powers[-1] * 15 / 16) if powers else value)
    return powers


def model_of(table: StateTable) -> Costs:
    """Return the energy model of a state table.

    Each state breaks even with the next shallower one at its target residency. Powers count as
    given. Unless every state has one, and none draws more than a shallower one, they are derived.
    """
    given = table.power_uw
    derived = not all(given) or any(low < high for low, high in pairwise(given))
    powers = _derived(table) if derived else [uw / 1000 for uw in given]
    entry = [0.0]
    for k in range(1, table.count):
        saved = (powers[k - 1] - powers[k]) * table.target_residency_ns[k]
        entry.append(entry[-1] + saved)
    return Costs(tuple(powers), tuple(entry), derived)
