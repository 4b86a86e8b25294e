# SPDX-License-Identifier: GPL-2.0
"""Clean Debian roots in which packages are built, installed and removed as on a user's machine.

A root is a tarball in build/cache. A script runs in a copy of it in a tmpfs, without network,
and leaves what it has to say in a directory that is shared with it.
"""

import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TOP / "tools")]

from cpuidle_lab.base import apt  # noqa: E402
from cpuidle_lab.base.cache import CACHE, cached, namespace, run_logged  # noqa: E402
from cpuidle_lab.base.errors import UserError as UserError  # noqa: E402
from cpuidle_lab.base.files import scratch as scratch  # noqa: E402
from cpuidle_lab.lab import images, roots  # noqa: E402

HERE = Path(__file__).parent
VERSION = (TOP / "VERSION").read_text().strip()

# The packages are built where the C library is oldest, so that latnice runs on all; they are
# examined by the newest lintian.
BUILD_RELEASE = "bookworm"
BUILD_PACKAGES = (
    "build-essential", "debhelper", "dh-dkms", "libgl-dev", "libglu1-mesa-dev", "libjson-c-dev",
    "libkshark-dev", "libtraceevent-dev", "libtracecmd-dev", "libtracefs-dev", "pkgconf",
    "dpkg-dev",
)  # fmt: skip
# Those of a wheel, and what runs a program for arm64.
WHEEL_PACKAGES = (
    "gcc", "libc6-dev", "libtracecmd-dev", "libtraceevent-dev", "libtracefs-dev", "libzstd-dev",
    "make", "pkg-config", "python3", "python3-venv",
)  # fmt: skip
EMULATED = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")
LINT_RELEASE = "trixie"
LINT_PACKAGES = ("lintian",)

# Dependencies of the packages, installed beforehand since the roots have no network.
USER_PACKAGES = ("dkms", "xz-utils", "kmod", "python3", "python3-rich", "python3-venv")

# Not part of a release of the sources.
NOT_SOURCES = shutil.ignore_patterns(
    ".git", "build", "__pycache__", ".*_cache", ".hypothesis", "*.o", "*.ko", "*.mod", "*.mod.c",
    "*.cmd", "modules.order", "Module.symvers", ".tmp_versions",
)  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """A user's machine: a release, and two kernels, the newer to come by an upgrade.

    Attributes:
        name: as tests and documents call it.
        suites: of Debian, the release first.
        old: regular expression for the release string of the kernel it begins with.
        new: the same for the kernel that it is upgraded to.
    """

    name: str
    suites: tuple[str, ...]
    old: str
    new: str


MACHINES = {
    machine.name: machine
    for machine in (
        Machine("12", ("bookworm",), r"6\.1\.0-\d+-amd64", r"6\.1\.0-\d+(-cloud)?-amd64"),
        Machine("13", ("trixie",), r"6\.12\.[\d+deb]+-amd64", r"6\.12\.[\d+deb]+(-cloud)?-amd64"),
        Machine(
            "13-backports",
            ("trixie", "trixie-backports"),
            r"6\.12\.[\d+deb]+-amd64",
            r"7\.2\.[\d+deb]+-amd64",
        ),
    )
}


@dataclass(frozen=True)
class Root:
    """A clean root of a machine.

    Attributes:
        tarball: with DKMS and the headers of the old kernel.
        upgrade: directory with the packages that installing the new kernel's headers needs.
        old: release string of the old kernel.
        new: release string of the new kernel.
    """

    tarball: Path
    upgrade: Path
    old: str
    new: str


def root(machine: Machine) -> Root:
    """Return the clean root of a machine, made at most once.

    Raises:
        UserError: Debian's archive cannot be used, or lacks the kernels.
    """

    def build(target: Path) -> None:
        old, new = kernels(machine)
        (target / "old").write_text(old)
        (target / "new").write_text(new)
        packages = [*USER_PACKAGES, f"linux-headers-{old}"]
        roots.bootstrap(list(machine.suites), packages, "apt", target / "root.tar.zst")
        fetch_upgrade(machine, target / "root.tar.zst", f"linux-headers-{new}", target / "upgrade")

    recipe = [*machine.suites, *USER_PACKAGES, machine.old, machine.new]
    path = cached(f"machine-{machine.name}", recipe, f"Making a clean Debian {machine.name}", build)
    return Root(
        path / "root.tar.zst",
        path / "upgrade",
        (path / "old").read_text(),
        (path / "new").read_text(),
    )


def kernels(machine: Machine) -> tuple[str, str]:
    """Return the release strings of the oldest and the newest kernel that fit a machine.

    Raises:
        UserError: the archive has fewer than two.
    """

    def fitting(pattern: str) -> list[str]:
        names = {
            name.removeprefix("linux-headers-")
            for suite in machine.suites
            for name in images.package_names(suite, f"linux-headers-{pattern}")
        }
        # A cloud kernel serves as another one where the archive has only one of the plain.
        return sorted(
            names,
            key=lambda name: ("cloud" not in name, [int(n) for n in re.findall(r"\d+", name)]),
        )

    old = next((name for name in fitting(machine.old)), "")
    new = next((name for name in reversed(fitting(machine.new)) if name != old), "")
    if not old or not new:
        raise UserError(f"Debian {machine.name} has no two kernels to upgrade between")
    return old, new


