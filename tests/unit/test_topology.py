# SPDX-License-Identifier: GPL-2.0
"""Packages, clusters and cores of the lab's machine: what QEMU is told, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.lab import LabRun, run_lab
from cpuidle_lab.lab.machine import VirtualMachine

INTEL = "vendor=GenuineIntel"


@pytest.fixture
def machine(tmp_path: Path) -> VirtualMachine:
    """Return a machine of 16 CPUs that cannot boot."""
    none = tmp_path / "none"
    return VirtualMachine(
        kernel=none, root=none, disk=none, console=none, cpus=16, memory_mib=64, seed=1,
        real_time=True, time_limit_s=1, emulator=("false",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "divided", "intel"),
    [
        ({}, "16,sockets=1,threads=1", False),
        ({"packages": 2, "threads": 4}, "16,sockets=2,threads=4", True),
        ({"cluster": 4}, "16,sockets=1,threads=1,modules=4", True),
        ({"packages": 2, "threads": 2, "cluster": 4}, "16,sockets=2,threads=2,modules=2", True),
    ],
)
def test_qemu_is_told_the_topology(
    machine: VirtualMachine, changes: dict[str, Any], divided: str, intel: bool
) -> None:
    command = replace(machine, **changes).command()
    assert command[command.index("-smp") + 1] == divided
    assert (INTEL in command[command.index("-cpu") + 1]) == intel
    assert any("topology=module" in word for word in command) == ("modules" in divided)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"cpus": 0}, "the machine needs at least one CPU"),
        ({"packages": 3}, "each package needs the same number of CPUs"),
        ({"threads": 3}, "each core needs the same number of CPUs"),
        ({"cluster": 3}, "each cluster needs the same number of whole cores"),
        ({"cluster": 32}, "each cluster needs the same number of whole cores"),
        ({"cluster": -4}, "each cluster needs the same number of whole cores"),
        ({"threads": 4, "cluster": 2}, "each cluster needs the same number of whole cores"),
    ],
)
def test_a_division_that_leaves_a_rest_is_refused_before_anything_is_made(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        run_lab(LabRun("", **{"cpus": 16, **changes}), tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_the_command_has_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "--cpus", "8", "--packages", "1", "--threads", "2", "--cluster", "3"]) == 2
    assert "each cluster needs the same number of whole cores" in capsys.readouterr().err
