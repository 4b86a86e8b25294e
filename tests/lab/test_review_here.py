# SPDX-License-Identifier: GPL-2.0
"""`review --here`: both governors as modules of a machine, loaded, compared and removed."""

from pathlib import Path

import pytest

from cpuidle_lab.ab.record import load
from cpuidle_lab.lab import LabResult, LabRun, images, run_lab
from cpuidle_lab.review import here, modules
from tests.lab.guest_python import PYTHON, command_files, guest_ctypes

pytestmark = [pytest.mark.lab, pytest.mark.full]

GOVERNOR, MODULE = "teo@6.12", "cpuidle_teo_6_12"

# As here.play(), which needs more than the guest's Python has: modules are built outside, and runs
# are read there.
MAIN = f"""
import sys
from pathlib import Path
from cpuidle_lab.ab.record import Log
from cpuidle_lab.ab.session import Plan, measure
from cpuidle_lab.host.machine import Host
from cpuidle_lab.review.modules import loaded

machine = Host()
shell = "for i in 1 2 3 4 5; do usleep 100000; done"
plan = Plan(("{GOVERNOR}", "wteo"), 5, (), 1, 0.2, None, ("sh", "-c", shell), None, "lower")
with loaded(machine, [Path("/lab/{MODULE}.ko")]):
    print("meanwhile:", machine.governor(), *sorted(machine.governors()))
    measure(machine, plan, sys.argv, Log(Path("/results/here.jsonl")), lambda text: None)
"""

SCRIPT = f"""
. /lab/functions
load cpuidle_emul machine=skx
load cpuidle_lab
export PYTHONPATH=/lab/tools
state() {{ echo $(cat $cpuidle/current_governor) $(cat $cpuidle/available_governors) $(lsmod | \
    grep -c {MODULE}); }}
echo "before: $(state)"
{PYTHON} /lab/main.py || fail "the comparison failed"
echo "after: $(state)"
insmod /lab/{MODULE}.ko
governor {GOVERNOR}
usleep 100000
rmmod {MODULE} || fail "it cannot be removed"
usleep 100000
echo "removed: $(state)"
"""
# Without cpuidle there is no governor to return to.
OFF = f"""
. /lab/functions
insmod /lab/{MODULE}.ko && fail "it is loaded without a governor to return to"
dmesg | grep {GOVERNOR}
"""


@pytest.fixture(scope="module")
def module() -> dict[str, bytes]:
    """Return the module of a kernel's governor as a file of the guest."""
    made = images.modules(LabRun.kernel, modules.sources([GOVERNOR])).plain / f"{MODULE}.ko"
    return {f"lab/{MODULE}.ko": made.read_bytes()}


@pytest.fixture(scope="module")
def result(module: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> LabResult:
    """Boot once, with the module among the guest's files."""
    files = command_files(MAIN) | guest_ctypes() | module
    output = tmp_path_factory.mktemp("here") / "results"
    return run_lab(LabRun(script=SCRIPT, files=files), output).check()


def test_the_machine_is_as_before(result: LabResult) -> None:
    told = dict(line.split(": ", 1) for line in result.output.splitlines() if ": " in line)
    assert told["before"] == told["after"] == told["removed"]
    assert told["before"].startswith("menu ") and told["before"].endswith(" 0")
    governor, *offered = told["meanwhile"].split()
    # The module's rating is not above that of the governor in use.
    assert governor == "menu" and GOVERNOR in offered
    assert [line for line in result.complaints() if "taints kernel" not in line] == []


def test_runs_of_both_are_compared(result: LabResult) -> None:
    session = load(result.files / here.LOG)
    assert session.governors == (GOVERNOR, "wteo") and len(session.rounds) == 5
    energy, time = here.changes_of(session, "naps")
    assert (energy.figure, time.figure) == ("emulated energy", "time")
    assert len(energy.before) == len(energy.after) == 5 and min(energy.before) > 0


def test_without_a_governor_to_return_to_it_is_not_loaded(
    module: dict[str, bytes], tmp_path: Path
) -> None:
    run = LabRun(script=OFF, files=module, options=("cpuidle.off=1",))
    done = run_lab(run, tmp_path / "results").check()
    assert f"{GOVERNOR}: the kernel has no governor to return to" in done.output
