# SPDX-License-Identifier: GPL-2.0
"""A governor without one of its steps: compiled from a copy of its sources that was edited.

The removals stand in NAME.steps.toml, not in the governor: its sources know nothing of this.
"""

import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cpuidle_lab.base.cache import TOP, digest, locked
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.replay.candidates import Candidate
from cpuidle_lab.replay.library import variant
from experiments.memo import FOLDER, sources

_GOVERNORS = TOP / "governors"
_LISTS = Path(__file__).parent


@dataclass(frozen=True)
class Edit:
    """A replacement in a source file.

    Attributes:
        file: name of the file in the governor's folder.
        old: text that is in it once.
        new: what takes its place.
    """

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Step:
    """A step that can be removed.

    Attributes:
        name: for people; in brackets what takes its place, if not nothing.
        edits: what removes it.
        keeps: unit test of a promise that breaks without it, "" if none does.
        decided: it stays whatever it is worth.
    """

    name: str
    edits: tuple[Edit, ...]
    keeps: str = ""
    decided: bool = False


def _step(raw: Mapping[str, Any]) -> Step:
    edits = tuple(Edit(**edit) for edit in raw["edit"])
    return Step(raw["name"], edits, raw.get("keeps", ""), raw.get("decided", False))


def listed(name: str) -> list[Step]:
    """Return the steps of a governor that can be removed; none if it has no list."""
    path = _LISTS / f"{name}.steps.toml"
    if not path.exists():
        return []
    return [_step(raw) for raw in tomllib.loads(path.read_text())["step"]]


def edited(name: str, step: Step) -> dict[str, str]:
    """Return the sources of a governor without a step, by file; its test cases are no part of them.

    Raises:
        UserError: the step is not in the sources.
    """
    paths = sorted((_GOVERNORS / name).glob("[!.]*.[ch]"))
    texts = {path.name: path.read_text() for path in paths if "_kunit." not in path.name}
    for edit in step.edits:
        times = texts[edit.file].count(edit.old)
        if times != 1:
            raise UserError(
                f"'{step.name}' cannot be removed: {edit.file} has {times} times {edit.old!r}"
            )
        texts[edit.file] = texts[edit.file].replace(edit.old, edit.new)
    return texts


def without(name: str, step: Step) -> Candidate:
    """Return a governor without a step.

    Args:
        name: of the governor.
        step: of listed().

    Raises:
        UserError: the step is not in the sources, or they do not compile.
    """
    key = digest([sources(name), repr(step.edits)])
    folder = FOLDER / "steps" / key
    with locked(FOLDER / "steps" / ".lock"):
        if not (folder / name).is_dir():
            shutil.rmtree(folder, ignore_errors=True)
            made = folder.with_suffix(".new")
            shutil.rmtree(made, ignore_errors=True)
            shutil.copytree(_GOVERNORS, made)
            for file, text in edited(name, step).items():
                (made / name / file).write_text(text)
            made.rename(folder)
        found = variant(f"{name}~{key}", name, folder)
    return Candidate(f"{name} without {step.name}", found)
