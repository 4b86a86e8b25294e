# SPDX-License-Identifier: GPL-2.0
"""Parts of a series that are judged one by one: its patches, its hunks, or commits of a tree."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.review import git
from cpuidle_lab.review.base import Base
from cpuidle_lab.review.patch import Applied, Patch, alike, apply

# Ways to split a series.
WHOLE, EACH, HUNKS = "", "each", "hunks"


@dataclass(frozen=True)
class Step:
    """A change that is judged by itself.

    Attributes:
        column: its head in a table; "": it is all there is.
        what: in words, behind the governor's name.
        base: governors before and after it.
    """

    column: str
    what: str
    base: Base


def _fitting(found: Applied, what: str) -> Applied:
    """Return what was applied.

    Raises:
        UserError: a hunk does not fit.
    """
    if found.misfit:
        raise UserError(f"{what} alone: {found.misfit} does not apply")
    return found


def _each(series: Sequence[Patch], base: Base) -> Iterator[Step]:
    """Yield the patches of a series, each on those before it."""
    files = base.before
    for number, patch in enumerate(series, 1):
        found = _fitting(apply([patch], files), f"patch {number}")
        before, after = alike(files, found.files)
        made = base.made or number > 1
        what = f"with patch {number} of {len(series)}"
        yield Step(str(number), what, replace(base, before=before, after=after, made=made))
        files = found.files


def _less(series: Sequence[Patch]) -> Iterator[tuple[str, list[Patch]]]:
    """Yield a series without each of its hunks in turn, and that hunk's name."""
    counts: dict[str, int] = {}
    for at, patch in enumerate(series):
        for place, change in enumerate(patch.changes):
            for number in range(len(change.hunks) if change.judged else 0):
                counts[change.judged] = counts.get(change.judged, 0) + 1
                rest = replace(change, hunks=change.hunks[:number] + change.hunks[number + 1 :])
                changes = (*patch.changes[:place], rest, *patch.changes[place + 1 :])
                kept = [one for one in changes if one.hunks]
                name = f"{change.judged} hunk {counts[change.judged]}"
                yield name, [*series[:at], replace(patch, changes=tuple(kept)), *series[at + 1 :]]


def _hunks(series: Sequence[Patch], base: Base) -> Iterator[Step]:
    """Yield a series as it is, and without each of its hunks.

    Raises:
        UserError: it has one hunk.
    """
    yield Step("all", "with the patch", base)
    rest = [*_less(series)]
    if len(rest) < 2:
        raise UserError("-p: the patch has one hunk, which cannot be left out", USAGE)
    for number, (name, less) in enumerate(rest, 1):
        after = _fitting(apply(less, base.before), f"without {name}, the rest").files
        yield Step(f"-{number}", f"without {name}", replace(base, after=after))


def of_series(series: Sequence[Patch], base: Base, split: str, *, reverse: bool) -> list[Step]:
    """Return the parts of a series.

    Args:
        series: in its order.
        base: what the whole was applied to.
        split: of WHOLE, EACH, HUNKS.
        reverse: it was taken back.

    Raises:
        UserError: a part does not apply.
    """
    if split == WHOLE:
        return [Step("", "without the patch" if reverse else "with the patch", base)]
    if reverse:
        raise UserError("--each and -p are for a patch that is applied, not taken back", USAGE)
    return [*(_each if split == EACH else _hunks)(series, base)]


def of_commits(label: str, tree: Path, span: str, split: str) -> list[Step]:
    """Return the commits of a tree that touched the governors.

    Args:
        label: of the tree.
        tree: a git repository of the kernel.
        span: "A..B".
        split: WHOLE: all together; EACH: one by one.

    Raises:
        UserError: it is no span, or none touched them.
    """
    if split == HUNKS:
        raise UserError("-p is for a patch, not for --commits", USAGE)
    first, *later = git.commits(tree, span)
    if not later:
        raise UserError(f"{span}: no commit touched the governors")
    ends = [first, *later] if split == EACH else [first, later[-1]]
    found = []
    for number, (old, new) in enumerate(pairwise(ends), 1):
        base = Base(f"{label} {old.name}", f"commits of {span}", old.files, new.files, (), True)
        found.append(Step(str(number) if split == EACH else "", f"at {new.name}", base))
    return found
