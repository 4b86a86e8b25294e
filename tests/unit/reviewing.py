# SPDX-License-Identifier: GPL-2.0
"""Patches, kernels and results for the tests of `review`."""

import difflib
import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cpuidle_lab.base.cache import CACHE
from cpuidle_lab.review import base, patch
from cpuidle_lab.review.effect import FigureChange
from cpuidle_lab.review.result import ReviewResult
from cpuidle_lab.review.stream import Spec
from cpuidle_lab.states.linux_source import NEWEST
from experiments.cases.case import kernel_is_there

TEO = f"{patch.FOLDER}teo.c"
OLD = "".join(f"line {number};\n" for number in range(1, 41))
needs_sources = pytest.mark.skipif(
    not kernel_is_there(NEWEST), reason=f"the sources of {NEWEST} are not in build/cache"
)
SPEC: Spec = {
    "tick_hz": 250,
    "states": [["POLL*", 0, 0], ["C1", 1, 1], ["C6", 133, 600]],
    "phases": [{"count": 3, "wake_us": 20, "timer_us": 1000}, {"count": 1, "timer_us": 20_000}],
    "repeat": 5,
}


def diff(old: str, new: str, path: str = TEO) -> str:
    """Return a patch of a file."""
    before, after = (text.splitlines(keepends=True) for text in (old, new))
    return "".join(difflib.unified_diff(before, after, f"a/{path}", f"b/{path}"))


def mailed(text: str, subject: str) -> str:
    """Return a patch as a mail of a mailbox."""
    return (
        f"From 0123456789abcdef Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\n"
        f"Subject: {subject}\nMessage-ID: <1@example.org>\n\nWhy.\n---\n{text}-- \n2.47\n\n"
    )


def written(tmp_path: Path, text: str, name: str = "one.patch") -> Path:
    """Return a file with a text."""
    path = tmp_path / name
    path.write_text(text)
    return path


def kernels(monkeypatch: pytest.MonkeyPatch, texts: Mapping[str, str]) -> None:
    """Let the packaged kernels have such texts of teo.c."""
    monkeypatch.setattr(base, "PACKAGED", tuple(texts))
    monkeypatch.setattr(base, "files_of", lambda kernel, _: {"teo.c": texts[kernel], "menu.c": ""})


BLOCK = """\
int one(int a)
{
	/* A word on the first. */
	a += 1;
	a += 2;	/* the second */

	/*
	* A comment of
	* several lines.
	*/
	if (a > 3)
		return 4;
	a *= 5;
	*&a = 6;
	return a;
}
"""


def dated(old: str, new: str, subject: str, day: int) -> patch.Patch:
    """Return a patch of a day, as of a mail."""
    mail = f"Date: {day} Nov 2025 12:00:00 +0000\nMessage-ID: <{subject}>\n" + mailed(
        diff(old, new), subject
    ).partition("\n")[2].replace("Message-ID: <1@example.org>\n", "")
    return patch.parse(mail.encode(), subject)


def committed(tmp_path: Path, text: str) -> Path:
    """Return a git tree whose first commit has a text of teo.c, and whose last has none of it."""
    tree = tmp_path / "linux"
    folder = tree / patch.FOLDER
    folder.mkdir(parents=True)
    run = partial(subprocess.run, cwd=tree, check=True, capture_output=True)
    run(["git", "init", "-q"])
    for one in (text, text.replace("line 30;", "thirty;")):
        (folder / "teo.c").write_text(one)
        (folder / "menu.c").write_text("")
        run(["git", "add", "."])
        run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"])
    return tree


def indexed(old: str, new: str) -> str:
    """Return a patch with the hash of its base."""
    data = old.encode()
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return f"diff --git a/{TEO} b/{TEO}\nindex {blob[:12]}..000000000000 100644\n{diff(old, new)}"


def judged(**changes: Any) -> ReviewResult:
    """Return a result in which decisions differ."""
    sweep = {"total": {"periods": 1000, "differ": 10}, "complete": True, "broken": {},
             "kinds": {"law bursts": {"periods": 100, "differ": 10}}}  # fmt: skip
    found = ReviewResult("teo@7.3", "teo with the patch", {"regret": 2, "p99": 0}, sweep=sweep)
    return replace(found, **changes)


def cell(
    before: tuple[float, ...], after: tuple[float, ...], figure: str = "regret"
) -> FigureChange:
    """Return a figure."""
    return FigureChange("skx, poisson-1ms", figure, before, after, 3000)


SAME = ("2 * idx_intercept_sum > cpu_data->total",
        "idx_intercept_sum + idx_intercept_sum > cpu_data->total")  # fmt: skip

Edit = tuple[str, str]


def changed(tmp_path: Path, edits: Sequence[Edit]) -> Path:
    """Return a patch of ours to the newest teo.c."""
    old = new = (CACHE / "linux-source" / NEWEST / "teo.c").read_text()
    for edit in edits:
        assert new.count(edit[0]) == 1
        new = new.replace(*edit)
    return written(tmp_path, diff(old, new))
