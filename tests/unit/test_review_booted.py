# SPDX-License-Identifier: GPL-2.0
"""`review --lab`: which figures differ, how they are told, and what is booted."""

import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.lab import LabRun, turns
from cpuidle_lab.review import booted, cases, listed, mail
from cpuidle_lab.review.booted import LabChange
from cpuidle_lab.review.result import EXIT_WORSE
from cpuidle_lab.states.linux_source import NEWEST
from experiments.cases import schema
from experiments.cases.case import FOLDER, with_governors
from tests.unit.reviewing import SPEC, cell, judged, needs_sources


def change(figure: str, before: tuple[float, ...], after: tuple[float, ...]) -> LabChange:
    """Return a figure of a program."""
    return LabChange("redis", figure, before, after)


@pytest.mark.parametrize(
    ("figure", "before", "after", "differs", "worse"),
    [
        ("energy", (10, 11, 12), (13, 14, 15), True, True),
        ("energy", (13, 14, 15), (10, 11, 12), True, False),
        ("work", (10, 11, 12), (13, 14, 15), True, False),
        ("work", (13, 14, 15), (10, 11, 12), True, True),
        ("energy", (10, 11, 13), (13, 14, 15), False, False),
        ("energy", (1000, 1000, 1000), (1001, 1001, 1001), False, False),
        ("regret", (0, 0, 0), (4, 4, 4), True, True),
    ],
)
def test_differences_beyond_the_spread(
    figure: str, before: tuple[float, ...], after: tuple[float, ...], differs: bool, worse: bool
) -> None:
    found = change(figure, before, after)
    assert (found.differs, found.worse) == (differs, worse)


@pytest.mark.parametrize(
    ("figures", "verdict", "code"),
    [
        ([("energy", (10, 11), (20, 21))], "worse", EXIT_WORSE),
        ([("energy", (20, 21), (10, 11))], "better", 0),
        ([("energy", (20, 21), (10, 11)), ("work", (9, 9), (5, 5))], "mixed", EXIT_WORSE),
        ([("energy", (20, 21), (20, 21))], "same", 0),
    ],
)
def test_the_lab_has_a_say(figures: list[tuple[Any, ...]], verdict: str, code: int) -> None:
    found = judged(lab=[change(*one) for one in figures])
    assert (found.verdict, found.exit_code) == (verdict, code)
    assert [one["program"] for one in found.as_json()["lab"]] == ["redis"] * len(figures)


def test_the_mail_tells_what_differs() -> None:
    names = ("regret", "power_mw", "latency_us", "ticks_per_s")
    figures = {side: dict.fromkeys(names, 1.0) for side in ("before", "after")}
    harm = {"real": ["skx", 0.0], "spec": SPEC, "objective": "power", **figures}
    found = judged(lab=[change("energy", (10, 11), (20, 21)), change("work", (5, 5), (5, 5))],
                   played={"harm-1": {"teo@7.3": "403 mW", "teo@patched": "744 mW"}},
                   harm=[harm])  # fmt: skip
    text = mail.text_of([found], "cpuidle-lab review")
    assert "1 of 2 figures of 1 programs differ" in text
    assert "worse energy redis" in text and "work redis" not in text
    assert "in the lab: 403 mW -> 744 mW" in text
    assert max(map(len, text.splitlines())) <= mail.WIDTH


def test_a_long_mail_keeps_each_part() -> None:
    """It gives up witnesses of gain and lines of lists, and no part."""
    names = ("regret", "power_mw", "latency_us", "ticks_per_s")
    figures = {side: dict.fromkeys(names, 1.0) for side in ("before", "after")}
    witness = {"real": ["skx", 9.0], "spec": SPEC, "objective": "power", **figures}
    cells = [cell((10.0 + n, 11.0), (20.0 + n, 30.0)) for n in range(20)]
    cells += [cell((20.0 + n, 30.0), (10.0 + n, 11.0)) for n in range(20)]
    found = judged(cells=cells, harm=[witness] * 3, gain=[witness] * 3,
                   lab=[change("energy", (10, 11), (20, 21))] * 20,
                   listed=listed.pairs(rows(("a", 99.9), ("b", 0.5)), ("a", "b")) * 20,
                   contract=[{"rule": "r", "held": False, "held_before": True, "why": "w"}] * 3,
                   checkers=["new: x"] * 4)  # fmt: skip
    text = mail.text_of([found], "cpuidle-lab review")
    for part in ("Contract", "Worse", "Better", "Harm", "In the lab", "The list's cases", "Cost"):
        assert f"\n{part}" in text
    assert len(text.splitlines()) <= mail.LINES and "have the rest" not in text


def run_of(governor: str, seed: int, **values: Any) -> turns.ProgramRun:
    """Return a run of a program."""
    usual = {"regret": 5.0, "energy_mj": 8.0, "seconds": 1.0, "throughput": 2.0, "amount": 4.0,
             "p99_us": 10.0}  # fmt: skip
    return turns.ProgramRun("redis", "skx", governor, seed, **{**usual, **values})


def test_figures_that_a_run_lacks_are_left_out() -> None:
    runs = [run_of("0", 1), run_of("0", 2, regret=None), run_of("1", 1), run_of("1", 2)]
    found = booted.changes_of("redis", ("0", "1"), runs)
    assert [one.figure for one in found] == ["energy", "work", "p99"]
    # Energy counts for what got done.
    assert found[0].before == (2.0, 2.0)


