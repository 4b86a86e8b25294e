# SPDX-License-Identifier: GPL-2.0
"""Recordings for a cross-validation: every workload under every governor, in few boots.

A boot is one emulated machine, one seed and one kernel; its workloads run under each governor in
turn, which begins afresh each time. What is recorded stays, by a hash of all that made it.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from cpuidle_lab.base.cache import digest, locked
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.files import scratch
from cpuidle_lab.base.settings import Setting
from cpuidle_lab.lab import workloads
from cpuidle_lab.lab.keys import key_of
from cpuidle_lab.lab.run import LabRun, run_lab
from cpuidle_lab.lab.session import TRACE, PhasePlan, Session

# Governors that record: the kernel's own menu through the gate, and the module's.
GOVERNORS: dict[str, tuple[Setting, ...]] = {
    "gate": (Setting("gate", "base", "menu"),),
    "menu_ng": (),
    "teo_ng": (),
    "wteo": (Setting("wteo", "latency_bias", "1024"),),
    "wteo latency_bias=0": (Setting("wteo", "latency_bias", "0"),),
}

# Workloads by the machine that has them by default, and their seconds: enough for some hundred
# intervals of the least busy phase.
TABLES: dict[str, dict[str, int]] = {
    "skx": {
        "idle": 45,
        "cyclictest-470us": 1,
        "cyclictest-1700us": 1,
        "hackbench-pipe": 3,
        "stress-cpu": 2,
        "stress-timer": 1,
        "pgbench-1": 1,
    },
    "spr": {
        "cyclictest-1ms": 1,
        "cyclictest-150us": 1,
        "stress-sleep": 1,
        "stress-mix": 1,
        "pgbench-44": 1,
    },
    "skl": {
        "cyclictest-100us": 1,
        "cyclictest-500us": 1,
        "cyclictest-2ms": 1,
        "stress-switch": 1,
        "nginx-wrk": 1,
    },
    "power9": {
        "cyclictest-10us": 1,
        "cyclictest-10ms": 4,
        "hackbench-socket": 3,
        "fio-1": 1,
        "redis": 1,
    },
}

KERNEL = "6.12"
SEEDS = 5
FULL_SEEDS = 3
FULL_KERNELS = ("6.12", "7.2")

# Bound of a CPU's turn, us, half of which a CPU may wait before it wakes. With 100, 0.21 % of the
# idle time of pgbench-44 was overslept; with 10 it is 0.05 %.
TURN_US = 10

# An idle second takes ten times as long with it. So this workload has a boot of its own.
OTHER_TURNS_US = {"idle": 100}

# Room for the events of the busiest boot, and for all else.
_TRACE_MIB = 1024
_REST_MIB = 2048
_LIMIT_S = 1800


@dataclass(frozen=True)
class Boot:
    """One boot of the lab.

    Attributes:
        machine: the emulated machine.
        kernel: series of the kernel.
        seed: of the machine and the workloads.
        chosen: workloads and their seconds.
        governors: names of GOVERNORS.
        trace_mib: room for its events.
        rest_mib: room for all else.
    """

    machine: str
    kernel: str
    seed: int
    chosen: tuple[tuple[str, int], ...]
    governors: tuple[str, ...] = tuple(GOVERNORS)
    trace_mib: int = _TRACE_MIB
    rest_mib: int = _REST_MIB

    @property
    def name(self) -> str:
        """Name of its recording; a hash tells what was chosen, if not the machine's own table."""
        name = f"{self.machine}-{self.kernel}-{self.seed}"
        chosen = self.chosen, self.governors, self.trace_mib
        if chosen == (tuple(TABLES[self.machine].items()), tuple(GOVERNORS), _TRACE_MIB):
            return name
        return f"{name}.{digest([repr(chosen)])[:6]}"

    def script(self) -> str:
        """Return the script that the guest runs."""
        # Not every workload takes a seed; so each meets the tick at another point, too.
        wait = f"usleep {self.seed * 7919 % 4000 + 1000}; "
        phases = [
            PhasePlan(label.split()[0], found.name, wait + found.shell(seconds, self.seed),
                      tunables, found.setup)
            for name, seconds in self.chosen
            for found in (workloads.find(name),)
            for label, tunables in GOVERNORS.items()
            if label in self.governors
        ]  # fmt: skip
        return Session(self.machine, phases, trace_mib=self.trace_mib).script()

    def files(self) -> dict[str, bytes]:
        """Return the files that the guest needs, by path."""
        return workloads.files(workloads.find(name) for name, _ in self.chosen)

    @property
    def turn_us(self) -> int:
        """Bound of a CPU's turn; the same for all its workloads."""
        return turn_of(self.chosen[0][0])

    def run(self) -> LabRun:
        """Return the run that makes it."""
        return LabRun(
            self.script(),
            kernel=self.kernel,
            seed=self.seed,
            files=self.files(),
            memory_mib=self.trace_mib + self.rest_mib,
            real_time=False,
            time_limit_s=_LIMIT_S,
            turn_us=self.turn_us,
        )

    def record(self, folder: Path) -> Path:
        """Return the recording, made unless it is there.

        Raises:
            UserError: it cannot be made.
        """
        run = self.run()
        target = folder / f"{self.name}-{key_of(run)}.trace.dat"
        title = f"Recording {self.name}: {', '.join(name for name, _ in self.chosen)}"
        with locked(folder / f".{self.name}.lock"):
            if target.is_file():
                return target
            with scratch(folder) as made:
                result = run_lab(run, made / "results", title).check()
                (result.files / TRACE).replace(target)
        return target


def drop_older(folder: Path, kept: Collection[Path]) -> None:
    """Remove the recordings of earlier modules, kernels or programs in place of which others came.

    Args:
        folder: that record() was given.
        kept: what it returned.
    """
    names = {path.name.rpartition("-")[0] for path in kept}
    for path in set(folder.glob("*.trace.dat")) - set(kept):
        if path.name.rpartition("-")[0] in names:
            path.unlink(missing_ok=True)


def turn_of(workload: str) -> int:
    """Return the bound of a CPU's turn under a workload, us."""
    return OTHER_TURNS_US.get(workload, TURN_US)


def boots(
    *, full: bool = False, only: Sequence[str] = (), seeds: int | None = None
) -> Iterator[Boot]:
    """Yield the boots of a cross-validation, seed by seed.

    Args:
        full: all workloads on all machines, on two kernels.
        only: these workloads alone.
        seeds: how many; by default SEEDS, or FULL_SEEDS.

    Raises:
        UserError: a workload is unknown.
    """
    every = {name: seconds for table in TABLES.values() for name, seconds in table.items()}
    for name in only:
        if name not in every:
            raise UserError(f"unknown workload '{name}'; there are {', '.join(every)}", USAGE)
    for seed in range(1, (seeds or (FULL_SEEDS if full else SEEDS)) + 1):
        for kernel in FULL_KERNELS if full else (KERNEL,):
            for machine, own in TABLES.items():
                for table in TABLES.values() if full else (own,):
                    wanted = [(n, s) for n, s in table.items() if not only or n in only]
                    for _, chosen in groupby(wanted, key=lambda one: turn_of(one[0])):
                        yield Boot(machine, kernel, seed, tuple(chosen))
