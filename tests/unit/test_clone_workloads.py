# SPDX-License-Identifier: GPL-2.0
"""The experiment on clones: which workloads pass, without the lab."""

import contextlib
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuidle_lab.base.errors import FAILURE, USAGE, UserError
from cpuidle_lab.cli import main
from cpuidle_lab.clone import believe, judge, session
from cpuidle_lab.clone.believe import Belief
from cpuidle_lab.clone.program import TICK_NS, Kind, Program, Step, Task
from cpuidle_lab.clone.session import Place
from cpuidle_lab.crossval import own
from cpuidle_lab.lab import LabRun
from tests.proofs.clone import lines as lines_of
from tests.proofs.clone import pieces, run
from tests.unit.test_clone import check, told

# Regrets of the clone under the governor that recorded, and under the other; 50 were recorded.
GOOD, OFF, BAD = (50.0, 51.0), (50.0, 54.0), (50.0, 70.0)


def lines(workload: str, regrets: tuple[float, float]) -> Iterator[lines_of.Line]:
    """Yield the rows of a workload."""
    for source in run.GOVERNORS:
        for governor in run.GOVERNORS:
            regret = regrets[governor != source]
            yield lines_of.Line(workload, source, check(governor, told([regret])), 58.0)


@pytest.fixture
def regrets(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[float, float]]:
    """Return the regrets of clones by workload; the clone of another one is stuck."""
    found: dict[str, tuple[float, float]] = {}

    def judged(workload: str, _place: Place, *_: Any, **__: Any) -> Iterator[lines_of.Line]:
        if workload not in found:
            raise UserError("the clone is stuck")
        return lines(workload, found[workload])

    monkeypatch.setattr(run, "judged", judged)
    return found


@pytest.mark.parametrize("passed", [run.PASS_LEAST, run.PASS_LEAST - 1])
def test_all_workloads_are_counted_past_one_that_fails(
    passed: int, regrets: dict[str, tuple[float, float]], capsys: pytest.CaptureFixture[str]
) -> None:
    names = [*run.EVERY]
    regrets |= dict.fromkeys(names[:passed], GOOD) | dict.fromkeys(names[passed:-1], BAD)
    code = main(["experiment", "clone", "--all"])
    said = capsys.readouterr().out
    assert f"{passed} of {len(names)} workloads pass the gates" in said
    assert f"refused: {names[-1]}: the clone is stuck" in said
    assert "the mean cross error is 1.00 points, that of replay 8.00" in said
    assert (code == FAILURE) == (passed < run.PASS_LEAST)


def test_chosen_workloads_are_named_if_they_do_not_pass(
    regrets: dict[str, tuple[float, float]], capsys: pytest.CaptureFixture[str]
) -> None:
    regrets |= {"redis": GOOD, "idle": BAD}
    assert main(["experiment", "clone", "--all", "--only", "redis"]) == 0
    assert main(["experiment", "clone", "--all", "--only", "redis", "idle", "fio-1"]) == FAILURE
    missed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("missed")]
    assert missed == [f"missed: {name}: does not pass the gates" for name in ("idle", "fio-1")]


