# SPDX-License-Identifier: GPL-2.0
"""Bases of patches in git trees: the commit that a patch names, and blobs of its index lines."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.files import scratch
from cpuidle_lab.review.patch import FOLDER, Change, Patch, apply
from cpuidle_lab.states.linux_source import GOVERNORS


@dataclass(frozen=True)
class There:
    """Governors of a commit.

    Attributes:
        name: of tree and commit.
        how: they were found, for people.
        files: their texts, by name.
    """

    name: str
    how: str
    files: Mapping[str, str]


def _git(tree: Path, *words: str) -> str | None:
    """Return the output of git in a tree, None where it fails."""
    command = ["git", "-C", str(tree), *words]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def _at(tree: Path, commit: str) -> dict[str, str]:
    texts = {name: _git(tree, "show", f"{commit}:{FOLDER}{name}") for name in GOVERNORS}
    return {name: text for name, text in texts.items() if text is not None}


def commits(tree: Path, span: str) -> list[There]:
    """Return the governors at A of "A..B", and at each later commit that touched them.

    Args:
        tree: a git repository of the kernel.
        span: "A..B".

    Raises:
        UserError: it is no such span, or the tree does not have it.
    """
    first, dots, _ = span.partition("..")
    if not dots or not first or first.startswith("-"):
        raise UserError(f"--commits: '{span}' is no A..B", USAGE)
    start = _git(tree, "log", "-1", "--format=%h", first, "--")
    later = _git(tree, "log", "--reverse", "--format=%h", span, "--", FOLDER)
    if not start or later is None:
        raise UserError(f"{tree}: git knows no {span} there")
    hashes = [*start.split(), *later.split()]
    return [There(one, f"a commit of {span}", _at(tree, one)) for one in hashes]


def _judged(patches: Sequence[Patch]) -> list[Change]:
    return [change for patch in patches for change in patch.changes if change.judged]


def _blob(blob: str, trees: Mapping[str, Path]) -> tuple[str, str] | None:
    """Return the tree that has a blob, and its text."""
    for label, tree in trees.items():
        if (text := _git(tree, "cat-file", "blob", blob)) is not None:
            return label, text
    return None


def base(patches: Sequence[Patch], trees: Mapping[str, Path]) -> There | None:
    """Return the base that a series names by base-commit, or by the blobs of its first changes."""
    for label, tree in trees.items():
        for commit in (patch.base for patch in patches if patch.base):
            if files := _at(tree, commit):
                return There(f"{label} {commit[:12]}", "its base-commit", files)
    files, label = dict[str, str](), ""
    for change in _judged(patches):
        if change.judged in files:
            continue
        if not change.blobs or not (found := _blob(change.blobs[0], trees)):
            return None
        label, files[change.judged] = found
    rest = _at(trees[label], "HEAD") if label else {}
    return There(label, "the blobs of its index lines", rest | files) if files else None


def merged(
    patches: Sequence[Patch], files: Mapping[str, str], trees: Mapping[str, Path], *, reverse: bool
) -> dict[str, str] | None:
    """Return files after a three-way merge of a series; None: a tree lacks a blob, or a conflict.

    Args:
        patches: in their order.
        files: texts of the governors that it is merged into.
        trees: kernel trees by label, of which one has the blobs.
        reverse: take the series back.
    """
    there = base(patches, trees)
    if there is None:
        return None
    applied = apply(patches, there.files)
    if applied.misfit:
        return None
    ends = (applied.files, there.files) if reverse else (there.files, applied.files)
    found = dict(files)
    for name in {change.judged for change in _judged(patches)}:
        text = _merge(files.get(name, ""), ends[0].get(name, ""), ends[1].get(name, ""))
        if text is None:
            return None
        found[name] = text
    return found


def _merge(ours: str, old: str, new: str) -> str | None:
    with scratch() as folder:
        paths = [folder / name for name in ("ours", "old", "new")]
        for path, text in zip(paths, (ours, old, new), strict=True):
            path.write_text(text, encoding="utf-8")
        return _git(folder, "merge-file", "-p", *map(str, paths))
