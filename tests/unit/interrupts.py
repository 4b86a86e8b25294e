# SPDX-License-Identifier: GPL-2.0
"""Makes recordings of idle periods and the interrupts that end them, whose causes are known."""

from pathlib import Path

from cpuidle_lab.recording.formats.writer import Event, Writer
from tests.unit.kernel_events import EXIT, MS

TICK = MS
# From the exit to its handler, and how long that takes.
_AFTER, _HANDLER = 700, 1500
MACHINE = (
    "stock machine cpus=0-3 tick_ns=4000000 states=WFI:1:1:1000,OFF:100:2000:50,DEEP:200:2000:10"
)
KERNEL = "stock kernel=6.12.9 governor=teo way=cpu_idle"


class Arm:
    """Makes the events of one CPU of an arm64 machine; its tick comes each ms."""

    def __init__(self, cpu: int = 0, lines: tuple[str, ...] = (MACHINE, KERNEL)) -> None:
        self.cpu = cpu
        self.events = [Event(cpu, 1000 + n, "print", text=line) for n, line in enumerate(lines)]
        self.now = 10 * MS

    def add(self, after: int, name: str, text: str = "", pid: int = 0, **values: int) -> None:
        """Add an event so many ns after the last."""
        self.now += after
        comm = f"task{pid}" if pid else "<idle>"
        self.events.append(Event(self.cpu, self.now, name, values, text, pid=pid, comm=comm))

    def enter(self, state: int = 1) -> None:
        """Go idle, 3 us after the last event."""
        self.add(3000, "cpu_idle", state=state, cpu_id=self.cpu)

    def leave(self, at: int, late: int = 0) -> None:
        """Leave the idle state at a time, so much later."""
        self.add(at + late - self.now, "cpu_idle", state=EXIT, cpu_id=self.cpu)

    def interrupt(self, irq: int, name: str, *softirqs: int, pid: int = 0) -> None:
        """Serve an interrupt."""
        self.add(_AFTER, "irq_handler_entry", name, irq=irq, pid=pid)
        for vector in softirqs:
            self.add(100, "softirq_raise", vec=vector, pid=pid)
        self.add(_HANDLER, "irq_handler_exit", irq=irq, pid=pid)

    def next_tick(self) -> int:
        """Return when the tick is due next."""
        return (self.now // TICK + 1) * TICK

    def tick(self, *softirqs: int, state: int = 0, late: int = 0) -> None:
        """Be idle until the next tick."""
        self.enter(state)
        self.leave(self.next_tick(), late)
        self.interrupt(19, "arch_timer", *softirqs)

    def timer(self, sleep: int, state: int = 1, late: int = 0) -> None:
        """Be idle until a timer, whose task then runs."""
        self.enter(state)
        self.leave(self.now + sleep, late)
        self.interrupt(19, "arch_timer")
        self.work()

    def device(self, stay: int, state: int = 1) -> None:
        """Be idle until a device interrupts; its task then runs."""
        self.enter(state)
        self.leave(self.now + stay)
        self.interrupt(50, "ufshcd")
        self.work()

    def work(self, length: int = 5000) -> None:
        """Let a task run, which is seen by what it raises."""
        self.add(length, "softirq_raise", vec=3, pid=7)

    def learn(self, ticks: int = 60) -> None:
        """Let ticks come that tell the grid."""
        for _ in range(ticks):
            self.tick(7)
            self.work()


def write(path: Path, *cpus: Arm) -> Path:
    """Write what some CPUs recorded."""
    with Writer(path) as writer:
        for cpu in cpus:
            for event in cpu.events:
                writer.add(event)
    return path