def fetch_upgrade(machine: Machine, tarball: Path, package: str, target: Path) -> None:
    """Download a package and all that a root lacks of what it depends on."""
    (target / "partial").mkdir(parents=True)
    cache = CACHE / "apt" / "+".join(machine.suites)
    with scratch() as folder, apt.locked(cache):
        unpack = f"zstd -dcq '{tarball}' | tar -C '{folder}' -xf - ./var/lib/dpkg/status"
        run_logged(["sh", "-c", unpack], CACHE / "machine.log", "reading what a root has")
        conf = apt.private_root(machine.suites, cache, "amd64")
        apt.update(conf, say=images.quiet)
        options = {
            "Dir::State::status": f"{folder}/var/lib/dpkg/status",
            "Dir::Cache::archives": str(target),
            "APT::Install-Recommends": "false",
        }
        words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        apt.apt(conf, ["apt-get", *words, "--yes", "--download-only", "install", package])
    shutil.rmtree(target / "partial")
    (target / "lock").unlink(missing_ok=True)


def tool_root(
    name: str, release: str, packages: Sequence[str], architecture: str = "amd64"
) -> Path:
    """Return the tarball of a Debian with some packages, made at most once.

    Raises:
        UserError: this machine does not run programs of the architecture.
    """
    if architecture == "arm64" and not EMULATED.exists():
        raise UserError(
            f"programs for arm64 do not run here, for {EMULATED} is missing: tools/setup.sh arm64"
        )

    def build(target: Path) -> None:
        roots.bootstrap([release], list(packages), "apt", target / "root.tar.zst", architecture)

    recipe = [release, *packages]
    title = f"Making a Debian {release} with {packages[-1]}"
    return cached(f"{name}-root", recipe, title, build) / "root.tar.zst"


def run_in(tarball: Path, shared: Path, script: str, *arguments: str) -> str:
    """Run a script in a copy of a root.

    Args:
        tarball: the root.
        shared: directory that the script sees as /shared, and that holds it.
        script: its name there.
        arguments: of the script.

    Returns:
        What it wrote to standard output and error.

    Raises:
        UserError: it failed; the message names the file with its output, SHARED/log.
    """
    log = shared / "log"
    with scratch() as mount:
        run_logged(
            [*namespace(), "--net", "sh", HERE / "in-root.sh",
             tarball, mount, shared, script, *arguments],
            log,
            f"{script} in a clean root",
        )  # fmt: skip
    return log.read_text(errors="replace")


def build_wheel(source: Path, wheels: Path, target: Path) -> Path:
    """Build the wheel for arm64, in a Debian of that architecture.

    Args:
        source: the tree, with the kernels' sources in build/cache.
        wheels: directory with the packages that the commands need.
        target: directory that receives the wheel.

    Returns:
        Its path.

    Raises:
        UserError: it cannot be built.
    """
    tarball = tool_root("wheel-arm64", BUILD_RELEASE, WHEEL_PACKAGES, "arm64")
    with scratch(target) as shared:
        shutil.copytree(source, shared / "source", symlinks=True)
        shutil.copytree(wheels, shared / "wheels")
        shutil.copy(HERE / "build-wheel.sh", shared)
        run_in(tarball, shared, "build-wheel.sh")
        (built,) = shared.glob("wheel/*.whl")
        return built.rename(target / built.name)


def export(target: Path) -> None:
    """Copy the tree's sources, as a release would have them."""
    shutil.copytree(TOP, target, ignore=NOT_SOURCES, symlinks=True)


def build_debs(source: Path, target: Path) -> None:
    """Build the Debian packages of a tree, and examine them by lintian.

    Args:
        source: the tree.
        target: directory that receives the packages, the log of the build and lintian's findings
            (`lintian.txt`); replaced as a whole.

    Raises:
        UserError: they cannot be built.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with scratch(target.parent) as shared:
        shutil.copytree(source, shared / "source", symlinks=True)
        (shared / "deb").mkdir()
        for script in ("build-deb.sh", "lint-deb.sh"):
            shutil.copy(HERE / script, shared)
        run_in(tool_root("deb", BUILD_RELEASE, BUILD_PACKAGES), shared, "build-deb.sh")
        (shared / "log").rename(shared / "deb" / "build.log")
        run_in(tool_root("lint", LINT_RELEASE, LINT_PACKAGES), shared, "lint-deb.sh")
        shutil.rmtree(target, ignore_errors=True)
        (shared / "deb").rename(target)
        target.chmod(0o755)
