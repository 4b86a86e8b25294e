# SPDX-License-Identifier: GPL-2.0
"""Programs in the lab as parts of a plan: boots whose figures are kept."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cpuidle_lab.base.cache import digest
from cpuidle_lab.base.settings import Setting
from cpuidle_lab.figures import analysis
from cpuidle_lab.host import energy
from cpuidle_lab.lab import LabRun, turns
from cpuidle_lab.lab.keys import key_of
from cpuidle_lab.lab.turns import JudgedProgram, Size, Turn
from cpuidle_lab.recording import phases, trace
from cpuidle_lab.replay.candidates import Candidate
from cpuidle_lab.states import costs
from experiments.experiment import Job, checked
from experiments.wteo.streams import COLUMNS_CODE

# As mainline's teo and menu decide.
TEO, MENU = "teo_ng", "menu_ng"

KERNEL = "6.12"

# The code that reads the results.
_FIGURES = ("analysis", "cpu_idle", "decisions", "group", "intervals")
_READERS = [
    Path(__file__),
    *COLUMNS_CODE,
    *(Path(analysis.__file__).with_name(f"{name}.py") for name in _FIGURES),
    *(Path(str(one.__file__)) for one in (costs, energy, phases, trace, turns)),
]


def turns_of(candidates: Sequence[Candidate]) -> list[Turn]:
    """Return a turn for each candidate.

    What only other turns of a governor move is set, too, to its default.
    """
    found = []
    for one in candidates:
        name = one.governor.spec
        alike = [other for other in candidates if other.governor.spec == name]
        moved = sorted({key for other in alike for key, _ in other.settings})
        values = {info.name: str(info.default) for info in one.governor.tunables}
        values.update(one.settings)
        found.append(Turn(one.label, name, [Setting(name, key, values[key]) for key in moved]))
    return found


def cell(
    program: JudgedProgram,
    candidates: Sequence[Candidate],
    size: Size,
    changes: Mapping[str, str] = MappingProxyType({}),
) -> Job:
    """Return the boot for a program as a part of a plan; it yields the attributes of its Runs.

    Args:
        program: what runs.
        candidates: under which governors.
        size: how much.
        changes: of the modules' sources, as of LabRun.
    """
    each = turns_of(candidates)
    run = turns.lab_run(program, each, size, kernel=KERNEL, changes=changes)

    def work() -> list[dict[str, Any]]:
        return [vars(one) for one in turns.boot(program, each, run, f"Lab: {program.name}")]

    return checked(lambda: _key(program, candidates, run), work)


def _key(program: JudgedProgram, candidates: Sequence[Candidate], run: LabRun) -> str:
    """Return a hash of all that the runs depend on."""
    code = [path.read_bytes() for path in _READERS]
    labels = [candidate.label for candidate in candidates]
    return digest(["kernel", key_of(run), repr(program), *labels, *code])
