# SPDX-License-Identifier: GPL-2.0
"""Kits of others: their figures made again, and the table by machine."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import scratch
from cpuidle_lab.host.sysfs import why as error_of
from cpuidle_lab.kit.archive import unpack
from cpuidle_lab.kit.gather import FIGURES, RECORDING, Run, why

# Figures of two builds of the program that differ by less are the same.
_SAME = 1e-6


@dataclass
class Kit:
    """One archive.

    Attributes:
        path: of it.
        kernel, driver: of the machine; "" if unknown.
        cpus: how many were recorded.
        intervals: of the recording.
        regrets: of each governor, %; None where it is withheld.
        missing: parts that are not there, with the reason.
        notes: what a reader must know.
        wrong: a figure is not that of the archive, or contradicts itself.
    """

    path: Path
    kernel: str = ""
    driver: str = ""
    cpus: int = 0
    intervals: int = 0
    regrets: dict[str, float | None] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    wrong: bool = False


def regrets(told: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the mean regret of each governor of `compare --json`."""
    return {str(line["label"]): line["mean_regret"] for line in told["summary"]}


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=_SAME, abs_tol=_SAME)


def differing(sent: Mapping[str, float | None], made: Mapping[str, float | None]) -> list[str]:
    """Return a sentence for each governor whose regret is not that of the archive."""
    return [
        f"the regret of {label} is {made[label]} %, and {sent[label]} % in the archive"
        for label in sent
        if label in made and not _same(sent[label], made[label])
    ]


def _figures(kit: Kit, folder: Path, run: Run) -> None:
    """Make the figures of the recording again, and compare them with those that were sent."""
    code, out, err = run(FIGURES, folder)
    try:
        told = json.loads(out)
    except ValueError:
        kit.wrong = True
        kit.notes.append(f"the recording cannot be compared: {why(err)}")
        return
    kit.wrong |= code != 0
    kit.regrets = regrets(told)
    source = told["traces"][0]
    kit.cpus, kit.intervals = len(source["machines"]), int(source["intervals"])
    try:
        sent = regrets(json.loads((folder / "figures.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        kit.notes.append("the archive has no figures to compare with")
        return
    said = differing(sent, kit.regrets)
    kit.notes += said
    kit.wrong |= bool(said)


def read(path: Path, run: Run) -> Kit:
    """Return what an archive tells.

    Args:
        path: of it.
        run: runs a command of this program.

    Raises:
        UserError: it is no kit, is damaged, or was changed.
    """
    with scratch() as folder:
        place = folder / "kit"
        place.mkdir()
        told = unpack(path, place)
        kit = Kit(path, str(told.get("kernel", "")), str(told.get("driver", "")))
        kit.missing = {str(name): str(why) for name, why in dict(told.get("missing", {})).items()}
        if (place / RECORDING).exists():
            _figures(kit, place, run)
        else:
            kit.notes.append("the archive has no recording")
    return kit


def read_all(paths: Sequence[Path], run: Run) -> list[Kit]:
    """Return what each archive tells; one that cannot be read has a note."""
    found = []
    for path in paths:
        try:
            found.append(read(path, run))
        except (UserError, OSError) as error:
            said = error.message if isinstance(error, UserError) else error_of(error)
            found.append(Kit(path, notes=[said], wrong=True))
    return found
