# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab calibrate`: which CPUs it takes, and what the hardware's counters say."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cpuidle_lab.calibrate.residency import counter_of, due, package_share, shares
from cpuidle_lab.calibrate.topology import Peers, members, peers
from cpuidle_lab.cli import main
from cpuidle_lab.host.sysfs import Tree
from tests.unit import test_calibrate

TOP = Path(__file__).resolve().parents[2]

root = test_calibrate.root

# CPU: package and the CPUs of its core, as machines list them.
LAPTOP = {0: ("0", "0,2"), 1: ("0", "1,3"), 2: ("0", "0,2"), 3: ("0", "1,3")}
DESKTOP = {cpu: ("0", f"{cpu & ~1}-{cpu | 1}") for cpu in range(8)}
TWO_PACKAGES = {cpu: (str(cpu % 2), f"{cpu % 4},{cpu % 4 + 4}") for cpu in range(8)}
ONE_CORE = {0: ("0", "0-1"), 1: ("0", "0-1")}
PLAIN = {0: ("0", "0"), 1: ("0", "1")}
# A core with threads beside one without, as on hybrid machines.
HYBRID = {0: ("0", "0-1"), 1: ("0", "0-1"), 2: ("0", "2"), 3: ("0", "3")}


@pytest.mark.parametrize(
    ("machine", "online", "want"),
    [
        (LAPTOP, None, Peers(0, 1, 1, 2)),
        (DESKTOP, None, Peers(0, 2, 2, 2)),
        (TWO_PACKAGES, None, Peers(0, 1, 2, 2)),
        (TWO_PACKAGES, [0, 1, 5], Peers(0, 1, None, 2)),
        (ONE_CORE, None, Peers(0, None, None, 2)),
        (ONE_CORE, [0], Peers(0, None, None, 1)),
        (PLAIN, None, Peers(0, 1, 1, 1)),
        (HYBRID, None, Peers(0, 2, 2, 2)),
        (LAPTOP, [2, 3], Peers(2, 3, 3, 1)),
    ],
)
@pytest.mark.parametrize("name", ["core_cpus_list", "thread_siblings_list"])
def test_a_sibling_is_never_the_other_core(
    tmp_path: Path,
    machine: dict[int, tuple[str, str]],
    online: list[int] | None,
    want: Peers,
    name: str,
) -> None:
    for cpu, (package, core) in machine.items():
        topology = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{package}\n")
        (topology / name).write_text(f"{core}\n")
    assert peers(Tree(tmp_path), online or list(machine)) == want


def test_without_a_topology_each_cpu_is_a_core(tmp_path: Path) -> None:
    assert peers(Tree(tmp_path), [0, 1, 2]) == Peers(0, 1, 1, 1)
    assert list(members("0,2-4,7")) == [0, 2, 3, 4, 7]


def test_shares_are_means_over_cores() -> None:
    text = "cstate_core/c6-residency 0 300 1000\ncstate_core/c6-residency 1 500 1000\n"
    assert shares(text) == {"cstate_core/c6": pytest.approx(0.4)}
    assert shares("cstate_pkg/c2-residency 0 5 0\n") == shares("") == {}


@pytest.mark.parametrize(
    ("state", "counter"),
    [("C1", "c1"), ("C1E", "c1"), ("C6", "c6"), ("C6P", "c6"), ("C6SP", "c6"), ("C7s", "c7"),
     ("C10", "c7"), ("C3", None), ("C2_ACPI", None), ("POLL", None), ("stop4", None)],
)  # fmt: skip
def test_a_counter_is_known_by_the_name(state: str, counter: str | None) -> None:
    known = {f"cstate_core/{name}": 0.0 for name in ("c1", "c6", "c7")} | {"cstate_pkg/c3": 0.0}
    assert counter_of(state, known) == (counter and f"cstate_core/{counter}")


def test_what_is_due_allows_for_threads_and_transitions() -> None:
    assert due(2e6, 0, 2e6, 0, 1) == 1
    assert due(1.8e6, 0, 2e6, 0, 1) == pytest.approx(0.9)
    assert due(1.8e6, 0, 2e6, 0, 2) == pytest.approx(0.8)
    assert due(1.8e6, 1000, 2e6, 100, 1) == pytest.approx(0.8)
    assert due(0.2e6, 0, 2e6, 0, 2) == 0


def test_a_package_sleeps_in_any_of_its_states() -> None:
    assert package_share({"cstate_pkg/c2": 0.25, "cstate_pkg/c6": 0.5, "cstate_core/c6": 1}) == 0.75
    assert package_share({"cstate_core/c6": 1}) is None


def calibrated(
    capsys: pytest.CaptureFixture[str], root: Path, counters: str, *arguments: str
) -> dict[str, Any]:
    (root / "counters").write_text(counters)
    before = test_calibrate.settings(root)
    assert main(["calibrate", *test_calibrate.FEW, "--json", *arguments]) == 0
    assert test_calibrate.settings(root) == before
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_demotion_by_the_hardware_is_said(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, page = tmp_path / "machine.yaml", tmp_path / "machine.html"
    counters = "cstate_core/c6-residency 0 300 1000\n"
    found = calibrated(capsys, root, counters, "-o", str(target), "--page", str(page))
    (note,) = [note for note in found["notes"] if "demoted by the hardware" in note]
    assert note.startswith("C6: ") and "30 %" in note and "100 %" in note
    assert note in page.read_text() and note in target.read_text()
    states = {state["name"]: state for state in found["states"]}
    assert states["C6"]["demoted"] == {"share": 0.3, "due": pytest.approx(1)}
    assert all(state["demoted"] is None for name, state in states.items() if name != "C6")
    # Its latency was that of another state: the machine file has the table's.
    written = {state["name"]: state for state in yaml.safe_load(target.read_text())["states"]}
    assert written["C6"]["exit_latency_us"] == states["C6"]["table"]["exit_latency_us"]
    assert written["C1E"]["exit_latency_us"] == 2 * states["C1E"]["table"]["exit_latency_us"]


def test_counters_that_show_what_is_due_are_no_demotion(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = calibrated(capsys, root, "cstate_core/c6-residency 0 950 1000\n")
    assert [note for note in found["notes"] if "hardware" in note] == []


def test_a_package_that_does_not_sleep_is_said(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counters = "cstate_core/c6-residency 0 950 1000\ncstate_pkg/c6-residency 0 20 1000\n"
    notes = calibrated(capsys, root, counters)["notes"]
    assert any("package slept for 2 % of the time" in note for note in notes)
    notes = calibrated(capsys, root, counters.replace(" 20 ", " 900 "))["notes"]
    assert not any("package" in note for note in notes)


def test_without_counters_the_blind_spot_is_said(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = calibrated(capsys, root, "")["notes"]
    assert any("no residency counter of the hardware" in note for note in notes)


def test_wake_ups_that_come_too_fast_are_not_lost(tmp_path: Path) -> None:
    """A wake-up that is sent before the last was received would be waited for in vain."""
    subprocess.run(["make", "-s", "-C", TOP / "tools/calibrate", f"BUILD={tmp_path}"], check=True)
    cpus = sorted(os.sched_getaffinity(0))
    done = subprocess.run(
        [tmp_path / "calibrate-wake", "latency", "ipi", str(cpus[0]), str(cpus[-1]), "1", "20",
         "500"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if "SCHED_FIFO" in done.stderr:
        pytest.skip("threads of SCHED_FIFO need root")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 500 and min(map(int, done.stdout.split())) > 0
