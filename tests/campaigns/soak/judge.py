# SPDX-License-Identifier: GPL-2.0
"""Conditions for a segment of a soak, and its verdict. Each bound has a reason here."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from statistics import median

from tests.campaigns.soak.samples import Record, Sample, Slot, parse
from tests.campaigns.storm import verdict

NS_PER_HOUR = 3600 * 10**9

# The first quarter of the samples is left out: caches fill, workers come.
WARM_UP = 4
# Medians of so many samples are compared, at the begin and at the end.
ENDS = 5
# By so much memory may rise. Of a cache: 32 objects of 64 bytes, or four objects where these are
# large, as the kernel's workers come and go. Of pages (KiB): a few stacks; what the kernel keeps.
RISE_BYTES = 2048
RISE_OBJECTS = 4
# Of these more: one gets a new slab while it is looked at; the other holds our own record's pages,
# and numbers of processes that are far apart.
RISES_BYTES = {"kmalloc-8": 8192, "radix_tree_node": 32768}
RISES_KIB = {"Pages": 1024, "KernelStack": 64, "VmallocUsed": 64, "Percpu": 64, "ModuleAreas": 0}
RISE_TASKS = 4
RISE_FILES = 64  # counted by the kernel in batches of 32 for each CPU

# Between the kernel's looks at the clock and ours, for each entry: some 150 instructions. And what
# other CPUs do there, whose turn it may be just then.
AROUND_ENTRY_NS = 200
TURNS_NS = 10**6
# A CPU holds this much when everything has been so for ever: PULSE * 8, and rounding.
TEO_METRIC = 8 * 1024 + 7
WTEO_SUM = 10000


@dataclass(frozen=True)
class Verdict:
    """Verdict on a segment.

    Attributes:
        name: of the segment.
        title: who decided in it, and for how long.
        failures: a sentence for each; none if all is well.
        hours: of virtual time between the first and the last sample.
        load: share of all CPUs' time that was busy then, in percent.
        operations: served by the modules.
        samples: taken.
        rises: by how much memory rose, per hour, the most first: name and bytes.
        dumps: state files that were checked.
        account_us: greatest difference of account and clock, on any CPU.
        energy_j: by the account.
        entries: into idle states.
        governors: hours for which each decided.
        wall_s: seconds that it took.
        date: of the run.
        kernel: version.
    """

    name: str
    title: str
    failures: list[str]
    hours: float
    load: float
    operations: int
    samples: int
    rises: list[tuple[str, float]]
    dumps: int
    account_us: float
    energy_j: float
    entries: int
    governors: dict[str, float]
    wall_s: int
    date: str
    kernel: str


def judge(folder: Path) -> Verdict:
    """Return the verdict on a finished segment.

    Args:
        folder: what its guest left, and soak.json.
    """
    about = json.loads((folder / "soak.json").read_text())
    failures = log_failures(
        (folder / "dmesg").read_text(errors="replace").partition("lab: script begins")[2],
        int((folder / "status").read_text()),
        (folder / "error").read_text().strip() if (folder / "error").exists() else "",
    )
    try:
        record = parse((folder / "samples").read_text())
    except (ValueError, OSError, IndexError, TypeError) as error:
        record = Record([], [], [])
        failures.append(f"the samples cannot be read: {error}")
    samples = record.samples
    hours = _hours(samples)
    if hours < 0.98 * about["hours"]:
        failures.append(f"samples of {hours:.2f} hours, not {about['hours']:g}")
    rises: list[tuple[str, float]] = []
    account_us = 0.0
    if len(samples) >= 2 * ENDS:
        said, rises = memory_failures(samples)
        failures += said
        said, account_us = account_failures(samples)
        failures += said
    failures += hint_failures(samples)
    failures += state_failures(record)
    first, last = (samples[0], samples[-1]) if samples else (None, None)
    return Verdict(
        name=folder.name.rpartition("-")[0],
        title=_title(about),
        failures=failures,
        hours=hours,
        load=load_percent(samples),
        operations=last.operations if last else 0,
        samples=len(samples),
        rises=rises,
        dumps=len(record.states),
        account_us=account_us,
        energy_j=(_zone(last) - _zone(first)) / 1e6 if first and last else 0,
        entries=_entries(last) - _entries(first) if first and last else 0,
        governors=governor_hours(record),
        wall_s=about["wall_s"],
        date=about["date"],
        kernel=about["kernel"],
    )


# -- the log and the hints ----------------------------------------------------


def log_failures(dmesg: str, status: int, error: str) -> list[str]:
    """Return what is wrong with a guest's log and end."""
    lines = dmesg.splitlines()
    first, _ = verdict.first_report(lines)
    found = [] if first is None else [f"the kernel reports: {lines[first]}"]
    return [*found, error or f"the script ends with {status}"] if status else found


