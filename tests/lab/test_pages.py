# SPDX-License-Identifier: GPL-2.0
"""The pages of docs/experiments say what their commands say now.

Figures that are known from build/experiments are not measured again: their keys hold all that made
them.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cpuidle_lab.base.cache import TOP
from experiments.experiment import Request, found
from experiments.pages import FOLDER, RESULT

pytestmark = [pytest.mark.lab, pytest.mark.full]


def _run(*words: str | Path) -> None:
    command = [str(TOP / "cpuidle-lab"), *map(str, words)]
    subprocess.run(command, check=True, cwd=TOP, stdout=subprocess.PIPE)


def _rows(folder: Path, name: str) -> dict[str, Any]:
    told = json.loads((folder / name / RESULT).read_text(encoding="utf-8"))
    return {row["what"]: (row["ours"], row["state"], row["note"]) for row in told["rows"]}


def _page(folder: Path, name: str) -> str:
    """Return a page without the hashes of the code that made it."""
    return (folder / f"{name}.md").read_text(encoding="utf-8").partition("## Made by")[0]


@pytest.mark.parametrize("name", sorted(found()))
def test_a_page_says_what_its_command_says(name: str, tmp_path: Path) -> None:
    if why := found()[name].refusals(Request(lab=True)):
        pytest.skip("; ".join(why))
    if name == "wteo":
        _run("corpus")
    lab = ("--lab",) if found()[name].in_lab else ()
    _run("experiment", name, *lab, "--output", tmp_path)
    made, kept = _rows(tmp_path, name), _rows(FOLDER, name)
    # The tree of these was given when the page was written.
    trees = [what for what, (*_, note) in made.items() if "--tree" in note]
    for what in trees:
        del made[what], kept[what]
    assert made == kept
    assert trees or _page(tmp_path, name) == _page(FOLDER, name)
