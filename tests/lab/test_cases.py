# SPDX-License-Identifier: GPL-2.0
"""A case in the lab: its intervals happen, and its figures are those of replay."""

from dataclasses import replace
from pathlib import Path

import pytest

from cpuidle_lab.crossval.parts import parts
from cpuidle_lab.lab import run_lab
from cpuidle_lab.lab.session import TRACE
from cpuidle_lab.recording import columns
from cpuidle_lab.view.terminal import meter
from experiments.cases import figures, lab
from experiments.cases.case import FOLDER, Case, play_cells
from experiments.memo import Memo


def test_the_lab_does_what_replay_predicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "COUNT", 1500)
    case = Case(FOLDER / "spin-then-sleep.yaml").described
    cells = [one for one in case.cells if one.governor == "wteo" and one.latency_req_us != 0]
    case = replace(case, cells=tuple(cells))
    (boot,) = lab.plan(case, 1)
    result = run_lab(boot.run, tmp_path / "results").check()
    told = {name: figures.Played(**one) for name, one in boot.read(result).items()}
    plain, hinted = told["cell0-1"], told["cell1-1"]
    assert 1490 <= plain.intervals <= 1520
    trace = result.files / TRACE
    with columns.opened(trace) as recording:
        found = {part.workload: part for part in parts(recording, trace, hints=True)}
    assert set(found) == set(told)

    # The sleeper and its waker lose some us on the way into idle and out of it.
    planned = [
        int(line.split()[0]) for line in lab.stream_text(case, cells[0].stream, 1).splitlines()
    ]
    lasted = found["cell0-1"].kept[lab.CPU][0]["length_ns"]
    middle = sorted(planned)[len(planned) // 2]
    assert sorted(lasted)[len(lasted) // 2] == pytest.approx(middle, rel=0.15)

    with Memo(tmp_path / "memo.db") as memo:
        replayed = play_cells(case, cells, 1, memo, meter)[0]
    assert not isinstance(replayed, str)
    waiting = [
        figures.value(case.figure, one, case.machine) for one in (replayed[0], plain, hinted)
    ]
    assert waiting[1] == pytest.approx(waiting[0], rel=0.35)
    # 400,000 times the 2 us of C1E.
    assert waiting[2] == pytest.approx(0.8, abs=0.1)


def test_a_kernels_own_fault_happens_in_the_lab(tmp_path: Path) -> None:
    case = Case(FOLDER / "teo-livelock.yaml").described
    wanted = ("teo@6.1", "teo@6.12")
    cells = [one for one in case.cells if one.governor in wanted and not one.machine]
    case = replace(case, cells=tuple(cells))
    (boot,) = lab.plan(case, 1)
    told = boot.read(run_lab(boot.run, tmp_path / "results").check())
    shares = [
        figures.value(case.figure, figures.Played(**told[f"cell{n}-1"]), case.machine)
        for n in range(len(wanted))
    ]
    assert [one.governor for one in case.cells] == list(wanted)
    # The share of the time in WFI; 6.12 never leaves it.
    assert shares[0] < 5 and shares[1] > 95


# Governors of kernels whose figure in the lab is that of replay, by case.
ALIKE = {"cede": ("menu@6.1", "menu@6.12", "teo@6.1"), "teo-lookup": ("teo@6.12",)}


@pytest.mark.parametrize("name", ["cede", pytest.param("teo-lookup", marks=pytest.mark.full)])
def test_the_lab_comes_to_what_replay_is_expected_to(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "COUNT", 600)
    case = Case(FOLDER / f"{name}.yaml").described
    first = next(iter(case.streams))
    cells = [one for one in case.cells if one.governor in ALIKE[name] and one.stream == first]
    case = replace(case, cells=tuple(cells))
    (boot,) = lab.plan(case, 1)
    told = boot.read(run_lab(boot.run, tmp_path / "results").check())
    for number, cell in enumerate(cells):
        assert cell.expect
        played = figures.Played(**told[f"cell{number}-1"])
        # Points, for a third of the intervals.
        least, most = cell.expect[0] - 5, cell.expect[1] + 5
        assert least <= figures.value(case.figure, played, case.machine) <= most, cell.governor
