# SPDX-License-Identifier: GPL-2.0
"""Energies of zones and residencies of packages and power domains, where two dumps tell them."""

import re
from collections.abc import Iterator, Mapping

from cpuidle_lab.dump.periods import Period
from cpuidle_lab.recording.dumps.model import number

_ZONE = re.compile(r"/sys/class/powercap/([\w:.-]+)/energy_uj")
_DOMAIN = re.compile(r"/sys/kernel/debug/pm_genpd/([^/]+)/total_idle_time")
_SYSTEM = re.compile(r"/sys/devices/system/cpu/cpuidle/(low_power_idle_\w+)_residency_us")
_PACKAGE = "/sys/kernel/debug/pmc_core/package_cstate_show"


def _zone(files: Mapping[str, str], zone: str) -> str:
    return files.get(f"/sys/class/powercap/{zone}/name", zone)


def _totals(files: Mapping[str, str]) -> Iterator[tuple[tuple[str, str], float, float | None]]:
    """Yield name and unit, total, and the greatest total of each counter."""
    for path, text in files.items():
        value = number(text)
        if path == _PACKAGE:
            for name, count in re.findall(r"(Package C\w+)\s*:\s*(\d+)\b", text):
                yield (f"{name} residency", "counts"), float(count), None
        elif value is None:
            continue
        elif zone := _ZONE.fullmatch(path):
            most = number(files.get(path.replace("energy_uj", "max_energy_range_uj")))
            name = f"energy of {_zone(files, zone[1])} ({zone[1]})"
            yield (name, "J"), value / 1e6, most / 1e6 if most else None
        elif domain := _DOMAIN.fullmatch(path):
            yield (f"domain {domain[1]} idle", "s"), value / 1e3, None
        elif system := _SYSTEM.fullmatch(path):
            yield (f"{system[1]} residency", "s"), value / 1e6, None


def of(period: Period) -> dict[tuple[str, str], float]:
    """Return what was spent in a period, by name and unit; a counter that fell is left out.

    The counter of a zone begins again at 0 above its range, once at most between two dumps.
    """
    if period.begin is None or period.end is None:
        return {}
    before = {key: value for key, value, _ in _totals(period.begin.files)}
    found = {}
    for key, value, most in _totals(period.end.files):
        if key not in before:
            continue
        spent = value - before[key]
        if spent < 0 and most:
            spent += most
        if spent >= 0:
            found[key] = spent
    return found
