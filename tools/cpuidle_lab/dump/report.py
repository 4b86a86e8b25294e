# SPDX-License-Identifier: GPL-2.0
"""A comparison of dumps, ready to be shown: sides, warnings, rows, limits of what it says."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.dump import extras, figures, periods, warnings
from cpuidle_lab.dump.figures import Row, Side, Value
from cpuidle_lab.dump.periods import Period
from cpuidle_lab.dump.warnings import Warn

_ENDING = re.compile(r"(?:\.(?:txt|dump|log|gz|xz|zst|bz2))+$")
_MOMENT = re.compile(r"[._-]*(?:before|after)(?![a-z])")

ALIKE = (
    "The miss rate alone does not tell which kernel is faster: on fio's dumps the slower kernel "
    "had fewer misses (docs/dumps.md).",
    "Counters tell no wake-up latency, no speed of a program, and not the cause of a wake-up.",
    "Exit latency paid is entries times the table's worst case; real wake-ups may cost less.",
    "Above and below are the kernel's own account, by the mean stay and its target residencies.",
)
ONE_RUN = (
    "There is one run on a side, so the spread is unknown; identical code has had idle energies "
    "of 80 to 170 J in five runs. Dump several: cpuidle-lab dump -n 5 -- COMMAND."
)
MANY = "Of 20 figures of identical code, one lies beyond the spread by chance."
NO_ENERGY = "No energy is in these dumps."


@dataclass(frozen=True)
class Report:
    """A comparison.

    Attributes:
        sides: one or more; differences are from the first.
        warnings: by side.
        rows: figures of all groups and states.
        extras: energies and other residencies by name and unit, one value for each side.
        limits: sentences on what the figures do not say.
        comparable: the sides have the same CPUs and tables, so differences mean something.
    """

    sides: tuple[Side, ...]
    warnings: tuple[tuple[Warn, ...], ...]
    rows: tuple[Row, ...]
    extras: dict[tuple[str, str], tuple[Value, ...]]
    limits: tuple[str, ...]
    comparable: bool


def _stem(path: Path) -> str:
    """Return a file's name without its ending and the words "before" and "after"."""
    return _MOMENT.sub("", _ENDING.sub("", path.name)) or path.name


def _name(found: Sequence[Period], paths: Sequence[Path]) -> str:
    """Return a side's name: kernel and governor, or the common part of the files' names."""
    ends = [period.end for period in found if period.end]
    kernels = {f"{end.kernel} {end.governor}".strip() for end in ends if end.kernel}
    if len(kernels) == 1:
        return kernels.pop()
    stems = list(dict.fromkeys(_stem(path) for path in paths))
    return ", ".join(stems) if len(stems) < 4 else f"{stems[0]} and {len(stems) - 1} more"


def _label(names: Sequence[str]) -> list[str]:
    """Return names that differ."""
    return [
        name if names.count(name) == 1 else f"{name} ({at})" for at, name in enumerate(names, 1)
    ]


def _shape(period: Period) -> set[tuple[str, ...]]:
    return {tuple(state.name for state in cpu.states) for cpu in period.cpus}


def _times(period: Period) -> set[tuple[tuple[str, int | None, int | None], ...]]:
    return {
        tuple((state.name, state.exit_us, state.target_us) for state in cpu.states)
        for cpu in period.cpus
    }


def _across(sides: Sequence[Side]) -> Iterator[tuple[str, bool]]:
    """Yield a sentence on each contrast between periods, and whether it forbids differences."""
    first = sides[0].periods[0]
    for side in sides:
        for period in side.periods:
            if _shape(period) != _shape(first):
                yield f"{period.name} has other idle states than {first.name}: no differences", True
            elif _times(period) != _times(first):
                yield f"{period.name} has other latencies or targets than {first.name}", False
            if len(period.cpus) != len(first.cpus):
                yield (
                    (
                        f"{period.name} counts {len(period.cpus)} CPUs, {first.name} "
                        f"{len(first.cpus)}: no differences"
                    ),
                    True,
                )


def _extras(sides: Sequence[Side]) -> dict[tuple[str, str], tuple[Value, ...]]:
    told = [[extras.of(period) for period in side.periods] for side in sides]
    keys = dict.fromkeys(key for runs in told for run in runs for key in run)
    return {
        key: tuple(
            Value(tuple(run[key] for run in runs)) if all(key in run for run in runs)
            else Value(why="a dump does not tell it")
            for runs in told
        )
        for key in keys
    }  # fmt: skip


def _limits(sides: Sequence[Side], spent: dict[tuple[str, str], tuple[Value, ...]]) -> list[str]:
    found = list(ALIKE)
    if not any(unit == "J" for _, unit in spent):
        found.append(NO_ENERGY)
    if len(sides) > 1:
        found.append(ONE_RUN if any(len(side.periods) < 2 for side in sides) else MANY)
    return found


def _sides(paths: Sequence[Path], from_boot: bool) -> list[tuple[list[Period], list[Path]]]:
    """Divide files without --against into sides: each period is one, or each file with periods."""
    found: list[tuple[list[Period], list[Path]]] = []
    waiting: list[Path] = []
    for path in paths:
        waiting.append(path)
        try:
            mine = periods.of_files(waiting, from_boot)
        except periods.AloneError:
            if len(waiting) == 1:
                continue
            raise
        found.append((mine, waiting))
        waiting = []
    if waiting:
        periods.of_files(waiting, from_boot)
    return found


def build(paths: Sequence[Path], against: Sequence[Sequence[Path]], from_boot: bool,
          names: Sequence[str] = ()) -> Report:  # fmt: skip
    """Return the comparison of dumps.

    Args:
        paths: of the first side; of all sides where `against` is empty.
        against: those of the other sides.
        from_boot: each dump is a period since boot.
        names: of the sides; none: found out.

    Raises:
        UserError: a dump cannot be read or matched, or the names are not as many as the sides.
    """
    if against:
        told = [(periods.of_files(each, from_boot), list(each)) for each in (paths, *against)]
    else:
        told = _sides(paths, from_boot)
    if names and len(names) != len(told):
        raise UserError(f"{len(names)} names are given for {len(told)} sides", USAGE)
    labels = _label(list(names) or [_name(*each) for each in told])
    sides = tuple(Side(n, tuple(found)) for n, (found, _) in zip(labels, told, strict=True))
    contrasts = dict(_across(sides))
    warned = []
    for at, side in enumerate(sides):
        mine = dict.fromkeys(warn for period in side.periods for warn in warnings.of(period))
        more = [Warn("sides_differ", text) for text in contrasts] if at == 0 else []
        warned.append((*more, *mine))
    spent = _extras(sides)
    return Report(
        sides,
        tuple(warned),
        tuple(figures.rows(sides)),
        spent,
        tuple(_limits(sides, spent)),
        not any(contrasts.values()),
    )
