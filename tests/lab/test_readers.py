# SPDX-License-Identifier: GPL-2.0
"""Any number of readers can replay, each from its first checkpoint on."""

import numpy as np
import pytest

from cpuidle_lab.lab import LabResult, LabRun, run_lab
from cpuidle_lab.recording import columns
from cpuidle_lab.replay.fidelity import fidelity
from cpuidle_lab.replay.policies import recorded_policies

pytestmark = pytest.mark.lab

# Three buffers: the first is enabled first, the second asks for a checkpoint, the third waits.
SCRIPT = """
. /lab/functions
load cpuidle_emul machine=skx
load cpuidle_lab
governor wteo
work() { cyclictest --default-system --quiet --duration 2 --threads 2 --affinity 0-1 \\
    --interval 700 --distance 430 >/dev/null; }
join() { trace-cmd start -B $1 -b 8192 -e cpuidle_lab >/dev/null || fail "no instance $1"; }
join first
work
join asks
echo 1 >$knobs/checkpoint || fail "no checkpoint"
join waits
work
for name in first asks waits; do
    trace-cmd stop -B $name
    trace-cmd extract -B $name -o /results/$name.dat >/dev/null || fail "no trace of $name"
done
for wrong in 0 nonsense ""; do
    echo "$wrong" 2>/dev/null >$knobs/checkpoint && fail "'$wrong' is taken for a request"
done
true
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> LabResult:
    """Record with three readers in one boot."""
    return run_lab(LabRun(script=SCRIPT), tmp_path_factory.mktemp("readers") / "results").check()


# A checkpoint is due this long after the last one, or on request.
PERIOD_NS = 1_000_000_000


def decisions_before(recording: columns.Recording, period_ns: int) -> int:
    """Return how many decisions the CPUs made in the first part of a recording."""
    count = 0
    for cpu in recording.cpus:
        now_ns = np.concatenate([part["now_ns"] for part in recording.periods(cpu, ["now_ns"])])
        # The first decision after the period has the checkpoint before it.
        count += int((now_ns < now_ns[0] + period_ns).sum())
    return count


@pytest.mark.parametrize("name", ["first", "asks", "waits"])
def test_each_reader_replays_from_its_first_checkpoint(session: LabResult, name: str) -> None:
    with columns.opened(session.files / f"{name}.dat") as recording:
        assert recorded_policies(recording) == ["wteo"]
        found = fidelity(recording, "wteo")
        missed = decisions_before(recording, PERIOD_NS)
    assert found.identical == found.compared, found.first
    assert found.compared > 2_000
    # Decisions recorded before it asked: the shell's own.
    assert found.unknowable <= (10 if name == "asks" else missed)
