# SPDX-License-Identifier: GPL-2.0
"""Random calls on all files of the modules: nothing is reported, and a fault would be."""

import json
import subprocess
from pathlib import Path

import pytest

from cpuidle_lab.lab import LabResult, programs
from tests.campaigns.fuzz import run as files
from tests.unit import command

TOP = Path(__file__).resolve().parents[2]
# Some 200 files have 18 at least of these; of 20,000 a file had one or none.
OPERATIONS = 100_000

# Two rows of wteo on a machine with three states, as state/cpuN shows them; the second is wrong.
ROWS = """wteo cpu0 decisions=1203
Weights of 10000: what followed a condition
row before     timer        s0    s1    s2 never | evidence       age | mean interval (us)
  0 any                   100  9000   800   100 |       42         3 |         1 - 40
 17 s0 s1 <       1049 us     0     1  9998     0 |        1         0 |         - - -

TEO
bin | 1 2 3
"""


def run(*arguments: str) -> tuple[int, dict[str, object]]:
    """Run the fuzzer in the lab; return its exit code and its result."""
    done = command.run("experiment", "fuzz", "--json", *arguments)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def fuzz_plain_files(folder: Path, seed: int, processes: int) -> files.Answers:
    """Let the guest's program loose on plain files of this machine."""
    folder.mkdir()
    program = folder.parent / "fuzz_files"
    program.write_bytes(programs.file(files.FUZZER)["usr/bin/fuzz_files"])
    program.chmod(0o755)
    for name in ("one", "two", "three"):
        (folder / name).write_text(f"{name} 17 linger_ms=5\n")
    command = [str(program), str(seed), "4000", str(processes), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return files.parse(done.stdout.replace(str(folder), ""))


def result(folder: Path, answers: str, dmesg: str = "<6>[ 1.0] storm: slice 1\n") -> LabResult:
    """Return what a guest might have left."""
    folder.mkdir()
    for name, text in (("answers", answers), ("rows", "10000\n"), ("recounts", "agrees\n")):
        (folder / name).write_text(text)
    return LabResult(0, "", dmesg, folder, "6.12", 1.0, 1.0)


def test_a_seed_draws_the_same_slices() -> None:
    first = list(files.slices(7, 120_000))
    assert first == list(files.slices(7, 120_000))
    assert first[:2] == list(files.slices(7, 100_000))
    assert first[0][0] != next(files.slices(8, 50_000))[0]
    assert sum(size for _, size in first) == 120_000


def test_all_operations_are_given_to_the_guest() -> None:
    lines = files.script(7, 120_000, 4).splitlines()
    calls = [line.split()[3:] for line in lines if line.startswith("slice ")]
    counts = [list(map(int, words)) for words in calls]
    assert sum(plain + events for _, plain, events in counts) == 120_000
    assert all(plain % 4 == 0 and events % 4 == 0 for _, plain, events in counts)


def test_answers_of_slices_are_added_up() -> None:
    one = "operation read ok 3\noperation read EINVAL 1\nfile /a 600 3 1 2\n"
    answers = files.parse(one * 2 + "input huge refused 5\nfile /b 400 0 0 0\n")
    assert answers.operations == {"read": {"ok": 6, "EINVAL": 2}}
    assert answers.inputs == {"huge": {"refused": 5}}
    assert answers.files["/a"] == files.File("600", 6, 2, 4)
    assert answers.total() == 8
    assert answers.untouched() == ["/b"]
    with pytest.raises(ValueError, match="unknown line"):
        files.parse("operations none\n")


def test_work_that_was_not_done_is_a_failure(tmp_path: Path) -> None:
    done = "operation read ok 1000\nfile /a 600 1000 1 2\n"
    found, _ = files.judge(result(tmp_path / "good", done), 1000)
    assert found.failure == ""
    for number, (answers, dmesg, said) in enumerate(
        [
            (done, "<6>[ 1.0] x\n", "999 operations, not 1000"),
            (done + "file /b 600 0 0 0\n", "<6>[ 1.0] x\n", "never used: /b"),
            (done, "<3>[ 1.0] BUG: KASAN: use-after-free\n", "the kernel reports"),
        ]
    ):
        if said.startswith("999"):
            answers = answers.replace("ok 1000", "ok 999")
        found, _ = files.judge(result(tmp_path / str(number), answers, dmesg), 1000)
        assert said in found.failure


@pytest.mark.parametrize(
    ("line", "is_report"),
    [
        ("cpuidle_lab: wteo: no tunable \x01\udcff%s, or its value is out of range", False),
        ("cpuidle_lab: gate: there is no base governor \x1b", False),
        ("synth uevent: /devices/virtual/powercap: unknown uevent action string", False),
        ("kobject_synth_uevent: 12 callbacks suppressed", False),
        ("tsc: 12 callbacks suppressed", True),
        ("cpuidle_lab: gate: CPU 1 is without idle states, error -12", True),
    ],
)
def test_refusals_of_any_text_are_no_report(line: str, is_report: bool, tmp_path: Path) -> None:
    done = "operation read ok 1000\nfile /a 600 1000 1 2\n"
    found, _ = files.judge(result(tmp_path / "r", done, f"<3>[ 1.0] {line}\n"), 1000)
    assert ("the kernel reports" in found.failure) == is_report


def test_a_wrong_row_is_noticed(tmp_path: Path) -> None:
    """The guest's own check of the rows of wteo, by this machine's shell and awk."""
    (tmp_path / "state").write_text(ROWS)
    command = ["sh", "-c", f". {files.GUEST}; sums {tmp_path}/state"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["10000", "9999"]


def test_a_seed_draws_the_same_calls(tmp_path: Path) -> None:
    """On plain files and by one process, all answers are the same again."""
    first = fuzz_plain_files(tmp_path / "first", 7, 1)
    assert fuzz_plain_files(tmp_path / "again", 7, 1) == first
    assert fuzz_plain_files(tmp_path / "other", 8, 1) != first
    assert first.total() == 4000
    assert set(first.files) == {"/one", "/two", "/three"}
    assert all(file.reads and file.writes for file in first.files.values())
    assert "EFAULT" in first.operations["read"] and "EFAULT" in first.operations["write"]


def test_processes_share_the_work(tmp_path: Path) -> None:
    answers = fuzz_plain_files(tmp_path / "four", 7, 4)
    assert answers.total() == 4000
    assert answers.untouched() == []


@pytest.mark.lab
@pytest.mark.full
def test_no_file_is_missed_and_nothing_reported() -> None:
    code, found = run("--flavour", "stock", "--operations", str(OPERATIONS), "--seed", "1")
    assert found["failure"] == ""
    assert code == 0
    touched = found["files"]
    assert isinstance(touched, dict) and len(touched) > 100
    names = [
        "/sys/kernel/debug/cpuidle_lab/gate/hints",
        "/sys/kernel/debug/cpuidle_emul/energy",
        "/sys/module/cpuidle_lab/parameters/wteo",
        "/sys/devices/virtual/powercap/cpuidle-emul/cpuidle-emul:0/energy_uj",
        "/sys/kernel/tracing/events/cpuidle_lab/cil_decision/filter",
        "/dev/cpuidle_latency",
    ]
    assert [name for name in names if name not in touched] == []


@pytest.mark.lab
@pytest.mark.full
def test_a_fault_is_found() -> None:
    code, found = run("--operations", "4000", "--seed", "1", "--sabotage", "use-after-free")
    assert code == 1
    assert "KASAN: slab-use-after-free in version_show" in str(found["report"])
