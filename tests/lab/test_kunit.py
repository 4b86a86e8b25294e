# SPDX-License-Identifier: GPL-2.0
"""The governors' test cases run in a kernel with KUnit and all checkers, from the same sources."""

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from cpuidle_lab.lab import LabRun, built, run_lab

TOP = Path(__file__).resolve().parents[2]
FLAVOUR = "debug"
pytestmark = [pytest.mark.lab, pytest.mark.full, pytest.mark.own_kernel(FLAVOUR)]
# Messages of a kernel about any module that is not its own, and about any tests.
EXPECTED = ("loading out-of-tree module taints kernel", "module verification failed", "kunit")

SCRIPT = """
. /lab/functions
insmod /lab/cpuidle_lab_kunit.ko || fail "the cases cannot be loaded: $(dmesg | tail -n 1)"
for each in /sys/kernel/debug/kunit/*/results; do cat $each; done >/results/ktap
rmmod cpuidle_lab_kunit
"""


def build_module(folder: Path) -> bytes:
    """Build the cases for the kernel; return the module."""
    for name in ("governors", "kunit", "module/evacuate/policy"):
        shutil.copytree(TOP / name, folder / name, ignore=shutil.ignore_patterns("*.o", ".*"))
    for name in ("Kbuild", "Makefile", "VERSION"):
        shutil.copy(TOP / name, folder)
    command = ["make", "-C", str(folder), f"KDIR={built.build_tree(FLAVOUR)}", "kunit-modules"]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    assert "warning" not in made.stderr, made.stderr
    (module,) = folder.glob("*.ko")
    assert module.name == "cpuidle_lab_kunit.ko"
    return module.read_bytes()


def cases_in_userspace() -> Counter[str]:
    """Return how many cases each suite has in the userspace runner."""
    runner = TOP / "build/unit/asan/run-kunit"
    subprocess.run(["make", "-s", "-C", TOP / "kunit"], check=True)
    listed = subprocess.run([runner, "--list"], capture_output=True, text=True, check=True).stdout
    suites = Counter(line.partition(".")[0] for line in listed.splitlines())
    # A former governor is in the replay library alone.
    del suites["wteo_rfc"]
    return suites


def read_ktap(text: str) -> tuple[Counter[str], list[str]]:
    """Return how many cases each suite passed, and the lines of all that did not."""
    passed: Counter[str] = Counter()
    bad = []
    suite = ""
    for line in text.splitlines():
        if name := re.match(r"\s*# Subtest: (\w+)", line):
            suite = name[1]
        elif re.match(r"\s*not ok|.*# SKIP", line):
            bad.append(line)
        elif re.match(r"\s+ok \d+ ", line):
            passed[suite] += 1
    return passed, bad


def test_every_case_passes_in_the_kernel(tmp_path: Path) -> None:
    run = LabRun(
        script=SCRIPT,
        kernel=FLAVOUR,
        cpus=1,
        with_modules=False,
        files={"/lab/cpuidle_lab_kunit.ko": build_module(tmp_path / "source")},
        time_limit_s=1800,
    )
    result = run_lab(run, tmp_path / "results").check()
    passed, bad = read_ktap((result.files / "ktap").read_text())
    assert not bad
    assert passed == cases_in_userspace()
    assert sum(passed.values()) > 100
    said = [line for line in result.complaints() if not any(text in line for text in EXPECTED)]
    assert said == []
