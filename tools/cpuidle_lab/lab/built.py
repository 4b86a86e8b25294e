# SPDX-License-Identifier: GPL-2.0
"""Kernels that the project builds from Debian's linux-source package, with the kernel's checkers.

A flavour is a file of options beside kernels/base.config. The kernel is built by this machine's
compiler, or the one that its options need, outside of the source tree, and its build tree is kept:
modules are built against it.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cpuidle_lab.base import apt
from cpuidle_lab.base.cache import CACHE, cached, namespace, run_logged
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.packages import remedy
from cpuidle_lab.lab import images
from cpuidle_lab.lab.archive import CpioWriter

SERIES = "6.12"
OPTIONS = Path(__file__).parent / "kernels"
# Flavours of other series, with their options and series: drivers of 7.2 free their devices.
FURTHER = {"debug-7.2": ("debug", "7.2")}
FLAVOURS = (
    *sorted(path.stem for path in OPTIONS.glob("*.config") if path.stem != "base"),
    *FURTHER,
)

# Programs that the build of a kernel needs, by package.
TOOLS = {
    "bison": "bison",
    "flex": "flex",
    "bc": "bc",
    "make": "make",
    "gcc": "gcc",
    "objcopy": "binutils",
    "pahole": "pahole",
}
# The compiler of flavours whose options gcc does not have.
LLVM = "19"
CLANG = f"clang-{LLVM}"
COMPILERS = {"kcfi": CLANG}
ELF_HEADER = Path("/usr/include/libelf.h")

# Half of the source, and of no use here.
NOT_UNPACKED = "linux-source-*/drivers/gpu/drm/amd/include"
# Files that only the link of the kernel needs.
NOT_KEPT = ("vmlinux.*", ".tmp_vmlinux*")
INDEXES = ("modules.builtin", "modules.builtin.modinfo", "modules.order")


def kernel(flavour: str) -> images.Kernel:
    """Return a kernel of the project's own; the first time that takes minutes.

    Args:
        flavour: one of FLAVOURS.

    Raises:
        UserError: tools are missing, a wanted option cannot be set, or the build fails.
    """
    return kernel_of(build_tree(flavour))


def kernel_of(tree: Path) -> images.Kernel:
    """Return the kernel of a directory in which it was built."""
    return images.Kernel(_release(tree), tree / "arch/x86/boot/bzImage", tree / "lab-modules.cpio")


def modules(flavour: str, changes: Mapping[str, str] | None = None) -> images.Modules:
    """Return the project's modules for a flavour.

    Args:
        flavour: one of FLAVOURS.
        changes: text of source files to use in place of the tree's, by path below its top.

    Raises:
        UserError: they do not build; the message names the log.
    """
    return modules_for(build_tree(flavour), flavour, changes)


def modules_for(
    tree: Path, flavour: str, changes: Mapping[str, str] | None = None
) -> images.Modules:
    """Return the project's modules for a kernel.

    Args:
        tree: directory in which it was built.
        flavour: its name.
        changes: see modules().

    Raises:
        UserError: see modules().
    """
    sources = images.source_files(changes or {})

    def build(target: Path) -> None:
        unpacked = target / "source"
        images.write_sources(sources, unpacked)
        log = CACHE / f"modules-{flavour}.log"
        command = [
            *namespace(),
            "make",
            "-C",
            str(tree),
            f"CC={compiler(flavour)}",
            f"M={unpacked}",
        ]
        command += [f"-j{os.cpu_count()}", "modules"]
        run_logged(command, log, f"building the modules for {flavour}")
        made = sorted(unpacked.glob("*.ko"))
        # As DKMS does: without what debuggers want, but with the types.
        run_logged(["strip", "-g", *made], CACHE / "strip.log", "stripping the modules")
        installed = target / "root/usr/lib/modules" / _release(tree) / "updates"
        for folder in (installed, target / "plain"):
            folder.mkdir(parents=True)
            for module in made:
                shutil.copy(module, folder)
        shutil.copy(log, target / "make.log")
        shutil.rmtree(unpacked)

    recipe: list[str | bytes] = [tree.name]
    for name, data in sorted(sources.items()):
        recipe += [name, data]
    title = f"Building the modules for the kernel '{flavour}'"
    path = cached(f"modules-{flavour}", recipe, title, build)
    return images.Modules(path / "root", path / "plain", path / "make.log")


def build_tree(flavour: str) -> Path:
    """Return the directory in which a flavour was built; modules build against it.

    Raises:
        UserError: see kernel().
    """
    options, series = FURTHER.get(flavour, (flavour, SERIES))
    wanted = (OPTIONS / f"{options}.config").read_text()
    return built(flavour, source_tree(series), wanted)


def built(
    flavour: str, source: Path, options: str, renamed: Mapping[str, str] | None = None
) -> Path:
    """Return the directory in which a kernel was built.

    Args:
        flavour: its name.
        source: its tree, a directory of the cache.
        options: lines CONFIG_NAME=VALUE, beyond those of every flavour.
        renamed: options of every flavour that this kernel has by another name, and that name.

    Raises:
        UserError: see kernel().
    """
    _check_tools(compiler(flavour))
    base = (OPTIONS / "base.config").read_text()
    for name, other in (renamed or {}).items():
        base = base.replace(f"CONFIG_{name}=", f"CONFIG_{other}=")
    wanted = base + options

    def build(target: Path) -> None:
        (target / "wanted.config").write_text(wanted)
        make: list[str | Path] = [*namespace(), "make", "-C", source, f"O={target}"]
        make.append(f"CC={compiler(flavour)}")
        log = CACHE / f"built-{flavour}.log"
        configure = [*make, f"KCONFIG_ALLCONFIG={target / 'wanted.config'}", "allnoconfig"]
        run_logged(configure, log, f"configuring the kernel '{flavour}'")
        check_options(wanted, (target / ".config").read_text(), flavour)
        build_all = [*make, f"-j{os.cpu_count()}", "bzImage", "modules"]
        run_logged(build_all, log, f"building the kernel '{flavour}'")
        _pack_indexes(target)
        _drop_objects(target)
        _let_move(target)

    version = subprocess.run(
        [compiler(flavour), "--version"], capture_output=True, text=True, check=True
    )
    recipe = [source.name, wanted, version.stdout.splitlines()[0]]
    title = f"Building the kernel '{flavour}' of {source.name}"
    return cached(f"built-{flavour}", recipe, title, build)


def compiler(flavour: str) -> str:
    """Return the compiler of a flavour."""
    return COMPILERS.get(flavour, "gcc")


def check_options(wanted: str, made: str, flavour: str) -> None:
    """Check that a configuration has all that was asked for.

    Args:
        wanted: lines CONFIG_NAME=VALUE.
        made: the kernel's .config; an option that is off is not set there.
        flavour: for the message.

    Raises:
        UserError: names the options that are not as wanted, of which something that they
            depend on is missing, or that this kernel does not have.
    """
    lines = set(made.splitlines())
    asked = [line for line in wanted.splitlines() if line.startswith("CONFIG_")]
    missing = [
        line
        for line in asked
        if line not in lines
        and not (line.endswith("=n") and not any(one.startswith(line[:-1]) for one in lines))
    ]
    if missing:
        raise UserError(f"the kernel '{flavour}' cannot have {', '.join(missing)}")


def source_tree(series: str) -> Path:
    """Return the source of Debian's newest kernel of a series, unpacked.

    Raises:
        UserError: Debian's archive cannot be used.
    """
    package = f"linux-source-{series}"
    suite = images.flavour_of(series).archive
    with apt.locked(images.apt_root(suite)):
        conf = apt.private_root(suite, images.apt_root(suite), "amd64")
        apt.update(conf, say=images.quiet)
        version = apt.candidate(conf, package)

    def build(target: Path) -> None:
        (deb,) = apt.download(
            [f"{package}={version}"],
            suite,
            target,
            cache_dir=images.apt_root(suite),
            say=images.quiet,
        )
        unpack = (
            'dpkg-deb --fsys-tarfile "$1" | tar -xOf - "./usr/src/$2.tar.xz" | xz -dc -T0 |'
            ' tar -xf - --strip-components=1 -C "$3" --exclude="$4"'
        )
        arguments = [str(deb), package, str(target), NOT_UNPACKED]
        command = [*namespace(), "sh", "-c", unpack, "sh", *arguments]
        run_logged(command, CACHE / "source.log", "unpacking")
        deb.unlink()

    recipe = [package, str(version), NOT_UNPACKED]
    return cached(f"source-{series}", recipe, f"Getting {package} {version}", build)


def _check_tools(compiler: str) -> None:
    tools = TOOLS | {compiler: compiler}
    missing = [package for tool, package in tools.items() if shutil.which(tool) is None]
    missing += [] if ELF_HEADER.exists() else ["libelf-dev"]
    if missing:
        raise UserError(f"building a kernel needs more: {remedy(*missing)}")


def _release(tree: Path) -> str:
    return (tree / "include/config/kernel.release").read_text().strip()


def _pack_indexes(tree: Path) -> None:
    """Write what depmod and modprobe want to know of a kernel that has no modules of its own."""
    with (tree / "lab-modules.cpio").open("wb") as stream:
        cpio = CpioWriter(stream)
        for name in INDEXES:
            data = (tree / name).read_bytes()
            cpio.file(f"usr/lib/modules/{_release(tree)}/{name}", data)
        cpio.close()


def _let_move(tree: Path) -> None:
    """Let modules be built against a tree that is not where it was built; 7.2 remembers that."""
    makefile = tree / "Makefile"
    place = re.compile("^(export KBUILD_OUTPUT = ).*", re.MULTILINE)
    makefile.write_text(place.sub(r"\1$(CURDIR)", makefile.read_text()))


def _drop_objects(tree: Path) -> None:
    # Of the kernel itself, modules need the types alone.
    vmlinux = tree / "vmlinux"
    run_logged(["objcopy", "-j", ".BTF", vmlinux], CACHE / "types.log", "keeping the types")
    for pattern in NOT_KEPT:
        for path in tree.glob(pattern):
            path.unlink()
    for path in tree.rglob("*.[oa]"):
        if path.relative_to(tree).parts[0] not in ("scripts", "tools"):
            path.unlink()
