# SPDX-License-Identifier: GPL-2.0
"""Target 4: instructions of a decision, memory of a CPU, and whether a decision divides."""

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import which
from statistics import fmean

from cpuidle_lab.base.cache import TOP, digest
from cpuidle_lab.base.files import scratch
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.tables import OPEN, Cell, Section, Table, Verdict, verdict
from cpuidle_lab.recording import state_tables
from cpuidle_lab.recording.columns import Columns, sliced
from cpuidle_lab.replay import instructions
from cpuidle_lab.replay.candidates import Candidate, parse
from cpuidle_lab.replay.library import STATE_MAX
from cpuidle_lab.states.linux_source import NEWEST
from cpuidle_lab.states.table import StateTable
from experiments.memo import Memo, sources
from experiments.wteo.footprint import footprints
from experiments.wteo.streams import HZ, StudyIntervals, shortened

PART = "cost"
TITLE = "Cost of a decision"

REFERENCE = f"teo@{NEWEST}"
# Most that is promised: instructions relative to the reference's, by number of states; and bytes.
RATIOS = {4: 1.10, 10: 0.83}
BYTES = {7: 4096, 10: 16384}
# Cache lines of its state that a decision touches, on average: mainline's menu touches 5.3.
LINES = {4: 5.0}

SAMPLE = 2000

_US = 1000


def ten_states() -> StateTable:
    """Return a table with as many states as a governor may meet: skl's and one deeper still."""
    base = state_tables.find("skl", HZ)
    return replace(
        base,
        names=(*base.names, "C10+"),
        exit_latency_ns=(*base.exit_latency_ns, 1500 * _US),
        target_residency_ns=(*base.target_residency_ns, 15_000 * _US),
        power_uw=(*base.power_uw, 10_000),
        polling=(*base.polling, False),
    )


def tables() -> dict[str, StateTable | None]:
    """Return the state tables on which the corpus is played; None is the recorded one."""
    four = shortened(state_tables.find("skx", HZ), 4)
    return {f"{four.count} states": four, f"{STATE_MAX} states": ten_states(), "recorded": None}


def middle(stream: StudyIntervals, sample: int) -> tuple[StateTable, Columns]:
    """Return `sample` intervals from the middle of the CPU that has most of them."""
    cpu = max(stream.intervals, key=lambda cpu: len(stream.intervals[cpu]["flags"]))
    part = stream.intervals[cpu]
    first = max(0, len(part["flags"]) - sample) // 2
    return stream.machines[cpu], sliced(part, first, first + sample)


@dataclass(frozen=True)
class _Job:
    table: str
    stream: str
    who: Candidate
    machine: StateTable
    chunk: Columns

    @property
    def key(self) -> str:
        """Hash of what the count depends on."""
        parts: list[str | bytes] = [column.tobytes() for column in self.chunk.values()]
        values = self.who.governor.values(dict(self.who.settings))
        spec = self.who.governor.spec
        return digest(["cost", sources(spec), spec, repr(values), repr(self.machine), *parts])

    def count(self) -> float | None:
        """Return the mean instructions of a decision."""
        settings = dict(self.who.settings)
        return instructions.of_intervals(self.who.governor, self.machine, self.chunk, settings)


def _count(jobs: Sequence[_Job], memo: Memo, meter: Meter) -> list[float | None]:
    for who in dict.fromkeys(job.who for job in jobs):
        instructions.prepare(who.governor)
    keys = [job.key for job in jobs]
    work = {key: job.count for key, job in zip(keys, jobs, strict=True)}
    found = memo.fill(work, meter, "Counting instructions")
    return [found[key] for key in keys]


def by_governor(
    table: str, streams: Sequence[StudyIntervals], governors: Sequence[Candidate], memo: Memo,
    meter: Meter, sample: int,
) -> dict[str, float]:  # fmt: skip
    """Return the mean instructions of a decision over the recordings, by governor.

    Args:
        table: of tables().
        streams: recordings.
        governors: whose instructions are counted.
        memo: where figures are kept.
        meter: shows progress.
        sample: intervals of each recording.

    Returns:
        nothing of governors whose instructions cannot be counted.
    """
    if not which("valgrind") or not streams:
        return {}
    machine = tables()[table]
    cuts = [(stream.name, *middle(stream, sample)) for stream in streams]
    jobs = [
        _Job(table, name, who, machine or recorded, chunk)
        for who in governors
        for name, recorded, chunk in cuts
    ]
    counts = iter(_count(jobs, memo, meter))
    found = {who.label: [next(counts) for _ in cuts] for who in governors}
    return {
        label: fmean(known)
        for label, values in found.items()
        if len(known := [value for value in values if value is not None]) == len(values)
    }


