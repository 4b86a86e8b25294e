# SPDX-License-Identifier: GPL-2.0
"""Choice between replay and clone, and the uncertainty of its figure."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.clone import believe, events, judge
from cpuidle_lab.commands import clone as command
from tests.unit.test_clone import check, told

# Regrets by governor: as recorded, and as replay of the other's recording predicts them.
FACTS = {"teo_ng": 50.0, "menu_ng": 30.0}


def figures(regret: float) -> Any:
    """Return figures of a regret."""
    return SimpleNamespace(regret=regret, power_mw=100.0, p99_us=5.0)


def part(label: str, request_us: int | None, judged: int) -> Any:
    """Return a phase without rows."""
    return SimpleNamespace(label=label, request_us=request_us, judged=judged)


def beliefs(
    monkeypatch: pytest.MonkeyPatch,
    off: float,
    clone: float,
    *,
    only: Sequence[str] = tuple(FACTS),
    answers: float = 0.0,
    request_us: int | None = None,
    judged: int = 900,
) -> believe.Belief:
    """Return the belief in wteo, where replay errs by `off`, and the clone by `clone`."""

    def replayed(parts: Sequence[Any], other: Any) -> list[Any]:
        return [figures(FACTS.get(other.label, 20.0) + off) for _ in parts]

    monkeypatch.setattr(believe, "_replayed", replayed)
    monkeypatch.setattr(believe, "_answers", lambda _parts, _other: answers)
    monkeypatch.setattr(believe, "Told", lambda parts: told([FACTS[parts[0].label]] * 2))
    real = {label: [part(label, request_us, judged)] * 2 for label in only}
    checks = [check(label, told([50.0 + clone])) for label in only]
    wteo = told([21.0], spread=0.5, parts=[part("wteo", None, 900)], figures=[figures(21.0)])
    found = judge.Verdict(checks, {"wteo": wteo})
    return believe.believed("teo_ng", real, found, ["wteo"])["wteo"]


@pytest.mark.parametrize(
    ("off", "clone", "by", "may"),
    [(1.0, 3.0, "replay", 2.0), (6.0, 3.0, "clone", 4.5), (6.0, 7.0, "replay", 7.0)],
)
def test_the_way_is_taken_that_may_be_off_by_less(
    monkeypatch: pytest.MonkeyPatch, off: float, clone: float, by: str, may: float
) -> None:
    found = beliefs(monkeypatch, off, clone)
    assert found.by == by
    assert found.off == pytest.approx(may)
    assert found.regret == pytest.approx(20.0 + off if by == "replay" else 21.0)
    assert not found.withheld


def test_a_figure_that_may_be_far_off_is_withheld_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = beliefs(monkeypatch, 30.0, 30.0)
    assert found.withheld
    assert command._reason(found) == "one may be 31.0 points off by replay, more than 10"
    # The intervals answer a governor with other exit latencies than both that recorded.
    assert beliefs(monkeypatch, 1.0, 30.0, answers=8.0).off == pytest.approx(9.0)
    alone = beliefs(monkeypatch, 0.0, 0.0, only=["teo_ng"])
    assert alone.withheld
    assert "no other recording" in command._reason(alone)
    # A governor without a figure does not vanish from the JSON; infinity is none there.
    for belief, off in ((found, 31.0), (alone, None)):
        shown: Any = command._as_json(SimpleNamespace(why="", checks=[]), {"wteo": belief}, [])  # type: ignore[arg-type]
        assert shown["figures"] == {}
        assert shown["withheld"] == {"wteo": off}


def test_replay_of_a_bounded_recorder_or_of_few_intervals_has_no_figure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The recorders held a latency request, and wteo does not.
    assert beliefs(monkeypatch, 1.0, 3.0, request_us=2).by == "clone"
    assert beliefs(monkeypatch, 1.0, 30.0, request_us=2).withheld
    assert beliefs(monkeypatch, 1.0, 30.0, judged=30).withheld


def test_recordings_alike_are_rebuilt_as_far_as_they_can_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def phase(name: str, governor: str = "teo_ng", request_us: int | None = None) -> Any:
        return SimpleNamespace(name=name, workload="redis", governor=governor,
                               request_us=request_us)  # fmt: skip

    files = {
        "a": [phase("other", "menu_ng"), phase("first"), phase("again")],
        "b": [phase("quick", request_us=2), phase("next")],
        "c": [phase("fourth")],
    }

    def read(path: Path) -> list[Any]:
        if str(path) not in files:
            raise UserError(f"{path}: has no event sched_switch")
        return files[str(path)]

    monkeypatch.setattr(events, "read", read)
    monkeypatch.setattr(events, "phases", lambda found, _: found)
    others = [Path(name) for name in ("bare", "b", "c")]
    found, notes = command._alike(files["a"][1], files["a"], Path("a"), others)
    told_of = [(one.name, str(path)) for one, path in found]  # type: ignore[attr-defined]
    assert told_of == [("first", "a"), ("again", "a"), ("next", "b")]
    assert notes == [
        "one recording is not rebuilt, and checks the clone alone: bare: has no event sched_switch"
    ]
