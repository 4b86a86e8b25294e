# SPDX-License-Identifier: GPL-2.0
"""The thread's programs and its idle system, in the lab.

One boot for each seed has all programs under all governors; another one has the idle system.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.tables import Cell, Section, Table
from cpuidle_lab.lab import LabResult, LabRun, programs
from cpuidle_lab.recording import state_tables
from cpuidle_lab.recording.laws import US
from experiments import added, energy, here
from experiments.boots import boots, limit_s
from experiments.energy import BUSY, OFFLINE, account, power_mw, seconds
from experiments.experiment import ORIGINAL, QUICK, SEEDS, UNLIKE, USUAL, Request, Row
from experiments.memo import Memo

HERE = Path(__file__).parent
# Code that plans the boots and reads their results.
CODE = [Path(__file__), Path(energy.__file__)]
EBIZZY = programs.Program("ebizzy", "experiments/weighted_teo/ebizzy.c")

TABLE, HZ = "power9", 250
CPUS = 8
MENU, TEO, PATCH = "menu", "teo_ng", "wteo_rfc"
GOVERNORS = (MENU, TEO, PATCH, "wteo", "menu_ng")
QUICK_GOVERNORS = (TEO, PATCH, "wteo")

# Virtual time of the idle system under each governor, s.
# Five seeds make 12 hours, as in the thread: a second of eight idle CPUs takes 17 ms here.
IDLE_S = {QUICK: 120, ORIGINAL: 12 * 3600}
USUAL_IDLE_S = 12 * 3600 // SEEDS[USUAL]

# Virtual time of a program, s, by its word in the command. The ebizzy that never sleeps runs for
# the shortest time: with -m or -M a virtual second takes 27 of the host's, and its rate is steady.
LENGTHS_S: Mapping[str, Mapping[str, float]] = {
    QUICK: {"SCHBENCH_S": 1, "EBIZZY_S": 1, "BUSY_EBIZZY_S": 0.1},
    USUAL: {"SCHBENCH_S": 3, "EBIZZY_S": 5, "BUSY_EBIZZY_S": 0.3},
    ORIGINAL: {"SCHBENCH_S": 30, "EBIZZY_S": 60, "BUSY_EBIZZY_S": 60},
}

# Messages of each task of hackbench.
MESSAGES = {QUICK: (100,), ORIGINAL: (100, 1000, 10_000, 100_000, 1_000_000)}
USUAL_MESSAGES = (100,)

# Report of Doug Smythies on TEO and the patch ("wtteo") on his machine: idle entries a
# minute by state, and of each CPU a second.
SMYTHIES = {
    TEO: ((4.19, 29.26, 46.71, 7.42, 1124.55), 2.525),
    PATCH: ((7.98, 30.49, 52.51, 8.65, 1125.33), 2.552),
}

# Wall-clock limit of a boot, s.
LIMIT_S = 7200


@dataclass(frozen=True)
class Load:
    """A row of the thread's tables.

    Attributes:
        name: of its files.
        what: for readers, as the original's command has it.
        command: with the words of LENGTHS_S, and SEED, for what a run sets.
        figure: what it prints, and its unit.
        read: finds the figure in its output.
        reported: figure under TEO and under the patch, power under both in W (None: not given).
    """

    name: str
    what: str
    command: str
    figure: str
    read: Callable[[str], float]
    reported: tuple[float | None, float | None, float | None, float | None]


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


# Messengers and threads of each, by the original's threads of each of six messengers: a twelfth.
# The page has the load of each row.
_SCHBENCH = {
    2: (1, 1, (979, 949, 38, 36)),
    4: (2, 1, (997, 1042, 51, 39)),
    8: (2, 2, (1158, 1050, 89, 63)),
    16: (2, 4, (1138, 1135, 105, 117)),
}
# The author's ebizzy sleeps with -a alone, which the thread's commands have not. Without it five
# threads keep five of eight CPUs busy.
_SLEEPS = (("", 5, "BUSY_EBIZZY_S"), ("-a 1 ", 16, "EBIZZY_S"))
_EBIZZY = {
    "": (1115000, 1198081, 149, 150),
    "-m ": (15879, 15513, 23, 22),
    "-M ": (72887, 77546, 104, 103),
}
# By option, then by messages; the thread gives a range of powers for all of them.
_HACKBENCH = {
    "": {100: (0.042, 0.043), 1000: (0.258, 0.272), 10_000: (2.397, 2.441),
         100_000: (23.691, 23.73), 1_000_000: (234.103, 233.841)},
    "--pipe ": {100: (0.031, 0.032), 1000: (0.301, 0.312), 10_000: (5.642, 5.092),
                100_000: (57.762, 57.857), 1_000_000: (559.807, 592.304)},
}  # fmt: skip


def loads_of(scale: str) -> list[Load]:
    """Return the loads of a run, as the thread's tables have them."""
    schbench = [
        Load(
            f"schbench-{threads}", f"schbench -t {threads}",
            f"wakebench -w -m {messengers} -t {ours} -c 30000 -s 30000 -r SCHBENCH_S -S SEED",
            "p99, us", p99_us, reported,
        )
        for threads, (messengers, ours, reported) in _SCHBENCH.items()
    ]  # fmt: skip
    ebizzy = [
        Load(
            f"ebizzy{option}{sleeps}".replace(" ", ""), f"ebizzy {sleeps}{option}-i 10000",
            f"ebizzy {sleeps}{option}-S {length} -i 10000 -s 65536 -t {threads}",
            "records/s", _records, (None,) * 4 if sleeps else reported,
        )
        for sleeps, threads, length in _SLEEPS
        for option, reported in _EBIZZY.items()
    ]  # fmt: skip
    hackbench = [
        Load(
            f"hackbench{option.strip()}-{count}", f"hackbench {option}-l {count}",
            f"hackbench {option}-g 2 -l {count}", "time, s", _after("Time:"), (*times, None, None),
        )
        for option, by_count in _HACKBENCH.items()
        for count, times in by_count.items()
        if count in MESSAGES.get(scale, USUAL_MESSAGES)
    ]  # fmt: skip
    return [*schbench, *ebizzy, *hackbench]


