# SPDX-License-Identifier: GPL-2.0
"""The intervals of a case, made to happen on a CPU of the lab.

Each kernel and state table has boots of its own. A boot plays the streams of several seeds.
`player` sleeps on CPU 1 as the case says, and its recorded decisions tell the same figures as
replay. CPU 0, which wakes it, keeps to states that it leaves at once.
"""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.crossval import parts as phases
from cpuidle_lab.crossval.parts import Part, has_regret, parts
from cpuidle_lab.host.machine import project_governors
from cpuidle_lab.lab import LabResult, LabRun, mainline, programs
from cpuidle_lab.lab.keys import can_be_known
from cpuidle_lab.lab.session import TARGET_MOST_US, TRACE, parameters
from cpuidle_lab.recording import columns
from cpuidle_lab.recording.laws import FAR_NS, US, S
from cpuidle_lab.replay import build, law, recorded
from cpuidle_lab.states.linux_source import NEWEST
from cpuidle_lab.states.table import StateTable
from experiments.boots import boots
from experiments.cases import figures
from experiments.cases.figures import Played
from experiments.cases.schema import Cell, Description
from experiments.experiment import Request
from experiments.memo import Memo

PLAYER = programs.Program("player", "experiments/cases/player.c")
# Code that plans the boots, and code that reads their results.
CODE = [
    *(Path(str(one.__file__)) for one in (law, figures, phases, recorded)),
    Path(__file__),
    build.NATIVE / "replay/play.c",
]

# Where this project's governors run, and those of kernels that have one CPU in virtual time.
OWN_KERNEL = "6.12"
# Where the kernel's own governors run, and which of them Debian's kernels have.
KERNELS = ("6.12", "7.2", "7.3")
PRESENT = ("menu", "ladder")
# Of these kernels.
TICK_NS = S // 250

# The CPU that sleeps, and the other one with the greatest exit latency that it may have.
CPU = 1
WAKER, QUICK_NS = 0, 2000

# Of a stream so many intervals are played and count, and so much sleep: a boot has many streams.
COUNT = 2000
SLEEP_NS = 120 * S
# So many seeds share a boot.
SEEDS = 5

# Room for so many decisions. An interval has some: the tick, or the end of polling, adds to them.
_DECISIONS_A_MIB, _DECISIONS, _REST_MIB = 5000, 4, 768
_LIMIT_S = 1800


@dataclass(frozen=True)
class Place:
    """Place of a cell in the guest.

    Attributes:
        kernel: series of the guest's.
        governor: that is current.
        tunables: governor, name and value of each that is set.
        hint_ns: of the player's threads; None: none.
        built: governor of the kernel that is a module of its own (mainline.py); "": none is.
    """

    kernel: str
    governor: str
    tunables: tuple[tuple[str, ...], ...] = ()
    hint_ns: int | None = None
    built: str = ""


def place_of(case: Description, cell: Cell) -> Place | str:
    """Return how a cell is set up, or why it cannot be."""
    if why := _why_not(case, case.at(cell).machine, cell):
        return why
    hint_ns = None if cell.latency_req_us is None else round(cell.latency_req_us * 1000)
    head, *settings = cell.governor.split(":")
    name, at, kernel = head.partition("@")
    if at:
        if kernel in KERNELS and name in PRESENT:
            return Place(kernel, "gate", (("gate", "base", name),), hint_ns)
        if kernel not in mainline.SERIES and "/" not in kernel:
            return "the lab has no such kernel"
        # A tree is taken to be near the newest kernel.
        where = NEWEST if "/" in kernel else kernel if kernel in KERNELS else OWN_KERNEL
        base = ("gate", "base", mainline.guest_name(head))
        return Place(where, "gate", (base,), hint_ns, built=head)
    if name not in project_governors(TOP):
        return "no module has this governor"
    tunables = tuple((name, *one.split("=", 1)) for one in settings)
    if hint_ns is None:
        return Place(OWN_KERNEL, name, tunables)
    return Place(OWN_KERNEL, "gate", (*tunables, ("gate", "base", name)), hint_ns)


def _why_not(case: Description, machine: StateTable, cell: Cell) -> str:
    """Return why a cell's states or stream cannot be had in the lab, "" if they can."""
    skip = case.streams[cell.stream].skip
    faults = (
        (case.rejected, "the emulator cannot refuse single states"),
        (machine.count == 1, "the kernel asks no governor about a single state"),
        (machine.tick_ns != TICK_NS, "the lab's kernels have 250 ticks a second"),
        (machine.exit_latency_ns[0] > QUICK_NS, "no state lets the other CPU wake up in time"),
        (case.figure.kind in figures.NOT_RECORDED, "a recording does not tell this figure"),
    )
    for is_so, why in faults:
        if is_so:
            return why
    if len(_lines(case, cell.stream, 1)) <= skip:
        return f"the first {skip} intervals last too long"
    try:
        parameters(_bounded(machine), case.name)
    except UserError as error:
        return error.message
    return ""


