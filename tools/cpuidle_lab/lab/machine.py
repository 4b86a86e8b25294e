# SPDX-License-Identifier: GPL-2.0
"""The lab's machine: QEMU without hardware virtualization.

In virtual time (`-icount`) one instruction is one nanosecond, idle time costs nothing, and
the same inputs give the same run to the last bit. The clock counts the instructions of all
CPUs: two busy CPUs each run at half speed. In real time each CPU has its own host thread and
runs differ.
"""

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cpuidle_lab.base.cache import check_ending, ending, is_full, stop_group
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.lab.monitor import Monitor
from cpuidle_lab.lab.saved import Saved

# SeaBIOS reads from the disk, whose completions follow the host's clock; this one does not.
FIRMWARE = "qboot.rom"
# Without random numbers of the host's.
CPU = "max,-rdrand,-rdseed"
# Figures were measured without cmpxchg16b. Linux 7 makes no arena for BPF without it.
VIRTUAL_CPU = f"{CPU},-cx16"
# In virtual time an instruction is a nanosecond. Linux 7.2 would measure 1000.063 MHz and set the
# rate of the APIC's timer by it, before it measures again. A timer in 2 s would be late by 130 us.
VIRTUAL_TSC = "tsc_early_khz=1000000"
# A kernel panics at boot where its timer does not tick for 10 ms. In real time a crowded host does
# that to it. Linux leaves that check out for guests of KVM, too.
REAL_TIMER = "no_timer_check"
SAID = re.compile(r"^lab: (.*?)\r?$")
PANIC = re.compile(r"Kernel panic - not syncing: .*|Oops: .*|BUG: .*")
# An int3 that the kernel does not know of, and the code around it: the byte before the marked one.
BREAKPOINT = re.compile(r"Oops: int3: .*?\bCode: [^<]*?([0-9a-f]{2}) <", re.DOTALL)
INT3 = "cc"
# Boots of a machine that QEMU ends by stale code.
BOOTS = 3
# At the end of a console, and from the first line of a fault on: its registers and calls.
CONSOLE_LINES_SHOWN = 8
FAULT_LINES_SHOWN = 50
POLL_S = 0.05

# Set in the environment, it gives machines in virtual time all host CPUs.
ALL_CPUS = "CPUIDLE_LAB_ALL_CPUS"
# Words of a guest before and after it sleeps; meanwhile the lab presses a key so often.
SLEEPERS = {"sleeps": 1, "awake": -1}
KEY_S = 0.5
START_LIMIT_S = 20
# A CPU in virtual time keeps its turn for half of the time until any device's next timer is due,
# though another CPU was woken meanwhile. So a device without a use has a timer each so many us; a
# wake-up is late by half of that. An idle second then costs a fifth of a second here.
TURN_US = 100

# QEMU's name for the thread that runs all CPUs in turns.
CPUS_THREAD = "/TCG"


