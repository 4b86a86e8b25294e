# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab evacuate`: the CPUs that go on recorded topologies, and refused command lines."""

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.host import evacuation
from cpuidle_lab.host.sysfs import Tree, cpu_list, parse_cpus


def machine(root: Path, packages: int, cores: int, threads: int = 1) -> Tree:
    """Write the topology of a machine whose threads are numbered in a row, as POWER does."""
    cpus = root / "sys/devices/system/cpu"
    per_package = cores * threads
    count = packages * per_package
    for cpu in range(count):
        core, package = cpu // threads * threads, cpu // per_package * per_package
        folder = cpus / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        text = cpu_list(range(core, core + threads))
        (folder / "core_cpus_list").write_text(f"{text}\n")
        text = cpu_list(range(package, package + per_package))
        (folder / "package_cpus_list").write_text(f"{text}\n")
    (cpus / "online").write_text(f"0-{count - 1}\n")
    (cpus / "isolated").write_text("\n")
    return Tree(root)


def wish(pct: int = 100, cpus: Sequence[int] = ()) -> evacuation.Wish:
    return evacuation.Wish(pct, tuple(cpus))


@pytest.mark.parametrize(
    ("pct", "go"), [(100, ""), (87, "7"), (75, "6-7"), (62, "5-7"), (50, "4-7")]
)
def test_the_rule_of_2009(pct: int, go: str, tmp_path: Path) -> None:
    tree = machine(tmp_path, 2, 4)
    assert cpu_list(evacuation.choose(tree, wish(pct))) == go


def test_threads_go_together(tmp_path: Path) -> None:
    tree = machine(tmp_path, 2, 4, 8)
    assert cpu_list(evacuation.choose(tree, wish(87))) == "56-63"


def test_isolated_and_efficient_cpus(tmp_path: Path) -> None:
    tree = machine(tmp_path, 1, 8)
    folder = tree.path("/sys/devices/system/cpu")
    (folder / "isolated").write_text("7\n")
    assert evacuation.choose(tree, wish(75)) == [5, 6]
    for cpu in range(4, 8):
        (folder / f"cpu{cpu}" / "cpu_capacity").write_text("400\n")
    assert evacuation.choose(tree, wish(75)) == [2, 3]
    assert evacuation.choose(tree, wish(cpus=[7])) == [7]


def test_cpus_that_cannot_go(tmp_path: Path) -> None:
    tree = machine(tmp_path, 1, 4)
    for cpus in ([9], [0, 1, 2, 3]):
        with pytest.raises(UserError):
            evacuation.choose(tree, wish(cpus=cpus))


@pytest.mark.parametrize("text", ["", "0", "0-3", "1,3,5-7"])
def test_lists_survive(text: str) -> None:
    assert cpu_list(parse_cpus(text)) == text


@pytest.mark.parametrize("text", ["x", "1-", "-1", "3-1", "1;2", "1 2"])
def test_lists_that_are_none(text: str) -> None:
    with pytest.raises(ValueError):
        parse_cpus(text)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--max-capacity", "0"],
        ["--max-capacity", "101"],
        ["--cpu-list", "3-1"],
        ["--cpu-list", "1", "--duration", "0"],
        ["--cpu-list", "1", "--duration", "nan"],
        ["--cpu-list", "1", "--duration", "1e300"],
        ["--cpu-list", "1", "--duration", "1", "--", "true"],
        ["--cpu-list", "1", "--method", "hotplug"],
    ],
)
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["evacuate", *words])
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_dry_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(tmp_path, 2, 4)
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(tmp_path))
    assert main(["evacuate", "--max-capacity", "50", "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"method": "module", "evacuated_cpus": "4-7", "count": 4}


def test_without_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(tmp_path, 2, 4)
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(tmp_path))
    assert main(["evacuate", "--max-capacity", "50", "--", "true"]) == 1
    assert "not loaded" in capsys.readouterr().err
    assert main(["evacuate", "--max-capacity", "50", "--method", "cpuset", "--", "true"]) == 1
    assert "cgroup v2" in capsys.readouterr().err


def test_the_guardian_outlives_its_master(tmp_path: Path) -> None:
    """The partition goes when the pipe ends; here it is a folder of plain files."""
    partition, top = tmp_path / "partition", tmp_path / "top"
    partition.mkdir()
    top.mkdir()
    (top / "cgroup.procs").touch()
    command = ["sh", "-c", evacuation.GUARDIAN, "sh", str(partition), str(top)]
    guardian = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert guardian.stdin is not None
    time.sleep(0.5)  # until it ignores signals
    guardian.terminate()
    assert partition.exists()
    guardian.stdin.close()
    guardian.wait(10)
    # rmdir cannot remove plain files, which cgroupfs does not count.
    assert (partition / "cpuset.cpus.partition").read_text() == "member\n"
