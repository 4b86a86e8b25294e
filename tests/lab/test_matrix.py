# SPDX-License-Identifier: GPL-2.0
"""The matrix: its table says what was run and nothing else, and its rows can fail."""

import subprocess
import sys
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.lab import LabResult, images
from tests.campaigns.matrix import builds, rows, run, table
from tests.campaigns.matrix.table import FAIL, OK, Cell, Outcome

TOP = Path(__file__).resolve().parents[2]
RUN = TOP / "tests/campaigns/matrix/run.py"
ORDER = ("first", "second", "third")


def passed(row: str) -> Outcome:
    cells = {step: Cell(OK) for step in (*table.WAYS, *table.STEPS)}
    return Outcome(row, "6.12.1", "`driver`: C1, C2", cells)


def document(folder: Path) -> Path:
    path = folder / "README.md"
    path.write_text(f"before\n{table.BEGIN}\n{table.END}\nafter\n")
    return path


def lines_of(path: Path) -> list[str]:
    return table.section(path)[1].splitlines()


def test_rows_that_are_not_run_keep_what_they_said(tmp_path: Path) -> None:
    path = document(tmp_path)
    failed = passed("first")
    failed.cells["tune"] = Cell(FAIL, "a | b\nsecond line")
    table.write(path, ORDER, failed, "2026-01-01 abc")
    before = lines_of(path)
    assert before[2].endswith("| 2026-01-01 abc |")
    assert before[-1] == f"- first, tune, {FAIL}: a / b"
    table.write(path, ORDER, passed("second"), "2026-01-02 def")
    after = lines_of(path)
    assert after[2] == before[2]
    assert after[3].endswith("| 2026-01-02 def |")
    assert after[4].count(table.UNTRIED) == len(table.WAYS) + len(table.STEPS)
    assert after[4].endswith("| never |")
    assert after[-1] == before[-1]
    table.write(path, ORDER, passed("first"), "2026-01-03 fed")
    assert not any(line.startswith("- first") for line in lines_of(path))
    assert path.read_text().startswith("before\n")
    assert path.read_text().endswith("\nafter\n")


def test_a_reason_names_no_place_of_this_machine() -> None:
    said = table.one_line(f"cannot fetch http://host.example/a (log: {TOP}/build/log)")
    assert said == "cannot fetch … (log: build/log)"


def test_a_row_that_cannot_be_tried_leaves_the_document_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_archive(*_: object) -> Outcome:
        raise UserError("Debian's archive cannot be used")

    monkeypatch.setattr(rows, "run", no_archive)
    path = document(tmp_path)
    assert run.main(["--only", "x86-64 7.2", "--output", str(path)]) == 1
    assert lines_of(path) == []
    assert "was not tried: Debian's archive" in capsys.readouterr().err


def test_a_row_that_is_no_longer_there_goes(tmp_path: Path) -> None:
    path = document(tmp_path)
    table.write(path, ORDER, passed("first"), "2026-01-01 abc")
    table.write(path, ("second",), passed("second"), "2026-01-02 def")
    assert not any("first" in line for line in lines_of(path))


def test_a_document_without_a_section_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("nothing here\n")
    with pytest.raises(UserError, match="no section"):
        table.write(path, ORDER, passed("first"), "2026-01-01 abc")
    assert path.read_text() == "nothing here\n"


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


def test_an_unknown_row_is_a_usage_error() -> None:
    done = subprocess.run(
        [sys.executable, RUN, "--only", "PDP-11"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "unknown row 'PDP-11'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.full
@pytest.mark.lab
def test_one_row(tmp_path: Path) -> None:
    path = document(tmp_path)
    done = subprocess.run(
        [sys.executable, RUN, "--only", "arm64 6.12", "--output", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = (line for line in lines_of(path) if line.startswith("| arm64 6.12 |"))
    assert "psci_idle" in line
    assert line.count(f"| {OK} ") == len(table.WAYS) - 1 + len(table.STEPS)