# ---- Memory ----

_PRINT = """
#include <stdio.h>
#include "{name}/{name}.h"
int main(void)
{{
	for (unsigned int n = 2; n <= {most}; n++)
		printf("%u %u\\n", n, (unsigned int){name}_state_used(n));
	return 0;
}}
"""


def state_used(name: str) -> dict[int, int]:
    """Return the bytes that a governor touches on a CPU, by number of states.

    Returns:
        nothing where its header does not tell.
    """
    compiler = which("cc")
    if not compiler:
        return {}
    with scratch() as folder:
        program, source = folder / "used", folder / "used.c"
        source.write_text(_PRINT.format(name=name, most=STATE_MAX))
        command: list[str | Path] = [
            compiler,
            "-std=gnu11",
            f"-I{TOP / 'governors'}",
            source,
            "-o",
            program,
        ]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return {}
        text = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return {int(n): int(size) for n, size in (line.split() for line in text.splitlines())}


# ---- Divisions ----

_FUNCTION = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
_CALL = re.compile(r"\b(?:call|jmp|j[a-z]+)\s+[0-9a-f]+ <([^>+]+)(\+0x[0-9a-f]+)?>")
_DIVISION = re.compile(r"\s(i?div[bwlq]?)\s|<(__u?divti3|__u?modti3|__u?divdi3)>")
_INDIRECT = re.compile(r"\b(call|jmp)\s+\*")


@dataclass(frozen=True)
class Divisions:
    """Contents of the disassembly of a function and of all that it calls.

    Attributes:
        reached: functions that may run.
        divide: those of them that divide, with the number of such instructions.
        indirect: those of them that call or jump through a pointer, into the unknown.
    """

    reached: tuple[str, ...]
    divide: dict[str, int]
    indirect: tuple[str, ...]


def divisions(listing: str, entry: str) -> Divisions:
    """Find the divisions that can be reached from a function.

    Args:
        listing: as `objdump -d --no-show-raw-insn` prints it, x86-64.
        entry: name of the function.
    """
    calls: dict[str, set[str]] = {}
    divide: dict[str, int] = {}
    indirect: set[str] = set()
    name = ""
    for line in listing.splitlines():
        if head := _FUNCTION.match(line):
            name = head[1]
            calls.setdefault(name, set())
            continue
        if not name:
            continue
        if call := _CALL.search(line):
            calls[name].add(call[1])
        if _DIVISION.search(line):
            divide[name] = divide.get(name, 0) + 1
        if _INDIRECT.search(line):
            indirect.add(name)
    reached: list[str] = []
    waiting = [entry] if entry in calls else []
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.append(name)
            waiting += sorted(call for call in calls.get(name, ()) if not call.endswith("@plt"))
    return Divisions(
        tuple(sorted(reached)),
        {name: divide[name] for name in sorted(reached) if name in divide},
        tuple(sorted(indirect.intersection(reached))),
    )