@dataclass(frozen=True)
class VirtualMachine:
    """Machine to boot, with its kernel and devices.

    Attributes:
        kernel: the kernel's image.
        root: the cpio archive that it unpacks as its root.
        disk: a raw file that becomes the guest's /dev/vda.
        console: file that receives what the guest writes to its serial port; that of a boot that
            stale code ended has a number behind its name.
        cpus: number of CPUs.
        memory_mib: size of the memory.
        seed: of all that QEMU calls random.
        real_time: see above.
        time_limit_s: of wall-clock time; then the machine is stopped.
        emulator: the command that runs QEMU, without its options.
        options: further words of the kernel's command line.
        turn_us: see TURN_US; 0: turns have no bound.
        packages: among which the CPUs are divided.
        threads: CPUs of a core.
        cluster: CPUs that share a second-level cache, as a module of E-cores; 0: those of a core.
        boots: how often it is booted where stale code ends it; see ran_stale_code().
        saved: where it is saved, or goes on from, if at all.
    """

    kernel: Path
    root: Path
    disk: Path
    console: Path
    cpus: int
    memory_mib: int
    seed: int
    real_time: bool
    time_limit_s: float
    emulator: tuple[str, ...]
    options: tuple[str, ...] = ()
    turn_us: int = TURN_US
    packages: int = 1
    threads: int = 1
    cluster: int = 0
    boots: int = BOOTS
    saved: Saved | None = None

    def command(self) -> list[str]:
        """Return QEMU's command line."""
        time_source = (
            ["-accel", "tcg,thread=multi"]
            if self.real_time
            else ["-accel", "tcg", "-icount", "shift=0,sleep=off"]
        )
        kernel_options = [
            "console=ttyS0",
            "quiet",
            "loglevel=1",  # the console costs time; all lines are in dmesg
            "nokaslr",
            "norandmaps",
            "tsc=reliable",
            "panic=-1",
            "oops=panic",
            REAL_TIMER if self.real_time else VIRTUAL_TSC,
            *self.options,
        ]
        return [
            *self.emulator,
            *time_source,
            *("-seed", str(self.seed)),
            *("-cpu", self._cpu()),
            *self._topology(),
            *("-m", str(self.memory_mib)),
            *("-nodefaults", "-no-user-config", "-no-reboot"),
            *("-bios", FIRMWARE),
            *("-display", "none"),
            *("-nic", "none"),
            *self._turns(),
            *("-rtc", "base=2026-01-01,clock=vm"),
            *("-serial", f"file:{self.console}"),
            # On a full disk QEMU would stop the guest, and wait until there is room.
            *("-drive", f"if=virtio,format=raw,werror=report,file={self.disk}"),
            *("-kernel", str(self.kernel)),
            *("-initrd", str(self.root)),
            *("-append", " ".join(kernel_options)),
            *(self.saved.options(self.memory_mib) if self.saved else ()),
            # Stopped until its threads are in order; see put_threads_in_order().
            *("-S", "-name", "lab,debug-threads=on", "-monitor", "stdio"),
        ]

    def _cpu(self) -> str:
        """Return the model of the CPUs."""
        model = CPU if self.real_time else VIRTUAL_CPU
        # Linux looks for AMD's threads and caches in leaves that QEMU's emulation does not have.
        is_flat = self.threads == 1 and not self.cluster
        return model if is_flat else f"{model},vendor=GenuineIntel"

    def _topology(self) -> list[str]:
        """Return what divides the CPUs among packages, clusters and cores."""
        divided = f"{self.cpus},sockets={self.packages},threads={self.threads}"
        if not self.cluster:
            return ["-smp", divided]
        clusters = self.cpus // self.packages // self.cluster
        cache = "smp-cache.0.cache=l2,smp-cache.0.topology=module"
        return ["-smp", f"{divided},modules={clusters}", "-machine", cache]

    def _turns(self) -> list[str]:
        """Return what bounds the turn of a CPU in virtual time; see TURN_US."""
        if self.real_time or self.cpus == 1 or not self.turn_us:
            return []
        clock = f"filter-buffer,id=clock,netdev=nowhere,interval={self.turn_us}"
        return ["-netdev", "hubport,id=nowhere,hubid=0", "-object", clock]

    def run(self, said: Callable[[str], None]) -> None:
        """Boot, wait for the guest to switch itself off.

        Args:
            said: called with each line that the guest's script says.

        Raises:
            UserError: a panic or the time limit; the message has the console's end.
        """
        for boot in range(1, self.boots + 1):
            self._boot(said)
            if boot == self.boots or not ran_stale_code(self.console.read_text(errors="replace")):
                break
            self.console.rename(f"{self.console}.{boot}")
            print("cpuidle-lab: QEMU ran stale code: booting again", file=sys.stderr, flush=True)
        self._check_console()

    def _boot(self, said: Callable[[str], None]) -> None:
        check_ending()
        self.console.write_bytes(b"")
        with contextlib.ExitStack() as stack:
            host_cpu = None if self.real_time else stack.enter_context(host_cpu_taken(said))
            self._run(said, host_cpu)

    def _run(self, said: Callable[[str], None], host_cpu: int | None) -> None:
        # The machine ends with us, however we end.
        command = ["setpriv", "--pdeathsig", "KILL", *self.command()]
        complaints = self.console.with_name("qemu.log")
        with complaints.open("wb") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        monitor = Monitor(process, complaints, check_ending)
        try:
            self._start(monitor, host_cpu)
            self._follow(monitor, said)
        finally:
            if process.poll() is None:
                # The thread of the CPUs would let no other take a kinder signal.
                stop_group(process, [signal.SIGKILL])
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        if process.returncode != 0:
            full = "the disk is full" if process.returncode == -signal.SIGBUS else ""
            reason = full or monitor.complaint() or f"exit code {process.returncode}"
            raise UserError(f"QEMU failed: {reason}")

    def _start(self, monitor: Monitor, host_cpu: int | None) -> None:
        if self.saved and self.saved.goes_on:
            self.saved.load(monitor)
        if host_cpu is not None:
            put_threads_in_order(monitor.process, host_cpu)
        monitor.tell("cont")
        if self.saved and not self.saved.goes_on:
            try:
                self.saved.save(monitor, self.time_limit_s)
            except UserError as error:
                raise UserError(f"{error}; {self.last_lines()}") from None

    def _follow(self, monitor: Monitor, said: Callable[[str], None]) -> None:
        deadline = time.monotonic() + self.time_limit_s
        asleep, pressed = 0, 0.0
        with self.console.open(errors="replace", newline="\n") as stream:
            pending = ""
            while True:
                ended = monitor.process.poll() is not None
                *lines, pending = (pending + stream.read()).split("\n")
                for match in filter(None, map(SAID.match, lines)):
                    asleep += SLEEPERS.get(match[1], 0)
                    if match[1] not in SLEEPERS:
                        said(match[1])
                if asleep and time.monotonic() > pressed + KEY_S:
                    monitor.tell("sendkey ret")
                    pressed = time.monotonic()
                if ended:
                    return
                check_ending()
                if time.monotonic() > deadline:
                    raise UserError(
                        f"the guest did not end within {self.time_limit_s:.0f} s; "
                        + self.last_lines()
                    )
                time.sleep(POLL_S)

    def unpack(self, target: Path) -> Path:
        """Unpack the tar archive that the guest wrote to its disk.

        Args:
            target: directory to make.

        Returns:
            The directory.

        Raises:
            UserError: it is not there or not whole; the message has the console's end, or that the
                disk is full.
        """
        target.mkdir()
        command = ["tar", "--no-same-owner", "-C", str(target), "-xf", str(self.disk)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        whole = (target / "uptime").is_file() and done.returncode == 0
        if not whole and is_full(target):
            raise UserError(f"the guest's results cannot be kept: the disk of {target} is full")
        if not (target / "uptime").is_file():
            raise UserError(f"the guest ended without leaving its results; {self.last_lines()}")
        if done.returncode != 0:
            raise UserError(f"the guest's results cannot be unpacked: {done.stderr.strip()}")
        return target

    def _check_console(self) -> None:
        text = self.console.read_text(errors="replace")
        panic = PANIC.search(text)
        if panic:
            fault = text[text.rfind("\n", 0, panic.start()) + 1 :]
            shown = _indented(fault.splitlines()[:FAULT_LINES_SHOWN])
            raise UserError(f"the guest's kernel died ({panic[0].strip()}); its console:\n{shown}")

    def last_lines(self) -> str:
        """Return the end of the console, for messages."""
        lines = self.console.read_text(errors="replace").splitlines()
        shown = [line for line in lines if line.strip()][-CONSOLE_LINES_SHOWN:]
        return f"last lines of its console:\n{_indented(shown)}"


def ran_stale_code(console: str) -> bool:
    """Tell whether the emulator ended a machine by code that is not in its memory.

    A CPU of QEMU may translate code while another one writes to it: after that looked for what was
    translated, and before it writes. Then it runs what was there before. The kernel replaces
    instructions by way of an int3. It dies of one where its memory has none any more.

    Args:
        console: of the machine.
    """
    found = BREAKPOINT.search(console)
    return found is not None and found[1] != INT3


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"    {line.rstrip()}" for line in lines)


