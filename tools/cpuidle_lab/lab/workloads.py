# SPDX-License-Identifier: GPL-2.0
"""The named workloads: programs from Debian with fixed parameters.

cyclictest runs with --default-system, because it would otherwise hold the latency request
at 0 and no CPU would ever go deeper than polling. An interval that divides the tick's (4 ms)
meets the tick at the same point for ever, so that an accident of the phase decides how often the
tick wakes a CPU; to compare governors, take one of the odd intervals. Those of 10 us, 100 us and
1 ms run with real-time priority, as cyclictest is mostly used; the others like any program, whose
timers the kernel lets expire up to 50 us late.
"""

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.settings import Setting
from cpuidle_lab.lab import images
from cpuidle_lab.lab.session import PhasePlan

SERVERS = Path(__file__).parent / "guest" / "servers"


@dataclass(frozen=True)
class Workload:
    """A program to run in the guest.

    Attributes:
        name: as given to --workload.
        summary: what its idle periods are like.
        command: shell command; DURATION stands for the seconds it runs, SEED for the seed.
        setup: shell command that makes ready what it needs, a function of guest/servers.
        packages: of images.EXTRA_PROGRAMS, whose programs it needs.
    """

    name: str
    summary: str
    command: str
    setup: str = ""
    packages: tuple[str, ...] = ()

    def shell(self, duration_s: float, seed: int) -> str:
        """Return the command for a duration (seconds) and a seed.

        Most programs take whole seconds alone, so they are ended in another case.
        """
        whole_s = math.ceil(duration_s)
        command = self.command.replace("DURATION", str(whole_s)).replace("SEED", str(seed))
        if whole_s == duration_s:
            return command
        return f"timeout {duration_s} sh -c {shlex.quote(command)} || [ $? = 124 ]"

    def phase(
        self, governor: str, duration_s: float, seed: int, tunables: Sequence[Setting] = ()
    ) -> PhasePlan:
        """Return the phase of a session that runs it, for a duration in seconds."""
        return PhasePlan(governor, self.name, self.shell(duration_s, seed), tunables, self.setup)


_CYCLICTEST = "cyclictest --default-system --quiet --duration DURATION --threads 1 --interval"
_REALTIME = _CYCLICTEST.replace("cyclictest", "cyclictest --priority 80")
_STRESS = "stress-ng --quiet --seed SEED --timeout DURATION"
_BURSTS = "for i in $(seq $((5 * DURATION))); do hackbench {}; usleep 180000; done"
_PGBENCH = (
    "/usr/lib/postgresql/17/bin/pgbench --no-vacuum --client={clients} --rate={rate} "
    "--time=DURATION --random-seed=SEED postgres"
)

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("idle", "nothing but the kernel's own housekeeping", "sleep DURATION"),
        Workload("cyclictest-10us", "a timer every 10 us: never long idle", f"{_REALTIME} 10"),
        Workload("cyclictest-100us", "a timer every 100 us", f"{_REALTIME} 100"),
        Workload("cyclictest-150us", "a timer every 150 us", f"{_CYCLICTEST} 150"),
        Workload("cyclictest-470us", "a timer every 470 us", f"{_CYCLICTEST} 470"),
        Workload("cyclictest-500us", "a timer every 500 us", f"{_CYCLICTEST} 500"),
        Workload("cyclictest-1ms", "a timer every 1 ms", f"{_REALTIME} 1000"),
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
        Workload(
            "stress-mix",
            "jittered timers and a pair that wakes each other, with a CPU 10 % busy",
            f"{_STRESS} --timer 1 --timer-freq 300 --timer-rand --switch 1 --switch-freq 500 "
            "--cpu 1 --cpu-load 10 --cpu-load-slice 4 --cpu-method loop",
        ),
        Workload(
            "stress-sleep",
            "twenty threads that sleep again and again, for times of all sizes",
            f"{_STRESS} --sleep 1 --sleep-max 20",
        ),
        Workload(
            "pgbench-1",
            "PostgreSQL, one client, 100 transactions a second at random times",
            _PGBENCH.format(clients=1, rate=100),
            "postgres_start",
            ("postgresql-17",),
        ),
        Workload(
            "pgbench-44",
            "PostgreSQL, 44 clients, together 200 transactions a second at random times",
            _PGBENCH.format(clients=44, rate=200),
            "postgres_start",
            ("postgresql-17",),
        ),
        Workload(
            "fio-1",
            "one read at a time from a disk that takes 80 us, by a timer",
            "fio --name=read --filename=/dev/nullb0 --rw=randread --bs=4k --direct=1 --thread "
            "--ioengine=psync --time_based --runtime=DURATION --randseed=SEED",
            "timer_disk 80000",
            ("fio",),
        ),
        Workload(
            "nginx-wrk",
            "a web server and 4 clients that think for 0 to 9 ms",
            "wrk -t 1 -c 4 -d DURATION -s /lab/wrk.lua http://127.0.0.1:8080/page",
            "nginx_start",
            ("nginx", "wrk"),
        ),
        Workload(
            "redis",
            "a key-value server and one client that asks 1000 times a second",
            "redis-cli -r $((1000 * DURATION)) -i 0.001 incr key | tail -n 1",
            "redis_start",
            ("redis-server",),
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


def files(found: Iterable[Workload]) -> dict[str, bytes]:
    """Return the files that the guest needs for workloads, beyond those of every guest.

    Args:
        found: the workloads.

    Returns:
        The contents by path; nothing where no workload needs anything.

    Raises:
        UserError: Debian's archive cannot be used.
    """
    needing = [each for each in found if each.setup or each.packages]
    if not needing:
        return {}
    wanted = [package for each in needing for package in each.packages]
    return {"lab/servers": SERVERS.read_bytes(), **images.extra_programs(wanted)}
