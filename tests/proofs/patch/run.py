# SPDX-License-Identifier: GPL-2.0
"""The series for wteo applies, is clean, boots, and decides in the kernel as the module does.

The series of `cpuidle-lab patch` is applied to linux-source of the newest kernels. The kernel's own
checkers read it. A kernel with the governor built in boots in the lab: its KUnit tests pass, it
decides in a million idle periods as the project's form does, and it is what chooses the states of
the emulated machine.
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from os import link
from pathlib import Path

from cpuidle_lab.base.cache import CACHE, TOP, cached, run_logged
from cpuidle_lab.base.files import scratch
from cpuidle_lab.lab import built
from cpuidle_lab.lab import run as lab
from cpuidle_lab.lab.archive import CpioWriter
from cpuidle_lab.patch import governor, series
from cpuidle_lab.states import kernel_files

# The folder of packages has the name of a library.
sys.path.append(str(TOP / "packaging"))
import roots

HERE = Path(__file__).parent
NAME = "wteo"
FOLDER = "drivers/cpuidle/governors"
SERIES = ("7.2", "7.3")
EXAMPLES = {"": "takes the time of building a kernel, once"}
PACKAGES = (
    "gcc", "libc6-dev", "make", "bc", "bison", "flex", "file", "perl", "python3", "python3-yaml",
    "python3-sphinx", "python3-sphinx-rtd-theme", "gcc-aarch64-linux-gnu",
)  # fmt: skip
ARM64 = "\n".join(f"CONFIG_{one}=y" for one in
                  ("CPU_IDLE", "NO_HZ_IDLE", "HIGH_RES_TIMERS", "KUNIT", "CPU_IDLE_GOV_WTEO",
                   "CPU_IDLE_GOV_WTEO_KUNIT_TEST"))  # fmt: skip
# 7.3 has one option for both.
RENAMED = {"PROC_SYSCTL": "SYSCTL"}
# In the guest: the governor is current, and the machine's states are entered by its choice.
SCRIPT = """
. /lab/functions
load cpuidle_emul machine=skx
cat /sys/devices/system/cpu/cpuidle/current_governor >/results/governor
cyclictest --default-system -q -p 80 -t 1 -i 2000 -D 2 >/dev/null
cat /sys/devices/system/cpu/cpu0/cpuidle/state*/usage >/results/usage
dmesg >/results/log
"""
AUTHOR = series.Author("A. Name", "name@example.org")


@dataclass(frozen=True)
class Row:
    """A promise, and what came of it.

    Attributes:
        promise: in words.
        held: it is held.
        said: the fact.
    """

    promise: str
    held: bool
    said: str


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the proof is of one governor."""


def _git(folder: Path, *words: str | Path) -> str:
    identity = ["-c", "user.name=A. Name", "-c", "user.email=name@example.org"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True,
                          check=False)  # fmt: skip
    return "" if done.returncode == 0 else (done.stderr or done.stdout).strip().splitlines()[0]


def applies(mails: Sequence[Path], version: str) -> Row:
    """Apply the mails by git am to the files of a kernel."""
    files = kernel_files.fetch(version)
    with scratch() as folder:
        for path, text in files.texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        problem = _git(folder, "init", "-q") or _git(folder, "add", ".")
        problem = problem or _git(folder, "commit", "-qm", "base")
        problem = problem or _git(folder, "am", "-q", *mails)
    return Row(f"git am to {files.origin}", not problem, problem or "applied")


