# SPDX-License-Identifier: GPL-2.0
"""The idle states that a kernel's own sources state, read at use time from Debian's linux-source.

intel_idle: every table of drivers/idle/intel_idle.c. dts: every list of idle states that a CPU, or
the power domain of a CPU, has in the arm64 device trees. Domains: those of CPUs in these trees.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cpuidle_lab.base import apt
from cpuidle_lab.base.cache import CACHE
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.states import device_trees
from cpuidle_lab.states.device_trees import Found
from cpuidle_lab.states.linux_source import DEFAULT_SUITE, NEWEST, SUITES, unpack

INTEL_IDLE, DTS = "intel_idle", "dts"

# Changes with the way the tables are read, so that a cached list is made again.
_FORMAT = 2

_SOURCE = "latencies and target residencies: device tree of Linux {}; powers are modelled"

State = tuple[str, int, int]


@dataclass(frozen=True)
class Tables:
    """State tables of a kernel's sources.

    Attributes:
        package_version: of the package that they are from.
        tables: by "intel_idle" and "dts", by name: name, exit latency (us) and target residency
            (us) of each state. A polling state is POLL.
        domains: of CPUs, by the name of the device tree; each after those within it.
    """

    package_version: str
    tables: Mapping[str, Mapping[str, tuple[State, ...]]]
    domains: Mapping[str, list[Found]] = field(default_factory=dict)


# ---- intel_idle.c ----

_TABLE = re.compile(r"struct cpuidle_state (\w+?)_cstates\[\][^=]*=\s*\{(.*?)\n\};", re.DOTALL)
_STATE = re.compile(r"\{([^{}]*)\}")


def _member(text: str, name: str) -> str | None:
    found = re.search(rf"\.{name}\s*=\s*\"?([\w.-]+)\"?", text)
    return found[1] if found else None


def read_intel_idle(text: str) -> dict[str, tuple[State, ...]]:
    """Return the tables of intel_idle.c by name ("skx"), with the core's polling state.

    Args:
        text: the source.
    """
    found = {}
    for name, body in _TABLE.findall(text):
        states: list[State] = [("POLL", 0, 0)]
        for state in _STATE.findall(body):
            label = _member(state, "name")
            latency, residency = (_member(state, key) for key in ("exit_latency",
                                                                  "target_residency"))  # fmt: skip
            if label and latency and residency:
                states.append((label, int(latency), int(residency)))
        if len(states) > 1:
            found[name] = tuple(states)
    return found


# ---- Device trees ----

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_NODE = re.compile(r"(?:([\w]+)\s*:\s*)?([\w,.@-]+)\s*\{([^{}]*\"arm,idle-state\"[^{}]*)\}")
_LISTS = re.compile(r"\b(?:cpu|domain)-idle-states\s*=\s*([^;]*);")
_WFI: State = ("WFI", 1, 1)


def _cell(body: str, name: str) -> int | None:
    found = re.search(rf"(?<![\w-]){name}\s*=\s*<\s*(0x[0-9a-fA-F]+|\d+)\s*>", body)
    return int(found[1], 0) if found else None


def _dts_state(name: str, body: str) -> State | None:
    residency = _cell(body, "min-residency-us")
    wakeup = _cell(body, "wakeup-latency-us")
    entry, leave = _cell(body, "entry-latency-us"), _cell(body, "exit-latency-us")
    # As the kernel: the wake-up latency, else the latencies of entry and exit together.
    latency = wakeup if wakeup is not None else None
    if latency is None and entry is not None and leave is not None:
        latency = entry + leave
    if latency is None or residency is None:
        return None
    label = re.search(r"idle-state-name\s*=\s*\"([^\"]+)\"", body)
    return (label[1] if label else name, latency, residency)


def read_dts(text: str, name: str) -> dict[str, tuple[State, ...]]:
    """Return the lists of idle states of a device tree, by its name and a number.

    Args:
        text: the file.
        name: its stem.
    """
    text = _COMMENT.sub("", text)
    states: dict[str, State] = {}
    for label, node, body in _NODE.findall(text):
        state = _dts_state(node, body)
        if state and label:
            states[label] = state
    lists: dict[tuple[State, ...], None] = {}
    for value in _LISTS.findall(text):
        used = re.findall(r"&(\w+)", value)
        if used and all(label in states for label in used):
            lists[(_WFI, *(states[label] for label in used))] = None
    if not lists and states:
        lists[(_WFI, *states.values())] = None
    many = len(lists) > 1
    return {f"{name}-{n}" if many else name: each for n, each in enumerate(lists, start=1)}


# ---- From Debian ----


def _read(folder: Path) -> tuple[dict[str, dict[str, tuple[State, ...]]], dict[str, list[Found]]]:
    """Return the tables, and the domains of CPUs."""
    intel = folder / "intel_idle.c"
    trees: dict[str, tuple[State, ...]] = {}
    domains: dict[str, list[Found]] = {}
    for path in sorted(folder.glob("*.dts*")):
        text = path.read_text(errors="replace")
        if "idle-state" in text:
            trees |= read_dts(text, path.stem)
            if found := device_trees.read(text, ""):
                domains[path.stem] = found
    text = intel.read_text() if intel.is_file() else ""
    return {INTEL_IDLE: read_intel_idle(text), DTS: trees}, domains


def fetch(version: str = NEWEST, cache: Path = CACHE) -> Tables:
    """Return the tables of a kernel; its sources are downloaded if they are not in the cache.

    Args:
        version: of the kernel, two numbers.
        cache: directory to keep things in; only the tables stay there.

    Raises:
        UserError: Debian has no such kernel, the download failed, or its sources have no tables.
    """
    folder = cache / "linux-source" / f"{version}-tables"
    kept = folder / f"tables-{_FORMAT}.json"
    if not kept.is_file():  # a whole one needs no lock, which another user may not take
        with apt.locked(folder):
            if not kept.is_file():
                _fetch_into(folder, kept, version, cache)
    found = json.loads(kept.read_text(encoding="utf-8"))
    source = _SOURCE.format(found["package_version"])
    return Tables(
        found["package_version"],
        {
            kind: {name: tuple((n, int(e), int(t)) for n, e, t in states)
                   for name, states in tables.items()}
            for kind, tables in found["tables"].items()
        },
        {name: device_trees.of_json(told, source) for name, told in found["domains"].items()},
    )  # fmt: skip


def _fetch_into(folder: Path, kept: Path, version: str, cache: Path) -> None:
    suite = SUITES.get(version, DEFAULT_SUITE)
    (deb,) = apt.download(
        [f"linux-source-{version}"], suite, folder, cache_dir=cache / "apt" / suite
    )
    apt.say_on_stderr(f"reading the idle states in {deb.name}")
    files = folder / "files"
    files.mkdir(exist_ok=True)
    wanted = [f"linux-source-{version}/drivers/idle/intel_idle.c",
              f"linux-source-{version}/arch/arm64/boot/dts/*.dts*"]  # fmt: skip
    unpack(deb, version, files, ["--wildcards", *wanted])
    tables, domains = _read(files)
    package_version = deb.name.split("_")[1].replace("%3a", ":")
    deb.unlink()
    for path in files.iterdir():
        path.unlink()
    files.rmdir()
    if not tables[INTEL_IDLE] or not tables[DTS]:
        raise UserError(f"linux-source-{version} has no idle states where they are expected")
    temporary = kept.with_suffix(".new")
    told = {name: device_trees.as_json(each) for name, each in domains.items()}
    text = json.dumps({"package_version": package_version, "tables": tables, "domains": told})
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(kept)
