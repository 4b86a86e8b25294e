# SPDX-License-Identifier: GPL-2.0
"""`review`: verdicts, mails, foreign code, sanitizers, and recordings."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from cpuidle_lab.base.cache import CACHE
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.recording.columns import opened
from cpuidle_lab.replay.candidates import candidate
from cpuidle_lab.replay.engine import counterfactual
from cpuidle_lab.review import cases, contract, job, mail, patch, result, sanitizers
from cpuidle_lab.review.confined import Confined
from cpuidle_lab.review.effect import FIGURES
from cpuidle_lab.review.job import of_patch
from cpuidle_lab.review.play import Box, Pair
from cpuidle_lab.review.result import EXIT_WORSE
from cpuidle_lab.review.sweep import RULES
from cpuidle_lab.states.linux_source import NEWEST
from experiments.cases import schema
from tests.unit.reviewing import (
    SAME,
    SPEC,
    Edit,
    cell,
    changed,
    diff,
    judged,
    needs_sources,
    written,
)
from tests.unit.synthetic import demo

# ---- Verdicts ----


@pytest.mark.parametrize(
    ("changes", "verdict", "code"),
    [
        ({}, "same", 0),
        ({"cells": [cell((10, 11, 12), (20, 21, 22))]}, "worse", EXIT_WORSE),
        ({"cells": [cell((20, 21, 22), (10, 11, 12))]}, "better", 0),
        ({"cells": [cell((10, 11, 12), (20, 21, 13))]}, "same", 0),
        ({"cells": [cell((10, 10, 10), (11.9, 11.9, 11.9))]}, "same", 0),
        ({"cells": [cell((1, 1, 1), (9, 9, 9), "above")]}, "same", 0),
        ({"cells": [cell((1,), (9,)), cell((9,), (1,))]}, "mixed", EXIT_WORSE),
        ({"died": {"verdict": "crashes (SIGSEGV)", "spec": None}}, "worse", EXIT_WORSE),
        ({"contract": [{"rule": "r", "held": False, "held_before": True}]}, "worse", EXIT_WORSE),
        ({"contract": [{"rule": "r", "held": False, "held_before": False}]}, "same", 0),
        ({"sweep": {}}, "not judged", 1),
    ],
)
def test_verdicts(changes: dict[str, Any], verdict: str, code: int) -> None:
    found = judged(**changes)
    assert (found.verdict, found.exit_code) == (verdict, code)


def test_limits() -> None:
    assert result.limits_of("regret=3, p99=10") == {"regret": 3, "p99": 10}
    for text in ("regret", "above=1", "regret=much", "regret=nan"):
        with pytest.raises(UserError):
            result.limits_of(text)


def test_a_mail_is_narrow_and_short() -> None:
    figures = {"regret": 1e4, "power_mw": 312.0, "latency_us": 3.0, "p99_us": 1.0,
               "ticks_per_s": 2.0, "shallowest": 1.0}  # fmt: skip
    witness = {"objective": "power", "score": 12.0, "spec": {**SPEC, "phases": SPEC["phases"] * 9},
               "before": figures, "after": figures, "real": ["pepc:genoa0", 8.0]}  # fmt: skip
    cells = [cell((10.0 + n, 11.0), (20.0 + n, 30.0)) for n in range(40)]
    searched = {"evaluations": 9, "by_chance": 1}
    found = judged(cells=cells, harm=[witness] * 3, gain=[witness] * 3, searched=searched,
                   checkers=["new: x" * 40])  # fmt: skip
    lines = mail.text_of([found, found], "cpuidle-lab review " + "teo@7.3 " * 20).splitlines()
    assert max(map(len, lines)) <= mail.WIDTH
    assert len(lines) <= mail.LINES
    assert any("are modelled" in line for line in lines)
    assert lines[-2].endswith("\\") and "teo@7.3" in lines[-1]


# ---- Foreign code: patches of our own to Debian's teo.c ----

NEVER_SHALLOWER = ("if (2 * idx_intercept_sum > cpu_data->total - idx_hit_sum) {", "if (0) {")
NO_REQUEST = ("\tif (idx > constraint_idx)\n\t\tidx = constraint_idx;\n", "")
ENDLESS = ("\ts64 duration_ns;\n\tint i;\n\n\tif (dev->last",
           "\ts64 duration_ns;\n\tint i;\n\n\twhile (drv->state_count > 4)\n\t\tidx0++;\n"
           "\tif (dev->last")  # fmt: skip
MISSING = ("\tcpu_data->sleep_length_ns = KTIME_MAX;\n",
           "\tcpu_data->sleep_length_ns = sched_nowhere(dev->cpu);\n")  # fmt: skip
BROKEN = ("\ts64 duration_ns;\n\tint i;\n", "\ts64 duration_ns\n\tint i;\n")


def reviewed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], budget: str, *edits: Edit
) -> tuple[int, dict[str, Any], str]:
    """Return exit code, JSON and messages of a short review."""
    file = changed(tmp_path, edits)
    code = main(["review", str(file), "--base", NEWEST, "--budget", budget, "--periods", "40000",
                 "-o", str(tmp_path / "out"), "--json"])  # fmt: skip
    told = capsys.readouterr()
    return code, json.loads(told.out) if told.out else {}, told.err


@needs_sources
def test_no_change_is_called_no_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told, _ = reviewed(tmp_path, capsys, "3s", SAME)
    assert (code, told["verdict"], told["same"]) == (0, "same", True)
    assert told["compared"]["periods"] >= 40_000 and told["applies"]


@needs_sources
def test_a_bad_patch_is_caught(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told, _ = reviewed(tmp_path, capsys, "12s", NEVER_SHALLOWER, NO_REQUEST)
    assert code == EXIT_WORSE and not told["same"]
    broken = [one["rule"] for one in told["contract"] if not one["held"] and one["held_before"]]
    assert RULES["latency"] in broken
    shown = {one["rule"]: one["case"] for one in told["contract"]}
    assert shown[RULES["latency"]]["latency_req_us"] <= 50
    assert told["counterexample"]["intervals"] <= 20 and told["counterexample"]["states"] <= 4
    assert told["harm"] and told["harm"][0]["after"]["regret"] > told["harm"][0]["before"]["regret"]
    case = schema.read(Path(told["counterexample"]["file"]))
    assert [one.governor for one in case.cells] == [f"teo@{NEWEST}", "teo@patched"]
    lines = (tmp_path / "out/mail.txt").read_text().splitlines()
    assert max(map(len, lines)) <= mail.WIDTH and len(lines) <= mail.LINES


@needs_sources
def test_an_endless_loop_is_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cpuidle_lab.review.confined._CPU_S", 1.0)
    code, told, _ = reviewed(tmp_path, capsys, "3s", ENDLESS)
    assert code == EXIT_WORSE
    assert told["died"]["verdict"] == "loops for ever"
    spec = told["died"]["spec"]
    assert len(spec["states"]) == 5 and sum(phase["count"] for phase in spec["phases"]) == 1


@needs_sources
@pytest.mark.parametrize(
    ("edit", "words"),
    [(MISSING, "the stand-in for the kernel has no sched_nowhere()"), (BROKEN, "do not compile")],
    ids=["symbol", "syntax"],
)
def test_what_does_not_compile_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], edit: Edit, words: str
) -> None:
    code, told, error = reviewed(tmp_path, capsys, "3s", edit)
    assert (code, told) == (1, {})
    assert words in error and error.count("\n") == 1


@needs_sources
def test_a_header_changes_its_governors(tmp_path: Path) -> None:
    old = (CACHE / "linux-source" / NEWEST / "gov.h").read_text()
    text = diff(old, old.replace("#endif", "/* end */\n#endif"), f"{patch.FOLDER}gov.h")
    found = of_patch(written(tmp_path, text), NEWEST, {}, tmp_path / "tree", reverse=False)
    assert [one.labels[0] for one in found] == [f"menu@{NEWEST}", f"teo@{NEWEST}"]
    assert yaml.safe_load(cases.case(SPEC, "t", "w", found[0].words))["cells"]


# ---- Sanitizers ----

UBSAN_SAID = """\
/build/x/linux-source/7.3/teo.c:12:3: runtime error: signed integer overflow: 1 + 2 cannot be
/build/x/native/replay/play.c:9:1: runtime error: division by zero
"""
VALGRIND_SAID = """\
==7== Memcheck, a memory error detector
==7==
==7== Conditional jump or move depends on uninitialised value(s)
==7==    at 0x10A2B3: rp_play (play.c:90)
==7==    by 0x10A2B4: main (main.c:88)
==7==
==7== Conditional jump or move depends on uninitialised value(s)
==7==    at 0x10A2B3: rp_play (play.c:91)
==7==  Uninitialised value was created by a stack allocation
==7==    at 0x10A2B4: teo_select (teo.c:280)
==7==
==7== ERROR SUMMARY: 2 errors from 2 contexts (suppressed: 0 from 0)
"""


def test_errors_of_the_governor_alone_are_told() -> None:
    files = {"teo.c", "gov.h"}
    assert sanitizers.overflows(UBSAN_SAID, files) == [
        "teo.c:12: signed integer overflow: 1 + 2 cannot be"]  # fmt: skip
    assert sanitizers.unset(VALGRIND_SAID, files) == [
        "teo.c:280: Conditional jump or move depends on uninitialised value(s)"]  # fmt: skip
    assert sanitizers.unset(VALGRIND_SAID, {"menu.c"}) == []


def test_a_sanitizer_that_is_not_there_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    found = sanitizers.examine(None)  # type: ignore[arg-type]
    assert found["rules"] == [] and len(found["skipped"]) == 2
    assert "valgrind is not installed" in found["skipped"][1]


REQUEST = "\tif (idx > constraint_idx)\n\t\tidx = constraint_idx;\n"
OVERFLOWS = (REQUEST, REQUEST + "\tif ((int)(drv->states[idx].target_residency_ns >> 20) * 4096"
             " == idx)\n\t\tidx = 0;\n")  # fmt: skip
UNSET = ("\ts64 duration_ns;\n\tint i;\n\n\tif (dev->last",
         "\ts64 duration_ns;\n\tvolatile int never;\n\tint i;\n\n"
         "\tif (never == 12345)\n\t\treturn 0;\n\tif (dev->last")  # fmt: skip


@needs_sources
@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_an_overflow_and_an_unset_value_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Targets of 2^32 us overflow an int, and one variable is never set."""
    some = [one for one in contract.odd() if one[0] == "targets of 2^32 us"]
    monkeypatch.setattr(sanitizers, "odd", lambda: some)
    (subject,) = of_patch(changed(tmp_path, (OVERFLOWS, UNSET)), NEWEST, {}, tmp_path / "tree",
                          reverse=False)  # fmt: skip
    pair = Pair(candidate(subject.before), candidate(subject.after), Box(tmp_path / "box"))
    found = sanitizers.examine(pair)
    told = {one["rule"]: one for one in found["rules"]}
    assert [one["held_before"] for one in told.values()] == [True, True]
    assert "teo.c" in told[sanitizers.OVERFLOW]["why"]
    assert "signed integer overflow" in told[sanitizers.OVERFLOW]["why"]
    assert told[sanitizers.UNSET]["why"].startswith("teo.c:")
    assert told[sanitizers.UNSET]["case"] == some[0][1]


