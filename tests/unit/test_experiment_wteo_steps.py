# SPDX-License-Identifier: GPL-2.0
"""The experiment wteo: steps removed and tunables moved, in replay and in the lab."""

import shutil
import subprocess
from pathlib import Path

import pytest

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.replay.library import TunableInfo
from experiments import added
from experiments.wteo import ablation, steps, steps_lab, streams
from tests.unit.test_experiment_wteo import stream, who


def test_axes_come_from_the_table_of_tunables() -> None:
    by_name = {axis.name: axis for axis in ablation.axes(who("wteo"))}
    assert by_name["half_life_ms"].default in by_name["half_life_ms"].values
    assert by_name["learning_rate"].default in by_name["learning_rate"].values
    assert "seed" not in by_name
    there = {tunable.name for tunable in who("wteo").governor.tunables}
    assert set(by_name) == there - {"latency_bias"}
    assert "history_size" in {axis.name for axis in ablation.axes(who("menu_ng"))}


def test_every_listed_step_is_in_the_sources() -> None:
    """Each edit finds its text once, and the steps that a unit test keeps name a case."""
    cases = "".join(path.read_text() for path in (TOP / "governors/wteo").glob("*_kunit.c"))
    found = steps.listed("wteo")
    assert found
    for step in found:
        for edit in step.edits:
            text = (TOP / "governors/wteo" / edit.file).read_text()
            assert text.count(edit.old) == 1, (step.name, edit)
        assert f"KUNIT_CASE({step.keeps})" in cases or not step.keeps


def test_a_governor_without_a_step_decides_otherwise() -> None:
    (step,) = [one for one in steps.listed("wteo") if "time that has passed" in one.name]
    part, made = steps.without("wteo", step), stream("on-off", 3000)
    assert streams.play(made, part).regret > streams.play(made, who("wteo")).regret + 10
    with pytest.raises(UserError, match="cannot be removed"):
        steps.without("wteo", steps.Step("x", (steps.Edit("wteo.c", "no such text", ""),)))


def test_one_build_has_a_governor_without_each_step(tmp_path: Path) -> None:
    """All names that the linker sees differ; under the old ones the sources are those replayed."""
    found = steps.listed("wteo")
    made = steps_lab.changes("wteo", found)
    for number, step in enumerate(found):
        name = steps_lab.alias("wteo", number)
        for file, text in steps.edited("wteo", step).items():
            assert steps_lab.renamed(made[f"governors/{name}/{file}"], name, "wteo") == text
        assert f"X({name}, {5 + number})" in made["governors/list.h"]
        assert f" {name}" in made["governors/governors.mk"]
    shutil.copytree(TOP / "governors", tmp_path / "governors")
    for path, text in made.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    folders = ("wteo", steps_lab.alias("wteo", 0))
    sources = [path for one in folders for path in (tmp_path / "governors" / one).glob("*.c")]
    wanted = [path for path in sources if "_kunit" not in path.name]
    command = ["gcc", "-std=gnu11", "-r", "-o", f"{tmp_path}/both.o", *map(str, wanted)]
    subprocess.run(command, check=True)


def test_a_step_in_the_lab_is_paired_by_program_and_round() -> None:
    def run(program: str, label: str, seed: int, percent: float | None) -> dict[str, object]:
        return {"program": program, "governor": label, "seed": seed, "regret": percent}

    told = {"a": ((10, 20), (12, 24)), "b": ((50, None), (50, 1)), "c": ((7, 7), (8, 8))}
    runs = [
        run(program, label, seed, percent)
        for program, pair in told.items()
        for label, percents in zip(("wteo", "part"), pair, strict=True)
        for seed, percent in enumerate(percents, 1)
    ]
    # Differences 2 and 4, 0, 1 and 1: of b one round has no regret.
    mean, error = steps_lab.points(runs, "wteo", "part") or (None, 0)
    assert mean == pytest.approx(4 / 3) and error is None
    two = [one for one in runs if one["program"] != "b"]
    mean, error = steps_lab.points(two, "wteo", "part") or (None, None)
    assert mean == 2 and error == pytest.approx(0.5)
    assert steps_lab.points([run("a", "wteo", 1, None)], "wteo", "wteo") is None


def test_a_list_that_is_not_understood_is_refused() -> None:
    with pytest.raises(UserError, match=r"governors/list\.h is not understood"):
        added._longer("governors/list.h", "X(wteo, 2)", "X(more, 5)")


def test_a_tunable_that_nobody_has_told_of_is_moved_too() -> None:
    tunable = TunableInfo("depth", "", "", 1, 20, 8, ())
    axis = ablation._axis(tunable)
    assert axis and (axis.values, axis.default) == (["1", "2", "4", "8", "16"], "8")