def test_the_short_form_has_programs_one_that_is_refused_and_two_regimes(
    regrets: dict[str, tuple[float, float]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    regrets |= dict.fromkeys(run.CASES, GOOD)
    monkeypatch.setattr(run, "not_refused", lambda name, _: [f"{name}: is not refused"])
    monkeypatch.setattr(run, "two_regimes", lambda seed: [f"round is {seed} us"])
    assert main(["experiment", "clone"]) == FAILURE
    said = capsys.readouterr().out.splitlines()
    missed = [line for line in said if line.startswith("missed")]
    assert missed == ["missed: stress-switch: is not refused", "missed: round is 1 us"]
    assert all(sum(line.startswith(f"{name}: ") for line in said) == 4 for name in run.CASES)


def test_a_clone_within_the_gates_may_miss_the_limit_of_another_governor(
    regrets: dict[str, tuple[float, float]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    regrets |= {"redis": GOOD, "idle": OFF}
    words = ["experiment", "clone", "--only", "redis", "idle", "fio-1", "-o", str(tmp_path)]
    assert main(words) == FAILURE
    missed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("missed")]
    assert missed == ["missed: fio-1: the clone is stuck"] + [
        f"missed: idle, clone of {source}: it is +4.0 points off" for source in run.GOVERNORS
    ]
    assert "clone, refused" not in (tmp_path / "clone.svg").read_text()


def test_the_picture_marks_clones_that_are_refused() -> None:
    rows = [*lines("redis", GOOD), *lines("fio-1", BAD)]
    kinds = {line.label: list(line.points) for line in lines_of.plot(rows).lines}
    assert kinds["replay"] == [(50.0, 58.0)] * 4
    assert kinds["clone"] == [(50.0, 51.0)] * 2
    assert kinds["clone, refused"] == [(50.0, 70.0)] * 2


def test_figures_of_other_governors_are_judged_by_the_facts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def row(workload: str, regret: float, off: float) -> lines_of.Line:
        belief = Belief("clone", regret, off, 100.0, 5.0)
        other = check("wteo", told([regret]))
        return lines_of.Line(workload, "teo_ng", other, 58.0, belief, own_regret=40.0)

    good = [row("redis", 51.0, 2.0)] * 20
    assert lines_of.uncertain(good) == []
    assert "20 of 20 hold their uncertainty, which is 2.00 points" in capsys.readouterr().out
    # The second is beyond its uncertainty, and on the other side of the recording's own 40.
    missed = lines_of.uncertain([row("redis", 51.0, 2.0), row("redis", 38.0, 3.5)])
    assert missed == [
        "fewer than 95% hold their uncertainty",
        "the mean uncertainty is above 2.675 points",
        "the sign is right in fewer than 98%",
    ]
    withheld = [*good, *[row("idle", 51.0, 30.0)] * 10]
    assert lines_of.uncertain(withheld) == [
        "fewer than 75% have a figure",
        "of workloads by timers figures are withheld: idle",
    ]
    shown = lines_of.by_workload(withheld).rows
    assert [row[5:7] for row in shown] == [["20 of 20", "20 of 20"], ["0 of 10", ""]]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--all", "--only", "nonsense"], 2, "unknown case 'nonsense'"),
        (["--all", "--only", "redis", "--judge", "nowhere"], 1, "trace.dat: cannot be read"),
        (["--only", "redis", "--judge", "nowhere"], 1, "trace.dat: cannot be read"),
        (["--only", "two-regimes", "--judge", "nowhere"], USAGE, "has no recordings that --judge"),
        (["--pieces"], USAGE, "--pieces needs --judge and the folder"),
        (["--judge", "nowhere", "--pieces"], 1, "nowhere: no clones were kept there"),
        (["--judge", "nowhere", "--pieces", "--only", "redis"], 1, "cannot be read"),
    ],
)
def test_recordings_that_are_not_there_are_one_sentence(
    words: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "clone", *words]) == code
    said = capsys.readouterr()
    assert sentence in said.out + said.err
    assert "+--" not in said.out


def test_clones_of_kept_recordings_replace_no_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["experiment", "clone", "--all", "--kept", str(tmp_path), "-o", f"{tmp_path}/."]
    assert main(words) == USAGE
    assert "would replace" in capsys.readouterr().err


def test_pieces_of_clones_are_compared_with_the_recorded_ones() -> None:
    def of(*names: str, lengths: tuple[int, int]) -> Program:
        tasks = [Task(name, steps=[Step(Kind.SLEEP, 5), Step(Kind.RUN, length)] * 20)
                 for name, length in zip(names, lengths, strict=True)]  # fmt: skip
        return Program("x", "menu", 1, 0, tasks)

    recorded = of("a", "b", lengths=(5000, 9000))
    again = [of("c0", "c1", lengths=(5500, 6000)) for _ in range(3)]
    row = pieces._row([(recorded, again)])
    assert row == [40, 0.0, 1.75, "b", "sleep and sleep", 9.0, 6.0]
    # Tasks with few pieces have no usual length.
    few = Program("x", "menu", 1, 0, [Task("a", steps=[Step(Kind.SLEEP, 5), Step(Kind.RUN, 1)])])
    assert pieces._row([(few, [few])])[0] == 0