# ---- Recordings ----


@needs_sources
def test_a_recording_is_a_place_of_the_effect(tmp_path: Path) -> None:
    """The figures are those of `compare`, with one seed: there is one recording."""
    path = demo(tmp_path / "small.dat", 20_000_000)
    sides = {"before": f"teo@{NEWEST}", "after": f"menu@{NEWEST}"}
    with Confined(sides["before"], sides["after"], tmp_path, lambda *_: None) as worker:
        found = job.on_recording(worker, path.name, job.intervals_of(path), tmp_path)
    cells = {one.figure: one for one in found}
    assert cells.keys() == FIGURES.keys() and {one.where for one in found} == {"small.dat"}
    with opened(path) as recording:
        for side, who in sides.items():
            told = counterfactual(recording, candidate(who).governor)
            assert getattr(cells["regret"], side) == pytest.approx((told.regret,))
            assert cells["regret"].n == told.intervals
    assert cells["regret"].before != cells["regret"].after


def test_a_recording_that_is_none_ends_it_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "no recording\n", "x.dat")
    code = main(["review", "teo_ng", "menu_ng", "--on", str(path), "-o", str(tmp_path / "out")])
    told = capsys.readouterr().err
    assert code == 1 and told.count("\n") == 1 and "x.dat" in told
    assert not (tmp_path / "out").exists()