def _disassembled(who: Candidate) -> str | None:
    objdump = which("objdump")
    if not objdump:
        return None
    command: list[str | Path] = [
        objdump,
        "-d",
        "--no-show-raw-insn",
        instructions.program(who.governor),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return str(done.stdout)


# ---- The section ----


def _summary(
    table: str, by: Mapping[tuple[str, str, str], float | None], streams: Sequence[str], who: str
) -> tuple[float, float, str] | None:
    """Return the mean, the worst and its stream; None if something was not counted."""
    values = [by[table, stream, who] for stream in streams]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    worst = max(range(len(known)), key=known.__getitem__)
    return fmean(known), known[worst], streams[worst]


def _memory(section: Section, name: str, state_size: int) -> None:
    used = state_used(name)
    rows: list[list[Cell]] = [[f"{n}", size] for n, size in used.items()]
    rows.append(["allocated, for any number", state_size])
    section.tables.append(Table("Memory of a CPU", ("states", "bytes"), rows))
    section.data["state_bytes"] = {"used": used, "allocated": state_size}
    for states, most in BYTES.items():
        size = used.get(states, state_size)
        promise = f"memory of a CPU with {states} states: at most {most:,} bytes"
        section.verdicts.append(verdict(size <= most, promise, f"{size:,}"))
    touched = {one.states: one for one in footprints(name)}
    section.data["cache_lines"] = {n: (one.mean, one.most) for n, one in touched.items()}
    for states, lines in LINES.items():
        promise = f"cache lines of its state a decision, {states} states: {lines} on average"
        found = touched.get(states)
        section.verdicts.append(
            verdict(found.mean <= lines, promise, f"{found.mean:.2f}, at most {found.most}")
            if found else Verdict(OPEN, promise, "no compiler")
        )  # fmt: skip


def _divides(section: Section, who: Candidate) -> None:
    listing = _disassembled(who)
    if listing is None:
        section.verdicts.append(Verdict(OPEN, "divisions", "objdump is missing"))
        return
    found = divisions(listing, f"{who.governor.name}_select")
    section.data["divisions"] = {
        "reached": found.reached, "divide": found.divide, "indirect": found.indirect,
    }  # fmt: skip
    if not found.reached:
        no_function = f"there is no function {who.governor.name}_select"
        section.verdicts.append(Verdict(OPEN, "divisions", no_function))
        return
    names = ", ".join(f"{name} ({count})" for name, count in found.divide.items()) or "none"
    more = f"; through pointers from {', '.join(found.indirect)}" if found.indirect else ""
    promise = "no division on the way of select"
    figures = f"{names}, of {len(found.reached)} functions that it can reach{more}"
    section.verdicts.append(verdict(not found.divide, promise, figures))


def measure(
    subject: str, streams: Sequence[StudyIntervals], memo: Memo, meter: Meter, sample: int = SAMPLE
) -> Section:
    """Measure target 4.

    Args:
        subject: the governor that is judged.
        streams: of the corpus.
        memo: where figures are kept.
        meter: shows progress.
        sample: intervals of each.
    """
    mine, reference = (parse(label, False)[0] for label in (subject, REFERENCE))
    section = Section(PART, TITLE)
    jobs = []
    for table, machine in tables().items():
        for stream in streams:
            recorded, chunk = middle(stream, sample)
            jobs += [
                _Job(table, stream.name, who, machine or recorded, chunk)
                for who in (mine, reference)
            ]
    counts = _count(jobs, memo, meter) if which("valgrind") else [None] * len(jobs)
    by = {
        (job.table, job.stream, job.who.label): count
        for job, count in zip(jobs, counts, strict=True)
    }
    names = [stream.name for stream in streams]
    rows: list[list[Cell]] = []
    for table, machine in tables().items():
        ours, theirs = (_summary(table, by, names, who) for who in (subject, REFERENCE))
        if not ours or not theirs:
            section.verdicts.append(Verdict(OPEN, f"instructions, {table}", "valgrind or a trace"))
            continue
        ratio = ours[0] / theirs[0]
        rows.append([table, len(names), ours[0], theirs[0], f"{ratio:.3f}", ours[1], ours[2]])
        section.data[table] = {
            "ratio": ratio, "mean": ours[0], "reference": theirs[0], "worst": ours[1],
            "worst_stream": ours[2],
        }  # fmt: skip
        if machine and (most := RATIOS.get(machine.count)):
            promise = f"{table}: at most {most} times the instructions of {REFERENCE}"
            section.verdicts.append(verdict(ratio <= most, promise, f"{ratio:.3f}"))
    heads = ("states", "recordings", f"{subject}, mean", f"{REFERENCE}, mean", "ratio",
             f"{subject}, worst", "on")  # fmt: skip
    note = (
        f"Instructions of select and update for each decision, counted by valgrind over {sample:,} "
        "intervals from the middle of each recording of the corpus, played on the table that is "
        "named; recorded: each on its own."
    )
    section.tables.append(Table("Instructions of a decision", heads, rows, 0, note))
    _memory(section, mine.governor.name, mine.governor.state_size)
    _divides(section, mine)
    section.data["by_stream"] = [
        {"states": table, "stream": stream, "governor": who, "instructions": count}
        for (table, stream, who), count in by.items()
    ]
    return section