# The 99th percentile of sorted numbers, one a line.
_P99 = '"$0" "$@" | awk "{ v[NR] = \\$1 } END { print v[int(0.99 * (NR - 1)) + 1] }"'


def loads_here(scale: str) -> list[here.Load]:
    """Return the programs for a real machine; at the original's scale with its threads."""
    lengths_s = LENGTHS_S[scale]
    wakebench, ebizzy = {"wakebench": programs.WAKEBENCH}, {"ebizzy": EBIZZY}
    found = []
    for threads, (messengers, ours, _) in _SCHBENCH.items():
        size = f"-m 6 -t {threads}" if scale == ORIGINAL else f"-m {messengers} -t {ours}"
        words = f"wakebench {size} -c 30000 -s 30000 -r {lengths_s['SCHBENCH_S']}".split()
        found.append(here.Load(f"schbench-{threads}", f"wakebench {size}: p99",
                               ("sh", "-c", _P99, *words), r"^(\d+)$", "us", 1 / US,
                               made=wakebench))  # fmt: skip
    # Busy CPUs of a real machine take no longer than others.
    for (sleeps, *_), option in product(_SLEEPS, _EBIZZY):
        words = f"ebizzy {sleeps}{option}-S {lengths_s['EBIZZY_S']} -i 10000".split()
        found.append(here.Load(f"ebizzy{option}{sleeps}".replace(" ", ""),
                               f"ebizzy {sleeps}{option}-i 10000",
                               tuple(words), r"^(\d+) records/s", "records/s",
                               better="higher", made=ebizzy))  # fmt: skip
    for option in _HACKBENCH:
        for count in MESSAGES.get(scale, USUAL_MESSAGES):
            words = f"hackbench {option}-l {count}".split()
            found.append(here.Load(f"hackbench{option.strip()}-{count}", " ".join(words),
                                   tuple(words), r"Time: ([\d.]+)", "s"))  # fmt: skip
    return found


def governors_of(scale: str) -> tuple[str, ...]:
    """Return the governors of a run."""
    return QUICK_GOVERNORS if scale == QUICK else GOVERNORS


def with_patch() -> dict[str, str]:
    """Return files of the modules' sources that put the patch into the module of the boots."""
    return added.changes({PATCH: added.former(PATCH)})


def _turns(scale: str, seed: int) -> list[str]:
    """Return the governors in an order that rotates with the seed."""
    governors = governors_of(scale)
    return [governors[(place + seed) % len(governors)] for place in range(len(governors))]


def _command(load: Load, scale: str, seed: int) -> str:
    """Return the command of a load with what a run sets."""
    words = {**LENGTHS_S[scale], "SEED": seed}
    return " ".join(str(words.get(word, word)) for word in load.command.split())