@contextlib.contextmanager
def end_machines() -> Iterator[None]:
    """Let the machines of all threads end; none starts meanwhile.

    Nor does one start later, where what follows is interrupted: threads may still be at work then.
    """
    ending.set()
    yield
    ending.clear()


def host_cpus() -> list[int]:
    """Return the host CPUs for machines in virtual time, in the order in which they are taken.

    One host CPU is left to other work, unless ALL_CPUS is in the environment.
    """
    first, *others = sorted(os.sched_getaffinity(0))
    return [*others, first] if ALL_CPUS in os.environ else others or [first]


@contextlib.contextmanager
def host_cpu_taken(said: Callable[[str], None]) -> Iterator[int]:
    """Take a host CPU for a machine in virtual time, and wait until there is one.

    The machine keeps everything else off its host CPU. So there are as many such machines at once
    as host_cpus() has, and further ones take turns.

    Args:
        said: told that this one waits.

    Yields:
        The number of the host CPU.
    """
    folder = Path(tempfile.gettempdir())
    names = {cpu: folder / f"cpuidle-lab-{os.getuid()}-cpu{cpu}.lock" for cpu in host_cpus()}
    with contextlib.ExitStack() as stack:
        locks = {cpu: stack.enter_context(name.open("w")) for cpu, name in names.items()}
        waiting = False
        while (taken := _first_free(locks)) is None:
            check_ending()
            if not waiting:
                said("waits for another machine to end")
                waiting = True
            time.sleep(POLL_S)
        yield taken


