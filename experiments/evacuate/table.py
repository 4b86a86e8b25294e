# SPDX-License-Identifier: GPL-2.0
"""Reads what the guest left."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

METHODS = ("module", "cpuset", "hotplug")
PERCENTAGES = (87, 75, 62, 50)
CPUS = 8
NS_PER_S = 1_000_000_000
PROGRAM = "records"

# ebizzy -s 4096 -t 8 -S 30 on two quad-core packages: records and power, relative to 100 %.
REPORTED = {
    100: (8, 1.00, 1.00),
    87: (7, 1.03, 0.98),
    75: (6, 1.06, 0.95),
    62: (5, 1.26, 0.91),
    50: (4, 1.15, 0.86),
}


@dataclass(frozen=True)
class Point:
    """A run of the program.

    Attributes:
        records_per_s: records a second.
        power_mw: modelled power of the CPUs, mW.
        machine_mw: the same with the packages.
    """

    records_per_s: float
    power_mw: float
    machine_mw: float


@dataclass(frozen=True)
class Change:
    """One evacuation, as a trace tells it; times in ms after the first write began.

    Attributes:
        written_ms: the last write returned.
        effect_ms: the last of the CPUs that go was idle, or offline, for the first time.
        left_ms: the program last ran on one of them; 0 if it never did.
        returned_ms: from the first write that gives the CPUs back to the return of the last one.
    """

    written_ms: float
    effect_ms: float
    left_ms: float
    returned_ms: float


@dataclass
class Found:
    """All that one boot came to.

    Attributes:
        points: by method, percentage and number of threads.
        changes: by method and percentage.
        p99_us: cyclictest on the CPUs that stay, by method, us.
    """

    points: dict[tuple[str, int, int], Point] = field(default_factory=dict)
    changes: dict[tuple[str, int], Change] = field(default_factory=dict)
    p99_us: dict[str, int] = field(default_factory=dict)


def read_points(output: str) -> dict[tuple[str, int, int], Point]:
    """Return the measurements that the guest printed."""
    points = {}
    for line in output.splitlines():
        if not line.startswith("cell "):
            continue
        method, *numbers = line.split()[1:]
        percent, threads, records, ns, uj, packages_uj = map(int, numbers)
        powers = ((uj - packages_uj) * 1e6 / ns, uj * 1e6 / ns)
        points[method, percent, threads] = Point(records * NS_PER_S / ns, *powers)
    return points


# trace-cmd writes a switch in either way: "records:12 [120] R ==> ...", "prev_comm=records ...".
RUNS = re.compile(rf"(^|==> |_comm=){PROGRAM}[: ]")
EVENT = re.compile(r"\[(\d+)\].*? (\d+\.\d+): +(\w+): +(.*)")


def read_changes(report: Iterable[str]) -> dict[tuple[str, int], Change]:
    """Return what the trace tells of each evacuation."""
    changes: dict[tuple[str, int], Change] = {}
    key: tuple[str, int] | None = None
    begin_s = back_s = written_ms = effect_ms = left_ms = 0.0
    missing: set[int] = set()
    for match in filter(None, map(EVENT.search, report)):
        cpu, time_s, event, text = int(match[1]), float(match[2]), match[3], match[4]
        if event == "print":
            words = text.split(": ", 1)[-1].split()
            if len(words) != 3 or words[1] not in METHODS:
                continue
            what, method, percent = words[0], words[1], int(words[2])
            if what == "begin":
                key, begin_s = (method, percent), time_s
                written_ms = effect_ms = left_ms = 0.0
                missing = set(range(CPUS - gone(percent), CPUS))
            elif what == "written":
                written_ms = 1e3 * (time_s - begin_s)
                if method == "hotplug":
                    effect_ms, missing = written_ms, set()
            elif what == "end":
                key = None
            elif what == "back":
                back_s = time_s
            elif what == "returned" and not missing:
                # The guest waits for 50 ms before this mark.
                returned_ms = 1e3 * (time_s - back_s) - 50
                changes[method, percent] = Change(written_ms, effect_ms, left_ms, returned_ms)
        elif key is None or cpu < CPUS - gone(key[1]):
            continue
        elif event == "cpu_idle" and "state=4294967295" not in text and cpu in missing:
            missing.discard(cpu)
            effect_ms = 1e3 * (time_s - begin_s)
        elif event == "sched_switch" and RUNS.search(text):
            left_ms = 1e3 * (time_s - begin_s)
    return changes


def gone(percent: int) -> int:
    """Return how many of the CPUs go at a percentage."""
    return CPUS - REPORTED[percent][0]


def read_p99(text: str) -> int:
    """Return the 99th percentile of cyclictest's histogram over all threads, us."""
    rows = [
        (int(line.split()[0]), sum(map(int, line.split()[1:])))
        for line in text.splitlines()
        if re.match(r"\d{6} \d", line)
    ]
    total = sum(count for _, count in rows)
    seen = 0
    for us, count in rows:
        seen += count
        if seen >= 0.99 * total:
            return us
    return 0


def read(output: str, files: Path) -> Found:
    """Return all that the guest left.

    Args:
        output: of its script.
        files: folder of its results.
    """
    found = Found(read_points(output))
    with (files / "report").open(errors="replace") as report:
        found.changes = read_changes(report)
    for method in METHODS:
        found.p99_us[method] = read_p99((files / f"cyclictest-{method}").read_text())
    return found
