# SPDX-License-Identifier: GPL-2.0
"""Machines of other architectures, with idle states of their own and Debian's stock kernel.

The modules are cross-compiled, the guest's root is that of the lab in the other architecture, and
QEMU is that of the lab's Debian release: it is newer than that of Debian 12, in which an arm64
machine stalls once it has idle states.
"""

import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from cpuidle_lab.base import apt
from cpuidle_lab.base.cache import CACHE, cached, run_logged
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.lab import LabResult, emulator, images
from cpuidle_lab.lab.archive import CpioWriter
from cpuidle_lab.lab.machine import VirtualMachine
from cpuidle_lab.lab.run import GUEST, UNPACKED, read_results, room_for
from tests.campaigns.matrix.builds import apt_root

HERE = Path(__file__).parent
RELEASE = images.RUNTIME_RELEASE
CPUS = 2
MEMORY_MIB = 1024
TIME_LIMIT_S = 900

GUEST_PACKAGES = ("busybox", "kmod", "liblzma5", "libzstd1", "trace-cmd")
GUEST_PROGRAMS = ("busybox", "kmod", "trace-cmd")
GUEST_LINKS = {path: to for path, to in images.RUNTIME_LINKS.items() if path != "lib64"}

# The names of busybox's programs are made by itself, before the lab's own first process.
FIRST_PROCESS = b"""#!/usr/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
/usr/bin/busybox --install -s /usr/bin 2>/dev/null
exec /lab/init
"""


@dataclass(frozen=True)
class Architecture:
    """An architecture and the machine that stands for it.

    Attributes:
        name: Debian's.
        kernel: how Debian calls its kernels, behind the version.
        series: of the kernel.
        triplet: before the names of its compiler and in the paths of its libraries.
        emulator: the QEMU program.
        machine: QEMU's options for it.
        bus: of the machine, for the disk; empty: QEMU's choice.
        console: the kernel's name of the serial port.
        idle_states: overlay for the machine's device tree, in this directory; empty: as it is.
    """

    name: str
    kernel: str
    series: str
    triplet: str
    emulator: str
    machine: tuple[str, ...]
    bus: str
    console: str
    idle_states: str = ""


PPC64EL = Architecture(
    name="ppc64el",
    kernel="powerpc64le",
    series="6.12",
    triplet="powerpc64le-linux-gnu",
    emulator="qemu-system-ppc64",
    machine=(
        *("-M", "powernv9"),
        *("-device", "pnv-phb,chip-id=0,index=0,id=host"),
        *("-device", "pnv-phb-root-port,bus=host,id=rootport"),
        # Without a management controller the machine cannot be switched off.
        *("-device", "ipmi-bmc-sim,id=bmc"),
        *("-device", "isa-ipmi-bt,bmc=bmc,irq=10"),
    ),
    bus="rootport",
    console="hvc0",
)
ARM64 = Architecture(
    name="arm64",
    kernel="arm64",
    series="6.12",
    triplet="aarch64-linux-gnu",
    emulator="qemu-system-aarch64",
    machine=("-M", "virt", "-cpu", "cortex-a57"),
    bus="",
    console="ttyAMA0",
    idle_states="idle-states.dtso",
)


