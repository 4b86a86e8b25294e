# SPDX-License-Identifier: GPL-2.0
"""`experiment review`: the verdict of the search against history's, and the rows without mails."""

from pathlib import Path
from typing import Any

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.evidence.tables import MISSED
from cpuidle_lab.review import base as bases
from cpuidle_lab.states.linux_source import NEWEST
from cpuidle_lab.view.terminal import meter
from experiments.cases.case import kernel_is_there
from experiments.experiment import Request
from experiments.memo import Memo
from experiments.review import entry, row
from experiments.review.known import GOOD, KNOWN, OPEN, SAME, Known
from experiments.review.rating import DETECTED, NOT_JUDGED, PARTLY, UNJUDGEABLE, rate

FIGURES = {"regret": 10.0, "power_mw": 100.0, "latency_us": 50.0, "p99_us": 1.0,
           "ticks_per_s": 5.0, "shallowest": 10.0}  # fmt: skip
LATER = {**FIGURES, "latency_us": 80.0}
SPEC = {"tick_hz": 250, "states": [["C1", 1, 1], ["C6", 100, 500]],
        "phases": [{"count": 3, "wake_us": 20}]}  # fmt: skip
WITNESS = {"objective": "exit latency", "before": FIGURES, "after": LATER, "spec": SPEC}

TURNED = {**WITNESS, "before": LATER, "after": FIGURES}


def found(**changes: Any) -> dict[str, Any]:
    """Return what a review says that finds nothing."""
    return {"same": False, "harm": [], "gain": [], "died": "", "periods": 1000, "differ": 10,
            "streams": 9, "counterexample": SPEC, **changes}  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "told", "state"),
    [
        (("exit latency",), found(harm=[WITNESS]), DETECTED),
        (("power",), found(harm=[{**WITNESS, "objective": "power"}]), MISSED),
        (("exit latency",), found(harm=[{**WITNESS, "after": FIGURES}]), MISSED),
        (("shallow",), found(harm=[WITNESS]), PARTLY),
        (("shallow",), found(), MISSED),
        (("shallow",), found(same=True), MISSED),
        ((GOOD,), found(), DETECTED),
        ((GOOD,), found(harm=[WITNESS], gain=[TURNED]), PARTLY),
        ((GOOD,), found(harm=[WITNESS], gain=[WITNESS]), MISSED),
        ((GOOD,), found(harm=[WITNESS]), MISSED),
        ((SAME,), found(same=True), DETECTED),
        ((SAME,), found(), MISSED),
        ((OPEN,), found(harm=[WITNESS]), UNJUDGEABLE),
    ],
)
def test_rating(wanted: tuple[str, ...], told: dict[str, Any], state: str) -> None:
    assert rate(Known("one", "", wanted), told) == state


@pytest.mark.skipif(not kernel_is_there(NEWEST), reason=f"no sources of {NEWEST} in build/cache")
def test_the_edits_of_ours_have_one_place() -> None:
    for known in KNOWN:
        if known.edit:
            one = row.task(known, [], {})
            assert one.before[f"{one.governor}.c"] != one.after[f"{one.governor}.c"]
            assert one.before == bases.files_of(known.edit[0], {})


def test_without_mails_a_row_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[row.Task] = []

    def judge(one: row.Task, _: int) -> dict[str, Any]:
        judged.append(one)
        return found(same=True, differ=0)

    only = [KNOWN[0], KNOWN[15], Known("pair", "none", (SAME,), pair=("teo@6.1", "teo@6.1"))]
    monkeypatch.setattr(entry, "KNOWN", only)
    monkeypatch.setattr(entry, "judge", judge)
    monkeypatch.setattr(row, "sources", lambda _: "")
    with Memo(tmp_path / "memo.db") as memo:
        result = entry.EXPERIMENT.measure(Request(mails=tmp_path / "none"), memo, meter)
    assert [one.judged for one in result.rows] == [NOT_JUDGED, UNJUDGEABLE, DETECTED]
    assert "--mails" in result.rows[0].note and "stand-in" in result.rows[1].note
    assert len(judged) == 1 and "{{" not in result.page.replace("{{command}}", "")


def test_the_number_of_streams_is_checked() -> None:
    with pytest.raises(UserError, match="is no number"):
        entry.EXPERIMENT.refusals(Request(chosen={"streams": "many"}))
