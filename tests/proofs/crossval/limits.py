#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Measure the share from which on uncertain or omitted intervals change the order of governors.

Synthetic streams have intervals of known lengths, so the order of governors on them is known.

Short: a governor plays a stream, with a table whose exit latencies are true. Its residencies are
turned into intervals again, with the exit latencies of a table that overstates them. Governors are
ranked on both kinds of intervals, told of the same, overstated table.

Omitted: governors play a stream. The longest intervals, or any, are left out of their figures.
"""

import argparse
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from cpuidle_lab.figures.cpu_idle import Array, is_short, stay_ns
from cpuidle_lab.recording import state_tables, synth
from cpuidle_lab.recording.columns import Columns, in_memory
from cpuidle_lab.recording.laws import STREAMS
from cpuidle_lab.replay.engine import Run
from cpuidle_lab.replay.library import governor
from cpuidle_lab.states.table import StateTable

EPILOG = """\
examples:
  limits.py
  limits.py --count 20000 --machines skx,icx
  limits.py --menu              halve periods of up to twice the exit latency, as menu does

exit codes: 0 done, 2 wrong usage
"""

GOVERNORS = ("teo_ng", "menu_ng", "wteo", "wteo_rfc")
FACTORS = (1, 1.05, 1.1, 1.25, 1.5, 2, 3, 4, 6, 8, 12)
OMITTED = (0.1, 0.5, 1, 2, 5, 10, 20, 50, 80)
EDGES = (0, 1e-9, 0.1, 0.5, 1, 2, 5, 10, 20, 50, 100.1)
HZ = 250

# Points of regret: governors that are nearer to each other have no plain order.
APART = 0.5


@dataclass(frozen=True)
class Trial:
    """A stream of which something is uncertain.

    Attributes:
        share: of the periods that are too short, or of the idle time that is omitted, %.
        swapped: governors that are plainly apart change their order.
        error: greatest error of a regret, points.
    """

    share: float
    swapped: bool
    error: float

    @classmethod
    def of(cls, share: float, true: dict[str, float], seen: dict[str, float]) -> "Trial":
        """Compare regrets by governor, %."""
        pairs = itertools.combinations(GOVERNORS, 2)
        apart = [
            (true[a] - true[b], seen[a] - seen[b])
            for a, b in pairs
            if min(abs(true[a] - true[b]), abs(seen[a] - seen[b])) > APART
        ]
        error = max(abs(true[name] - seen[name]) for name in GOVERNORS)
        return cls(share, any(one * other < 0 for one, other in apart), error)


def plays(machine: StateTable, chunk: Columns) -> dict[str, Columns]:
    """Return what each governor makes of each interval."""
    found = {}
    for name in GOVERNORS:
        with Run(governor(name), machine) as run:
            found[name] = run.play(chunk, choices=True)
    return found


def regrets(played: dict[str, Columns], kept: Array | slice = slice(None)) -> dict[str, float]:
    """Return the regret of each governor on some of the intervals, %."""
    return {
        name: 100 * float(each["cost_pj"][kept].sum() / each["oracle_pj"][kept].sum() - 1)
        for name, each in played.items()
    }


def menus_stay_ns(residency_ns: Array, exit_ns: Array) -> Array:
    """Return the idle time as menu has it, see cpu_idle.stay_ns()."""
    found: Array = np.maximum(residency_ns - exit_ns, residency_ns // 2)
    return found


def short(
    machine: StateTable, chunk: Columns, recorder: str, stay: Callable[[Array, Array], Array]
) -> Iterator[Trial]:
    """Yield one trial for each factor by which a table overstates, the true table first."""
    with Run(governor(recorder), machine) as run:
        last = run.play(chunk, choices=True)["last"]
    exit_ns = np.asarray(machine.exit_latency_ns, np.int64)
    residency = chunk["length_ns"] + exit_ns[last]
    for factor in FACTORS:
        claimed = np.rint(exit_ns * factor).astype(np.int64)
        table = replace(machine, exit_latency_ns=tuple(map(int, claimed)))
        length = stay(residency, claimed[last])
        seen = {**chunk, "length_ns": length, "timer_ns": np.maximum(chunk["timer_ns"], length)}
        share = 100 * float(is_short(residency, claimed[last]).mean())
        yield Trial.of(share, regrets(plays(table, chunk)), regrets(plays(table, seen)))


def omitted(machine: StateTable, chunk: Columns) -> Iterator[Trial]:
    """Yield two trials for each share of the idle time: the longest are omitted, and any."""
    played = plays(machine, chunk)
    true, length = regrets(played), chunk["length_ns"]
    orders = np.argsort(-length), np.random.default_rng(1).permutation(len(length))
    for order, share in itertools.product(orders, OMITTED):
        gone = np.cumsum(length[order]) <= share / 100 * length.sum()
        if gone.any():
            yield Trial.of(share, true, regrets(played, order[~gone]))


def show(what: str, found: list[Trial]) -> None:
    """Print how trials fare, by share."""
    print(f"{what + ' %':>20} {'trials':>7} {'order changed %':>16} {'median error, points':>21}")
    for low, high in itertools.pairwise(EDGES):
        mine = [trial for trial in found if low <= trial.share < high]
        if not mine:
            continue
        wrong = 100 * sum(trial.swapped for trial in mine) / len(mine)
        error = float(np.median([trial.error for trial in mine]))
        print(f"{low:8.3g} to {high:8.4g} {len(mine):7} {wrong:16.1f} {error:21.2f}")


def main() -> None:
    """Try each stream on each machine."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000, help="intervals of a stream")
    parser.add_argument("--menu", action="store_true", help="halve as menu does")
    parser.add_argument("--machines", default="skx,power9,icx", metavar="NAME[,NAME]")
    args = parser.parse_args()
    of_true: list[Trial] = []
    of_short: list[Trial] = []
    of_omitted: list[Trial] = []
    for name, stream in itertools.product(args.machines.split(","), STREAMS):
        machine = state_tables.find(name, HZ)
        made = synth.make(stream, args.count, 1, int(max(FACTORS)) * max(machine.exit_latency_ns))
        chunk = in_memory(synth.frame(made))
        of_omitted += omitted(machine, chunk)
        for recorder in ("teo_ng", "menu_ng"):
            stay = menus_stay_ns if args.menu else stay_ns
            true, *overstated = short(machine, chunk, recorder, stay)
            of_true.append(true)
            of_short += overstated
    show("true table", of_true)
    show("short", of_short)
    show("omitted", of_omitted)


if __name__ == "__main__":
    main()
