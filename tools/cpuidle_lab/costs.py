# SPDX-License-Identifier: GPL-2.0
"""The model of what an idle period costs: E(k) + P(k) * its length, in each state k."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cpuidle_lab.trace import Machine

# A state of unknown power that pays after so long is taken to draw half of what polling does.
_HALF_POWER_NS = 10_000


@dataclass(frozen=True)
class Costs:
    """The energy model of a machine.

    Attributes:
        power_mw: power in each state.
        entry_pj: price of entering and leaving each state.
        derived: the powers are derived from the target residencies: illustrative.
    """

    power_mw: tuple[float, ...]
    entry_pj: tuple[float, ...]
    derived: bool


def model_of(machine: "Machine") -> Costs:
    """Return the energy model of a machine, as governors/common/energy.c has it.

    Each state breaks even with the next shallower one at its target residency. Unless every state
    has a power, powers fall with the square root of the target residency. From state to state they
    fall by a sixteenth at least, whatever is said.
    """
    derived = not all(machine.power_uw)
    powers: list[float] = []
    for target, power in zip(machine.target_residency_ns, machine.power_uw, strict=True):
        value = 1000.0 / (1 + math.sqrt(target / _HALF_POWER_NS)) if derived else power / 1000
        if powers:
            value = min(value, powers[-1] * 15 / 16)
        powers.append(value)
    entry = [0.0]
    for k in range(1, machine.count):
        saved = (powers[k - 1] - powers[k]) * machine.target_residency_ns[k]
        entry.append(entry[-1] + saved)
    return Costs(tuple(powers), tuple(entry), derived)
