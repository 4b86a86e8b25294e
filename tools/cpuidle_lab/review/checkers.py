# SPDX-License-Identifier: GPL-2.0
"""Findings of checkers in the changed files, before and after."""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import scratch
from cpuidle_lab.replay.build import NATIVE
from cpuidle_lab.review.base import Base
from cpuidle_lab.states.linux_source import KERNEL_DOC, NEWEST, fetch

_CHECKPATCH = ("--no-tree", "--strict", "--terse", "--no-summary", "--file")
_COMPILER = ("-std=gnu11", "-fsyntax-only", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter",
             "-Wno-sign-compare", "-Wno-missing-field-initializers")  # fmt: skip
_PLACE = re.compile(r"^\S*?:\d+(:\d+)?:\s*")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_LOOP = re.compile(r"\b(?:for|while|\w*for_each\w*)\s*\(")
_PER_CPU = re.compile(r"\bDEFINE_PER_CPU\w*\([^,]+,\s*(\w+)\)")
_DIVISION = re.compile(r"\ti?divq?[lbw]?\s")


def _checked(command: list[str]) -> Counter[str]:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    lines = (done.stdout + done.stderr).splitlines()
    return Counter(
        _PLACE.sub("", line) for line in lines if re.search(r"(WARNING|ERROR|CHECK|warning):", line)
    )


def _scripts() -> tuple[list[tuple[str, ...]], list[str]]:
    """Return the kernel's checkers in Perl as commands; and lines on those not at hand."""
    if not shutil.which("perl"):
        return [], ["checkpatch and kernel-doc were not run: perl is not installed"]
    commands, absent = [], []
    for version, name, options in ((NEWEST, "checkpatch.pl", _CHECKPATCH),
                                   (KERNEL_DOC, "kernel-doc", ("-none", "-Wall"))):  # fmt: skip
        try:
            commands.append(("perl", str(fetch(version).folder / name), *options))
        except UserError as error:
            absent.append(f"{name} was not run: {error.message}")
    return commands, absent


def _findings(
    scripts: Sequence[tuple[str, ...]], files: Mapping[str, str], names: list[str]
) -> Counter[str]:
    found: Counter[str] = Counter()
    with scratch() as folder:
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        for name in names:
            path = str(folder / name)
            for command in scripts:
                found += _checked([*command, path])
            if name.endswith(".c"):
                for tool, *options in (("gcc", *_COMPILER), ("sparse",)):
                    if shutil.which(tool):
                        found += _checked([tool, *options, *_include(folder), path])
    return found


def _include(folder: Path) -> tuple[str, ...]:
    return f"-I{NATIVE / 'mainline' / 'include'}", f"-I{folder}"


def _said(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def shape(files: Mapping[str, str], name: str) -> dict[str, int]:
    """Return counts of a source: loops, divisions of the machine code, bytes a CPU.

    Args:
        files: of the governors, by name.
        name: of one, in C.

    Returns:
        loops alone where there is no compiler, or it does not compile.
    """
    text = _COMMENT.sub("", files.get(name, ""))
    found = {"loops": len(_LOOP.findall(text))}
    with scratch() as folder:
        for other, content in files.items():
            (folder / other).write_text(content, encoding="utf-8")
        code = folder / "code.o"
        try:
            _said("gcc", "-std=gnu11", "-O2", "-w", *_include(folder), "-c", folder / name,
                  "-o", code)  # fmt: skip
            listing, symbols = _said("objdump", "-d", code), _said("nm", "-S", code)
        except (OSError, subprocess.CalledProcessError):
            return found
    sizes = {words[3]: int(words[1], 16) for words in map(str.split, symbols.splitlines())
             if len(words) == 4}  # fmt: skip
    divisions = sum(bool(_DIVISION.search(line)) for line in listing.splitlines())
    bytes_a_cpu = sum(sizes.get(one, 0) for one in _PER_CPU.findall(text))
    return {**found, "divisions": divisions, "bytes a CPU": bytes_a_cpu}


def shapes(base: Base) -> list[str]:
    """Return the counts of each changed governor, before and after, as a line."""
    lines = []
    for name in base.changed:
        if not name.endswith(".c"):
            continue
        before, after = (shape(files, name) for files in (base.before, base.after))
        told = [f"{what} {before[what]} -> {after[what]}" for what in before if what in after]
        lines.append(f"{name}: {', '.join(told)}")
    return lines


def compare(base: Base) -> list[str]:
    """Return the findings that a patch adds and takes away, one a line.

    checkpatch of the newest kernel that is there, kernel-doc of KERNEL_DOC; gcc and sparse with the
    stand-in's headers, the latter if it is installed. Counts of shapes() come first.
    """
    names = [name for name in base.changed if Path(name).suffix in (".c", ".h")]
    scripts, absent = _scripts()
    before, after = (_findings(scripts, files, names) for files in (base.before, base.after))
    new = [f"new: {text}" for text in (after - before)]
    gone = [f"gone: {text}" for text in (before - after)]
    if not shutil.which("sparse"):
        absent.append("sparse was not run: it is not installed")
    return [*shapes(base), *new, *gone, *absent]
