# SPDX-License-Identifier: GPL-2.0
"""Runs a shell script in the guest and brings back what it left in /results."""

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from io import BytesIO
from pathlib import Path

from cpuidle_lab.base.cache import CACHE, cached, step
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.files import scratch, whole
from cpuidle_lab.base.waiting import sigterm_interrupts
from cpuidle_lab.lab import built, emulator, images, programs, results
from cpuidle_lab.lab.archive import CpioWriter
from cpuidle_lab.lab.machine import BOOTS, TURN_US, VirtualMachine
from cpuidle_lab.lab.saved import GIVEN, GIVEN_MOST, STATE, Saved, give

GUEST = Path(__file__).parent / "guest"
UNPACKED = "results"
SCRIPT_BEGINS = "lab: script begins"
WARNING_LEVEL = 4  # of the kernel's log; lower is worse

# A run goes on from a machine that has booted if it has these as every run.
SAVED_WITH = ("memory_mib", "options", "packages", "threads", "cluster")
BOOT_LIMIT_S = 600

# Kernels whose second CPU never starts in virtual time: the first one waits for it without ever
# giving up its turn, and QEMU 7.2 gives a CPU all the time there is until the next timer is due.
ONE_CPU_IN_VIRTUAL_TIME = ("6.1",)


@dataclass(frozen=True)
class LabRun:
    """One run of the guest.

    Attributes:
        script: shell script run by the guest as root; /lab/functions has helpers. Its standard
            output and what it leaves in /results come back.
        kernel: series of Debian's kernel ("6.1", "6.12", "7.2"), or a flavour that the project
            builds ("debug", "kcsan", "rt").
        cpus: number of CPUs.
        seed: the script sees it as LAB_SEED; QEMU draws from it where the run boots.
        with_modules: install the project's modules (built by DKMS) in the guest.
        files: further files of the guest, by path.
        memory_mib: the guest's memory.
        real_time: do not use virtual time; runs then differ. None: virtual time where the kernel
            can start so many CPUs in it.
        time_limit_s: of wall-clock time, for the guest.
        options: further words of the kernel's command line.
        turn_us: bound of a CPU's turn in virtual time, us (machine.TURN_US); 0: none.
        packages: among which the CPUs are divided.
        threads: CPUs of a core.
        cluster: CPUs that share a second-level cache; 0: those of a core.
        changes: files of the modules' sources to replace, by path below the top of the tree; one
            without text is left out.
        boots: how often it is booted where QEMU ends it by stale code (machine.ran_stale_code()).
    """

    script: str
    kernel: str = "6.12"
    cpus: int = 2
    seed: int = 42
    with_modules: bool = True
    files: Mapping[str, bytes] = field(default_factory=dict)
    memory_mib: int = 1024
    real_time: bool | None = None
    time_limit_s: float = 600
    options: tuple[str, ...] = ()
    turn_us: int = TURN_US
    packages: int = 1
    threads: int = 1
    cluster: int = 0
    changes: Mapping[str, str] = field(default_factory=dict)
    boots: int = BOOTS


@dataclass(frozen=True)
class LabResult:
    """Result of a run.

    Attributes:
        status: the script's exit status.
        output: what the script wrote to its standard output and error.
        dmesg: the kernel's log since the script began, one "<level>[time] text" a line.
        files: directory with all that was in /results.
        kernel_version: of the guest, as `uname -r` says.
        guest_s: the guest's own seconds from boot to end.
        wall_s: seconds that it took here, the images not counted.
    """

    status: int
    output: str
    dmesg: str
    files: Path
    kernel_version: str
    guest_s: float
    wall_s: float

    def complaints(self) -> list[str]:
        """Return the kernel's log lines of level warning or worse since the script began."""
        lines = (re.match(r"<(\d+)>(.*)", line) for line in self.dmesg.splitlines())
        return [line[2] for line in lines if line and int(line[1]) & 7 <= WARNING_LEVEL]

    def check(self) -> "LabResult":
        """Return self.

        Raises:
            UserError: the script failed; the message is what it gave to `fail`, or its last line.
        """
        if self.status == 0:
            return self
        error = self.files / "error"
        last = (self.output.strip().splitlines() or ["no output"])[-1]
        reason = error.read_text().strip() if error.exists() else last
        raise UserError(f"in the guest: {reason}")


@sigterm_interrupts()
def run_lab(run: LabRun, output: Path, title: str = "") -> LabResult:
    """Run the script in a guest, return what it left.

    Args:
        run: what to run.
        output: directory that receives the results; made if need be, replaced as a whole; where
            the machine dies, its console.
        title: shown as progress, with what the script says; none: no progress.

    Raises:
        UserError: an image cannot be made, the guest's kernel died, or the time is up; `output`
            has something else than results, or another run makes it. A script that fails is no
            error here: see LabResult.check().
    """
    # An impossible run is refused before its images are made.
    is_real_time(run)
    check_topology(run)
    with room_for(output) as folder:
        version, wall_s = boot(run, folder, output, title)
    return read_results(output.absolute(), version, wall_s)


