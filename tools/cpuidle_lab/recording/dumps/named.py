# SPDX-License-Identifier: GPL-2.0
"""Dumps whose values stand beside the names of their files, or below them.

    grep -r . /sys/devices/system/cpu/cpu*/cpuidle      PATH:TEXT, with -n PATH:1:TEXT
    head and tail, of several files                     ==> PATH <==, TEXT below
    echo, cat in a loop                                 PATH TEXT; PATH, TEXT below

Other lines, such as a shell's prompt and commands, are no part of a dump.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording.dumps.model import CPUS, Moment, cpus_of, place_of

_STATE = r"state\d{1,3}/(?:s2idle/)?\w+"
_CPU = r"cpuidle/driver/name|topology/\w+|cpu_capacity|power/pm_qos_resume_latency_us"
_MACHINE = (
    r"proc/sys/kernel/osrelease|proc/uptime|devices/system/cpu/online|devices/cpu_\w+/cpus"
    r"|cpuidle/(?:current_\w+|available_governors|low_power_idle_\w+)|dev/cpu_\w+_latency"
    r"|boot/config-[\w.+~-]+|powercap/[\w:.-]+/\w+|pm_genpd/[\w:.,@-]+/\w+|pmc_core/\w+"
)
_PATH = rf"(?:[^\s:=]*?/)?(?:(?:cpu\d{{1,5}}/cpuidle/)?{_STATE}|cpu\d{{1,5}}/(?:{_CPU})|{_MACHINE})"
_BESIDE = re.compile(rf"({_PATH})(?:\s*[:=]\s*|\s+)(?!<==)(\S.*)")
_ABOVE = re.compile(rf"(?:==> |.*\b(?:cat|head|more) )?({_PATH})(?: <==)?:?")

# Absolute beginnings of paths that may be given from another folder on.
_ROOTS = (("cpuidle/", f"{CPUS}/cpuidle/"), ("devices/", "/sys/devices/"), ("proc/", "/proc/"),
          ("dev/", "/dev/"), ("boot/", "/boot/"), ("powercap/", "/sys/class/powercap/"),
          ("pm_genpd/", "/sys/kernel/debug/pm_genpd/"),
          ("pmc_core/", "/sys/kernel/debug/pmc_core/"))  # fmt: skip

# CPU, or None where no path tells it; state, or None; path below, or absolute.
_Key = tuple[int | None, int | None, str]


def _key(path: str) -> _Key:
    if place := place_of(path):
        return place
    if found := re.search(r"state(\d+)/((?:s2idle/)?\w+)$", path):
        return None, int(found[1]), found[2]
    tail = re.search(_MACHINE + "$", path)
    for begin, root in _ROOTS if tail else ():
        if tail and tail[0].startswith(begin):
            return None, None, root + tail[0].removeprefix(begin)
    return None, None, path


def _readings(lines: Sequence[str]) -> Iterator[tuple[_Key, str]]:
    above: _Key | None = None
    for line in lines:
        if found := _BESIDE.fullmatch(line):
            above = None
            yield _key(found[1]), found[2]
        elif found := _ABOVE.fullmatch(line):
            above = _key(found[1])
        elif above and line:
            yield above, line
            # Files of CPUs have one line.
            above = None if above[:2] != (None, None) else above
        else:
            above = None if not line and above and above[:2] == (None, None) else above


def count(lines: Sequence[str]) -> int:
    """Return how many values of idle states stand beside or below a name."""
    return sum(key[1] is not None for key, _ in _readings(lines))


def _moments(lines: Sequence[str]) -> list[dict[_Key, str]]:
    """Return the values of each moment; one that occurs again begins another."""
    found: list[dict[_Key, str]] = [{}]
    cpu = 0
    seen: set[_Key] = set()
    for key, text in _readings(lines):
        if key[:2] == (None, None):
            path = key[2]
            if (key in found[-1]) and not path.startswith(("/sys/kernel/debug", "/dev")):
                continue
            found[-1][key] = f"{found[-1][key]}\n{text}" if key in found[-1] else text
            continue
        if key[0] is None:  # each CPU begins with a value that occurs again
            cpu += key in seen
            seen = {key} if key in seen else seen | {key}
            key = cpu, *key[1:]
        if key in found[-1]:
            found.append({})
        found[-1][key] = text
    return [found[0], *(new for old, new in pairwise(found)
                        if any(old.get(key) != text for key, text in new.items()))]  # fmt: skip


def _without_numbers(texts: dict[_Key, str]) -> dict[_Key, str]:
    """Return values without the number of their line, where all have it: 1:TEXT."""
    if all(re.match(r"\d+:", text) for text in texts.values()):
        return {key: text.partition(":")[2].strip() for key, text in texts.items()}
    return texts


def read(lines: Sequence[str]) -> tuple[Moment, ...]:
    """Return the moments of such a dump.

    Args:
        lines: of the file.

    Raises:
        UserError: some CPUs have numbers, and others none.
    """
    told = {key[0] is not None for key, _ in _readings(lines) if key[1] is not None}
    if len(told) > 1:
        raise UserError("tells the CPUs of some idle states, and not those of others")
    found = []
    for texts in map(_without_numbers, _moments(lines)):
        states: dict[int, dict[int, dict[str, str]]] = {}
        facts: dict[int, dict[str, str]] = {}
        files: dict[str, str] = {}
        for (cpu, state, path), text in texts.items():
            if cpu is None:
                files[path] = text
            elif state is None:
                facts.setdefault(cpu, {})[path] = text
            else:
                states.setdefault(cpu, {}).setdefault(state, {})[path] = text
        cpus, notes = cpus_of(states, facts)
        found.append(Moment(cpus, files, numbered=True in told, notes=tuple(notes)))
    return tuple(found)
