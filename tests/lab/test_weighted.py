# SPDX-License-Identifier: GPL-2.0
"""The module of experiment weighted-teo has a governor that no other module has."""

from pathlib import Path

import pytest

from cpuidle_lab.lab import LabRun, run_lab
from cpuidle_lab.recording import columns
from cpuidle_lab.replay.fidelity import fidelity
from cpuidle_lab.replay.policies import recorded_policies
from experiments.weighted_teo.programs import PATCH, with_patch

pytestmark = [pytest.mark.lab, pytest.mark.full]

SCRIPT = """
. /lab/functions
load cpuidle_emul machine=skx
load cpuidle_lab
echo "list: $(cat $cpuidle/available_governors)"
work() {
    for cpu in 0 1; do taskset -c $cpu cyclictest --default-system -q -D 1 -i 700 & done
    wait
}
trace_start 16 cpuidle_lab
# A choice that is drawn, drawn alike by a twin.
echo "wteo_rfc menu_ng" >$knobs/shadow
afresh wteo_rfc
work >/dev/null
tune wteo_rfc history_size 0
tune wteo_rfc learning_rate 300
work >/dev/null
trace_stop trace.dat
governor menu
rmmod cpuidle_lab || fail "rmmod: $(dmesg | tail -n 1)"
"""


def test_the_patch_decides_and_replay_repeats_it(tmp_path: Path) -> None:
    result = run_lab(LabRun(SCRIPT, changes=with_patch()), tmp_path / "results").check()
    assert PATCH in result.output.split()
    assert [line for line in result.complaints() if "taint" not in line] == []
    with columns.opened(result.files / "trace.dat") as recording:
        assert recorded_policies(recording) == [PATCH]
        (number,) = recording.table("config")["governor"].unique()
        assert number == 3, "as in recordings of modules that had it"
        found = fidelity(recording, PATCH)
        twin = fidelity(recording, PATCH, shadow=True)
    for one in (found, twin):
        assert one.identical == one.compared > 1500, one.first
        assert one.reasons["wteo-sample"] > 100