def _lines(case: Description, name: str, seed: int) -> list[list[int]]:
    stream = case.streams[name]
    length, timer, busy = law.times(stream.phases, stream.repeat, f"{case.name} {name}", seed)
    wake = np.where(length == timer, 0, length)
    timer = np.where((timer == FAR_NS) & (wake > 0), 0, timer)
    fits = int(np.searchsorted(np.cumsum(length), SLEEP_NS))
    lines: list[list[int]] = np.column_stack([wake, timer, busy])[
        : min(stream.skip + COUNT, fits)
    ].tolist()
    return lines


def stream_text(case: Description, name: str, seed: int) -> str:
    """Return the beginning of a stream as player reads it: the numbers that replay has, too."""
    lines = _lines(case, name, seed)
    return "".join(f"{wake} {timer} {busy}\n" for wake, timer, busy in lines)


def _file(case: Description, name: str, seed: int) -> str:
    return f"stream{list(case.streams).index(name)}-{seed}"


def _name(number: int, seed: int) -> str:
    return f"cell{number}-{seed}"


def _bounded(machine: StateTable) -> StateTable:
    """Return a machine whose target residencies the emulator takes."""
    targets = tuple(min(target, TARGET_MOST_US * US) for target in machine.target_residency_ns)
    return replace(machine, target_residency_ns=targets)


def _disable(case: Description) -> list[str]:
    """Return the commands that leave CPU 0 its quick states, and take from CPU 1 the case's."""
    folder = "/sys/devices/system/cpu/cpu"
    exits = case.machine.exit_latency_ns
    states = [(WAKER, k) for k in range(case.machine.count) if exits[k] > QUICK_NS]
    states += [(CPU, k) for k in range(case.machine.count) if case.disabled >> k & 1]
    return [f"echo 1 >{folder}{cpu}/cpuidle/state{k}/disable" for cpu, k in states]


def _trace_mib(case: Description, placed: Mapping[int, Place], seeds: Sequence[int]) -> int:
    """Return the size of the buffers of both CPUs, of which one is used."""
    counted = sum(case.streams[case.cells[number].stream].skip + COUNT for number in placed)
    return 16 + 2 * _DECISIONS * counted * len(seeds) // _DECISIONS_A_MIB


def _play(case: Description, number: int, place: Place, seeds: Sequence[int]) -> list[str]:
    """Return the commands of a cell, which begins afresh with each seed."""
    cell = case.cells[number]
    hint = "" if place.hint_ns is None else f"latnice -l {place.hint_ns}ns "
    skip = case.streams[cell.stream].skip
    lines = []
    for n, (who, knob, value) in enumerate(place.tunables):
        lines += [f"was{n}=$(cat $knobs/{who}/{knob})", f"tune {who} {knob} {shlex.quote(value)}"]
    for seed in seeds:
        mark = f"phase governor={place.governor} workload={_name(number, seed)}"
        lines += [
            f"afresh {place.governor}",
            f"say {shlex.quote(f'{cell.governor} {cell.stream} {seed}')}",
            f"{hint}player /lab/{_file(case, cell.stream, seed)} {skip} '{mark}' "
            f'>/tmp/told 2>&1 || fail "$(cat /tmp/told)"',
        ]
    return lines + [
        f'tune {who} {knob} "$was{n}"' for n, (who, knob, _) in enumerate(place.tunables)
    ]


def _built(placed: Mapping[int, Place]) -> list[str]:
    """Return the governors of a boot that are modules of their own."""
    return sorted({place.built for place in placed.values()} - {""})


def script(case: Description, placed: Mapping[int, Place], seeds: Sequence[int]) -> str:
    """Return what the guest runs.

    Args:
        case: on the idle states of these cells.
        placed: by number of the cell.
        seeds: of the streams.
    """
    lines = [
        # By this table the results are charged, so it belongs to what a boot's figures depend on.
        f"# {case.machine}",
        ". /lab/functions",
        f"load cpuidle_emul {parameters(_bounded(case.machine), case.name)}",
        "load cpuidle_lab",
        *(f"load {mainline.module_of(one)}" for one in _built(placed)),
        *_disable(case),
        f"echo {1 << CPU} >$tracing/tracing_cpumask",
        f"trace_start {_trace_mib(case, placed, seeds)} cpuidle_lab",
    ]
    for number, place in placed.items():
        lines += _play(case, number, place, seeds)
    return "\n".join([*lines, f"trace_stop {TRACE}"])


