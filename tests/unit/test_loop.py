# SPDX-License-Identifier: GPL-2.0
"""The sign in a recording that its workload answers the governor."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cpuidle_lab.crossval import loop
from cpuidle_lab.crossval.loop import Loop
from cpuidle_lab.crossval.trust import measured
from cpuidle_lab.recording.columns import CUT, TICKED, TIMER

US = 1000


def recording(lengths_us: list[int], flags: list[int]) -> Any:
    """Return a recording of one CPU whose deepest state takes 100 us to leave."""
    chunk = {"length_ns": np.array(lengths_us) * US, "flags": np.array(flags, np.uint8)}
    table = SimpleNamespace(exit_latency_ns=(0, 2 * US, 100 * US))
    return SimpleNamespace(cpus=[0], state_tables={0: table}, intervals=lambda *_: iter([chunk]))


def test_the_weight_is_of_intervals_that_others_ended_beside_the_exit_latency() -> None:
    made = recording([100, 300, 100, 100, 900], [0, 0, TIMER, TICKED, CUT])
    found = Loop.of(made)
    assert found.others == pytest.approx(0.5)
    assert found.weight == pytest.approx((100 / 200 + 100 / 400) / 4)
    assert found.deepest_us == 100
    assert Loop.of(recording([], [])) == Loop(0.0, 0.0, 100.0)


KNOWN = [{"weight": x, "mean": y} for x, y in ((0.1, 2.0), (0.2, 4.0), (0.4, 8.0), (0.5, 10.0))]


def test_the_sentence_says_which_to_believe_and_the_error_to_expect() -> None:
    much, little = (Loop(0.9, weight, 100.0).line(KNOWN) for weight in (0.3, 0.04))
    assert "replay errs by about 6.0 points (+- 0.0)" in much and "believe a clone" in much
    assert "replay is to be believed, and errs by about 0.8 points" in little
    assert Loop(0.9, 0.3, 100.0).line([{"mean": 1.0}] * 9) == ""


def test_the_doubt_is_that_of_workloads_that_the_line_does_not_know() -> None:
    rows = [(0.1, 1.0), (0.2, 2.0), (0.3, 3.0), (0.4, 8.0)]
    alone = abs(loop.trend(rows[:3]) * 0.4 - 8.0)
    assert alone == pytest.approx(4.0)
    assert loop.off(rows) == pytest.approx(
        (sum(abs(loop.trend(rows[:k] + rows[k + 1 :]) * x - y)
             for k, (x, y) in enumerate(rows[:3])) + alone) / 4)  # fmt: skip


def test_the_measured_workloads_are_told_apart() -> None:
    """The figures of docs/crossval.md."""
    rows = [
        (cast(float, one["weight"]), cast(float, one["mean"]))
        for one in measured().values() if "weight" in one
    ]  # fmt: skip
    below = [error for weight, error in rows if weight < loop.ANSWERS]
    above = [error for weight, error in rows if weight >= loop.ANSWERS]
    assert (len(below), len(above)) == (12, 9)
    assert sum(above) / len(above) > 5 * sum(below) / len(below)
    assert round(loop.trend(rows), 1) == 27.9
    assert round(loop.off(rows), 1) == 4.5