def patched(mails: Sequence[Path]) -> Path:
    """Return the newest kernel's tree with the mails applied, and with the proof's own file."""
    source = built.source_tree(SERIES[-1])
    mailed = [mail.read_bytes() for mail in mails]
    proof = {f"{NAME}_proof.c": (HERE / "kernel.c").read_bytes(),
             "play.h": (HERE / "play.h").read_bytes()}  # fmt: skip

    def build(target: Path) -> None:
        # Files are shared with the unpatched tree; patch replaces those that it changes.
        shutil.copytree(source, target, copy_function=link, symlinks=True, dirs_exist_ok=True)
        for mail in mails:
            run_logged(["patch", "-s", "-p1", "-d", target, "-i", mail], CACHE / "patch.log",
                       f"applying {mail.name}")  # fmt: skip
        for name, data in proof.items():
            (target / FOLDER / name).write_bytes(data)
        makefile = target / FOLDER / "Makefile"
        text = makefile.read_text() + f"obj-$(CONFIG_KUNIT) += {NAME}_proof.o\n"
        makefile.unlink()
        makefile.write_text(text)

    recipe: list[str | bytes] = [source.name, *mailed, *proof.values()]
    return cached("source-patched", recipe, "Patching the kernel's source", build, kept=1)


def compiles(tree: Path, made: Path) -> Iterator[Row]:
    """Compile the file with more warnings, and by sparse, in a copy of the kernel's build tree."""
    for promise, words in (("W=1", ["W=1"]), ("sparse", ["C=2", "CHECK=sparse"])):
        with scratch() as folder:
            shutil.copytree(made, folder / "made", symlinks=True)
            command = ["make", "-C", str(tree), f"O={folder / 'made'}", *words]
            done = subprocess.run([*command, f"{FOLDER}/{NAME}.o"], capture_output=True, text=True,
                                  check=False)  # fmt: skip
        lines = [line for line in done.stderr.splitlines() if f"{NAME}" in line]
        failed = [f"make exits with {done.returncode}"] if done.returncode else []
        told = [*lines, *failed]
        yield Row(f"{promise} says nothing", not told, "; ".join(told) or "nothing")


def _first(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "nothing")


def checked(tree: Path, mails: Sequence[Path]) -> Iterator[Row]:
    """Let the kernel's checkers and a compiler for arm64 read the patched tree."""
    tarball = roots.tool_root("patch", "trixie", PACKAGES)
    with scratch(CACHE) as shared:
        shutil.copytree(tree, shared / "source", copy_function=link, symlinks=True)
        (shared / "series").mkdir()
        for mail in mails:
            shutil.copy(mail, shared / "series")
        shutil.copy(HERE / "round.sh", shared)
        (shared / "arm64.config").write_text(ARM64 + "\n")
        roots.run_in(tarball, shared, "round.sh", NAME)
        said = {path.name: path.read_text(errors="replace") for path in
                (shared / "said").iterdir()}  # fmt: skip
    # MAINTAINERS has one line for all of drivers/cpuidle; the question is whether that is enough.
    lines = [line for line in said["checkpatch"].splitlines()
             if ":" in line and "FILE_PATH_CHANGES" not in line
             and not line.startswith("total:")]  # fmt: skip
    yield Row("checkpatch --strict says nothing", not lines, "; ".join(lines) or "nothing")
    found = [line for line in said["kernel-doc"].splitlines() if line.strip()]
    held = not found and said["kernel-doc.exit"] == "0\n"
    yield Row("kernel-doc says nothing", held, "; ".join(found) or "nothing")
    about = [line for line in said["htmldocs"].splitlines() if NAME in line]
    held = not about and said["htmldocs.exit"] == "0\n"
    yield Row("htmldocs of the section says nothing", held,
              "; ".join(about) or ("nothing" if held else _first(said["htmldocs"])))  # fmt: skip
    missing = [line for line in ARM64.splitlines() if line not in said["config"].splitlines()]
    about = [line for line in said["arm64"].splitlines() if f"{NAME}.c:" in line]
    held = not missing and not about and said["arm64.exit"] == "0\n" and "aarch64" in said["object"]
    yield Row("arm64 compiles with W=1", held, "; ".join([*missing, *about]) or said["object"])


