# SPDX-License-Identifier: GPL-2.0
"""Damaged recordings through the commands: no wrong figure, no traceback, and each is seen."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from cpuidle_lab.compare import model as model_of_compare
from cpuidle_lab.replay import fidelity
from cpuidle_lab.report import export, model
from tests import long
from tests.campaigns.fuzz import recordings


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(recordings, "KEPT", tmp_path / "kept")
    return tmp_path / "kept"


def run(seed: int, numbers: Sequence[int]) -> tuple[Counter[str], int]:
    return recordings.run(seed, numbers, lambda _number: None)


def test_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fidelity, "ProcessPoolExecutor", None)  # no input starts a process
    came, findings = run(7, range(60))
    assert not findings
    assert sum(came.values()) == 60
    assert {word.rpartition(": ")[2] for word in came} >= {"figures", "refused"}


@pytest.mark.full
def test_nothing_is_found_with_the_seed_of_the_day() -> None:
    assert not run(long.day_seed(), range(300))[1]


def negative(build: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    def changed(*words: Any) -> dict[str, Any]:
        found = build(*words)
        for one in found["runs"]:
            one["metrics"]["regret"] = -1.0
        return found

    return changed


def unequal(build: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    def changed(*words: Any) -> dict[str, Any]:
        found = build(*words)
        for one in found["runs"]:
            one["states"][0]["entries"] += 1
        return found

    return changed


def infinite(build: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    def changed(*words: Any) -> dict[str, Any]:
        return build(*words) | {"x": float("inf")}

    return changed


# The first inputs of the seed that `report` shows figures of.
REPORTED = [0, 1]


@pytest.mark.parametrize("fault", [negative, unequal, infinite])
def test_a_wrong_figure_is_found(
    fault: Any, kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(export, "as_json", fault(export.as_json))
    _, findings = run(7, REPORTED)
    assert findings == len(REPORTED)
    assert sorted(path.name for path in kept.iterdir()) == [f"7-{number}" for number in REPORTED]
    assert "report of " in capsys.readouterr().out


def test_a_traceback_is_found(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_words: Any, **_more: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(model, "build", broken)
    assert run(7, REPORTED)[1] == len(REPORTED)
    assert "ZeroDivisionError" in capsys.readouterr().out


@pytest.mark.parametrize(
    "said",
    [
        "", "Traceback", "cpuidle-lab: error: a\x1b[31mb", "cpuidle-lab: error: /tmp/x: is damaged",
    ],
)  # fmt: skip
def test_what_is_no_sentence_is_found(said: str, tmp_path: Path) -> None:
    with pytest.raises(recordings.Finding):
        recordings.judge("report", 1, "", said, tmp_path)


@pytest.mark.parametrize(
    ("kind", "withheld", "is_found"),
    [("recorded", [], True), ("recorded", ["request"], False), ("project", ["request"], True)],
)
def test_less_power_than_the_oracle_is_found(
    kind: str, withheld: list[str], is_found: bool
) -> None:
    """But for a recorder in states that the latency request no longer allowed."""
    metrics = {"power_mw": 2.0, "regret": None, "intervals": 1, "decisions_per_interval": 1}
    rows = [
        {"trace": "a", "governor": name, "kind": of, "broken": [], "reasons": {"x": 1},
         "chosen_ideal": [[1]], "metrics": metrics | {"power_mw": power}}
        for name, of, power in (("oracle", "limit", 2.0), ("x", kind, 1.9))
    ]  # fmt: skip
    found = {"traces": [{"trace": "a", "intervals": 1, "withheld": withheld}], "results": rows}
    if is_found:
        with pytest.raises(recordings.Finding, match="less power than the oracle"):
            recordings.judge_compare(found)
    else:
        recordings.judge_compare(found)


def test_a_crash_is_found_and_the_campaign_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    parts: list[int] = []

    def process(words: list[str], check: bool) -> CompletedProcess[str]:
        first = int(words[words.index("--first") + 1])
        parts.append(first)
        told = {"at": first + 3, "came": {"x": 3}, "findings": 0, "complete": len(parts) > 1}
        Path(words[words.index("--result") + 1]).write_text(json.dumps(told))
        return CompletedProcess(words, -11)

    monkeypatch.setattr("subprocess.run", process)
    assert recordings.campaign(7, 100, 8) == 1
    assert parts == [100, 104]
    assert "input 103 of seed 7: the process ended with -11" in capfd.readouterr().out


def test_a_campaign_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "command", lambda _words: 143)
    with pytest.raises(SystemExit, match="143"):
        run(7, range(3))
    monkeypatch.setattr("subprocess.run", lambda words, check: CompletedProcess(words, 143))
    assert recordings.campaign(7, 0, 3) == 143


def test_replay_is_in_a_process_of_its_own_again() -> None:
    apart = fidelity.Apart
    with recordings.one_process():
        assert vars(fidelity)["Apart"] is vars(model_of_compare)["Apart"] is not apart
    assert vars(fidelity)["Apart"] is vars(model_of_compare)["Apart"] is apart
