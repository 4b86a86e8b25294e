# SPDX-License-Identifier: GPL-2.0
"""Governors of the past: later patches are taken back from a packaged kernel, newest first.

The mails of a list tell neither what was merged nor in which form. A patch that fits in reverse was
merged. Of patches with one title the first that fits is taken back, and none of the others.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.review import bare
from cpuidle_lab.review.patch import Applied, Patch, alike, apply, parse

_TAGS = re.compile(r"^(\s*\[[^\]]*\])+\s*|^re:\s*", re.IGNORECASE)
_NUMBER = re.compile(r"\b\d+/(\d+)")
# Patches for other trees than Linus Torvalds'.
_STABLE = re.compile(r"\[[^\]]*(AUTOSEL|stable|\b\d+\.\d+)[^\]]*\]", re.IGNORECASE)
# The name of a macro, a function, a variable or a member, in the line that declares it.
_DECLARED = re.compile(
    r"^\s*(?:#\s*define|(?:(?:static|const|inline|unsigned|struct \w+|int|long|bool|void|[us]\d\d)"
    r"\s+)+)\s*\**(\w+)\s*(?=[(;=\[\s])"
)
# The patches of a series are sent within this time.
_SERIES = timedelta(days=1)
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Step:
    """Governors at one time.

    Attributes:
        files: their texts, by name.
        taken: patches that were taken back until then, in that order.
        strain: that the last of them needed.
    """

    files: Mapping[str, str]
    taken: tuple[Patch, ...] = ()
    strain: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Place:
    """Governors before a patch and after it.

    Attributes:
        kernel: from which they were made.
        taken: patches that were taken back from it.
        added: earlier patches of the same series, which were applied then.
        before, after: texts of the files, by name.
        notes: of the patch, as of Applied.
    """

    kernel: str
    taken: tuple[Patch, ...]
    added: tuple[Patch, ...]
    before: Mapping[str, str]
    after: Mapping[str, str]
    notes: tuple[str, ...]


def title(patch: Patch) -> str:
    """Return a subject without what is in brackets, in lower case."""
    return _TAGS.sub("", patch.subject).lower()


def _date(patch: Patch) -> datetime:
    return patch.date or _NEVER


def names(patch: Patch) -> set[str]:
    """Return the governors' files that a patch changes."""
    return {change.judged for change in patch.changes if change.judged}


def read(folder: Path) -> list[Patch]:
    """Return the patches to governors among the mails of a folder, the newest first.

    Mails without a patch, with a damaged one, and for stable kernels are passed over.

    Raises:
        UserError: it is no folder.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: is no folder of mails")
    found = []
    for file in sorted(folder.iterdir()):
        if not file.is_file():
            continue
        try:
            patch = parse(file.read_bytes(), str(file))
        except (UserError, LookupError):
            continue
        if names(patch) and not _STABLE.search(patch.subject):
            found.append(patch)
    return sorted(found, key=_date, reverse=True)


def _declared(text: str) -> set[str]:
    return {name for line in bare.code(text) for name in _DECLARED.findall(line)}


def _is_whole(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Return whether files differ, and use no function, macro or member that they have lost.

    Patches are merged in another order than they were sent, so one may fit too early.
    """
    changed = [name for name in before if before[name] != after[name]]
    for name in changed:
        lost = _declared(before[name]) - _declared(after[name])
        rest = set(re.findall(r"\w+", bare.text(after[name])))
        if lost & rest:
            return False
    return bool(changed)


def back(files: Mapping[str, str], mails: Sequence[Patch]) -> Iterator[Step]:
    """Yield a kernel's governors, then those before each patch that can be taken back.

    Args:
        files: the texts of a kernel.
        mails: of read().
    """
    step = Step(files)
    waiting = list(mails)
    while True:
        yield step
        for patch in waiting:
            found = apply([patch], step.files, reverse=True)
            if not found.misfit and _is_whole(step.files, found.files):
                break
        else:
            return
        waiting = [one for one in waiting if title(one) != title(patch)]
        step = Step(found.files, (*step.taken, patch), found.strain)


def _earlier(patch: Patch, mails: Sequence[Patch]) -> list[Patch]:
    """Return the patches before one in its series, in their order."""

    def tags(one: Patch) -> str:
        return _NUMBER.sub(r"\1", one.subject.partition("]")[0])

    near = [one for one in mails if tags(one) == tags(patch) and one.number < patch.number
            and abs(_date(one) - _date(patch)) < _SERIES]  # fmt: skip
    return sorted({one.number: one for one in near}.values(), key=lambda one: one.number)


def _age(patch: Patch, step: Step, all_taken: Sequence[Patch]) -> int:
    """Return how many merged patches to the same files lie between a patch and a step."""
    rest = all_taken[len(step.taken) :]
    early = [one for one in step.taken if _date(one) < _date(patch)]
    late = [one for one in rest if _date(one) > _date(patch)]
    return sum(bool(names(one) & names(patch)) for one in (*early, *late))


def _forward(series: Sequence[Patch], step: Step, mails: Sequence[Patch]
             ) -> tuple[Applied, tuple[Patch, ...], Mapping[str, str]] | None:  # fmt: skip
    """Return a series applied to a step, the earlier patches that it needs, and what is before."""
    before: Mapping[str, str] = step.files
    found = apply(series, before)
    if not found.misfit:
        return found, (), before
    earlier = _earlier(series[0], mails)
    if not earlier:
        return None
    for one in earlier:
        # Some of them may be merged.
        made = apply([one], before)
        before = before if made.misfit else made.files
    found = apply(series, before)
    return None if found.misfit else (found, tuple(earlier), before)


def _there(series: Sequence[Patch], steps: Sequence[Step]) -> tuple[Step, Step] | None:
    """Return the steps before and after a patch that was taken back; None: it was not."""
    for newer, older in pairwise(steps):
        wanted = series[0].message_id
        if len(series) == 1 and wanted and older.taken[-1].message_id == wanted:
            return newer, older
    return None


def place(
    series: Sequence[Patch], mails: Sequence[Patch], histories: Mapping[str, Sequence[Step]]
) -> Place | None:
    """Return where a series belongs, None if it fits nowhere.

    A patch that was merged itself is found on the way back. Else the step of its time is taken, of
    equals that of the first kernel.

    Args:
        series: in its order.
        mails: of read().
        histories: what back() yields of each kernel.
    """
    fits = []
    for number, (kernel, steps) in enumerate(histories.items()):
        if there := _there(series, steps):
            newer, older = there
            notes = apply(series, newer.files, reverse=True).notes
            fits.append(((-1, number, (0, 0)),
                         Place(kernel, newer.taken, (), *alike(older.files, newer.files),
                               notes)))  # fmt: skip
            continue
        for step in steps:
            if (made := _forward(series, step, mails)) is None:
                continue
            found, added, before = made
            fits.append(((_age(series[0], step, steps[-1].taken), number, found.strain),
                         Place(kernel, step.taken, added, *alike(before, found.files),
                               found.notes)))  # fmt: skip
    return min(fits, key=lambda one: one[0])[1] if fits else None