@contextmanager
def room_for(output: Path) -> Iterator[Path]:
    """Yield a directory for a boot; what is in its UNPACKED in the end becomes the output.

    Raises:
        UserError: see files.whole().
    """
    for folder in (output.parent, CACHE):
        folder.mkdir(parents=True, exist_ok=True)
    with whole(output, results.foreign) as new, scratch(CACHE.parent) as folder:
        yield folder
        # All of it must be there before what was there goes; it may be on another file system.
        shutil.move(folder / UNPACKED, new)
        results.note(new)


def boot(run: LabRun, folder: Path, output: Path, title: str) -> tuple[str, float]:
    """Run the script in a guest, whose results are then in UNPACKED.

    Args:
        run: what to run.
        folder: empty, for all that a boot needs.
        output: see run_lab().
        title: see run_lab().

    Returns:
        the version of the guest's kernel, and the seconds that it ran.

    Raises:
        UserError: see run_lab().
    """
    maker = built if run.kernel in built.FLAVOURS else images
    kernel = maker.kernel(run.kernel)
    modules = maker.modules(run.kernel, run.changes).root if run.with_modules else None
    overlay = BytesIO()
    write_overlay(CpioWriter(overlay), run, modules)
    machine = bare(run, kernel.image, folder)
    if may_go_on(run) and overlay.tell() <= GIVEN_MOST:
        given = folder / "given"
        give(overlay.getvalue(), given)
        machine = replace(machine, saved=Saved(has_booted(run, kernel), given))
        overlay = BytesIO()
    write_root(machine.root, kernel, overlay)
    make_disk(machine)
    start = time.monotonic()
    try:
        with step(title) if title else nullcontext(quiet) as say:
            machine.run(say)
        wall_s = time.monotonic() - start
        machine.unpack(folder / UNPACKED)
    except UserError:
        output.mkdir(exist_ok=True)
        for console in consoles(folder):
            results.note(output, Path(shutil.copy(console, output)))
        raise
    for console in consoles(folder):
        shutil.copy(console, folder / UNPACKED)
    return kernel.version, wall_s


def bare(run: LabRun, kernel: Path, folder: Path) -> VirtualMachine:
    """Return the machine of a run, whose root and disk are still to be made in a folder."""
    real_time = is_real_time(run)
    return VirtualMachine(
        kernel=kernel,
        root=folder / "root.cpio",
        disk=folder / "disk.raw",
        console=folder / "console",
        cpus=run.cpus,
        memory_mib=run.memory_mib,
        seed=run.seed,
        real_time=real_time,
        time_limit_s=run.time_limit_s,
        options=(*run.options, *clock_options()) if real_time else run.options,
        emulator=tuple(emulator.x86()),
        turn_us=run.turn_us,
        packages=run.packages,
        threads=run.threads,
        cluster=run.cluster,
        boots=run.boots,
    )


def write_root(root: Path, kernel: images.Kernel, overlay: BytesIO) -> None:
    """Write what a guest unpacks as its root: programs, the kernel's modules, and the run's own."""
    with root.open("wb") as stream:
        for part in (images.runtime(), kernel.modules):
            with part.open("rb") as source:
                shutil.copyfileobj(source, stream)
        stream.write(overlay.getvalue())


def make_disk(machine: VirtualMachine) -> None:
    """Make the disk that receives the results: as large as the memory, in which they are."""
    with machine.disk.open("wb") as stream:
        stream.truncate(machine.memory_mib << 20)


def may_go_on(run: LabRun) -> bool:
    """Return whether a run goes on from a machine that has booted; see the module `saved`."""
    usual = LabRun(run.script)
    same = all(getattr(run, name) == getattr(usual, name) for name in SAVED_WITH)
    return same and run.kernel not in built.FLAVOURS


def has_booted(run: LabRun, kernel: images.Kernel) -> Path:
    """Return the folder of a machine as a run needs it; it boots at the first use.

    Raises:
        UserError: it does not boot, or QEMU cannot save it.
    """
    real_time = is_real_time(run)
    usual = LabRun(
        "", kernel=run.kernel, cpus=run.cpus, real_time=real_time, time_limit_s=BOOT_LIMIT_S
    )

    def build(target: Path) -> None:
        with tempfile.TemporaryDirectory(dir=target) as name:
            machine = bare(usual, kernel.image, Path(name))
            give(b"", machine.root.with_name("given"))
            saved = Saved(target, machine.root.with_name("given"), goes_on=False)
            machine = replace(machine, saved=saved)
            write_root(machine.root, kernel, save_overlay())
            make_disk(machine)
            machine.run(quiet)
            if not (target / STATE).is_file():
                raise UserError(f"the machine ended while it booted; {machine.last_lines()}")

    kind = "real" if real_time else "virtual"
    title = f"Booting {kernel.version} once, for all runs in {kind} time"
    # Each takes 200 MB. Two, since the rate of the clock may be near the border of two keys.
    name = f"booted-{run.kernel}-{run.cpus}-{kind}"
    return cached(name, booted_of(usual, kernel), title, build, kept=2)


