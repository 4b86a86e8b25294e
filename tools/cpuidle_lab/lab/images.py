# SPDX-License-Identifier: GPL-2.0
"""Images that the lab's machine boots: a kernel of Debian, a small root, and our modules.

Everything comes from Debian's archive by the machine's own mirror, and is kept in build/cache
by a hash of what it is made of.

The modules are built as on a user's machine: in a minimal Debian of the kernel's release, with
the headers from its archive, by `dkms install`. That Debian is kept as a tarball and unpacked
in a tmpfs that lives as long as the build, so a build leaves nothing behind, however it ends.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base import apt
from cpuidle_lab.base.cache import CACHE, TOP, cached, namespace, run_logged
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.lab import roots
from cpuidle_lab.lab.archive import CpioWriter


@dataclass(frozen=True)
class Flavour:
    """A kernel series and where Debian has it.

    Attributes:
        series: as given to --kernel.
        release: the Debian release whose compiler and DKMS belong to it.
        archive: the suite that holds the kernel.
    """

    series: str
    release: str
    archive: str


FLAVOURS = {
    flavour.series: flavour
    for flavour in (
        Flavour("6.1", "bookworm", "bookworm"),
        Flavour("6.12", "trixie", "trixie"),
        Flavour("7.2", "trixie", "trixie-backports"),
    )
}

# Kernels that the project is tried on now and then, too (`make matrix`).
FURTHER_FLAVOURS = {
    "6.12-bookworm": Flavour("6.12", "bookworm", "bookworm-backports"),
    "7.3": Flavour("7.3", "trixie", "trixie-backports"),
}

# The guest's programs come from this release, whatever kernel is below them.
RUNTIME_RELEASE = "trixie"

# Programs of the guest, by package; the libraries that they need follow.
RUNTIME_PROGRAMS = {
    "busybox": ("usr/bin/busybox",),
    "kmod": ("usr/bin/kmod",),
    "rt-tests": ("usr/bin/cyclictest", "usr/bin/hackbench"),
    "stress-ng": ("usr/bin/stress-ng",),
    "trace-cmd": ("usr/bin/trace-cmd",),
}

# Further programs that some workloads need, by package; a name that ends in a slash is a folder.
# Kept apart from the programs above, and a boot carries only what its workload asks for: the
# root is unpacked in virtual time and stays in the guest's memory, and it is small for all
# who need none of this.
EXTRA_PROGRAMS = {
    "fio": ("usr/bin/fio",),
    "nginx": ("usr/sbin/nginx",),
    "postgresql-17": (
        "usr/lib/postgresql/17/bin/initdb",
        "usr/lib/postgresql/17/bin/pgbench",
        "usr/lib/postgresql/17/bin/postgres",
        "usr/lib/postgresql/17/lib/dict_snowball.so",
        "usr/lib/postgresql/17/lib/plpgsql.so",
        "usr/share/postgresql/17/",
    ),
    "redis-server": ("usr/bin/redis-cli", "usr/bin/redis-server"),
    "wrk": ("usr/bin/wrk",),
}

# Libraries that kmod loads when it meets a compressed module.
RUNTIME_LIBRARIES = ("liblzma.so.5", "libzstd.so.1")

# Further names of these programs, and the top-level links of a merged /usr.
RUNTIME_LINKS = {
    "bin": "usr/bin",
    "lib": "usr/lib",
    "lib64": "usr/lib64",
    "sbin": "usr/sbin",
    "usr/bin/lsmod": "kmod",
    "usr/sbin/depmod": "../bin/kmod",
    "usr/sbin/insmod": "../bin/kmod",
    "usr/sbin/modinfo": "../bin/kmod",
    "usr/sbin/modprobe": "../bin/kmod",
    "usr/sbin/rmmod": "../bin/kmod",
}

LOADER = "usr/lib64/ld-linux-x86-64.so.2"

LIBRARY_FOLDERS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/lib/x86_64-linux-gnu/ceph",  # of fio
)

# Modules of the kernel that the guest may load, with those that they depend on: virtio takes
# the results out, null_blk is a disk whose completions come from a timer; the others are what
# another idle driver or governor looks like.
KERNEL_MODULES = ("virtio_blk", "virtio_pci", "null_blk", "cpuidle-haltpoll")

DKMS_SCRIPT = Path(__file__).parent / "dkms-build.sh"

# Sources for DKMS, relative to the top of the tree.
SOURCE_FILES = ("dkms.conf", "Kbuild", "VERSION")
SOURCE_FOLDERS = ("module", "governors", "emul")
SOURCE_SUFFIXES = (".c", ".h", ".mk")


def flavour_of(series: str) -> Flavour:
    """Return the flavour of a kernel series.

    Raises:
        UserError: the lab does not know the series.
    """
    known = FLAVOURS | FURTHER_FLAVOURS
    if series not in known:
        raise UserError(f"unknown kernel '{series}'; the lab has {', '.join(known)}", USAGE)
    return known[series]


# -- kernels ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kernel:
    """A kernel ready to boot.

    Attributes:
        version: its release string, as `uname -r` says.
        image: the file that the machine boots.
        modules: a cpio archive with KERNEL_MODULES.
    """

    version: str
    image: Path
    modules: Path


def kernel(series: str) -> Kernel:
    """Return Debian's newest kernel of a series.

    Raises:
        UserError: the series is unknown, or Debian's archive cannot be used.
    """
    flavour = flavour_of(series)

    def build(target: Path) -> None:
        version = newest_kernel(flavour)
        root = target / "root"
        for package in kernel_packages(flavour, version, target / "debs"):
            run_logged(
                ["dpkg-deb", "-x", package, root], CACHE / "kernel.log", f"unpacking {package.name}"
            )
        images = (
            root.glob(f"boot/vmlinuz-{version}"),
            root.glob(f"usr/lib/modules/{version}/vmlinuz"),
        )
        shutil.copy(next(path for found in images for path in found), target / "vmlinuz")
        pack_kernel_modules(root, version, target / "modules.cpio")
        (target / "version").write_text(version)
        shutil.rmtree(root)
        shutil.rmtree(target / "debs")

    recipe = [flavour.archive, *KERNEL_MODULES]
    path = cached(f"kernel-{series}", recipe, f"Getting Debian's kernel {series}", build)
    return Kernel((path / "version").read_text(), path / "vmlinuz", path / "modules.cpio")


def newest_kernel(flavour: Flavour) -> str:
    """Return the release string of the newest kernel of a flavour in its suite."""
    series = re.escape(flavour.series)
    pattern = rf"linux-image-({series}\.\d+(?:-\d+|\+deb\d+)-amd64)"
    names = package_names(flavour.archive, pattern)
    if not names:
        raise UserError(f"Debian's suite {flavour.archive} has no kernel {flavour.series} any more")
    newest = max(names, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])
    return newest.removeprefix("linux-image-")


def kernel_packages(flavour: Flavour, version: str, target: Path) -> list[Path]:
    """Download the packages that hold a kernel's image and modules (one, or since 7.2 two)."""
    names = [f"linux-binary-{version}", f"linux-modules-{version}"]
    if not package_names(flavour.archive, re.escape(names[0])):
        names = [f"linux-image-{version}"]
    cache = apt_root(flavour.archive)
    return apt.download(names, flavour.archive, target, cache_dir=cache, say=quiet)


