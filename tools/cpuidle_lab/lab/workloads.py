# SPDX-License-Identifier: GPL-2.0
"""The named workloads: programs from Debian with fixed parameters.

cyclictest runs with --default-system, because it would otherwise hold the latency request
at 0 and no CPU would ever go deeper than polling. An interval that divides the tick's (4 ms)
meets the tick at the same point for ever, so that an accident of the phase decides how often the
tick wakes a CPU; to compare governors, take one of the odd intervals.
"""

from dataclasses import dataclass

from cpuidle_lab.errors import USAGE, UserError


@dataclass(frozen=True)
class Workload:
    """A program to run in the guest.

    Attributes:
        name: as given to --workload.
        summary: what its idle periods are like.
        command: shell command; DURATION stands for the seconds it runs, SEED for the seed.
    """

    name: str
    summary: str
    command: str

    def shell(self, duration_s: int, seed: int) -> str:
        """Return the command for a duration (seconds) and a seed."""
        return self.command.replace("DURATION", str(duration_s)).replace("SEED", str(seed))


_CYCLICTEST = "cyclictest --default-system --quiet --duration DURATION --threads 1 --interval"
_STRESS = "stress-ng --quiet --seed SEED --timeout DURATION"
_BURSTS = "for i in $(seq $((5 * DURATION))); do hackbench {}; usleep 180000; done"

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("idle", "nothing but the kernel's own housekeeping", "sleep DURATION"),
        Workload("cyclictest-150us", "a timer every 150 us", f"{_CYCLICTEST} 150"),
        Workload("cyclictest-470us", "a timer every 470 us", f"{_CYCLICTEST} 470"),
        Workload("cyclictest-500us", "a timer every 500 us", f"{_CYCLICTEST} 500"),
        Workload("cyclictest-1700us", "a timer every 1.7 ms", f"{_CYCLICTEST} 1700"),
        Workload("cyclictest-2ms", "a timer every 2 ms", f"{_CYCLICTEST} 2000"),
        Workload("cyclictest-10ms", "a timer every 10 ms", f"{_CYCLICTEST} 10000"),
        Workload(
            "hackbench-pipe",
            "bursts: 8 processes pass messages through pipes, 5 times a second",
            _BURSTS.format("--pipe --groups 1 --fds 4 --loops 20"),
        ),
        Workload(
            "hackbench-socket",
            "bursts: 8 processes pass messages through sockets, 5 times a second",
            _BURSTS.format("--groups 1 --fds 4 --loops 20"),
        ),
        Workload(
            "stress-cpu",
            "one CPU busy 30 % of the time, in slices",
            f"{_STRESS} --cpu 1 --cpu-load 30 --cpu-load-slice 4 --cpu-method loop",
        ),
        Workload(
            "stress-switch",
            "two processes that wake each other 2000 times a second",
            f"{_STRESS} --switch 1 --switch-freq 2000",
        ),
        Workload(
            "stress-timer",
            "a timer signal 1000 times a second, at jittered times",
            f"{_STRESS} --timer 1 --timer-freq 1000 --timer-rand",
        ),
    )
}


def find(name: str) -> Workload:
    """Return a workload.

    Raises:
        UserError: there is none of that name.
    """
    if name not in WORKLOADS:
        raise UserError(f"unknown workload '{name}'; there are {', '.join(WORKLOADS)}", USAGE)
    return WORKLOADS[name]