def save_overlay() -> BytesIO:
    """Return what a machine that is to be saved has beyond programs and modules."""
    overlay = BytesIO()
    cpio = CpioWriter(overlay)
    cpio.file("init", (GUEST / "init").read_bytes(), 0o755)
    cpio.file("lab/save", (GUEST / "save").read_bytes())
    for path, data in programs.file(GIVEN).items():
        cpio.file(path, data, 0o755)
    cpio.close()
    return overlay


def booted_of(usual: LabRun, kernel: images.Kernel) -> list[str | bytes]:
    """Return what a machine that has booted depends on."""
    machine = replace(bare(usual, Path("kernel"), Path()), emulator=(), options=())
    machine = replace(machine, saved=Saved(Path(), Path("given"), goes_on=False))
    # The last digits of the host's rate differ from time to time.
    rate = clock_options() if usual.real_time else ()
    clock = [str(round(int(option.partition("=")[2]), -4)) for option in rate]
    files = (kernel.image, kernel.modules, images.runtime())
    return [
        *(emulator.version(), *clock, *machine.command()),
        *(file.read_bytes() for file in files),
        save_overlay().getvalue(),
    ]


def consoles(folder: Path) -> Iterator[Path]:
    """Return the consoles of all boots; that of the last one is called "console"."""
    return folder.glob("console*")


def check_topology(run: LabRun) -> None:
    """Refuse packages, clusters and cores that have not the same number of CPUs.

    Raises:
        UserError: they have not.
    """
    if run.cpus < 1:
        raise UserError("the machine needs at least one CPU", USAGE)
    if run.packages < 1 or run.cpus % run.packages:
        raise UserError("each package needs the same number of CPUs", USAGE)
    if run.threads < 1 or run.cpus // run.packages % run.threads:
        raise UserError("each core needs the same number of CPUs", USAGE)
    cluster = run.cluster or run.threads
    if cluster < 0 or cluster % run.threads or run.cpus // run.packages % cluster:
        raise UserError("each cluster needs the same number of whole cores", USAGE)


def is_real_time(run: LabRun) -> bool:
    """Return whether a run does without virtual time.

    Raises:
        UserError: it must not, and its kernel cannot start so many CPUs in virtual time.
    """
    stalls = run.cpus > 1 and run.kernel in ONE_CPU_IN_VIRTUAL_TIME
    if run.real_time is False and stalls:
        raise UserError(
            f"kernel {run.kernel} starts only one CPU in virtual time; "
            "give --cpus 1, or --real-time for a run that is not repeatable",
            USAGE,
        )
    return stalls if run.real_time is None else run.real_time


@cache
def clock_options() -> tuple[str, ...]:
    """Return what tells the guest's kernel how fast its time-stamp counter is.

    In real time it is the host's. The kernel would measure it while it boots, against a timer that
    QEMU serves late on a crowded host; then all its clocks run at a wrong rate.

    Raises:
        UserError: there is no compiler.
    """
    khz = subprocess.run(
        [programs.compiled(programs.TSC)], capture_output=True, text=True, check=True
    ).stdout.strip()
    return () if khz == "0" else (f"tsc_early_khz={khz}",)


def quiet(_line: str) -> None:
    """Take what the script says and drop it."""


def write_overlay(cpio: CpioWriter, run: LabRun, modules: Path | None) -> None:
    """Write what is particular to one run: scripts, files, and our modules."""
    cpio.file("init", (GUEST / "init").read_bytes(), 0o755)
    cpio.file("lab/functions", (GUEST / "functions").read_bytes())
    cpio.file("lab/script", f"export LAB_SEED={run.seed}\n{run.script}\n".encode())
    for path, data in sorted(run.files.items()):
        cpio.file(path.lstrip("/"), data, 0o755)
    if modules is not None:
        cpio.tree(modules, ".")
    cpio.close()


def read_results(files: Path, version: str, wall_s: float) -> LabResult:
    """Return the result whose files lie in a directory.

    Raises:
        UserError: the kernel's buffer did not hold all of its log, which may have said anything.
    """
    log = (files / "dmesg").read_text(errors="replace")
    if SCRIPT_BEGINS not in log:
        raise UserError(
            "the beginning of the guest's log is lost (option log_buf_len=64M keeps more)"
        )
    return LabResult(
        status=int((files / "status").read_text()),
        output=(files / "output").read_text(errors="replace"),
        dmesg=log.partition(SCRIPT_BEGINS)[2],
        files=files,
        kernel_version=version,
        guest_s=float((files / "uptime").read_text()),
        wall_s=wall_s,
    )
