# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab experiment --here`: on a recorded machine, with scripts in place of the programs."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from cpuidle_lab.ab.session import find_metric, frequency_governors
from cpuidle_lab.cli import main
from cpuidle_lab.host.machine import CPUIDLE, Host
from cpuidle_lab.host.sysfs import Tree
from experiments import here
from experiments.cyclic.entry import EXPERIMENT as CYCLIC
from experiments.experiment import QUICK, Request
from experiments.pages import FOLDER
from experiments.weighted_teo.entry import EXPERIMENT as WEIGHTED
from tests.unit import command, recorded

GOVERNOR = f"{CPUIDLE}/current_governor"
POLICY = "/sys/devices/system/cpu/cpufreq/policy{}/scaling_{}"
# Stands for both programs: notes what it ran under.
PROGRAM = f"""#!/bin/sh
cd "$CPUIDLE_LAB_ROOT"
echo "$(cat .{GOVERNOR}) $(cat .{POLICY.format(0, "governor")})" >>notes
echo "stress-ng: info: [1] cyclic:   99.00%:       7200 ns"
echo "T: 0 Min: 1000 Act: 2000 Avg: 3000 Max: 4500"
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unfold a machine with two frequency policies, and put the programs into the path."""
    root = recorded.unfold("debian13", tmp_path / "machine")
    for policy, offered in enumerate(("powersave performance userspace", "performance powersave")):
        told = {"driver": "acpi-cpufreq", "governor": "powersave", "available_governors": offered}
        for name, value in told.items():
            path = root / POLICY.format(policy, name)[1:]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}\n")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("stress-ng", "cyclictest"):
        (programs / name).write_text(PROGRAM)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(root))
    monkeypatch.setattr(here, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(here, "_SETTLE_S", 0)
    return root


def contents(root: Path) -> dict[str, str]:
    """Return everything that must be left as it was."""
    return command.contents(root, {"notes", "reset", "usage", "time"})


def test_each_program_runs_under_each_governor_and_frequency(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(root)
    pages = tmp_path / "pages"
    pages.mkdir()
    monkeypatch.setattr("experiments.memo.FOLDER", tmp_path / "memo")
    words = ["experiment", "cyclic", "--here", "--quick", "--seeds", "2", "-o", str(pages)]
    assert main(words) == 0
    assert contents(root) == before
    # Root keeps no figures in the project's folder.
    assert not (tmp_path / "memo").exists()
    heads = [json.loads(path.read_text().splitlines()[0]) for path in here.LOGS.iterdir()]
    assert {head["machine"]["frequency"][0]["governor"] for head in heads} == {
        "powersave", "performance"
    }  # fmt: skip
    governors = here.governors(Host(), CYCLIC.governors)
    assert len(governors) >= 2
    notes = [tuple(line.split()) for line in (root / "notes").read_text().splitlines()]
    # Six programs under two frequency governors, each with a run to warm up and two rounds.
    assert len(notes) == 6 * 2 * (1 + 2 * len(governors))
    both = ("powersave", "performance")
    assert set(notes) == {(name, frequency) for name in governors for frequency in both}
    page = (pages / "cyclic.md").read_text()
    assert "cpuidle-lab experiment cyclic --quick --seeds 2 --here -o DIR" in page
    assert "which is the hash of: kernel `" in page
    assert f"| {governors[0]}, performance: stress-ng, 100 us: p99 |  | 7.2 us |" in page
    assert f"| {governors[0]}, powersave: cyclictest, 10 us: maximum |  | 4.5 us |" in page
    assert "This is no machine of the lab" in page


def test_a_program_that_fails_leaves_the_machine_as_it_was(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(root)
    (tmp_path / "programs/cyclictest").write_text("#!/bin/sh\necho no luck\nexit 3\n")
    assert main(["experiment", "cyclic", "--here", "--quick"]) == 1
    said = capsys.readouterr().err
    assert "the command ended with 3: no luck" in said
    assert len(said.splitlines()) == 1
    assert contents(root) == before


def test_a_frequency_governor_that_is_switched_meanwhile_is_an_error(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(root)
    policy = POLICY.format(1, "governor")
    (tmp_path / "programs/stress-ng").write_text(PROGRAM + f"echo powersave >.{policy}\n")
    assert main(["experiment", "cyclic", "--here", "--quick"]) == 1
    said = capsys.readouterr().err
    assert "switched to powersave from outside while performance was measured" in said
    assert contents(root) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_machine_as_it_was(
    root: Path, tmp_path: Path, number: signal.Signals
) -> None:
    before = contents(root)
    (tmp_path / "programs/stress-ng").write_text(PROGRAM + "sleep 100\n")
    process = command.start("experiment", "cyclic", "--here", "--quick")
    command.wait_for((root / "notes").exists)
    assert contents(root) != before
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert said == f"cpuidle-lab: interrupted by {number.name}: the system is as before\n"
    assert contents(root) == before


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["cede", "--here"], 1, "cede: it has no programs for this machine"),
        (["cyclic", "--here", "--lab"], 2, "--here is on this machine"),
        (["cyclic", "--here", "-o", str(FOLDER)], 2, "has the pages of the lab"),
        (["cyclic", "--here", "--bisect"], 2, "--here is on this machine"),
        (["latency-nice", "--here", "--kernel", "7.3"], 2, "--here is on this machine"),
    ],
)
def test_what_cannot_be_run_here_is_refused(
    root: Path, words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(root)
    assert main(["experiment", *words]) == code
    assert said in capsys.readouterr().err
    assert contents(root) == before


def test_what_is_missing_is_said_before_anything_runs(
    root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "programs/stress-ng").unlink()
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    (root / GOVERNOR[1:]).with_name("available_governors").write_text("menu\n")
    assert main(["experiment", "cyclic", "--here"]) == 1
    said = capsys.readouterr().err
    for why in ("it needs stress-ng", "of its own this machine has 1 (there are: menu)"):
        assert why in said
    assert not (root / "notes").exists()


def test_only_frequency_governors_of_all_policies_are_set(root: Path) -> None:
    assert frequency_governors(Host()) == ["powersave", "performance"]
    for policy in (root / POLICY.format(0, "governor")[1:]).parent.parent.iterdir():
        (policy / "scaling_available_governors").unlink()
    assert frequency_governors(Host(Tree(root))) == [""]


def test_programs_of_the_project_are_compiled() -> None:
    loads = {one.name: one for one in WEIGHTED.programs_here(QUICK)}
    found = loads["ebizzy-m"].command()
    assert Path(found[0]).is_file()
    assert found[1:] == ("-m", "-S", "1", "-i", "10000")
    # The shell picks the percentile of what wakebench prints, in ns.
    wakebench = loads["schbench-2"]
    done = subprocess.run(wakebench.command(), capture_output=True, text=True, check=True)
    assert find_metric(wakebench.metric, done.stdout) > 100
    assert all(isinstance(one, here.Portable) for one in (CYCLIC, WEIGHTED))
    assert Request(here=True).here
