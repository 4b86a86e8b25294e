# SPDX-License-Identifier: GPL-2.0
"""Energy counters: the kernel's powercap zones, their marks in a trace, and what was spent.

At the beginning and at the end of each phase, every zone that can be read leaves a line in the
trace (the lab's guest, in lab/guest/functions, writes the same):

    energy zone=intel-rapl:0 energy_uj=71828 max_energy_range_uj=262143328850 name=package-0

Energies are in uJ until they are shown. Needs the standard library only: `capture` reads zones.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cpuidle_lab.host.sysfs import Tree

POWERCAP = "/sys/class/powercap"

# Roles of a zone in the sum: the first two are added, each to a sum of its own.
MEASURED = "measured"
EMULATED = "emulated"
PART = "part of another zone"
PLATFORM = "whole platform"
TWIN = "same counter as another zone"

# The metrics that come from zones, by role: energy and mean power.
METRICS = {
    MEASURED: ("measured_mj", "measured_mw"),
    EMULATED: ("emulated_mj", "emulated_mw"),
}

_EMULATOR = "cpuidle-emul:"
_TWIN = "intel-rapl-mmio:"

_MARK = re.compile(
    r"energy zone=(?P<zone>\S{1,64}) energy_uj=(?P<uj>[0-9]{1,20})"
    r" max_energy_range_uj=(?P<range>[0-9]{1,20}) name=(?P<name>.{1,64})"
)


@dataclass(frozen=True)
class Reading:
    """The counter of a zone at one moment.

    Attributes:
        zone: name in sysfs; sub-zones append `:NUMBER` to their parent's.
        name: what the driver calls it.
        energy_uj: the counter.
        range_uj: its largest value, after which it starts at 0 again.
    """

    zone: str
    name: str
    energy_uj: int
    range_uj: int

    def mark(self) -> str:
        """Return the line for the trace."""
        return (
            f"energy zone={self.zone} energy_uj={self.energy_uj} "
            f"max_energy_range_uj={self.range_uj} name={self.name}"
        )


def parse(text: str) -> Reading | None:
    """Return the reading that a line of the trace holds; None if it holds none, or nonsense."""
    match = _MARK.fullmatch(text.strip())
    if not match:
        return None
    reading = Reading(match["zone"], match["name"], int(match["uj"]), int(match["range"]))
    return reading if reading.energy_uj <= reading.range_uj else None


def read_zones(tree: Tree) -> tuple[list[Reading], list[str]]:
    """Read all zones that count energy.

    Returns:
        the readings, and the zones that cannot be read.
    """
    readings, unreadable = [], []
    for zone in tree.names(POWERCAP):
        if not tree.exists(f"{POWERCAP}/{zone}/energy_uj"):
            continue
        uj, most, name = (
            tree.read(f"{POWERCAP}/{zone}/{file}")
            for file in ("energy_uj", "max_energy_range_uj", "name")
        )
        reading = parse(f"energy zone={zone} energy_uj={uj} max_energy_range_uj={most} name={name}")
        if reading:
            readings.append(reading)
        else:
            unreadable.append(zone)
    return readings, unreadable


@dataclass(frozen=True)
class ZoneEnergy:
    """Energy of a zone in a phase.

    Attributes:
        zone: name in sysfs.
        name: what the driver calls it.
        role: one of MEASURED and EMULATED, which are added up, PART, PLATFORM and TWIN.
        energy_mj: energy; None if unknown.
        power_mw: mean power between the first reading and the last; None if unknown.
    """

    zone: str
    name: str
    role: str
    energy_mj: float | None
    power_mw: float | None


def _role(reading: Reading, packages: set[str]) -> str:
    """Return what a zone is to the sum; `packages` are the names that another driver counts."""
    if reading.zone.count(":") > 1:
        return PART
    if reading.zone.startswith(_EMULATOR):
        return EMULATED
    if reading.name.startswith("psys"):
        return PLATFORM
    if reading.zone.startswith(_TWIN) and reading.name in packages:
        return TWIN
    return MEASURED


def _rise(before: Reading, after: Reading) -> int | None:
    """Return the energy between two readings; a counter that fell has wrapped once."""
    rise = after.energy_uj - before.energy_uj
    if rise >= 0:
        return rise
    # The emulator's never wraps: it was loaded anew.
    if before.range_uj != after.range_uj or before.zone.startswith(_EMULATOR):
        return None
    return rise + before.range_uj


def _zone_energy(marks: Sequence[tuple[int, Reading]], role: str) -> ZoneEnergy:
    first = marks[0][1]
    rises = [_rise(before, after) for (_, before), (_, after) in pairwise(marks)]
    known = [rise for rise in rises if rise is not None]
    if not rises or len(known) < len(rises):
        return ZoneEnergy(first.zone, first.name, role, None, None)
    energy_mj = sum(known) / 1e3
    seconds = (marks[-1][0] - marks[0][0]) / 1e9
    return ZoneEnergy(
        first.zone, first.name, role, energy_mj, energy_mj / seconds if seconds else None
    )


def spent(marks: Iterable[tuple[int, str]]) -> list[ZoneEnergy]:
    """Return what each zone spent in a phase, in the order of the zones' names.

    Args:
        marks: time in ns and text of the phase's marks, in the order of time; those that are no
            readings are skipped. Energies between successive readings are added, so a phase may
            hold more than two.
    """
    found: dict[str, list[tuple[int, Reading]]] = {}
    for ts, text in marks:
        reading = parse(text)
        if reading:
            found.setdefault(reading.zone, []).append((ts, reading))
    firsts = [zone[0][1] for zone in found.values()]
    packages = {first.name for first in firsts if first.zone.startswith("intel-rapl:")}
    return [_zone_energy(found[zone], _role(found[zone][0][1], packages)) for zone in sorted(found)]


def _sum(values: Sequence[float | None]) -> float | None:
    """Add up; unknown if there is nothing, or if a part is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def totals(zones: Iterable[ZoneEnergy]) -> dict[str, float | None]:
    """Return the metrics of METRICS: sums over the zones that contain one another never."""
    zones = list(zones)
    values: dict[str, float | None] = {}
    for role, (energy, power) in METRICS.items():
        mine = [zone for zone in zones if zone.role == role]
        values[energy] = _sum([zone.energy_mj for zone in mine])
        values[power] = _sum([zone.power_mw for zone in mine])
    return values


def sources(zones: Iterable[ZoneEnergy]) -> list[str]:
    """Return one sentence for each role: which zones it was read from."""
    names: dict[str, list[str]] = {}
    for zone in zones:
        known = names.setdefault(zone.role, [])
        name = f"{zone.zone} ({zone.name})"
        if name not in known:
            known.append(name)
    return [
        f"{role} energy is that of {', '.join(found)}"
        if role in METRICS
        else f"not added, {role}: {', '.join(found)}"
        for role, found in sorted(names.items(), key=lambda item: item[0] not in METRICS)
    ]
