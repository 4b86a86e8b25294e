# SPDX-License-Identifier: GPL-2.0
"""Both governors in the lab: programs in turns within one boot, and the worst cases played.

The governors of kernels are modules, built unmodified. The gate lets each decide, so that its
events tell regret and exit latency for both alike.
"""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.settings import Setting
from cpuidle_lab.lab import mainline, programs, turns
from cpuidle_lab.lab.parallel import at_once, completed, threads
from cpuidle_lab.lab.run import ONE_CPU_IN_VIRTUAL_TIME, LabRun
from cpuidle_lab.lab.turns import JudgedProgram, Size, Turn
from cpuidle_lab.lab.workloads import Workload
from cpuidle_lab.replay.candidates import candidate
from cpuidle_lab.replay.library import MAINLINE
from cpuidle_lab.review.listed import FOLDER, IN_LAB, experiment
from cpuidle_lab.states.linux_source import NEWEST

# Rounds, and seconds of each run.
SIZE = Size(seeds=5, seconds=1)
# Figures of a run: unit, and 1 where a greater one is worse.
FIGURES = {
    "energy": ("mJ a unit of work, emulated", 1),
    "work": ("units a second", -1),
    "regret": ("%", 1),
    "p99": ("us, exit latency, modelled", 1),
    "p99 end to end": ("us", 1),
}
# Figures of a run on this machine, see here.py; another machine has other counters.
OF_MACHINE = {
    "package energy": ("J", 1),
    "emulated energy": ("J", 1),
    "time": ("s", 1),
}
_UNITS = FIGURES | OF_MACHINE
# A difference of medians below this share is none, however small the spread: virtual time has so
# little that a cache line counts.
LEAST = 0.01
_WAKES = JudgedProgram(
    Workload(
        "wakebench",
        "2 threads sleep 30 to 37.5 ms, then wake 4 others each, which compute for 100 us",
        "wakebench -m 2 -t 4 -r DURATION -S SEED",
    ),
    "skx",
    latency=True,
    own=programs.WAKEBENCH,
)
PROGRAMS = (*turns.PROGRAMS, _WAKES)


@dataclass(frozen=True)
class LabChange:
    """A figure of a program in the lab or on this machine, before and after.

    Attributes:
        program: its name.
        figure: of FIGURES or OF_MACHINE.
        before, after: a value for each seed or round.
    """

    program: str
    figure: str
    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def change(self) -> float:
        """Change of the median, as a share of the one before."""
        old, new = median(self.before), median(self.after)
        return (new - old) / old if old else float(new != old)

    @property
    def differs(self) -> bool:
        """The values of all seeds lie apart, by LEAST at least."""
        apart = max(self.before) < min(self.after) or min(self.before) > max(self.after)
        return apart and abs(self.change) >= LEAST

    @property
    def worse(self) -> bool:
        """It differs for the worse."""
        return self.differs and (self.change > 0) == (_UNITS[self.figure][1] > 0)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        told = asdict(self) | {"unit": _UNITS[self.figure][0]}
        return told | {"differs": self.differs, "worse": self.worse}


def kernel_of(governors: Iterable[str]) -> str:
    """Return the series of the guest: that of the last governor whose kernel the lab boots.

    Args:
        governors: as replay takes them.
    """
    series = [one.partition(":")[0].partition("@")[2] for one in governors]
    known = [one for one in series if one in mainline.SERIES and one not in ONE_CPU_IN_VIRTUAL_TIME]
    return known[-1] if known else NEWEST


def turn_of(governor: str, label: str) -> tuple[Turn, str]:
    """Return a governor's turn, and the governor that is built for it; "": none is.

    Raises:
        UserError: no module has it.
    """
    head, _, settings = governor.partition(":")
    name, at, _ = head.partition("@")
    if not at:
        who = candidate(governor)
        tunables = [Setting(name, one.name, str(dict(who.settings).get(one.name, one.default)))
                    for one in who.governor.tunables]  # fmt: skip
        return Turn(label, "gate", [*tunables, Setting("gate", "base", name)]), ""
    if name not in MAINLINE or settings:
        raise UserError(f"{label}: no module has it; the lab takes governors of kernels and ours")
    return Turn(label, "gate", [Setting("gate", "base", mainline.guest_name(head))]), head


