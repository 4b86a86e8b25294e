# SPDX-License-Identifier: GPL-2.0
"""The kernel that a patch is for: named by the user, or found among the packaged ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.review import git, walk
from cpuidle_lab.review.patch import FOLDER, Applied, Patch, alike, apply
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
        notes: hunks that applied with fuzz, and files of which the code alone was taken.
        made: the governors before are no kernel's own.
    """

    kernel: str
    how: str
    before: Mapping[str, str]
    after: Mapping[str, str]
    notes: tuple[str, ...]
    made: bool = False

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


def _of(kernel: str, how: str, files: Mapping[str, str], applied: Applied) -> Base:
    before, after = alike(files, applied.files)
    return Base(kernel, how, before, after, applied.notes, before != files)


def find(
    patches: Sequence[Patch], base: str, trees: Mapping[str, Path], *, reverse: bool,
    mails: Sequence[Patch] = (),
) -> Base:  # fmt: skip
    """Return the governors before and after a series.

    Without a base, the commit of a tree is taken that the patch names or whose files have its
    hashes; else the time to which the mails lead back; else the kernel on which it applies with
    least fuzz, the newest of equals. A kernel that has the patch is none of these.

    Args:
        patches: in their order.
        base: a series of Debian's, or the label of a tree; "": find one.
        trees: kernel trees by label.
        reverse: the patch is merged, and is to be taken back.
        mails: of walk.read().

    Raises:
        UserError: it applies to none; the message names file, hunk and the nearest kernel.
    """
    if base:
        return _given(patches, base, trees, reverse)
    if (there := git.base(patches, trees)) and not reverse:
        applied = apply(patches, there.files)
        if not applied.misfit:
            before, after = alike(there.files, applied.files)
            return Base(there.name, there.how, before, after, applied.notes, True)
    tried, lacking = _tries(patches, trees, reverse)
    if not tried:
        raise UserError(f"no kernel is there to apply it to: {lacking}")
    if mails:
        histories = {kernel: [*walk.back(pair[0], mails)] for kernel, pair in tried.items()}
        if found := walk.place(patches, mails, histories):
            return walked(found, reverse=reverse)
    return _best(patches, tried, trees, reverse)


def _given(patches: Sequence[Patch], base: str, trees: Mapping[str, Path], reverse: bool) -> Base:
    """Return the base that the user names."""
    if base not in trees and not base.replace(".", "").isdigit():
        raise UserError(f"--base: '{base}' is no series of kernels and no tree", USAGE)
    files = files_of(base, trees)
    applied = apply(patches, files, reverse=reverse)
    strained = applied.misfit or applied.strain > (0, 0)
    if strained and (merged := git.merged(patches, files, trees, reverse=reverse)):
        return Base(base, "given; merged by the blobs of its index lines", files, merged, ())
    if applied.misfit:
        raise _refused(base, patches, applied.misfit, trees, reverse)
    return _of(base, "given", files, applied)


def _best(
    patches: Sequence[Patch], tried: Mapping[str, tuple[dict[str, str], Applied]],
    trees: Mapping[str, Path], reverse: bool,
) -> Base:  # fmt: skip
    """Return the kernel on which a series fits best, and which does not have it."""
    fits = {kernel: pair for kernel, pair in tried.items()
            if pair[1].misfit is None and not _is_in(patches, pair[0], reverse)}  # fmt: skip
    if not fits:
        newest = next(iter(tried))
        misfit = tried[newest][1].misfit or "it is merged and"
        raise _refused(newest, patches, misfit, trees, reverse)
    best = min(fits, key=lambda kernel: (-fits[kernel][1].blobs, fits[kernel][1].strain))
    files, applied = fits[best]
    how = ("by the hashes of its index lines" if applied.blobs else
           "the newest kernel on which it applies")  # fmt: skip
    if not applied.blobs and applied.notes:
        how = "the kernel on which it applies with least fuzz"
    return _of(best, how, files, applied)


def _is_in(patches: Sequence[Patch], files: Mapping[str, str], reverse: bool) -> bool:
    """Return whether files are as they are after a series, though it would apply again."""
    back = apply(patches, files, reverse=not reverse, code=False)
    return back.misfit is None and not back.notes


def walked(found: walk.Place, *, reverse: bool = False) -> Base:
    """Return the place of a patch in the past as its base."""
    count, kernel = len(found.taken), found.kernel
    how = f"{count} later patches of --mails taken back" if count else "as it is"
    if found.added:
        how += f", {len(found.added)} earlier ones of its series applied"
    ends = (found.after, found.before) if reverse else (found.before, found.after)
    return Base(kernel, how, *ends, found.notes, True)


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