def booted(tree: Path, made: Path, output: Path) -> lab.LabResult:
    """Boot the kernel in the lab with the emulated machine alone."""
    run = lab.LabRun(SCRIPT, options=(f"cpuidle.governor={NAME}", "kunit.autorun=1",
                                      "log_buf_len=16M"))  # fmt: skip
    modules = built.modules_for(made, "patched").root
    kernel = built.kernel_of(made)
    with lab.room_for(output) as folder:
        overlay = BytesIO()
        lab.write_overlay(CpioWriter(overlay), run, modules)
        machine = lab.bare(run, kernel.image, folder)
        lab.write_root(machine.root, kernel, overlay)
        lab.make_disk(machine)
        machine.run(lab.quiet)
        machine.unpack(folder / lab.UNPACKED)
    return lab.read_results(output.absolute(), kernel.version, 0).check()


def ours() -> list[str]:
    """Return the lines of the project's form."""
    folders = (TOP / "governors" / NAME, TOP / "governors" / "common")
    sources = [path for folder in folders for path in sorted(folder.glob("*.c"))
               if not path.name.endswith("_kunit.c")]  # fmt: skip
    with scratch() as folder:
        program = folder / "host"
        subprocess.run(["gcc", "-std=gnu11", "-O2", f"-I{TOP / 'governors'}", f"-I{HERE}",
                        HERE / "host.c", *sources, "-o", program], check=True)  # fmt: skip
        text = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return text.splitlines()


def judged(result: lab.LabResult) -> Iterator[Row]:
    """Judge what the kernel said and did."""
    log = (result.files / "log").read_text(errors="replace")
    tests = re.findall(rf"(not ok|ok) \d+ (cpuidle-{NAME})\b", log)
    cases = re.search(rf"# cpuidle-{NAME}: pass:(\d+) fail:(\d+)", log)
    yield Row("KUnit passes in the kernel", tests == [("ok", f"cpuidle-{NAME}")],
              cases[0].strip() if cases else "no result")  # fmt: skip
    theirs = re.findall(rf"{NAME}_proof: .*", log)
    expected = ours()
    same = sum(one == other for one, other in zip(theirs, expected, strict=False))
    periods = 1024
    yield Row("decisions in the kernel are the module's",
              same == len(expected) == len(theirs),
              f"identical {same * periods:,} of {len(expected) * periods:,}")  # fmt: skip
    governor_name = (result.files / "governor").read_text().strip()
    usage = [int(line) for line in (result.files / "usage").read_text().split()]
    yield Row("it chooses the states of the emulated machine",
              governor_name == NAME and sum(n > 0 for n in usage) > 1,
              f"{governor_name}, entries of CPU 0: {' '.join(map(str, usage))}")  # fmt: skip
    # A module of ours is out of the tree, and the kernel says so.
    complaints = [line for line in result.complaints() if "taints kernel" not in line]
    yield Row("the kernel's log has no warning", not complaints, _first("\n".join(complaints)))


def rows(output: Path) -> Iterator[Row]:
    """Make the series, and try all that is promised of it."""
    with scratch() as folder:
        made = governor.emit(TOP / "governors", NAME, AUTHOR.text)
        base = series.base_of(SERIES[-1], NAME)
        target = folder / "series"
        names = series.write(made, base, AUTHOR, "The evidence is not part of this proof.", target)
        mails = [target / name for name in names[1:]]
        for version in SERIES:
            yield applies(mails, version)
        tree = patched(mails)
        yield from checked(tree, mails)
        options = (HERE / "kernel.config").read_text()
        kernel = built.built("patched", tree, options, RENAMED)
        yield from compiles(tree, kernel)
        yield from judged(booted(tree, kernel, output))


def run(args: argparse.Namespace) -> int:
    """Print the rows as they come."""
    del args
    held = True
    for row in rows(TOP / "build" / "patch-proof"):
        print(f"{'held  ' if row.held else 'MISSED'}  {row.promise}: {row.said}", flush=True)
        held = held and row.held
    return 0 if held else 1
