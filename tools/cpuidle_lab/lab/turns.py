# SPDX-License-Identifier: GPL-2.0
"""Programs in the lab: one boot for each, in which every governor has its turns.

Every seed is a round in which each governor runs the same commands, in an order that rotates from
round to round. A governor can have several turns, with other tunables in each. Before the first
there is a run that is not judged, so that no turn pays for caches that were still cold.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from cpuidle_lab.base.cache import BUILD
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import scratch
from cpuidle_lab.base.settings import Setting
from cpuidle_lab.figures import analysis
from cpuidle_lab.figures.group import Group
from cpuidle_lab.lab import programs, workloads
from cpuidle_lab.lab.run import LabRun, run_lab
from cpuidle_lab.lab.session import OUR_EVENTS, TRACE, PhasePlan, Session
from cpuidle_lab.lab.workloads import Workload
from cpuidle_lab.recording import trace

# Decides in the run that is not judged.
_MENU = "menu_ng"

_WARM = "warm"

# Of each turn; fio leaves the most.
_TRACE_MIB = 6

# Events that tell the regret, and no more: `weights`, which one governor has, costs time of its
# programs.
_EVENTS = tuple(f"{OUR_EVENTS}:cil_{name}" for name in ("config", "state", "decision", "outcome"))


@dataclass(frozen=True)
class Turn:
    """A governor's turn.

    Attributes:
        label: for people, with its tunables.
        governor: as in current_governor.
        tunables: set before.
    """

    label: str
    governor: str
    tunables: Sequence[Setting] = ()


@dataclass(frozen=True)
class Size:
    """Numbers of runs.

    Attributes:
        seeds: rounds of each program.
        seconds: of each run, for programs that take a time.
    """

    seeds: int
    seconds: int


@dataclass(frozen=True)
class JudgedProgram:
    """A program and what it gets done.

    Attributes:
        workload: how it is run.
        machine: on which idle states.
        work: finds numbers in its output that say what it got done.
        less_is_more: the numbers are times.
        latency: its output has a latency in ns on each line, and nothing else.
        own: its program, where it is not Debian's.

    Without `work`, the same work is done each time, and its time tells.
    """

    workload: Workload
    machine: str
    work: str = ""
    less_is_more: bool = False
    latency: bool = False
    own: programs.Program | None = None

    @property
    def name(self) -> str:
        """Name of the workload."""
        return self.workload.name

    def throughput(self, output: str, seconds: float) -> float | None:
        """Return what got done in each second, in units of the program's own.

        Args:
            output: what it printed.
            seconds: how long it took.

        Returns:
            None if the output does not tell.
        """
        if not self.work:
            return 1 / seconds if seconds > 0 else None
        total = self._total(output)
        if not total:
            return None
        return 1 / total if self.less_is_more else total / seconds

    def amount(self, output: str) -> float:
        """Return how much got done in all, in units of the program's own."""
        return 1.0 if not self.work or self.less_is_more else self._total(output)

    def tail(self, output: str) -> float | None:
        """Return p99 of the latencies that it measured, us; None if it measures none."""
        if not self.latency:
            return None
        taken = sorted(int(line) for line in output.split())
        return taken[99 * len(taken) // 100] / 1000 if taken else None

    def files(self) -> dict[str, bytes]:
        """Return the files that the guest needs for it, by path."""
        return {
            **workloads.files([self.workload]),
            **(programs.file(self.own) if self.own else {}),
        }

    def _total(self, output: str) -> float:
        return sum(float(number) for number in re.findall(self.work, output))


_STRESS = Workload(
    "stress-mix",
    "jittered timers and a pair that wakes each other, with a CPU 10 % busy",
    "stress-ng --metrics-brief --seed SEED --timeout DURATION --timer 1 --timer-freq 300 "
    "--timer-rand --switch 1 --switch-freq 500 --cpu 1 --cpu-load 10 --cpu-load-slice 4 "
    "--cpu-method loop",
)
_SHELL = Workload(
    "shell-jobs",
    "a small job of find, sort and gzip every 50 ms, as scripts do",
    "for i in $(seq $((10 * DURATION))); do find /bin /lab | sort | gzip >/dev/null; "
    "usleep 50000; done",
)

# It prints its time in milliseconds, so bursts as short as those of the corpus tell nothing.
_HACKBENCH = Workload(
    "hackbench-long",
    "longer bursts: 8 processes pass messages through pipes, three times a second",
    "for i in $(seq $((3 * DURATION))); do hackbench --pipe --groups 1 --fds 4 --loops 600; "
    "usleep 200000; done",
)

PROGRAMS = (
    JudgedProgram(workloads.find("cyclictest-1700us"), "skx", r"C:\s*(\d+)"),
    JudgedProgram(_HACKBENCH, "icx", r"Time: ([\d.]+)", True),
    JudgedProgram(_STRESS, "gnr", r"metrc: \[\d+\] (?:timer|switch|cpu) +(\d+)"),
    JudgedProgram(_SHELL, "skl"),
    JudgedProgram(workloads.find("pgbench-1"), "skx", r"transactions actually processed: (\d+)"),
    JudgedProgram(workloads.find("fio-1"), "spr", r"issued rwts: total=(\d+)"),
    JudgedProgram(workloads.find("nginx-wrk"), "skl", r"(\d+) requests in"),
    JudgedProgram(workloads.find("redis"), "power9"),
)


@dataclass(frozen=True)
class ProgramRun:
    """A program under a governor, once.

    Attributes:
        program: name.
        machine: idle states.
        governor: who decided, with its tunables.
        seed: of the round.
        regret: recorded regret, %; None if there were too few intervals.
        energy_mj: that the emulated machine took, busy time included.
        seconds: how long it took.
        throughput: as of Program.throughput().
        amount: as of Program.amount().
        p99_us: p99 of the modelled wake-up latency.
        tail_us: p99 of the latencies that the program measured; None: it measures none.
    """

    program: str
    machine: str
    governor: str
    seed: int
    regret: float | None
    energy_mj: float
    seconds: float
    throughput: float
    amount: float
    p99_us: float | None
    tail_us: float | None = None


def _workload(seed: int, turn: int) -> str:
    return f"{seed}-{turn}"


def rounds(program: JudgedProgram, turns: Sequence[Turn], size: Size) -> list[PhasePlan]:
    """Return all runs of a program in one boot, the first of them to warm up."""
    setup = program.workload.setup
    found = [PhasePlan(_MENU, _WARM, program.workload.shell(1, 1), setup=setup)]
    numbered = list(enumerate(turns))
    for seed in range(1, size.seeds + 1):
        # Each round meets the tick at another point.
        command = f"usleep $(({seed} * 7919 % 4000 + 1000)); "
        command += program.workload.shell(size.seconds, seed)
        first = seed % len(turns)
        for number, turn in (*numbered[first:], *numbered[:first]):
            name = _workload(seed, number)
            found.append(PhasePlan(turn.governor, name, command, turn.tunables, setup))
    return found


def _runs(
    program: JudgedProgram, turns: Sequence[Turn], groups: Sequence[Group], outputs: Path
) -> list[ProgramRun]:
    found = []
    for group in groups:
        if group.workload == _WARM or not group.workload:
            continue
        seed, turn = map(int, group.workload.split("-"))
        seconds = (group.end_ns - group.start_ns) / 1e9
        printed = (outputs / turns[turn].governor / group.workload).read_text(errors="replace")
        throughput = program.throughput(printed, seconds)
        if throughput is None:
            raise UserError(f"{program.name}: its output does not say what it got done")
        energy_mj = group.values.get("emulated_mj")
        if energy_mj is None:
            raise UserError(f"{program.name}: the trace does not say what energy it took")
        found.append(
            ProgramRun(
                program.name,
                program.machine,
                turns[turn].label,
                seed,
                group.judged_regret,
                energy_mj,
                seconds,
                throughput,
                program.amount(printed),
                group.values.get("latency_p99_us"),
                program.tail(printed),
            )
        )
    return found


def lab_run(
    program: JudgedProgram,
    turns: Sequence[Turn],
    size: Size,
    *,
    kernel: str = LabRun.kernel,
    changes: Mapping[str, str] = MappingProxyType({}),
    modules: Sequence[str] = (),
) -> LabRun:
    """Return the boot of a program.

    Args:
        program: what runs.
        turns: under which governors.
        size: how much.
        kernel: of the guest.
        changes: of the modules' sources, as of LabRun.
        modules: to load beside the project's.

    Raises:
        UserError: the machine is unknown, or Debian's archive cannot be used.
    """
    phases = rounds(program, turns, size)
    session = Session(
        program.machine, phases, _EVENTS, _TRACE_MIB * (len(phases) - 1), modules=modules
    )
    return LabRun(
        session.script(),
        kernel=kernel,
        files=program.files(),
        real_time=False,
        time_limit_s=1800,
        changes=changes,
    )


def boot(
    program: JudgedProgram, turns: Sequence[Turn], run: LabRun, title: str = ""
) -> list[ProgramRun]:
    """Boot what lab_run() returned, and read its results.

    Args:
        program: what runs.
        turns: under which governors.
        run: the boot.
        title: shown as progress; none: no progress.

    Raises:
        UserError: something failed in the guest, or its output does not tell what it did.
    """
    with scratch(BUILD) as folder:
        result = run_lab(run, folder / "results", title).check()
        recorded = trace.load(result.files / TRACE)
        if not recorded.integrity.complete:
            raise UserError(f"{program.name}: events were lost while it was recorded")
        return _runs(program, turns, analysis.analyse(recorded), result.files)