def _first_free(locks: Mapping[int, IO[str]]) -> int | None:
    for cpu, lock in locks.items():
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cpu
    return None


def put_threads_in_order(process: "subprocess.Popen[bytes]", host_cpu: int) -> None:
    """Let the thread that runs the CPUs go before QEMU's others, always.

    When all CPUs are idle, QEMU's main thread moves the clock to the next timer. It may look at
    the very moment in which a CPU has halted but its last instructions are not yet counted, and
    then the clock goes too far: a race of two host threads that the guest can see. On one host
    CPU, and with the main thread running only while the CPUs' thread waits, it cannot happen.

    Real-time priority says that strictly, but takes a privilege; without it, the other threads
    are made idle ones, which is nearly the same on a host CPU that is not crowded.

    Args:
        process: a QEMU that was started stopped, with names for its threads; if it has ended
            already, nothing happens.
        host_cpu: where it runs from now on.

    Raises:
        UserError: QEMU has no such thread.
    """
    threads = find_threads(process)
    for thread in threads:
        os.sched_setaffinity(thread, {host_cpu})
    try:
        for thread, name in threads.items():
            if name.endswith(CPUS_THREAD):
                os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        for thread, name in threads.items():
            if not name.endswith(CPUS_THREAD):
                os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))


def find_threads(process: "subprocess.Popen[bytes]") -> dict[int, str]:
    """Return the names of QEMU's threads by number, once the one that runs the CPUs is there."""
    end = time.monotonic() + START_LIMIT_S
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError):
            tasks = Path(f"/proc/{process.pid}/task").iterdir()
            threads = {int(task.name): (task / "comm").read_text().strip() for task in tasks}
            if any(name.endswith(CPUS_THREAD) for name in threads.values()):
                return threads
        time.sleep(POLL_S)
    if process.poll() is None:
        raise UserError("QEMU did not start its CPUs in time")
    return {}