@dataclass(frozen=True, kw_only=True)
class ForeignMachine(VirtualMachine):
    """A machine of another architecture, in real time; see Machine.

    Attributes:
        architecture: its own.
        tree: the device tree to use in place of the machine's.
    """

    architecture: Architecture
    tree: Path | None = None
    real_time: bool = field(default=True)

    def command(self) -> list[str]:
        """Return QEMU's command line."""
        options = [f"console={self.architecture.console}", "quiet", "panic=-1", "oops=panic"]
        return [
            *self.hardware(),
            *(("-dtb", str(self.tree)) if self.tree else ()),
            *("-kernel", str(self.kernel)),
            *("-initrd", str(self.root)),
            *("-append", " ".join([*options, *self.options])),
            *("-S", "-monitor", "stdio"),
        ]

    def hardware(self) -> list[str]:
        """Return the part that the machine's device tree depends on."""
        bus = f",bus={self.architecture.bus}" if self.architecture.bus else ""
        return [
            *emulator.command(emulators(), self.architecture.emulator),
            *("-L", str(emulators() / emulator.DATA)),
            *self.architecture.machine,
            *("-accel", "tcg"),
            *("-smp", str(self.cpus)),
            *("-m", str(self.memory_mib)),
            *("-nodefaults", "-no-user-config", "-no-reboot"),
            *("-display", "none"),
            *("-serial", f"file:{self.console}"),
            *("-drive", f"if=none,id=disk,format=raw,file={self.disk}"),
            *("-device", f"virtio-blk-pci,drive=disk{bus}"),
        ]


def emulators() -> Path:
    """Return the root with QEMU for other architectures and the device tree compiler."""
    packages = ["qemu-system-ppc", "qemu-system-arm", "device-tree-compiler"]
    return emulator.unpacked("emulators", packages)


# -- Debian's kernel -------------------------------------------------------------------------


@dataclass(frozen=True)
class ForeignKernel:
    """A kernel of another architecture.

    Attributes:
        version: its release string.
        image: the file that the machine boots.
        modules: a cpio archive with those that the guest needs.
    """

    version: str
    image: Path
    modules: Path


def kernel(architecture: Architecture) -> ForeignKernel:
    """Return Debian's newest kernel of an architecture.

    Raises:
        UserError: Debian's archive cannot be used, or has none.
    """
    cache = apt_root(RELEASE, architecture.name)

    def build(target: Path) -> None:
        version = newest_kernel(architecture, cache)
        found = apt.download(
            [f"linux-image-{version}"],
            RELEASE,
            target / "debs",
            cache_dir=cache,
            architecture=architecture.name,
            say=images.quiet,
        )
        unpacking: list[str | Path] = ["dpkg-deb", "-x", found[0], target / "root"]
        run_logged(unpacking, CACHE / "kernel.log", f"unpacking {found[0].name}")
        shutil.copy(next((target / "root").glob("boot/vmlinu[xz]-*")), target / "image")
        images.pack_kernel_modules(target / "root", version, target / "modules.cpio")
        (target / "version").write_text(version)
        shutil.rmtree(target / "root")
        shutil.rmtree(target / "debs")

    title = f"Getting Debian's kernel {architecture.series} for {architecture.name}"
    recipe = [RELEASE, architecture.series, *images.KERNEL_MODULES]
    path = cached(f"kernel-{architecture.name}", recipe, title, build)
    version = (path / "version").read_text()
    return ForeignKernel(version, path / "image", path / "modules.cpio")


def newest_kernel(architecture: Architecture, cache: Path) -> str:
    """Return the release string of an architecture's newest kernel."""
    series = re.escape(architecture.series)
    pattern = re.compile(rf"linux-image-({series}\.\d+\+deb\d+-{architecture.kernel})")
    with apt.locked(cache):
        conf = apt.private_root(RELEASE, cache, architecture.name)
        apt.update(conf, say=images.quiet)
        names = apt.apt(conf, ["apt-cache", "pkgnames", "linux-image-"]).split()
    versions = [match[1] for match in map(pattern.fullmatch, names) if match]
    if not versions:
        raise UserError(f"Debian {RELEASE} has no kernel {architecture.series} for {architecture}")
    return max(versions, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])


# -- the guest -------------------------------------------------------------------------------


