# SPDX-License-Identifier: GPL-2.0
"""Figures of recorded idle periods, charged as replayed ones are: by the same code.

Energies are in pJ (1 mW * 1 ns), times in ns.
"""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cpuidle_lab.base import abi
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording.columns import Columns, joined, sliced
from cpuidle_lab.replay.engine import (
    CHOICE_TYPES,
    INTERVAL_TYPES,
    Each,
    Outcome,
    Run,
    fitting,
    table_of,
)
from cpuidle_lab.replay.library import governor
from cpuidle_lab.states.table import StateTable

Array = npt.NDArray[Any]

RECORDED = "recorded"

STAY_TYPES = abi.columns("rp_stays")
VERDICT_TYPES = abi.columns("rp_verdicts")

# Columns of a recording's periods by what struct rp_stays calls them, where that differs.
_OTHERWISE = {"chosen": "index", "index": "out_index", "tick": "by_tick"}
_STAYS = {name: _OTHERWISE.get(name, name) for name in STAY_TYPES}


class Source(Protocol):
    """Recording, or a part of one, that can be judged."""

    @property
    def path(self) -> Path:
        """Where it came from, for messages."""

    @property
    def cpus(self) -> list[int]:
        """The CPUs that have rows."""

    @property
    def state_tables(self) -> dict[int, StateTable]:
        """Idle states by CPU."""

    def intervals(self, cpu: int, columns: Sequence[str] | None = None) -> Iterator[Columns]:
        """Yield the intervals of a CPU."""

    def periods(self, cpu: int, columns: Sequence[str] | None = None) -> Iterator[Columns]:
        """Yield the decisions of a CPU with their outcomes."""


class Judge:
    """Charges the recorded idle periods of one CPU; closed by `with`."""

    def __init__(self, table: StateTable) -> None:
        # The policy is not asked.
        self._run = Run(governor("oracle"), table)

    def __enter__(self) -> "Judge":
        self._run.__enter__()
        return self

    def __exit__(self, *why: object) -> None:
        self._run.__exit__(*why)

    def judge(
        self, intervals: Mapping[str, Array], periods: Mapping[str, Array]
    ) -> tuple[Columns, Columns]:
        """Charge intervals of the CPU.

        Args:
            intervals: columns of columns.INTERVAL.
            periods: columns of columns.PERIOD, of the periods in these intervals and no others.

        Returns:
            What each interval came to, by CHOICE_TYPES, and each period, by VERDICT_TYPES.
        """
        stays = {name: periods[source] for name, source in _STAYS.items() if name != "periods"}
        stays["periods"] = intervals["periods"]
        given, told = fitting(intervals, INTERVAL_TYPES), fitting(stays, STAY_TYPES)
        if int(told["periods"].sum()) != len(told["now_ns"]) or not told["periods"].all():
            raise ValueError("the periods are not those of the intervals")
        count = len(given["flags"])
        choices: Columns = {name: np.zeros(count, kind) for name, kind in CHOICE_TYPES.items()}
        verdicts: Columns = {
            name: np.zeros(len(told["now_ns"]), kind) for name, kind in VERDICT_TYPES.items()
        }
        self._run.call(
            "rp_judge",
            ctypes.byref(abi.pointing("rp_intervals", given, count=count)),
            ctypes.byref(abi.pointing("rp_stays", told)),
            ctypes.byref(abi.pointing("rp_choices", choices)),
            ctypes.byref(abi.pointing("rp_verdicts", verdicts)),
        )
        return choices, verdicts

    def totals(self) -> ctypes.Structure:
        """Return what all of it came to so far."""
        return self._run.totals()


# Columns of a recording's periods that are read.
PERIOD_COLUMNS = ("interval", *(source for name, source in _STAYS.items() if name != "periods"))


def _together(recording: Source, cpu: int) -> Iterator[tuple[Columns, Columns]]:
    """Yield intervals of a CPU with the periods in them."""
    periods = recording.periods(cpu, PERIOD_COLUMNS)
    waiting: Columns = {}
    for chunk in recording.intervals(cpu, ["periods", *INTERVAL_TYPES]):
        if not chunk["periods"].all():
            raise UserError(f"{recording.path}: its table 'interval' has one without idle periods")
        need = int(chunk["periods"].sum())
        while not waiting or len(waiting["now_ns"]) < need:
            more = next(periods, None)
            if more is None:
                raise UserError(
                    f"{recording.path}: its table 'period' lacks some of what its intervals hold"
                )
            placed = more["interval"] != 0
            more = {name: values[placed] for name, values in more.items()}
            waiting = joined([waiting, more]) if waiting else more
        yield chunk, sliced(waiting, 0, need)
        waiting = sliced(waiting, need, len(waiting["now_ns"]))


def outcome(recording: Source, *, choices: bool = False, each: Each | None = None) -> Outcome:
    """Return what a recording came to under the governor that made it.

    Args:
        recording: with decisions, of CPUs whose state tables are known.
        choices: keep what each interval came to.
        each: called with what each chunk of a CPU came to, as of engine.counterfactual().

    Raises:
        UserError: it contradicts itself.
    """
    state_tables = recording.state_tables
    tables = {cpu: table_of(recording.path, state_tables, cpu) for cpu in recording.cpus}
    if not state_tables:
        raise UserError(f"{recording.path}: has no CPU whose idle states are known")
    found = Outcome(RECORDED, max(state_tables.values(), key=lambda table: table.count))
    for cpu, table in tables.items():
        with Judge(table) as judge:
            judged = []
            first = 0
            for both in _together(recording, cpu):
                decided, _ = judge.judge(*both)
                judged += [decided] * choices
                if each:
                    each(cpu, first, decided)
                first += len(decided["cost_pj"])
            if choices:
                found.choices[cpu] = joined(judged)
            found.add(judge.totals(), table)
    return found
