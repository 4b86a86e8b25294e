# SPDX-License-Identifier: GPL-2.0
"""The kernel that a patch is for: named by the user, or found among the packaged ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.review.patch import FOLDER, Applied, Patch, apply
from cpuidle_lab.states.linux_source import GOVERNORS, fetch

# In trees that review has written.
_MARK = ".cpuidle-lab-review"

# Kernels whose governors are in a package of Debian's, newest first.
PACKAGED = ("7.3", "7.2", "6.12", "6.1")


@dataclass(frozen=True)
class Base:
    """Governors that a patch was applied to.

    Attributes:
        kernel: a series, or the label of a tree.
        how: how it was found, for people.
        before: texts of the files, by name.
        after: the same after the patch.
        notes: hunks that applied with fuzz.
    """

    kernel: str
    how: str
    before: Mapping[str, str]
    after: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def changed(self) -> list[str]:
        """Names of the files that differ."""
        return [name for name in self.after if self.after[name] != self.before.get(name)]


def _read(folder: Path) -> dict[str, str]:
    names = [name for name in GOVERNORS if (folder / name).is_file()]
    return {name: (folder / name).read_text(encoding="utf-8") for name in names}


def files_of(kernel: str, trees: Mapping[str, Path]) -> dict[str, str]:
    """Return the texts of a kernel's governors, by name.

    Raises:
        UserError: it cannot be had, or has none.
    """
    if kernel not in trees:
        return _read(fetch(kernel).folder)
    found = _read(trees[kernel] / FOLDER)
    if "menu.c" not in found:
        raise UserError(f"{trees[kernel]}: is no kernel tree: it has no {FOLDER}menu.c")
    return found


def _tries(
    patches: Sequence[Patch], trees: Mapping[str, Path], reverse: bool
) -> tuple[dict[str, tuple[dict[str, str], Applied]], str]:
    """Return what became of a patch on each kernel that there is, and why one is not there."""
    found, lacking = {}, ""
    for kernel in (*trees, *PACKAGED):
        try:
            files = files_of(kernel, trees)
        except UserError as error:
            lacking = error.message
            continue
        found[kernel] = files, apply(patches, files, reverse=reverse)
    return found, lacking


def _nearest(tried: Mapping[str, tuple[dict[str, str], Applied]]) -> str:
    fits = [kernel for kernel, (_, one) in tried.items() if one.misfit is None]
    if fits:
        return f"it applies to {fits[0]}"
    best = max(tried, key=lambda kernel: tried[kernel][1].misfit.applied)  # type: ignore[union-attr]
    most = tried[best][1].misfit
    assert most is not None
    return f"the nearest is {best}, on which {most.applied} of {most.total} hunks apply"


def _refused(
    kernel: str, patches: Sequence[Patch], misfit: object, trees: Mapping[str, Path], reverse: bool
) -> UserError:
    tried, lacking = _tries(patches, trees, reverse)
    where = f"{misfit} does not apply to {kernel}{' in reverse' if reverse else ''}"
    back, _ = _tries(patches, trees, not reverse)
    merged = kernel in back and back[kernel][1].misfit is None
    hint = f"; it does {'forward' if reverse else 'with --reverse'}" if merged else ""
    return UserError(f"{where}{hint}; {_nearest(tried) if tried else lacking}")


def find(patches: Sequence[Patch], base: str, trees: Mapping[str, Path], *, reverse: bool) -> Base:
    """Return the governors before and after a series.

    Without a base, the kernel whose files have the hashes of the patch is taken, else the newest
    on which it applies exactly, else the one on which it applies with least fuzz.

    Args:
        patches: in their order.
        base: a series of Debian's, or the label of a tree; "": find one.
        trees: kernel trees by label.
        reverse: the patch is merged, and is to be taken back.

    Raises:
        UserError: it applies to none; the message names file, hunk and the nearest kernel.
    """
    if base:
        if base not in trees and not base.replace(".", "").isdigit():
            raise UserError(f"--base: '{base}' is no series of kernels and no tree", USAGE)
        files = files_of(base, trees)
        applied = apply(patches, files, reverse=reverse)
        if applied.misfit:
            raise _refused(base, patches, applied.misfit, trees, reverse)
        return Base(base, "given", files, applied.files, applied.notes)
    tried, lacking = _tries(patches, trees, reverse)
    if not tried:
        raise UserError(f"no kernel is there to apply it to: {lacking}")
    fits = {kernel: pair for kernel, pair in tried.items() if pair[1].misfit is None}
    if not fits:
        newest = next(iter(tried))
        raise _refused(newest, patches, tried[newest][1].misfit, trees, reverse)
    best = min(fits, key=lambda kernel: (-fits[kernel][1].blobs, len(fits[kernel][1].notes)))
    files, applied = fits[best]
    how = ("by the hashes of its index lines" if applied.blobs else
           "the newest kernel on which it applies")  # fmt: skip
    if not applied.blobs and applied.notes:
        how = "the kernel on which it applies with least fuzz"
    return Base(best, how, files, applied.files, applied.notes)


def write(files: Mapping[str, str], tree: Path) -> Path:
    """Write governors as a kernel tree, and return it.

    Raises:
        UserError: something else is at its place.
    """
    if tree.exists() and not (tree / _MARK).is_file():
        raise UserError(f"{tree}: exists and was not written by review; give --output", USAGE)
    folder = tree / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (tree / _MARK).touch()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return tree
