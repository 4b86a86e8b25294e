# SPDX-License-Identifier: GPL-2.0
"""The judgement of recordings of interrupts: coverage, orders, and phases."""

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.figures.told import DRAWN, FAR, Doubt, Told
from cpuidle_lab.recording import columns
from cpuidle_lab.recording.phases import Phase
from tests.proofs.stock import ranges
from tests.unit.interrupts import Arm, write
from tests.unit.kernel_events import MS

Spans = dict[str, tuple[float, float]]


def row(facts: dict[str, float], spans: Spans) -> ranges.Row:
    doubts = dict.fromkeys(spans, Doubt())
    return ranges.Row(
        "interrupts", "6.12.9", 1, "idle", "teo", facts=facts, ranges=spans, doubts=doubts
    )


@pytest.mark.parametrize(
    ("facts", "spans", "met"),
    [
        ({"menu": 10, "teo": 20}, {"menu": (9, 11), "teo": (18, 22)}, [True, True, True]),
        ({"menu": 30, "teo": 20}, {"menu": (9, 11), "teo": (18, 22)}, [False, False, True]),
        ({"menu": 10, "teo": 20}, {"menu": (9, 19), "teo": (18, 22)}, [True, True, False]),
        # Nearer than they need to be told.
        ({"menu": 18, "teo": 20}, {"menu": (9, 19), "teo": (18, 22)}, [True, True, False]),
        # The margin holds the facts, and no order is told by it.
        ({"menu": 11, "teo": 12}, {"menu": (12.4, 12.4), "teo": (11, 11)}, [True, True, False]),
    ],
)
def test_targets_of_ranges(facts: dict[str, float], spans: Spans, met: list[bool]) -> None:
    found = [held for held, _ in ranges.targets([row(facts, spans)])]
    assert found[:2] == met[:2]
    far = abs(facts["menu"] - facts["teo"]) > ranges.APART
    assert not far or found[2] == met[2]


def test_a_phase_of_a_told_recording_is_replayed_alone(tmp_path: Path) -> None:
    cpu = Arm()
    cpu.learn()
    middle = cpu.now
    for n in range(50):
        (cpu.timer if n % 2 else cpu.device)(300_000 + 1000 * n)
    with columns.opened(write(tmp_path / "a.dat", cpu)) as recording:
        parts = [
            ranges.Slice(Told(recording, way), Phase("teo", "idle", middle, cpu.now + MS))
            for way in (DRAWN, FAR)
        ]
        assert [part.rows("interval", 0) for part in parts] == [50, 50]
        outcomes, chosen = zip(*(ranges._frame(part, "wteo") for part in parts), strict=True)
        doubt = ranges._doubt(outcomes[0], 3000, 0.5)
        costs = ranges._recorded_costs(recording)
    assert all((outcome.regret or 0.0) >= 0 for outcome in outcomes)
    assert doubt.error == 0.5 and doubt.spread > 0 and 0 < doubt.begins < 100
    # An oracle loses nothing, and what was recorded may.
    assert costs["cost"].sum() >= costs["least"].sum() > 0
    assert costs.height == chosen[0].height + 60
    assert all(frame["ts"].min() >= middle for frame in chosen)
    assert ranges._alike(chosen[0], chosen[0], 0) == 1.0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda frame: frame.head(20), "have other rows"),
        (lambda frame: frame.with_columns(drawn_ns=pl.lit(-(2**63))), "an impossible drawn_ns"),
        (lambda frame: frame.reverse(), "runs backwards in start_ns"),
    ],
)
def test_sleep_lengths_of_other_intervals_are_refused(
    change: Callable[[pl.DataFrame], pl.DataFrame], reason: str, tmp_path: Path
) -> None:
    cpu = Arm()
    cpu.learn()
    for n in range(50):
        cpu.device(300_000 + 1000 * n)
    folder = tmp_path / "a.columns"
    columns.write(write(tmp_path / "a.dat", cpu), folder)
    place = folder / "sleep/00000.parquet"
    changed = change(pl.read_parquet(place))
    changed.write_parquet(place)
    meta = json.loads((folder / "meta.json").read_text())
    meta["parts"]["sleep"][0][1] = changed.height
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(UserError, match=reason):
        list(Told(columns.Recording(folder), DRAWN).intervals(0, ["timer_ns", "flags"]))