def runtime(architecture: Architecture) -> Path:
    """Return the cpio archive with the guest's programs."""

    def build(target: Path) -> None:
        root = images.extracted(GUEST_PACKAGES, target, architecture.name)
        with (target / "runtime.cpio").open("wb") as stream:
            cpio = CpioWriter(stream)
            for link, to in GUEST_LINKS.items():
                cpio.symlink(link, to)
            files = [root / "usr/bin" / name for name in GUEST_PROGRAMS]
            files += (root / "usr/lib" / architecture.triplet).glob("*.so*")
            files += root.glob("usr/lib*/ld*")  # the loader
            for path in sorted(files):
                cpio.file(str(path.relative_to(root)), path.read_bytes(), 0o755)
            if (root / "usr/lib64").exists():
                cpio.symlink("lib64", "usr/lib64")
            cpio.close()
        shutil.rmtree(root)

    recipe = [RELEASE, *GUEST_PACKAGES, *GUEST_PROGRAMS, *GUEST_LINKS]
    title = f"Making the guest's root for {architecture.name}"
    return cached(f"runtime-{architecture.name}", recipe, title, build) / "runtime.cpio"


def write_overlay(cpio: CpioWriter, version: str, modules: Path, script: str) -> None:
    """Write what is particular to a run, as the lab does."""
    cpio.file("init", FIRST_PROCESS, 0o755)
    cpio.directory("usr/sbin")
    cpio.file("lab/init", (GUEST / "init").read_bytes(), 0o755)
    cpio.file("lab/functions", (GUEST / "functions").read_bytes())
    cpio.file("lab/script", f"{script}\n".encode())
    for module in sorted(modules.glob("*.ko")):
        cpio.file(f"usr/lib/modules/{version}/updates/{module.name}", module.read_bytes())
    cpio.close()


def boot(
    architecture: Architecture,
    modules: Path,
    script: str,
    output: Path,
    said: Callable[[str], None],
) -> LabResult:
    """Boot an architecture's machine, run a script in it, return what it left.

    Args:
        architecture: of the machine.
        modules: directory with the project's modules, built for its kernel.
        script: as for the lab.
        output: directory that receives the results.
        said: called with each line that the script says.

    Raises:
        UserError: an image cannot be made, the guest's kernel died, or the time is up.
    """
    found = kernel(architecture)
    with room_for(output) as scratch:
        with (scratch / "root.cpio").open("wb") as stream:
            for part in (runtime(architecture), found.modules):
                stream.write(part.read_bytes())
            write_overlay(CpioWriter(stream), found.version, modules, script)
        with (scratch / "disk.raw").open("wb") as stream:
            stream.truncate(MEMORY_MIB << 20)
        machine = ForeignMachine(
            architecture=architecture,
            kernel=found.image,
            root=scratch / "root.cpio",
            disk=scratch / "disk.raw",
            console=scratch / "console",
            cpus=CPUS,
            memory_mib=MEMORY_MIB,
            seed=0,
            time_limit_s=TIME_LIMIT_S,
            emulator=(),  # its own, see command()
        )
        if architecture.idle_states:
            machine = replace(machine, tree=device_tree(machine, scratch))
        start = time.monotonic()
        machine.run(said)
        wall_s = time.monotonic() - start
        shutil.copy(machine.console, machine.unpack(scratch / UNPACKED))
    return read_results(output, found.version, wall_s)


def device_tree(machine: ForeignMachine, scratch: Path) -> Path:
    """Return a machine's device tree with the idle states of its architecture."""
    found, overlay, whole = (scratch / name for name in ("own.dtb", "overlay.dtbo", "whole.dtb"))
    source = HERE / machine.architecture.idle_states
    compiler, merger = (emulator.command(emulators(), name) for name in ("dtc", "fdtoverlay"))
    for command in (
        [*machine.hardware(), "-machine", f"dumpdtb={found}"],
        [*compiler, "-q", "-I", "dts", "-O", "dtb", "-o", str(overlay), str(source)],
        [*merger, "-i", str(found), "-o", str(whole), str(overlay)],
    ):
        run_logged(command, CACHE / "device-tree.log", "adding idle states to the device tree")
    return whole
