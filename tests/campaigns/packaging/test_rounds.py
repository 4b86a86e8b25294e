# SPDX-License-Identifier: GPL-2.0
"""On clean Debian machines: install, upgrade the kernel, upgrade, remove; nothing is left.

The machines are roots without a running kernel of their own; what a running governor says to an
upgrade and to a removal is in test_running.py.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import roots

VERSION = roots.VERSION
NEWER = f"{VERSION}.1"
Round = Callable[..., tuple[Path, str]]

pytestmark = [pytest.mark.full, pytest.mark.lab]

machines = pytest.mark.parametrize("machine", roots.MACHINES.values(), ids=roots.MACHINES)


def answers(output: str) -> dict[str, list[str]]:
    """Return the lines "name: value" of a script's output, by name."""
    found: dict[str, list[str]] = {}
    for line in output.splitlines():
        name, colon, value = line.partition(": ")
        if colon and " " not in name:
            found.setdefault(name, []).append(value)
    return found


def installed(said: dict[str, list[str]], moment: str) -> dict[str, set[str]]:
    """Return the modules installed at a moment, by kernel, with the version if they state one."""
    kernels: dict[str, set[str]] = {}
    for line in said.get(f"{moment}.module", []):
        kernel, name, *version = line.split()
        kernels.setdefault(kernel, set()).add(" ".join([name.split(".ko")[0], *version]))
    return kernels


def both(version: str, *kernels: str) -> dict[str, set[str]]:
    """Return what `installed` must say: both modules, of one version, for each of some kernels."""
    names = ("cpuidle_emul", "cpuidle_lab")
    return {kernel: {f"{name} {version}" for name in names} for kernel in kernels}


def left_behind(control: Path, after: Path) -> set[str]:
    """Return the lines by which two snapshots differ."""
    before, now = (set(path.read_text().splitlines()) for path in (control, after))
    assert len(before) > 1000
    return before ^ now


@machines
def test_dkms(machine: roots.Machine, trees: Path, in_root: Round) -> None:
    root = roots.root(machine)
    control, _ = in_root(root, "control-round.sh", None)
    shared, output = in_root(root, "dkms-round.sh", trees, root.old, VERSION, NEWER)
    said = answers(output)
    assert installed(said, "installed") == both(VERSION, root.old)
    assert installed(said, "kernel_upgraded") == both(VERSION, root.old, root.new)
    assert installed(said, "upgraded") == both(NEWER, root.old, root.new)
    assert installed(said, "old_removed") == both(NEWER, root.old, root.new)
    assert "removed.status" not in said
    assert left_behind(control / "control", shared / "after") == set()


@machines
def test_packages(machine: roots.Machine, packages: Path, in_root: Round) -> None:
    root = roots.root(machine)
    control, _ = in_root(root, "control-round.sh", None)
    shared, output = in_root(root, "deb-round.sh", packages, root.old, VERSION, NEWER)
    said = answers(output)
    assert installed(said, "installed") == both(VERSION, root.old)
    assert said["latnice"] == [f"latnice {VERSION}"]
    assert said["tools"] == [f"cpuidle-lab {VERSION}"]
    assert int(said["commands"][0]) >= 10
    assert said["unit"] == ["off"]
    assert said["doctor"][0].startswith("This machine ")
    assert installed(said, "kernel_upgraded") == both(VERSION, root.old, root.new)
    assert installed(said, "upgraded") == both(NEWER, root.old, root.new)
    assert said["sources"] == [f"/usr/src/cpuidle-lab-{NEWER}"]
    assert "removed.status" not in said
    assert "removed.module" not in said
    remaining = left_behind(control / "control", shared / "removed")
    assert {line.split()[-1] for line in remaining} >= {"/etc/cpuidle-lab.conf"}
    assert all("/etc/cpuidle-lab.conf" in line or "/var/lib/" in line for line in remaining)
    assert left_behind(control / "control", shared / "after") == set()

    findings = {f["check"]: f for f in json.loads((shared / "doctor.json").read_text())["findings"]}
    assert findings["headers"]["status"] == "ok"
    assert findings["dkms"]["status"] == "ok"


def test_lintian_finds_nothing_but_what_is_overridden(packages: Path) -> None:
    assert (packages / VERSION / "lintian.txt").read_text() == ""
    overridden = (packages / VERSION / "overridden.txt").read_text().splitlines()
    assert [line for line in overridden if line.startswith("O: ")]


REASONS = {
    "old": "cpuidle-lab needs Linux 6.1 or newer, and this is 5.10.0-30-amd64",
    "architecture": "cpuidle-lab is for x86-64, arm64 and ppc64le, and this kernel is for i686",
} | {
    name: f"cpuidle-lab needs a kernel with CONFIG_{name}, which 6.12.1-own lacks"
    for name in (
        "CPU_IDLE",
        "NO_HZ_COMMON",
        "KPROBES",
        "KALLSYMS_ALL",
        "TRACEPOINTS",
        "CGROUPS",
        "RT_MUTEXES",
        "POWERCAP",
    )
}


@pytest.mark.parametrize("name", ["12", "13"])
def test_a_kernel_that_cannot_be_served_is_refused_with_the_reason(
    name: str, trees: Path, in_root: Round
) -> None:
    root = roots.root(roots.MACHINES[name])
    _, output = in_root(root, "refusals.sh", trees, root.old, VERSION)
    said = answers(output)
    for case, reason in REASONS.items():
        assert said[f"{case}.status"] == ["77"]  # for "not to be built", not an error
        assert reason in said[f"{case}.said"]
        assert any("BUILD_EXCLUSIVE" in line for line in said[f"{case}.said"])
        assert said[f"{case}.built"] == ["0"]
    assert installed(said, "afterwards")[root.old] == both(VERSION, root.old)[root.old]


def test_modules_built_before_there_was_a_key_get_signed_as_documented(
    trees: Path, in_root: Round
) -> None:
    root = roots.root(roots.MACHINES["13"])
    _, output = in_root(root, "signing.sh", trees, root.old, VERSION)
    said = answers(output)
    assert said["without_openssl"] == [""]
    assert said["as_documented"] == ["DKMS module signing key"]
    assert said["certificate"] == ["there"]
