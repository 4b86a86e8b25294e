# SPDX-License-Identifier: GPL-2.0
"""Findings of checkers in the changed files, before and after."""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from cpuidle_lab.base.files import scratch
from cpuidle_lab.replay.build import NATIVE
from cpuidle_lab.review.base import Base
from cpuidle_lab.states.linux_source import NEWEST, fetch

_CHECKPATCH = ("--no-tree", "--strict", "--terse", "--no-summary", "--file")
_COMPILER = ("-std=gnu11", "-fsyntax-only", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter",
             "-Wno-sign-compare", "-Wno-missing-field-initializers")  # fmt: skip
_PLACE = re.compile(r"^\S*?:\d+(:\d+)?:\s*")
# Wholly in a kernel's tree, of which the package that is read here keeps some files.
ABSENT = "sparse and kernel-doc were not run: they need a whole kernel tree"


def _checked(command: list[str]) -> Counter[str]:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    lines = (done.stdout + done.stderr).splitlines()
    return Counter(
        _PLACE.sub("", line) for line in lines if re.search(r"(WARNING|ERROR|CHECK|warning):", line)
    )


def _findings(files: Mapping[str, str], names: list[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    checkpatch = fetch(NEWEST).folder / "checkpatch.pl"
    with scratch() as folder:
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        for name in names:
            path = str(folder / name)
            if shutil.which("perl"):
                found += _checked(["perl", str(checkpatch), *_CHECKPATCH, path])
            if shutil.which("gcc") and name.endswith(".c"):
                include = (f"-I{NATIVE / 'mainline' / 'include'}", f"-I{folder}")
                found += _checked(["gcc", *_COMPILER, *include, path])
    return found


def compare(base: Base) -> list[str]:
    """Return the findings that a patch adds and takes away, one a line.

    checkpatch of the newest kernel that is there, and gcc's warnings with the stand-in's headers.
    """
    names = [name for name in base.changed if Path(name).suffix in (".c", ".h")]
    before, after = (_findings(files, names) for files in (base.before, base.after))
    new = [f"new: {text}" for text in (after - before)]
    gone = [f"gone: {text}" for text in (before - after)]
    return [*new, *gone, ABSENT]
