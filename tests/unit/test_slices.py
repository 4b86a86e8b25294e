# SPDX-License-Identifier: GPL-2.0
"""`evacuate --method cpuset` where systemd runs: a systemctl of the test's own takes the calls."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.host import slices
from cpuidle_lab.host.sysfs import Tree, cpu_list

TOP = Path(__file__).resolve().parents[2]
CPUS = 8
UNITS = ("init.scope", "system.slice", "user.slice")

# Keeps the property of each unit in a file, and the kernel's answer in the cgroup's.
SYSTEMCTL = """#!/bin/sh
echo "$*" >>"{calls}"
case $1 in
show) cat "{state}/$4" ;;
set-property)
    [ ! -e "{state}/$3.fails" ] || {{ echo "Access denied" >&2; exit 1; }}
    value=${{4#AllowedCPUs=}}
    echo "$value" >"{state}/$3"
    [ -e "{state}/$3.ignores" ] || echo "${{value:-0-7}}" >"{cgroups}/$3/cpuset.cpus.effective" ;;
esac
"""


class Host:
    """A machine with eight CPUs that systemd has started; its root is a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tree = Tree(root)
        self.state = root / "state"
        self.calls = root / "calls"
        cgroups = self.tree.path(slices.CGROUPS)
        for folder in (self.state, self.tree.path(slices.SYSTEMD), cgroups / "docker"):
            folder.mkdir(parents=True)
        for name in UNITS:
            (cgroups / name).mkdir()
            (cgroups / name / "cpuset.cpus.effective").write_text("0-7\n")
            (self.state / name).write_text("\n")
        cpus = self.tree.path("/sys/devices/system/cpu")
        for cpu in range(CPUS):
            topology = cpus / f"cpu{cpu}/topology"
            topology.mkdir(parents=True)
            (topology / "core_cpus_list").write_text(f"{cpu}\n")
            (topology / "package_cpus_list").write_text(cpu_list(range(CPUS)))
        for name in ("online", "present"):
            (cpus / name).write_text("0-7\n")
        systemctl = root / "bin/systemctl"
        systemctl.parent.mkdir()
        systemctl.write_text(SYSTEMCTL.format(calls=self.calls, state=self.state, cgroups=cgroups))
        systemctl.chmod(0o755)

    def allowed(self) -> list[str]:
        """Return the property of each unit."""
        return [(self.state / name).read_text().strip() for name in UNITS]

    def effective(self) -> set[str]:
        """Return the CPUs that the units have."""
        folder = self.tree.path(slices.CGROUPS)
        return {(folder / name / "cpuset.cpus.effective").read_text().strip() for name in UNITS}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(tmp_path))
    return made


def test_all_units_lose_the_cpus_and_get_them_back(host: Host) -> None:
    seen = host.root / "seen"
    command = f"cat {host.state}/system.slice >{seen}"
    words = ["--max-capacity", "50", "--method", "cpuset", "--", "sh", "-c", command]
    assert main(["evacuate", *words]) == 0
    assert seen.read_text() == "0-3\n"
    assert host.effective() == {"0-7"}
    assert host.allowed() == [""] * 3
    calls = host.calls.read_text().splitlines()
    assert all("--runtime" in call for call in calls if call.startswith("set-property"))
    assert not any("docker" in call for call in calls)


def test_a_list_that_was_there_is_kept_and_comes_back(host: Host) -> None:
    (host.state / "user.slice").write_text("2-3 6\n")
    with slices.without(host.tree, [4, 5, 6, 7]):
        assert host.allowed() == ["0-3", "0-3", "2-3"]
    assert host.allowed() == ["", "", "2-3 6"]


def test_a_unit_that_would_have_no_cpu(host: Host) -> None:
    (host.state / "user.slice").write_text("6-7\n")
    with pytest.raises(UserError, match="may use no other CPU"), \
            slices.without(host.tree, [6, 7]):  # fmt: skip
        pass
    assert host.allowed() == ["", "", "6-7"]


@pytest.mark.parametrize(
    ("fault", "said"), [("fails", "Access denied"), ("ignores", "keeps its CPUs")]
)
def test_a_unit_that_does_not_follow(
    host: Host, monkeypatch: pytest.MonkeyPatch, fault: str, said: str
) -> None:
    """The units changed before the one that fails are changed back."""
    monkeypatch.setattr(slices, "_TAKES_EFFECT_S", 0.05)
    (host.state / f"user.slice.{fault}").touch()
    with pytest.raises(UserError, match=said), slices.without(host.tree, [7]):
        pass
    assert host.allowed()[:2] == ["", ""]
    assert host.effective() == {"0-7"}


def test_one_at_a_time(host: Host) -> None:
    with slices.without(host.tree, [7]):
        with pytest.raises(UserError, match="another evacuation"), \
                slices.without(host.tree, [6]):  # fmt: skip
            pass
        assert host.allowed() == ["0-6"] * 3
    assert host.allowed() == [""] * 3


def test_a_machine_without_units(host: Host) -> None:
    for name in UNITS:
        (host.tree.path(slices.CGROUPS) / name / "cpuset.cpus.effective").unlink()
        (host.tree.path(slices.CGROUPS) / name).rmdir()
    with pytest.raises(UserError, match="no unit"), slices.without(host.tree, [7]):
        pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_restores(host: Host, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "cpuidle_lab", "evacuate", "--cpu-list", "7"]
    environment = {**os.environ, "PYTHONPATH": str(TOP / "tools")}
    tool = subprocess.Popen([*command, "--method", "cpuset"], env=environment)
    _wait_for(lambda: host.effective() == {"0-6"})
    tool.send_signal(number)
    code = tool.wait(20)
    assert code == {signal.SIGINT: 0, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
    _wait_for(lambda: host.allowed() == [""] * 3 and host.effective() == {"0-7"})


def _wait_for(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.02)
