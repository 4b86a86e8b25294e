# SPDX-License-Identifier: GPL-2.0
"""Makes traces of the events of an unmodified kernel."""

from pathlib import Path

import polars as pl

from cpuidle_lab.recording import columns
from cpuidle_lab.recording.formats.writer import Event, Writer

MACHINE = "stock machine cpus=0-1 tick_ns=4000000 states=POLL:0:0:4000,C1:2:2:1500,C6:133:600:100"
KERNEL = "stock kernel=6.12.9 governor=menu way=probes"
EXIT = 0xFFFFFFFF
MS = 1_000_000


class Kernel:
    """Makes the events of idle periods, as an unmodified kernel with probes would."""

    def __init__(self, lines: tuple[str, ...] = (MACHINE, KERNEL)) -> None:
        self.events = [Event(0, 1000 + n, "print", text=line) for n, line in enumerate(lines)]
        self.now = 5 * MS

    def add(self, after: int, name: str, text: str = "", **values: int) -> None:
        """Add an event so many ns after the last."""
        self.now += after
        self.events.append(Event(0, self.now, name, values, text))

    def idle(
        self, state: int, stay: int, *, sleep: int | None = None, delta: int = 0, stop: bool = True,
        tick: bool = False, expiry: bool = False, left: bool = True,
    ) -> None:  # fmt: skip
        """Add one idle period; `sleep` is None where the governor did not ask."""
        if sleep is not None:
            self.add(100, "cil_sleep_length", ret=sleep, dn=delta)
        self.add(100, "cil_stop_tick" if stop else "cil_retain_tick")
        self.add(100, "cpu_idle", state=state, cpu_id=0)
        self.add(stay, "cpu_idle", state=EXIT, cpu_id=0)
        if tick or expiry:
            self.add(50, "hrtimer_expire_entry", "tick_nohz_handler" if tick else "hrtimer_wakeup")
        if left:
            self.add(100, "cil_idle_exit")
            self.add(100, "sched_switch", prev_pid=0, next_pid=5)
            self.add(3000, "sched_switch", prev_pid=5, next_pid=0)

    def write(self, path: Path) -> Path:
        """Write the trace."""
        with Writer(path) as writer:
            for event in self.events:
                writer.add(event)
        return path


def periods(path: Path) -> pl.DataFrame:
    """Return the idle periods that the reader makes."""
    with columns.opened(path) as recording:
        return recording.table("period")


def bare(tmp_path: Path, lines: tuple[str, ...] = (MACHINE, KERNEL)) -> Path:
    """Write a trace of power:cpu_idle alone: 1 ms in C6, then 10 us in C6."""
    kernel = Kernel(lines)
    for stay in (1_133_000, 143_000):
        kernel.add(100_000, "cpu_idle", state=2, cpu_id=0)
        kernel.add(stay, "cpu_idle", state=EXIT, cpu_id=0)
    kernel.add(1000, "cpu_idle", state=1, cpu_id=0)
    return kernel.write(tmp_path / "bare.dat")
