# SPDX-License-Identifier: GPL-2.0
"""Storms in a kernel with checkers: silence for the module, a report for one with a fault."""

import argparse
import json
import re
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.lab import built
from tests.campaigns.storm import operations, run, sabotage, verdict
from tests.unit import command

TOP = Path(__file__).resolve().parents[2]
ROUNDS = 25


def storm(*arguments: str) -> tuple[int, dict[str, object]]:
    """Run a storm; return its exit code and its result."""
    done = command.run("experiment", "storm", "--json", *arguments)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_machine_that_has_not_begun_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kernel that cannot be built leaves no console to look at."""

    def boot(*_arguments: object) -> None:
        raise UserError("the kernel cannot be built")

    monkeypatch.setattr(run, "run_lab", boot)
    assert main(["experiment", "storm", "--rounds", "1", "--seed", "3"]) == 1
    assert "the kernel cannot be built" in capsys.readouterr().err


@pytest.mark.parametrize(("attached", "code"), [(0, 1), (2, 0)])
def test_a_storm_in_which_no_program_was_attached_fails(
    attached: int,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = verdict.Verdict("", [], [], 0, 3, {"program": (7, attached)})
    monkeypatch.setattr(run, "run_lab", lambda *_: None)
    monkeypatch.setattr(verdict, "judge", lambda _: found)
    assert main(["experiment", "storm", "--rounds", "1", "--seed", "3"]) == code
    assert ("no program could be attached" in capsys.readouterr().out) == bool(code)


def test_a_seed_draws_the_same_operations() -> None:
    first = list(operations.rounds(7, 50, 4))
    assert first == list(operations.rounds(7, 50, 4))
    assert first[:20] == list(operations.rounds(7, 20, 4))
    assert first != list(operations.rounds(8, 50, 4))


def test_what_is_drawn_can_be_chosen() -> None:
    drawn = {
        one.split()[0]
        for each in operations.rounds(1, 50, 4, False, ["table", "cpu"])
        for one in each
    }
    assert drawn == {"table", "cpu"}
    assert main(["experiment", "storm", "--only", "program", "--rounds", "1"]) == 2


def test_a_storm_of_a_change_swaps_tables() -> None:
    """The storm that each change must pass has the operation that frees devices in use."""
    found = re.search(r"--rounds (\d+) --seed (\d+)", (TOP / ".ci/run").read_text())
    assert found
    drawn = operations.rounds(int(found[2]), int(found[1]), 4)
    assert any(one.startswith("table ") for each in drawn for one in each)


def test_every_operation_is_drawn_and_known_to_the_guest() -> None:
    """A storm of a thousand rounds has them all, and the guest has a function for each."""
    drawn = {one.split()[0] for each in operations.rounds(1, 1000, 4, True) for one in each}
    guest = (TOP / "tests/campaigns/storm/guest.sh").read_text()
    known = (*operations.OPERATIONS, *operations.PROGRAM_OPERATIONS)
    assert drawn == {operation.name for operation in known}
    assert drawn == set(re.findall(r"^op_(\w+)\(\)", guest, re.MULTILINE))


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["<6>[ 1.0] cpuidle: using governor wteo", "<14>[ 1.1] storm: round 1: look"], None),
        (["<4>[ 1.0] cpuidle_lab: loading out-of-tree module taints kernel."], None),
        (["<6>[ 1.0] x", "<4>[ 1.0] WARNING: possible circular locking dependency"], 1),
        (["<3>[ 1.0] BUG: KASAN: slab-use-after-free in version_show"], 0),
    ],
)
def test_a_report_is_a_warning_that_nobody_expects(lines: list[str], found: int | None) -> None:
    assert verdict.first_report(lines) == (found, 0)


def test_a_race_counts_if_a_module_of_ours_has_part_in_it() -> None:
    rule = "<3>[ 1.0] " + "=" * 66
    head = "<3>[ 1.0] BUG: KCSAN: data-race in a / b"
    theirs = [rule, head, "<3>[ 1.0]  a+0x1/0x2", rule]
    ours = [rule, head, "<3>[ 1.0]  a+0x1/0x2 [cpuidle_lab]", rule]
    assert verdict.first_report(theirs) == (None, 1)
    assert verdict.first_report([*theirs, *ours]) == (4, 1)


OOPS = """\
lab: round 49
lab: round 50
lab: checked 50
lab: round 51
[   24.616476] Oops: int3: 0000 [#1] PREEMPT SMP
[   24.616993] RIP: 0010:__schedule+0x4cf/0x880
[   24.617161] Code: 4c 89 e2 {before} <7d> 7c c1 1e
"""


@pytest.mark.parametrize(
    ("console", "checked"),
    [
        (OOPS.format(before="e8"), 50),
        (OOPS.format(before="e8").replace("lab: checked 50\n", ""), 0),
        (OOPS.format(before="cc"), None),
        (OOPS.format(before="e8").replace("int3", "0002"), None),
        ("lab: checked 50\n", None),
    ],
)
def test_a_breakpoint_where_none_is_is_the_emulators(console: str, checked: int | None) -> None:
    assert verdict.checked_before_stale_code(console) == checked


def test_a_storm_goes_on_after_the_rounds_that_were_checked() -> None:
    args = argparse.Namespace(seed=7, rounds=60, cpus=4, flavour="debug", programs=False,
                              only=operations.NAMES)  # fmt: skip
    whole, rest = run.script(args, 0), run.script(args, 50)
    assert "\nround 50 " in whole and "\nround 50 " not in rest
    assert whole.partition("\nround 51 ")[2] == rest.partition("\nround 51 ")[2] != ""


def test_an_option_that_cannot_be_set_is_named() -> None:
    built.check_options("# a comment\nCONFIG_A=y\nCONFIG_B=n\n", "CONFIG_A=y\n", "x")
    for made in ("", "CONFIG_A=m\n", "CONFIG_A=y\nCONFIG_B=y\n"):
        with pytest.raises(UserError, match=r"CONFIG_[AB]="):
            built.check_options("CONFIG_A=y\nCONFIG_B=n\n", made, "x")


@pytest.mark.lab
@pytest.mark.full
@pytest.mark.own_kernel("debug")
def test_a_storm_leaves_no_report() -> None:
    code, found = storm("--rounds", str(ROUNDS), "--seed", "1")
    assert found["failure"] == ""
    assert code == 0
    assert isinstance(found["recounts"], int) and found["recounts"] > ROUNDS // 2


@pytest.mark.lab
@pytest.mark.full
@pytest.mark.own_kernel("debug")
@pytest.mark.parametrize(
    ("fault", "said", "further"),
    [
        ("use-after-free", "KASAN: slab-use-after-free in version_show", ""),
        pytest.param(
            "device",
            "KASAN: slab-use-after-free in version_show",
            "--flavour debug-7.2 --rounds 20 --only table look",
            marks=pytest.mark.own_kernel("debug-7.2"),
        ),
        ("sleep", "scheduling while atomic", ""),
        ("lock", "possible circular locking", ""),
        ("leak", "lost memory", ""),
        ("left", "left behind", ""),
    ],
)
def test_a_fault_is_found(fault: str, said: str, further: str) -> None:
    """Each kind of checker speaks up when the file `version` is read."""
    assert fault in sabotage.FAULTS
    words = ["--rounds", "1", "--seed", "0", "--sabotage", fault, *further.split()]
    done = command.run("experiment", "storm", *words)
    assert done.returncode == 1
    # A message that is on the console, too, ends the storm as an error.
    assert said in done.stdout + done.stderr