def hint_failures(samples: Iterable[Sample]) -> list[str]:
    """Return where hints are not as many as there are tasks that have one."""
    return [
        f"{sample.sleepers} tasks have hints, and the recount says '{sample.recount}'"
        for sample in samples
        if sample.recount != f"agrees: {sample.sleepers} hints"
    ][:1]


# -- memory -------------------------------------------------------------------


def theil_sen(times: Sequence[float], values: Sequence[float]) -> float:
    """Return the median of the slopes between all pairs of points (Theil 1950, Sen 1968)."""
    points = zip(times, values, strict=True)
    return median(
        (b_value - a_value) / (b_time - a_time)
        for (a_time, a_value), (b_time, b_value) in combinations(points, 2)
    )


def rise(times: Sequence[float], values: Sequence[float]) -> float:
    """Return by how much a series rises, in its unit.

    Args:
        times: in any unit, ascending, at least 2.
        values: at these times.

    Returns:
        The greater of the trend (Theil-Sen) over all of the time, and the difference of the
        medians of the last samples and of the first.
    """
    trend = theil_sen(times, values) * (times[-1] - times[0])
    return max(trend, median(values[-ENDS:]) - median(values[:ENDS]))


def _series(samples: Sequence[Sample]) -> dict[str, tuple[list[float], float]]:
    """Return all that must be flat: values in bytes (or a number) and the bound, by name."""
    found: dict[str, tuple[list[float], float]] = {}
    for name in sorted({name for sample in samples for name in sample.slab}):
        sizes = [sample.slab.get(name, (0, 0)) for sample in samples]
        objects = [count for count, _ in sizes]
        if name == "vmap_area":  # areas given back are kept until they are many, with their gaps
            objects = [n - 2 * s.memory["LazyAreas"] for n, s in zip(objects, samples, strict=True)]
        size = max(size for _, size in sizes)
        values = [float(size * count) for count in objects]
        found[name] = values, RISES_BYTES.get(name, max(RISE_BYTES, RISE_OBJECTS * size))
    for name, kib in RISES_KIB.items():
        unit = 1 if name == "ModuleAreas" else 1024
        found[name] = [float(unit * _memory(s, name)) for s in samples], 1024 * kib
    found["Tasks"] = [float(s.memory["Tasks"]) for s in samples], RISE_TASKS
    found["Files"] = [float(s.memory["Files"]) for s in samples], RISE_FILES
    return found


def _memory(sample: Sample, name: str) -> int:
    if name != "Pages":
        return sample.memory[name]
    # Neither free, nor the page cache (our own record is in it), nor judged as slab.
    known = ("Free", "Cached", "Buffers", "Slab")
    return sample.memory["MemTotal"] - sum(sample.memory[each] for each in known)


