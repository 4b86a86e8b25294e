# SPDX-License-Identifier: GPL-2.0
"""The hardware's residency counters: whether it did as the kernel asked.

The kernel counts the state that it asked for. Hardware may enter a shallower one by itself. Intel's
machines count the time of each core in C1, C3, C6 and C7; a deeper state has the core in C7.
"""

import re
from collections.abc import Mapping

# A counter below this part of what is due shows a demotion.
ENOUGH = 0.9

_CORE = ("cstate_core", "cpuidle_emul")
_PACKAGE = "cstate_pkg"
_NAME = re.compile(r"C(\d+)[A-Za-z]{0,2}")
_DEEPEST = 7


def shares(text: str) -> dict[str, float]:
    """Return the part of the time that each counter counted, as a mean over cores.

    Args:
        text: what calibrate-wake prints: PMU/EVENT CPU COUNT TICKS in each line.
    """
    found: dict[str, list[float]] = {}
    for line in text.splitlines():
        name, _, count, ticks = line.split()
        if int(ticks):
            mine = found.setdefault(name.removesuffix("-residency"), [])
            mine.append(int(count) / int(ticks))
    return {name: sum(each) / len(each) for name, each in sorted(found.items())}


def counter_of(state: str, known: Mapping[str, float]) -> str | None:
    """Return the counter of an idle state; None if it has none, or its name does not tell.

    Names of ACPI's own numbering, such as C2_ACPI, do not tell.
    """
    name = _NAME.fullmatch(state)
    if not name:
        return None
    wanted = f"/c{min(int(name[1]), _DEEPEST)}"
    found = (f"{pmu}{wanted}" for pmu in _CORE if f"{pmu}{wanted}" in known)
    return next(found, None)


def due(time_us: float, entries: int, span_us: float, latency_us: float, threads: int) -> float:
    """Return the least part of the time that a core should be in a state.

    A core is in a state while all of its threads are, and not while it enters or leaves it.

    Args:
        time_us: time in the state by the kernel's count, of all CPUs together.
        entries: entries by the same count.
        span_us: time that passed, of all CPUs together.
        latency_us: exit latency; entering may take as long.
        threads: CPUs of a core.
    """
    awake = 1 - (time_us - 2 * latency_us * entries) / span_us
    return max(0.0, 1 - threads * awake)


def package_share(hardware: Mapping[str, float]) -> float | None:
    """Return the part of the time that the packages slept; None without a counter."""
    found = [share for name, share in hardware.items() if name.startswith(_PACKAGE)]
    return sum(found) if found else None
