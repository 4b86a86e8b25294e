# SPDX-License-Identifier: GPL-2.0
"""Governors and drivers of other modules go away; nothing of ours refers to them, or they to us."""

from pathlib import Path

import pytest

from cpuidle_lab.lab import LabResult, LabRun, run_lab
from tests.lab.extra import extra_module, replaced

pytestmark = pytest.mark.lab

OTHER = Path(__file__).parent / "goes/goes.c"


# The kernel makes a governor current before it enables it on each CPU. Between the two a CPU that
# wakes up comes to its reflect; here each enabling calls it.
EARLY = "\tlocal_irq_disable();\n\tcil_glue_reflect(dev, 0);\n\tlocal_irq_enable();\n"
CHANGES = extra_module(OTHER) | replaced(
    "module/glue.c",
    "\t/* No reader may see the policy's state before it is initialised. */\n",
    EARLY,
)

SCRIPT = """
. /lab/functions
load cpuidle_emul machine=skx
load cpuidle_lab
load cil_goes
tune gate base goes
governor gate
usleep 50000
governor menu
tune gate base menu
rmmod cil_goes || fail "the base is held"
governor gate
usleep 50000
governor menu

# The base goes while gate is not current: ours decides in its place, until it is back.
load cil_goes
tune gate base goes
rmmod cil_goes || fail "the base is held"
echo "gone.base: $(cat $knobs/gate/base)"
governor gate
usleep 50000
governor menu
load cil_goes
governor gate
usleep 50000
governor menu
rmmod cil_goes

# It comes back while gate is current, and decides as soon as it is named.
governor gate
load cil_goes
tune gate base goes
usleep 50000
echo "back.decisions: $(cat /sys/module/cil_goes/parameters/decisions)"
governor menu
tune gate base menu
rmmod cil_goes
rmmod cpuidle_emul

# The driver brings its governor, and ours is the one to return to.
governor wteo
load cpuidle_emul machine=skx governor=menu
echo "driver.current: $(cat $cpuidle/current_governor)"
usleep 50000
rmmod cpuidle_lab || fail "the governor to return to holds the module"
rmmod cpuidle_emul
echo "left.current: $(cat $cpuidle/current_governor)"
load cpuidle_emul machine=skx
usleep 50000

# Where ours stays, the kernel returns to it.
load cpuidle_lab
governor teo_ng
rmmod cpuidle_emul
load cpuidle_emul machine=skx governor=menu
echo "again.current: $(cat $cpuidle/current_governor)"
rmmod cpuidle_emul
echo "back.current: $(cat $cpuidle/current_governor)"
governor menu
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> LabResult:
    """Let them come and go in one boot."""
    run = LabRun(script=SCRIPT, changes=CHANGES, real_time=True)
    return run_lab(run, tmp_path_factory.mktemp("others") / "results").check()


def test_nothing_is_called_that_is_gone(session: LabResult) -> None:
    foreign = ("out-of-tree module", "module verification failed", "hrtimer: interrupt took")
    assert [line for line in session.complaints() if not any(t in line for t in foreign)] == []


def test_a_base_that_is_gone_is_looked_up_anew(session: LabResult) -> None:
    said = dict(line.split(": ", 1) for line in session.output.splitlines() if ": " in line)
    assert said["gone.base"] == "goes"
    assert int(said["back.decisions"]) > 0


def test_a_displaced_governor_is_not_returned_to_when_it_is_gone(session: LabResult) -> None:
    said = dict(line.split(": ", 1) for line in session.output.splitlines() if ": " in line)
    assert said["driver.current"] == "menu"
    assert said["left.current"] in ("menu", "teo", "ladder", "haltpoll")
    assert said["again.current"] == "menu"
    assert said["back.current"] == "teo_ng"
