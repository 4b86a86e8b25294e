# SPDX-License-Identifier: GPL-2.0
"""The emulated machine's work takes time of a CPU, and CPUs work side by side in virtual time."""

from pathlib import Path

from cpuidle_lab.lab import LabRun, programs, run_lab
from experiments.energy import BUSY, account
from experiments.evacuate.entry import RECORDS

SCRIPT = """
. /lab/functions
load cpuidle_emul machine=skx
work=/sys/kernel/debug/cpuidle_emul/work
for bad in 0 1000001 -1 x ''; do
    echo "$bad" 2>/dev/null >$work && echo "taken: $bad"
done
account=/sys/kernel/debug/cpuidle_emul/energy
cat $account >/results/before
echo 500000 >$work
cat $account >/results/after
echo "eight: $(records -t 8 -S 1)"
for messengers in 1 4; do
    echo "woken $messengers: $(wakebench -w -m $messengers -c 30000 -r 1 | wc -l)"
done
for cpu in 4 5 6 7; do echo 0 >/sys/devices/system/cpu/cpu$cpu/online; done
echo "four: $(records -t 8 -S 1)"
"""


def test_eight_tasks_on_four_cpus_get_half(tmp_path: Path) -> None:
    files = programs.file(RECORDS) | programs.file(programs.WAKEBENCH)
    run = LabRun(script=SCRIPT, cpus=8, files=files)
    result = run_lab(run, tmp_path / "results").check()
    said = dict(line.split(": ", 1) for line in result.output.splitlines() if ": " in line)
    assert "taken" not in said
    rates = {}
    for name in ("eight", "four"):
        records, ns = map(int, said[name].split())
        rates[name] = records * 1e9 / ns
    # A record is 1 ms of a CPU. The first tasks may share a CPU until the scheduler moves them.
    assert 0.93 * 8000 <= rates["eight"] <= 8000
    assert 0.97 * 4000 <= rates["four"] <= 4000
    # Workers that are threads of one program share an open file, and do not wait for each other.
    assert int(said["woken 4"]) >= 3.5 * int(said["woken 1"])
    # The CPU that works is busy, also while it halts. In some boots another one counts as busy for
    # as long, by what is not known.
    texts = [(result.files / name).read_text() for name in ("before", "after")]
    busiest_ns = max(slot.time_ns for slot in account(*texts) if slot.state == BUSY)
    assert 500e6 <= busiest_ns <= 520e6