def memory_failures(samples: Sequence[Sample]) -> tuple[list[str], list[tuple[str, float]]]:
    """Return what is not flat, and what rose most: bytes an hour, by name."""
    late = samples[len(samples) // WARM_UP :]
    times = [sample.at_ns / NS_PER_HOUR for sample in late]
    failures = []
    rises = []
    for name, (values, bound) in _series(late).items():
        much = rise(times, values)
        if much > bound:
            failures.append(
                f"{name} rises by {much:.0f} in {times[-1] - times[0]:.2f} hours, "
                f"{1000 * much / max(1, late[-1].operations - late[0].operations):.0f} "
                f"for 1000 operations; {bound:.0f} are allowed"
            )
        if name not in ("Tasks", "Files"):
            rises.append((name, much / (times[-1] - times[0])))
    return failures, sorted(rises, key=lambda each: -each[1])[:5]


# -- the energy account -------------------------------------------------------


def account_failures(samples: Sequence[Sample]) -> tuple[list[str], float]:
    """Return what is wrong with the account, and its greatest distance from the clock in us."""
    failures: list[str] = []
    worst_ns = 0.0
    accounts = [account for sample in samples for account in sample.accounts]
    for account in accounts:
        where = f"at {account.before_ns / NS_PER_HOUR:.3f} h on cpu{account.cpu}"
        total = 0
        for (cpu, name), slot in account.slots.items():
            total += slot.energy_uj
            if slot.energy_uj != energy_uj(slot):
                failures.append(
                    f"{where}: energy of cpu{cpu} {name} is {slot.energy_uj} uJ, "
                    f"not {energy_uj(slot)}"
                )
        if not account.zone_uj[0] <= total <= account.zone_uj[1]:
            failures.append(f"{where}: the zone says {account.zone_uj} uJ, the table {total}")
        names = [name for cpu, name in account.slots if cpu == account.cpu]
        for (time_us, usage), name in zip(account.kernel, names, strict=False):
            slot = account.slots[account.cpu, name]
            gap_ns = 1000 * time_us - slot.time_ns
            most_ns = AROUND_ENTRY_NS * usage + TURNS_NS
            if not -1000 <= gap_ns <= most_ns or slot.entries > usage:
                failures.append(
                    f"{where}: the kernel counts {time_us} us and {usage} entries in {name}, "
                    f"the account {slot.time_ns // 1000} and {slot.entries}"
                )
    for one, other in pairwise(accounts):
        failures += [
            f"cpu{cpu} {name} goes back from {slot} to {other.slots.get((cpu, name))}"
            for (cpu, name), slot in one.slots.items()
            if not _follows(slot, other.slots.get((cpu, name)))
        ]
        if other.zone_uj[0] < one.zone_uj[1]:
            failures.append(f"the zone goes back from {one.zone_uj[1]} to {other.zone_uj[0]} uJ")
    first = {account.cpu: account for account in samples[0].accounts}
    for account in accounts[len(first) :]:
        begin = first[account.cpu]
        least = account.before_ns - begin.after_ns
        most = account.after_ns - begin.before_ns
        passed = _time_ns(account.slots, account.cpu) - _time_ns(begin.slots, account.cpu)
        worst_ns = max(worst_ns, abs(passed - (least + most) / 2))
        if not least <= passed <= most:
            failures.append(
                f"cpu{account.cpu} has {passed} ns in its account where "
                f"{least} to {most} ns have passed"
            )
    return failures, worst_ns / 1000


def energy_uj(slot: Slot) -> int:
    """Return the energy of a slot in uJ: time x power + entries x energy of one."""
    return slot.time_ns * slot.mw // 10**6 + slot.entries * slot.entry_nj // 1000


def _follows(slot: Slot, later: Slot | None) -> bool:
    return later is not None and (
        (later.mw, later.entry_nj) == (slot.mw, slot.entry_nj)
        and later.time_ns >= slot.time_ns
        and later.entries >= slot.entries
    )


def _time_ns(slots: dict[tuple[int, str], Slot], cpu: int) -> int:
    return sum(slot.time_ns for (each, _), slot in slots.items() if each == cpu)


# -- what the governors have learned ------------------------------------------


def state_failures(record: Record) -> list[str]:
    """Return what is outside of its bounds in the governors' state files."""
    rules = {"wteo": wteo_failures, "teo_ng": teo_failures, "menu_ng": menu_failures}
    failures = []
    for name, text in record.states:
        failures += [f"{name}: {said}" for said in rules[name](text)]
    if not record.states:
        failures.append("no state file was read")
    return failures[:10]


def wteo_failures(text: str) -> list[str]:
    """Return which rows do not sum to 10000, or have a weight out of range."""
    states = len(re.findall(r"\bs\d+\b", next(iter(re.findall(r"^row .*", text, re.M)), "")))
    if not states:
        return ["the table is missing"]
    failures = []
    for line in re.findall(r"^ *\d+ .*\|.*", text, re.M):
        head, evidence = line.split("|")
        weights = [int(word) for word in head.split()[-states - 1 :]]
        if sum(weights) != WTEO_SUM or not all(0 <= each <= WTEO_SUM for each in weights):
            failures.append(f"the row '{line.strip()}' sums to {sum(weights)}")
        if int(evidence.split()[0]) < 0:
            failures.append(f"the row '{line.strip()}' has less than no evidence")
    return failures


def teo_failures(text: str) -> list[str]:
    """Return which metrics exceed what a decay by an eighth can hold."""
    bins = [
        (int(hits), int(intercepts))
        for hits, intercepts in re.findall(r"^ *\d+ +\d+ +(\S+) +(\S+)$", text, re.M)
    ]
    named = dict(re.findall(r"^(total|tick \S+|short idles) +(\S+)$", text, re.M))
    if not bins or len(named) != 4:
        return ["the table is missing"]
    values = [value for each in bins for value in each]
    single = [*values, *(int(value) for name, value in named.items() if name != "total")]
    failures = [
        f"a metric is {value}, not 0 to {TEO_METRIC}"
        for value in single
        if not 0 <= value <= TEO_METRIC
    ]
    if int(named["total"]) != sum(values):
        failures.append(f"the total is {named['total']}, the bins sum to {sum(values)}")
    return failures


def menu_failures(text: str) -> list[str]:
    """Return whether window and correction factors are out of their bounds."""
    window = re.search(r"(\d+) of (\d+) known:([\d\s]*)\n", text)
    factors = [int(value) for value in re.findall(r"^  (?:[<l].{7}) +(-?\d+)$", text, re.M)]
    if not window or len(factors) != 6:
        return ["the table is missing"]
    known, size = int(window[1]), int(window[2])
    intervals = [int(word) for word in window[3].split()]
    failures = [f"a factor is {each}, not 0 to 1000" for each in factors if not 0 <= each <= 1000]
    if not (known <= size and 2 <= size <= 128 and len(intervals) == known):
        failures.append(f"{len(intervals)} intervals, {known} of {size} known")
    if intervals != sorted(intervals):
        failures.append("the intervals are not in order")
    typical = re.search(r"^typical interval: (\d+) us", text, re.M)
    if typical and not (intervals and int(typical[1]) <= intervals[-1]):
        failures.append(f"the typical interval is {typical[1]} us, more than any")
    return failures


# -- what it came to ----------------------------------------------------------


def governor_hours(record: Record) -> dict[str, float]:
    """Return for how many hours each governor decided, between first and last sample."""
    if not record.samples:
        return {}
    begin, end = record.samples[0].at_ns, record.samples[-1].at_ns
    found: Counter[str] = Counter()
    changes = [*record.current, (end, "", "")]
    for (from_ns, name, base), (to_ns, _, _) in pairwise(changes):
        title = f"gate over {base}" if name == "gate" else name
        found[title] += max(0, min(to_ns, end) - max(from_ns, begin))
    return {name: ns / NS_PER_HOUR for name, ns in sorted(found.items()) if ns}


def load_percent(samples: Sequence[Sample]) -> float:
    """Return the busy share of all CPUs' time between the first and the last sample."""
    if len(samples) < 2:
        return 0
    both = [samples[0].accounts[0], samples[-1].accounts[0]]
    busy = [sum(s.time_ns for (_, name), s in a.slots.items() if name == "busy") for a in both]
    cpus = len({cpu for cpu, _ in both[0].slots})
    return 100 * (busy[1] - busy[0]) / (cpus * (both[1].before_ns - both[0].before_ns))


def _hours(samples: Sequence[Sample]) -> float:
    return (samples[-1].at_ns - samples[0].at_ns) / NS_PER_HOUR if samples else 0


def _zone(sample: Sample) -> int:
    return sample.accounts[0].zone_uj[0]


def _entries(sample: Sample) -> int:
    slots = sample.accounts[0].slots
    return sum(slot.entries for (_, name), slot in slots.items() if name not in ("busy", "offline"))


def _title(about: dict[str, object]) -> str:
    over = f" over {about['base']}" if about["governor"] == "gate" else ""
    return f"{about['governor']}{over}, {about['hours']:g} h at {about['load']:g} %"


def line(found: Verdict) -> str:
    """Return a segment for people: one line, and one for each failure."""
    name, bytes_per_hour = found.rises[0] if found.rises else ("nothing", 0)
    said = (
        f"  {found.name}  {found.title:<34}{found.load:6.2f} % busy"
        f"{found.operations:>9} operations{found.entries:>9} entries"
        f"  rises most: {name} {bytes_per_hour:+.0f} B/h"
        f"  account off by {found.account_us:.0f} us  {found.wall_s} s"
    )
    return "\n".join([said, *(f"      {failure}" for failure in found.failures)])


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return what all segments came to, for people."""
    hours: Counter[str] = Counter()
    for each in verdicts:
        hours.update(each.governors)
    bad = sum(bool(each.failures) for each in verdicts)
    total = sum(each.hours for each in verdicts)
    lines = [f"  {name:<20}{value:7.2f} h" for name, value in sorted(hours.items())]
    lines.append(
        f"{total:.1f} virtual hours in {len(verdicts)} boots of their own: "
        + (f"{bad} of them failed" if bad else "nothing lost")
    )
    return "\n".join(lines)
