# SPDX-License-Identifier: GPL-2.0
"""Building the modules in several ways against Debian's headers."""

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base import apt
from cpuidle_lab.base.cache import CACHE, cached, namespace, run_logged
from cpuidle_lab.lab import images, roots
from tests.campaigns.matrix.table import FAIL, OK, StepResult

HERE = Path(__file__).parent

# make's arguments for each way.
ARGUMENTS = {"build": "", "W=1": "W=1", "clang": "LLVM=1", "sparse": "C=2"}

# Packages needed to build, by Debian's release: the compilers of its kernels, and libraries of the
# programs that come with their headers.
PACKAGES = {
    "bookworm": (
        "clang",
        "gcc-12",
        "libelf1",
        "libssl3",
        "lld",
        "llvm",
        "make",
        "pahole",
        "sparse",
    ),
    "trixie": (
        "clang",
        "gcc-14",
        "gcc-14-aarch64-linux-gnu",
        "gcc-14-powerpc64le-linux-gnu",
        "libelf1t64",
        "libssl3t64",
        "lld",
        "llvm",
        "make",
        "pahole",
        "sparse",
    ),
}

# A complaint about a file of ours; Debian's headers have some of their own.
COMPLAINT = re.compile(r"\b(?:module|governors|emul)/\S+:\d+:.*\b(?:warning|error):.*")
ERROR = re.compile(r".*(?:\berror:|\*\*\*|ERROR:).*")


@dataclass(frozen=True)
class Headers:
    """Debian's headers of a kernel.

    Attributes:
        release: the kernel's release string.
        suite: that has them.
        architecture: Debian's name; the programs that come with the headers are this machine's.
    """

    release: str
    suite: str
    architecture: str = "amd64"

    def folder(self) -> Path:
        """Return a directory with them, as they lie below the root.

        Raises:
            UserError: Debian's archive cannot be used, or lacks them.
        """

        def make(target: Path) -> None:
            own = f"linux-headers-{self.release}"
            for names, architecture in (
                ([own], self.architecture),
                (self._needed_by(own), "amd64"),
            ):
                for package in self._download(names, architecture, target / "debs"):
                    unpacking: list[str | Path] = ["dpkg-deb", "-x", package, target]
                    run_logged(unpacking, CACHE / "headers.log", f"unpacking {package.name}")
            shutil.rmtree(target / "debs")

        recipe = [self.release, self.suite, self.architecture]
        return cached(
            f"headers-{self.release}", recipe, f"Getting the headers of {self.release}", make
        )

    def _download(self, names: Sequence[str], architecture: str, target: Path) -> list[Path]:
        return apt.download(
            names,
            self.suite,
            target,
            cache_dir=apt_root(self.suite, architecture),
            architecture=architecture,
            say=images.quiet,
        )

    def _needed_by(self, package: str) -> list[str]:
        """Return the headers' own dependencies that are headers or programs of the kernel's."""
        root = apt_root(self.suite, self.architecture)
        with apt.locked(root):
            conf = apt.private_root(self.suite, root, self.architecture)
            text = apt.apt(conf, ["apt-cache", "depends", "--important", package])
        return sorted(set(re.findall(r"Depends: (linux-(?:headers|kbuild)-[^\s:]+)", text)))


def apt_root(suite: str, architecture: str) -> Path:
    """Return the directory where apt keeps its lists of a suite for an architecture."""
    own = images.apt_root(suite)
    return own if architecture == "amd64" else own.with_name(f"{suite}-{architecture}")


def build(row: str, ways: Sequence[str], release: str, headers: Headers) -> Path:
    """Build the modules, at most once for each state of the sources.

    Args:
        row: of the matrix.
        ways: names in ARGUMENTS.
        release: Debian's, in which they are built.
        headers: of the kernel.

    Returns:
        A directory with NAME.log, NAME.status and, in NAME/, the modules for each way.

    Raises:
        UserError: that Debian cannot be made. A build that fails is no error here.
    """
    tarball = debian(release)
    sources = images.source_files({})
    lines = "".join(f"{file_name(way)} {ARGUMENTS[way]}\n" for way in ways)

    def make(target: Path) -> None:
        images.write_sources(sources, target / "source")
        (target / "ways").write_text(lines)
        (target / "mount").mkdir()
        kdir = f"/usr/src/linux-headers-{headers.release}"
        command: list[str | Path] = [*namespace(), "sh", HERE / "build.sh", tarball]
        command += [headers.folder(), target / "source", kdir, target]
        run_logged(command, CACHE / f"matrix-{row}.log", f"building for {headers.release}")
        shutil.rmtree(target / "source")
        (target / "mount").rmdir()

    recipe: list[str | bytes] = [headers.release, tarball.parent.name, lines]
    recipe += [script.read_bytes() for script in (HERE / "build.sh", roots.ROOT_SCRIPT)]
    for name, data in sorted(sources.items()):
        recipe += [name, data]
    title = f"Building for {headers.release}: {', '.join(ways)}"
    return cached(f"matrix-{row}", recipe, title, make)


def debian(release: str) -> Path:
    """Return the tarball of a Debian with all that building takes."""
    packages = list(PACKAGES[release])

    def make(target: Path) -> None:
        roots.bootstrap([release], packages, "apt", target / "root.tar.zst")

    title = f"Making a Debian {release} to build in"
    return cached(f"matrix-root-{release}", [release, *packages], title, make) / "root.tar.zst"


def cells(built: Path, ways: Sequence[str]) -> Mapping[str, StepResult]:
    """Return what became of each way: a complaint about a file of ours is a failure, too."""
    found = {way: built / file_name(way) for way in ways}
    return {
        way: judge(path.with_suffix(".log"), path.with_suffix(".status"))
        for way, path in found.items()
    }


def file_name(way: str) -> str:
    """Return a way's name for files: make takes no = in a path."""
    return way.replace("=", "")


def judge(log: Path, status: Path) -> StepResult:
    """Return what became of one build."""
    text = log.read_text(errors="replace")
    if int(status.read_text()) != 0:
        error = ERROR.search(text)
        return StepResult(FAIL, error[0] if error else "make failed")
    complaint = COMPLAINT.search(text)
    return StepResult(FAIL, complaint[0]) if complaint else StepResult(OK)
