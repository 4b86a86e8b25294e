# SPDX-License-Identifier: GPL-2.0
"""The matrix: its table says what was run and nothing else, and its rows can fail."""

from pathlib import Path

import pytest

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.lab import LabResult, images
from experiments import proofs
from tests import long
from tests.campaigns.matrix import builds, rows, table
from tests.campaigns.matrix.table import FAIL, OK, Outcome, StepResult

ORDER = ("first", "second", "third")


def passed(row: str) -> Outcome:
    cells = {step: StepResult(OK) for step in (*table.WAYS, *table.STEPS)}
    return Outcome(row, "6.12.1", "`driver`: C1, C2", cells=cells)


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the place of a record and a page of their own."""
    monkeypatch.setattr(proofs, "MATRIX", tmp_path / "matrix.json")
    monkeypatch.setattr(proofs, "RUNS", tmp_path / "runs.json")
    monkeypatch.setattr(proofs, "PAGE", tmp_path / "proofs.md")
    return tmp_path / "matrix.json"


def matrix(*arguments: str) -> int:
    return main(["experiment", "matrix", "--record", *arguments])


def lines_of(path: Path) -> list[str]:
    return table.markdown(proofs.read(path)).splitlines()


def test_rows_that_are_not_run_keep_what_they_said(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = passed("first")
    failed.cells["tune"] = StepResult(FAIL, "a | b\nsecond line")
    outcomes = [failed, passed("second"), passed("first")]
    monkeypatch.setattr(rows, "ROWS", dict.fromkeys(ORDER))
    monkeypatch.setattr(rows, "run", lambda *_: outcomes.pop(0))
    assert matrix("--only", "first") == 1
    before = lines_of(record)
    assert f" {FAIL} " in before[2] and before[2].endswith(f" {long.commit()} |")
    assert before[-1] == f"- first, tune, {FAIL}: a / b"
    assert matrix("--only", "second") == 0
    after = lines_of(record)
    assert after[2] == before[2]
    assert table.UNTRIED not in after[3]
    assert after[4].count(table.UNTRIED) == len(table.WAYS) + len(table.STEPS)
    assert after[4].endswith("| never |")
    assert after[-1] == before[-1]
    assert matrix("--only", "first") == 0
    assert not any(line.startswith("- first") for line in lines_of(record))
    monkeypatch.setattr(rows, "ROWS", {"second": None})
    outcomes.append(passed("second"))
    assert matrix() == 0
    assert not any("first" in line for line in lines_of(record))
    assert lines_of(record)[2] in proofs.PAGE.read_text()


def test_a_reason_names_no_place_of_this_machine() -> None:
    said = table.one_line(f"cannot fetch http://host.example/a (log: {TOP}/build/log)")
    assert said == "cannot fetch … (log: build/log)"


def test_a_row_that_cannot_be_tried_leaves_the_record_alone(
    record: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_archive(*_: object) -> Outcome:
        raise UserError("Debian's archive cannot be used")

    monkeypatch.setattr(rows, "run", no_archive)
    assert matrix("--only", "x86-64 7.2") == 1
    assert not record.exists()
    assert "was not tried: Debian's archive" in capsys.readouterr().err


def test_a_step_that_was_not_run_is_no_success() -> None:
    assert not passed("first").failed()
    for step in (*table.WAYS, *table.STEPS):
        outcome = passed("first")
        del outcome.cells[step]
        assert outcome.failed()


def guest(folder: Path, steps: str, dmesg: str = "", status: int = 0) -> LabResult:
    (folder / "steps").write_text(steps)
    return LabResult(status, "the last line\n", dmesg, folder, "6.12.1", 1.0, 1.0)


def test_what_a_guest_left_is_judged(tmp_path: Path) -> None:
    cells = rows.steps(guest(tmp_path, "load ok\nswitch ok\n", status=1))
    words = [cells[step].word for step in table.STEPS]
    assert words == [OK, OK, FAIL, *[table.UNTRIED] * 3]
    assert "the last line" in cells["tune"].reason
    everything = "".join(f"{step} ok\n" for step in table.STEPS)
    cells = rows.steps(guest(tmp_path, everything, "<4>[ 1.0] something odd\n"))
    assert cells["capture"].word == FAIL  # there is no trace
    assert "something odd" in cells["unload"].reason
    cells = rows.steps(guest(tmp_path, everything, "<6>[ 1.0] cpuidle: using governor menu\n"))
    assert cells["unload"].word == OK


@pytest.mark.parametrize(
    ("log", "status", "word"),
    [
        ("  CC [M]  module/glue.o\n", 0, OK),
        ("/tmp/W=1/module/glue.c:12:5: warning: unused variable 'x'\n", 0, FAIL),
        ("./include/linux/sched.h:12:5: warning: of the kernel's own\n", 0, OK),
        ("make: *** No rule to make target\n", 2, FAIL),
    ],
)
def test_what_a_build_said_is_judged(tmp_path: Path, log: str, status: int, word: str) -> None:
    (tmp_path / "log").write_text(log)
    (tmp_path / "status").write_text(str(status))
    assert builds.judge(tmp_path / "log", tmp_path / "status").word == word


def test_every_kernel_of_the_lab_has_a_row() -> None:
    assert {f"x86-64 {series}" for series in images.FLAVOURS} <= set(rows.ROWS)


def test_an_unknown_row_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        matrix("--only", "PDP-11")
    assert end.value.code == 2
    assert "invalid choice: 'PDP-11'" in capsys.readouterr().err


@pytest.mark.full
@pytest.mark.lab
def test_one_row(record: Path) -> None:
    assert matrix("--only", "arm64 6.12") == 0
    (line,) = (line for line in lines_of(record) if line.startswith("| arm64 6.12 |"))
    assert "psci_idle" in line
    assert line.count(f"| {OK} ") == len(table.WAYS) - 1 + len(table.STEPS)