def test_latencies_of_the_program() -> None:
    (wakes,) = (one for one in booted.PROGRAMS if one.latency)
    assert wakes.tail("\n".join(str(1000 * n) for n in range(1, 201))) == 199
    assert wakes.tail("") is None
    assert turns.PROGRAMS[0].tail("1000") is None


@needs_sources
def test_both_governors_are_modules_of_one_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[LabRun] = []

    def boot(
        program: turns.JudgedProgram, each: list[turns.Turn], run: LabRun
    ) -> list[turns.ProgramRun]:
        runs.append(run)
        return [run_of(one.label, 1) for one in each]

    monkeypatch.setattr(turns, "boot", boot)
    wakes = booted.PROGRAMS[-1]
    pair = f"teo@{NEWEST}", "wteo:latency_bias=7"
    found = booted.play_programs(pair, pair, lambda _: None, [wakes], turns.Size(3, 1))
    (run,) = runs
    script = run.script.splitlines()
    assert len(found) == 4 and run.kernel == NEWEST
    assert [line for line in script if line.startswith("load")][2:] == ["load cpuidle_teo_7_3"]
    assert script.count("tune gate base wteo") == script.count(f"tune gate base teo@{NEWEST}") == 3
    assert "tune wteo latency_bias 7" in script
    assert any(path.endswith("wakebench") for path in run.files)


def test_what_no_module_has_is_refused_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["review", "wteo@HEAD", "wteo", "--lab", "--budget", "1s"]) == 1
    assert "wteo@HEAD: no module has it" in capsys.readouterr().err


def test_kernels() -> None:
    assert booted.kernel_of(["teo@6.12", "teo@7.2"]) == "7.2"
    # 6.1 has one CPU in virtual time.
    assert booted.kernel_of(["teo@6.1", "wteo"]) == booted.kernel_of(["teo@/a", "wteo"]) == NEWEST


def test_a_case_is_played_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [{"what": "teo@7.3", "median": 1.0, "unit": "mW"},
            {"what": "teo@7.3, in the lab", "median": 403.21, "unit": "mW"},
            {"what": "wteo, in the lab", "median": None, "unit": "mW"}]  # fmt: skip
    said = SimpleNamespace(stdout=json.dumps([{"rows": told}]), stderr="", returncode=0)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: said)
    assert booted.play_case(Path("a.yaml"), [("patched", Path("/x"))]) == {"teo@7.3": "403 mW"}
    said.stdout, said.stderr = "", "cpuidle-lab: error: no room"
    with pytest.raises(UserError, match="no room"):
        booted.play_case(Path("a.yaml"), [])


def test_a_case_shows_what_the_search_looked_for() -> None:
    case = schema.parse(cases.case(SPEC, "A title", "Why?", ["teo@7.2"], "exit latency"), "one")
    assert case.figure.kind == "latency" and len(case.also) == 3


# ---- The list's cases ----


def rows(*told: tuple[str, float | None]) -> dict[str, Any]:
    """Return a case as `experiment --json` prints it."""
    return {"name": "cede", "rows": [{"what": what, "median": value, "unit": "%"}
                                     for what, value in told]}  # fmt: skip


def test_figures_of_a_case_are_paired() -> None:
    told = rows(("teo@7.3, 30 us", 100.0), ("wteo, 30 us", 1.0), ("wteo, 30 us, in the lab", 7.0),
                ("teo@7.3", 5.0), ("wteo", 5.01), ("teo@7.3, Genoa", 5.0), ("wteo, Genoa", None),
                )  # fmt: skip
    first, second = listed.pairs(told, ("teo@7.3", "wteo"))
    assert (first.where, first.before, first.after, first.differs) == ("30 us", 100.0, 1.0, True)
    assert (second.where, second.differs) == ("", False)


def test_the_mail_tells_the_cases_that_change() -> None:
    changes = listed.pairs(rows(("a", 99.9), ("b", 0.5)), ("a", "b"))
    text = mail.text_of([judged(listed=changes)], "cpuidle-lab review")
    assert "1 of 1 figures change" in text and "cede: 99.9 -> 0.5 %" in text


def test_a_case_takes_other_governors() -> None:
    described = schema.read(FOLDER / "teo-shallow-stop.yaml")
    found = with_governors(described, ["teo@7.3", "wteo"])
    assert {cell.governor for cell in found.cells} == {"teo@7.3", "wteo"}
    assert len({cell.label for cell in found.cells}) == len(found.cells) >= 4
    assert not any(cell.expect or cell.agrees or cell.reported for cell in found.cells)
    assert {cell.machine for cell in found.cells} == {cell.machine for cell in described.cells}


def test_the_choice_is_for_cases_that_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "--all", "--with", "governors=wteo"]) == 2
    assert main(["experiment", "cede", "gate", "--with", "governors=wteo"]) == 2
    assert "gate: unknown choice 'governors'" in capsys.readouterr().err


@needs_sources
def test_cases_are_replayed_within_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "cases"
    folder.mkdir()
    shutil.copy(FOLDER / "teo-lookup.yaml", folder)
    monkeypatch.setattr(listed, "FOLDER", folder)
    (found,) = listed.play((f"teo@{NEWEST}", "wteo"), [])
    assert found.case == "teo-lookup" and found.after < found.before
    monkeypatch.setattr(listed, "_LIMITS", ("--as=1000000",))
    with pytest.raises(UserError):
        listed.play((f"teo@{NEWEST}", "wteo"), [])
    monkeypatch.setattr(listed, "FOLDER", tmp_path / "none")
    with pytest.raises(UserError, match="source tree"):
        listed.play((f"teo@{NEWEST}", "wteo"), [])
