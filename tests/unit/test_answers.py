# SPDX-License-Identifier: GPL-2.0
"""The bound on what intervals that answer the governor do to a regret."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cpuidle_lab.crossval import answers, own
from cpuidle_lab.crossval.parts import Part, parts
from cpuidle_lab.recording.columns import TICKED, TIMER, opened
from tests.unit.crossvalidating import BOTH, record


@pytest.fixture
def recorded(tmp_path: Path) -> list[Part]:
    """Return the phases of two governors."""
    path = record(tmp_path / "trace.dat", *BOTH)
    with opened(path) as recording:
        return parts(recording, path)


def test_a_governor_with_the_same_exit_latencies_meets_the_same_intervals(
    recorded: list[Part],
) -> None:
    part = recorded[0]
    # Afresh it decides otherwise, so the state that it had then is left out.
    alone = replace(part, before={cpu: replace(one, state=b"") for cpu, one in part.before.items()})
    assert answers.answers(alone, alone, own.play(alone, alone, choices=True)) == 0.0


def test_another_governor_moves_the_regret(recorded: list[Part]) -> None:
    part, other = recorded
    outcome = own.play(part, other, choices=True)
    assert answers.answers(part, other, outcome) > 0.0


def test_intervals_that_the_tick_ended_stay_and_timers_move_with_theirs(
    recorded: list[Part],
) -> None:
    part = recorded[0]
    cpu = part.cpus[0]
    before = part.kept[cpu][0]
    later = {one: np.full(len(part.kept[one][0]["length_ns"]), 700, np.int64) for one in part.cpus}
    after = answers._moved(part, later).kept[cpu][0]
    grown = after["length_ns"].astype(np.int64) - before["length_ns"].astype(np.int64)
    ticked = before["flags"] & TICKED != 0
    assert set(grown[ticked]) <= {0}
    assert set(grown[~ticked]) <= {0, 700}
    assert (grown[~ticked] == 700).any()
    moved = after["timer_ns"].astype(np.int64) != before["timer_ns"].astype(np.int64)
    assert not (moved & (before["flags"] & TIMER == 0)).any()