def package_names(suite: str, pattern: str) -> list[str]:
    """Return the names of a suite's packages that match a regular expression as a whole."""
    with apt.locked(apt_root(suite)):
        conf = apt.private_root(suite, apt_root(suite), "amd64")
        apt.update(conf, say=quiet)
        names = apt.apt(conf, ["apt-cache", "pkgnames"]).split()
    return [name for name in names if re.fullmatch(pattern, name)]


def apt_root(suite: str) -> Path:
    """Return the directory where apt keeps its lists of a suite."""
    return CACHE / "apt" / suite


def quiet(_line: str) -> None:
    """Take a line of progress and drop it: the step that it belongs to has its own."""


def pack_kernel_modules(root: Path, version: str, archive: Path) -> None:
    """Write KERNEL_MODULES and what they depend on into an archive.

    Args:
        root: the unpacked packages of the kernel.
        version: the kernel's release string.
        archive: the file to write; modules.dep is made in the guest, where DKMS' modules join.
    """
    base = root / "usr/lib/modules" if (root / "usr/lib/modules").is_dir() else root / "lib/modules"
    run_logged(
        ["depmod", "-b", base.parent.parent, version], CACHE / "kernel.log", "reading the modules"
    )
    lines = (base / version / "modules.dep").read_text().splitlines()
    needs = {path: rest.split() for path, _, rest in (line.partition(":") for line in lines)}
    wanted = {path for path in needs if Path(path).name.split(".")[0] in KERNEL_MODULES}
    wanted |= {each for path in wanted for each in needs[path]}
    with archive.open("wb") as stream:
        cpio = CpioWriter(stream)
        for path in sorted(wanted):
            cpio.file(f"usr/lib/modules/{version}/{path}", (base / version / path).read_bytes())
        for name in ("modules.builtin", "modules.order", "modules.builtin.modinfo"):
            if (base / version / name).exists():
                cpio.file(f"usr/lib/modules/{version}/{name}", (base / version / name).read_bytes())
        cpio.close()