def programs_run(scale: str, seed: int) -> LabRun:
    """Return the boot of all programs under all governors."""
    lines = [(HERE / "guest.sh").read_text(encoding="utf-8")]
    for governor in _turns(scale, seed):
        for load in loads_of(scale):
            command = _command(load, scale, seed)
            lines += [f"afresh {governor}", f"usleep {seed * 7919 % 4000 + 1000}"]
            lines += [f"one {governor}.{load.name} {command}"]
    limit = limit_s(scale, LIMIT_S)
    files = {**programs.file(EBIZZY), **programs.file(programs.WAKEBENCH)}
    return LabRun("\n".join(lines), cpus=CPUS, seed=seed, files=files, time_limit_s=limit,
                  changes=with_patch())  # fmt: skip


def idle_run(scale: str, seed: int) -> LabRun:
    """Return the boot of the idle system: turns have no bound, for no CPU waits for one."""
    length_s = IDLE_S.get(scale, USUAL_IDLE_S)
    lines = [(HERE / "guest.sh").read_text(encoding="utf-8")]
    for governor in _turns(scale, seed):
        # The governors' order repeats after some seeds; the tick's phase does not.
        lines += [f"afresh {governor}", "sleep 5", f"usleep {seed * 7919 % 4000 + 1000}"]
        lines += [f"one {governor}.idle sleep {length_s}"]
    limit = limit_s(scale, LIMIT_S)
    return LabRun("\n".join(lines), cpus=CPUS, seed=seed, time_limit_s=limit, turn_us=0,
                  changes=with_patch())  # fmt: skip


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
        "power_mw": power_mw(slots, state_tables.find(TABLE, HZ)),
        "load": sum(slot.time_ns for slot in of(BUSY)) / total_ns,
        "entries": {state: sum(slot.entries for slot in of(state)) / minutes for state in states},
        "share": {
            state: 100 * sum(slot.time_ns for slot in of(state)) / total_ns for state in states
        },
    }


def _read_programs(scale: str, result: LabResult) -> dict[str, Any]:
    found = {}
    for governor in governors_of(scale):
        for load in loads_of(scale):
            name = f"{governor}.{load.name}"
            output = (result.files / f"{name}.out").read_text(errors="replace")
            found[name] = {"figure": load.read(output), **_slots(result.files, name)}
    return found


def _read_idle(governors: Sequence[str], result: LabResult) -> dict[str, Any]:
    return {governor: _slots(result.files, f"{governor}.idle") for governor in governors}


# Greatest distance of a ratio of the patch to TEO from the thread's.
NEAR = 0.1


def _ratio(
    what: str, reported: tuple[float | None, float | None], ours: Sequence[float], alike: bool
) -> Row:
    before, after = reported
    if before is None or after is None:
        return Row(what, ours=ours)
    ratio = after / before
    if not alike:
        return Row(what, f"{ratio:.2f}", ours, judged=UNLIKE)
    return Row(what, f"{ratio:.2f}", ours, agrees=(ratio - NEAR, ratio + NEAR))


def _is_saturated(load: Load, found: Sequence[Any]) -> bool:
    """Return whether a load's p99 is the exit latency of the deepest state under both."""
    deepest_us = max(state_tables.find(TABLE, HZ).exit_latency_ns) / US
    return load.read is p99_us and all(
        median(one[f"{who}.{load.name}"]["figure"] for one in found) > (1 - NEAR) * deepest_us
        for who in (TEO, PATCH)
    )


def _rows(loads: Sequence[Load], found: Sequence[Any]) -> list[Row]:
    """Return what the patch does beside TEO, for each load of the thread."""
    rows = []
    for load in loads:
        alike = not _is_saturated(load, found)
        for key, place, what in (("figure", 0, load.figure), ("power_mw", 2, "power")):
            ratios = [
                one[f"{PATCH}.{load.name}"][key] / one[f"{TEO}.{load.name}"][key] for one in found
            ]
            pair = load.reported[place], load.reported[place + 1]
            what = f"{load.what}: {what.split(',')[0]} beside TEO"
            rows.append(_ratio(what, pair, ratios, alike or key == "power_mw"))
    return rows


def _reported(load: Load, governor: str) -> tuple[float | None, float | None]:
    """Return the thread's figure and power, W; of TEO and of the patch alone."""
    if governor not in (TEO, PATCH):
        return None, None
    place = (TEO, PATCH).index(governor)
    return load.reported[place], load.reported[2 + place]


