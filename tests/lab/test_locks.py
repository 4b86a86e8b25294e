# SPDX-License-Identifier: GPL-2.0
"""The module's locks and those of the kernel's files are taken in one order."""

from pathlib import Path

import pytest

from cpuidle_lab.lab import LabRun, run_lab
from tests.lab.hints_guest import FOREIGN, FUNCTIONS, program

pytestmark = [pytest.mark.lab, pytest.mark.full, pytest.mark.own_kernel("debug")]

# Each command takes one lock below another; lockdep compares them, in whatever order they come.
SCRIPT = """
load cpuidle_emul machine=skx
load cpuidle_lab
mkdir $groups/g
echo $$ >$groups/g/cgroup.procs
echo base=menu >/sys/module/cpuidle_lab/parameters/gate
cat /sys/module/cpuidle_lab/parameters/gate
hint group:$groups/g set 5 || echo "refused"
echo $$ >$groups/cgroup.procs
"""


def test_the_right_to_a_group_is_looked_at_without_the_lock(tmp_path: Path) -> None:
    """A storm found the opposite order: parameters take the lock of hints, too."""
    run = LabRun(
        script=FUNCTIONS + SCRIPT,
        kernel="debug",
        real_time=True,
        files={"lab/bin/hint": program("hint")},
    )
    result = run_lab(run, tmp_path / "results").check()
    assert "refused" not in result.output
    said = [line for line in result.complaints() if not any(text in line for text in FOREIGN)]
    assert said == []