def test_each_boot_begins_with_a_run_that_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts: list[Any] = []

    def boots(boot: LabRun, folder: Path, _title: str) -> SimpleNamespace:
        scripts.append(re.findall(r"^afresh (\w+)\nphase (\S+) .*usleep (\d+);", boot.script, re.M))
        return SimpleNamespace(check=lambda: SimpleNamespace(files=folder))

    monkeypatch.setattr(run, "run_lab", boots)
    traces = run.record("redis", Place("power9"), tmp_path, run.CHECKED)
    assert traces == run.kept(tmp_path, "redis")
    forth, back = ("teo_ng", "menu_ng"), ("menu_ng", "teo_ng")
    turns = [forth, back, forth, back, forth]
    assert scripts == [
        [(governor, name, wait) for governor, name in zip(
            (turn[-1], *turn), ("warm", "redis", "redis"), strict=True)]
        for turn, wait in zip(turns, ("1000", "2300", "3600", "1650", "2950"), strict=True)
    ]  # fmt: skip
    # Of five governors each one comes at each place once.
    del scripts[:]
    run.record("redis", Place("power9"), tmp_path, run.PREDICTED)
    labels = [[line[0] for line in script[1:]] for script in scripts]
    assert all(sorted(turn) == sorted(labels[0]) for turn in zip(*labels, strict=True))

    def part(workload: str, regime: str) -> SimpleNamespace:
        return SimpleNamespace(workload=workload, regime=regime)

    monkeypatch.setattr(run, "opened", contextlib.nullcontext)
    monkeypatch.setattr(
        run, "parts", lambda *_: [part("warm", "menu_ng"), part("redis", "menu_ng")]
    )
    assert run.by_regime(traces) == {"menu_ng": [part("redis", "menu_ng")] * 5}


def test_clones_that_were_not_played_under_all_governors_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "by_regime", lambda _: {"teo_ng": [], "wteo": []})
    monkeypatch.setattr(session, "by_clone", lambda _: [{"teo_ng": []}] * 2)
    assert main(["experiment", "clone", "--all", "--only", "redis", "--judge", "kept"]) == FAILURE
    assert "no clone was played under wteo; play it with --all" in capsys.readouterr().out


def test_recordings_under_which_no_clone_was_played_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one: Any = [SimpleNamespace()]
    kept = dict.fromkeys((*run.GOVERNORS, "menu@6.12"), one)
    wanted: list[list[str]] = []

    def verdict(_source: str, real: dict[str, Any], played: dict[str, Any]) -> SimpleNamespace:
        return SimpleNamespace(checks=[check(label, told([50.0])) for label in real], clones=played)

    def believed(*args: Any) -> dict[str, Any]:
        wanted.append(args[-1])
        return {}

    monkeypatch.setattr(judge, "verdict", verdict)
    monkeypatch.setattr(judge, "Told", lambda _: told([50.0]))
    monkeypatch.setattr(own, "play", lambda *_, **__: SimpleNamespace(regret=50.0))
    monkeypatch.setattr(believe, "believed", believed)
    rows = [*run.rows("redis", kept, [dict.fromkeys(run.GOVERNORS, one)] * 2)]
    assert [line.check.regime for line in rows] == [*run.GOVERNORS] * 2
    assert wanted == [[], []]


def test_clones_of_the_rebuilt_boots_reach_all_places_of_a_tick() -> None:
    shifts = enumerate(session.SHIFTS_NS)
    waits = [1000 * run._WAITS_US[boot] for boot in run._REBUILT]
    assert len(waits) == session.REBUILT_MOST
    places = sorted((waits[turn % len(waits)] + shift) % TICK_NS for turn, shift in shifts)
    steps = [after - before for before, after in pairwise([*places, places[0] + TICK_NS])]
    assert max(steps) < 1.2 * TICK_NS / len(places)