def _programs_table(scale: str, found: Sequence[Any]) -> Table:
    rows: list[list[Cell]] = []
    for load in loads_of(scale):
        for governor in governors_of(scale):
            cells = [one[f"{governor}.{load.name}"] for one in found]
            figures = [cell["figure"] for cell in cells]
            rows.append(
                [load.what, governor, load.figure, median(figures), min(figures), max(figures),
                 median(cell["power_mw"] for cell in cells) / 1000,
                 100 * median(cell["load"] for cell in cells),
                 *_reported(load, governor)]
            )  # fmt: skip
    heads = ("load", "governor", "figure", "median", "least", "most", "power, W", "load, %",
             "original", "original's power, W")  # fmt: skip
    lengths_s = LENGTHS_S[scale]
    note = (
        f"schbench runs for {lengths_s['SCHBENCH_S']} s, ebizzy for {lengths_s['EBIZZY_S']} s, and "
        f"for {lengths_s['BUSY_EBIZZY_S']} s without -a. Load: share of all CPUs' time "
        "in which they are busy. Power is modelled, and of the CPUs alone; the original's is of "
        "the whole machine. The original counts ebizzy's records of 60 s."
    )
    return Table("Programs on 8 CPUs of power9", heads, rows, 3, note)


def _idle_table(scale: str, found: Sequence[Any]) -> Table:
    states = list(next(iter(found[0].values()))["entries"])
    rows: list[list[Cell]] = []
    for governor in governors_of(scale):
        cells = [one[governor] for one in found]
        powers = [cell["power_mw"] / 1000 for cell in cells]
        rows.append(
            [governor, median(powers), min(powers), max(powers)]
            + [median(cell["entries"][state] for cell in cells) for state in states]
            + [median(cell["share"][state] for cell in cells) for state in states]
        )
    heads = ["governor", "power, W", "least", "most"]
    heads += [*(f"{state}, entries/min" for state in states)]
    heads += [f"{state}, % of the time" for state in states]
    hours = len(found) * IDLE_S.get(scale, USUAL_IDLE_S) / 3600
    title = f"A completely idle system of {CPUS} CPUs, {hours:.3g} virtual hours in all"
    return Table(title, heads, rows, 2, "Medians of the seeds.")


def _smythies_table() -> Table:
    rows: list[list[Cell]] = [[who, *entries, rate] for who, (entries, rate) in SMYTHIES.items()]
    heads = ("governor", *(f"state {n}, entries/min" for n in range(5)), "entries a CPU and s")
    note = "TEO 12.3 hours and the patch 18.3; the package takes 3.84 W under both."
    return Table("The original's idle system, of Doug Smythies", heads, rows, 2, note)


def _idle_rows(found: Sequence[Any]) -> list[Row]:
    """Return the power of the patch beside TEO, and how often each lets a CPU idle."""
    power = [one[PATCH]["power_mw"] / one[TEO]["power_mw"] for one in found]
    rows = [Row("idle system: power beside TEO", "same", power, agrees=(0.98, 1.02))]
    for who, (_, rate) in SMYTHIES.items():
        ours = [sum(one[who]["entries"].values()) / 60 / CPUS for one in found]
        what = f"idle system, {who}: idle entries of a CPU"
        rows.append(Row(what, f"{rate} /s", ours, "/s", judged=UNLIKE))
    return rows


def measure(request: Request, memo: Memo, meter: Meter) -> tuple[list[Row], list[Section]]:
    """Return rows and tables of the boots; nothing of a boot that has no figures yet.

    Args:
        request: scale, seeds, and whether to boot.
        memo: where figures are kept.
        meter: shows progress.
    """
    rows: list[Row] = []
    sections = []
    scale, seeds = request.scale, range(1, request.seeds + 1)
    # All in one plan, so that no processor waits for the last boot of the programs.
    runs = [make(scale, seed) for make in (programs_run, idle_run) for seed in seeds]
    readers = partial(_read_programs, scale), partial(_read_idle, governors_of(scale))
    reads = [read for read in readers for _ in seeds]
    told = boots(runs, reads, CODE, request, memo, meter, "Programs, and an idle system")
    ran, slept = ([one for one in part if one] for part in (told[: len(seeds)], told[len(seeds) :]))
    if ran:
        rows += _rows(loads_of(scale), ran)
        section = Section("programs", "The programs of the thread")
        section.tables.append(_programs_table(scale, ran))
        sections.append(section)
    if slept:
        rows += _idle_rows(slept)
        section = Section("idle", "A completely idle system")
        section.tables += [_idle_table(scale, slept), _smythies_table()]
        sections.append(section)
    return rows, sections
