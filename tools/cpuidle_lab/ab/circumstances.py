# SPDX-License-Identifier: GPL-2.0
"""Circumstances of energy and speed: frequency, turbo, SMT, microcode, temperature.

All of it is stated beside a result, nothing is changed. Needs the standard library only.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cpuidle_lab.host.machine import Host
from cpuidle_lab.host.sysfs import Tree, cpu_list

_CPU = "/sys/devices/system/cpu"
_CPUFREQ = f"{_CPU}/cpufreq"
_THERMAL = "/sys/class/thermal"
_HWMON = "/sys/class/hwmon"

# Sensors of the CPU itself: a thermal zone's type, a hwmon device's name.
_THERMAL_TYPES = ("x86_pkg_temp", "cpu-thermal")
_HWMON_NAMES = ("coretemp", "k10temp", "zenpower", "cpu_thermal")

# These governors do not follow the load.
_STEADY = ("performance", "powersave", "userspace")
# ... but with drivers that leave the choice to the hardware powersave is one that does.
_AUTONOMOUS = ("intel_pstate", "amd-pstate-epp")


@dataclass(frozen=True)
class Frequency:
    """Frequency policies of the kernel that have the same settings.

    Attributes:
        cpus: number of policies.
        driver: cpufreq driver.
        governor: cpufreq governor.
        min_khz, max_khz: its limits; None if unknown.
    """

    cpus: int
    driver: str
    governor: str
    min_khz: int | None
    max_khz: int | None

    @property
    def is_steady(self) -> bool:
        """The frequency does not follow the load, as far as the kernel decides on it."""
        if self.min_khz is not None and self.min_khz == self.max_khz:
            return True
        if self.governor == "powersave" and self.driver in _AUTONOMOUS:
            return False
        return self.governor in _STEADY

    def __str__(self) -> str:
        limits = "…".join(
            "?" if khz is None else f"{khz / 1e3:.0f}" for khz in (self.min_khz, self.max_khz)
        )
        return f"{self.driver}/{self.governor} {limits} MHz"


@dataclass(frozen=True)
class Circumstances:
    """A machine's settings.

    Attributes:
        cpu: its model; "" if unknown, as in the following.
        cpus: those that are online, as a list of ranges.
        microcode: its revision.
        frequency: settings of the frequency policies, without duplicates; empty if unknown.
        turbo: whether frequencies above the nominal one are allowed; None if unknown.
        smt: the kernel's word on hardware threads: on, off, forceoff, notsupported, …
        idle_driver: cpuidle driver.
        idle_states: "NAME EXIT_LATENCY/TARGET_RESIDENCY us", shallowest first, with their CPUs
            where these differ.
        command_line: the kernel's.
        module: version of cpuidle_lab's module; "" if it is not loaded.
    """

    cpu: str
    cpus: str
    microcode: str
    frequency: tuple[Frequency, ...]
    turbo: bool | None
    smt: str
    idle_driver: str
    idle_states: tuple[str, ...]
    command_line: str
    module: str


def _cpuinfo(tree: Tree, key: str) -> str:
    match = re.search(rf"^{key}\s*: (.*)$", tree.read("/proc/cpuinfo") or "", re.MULTILINE)
    return match[1].strip() if match else ""


def _number(tree: Tree, name: str) -> int | None:
    text = tree.read(name) or ""
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None


def _frequencies(tree: Tree) -> tuple[Frequency, ...]:
    found: dict[tuple[str, str, int | None, int | None], int] = {}
    for policy in tree.names(_CPUFREQ):
        directory = f"{_CPUFREQ}/{policy}"
        driver = tree.read(f"{directory}/scaling_driver")
        if driver is None:
            continue
        key = (
            driver,
            tree.read(f"{directory}/scaling_governor") or "?",
            _number(tree, f"{directory}/scaling_min_freq"),
            _number(tree, f"{directory}/scaling_max_freq"),
        )
        found[key] = found.get(key, 0) + 1
    return tuple(Frequency(count, *key) for key, count in found.items())


def _turbo(tree: Tree) -> bool | None:
    no_turbo = _number(tree, f"{_CPU}/intel_pstate/no_turbo")
    if no_turbo is not None:
        return no_turbo == 0
    boost = _number(tree, f"{_CPUFREQ}/boost")
    return None if boost is None else boost != 0


def _idle_states(machine: Host) -> tuple[str, ...]:
    kinds = machine.idle_states()
    return tuple(
        f"CPU {cpu_list(cpus)}: {state}" if len(kinds) > 1 else str(state)
        for states, cpus in kinds.items()
        for state in states
    )


def look(machine: Host) -> Circumstances:
    """Return the settings of a machine; what cannot be read is unknown."""
    tree = machine.tree
    return Circumstances(
        cpu=_cpuinfo(tree, "model name"),
        cpus=tree.read(f"{_CPU}/online") or "",
        microcode=tree.read(f"{_CPU}/cpu0/microcode/version") or _cpuinfo(tree, "microcode"),
        frequency=_frequencies(tree),
        turbo=_turbo(tree),
        smt=tree.read(f"{_CPU}/smt/control") or "",
        idle_driver=machine.driver() or "",
        idle_states=_idle_states(machine),
        command_line=" ".join(machine.command_line()),
        module=machine.module_version() or "",
    )


def parse(value: Mapping[str, Any]) -> Circumstances:
    """Return what `asdict` made JSON of.

    Raises:
        KeyError, TypeError, ValueError: it did not.
    """
    return Circumstances(
        cpu=str(value["cpu"]),
        cpus=str(value["cpus"]),
        microcode=str(value["microcode"]),
        frequency=tuple(map(_parse_frequency, value["frequency"])),
        turbo=None if value["turbo"] is None else bool(value["turbo"]),
        smt=str(value["smt"]),
        idle_driver=str(value["idle_driver"]),
        idle_states=tuple(map(str, value["idle_states"])),
        command_line=str(value["command_line"]),
        module=str(value["module"]),
    )


def _parse_frequency(value: Mapping[str, Any]) -> Frequency:
    limits = (value["min_khz"], value["max_khz"])
    low, high = (None if khz is None else int(khz) for khz in limits)
    return Frequency(int(value["cpus"]), str(value["driver"]), str(value["governor"]), low, high)


def temperature_c(tree: Tree) -> float | None:
    """Return the temperature of the hottest CPU sensor in degrees Celsius; None without any."""
    zones = [f"{_THERMAL}/{name}" for name in tree.names(_THERMAL)]
    names = [f"{zone}/temp" for zone in zones if tree.read(f"{zone}/type") in _THERMAL_TYPES]
    if not names:
        devices = [f"{_HWMON}/{name}" for name in tree.names(_HWMON)]
        names = [f"{item}/temp1_input" for item in devices if _is_cpu_sensor(tree, item)]
    return max((value / 1e3 for value in _known(tree, names)), default=None)


def _is_cpu_sensor(tree: Tree, device: str) -> bool:
    return tree.read(f"{device}/name") in _HWMON_NAMES


def _known(tree: Tree, names: Iterable[str]) -> list[int]:
    values = (_number(tree, name) for name in names)
    return [value for value in values if value is not None]


def warnings(here: Circumstances) -> list[str]:
    """Return a sentence for each setting that blurs a comparison."""
    found = [
        f"the frequency follows the load ({item}): cpupower frequency-set -g performance"
        for item in here.frequency
        if not item.is_steady
    ]
    if here.turbo:
        found.append("turbo is on, so the frequency depends on temperature and on the other CPUs")
    return found


def changes(before: Circumstances, after: Circumstances) -> list[str]:
    """Return the names of the settings that were changed meanwhile."""
    old, new = asdict(before), asdict(after)
    return [name for name in old if old[name] != new[name]]
