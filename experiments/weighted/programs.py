# SPDX-License-Identifier: GPL-2.0
"""The thread's programs and its idle system, in the lab.

One boot for each seed has all programs under all governors; another one has the idle system.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from cpuidle_lab.compare.model import Phase
from cpuidle_lab.errors import UserError
from cpuidle_lab.evidence.tables import Cell, Section, Table
from cpuidle_lab.lab import LabResult, LabRun, programs
from cpuidle_lab.synth import US, machine
from experiments.bench.gating.energy import BUSY, OFFLINE, account, power_mw, seconds
from experiments.experiment import ORIGINAL, QUICK, Request, Row
from experiments.lab import boots
from experiments.memo import Memo

HERE = Path(__file__).parent
EBIZZY = programs.Program("ebizzy", "experiments/weighted/ebizzy.c")

TABLE, HZ = "power9", 250
CPUS = 8
MENU, TEO, PATCH = "menu", "teo_ng", "wteo_rfc"
GOVERNORS = (MENU, TEO, PATCH, "wteo", "menu_ng")
QUICK_GOVERNORS = (TEO, PATCH, "wteo")

# Virtual time of the idle system under each governor, s, and of the programs.
IDLE_S = {QUICK: 120, ORIGINAL: 12 * 3600}
USUAL_IDLE_S = 3600
SECONDS = {QUICK: (1, 1), ORIGINAL: (30, 60)}
USUAL_SECONDS = (2, 1)

# Wall-clock limit of a boot, s.
LIMIT_S = 7200


@dataclass(frozen=True)
class Load:
    """A row of the thread's tables.

    Attributes:
        name: of its files.
        what: for readers, as the original's command has it.
        command: with SCHBENCH_S, EBIZZY_S and SEED for what a run sets.
        figure: what it prints, and its unit.
        read: finds the figure in its output.
        reported: figure under TEO and under the patch, power under both in W (None: not given).
    """

    name: str
    what: str
    command: str
    figure: str
    read: Callable[[str], float]
    reported: tuple[float, float, float | None, float | None]


def p99_us(output: str) -> float:
    """Return the 99th percentile of wakebench's latencies, us.

    Raises:
        UserError: there are fewer than two.
    """
    taken = [int(line) for line in output.split()]
    if len(taken) < 2:
        raise UserError("wakebench saw fewer than two wake-ups")
    return quantiles(taken, n=100, method="inclusive")[98] / US


def _after(word: str) -> Callable[[str], float]:
    """Return what finds the number after a word."""

    def read(output: str) -> float:
        words = output.split()
        if word not in words[:-1]:
            raise UserError(f"a program's output has no '{word}'")
        return float(words[words.index(word) + 1])

    return read


def _records(output: str) -> float:
    words = output.split()
    if words[1:2] != ["records/s"]:
        raise UserError("ebizzy's output has no records/s")
    return float(words[0])


# Messengers and threads of each, by the original's threads of each of six messengers: a twelfth, so
# that 8 CPUs are busy for half of their time at most.
_SCHBENCH = {
    2: (1, 1, (979, 949, 38, 36)),
    4: (2, 1, (997, 1042, 51, 39)),
    8: (2, 2, (1158, 1050, 89, 63)),
    16: (2, 4, (1138, 1135, 105, 117)),
}
_EBIZZY = {
    "": (1115000, 1198081, 149, 150),
    "-m ": (15879, 15513, 23, 22),
    "-M ": (72887, 77546, 104, 103),
}
_HACKBENCH = {"": (0.042, 0.043, None, None), "--pipe ": (0.031, 0.032, None, None)}

LOADS = (
    *(
        Load(
            f"schbench-{threads}", f"schbench -t {threads}",
            f"wakebench -w -m {messengers} -t {ours} -c 30000 -s 30000 -r SCHBENCH_S -S SEED",
            "p99, us", p99_us, reported,
        )
        for threads, (messengers, ours, reported) in _SCHBENCH.items()
    ),
    *(
        Load(
            f"ebizzy{option.strip()}", f"ebizzy {option}-i 10000",
            f"ebizzy {option}-S EBIZZY_S -i 10000 -s 65536 -t 16",
            "records/s", _records, reported,
        )
        for option, reported in _EBIZZY.items()
    ),
    *(
        Load(
            f"hackbench{option.strip()}", f"hackbench {option}-l 100",
            f"hackbench {option}-g 2 -l 100", "time, s", _after("Time:"), reported,
        )
        for option, reported in _HACKBENCH.items()
    ),
)  # fmt: skip


def governors_of(scale: str) -> tuple[str, ...]:
    """Return the governors of a run."""
    return QUICK_GOVERNORS if scale == QUICK else GOVERNORS


def _turns(scale: str, seed: int) -> list[str]:
    """Return the governors in an order that rotates with the seed."""
    governors = governors_of(scale)
    return [governors[(place + seed) % len(governors)] for place in range(len(governors))]


def programs_run(scale: str, seed: int) -> LabRun:
    """Return the boot of all programs under all governors."""
    schbench_s, ebizzy_s = SECONDS.get(scale, USUAL_SECONDS)
    lines = [(HERE / "guest.sh").read_text(encoding="utf-8")]
    for governor in _turns(scale, seed):
        for load in LOADS:
            command = load.command.replace("SCHBENCH_S", str(schbench_s))
            command = command.replace("EBIZZY_S", str(ebizzy_s)).replace("SEED", str(seed))
            lines += [f"afresh {governor}", f"usleep {seed * 7919 % 4000 + 1000}"]
            lines += [f"one {governor}.{load.name} {command}"]
    files = {**programs.file(EBIZZY), **programs.file(programs.WAKEBENCH)}
    return LabRun("\n".join(lines), cpus=CPUS, seed=seed, files=files, time_limit_s=LIMIT_S)


def idle_run(scale: str, seed: int) -> LabRun:
    """Return the boot of the idle system: turns have no bound, for no CPU waits for one."""
    length_s = IDLE_S.get(scale, USUAL_IDLE_S)
    lines = [(HERE / "guest.sh").read_text(encoding="utf-8")]
    for governor in _turns(scale, seed):
        lines += [f"afresh {governor}", "sleep 5", f"one {governor}.idle sleep {length_s}"]
    return LabRun("\n".join(lines), cpus=CPUS, seed=seed, time_limit_s=LIMIT_S, turn_us=0)


def _slots(folder: Path, name: str) -> dict[str, Any]:
    """Return what the energy account says of a run."""
    before, after = ((folder / f"{name}.{end}").read_text() for end in ("before", "after"))
    slots = account(before, after)
    minutes = seconds(slots) / 60
    total_ns = sum(slot.time_ns for slot in slots if slot.state != OFFLINE)
    states = list(dict.fromkeys(slot.state for slot in slots if slot.state not in (BUSY, OFFLINE)))

    def of(state: str) -> list[Any]:
        return [slot for slot in slots if slot.state == state]

    return {
        "power_mw": power_mw(slots, machine(TABLE, HZ)),
        "load": sum(slot.time_ns for slot in of(BUSY)) / total_ns,
        "entries": {state: sum(slot.entries for slot in of(state)) / minutes for state in states},
        "share": {
            state: 100 * sum(slot.time_ns for slot in of(state)) / total_ns for state in states
        },
    }


def _read_programs(governors: Sequence[str], result: LabResult) -> dict[str, Any]:
    found = {}
    for governor in governors:
        for load in LOADS:
            name = f"{governor}.{load.name}"
            output = (result.files / f"{name}.out").read_text(errors="replace")
            found[name] = {"figure": load.read(output), **_slots(result.files, name)}
    return found


def _read_idle(governors: Sequence[str], result: LabResult) -> dict[str, Any]:
    return {governor: _slots(result.files, f"{governor}.idle") for governor in governors}


# How far a ratio of the patch to TEO may be from the thread's.
NEAR = 0.1


def _ratio(what: str, reported: tuple[float | None, float | None], ours: Sequence[float]) -> Row:
    before, after = reported
    if before is None or after is None:
        return Row(what, ours=ours)
    ratio = after / before
    return Row(what, f"{ratio:.2f}", ours, agrees=(ratio - NEAR, ratio + NEAR))


def _rows(found: Sequence[Any]) -> list[Row]:
    """Return what the patch does beside TEO, for each load of the thread."""
    rows = []
    for load in LOADS:
        for key, place, what in (("figure", 0, load.figure), ("power_mw", 2, "power")):
            ratios = [
                one[f"{PATCH}.{load.name}"][key] / one[f"{TEO}.{load.name}"][key] for one in found
            ]
            pair = load.reported[place], load.reported[place + 1]
            rows.append(_ratio(f"{load.what}: {what.split(',')[0]} beside TEO", pair, ratios))
    return rows


def _programs_table(governors: Sequence[str], found: Sequence[Any]) -> Table:
    rows: list[list[Cell]] = []
    for load in LOADS:
        for governor in governors:
            cells = [one[f"{governor}.{load.name}"] for one in found]
            figures = [cell["figure"] for cell in cells]
            rows.append(
                [load.what, governor, load.figure, median(figures), min(figures), max(figures),
                 median(cell["power_mw"] for cell in cells),
                 100 * median(cell["load"] for cell in cells)]
            )  # fmt: skip
    heads = ("load", "governor", "figure", "median", "least", "most", "power, mW", "load, %")
    note = "Load: share of all CPUs' time in which they are busy. Power is modelled."
    return Table("Programs on 8 CPUs of power9", heads, rows, 3, note)


def _idle_table(governors: Sequence[str], found: Sequence[Any]) -> Table:
    states = list(found[0][governors[0]]["entries"])
    rows: list[list[Cell]] = []
    for governor in governors:
        cells = [one[governor] for one in found]
        rows.append(
            [governor, median(cell["power_mw"] for cell in cells)]
            + [median(cell["entries"][state] for cell in cells) for state in states]
            + [median(cell["share"][state] for cell in cells) for state in states]
        )
    heads = ["governor", "power, mW", *(f"{state}, entries/min" for state in states)]
    heads += [f"{state}, % of the time" for state in states]
    return Table("A completely idle system of 8 CPUs", heads, rows, 2, "Medians of the seeds.")


def measure(request: Request, memo: Memo, phase: Phase) -> tuple[list[Row], list[Section]]:
    """Return rows and tables of the boots; nothing of a boot that has no figures yet.

    Args:
        request: scale, seeds, and whether to boot.
        memo: where figures are kept.
        phase: shows progress.
    """
    rows: list[Row] = []
    sections = []
    seeds = range(1, request.seeds + 1)
    code = [Path(__file__)]
    governors = governors_of(request.scale)
    read_programs, read_idle = partial(_read_programs, governors), partial(_read_idle, governors)
    ran = boots([programs_run(request.scale, seed) for seed in seeds], read_programs, code,
                request, memo, phase, "Programs in the lab")  # fmt: skip
    if found := [one for one in ran if one]:
        rows += _rows(found)
        section = Section("programs", "The programs of the thread")
        section.tables.append(_programs_table(governors, found))
        sections.append(section)
    slept = boots([idle_run(request.scale, seed) for seed in seeds], read_idle, code,
                  request, memo, phase, "An idle system in the lab")  # fmt: skip
    if found := [one for one in slept if one]:
        power = [one[PATCH]["power_mw"] / one[TEO]["power_mw"] for one in found]
        rows.append(Row("idle system: power beside TEO", "same", power, agrees=(0.98, 1.02)))
        section = Section("idle", "A completely idle system")
        section.tables.append(_idle_table(governors, found))
        sections.append(section)
    return rows, sections
