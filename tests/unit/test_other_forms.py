# SPDX-License-Identifier: GPL-2.0
"""Text of other programs that no reader takes: each form is named, with what to do."""

import gzip
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording import columns
from cpuidle_lab.recording.formats import other

# Text of other programs, which lacks CPUs, clocks or columns with names.
UNREAD = {
    "power_start, power_end": " <idle>-0  [000]  10.000000: power_start: type=1 state=1 cpu_id=0\n"
    " <idle>-0  [000]  10.500000: power_end: cpu_id=0\n",
    "`perf trace`": "     0.000 swapper/0 power:cpu_idle(state: 1, cpu_id: 3)\n"
    "     0.134 swapper/0 power:cpu_idle(state: 4294967295, cpu_id: 3)\n",
    "bpftrace": "Attaching 1 probe...\n706720061234 3 1\n706720561234 3 4294967295\n",
    "a list of KernelShark": "#\tCPU\tTime Stamp\tTask\tPID\tLatency\tEvent\tInfo\n"
    "0\t0\t70.672006\t<idle>\t0\td..1.\tpower/cpu_idle\tstate=1 cpu_id=0\n",
    "LTTng, by babeltrace": "[12:30:01.123456789] (+0.000001000) host power_cpu_idle: "
    "{ cpu_id = 0 }, { state = 1, cpu_id = 0 }\n",
    "perf script without CPUs": "swapper     0    70.672006:   power:cpu_idle: state=1 cpu_id=0\n",
    "CSV": "time,cpu,event,state\n70.672006,0,cpu_idle,1\n70.673006,0,cpu_idle,4294967295\n",
}


# The same of other versions and settings.
@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("`perf trace`", " 5021.342 ( 0.003 ms): :0/0 power:cpu_idle(state: 1, cpu_id: 3)\n"),
        ("`perf trace`", "     0.000 power:cpu_idle:state=4294967295 cpu_id=0)\n"),
        ("bpftrace", "Attached 3 probes\n@[0]: 12\n"),
        ("bpftrace", "\n\n@states[1]: 14\n@states[4294967295]: 15\n"),
        ("a list of KernelShark", "7 0 70.672006 <idle> 0 d..1. power/cpu_idle state=1 cpu_id=0\n"),
        ("CSV", "Timestamp;CPU;C-State;Duration\n70,672006;0;1;100\n70,673006;0;2;200\n"),
        ("CSV", "ts\tcpu\tcpu_idle\n1\t0\t1\n2\t0\t4294967295\n"),
        ("perf script without CPUs", "swapper 0 70,672006:  1 cpu_idle: state=1 cpu_id=0\n"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_form_of_another_program_is_named(
    tmp_path: Path, form: str, text: str, is_packed: bool
) -> None:
    path = tmp_path / "given"
    path.write_bytes(gzip.compress(text.encode()) if is_packed else text.encode())
    expected = next(one.sentence for one in (*other.OTHERS, other.CSV) if one.name == form)
    with pytest.raises(UserError) as refused, columns.opened(path):
        pass
    assert refused.value.message == f"{path}: {expected}"
