# SPDX-License-Identifier: GPL-2.0
"""The list's cases under both governors: experiments/cases, replayed by `experiment`."""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.review.confined import environment, without_network

FOLDER = TOP / "experiments" / "cases"
# Behind the name of a figure that is booted, as `experiment` prints it.
IN_LAB = ", in the lab"
# Of foreign code, as of worker.limit(); it loops if it takes longer.
_LIMITS = ("--as=6442450944", "--cpu=120", "--fsize=268435456", "--nofile=256")
# A figure that changes by less is the same.
_LEAST = 0.01


@dataclass(frozen=True)
class CaseChange:
    """The figure of a case, before and after.

    Attributes:
        case: its name.
        where: stream, machine and request, "" if there is one alone.
        unit: of the figure.
        before, after: the figure.
    """

    case: str
    where: str
    unit: str
    before: float
    after: float

    @property
    def change(self) -> float:
        """Change as a share of the greater value."""
        most = max(abs(self.before), abs(self.after))
        return (self.after - self.before) / most if most else 0.0

    @property
    def differs(self) -> bool:
        """It changes by _LEAST at least."""
        return abs(self.change) >= _LEAST

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self) | {"differs": self.differs}


def experiment(
    *words: str | Path, trees: Iterable[tuple[str, Path]], limits: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Run `experiment` with --json, without network, and return what it tells.

    Args:
        words: of its command line.
        trees: kernel trees by label.
        limits: options of prlimit.

    Raises:
        UserError: it fails, or this is no source tree.
    """
    if not FOLDER.is_dir():
        raise UserError("that needs the project's source tree")
    command = ["setpriv", "--pdeathsig", "KILL", *without_network(), "prlimit", *limits]
    command += [sys.executable, "-m", "cpuidle_lab", "experiment", *map(str, words), "--json"]
    for label, path in trees:
        command += ["--tree", f"{label}={path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    try:
        told: list[dict[str, Any]] = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["experiment says nothing"])[-1]
        raise UserError(last.removeprefix("cpuidle-lab: error: ")) from None
    return told


def pairs(told: Mapping[str, Any], words: tuple[str, str]) -> list[CaseChange]:
    """Return the figures of one case that both governors have.

    Args:
        told: as `experiment --json` prints it.
        words: the governors, as they were given to it.
    """
    rows = {row["what"]: row for row in told["rows"] if not row["what"].endswith(IN_LAB)}
    before, after = words
    found = []
    for what, row in rows.items():
        other = rows.get(after + what.removeprefix(before)) if what.startswith(before) else None
        if other is None or other is row or None in (row["median"], other["median"]):
            continue
        where = what.removeprefix(before).removeprefix(", ")
        found.append(CaseChange(told["name"], where, row["unit"], row["median"], other["median"]))
    return found


def play(words: tuple[str, str], trees: Iterable[tuple[str, Path]]) -> list[CaseChange]:
    """Return the figures of all cases, those that change most first.

    Args:
        words: the governors, as `experiment` takes them.
        trees: kernel trees by label.

    Raises:
        UserError: see experiment().
    """
    names = sorted(path.stem for path in FOLDER.glob("*.yaml"))
    options = ("--with", f"governors={','.join(words)}", "--seeds", "1")
    told = experiment(*names, *options, trees=trees, limits=_LIMITS)
    found = [one for case in told for one in pairs(case, words)]
    return sorted(found, key=lambda one: -abs(one.change))