# -- the guest's root ------------------------------------------------------------------------


def runtime() -> Path:
    """Return the cpio archive with the guest's programs."""

    def build(target: Path) -> None:
        root = extracted(RUNTIME_PROGRAMS, target)
        with (target / "runtime.cpio").open("wb") as stream:
            pack_runtime(root, CpioWriter(stream))
        shutil.rmtree(root)

    programs = [f"{package} {' '.join(files)}" for package, files in RUNTIME_PROGRAMS.items()]
    recipe = [
        RUNTIME_RELEASE,
        *programs,
        *RUNTIME_LIBRARIES,
        *(f"{a} {b}" for a, b in RUNTIME_LINKS.items()),
    ]
    return cached("runtime", recipe, "Making the guest's root", build) / "runtime.cpio"


def extra_programs(packages: Iterable[str]) -> dict[str, bytes]:
    """Return the files that packages of EXTRA_PROGRAMS add to the guest, by path."""

    def build(target: Path) -> None:
        root = extracted(EXTRA_PROGRAMS, target)
        for package, names in EXTRA_PROGRAMS.items():
            for path in extra_files(root, names):
                copy = target / package / path
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(root / path, copy)
        shutil.rmtree(root)

    wanted = sorted(set(packages))
    if not wanted:
        return {}
    recipe = [f"{package} {' '.join(names)}" for package, names in EXTRA_PROGRAMS.items()]
    recipe += [RUNTIME_RELEASE, *LIBRARY_FOLDERS]
    folder = cached("extra-programs", recipe, "Getting servers for the guest", build)
    return {
        str(path.relative_to(folder / package)): path.read_bytes()
        for package in wanted
        for path in sorted((folder / package).rglob("*"))
        if path.is_file()
    }


def extra_files(root: Path, names: Iterable[str]) -> set[str]:
    """Return programs with their libraries, and the files of folders, as paths below `root`."""
    programs = [name for name in names if not name.endswith("/")]
    folders = [root / name for name in names if name.endswith("/")]
    data = {path for folder in folders for path in folder.rglob("*") if path.is_file()}
    return with_libraries(root, programs) | {str(path.relative_to(root)) for path in data}


def extracted(packages: Iterable[str], target: Path, architecture: str = "amd64") -> Path:
    """Unpack packages of the guest's release, with all that they depend on, below `target`."""
    root = target / "root"
    root.mkdir()
    tarball = target / "root.tar"
    roots.bootstrap([RUNTIME_RELEASE], list(packages), "extract", tarball, architecture)
    run_logged(
        ["tar", "-C", root, "--exclude=./dev", "-xf", tarball],
        CACHE / "runtime.log",
        "unpacking the guest's root",
    )
    tarball.unlink()
    return root


def pack_runtime(root: Path, cpio: CpioWriter) -> None:
    """Write the guest's programs, and the libraries that they need, into an archive."""
    for path, target in RUNTIME_LINKS.items():
        cpio.symlink(path, target)
    programs = [path for paths in RUNTIME_PROGRAMS.values() for path in paths]
    for path in sorted(with_libraries(root, programs)):
        cpio.file(path, (root / path).read_bytes(), 0o755)
    libraries = root / "usr/lib/x86_64-linux-gnu"  # the host's may be older
    loader = [str(root / LOADER), "--library-path", str(libraries)]
    applets = subprocess.run(
        [*loader, root / "usr/bin/busybox", "--list"], capture_output=True, text=True, check=True
    )
    for applet in applets.stdout.split():
        name = f"usr/bin/{applet}"
        if name not in programs and not any(link.endswith(f"/{applet}") for link in RUNTIME_LINKS):
            cpio.symlink(name, "busybox")
    cpio.close()


def with_libraries(root: Path, programs: list[str]) -> set[str]:
    """Return programs and all shared libraries that they need, as paths below `root`."""
    found: set[str] = set()
    queue = [*programs, *(find_library(root, name) for name in RUNTIME_LIBRARIES)]
    while queue:
        path = queue.pop()
        if path in found:
            continue
        found.add(path)
        dump = subprocess.run(
            ["objdump", "-p", root / path], capture_output=True, text=True, check=True
        )
        for name in re.findall(r"NEEDED\s+(\S+)", dump.stdout):
            queue.append(find_library(root, name))
        if "INTERP" in dump.stdout:
            queue.append(LOADER)
    return found


def find_library(root: Path, name: str) -> str:
    """Return the path of a shared library below `root`."""
    for folder in LIBRARY_FOLDERS:
        if (root / folder / name).exists():
            return f"{folder}/{name}"
    raise UserError(f"Debian {RUNTIME_RELEASE} lacks the library {name} that the guest needs")


