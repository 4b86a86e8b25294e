# SPDX-License-Identifier: GPL-2.0
"""`experiment review`: the verdict of the search against history's, and the rows without mails."""

from pathlib import Path
from typing import Any

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.evidence.tables import MISSED
from cpuidle_lab.review import base as bases
from cpuidle_lab.states import machines
from cpuidle_lab.states.linux_source import NEWEST
from cpuidle_lab.view.terminal import meter
from experiments.cases.case import kernel_is_there
from experiments.experiment import Request
from experiments.memo import Memo
from experiments.review import entry, pairs, row
from experiments.review.hand import Hand
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


needs_sources = pytest.mark.skipif(
    not all(map(kernel_is_there, ("6.12", NEWEST))),
    reason="kernels' sources are not in build/cache",
)


@needs_sources
def test_changes_built_by_hand_differ_from_their_base() -> None:
    for known in KNOWN:
        if known.hand:
            one = row.task(known, [], {})
            name = f"{one.governor}.c"
            assert one.before[name] != one.after[name]
            assert one.by_hand == bool(known.mail)
            assert {*one.before} == {*bases.files_of(known.hand.kernel, {})}


SHORT = {
    "#2 its revert": DETECTED,
    "#9 teo": DETECTED,
    "#10 teo": DETECTED,
    "#14 menu": DETECTED,
    "#22 menu": DETECTED,
    "#28 menu": DETECTED,
    "teo@7.2, teo@7.3": DETECTED,
    "menu@7.2, menu@7.3": DETECTED,
    f"teo@{NEWEST}, a product": DETECTED,
    f"menu@{NEWEST}, a comparison": DETECTED,
}


@needs_sources
@pytest.mark.parametrize(("name", "state"), SHORT.items())
def test_a_short_search_says_of_a_known_change(name: str, state: str) -> None:
    """Streams are counted and drawn by a seed, so the verdict is the same on each machine.

    The tables of drivers and device trees belong to it, and are made if no test has done so.
    """
    assert machines.listed([machines.INTEL_IDLE, machines.DTS])
    (known,) = (one for one in KNOWN if one.name.startswith(name))
    told = row.judge(row.task(known, [], {}), row.Effort(streams=60, periods=20_000))
    assert not told["died"]
    assert rate(known, told) == state


@needs_sources
def test_an_edit_without_a_place_is_refused() -> None:
    lost = Hand(NEWEST, "teo", after=[("no such text", "")])
    with pytest.raises(UserError, match="has no single place"):
        row.task(Known("one", "", (SAME,), hand=lost), [], {})


@needs_sources
def test_without_mails_rows_are_built_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are marked and count apart; a mail without such edits is not judged."""
    judged: list[row.Task] = []

    def judge(one: row.Task, _: row.Effort) -> dict[str, Any]:
        judged.append(one)
        return found(same=True, differ=0)

    named = {one.name.partition(" ")[0]: one for one in KNOWN}
    only = [named["#28"], named["#17"], named["#16"],
            Known("pair", "none", (SAME,), pair=("teo@6.1", "teo@6.1"))]  # fmt: skip
    request = Request(mails=tmp_path / "none", only=["list"])
    monkeypatch.setattr(entry, "KNOWN", only)
    monkeypatch.setattr(entry, "judge", judge)
    monkeypatch.setattr(row, "sources", lambda _: "")
    with Memo(tmp_path / "memo.db") as memo:
        result = entry.EXPERIMENT.measure(request, memo, meter)
    assert [one.judged for one in result.rows] == [DETECTED, NOT_JUDGED, UNJUDGEABLE, DETECTED]
    assert "--mails" in result.rows[1].note and "stand-in" in result.rows[2].note
    assert [one.by_hand for one in judged] == [True, False]
    for said in ("| no change called no change | 1 |", "no change, built by hand | 1 |",
                 f"{only[0].name}, built by hand |", "Rows built by hand: 1."):  # fmt: skip
        assert said in result.page.replace("\n", " ")
    assert "{{" not in result.page.replace("{{command}}", "")


def test_the_number_of_streams_is_checked() -> None:
    with pytest.raises(UserError, match="is no number"):
        entry.EXPERIMENT.refusals(Request(chosen={"streams": "many"}))


def test_the_budget_of_pairs_is_checked() -> None:
    with pytest.raises(UserError, match="is no number of seconds"):
        entry.EXPERIMENT.refusals(Request(chosen={"budget": "long"}))


@needs_sources
def test_pairs_of_versions_count_the_same_sources_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part alone leaves the known changes out of the page."""
    searched: list[tuple[row.Task, row.Effort]] = []

    def judge(one: row.Task, effort: row.Effort) -> dict[str, Any]:
        searched.append((one, effort))
        return found(harm=[WITNESS], streams=1234)

    texts = {"6.1": "old", "6.12": "middle", "7.2": "new", "7.3": "new"}
    monkeypatch.setattr(bases, "files_of", lambda kernel, _: dict.fromkeys(
        ("menu.c", "teo.c"), texts[kernel]))  # fmt: skip
    monkeypatch.setattr(pairs, "judge", judge)
    monkeypatch.setattr(row, "sources", lambda _: "")
    request = Request(only=[pairs.PART], chosen={"budget": "2m"})
    with Memo(tmp_path / "memo.db") as memo:
        result = entry.EXPERIMENT.measure(request, memo, meter)
    words = [one.words for one, _ in searched]
    assert sorted(filter(None, words)) == sorted(
        (f"{name}@{a}", "wteo" if b == "wteo" else f"{name}@{b}")
        for name in ("menu", "teo")
        for a, b in (("6.1", "6.12"), ("6.1", "7.3"), ("6.12", "7.3"), ("7.3", "wteo"))
    )
    assert {effort.seconds for _, effort in searched} == {120} and not result.rows
    page = result.page.replace("\n", " ")
    assert "The sources of menu of 7.2 and 7.3 and of teo of 7.2 and 7.3 are the same" in page
    assert "| teo@6.12, teo@7.3 | exit latency | none | 1 | 1,234 |" in page
    assert "Not measured." in page and "{{" not in page.replace("{{command}}", "")