def _values(run: turns.ProgramRun) -> dict[str, float | None]:
    return {
        "energy": run.energy_mj / run.amount if run.amount else None,
        "work": run.throughput,
        "regret": run.regret,
        "p99": run.p99_us,
        "p99 end to end": run.tail_us,
    }


def changes_of(
    program: str, labels: Sequence[str], runs: Sequence[turns.ProgramRun]
) -> list[LabChange]:
    """Return the figures of a program that every run has."""
    sides: list[dict[str, tuple[float | None, ...]]] = []
    for label in labels:
        mine = [_values(run) for run in runs if run.governor == label]
        sides.append({name: tuple(one[name] for one in mine) for name in FIGURES})
    return [
        LabChange(program, name, *both)  # type: ignore[arg-type]
        for name in FIGURES
        if (both := tuple(side[name] for side in sides)) and None not in (*both[0], *both[1])
    ]


def play_programs(
    governors: tuple[str, str], labels: tuple[str, str], told: Callable[[float], None],
    chosen: Sequence[JudgedProgram] = PROGRAMS, size: Size = SIZE,
) -> list[LabChange]:  # fmt: skip
    """Run programs under both governors, each program in a boot of its own.

    Args:
        governors: before and after, as replay takes them.
        labels: of both.
        told: called with the share that is done.
        chosen: programs.
        size: rounds and seconds.

    Raises:
        UserError: a governor has no module, or something failed in the guest.
    """
    each, built = zip(*(turn_of(*one) for one in zip(governors, labels, strict=True)),
                      strict=True)  # fmt: skip
    named = [Turn(str(number), turn.governor, turn.tunables) for number, turn in enumerate(each)]
    wanted = sorted({*built} - {""})

    def boot(program: JudgedProgram) -> list[LabChange]:
        run: LabRun = turns.lab_run(
            program, named, size, kernel=kernel_of(governors),
            changes=mainline.changes(wanted), modules=[mainline.module_of(one) for one in wanted],
        )  # fmt: skip
        return changes_of(program.name, ("0", "1"), turns.boot(program, named, run))

    found: list[LabChange] = []
    with threads(at_once()) as pool:
        jobs = [pool.submit(boot, program) for program in chosen]
        for number, job in enumerate(completed(jobs), 1):
            found += job.result()
            told(number / len(jobs))
    return sorted(found, key=lambda one: (not one.worse, not one.differs, -abs(one.change)))


def check(governors: tuple[str, str], labels: tuple[str, str]) -> None:
    """Refuse governors that the lab cannot boot.

    Raises:
        UserError: no module has one of them, or this is no source tree.
    """
    if not FOLDER.is_dir():
        raise UserError("--lab needs the project's source tree")
    for governor, label in zip(governors, labels, strict=True):
        turn_of(governor, label)


def play_case(file: Path, trees: Iterable[tuple[str, Path]]) -> dict[str, str]:
    """Return the figure of a case in the lab, middle of its seeds, by governor.

    Args:
        file: the case.
        trees: kernel trees by label, as `experiment --tree`.

    Raises:
        UserError: it cannot be played.
    """
    words = ("--lab", "--seeds", str(SIZE.seeds))
    with tempfile.TemporaryDirectory() as folder:
        (told,) = experiment(file, *words, "--output", folder, trees=trees)
    return {
        row["what"].removesuffix(IN_LAB): f"{row['median']:.3g} {row['unit']}"
        for row in told["rows"]
        if row["what"].endswith(IN_LAB) and row["median"] is not None
    }
