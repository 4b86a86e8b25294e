# SPDX-License-Identifier: GPL-2.0
"""Intervals that make the error of a governor's replay on its own recording."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cpuidle_lab.crossval import own
from cpuidle_lab.crossval.pairs import Pair, grouped
from cpuidle_lab.crossval.parts import Part
from cpuidle_lab.crossval.targets import is_missed
from cpuidle_lab.evidence.tables import Cell, Table
from cpuidle_lab.replay import recorded

# Of each recording.
SHOWN = 3

_HEADS = ("recording", "workload", "governor", "CPU", "decision", "length us", "recorded",
          "replayed", "points")  # fmt: skip


def intervals(parts: Iterable[Part], pairs: Sequence[Pair]) -> Table:
    """Return the intervals whose costs differ most, of each governor beyond its own limit.

    A state is that of the first decision and that entered last. The points are those of the
    interval, of the regret of its phase.
    """
    groups = grouped(parts)
    missed = [pair for pair in pairs if pair.own and is_missed(pair)]
    found = [groups[pair.key][pair.recorded].values() for pair in missed]
    rows = [row for seeds in found for part in seeds for row in _rows(part)]
    return Table("Where replay errs on a governor's own recording", _HEADS, rows, digits=2)


def _rows(part: Part) -> Iterator[list[Cell]]:
    fact = recorded.outcome(part, choices=True)
    replayed = own.play(part, part, restore=True, choices=True)
    worst = sorted(
        (
            (float(error), cpu, int(i))
            for cpu in part.cpus
            for error, i in _worst(replayed.choices[cpu]["cost_pj"] - fact.choices[cpu]["cost_pj"])
        ),
        key=lambda one: -abs(one[0]),
    )
    for error, cpu, i in worst[:SHOWN]:
        names = part.state_tables[cpu].names
        interval = part.kept[cpu][0]
        states = [
            f"{names[chosen['index'][i]]} {names[chosen['last'][i]]}"
            for chosen in (fact.choices[cpu], replayed.choices[cpu])
        ]
        yield [
            part.path.name.split(".trace")[0], part.workload, part.recorder.label, cpu,
            int(interval["first_seq"][i]), float(interval["length_ns"][i]) / 1000, *states,
            100 * error / fact.oracle_pj,
        ]  # fmt: skip


def _worst(errors: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> Iterator[tuple[float, int]]:
    for i in np.argsort(-np.abs(errors), kind="stable")[:SHOWN]:
        if errors[i]:
            yield errors[i], i
