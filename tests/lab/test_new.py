# SPDX-License-Identifier: GPL-2.0
"""A governor made by `cpuidle-lab new` in a stock kernel: it loads, decides and is reported.

It is in the smallest module, one without hints, evacuation and programs in BPF: a build and a boot
serve for both.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cpuidle_lab.commands import new
from cpuidle_lab.lab import LabResult, LabRun, run_lab

pytestmark = pytest.mark.lab

TOP = Path(__file__).resolve().parents[2]

SCRIPT = """
. /lab/functions
load cpuidle_emul machine=skx
load cpuidle_lab
echo "list: $(cat $cpuidle/available_governors)"
echo "patience: $(cat $knobs/lazy/patience)"
echo 101 2>/dev/null >$knobs/lazy/patience && fail "patience has no limit"
trace_start 16 cpuidle_lab
governor lazy
phase timers cyclictest --default-system -q -D 2 -i 2000
phase pairs hackbench -l 50
tune lazy patience 1
trace_stop trace.dat
cat $knobs/lazy/state/cpu0

usage() { cat $cpuidle/../cpu?/cpuidle/state*/usage | awk '{ n += $1 } END { print n }'; }
echo base=teo_ng >/sys/module/cpuidle_lab/parameters/gate
for each in teo_ng menu_ng wteo gate; do
    governor $each
    before=$(usage)
    sleep 0.2
    after=$(usage)
    echo "$each: $((after - before))"
done
echo "gate.parameter: $(cat /sys/module/cpuidle_lab/parameters/gate)"
echo "map: $(echo latency_map=1 2>&1 >/sys/module/cpuidle_lab/parameters/gate)"
for file in /dev/cpuidle_latency $knobs/gate/hints $knobs/gate/recount $knobs/bpf \\
        $knobs/evacuate; do
    [ -e $file ] && fail "$file is there"
done
governor menu
rmmod cpuidle_lab || fail "rmmod: $(dmesg | tail -n 1)"
"""


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Make a governor in a copy of the tree; return the files that are new or changed."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(TOP / "governors", tree / "governors")
    kbuild = (TOP / "Kbuild").read_text()
    for name in ("HINTS", "EVACUATE"):
        assert f"CIL_{name} ?= 1" in kbuild
        kbuild = kbuild.replace(f"CIL_{name} ?= 1", f"CIL_{name} ?= 0\nCIL_BPF ?= 0")
    return {"Kbuild": kbuild} | {
        str(path.relative_to(tree)): path.read_text()
        for path in new.create(tree, "lazy")
        if path.suffix in (".c", ".h", ".mk")
    }


@pytest.fixture(scope="module")
def session(changes: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> LabResult:
    """Boot once with a module that has the governor, and record it at work."""
    output = tmp_path_factory.mktemp("new") / "results"
    return run_lab(LabRun(script=SCRIPT, changes=changes), output).check()


def test_it_is_a_governor_like_the_others(session: LabResult) -> None:
    said = dict(line.split(": ", 1) for line in session.output.splitlines() if ": " in line)
    assert "lazy" in said["list"].split()
    assert said["patience"] == "3"
    assert "idle periods in a row that were cut short" in said


def test_without_wings_the_governors_serve(session: LabResult) -> None:
    said = dict(line.split(": ", 1) for line in session.output.splitlines() if ": " in line)
    for name in ("teo_ng", "menu_ng", "wteo", "gate"):
        assert int(said[name]) > 0, name
    assert said["gate.parameter"].startswith("base=teo_ng mode=")
    assert "Invalid argument" in said["map"]


def test_the_kernel_has_no_complaints(session: LabResult) -> None:
    # A build without hints has no latency_map.
    expected = ("taint", "no tunable latency_map")
    said = session.complaints()
    assert [line for line in said if not any(text in line for text in expected)] == []


def test_the_report_names_it_and_its_reasons(session: LabResult) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cpuidle_lab", "report", "--json", session.files / "trace.dat"],
        env={"PYTHONPATH": str(TOP / "tools"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    runs = json.loads(done.stdout)["runs"]
    assert {(run["governor"], run["workload"]) for run in runs} >= {
        ("lazy", "timers"),
        ("lazy", "pairs"),
    }
    reasons = {name for run in runs for name in run["reasons"]}
    assert reasons & {"lazy-deepest", "lazy-timer-limit", "lazy-tick-limit"}
    assert not any("unknown" in name or "invalid" in name for name in reasons)


def test_replay_and_compare_know_it(session: LabResult, tmp_path: Path) -> None:
    for folder in ("governors", "tools"):
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(TOP / folder, tmp_path / folder, ignore=skip)
    new.create(tmp_path, "lazy")

    def run(*arguments: str | Path) -> str:
        return subprocess.run(
            [sys.executable, "-m", "cpuidle_lab", *arguments],
            env={"PYTHONPATH": str(tmp_path / "tools"), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    trace = session.files / "trace.dat"
    checked = json.loads(run("replay", trace, "--check", "--json"))
    (found,) = checked["decisions"]
    assert found["governor"] == "lazy"
    assert found["identical"] == found["compared"] > 1000
    assert [one["doubtful"] for one in checked["energy"]] == [False]
    options = ("--no-mainline", "--no-instructions", "--json")
    compared = json.loads(run("compare", trace, *options))
    assert {"lazy", "teo_ng", "oracle"} <= {item["governor"] for item in compared["results"]}