@dataclass(frozen=True)
class Boot:
    """A boot of the lab.

    Attributes:
        run: what is booted.
        case: on its idle states.
        cells: numbers of the cells that it plays.
        seeds: of their streams.
        named: governors that it builds, by their name in the guest.
    """

    run: LabRun
    case: Description
    cells: Sequence[int]
    seeds: Sequence[int]
    named: Mapping[str, str]

    def read(self, result: LabResult) -> dict[str, Any]:
        """Return what each cell came to with each seed, by _name().

        Raises:
            UserError: of one there is no interval.
        """
        trace = result.files / TRACE
        with columns.opened(trace) as recording:
            found = {
                part.workload: asdict(came_to(part, self.case.machine))
                for part in parts(recording, trace, hints=True, named=self.named)
                if CPU in part.kept
            }
        for name in (_name(number, seed) for number in self.cells for seed in self.seeds):
            if name not in found:
                raise UserError(f"{self.case.name}: the lab recorded no interval of {name}")
        return found


def came_to(part: Part, machine: StateTable) -> Played:
    """Return what the CPU that slept came to; replay counts the same.

    Args:
        part: of a recording.
        machine: the case's, which has its powers.
    """
    intervals, periods = part.kept[CPU]
    alone = replace(part, kept={CPU: part.kept[CPU]}, state_tables={CPU: machine})
    _, first = np.unique(periods["interval"], return_index=True)
    stopped = periods["stop_tick"][first].astype(bool) & has_regret(intervals)
    return figures.played(recorded.outcome(alone), machine.count, intervals, int(stopped.sum()))


def _boot(
    case: Description, kernel: str, placed: Mapping[int, Place], seeds: Sequence[int]
) -> Boot:
    streams = {case.cells[number].stream for number in placed}
    files = {
        f"lab/{_file(case, name, seed)}": stream_text(case, name, seed).encode()
        for name in streams
        for seed in seeds
    }
    files |= programs.file(PLAYER) | programs.file(programs.LATNICE)
    stopped = any(case.streams[name].tick_stopped for name in streams)
    run = LabRun(
        script(case, placed, seeds),
        kernel=kernel,
        files=files,
        memory_mib=max(LabRun.memory_mib, _trace_mib(case, placed, seeds) + _REST_MIB),
        real_time=False,
        options=(f"nohz_full={CPU}", f"rcu_nocbs={CPU}") if stopped else (),
        changes=mainline.changes(_built(placed)),
        time_limit_s=_LIMIT_S,
    )
    named = {mainline.guest_name(one): one for one in _built(placed)}
    return Boot(run, case, list(placed), seeds, named)


def plan(case: Description, seeds: int, without: Collection[int] = ()) -> list[Boot]:
    """Return the boots of a case.

    Args:
        case: what is played.
        seeds: how many.
        without: numbers of cells that are not booted.
    """
    groups: dict[tuple[str, str, bool], dict[int, Place]] = {}
    for number, cell in enumerate(case.cells):
        place = place_of(case, cell)
        if isinstance(place, Place) and number not in without:
            stopped = case.streams[cell.stream].tick_stopped
            key = place.kernel, repr(case.at(cell).machine), stopped
            groups.setdefault(key, {})[number] = place
    every = range(1, seeds + 1)
    return [
        _boot(case.at(case.cells[min(placed)]), key[0], placed, every[n : n + SEEDS])
        for n in range(0, seeds, SEEDS)
        for key, placed in groups.items()
    ]


def measure(
    case: Description, without: Collection[int], request: Request, memo: Memo, meter: Meter
) -> dict[int, list[Played]]:
    """Return what each cell that can be booted came to, seed by seed; nothing if not booted.

    Args:
        case: what is played.
        without: numbers of cells that are not booted.
        request: seeds, and whether to boot.
        memo: where figures are kept.
        meter: shows progress.

    Raises:
        UserError: something failed in the guest.
    """
    placed = [n for n, one in enumerate(case.cells) if isinstance(place_of(case, one), Place)]
    found: dict[int, list[Played]] = {number: [] for number in placed if number not in without}
    # Without the images nothing was booted here, and they are not made in order to find that.
    if not request.lab and not can_be_known(OWN_KERNEL):
        return found
    planned = plan(case, request.seeds, without)
    reads = [one.read for one in planned]
    told = boots([one.run for one in planned], reads, CODE, request, memo, meter,
                 f"{case.name} in the lab")  # fmt: skip
    if all(told):
        for boot, one in zip(planned, told, strict=True):
            for number in boot.cells:
                found[number] += [Played(**one[_name(number, seed)]) for seed in boot.seeds]
    return found


def left_out(case: Description) -> list[tuple[str, str]]:
    """Return the cells that are not booted, each with the reason."""
    found = [(one.label or one.governor, place_of(case, one)) for one in case.cells]
    return [(cell, why) for cell, why in dict.fromkeys(found) if isinstance(why, str)]