# -- our modules -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Modules:
    """The project's modules, as DKMS built and installed them for one kernel.

    Attributes:
        root: holds usr/lib/modules/VERSION/updates/dkms/, compressed or not as Debian does it.
        plain: holds the same modules, uncompressed.
        log: what DKMS and the compiler printed.
    """

    root: Path
    plain: Path
    log: Path


def modules(series: str, changes: Mapping[str, str] | None = None) -> Modules:
    """Return the project's modules for a kernel series, built by DKMS.

    Args:
        series: of the kernel.
        changes: text of source files to use in place of the tree's, by path below its top; how
            tests see the modules in a kernel that they do not fit.

    Raises:
        UserError: they do not build; the message names the log.
    """
    flavour = flavour_of(series)
    version = kernel(series).version
    tarball = build_root(flavour, version)
    sources = source_files(changes or {})
    plain = flavour.release != RUNTIME_RELEASE

    def build(target: Path) -> None:
        unpacked = target / "source"
        write_sources(sources, unpacked)
        (target / "root").mkdir()
        (target / "mount").mkdir()
        log = CACHE / f"dkms-{series}.log"
        run_logged(
            [*namespace(), "sh", DKMS_SCRIPT, tarball, unpacked, version, target],
            log,
            f"building the modules for {version}",
        )
        shutil.copy(log, target / "dkms.log")
        shutil.rmtree(unpacked)
        (target / "mount").rmdir()
        decompress(target / "root", target / "plain")
        if plain:
            use_plain(target / "root", target / "plain")

    recipe: list[str | bytes] = [version, str(tarball.parent.name)]
    recipe += [script.read_bytes() for script in (DKMS_SCRIPT, roots.ROOT_SCRIPT)]
    recipe += ["plain"] * plain
    for name, data in sorted(sources.items()):
        recipe += [name, data]
    path = cached(f"modules-{series}", recipe, f"Building the modules for {version} by DKMS", build)
    return Modules(path / "root", path / "plain", path / "dkms.log")


def use_plain(root: Path, plain: Path) -> None:
    """Put uncompressed modules in the place of those that an older release's DKMS compressed.

    That release's kmod unpacks them; the guest's lets the kernel do it, which knows no checksum
    of xz but CRC32, and refuses others.
    """
    for path in plain.iterdir():
        (compressed,) = root.rglob(f"{path.name}*")
        compressed.unlink()
        shutil.copy(path, compressed.with_name(path.name))


def module_sources() -> list[Path]:
    """Return the files that DKMS builds the modules from, sorted."""
    found = [
        path
        for folder in SOURCE_FOLDERS
        for path in (TOP / folder).rglob("*")
        if path.suffix in SOURCE_SUFFIXES and not path.name.endswith(".mod.c")
    ]
    return sorted([*found, *(TOP / name for name in SOURCE_FILES)])


def source_files(changes: Mapping[str, str]) -> dict[str, bytes]:
    """Return what the modules are built from, by path.

    Args:
        changes: text of some files in place of the tree's; one without any is left out.
    """
    sources = {str(path.relative_to(TOP)): path.read_bytes() for path in module_sources()}
    changed = sources | {path: text.encode() for path, text in changes.items()}
    return {path: data for path, data in changed.items() if data or path not in changes}


def write_sources(sources: Mapping[str, bytes], folder: Path) -> None:
    """Write source files below a folder."""
    for path, data in sources.items():
        copy = folder / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(data)


def build_root(flavour: Flavour, version: str) -> Path:
    """Return the tarball of a minimal Debian with DKMS and a kernel's headers."""
    packages = ["dkms", f"linux-headers-{version}", "xz-utils"]
    suites = list(dict.fromkeys([flavour.release, flavour.archive]))

    def build(target: Path) -> None:
        roots.bootstrap(suites, packages, "apt", target / "root.tar.zst")

    recipe = [*suites, *packages]
    title = f"Making a Debian {flavour.release} with DKMS and the headers of {version}"
    return cached(f"buildroot-{flavour.series}", recipe, title, build) / "root.tar.zst"


def decompress(root: Path, target: Path) -> None:
    """Write the modules below `root` uncompressed into one directory."""
    target.mkdir()
    found = sorted(path for path in root.rglob("*.ko*") if path.is_file())
    if not found:
        raise UserError("DKMS built no module")
    for path in found:
        plain = target / f"{path.name.split('.ko')[0]}.ko"
        tool = {".xz": ["xz", "-dc"], ".zst": ["zstd", "-dcq"], ".ko": ["cat"]}[path.suffix]
        with plain.open("wb") as stream:
            subprocess.run([*tool, path], stdout=stream, check=True)
