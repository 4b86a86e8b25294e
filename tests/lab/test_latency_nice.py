# SPDX-License-Identifier: GPL-2.0
"""Schedulers of sched_ext read hints: the kfunc's answers, and where tasks are put by them."""

from pathlib import Path

import pytest

from cpuidle_lab.bpf import build
from cpuidle_lab.lab import LabResult, LabRun, run_lab
from experiments.latency_nice import cells
from tests.unit.bpf_tools import needs_tools

pytestmark = [
    pytest.mark.lab,
    needs_tools,
]

TOP = Path(__file__).parents[2]
CELLS = tuple((one, "light") for one in cells.CONDITIONS if one.name in ("plain", "pack"))

# A hint does not need the gate, and a group's value counts.
ANSWERS = """
ask() {
	what=$1
	shift
	echo "$what: $("$@" cil-bpf call /lab/query.bpf.o limit)"
}
ask none env
ask zero latnice -n 0
ask tolerant latnice -n 19
ask sensitive latnice -n -13
ask limit latnice -l 50us
ask removed latnice -l 50us latnice -r
"""
EXPECTED = {
    "none": -1,
    "zero": -1,
    "tolerant": -2,
    "sensitive": 20_000,
    "limit": 50_000,
    "removed": -1,
}


def run(script: str, kernel: str, output: Path, real_time: bool = False) -> LabResult:
    files = cells.guest_files()
    files["lab/query.bpf.o"] = build.plain(TOP / "tests/proofs/bpf/query.bpf.c")
    lab = LabRun(script=script, kernel=kernel, cpus=cells.CPUS, files=files, real_time=real_time,
                 time_limit_s=1200)  # fmt: skip
    return run_lab(lab, output / "results").check()


def answers(result: LabResult) -> dict[str, int]:
    lines = [line.split(": ") for line in result.output.splitlines() if ": ok returned=" in line]
    return {name: int(answer.removeprefix("ok returned=")) for name, answer in lines}


@pytest.mark.full
def test_tasks_are_put_where_their_hints_say(tmp_path: Path) -> None:
    result = run(cells.script(1, 1, CELLS) + ANSWERS, cells.KERNELS[0], tmp_path)
    assert answers(result) == EXPECTED
    plain, pack = (cells.read_cell(result.files, f"{name}.light") for name in ("plain", "pack"))
    assert pack["asleep_pct"] > plain["asleep_pct"] + 1
    assert pack["power_mw"] < plain["power_mw"]


@pytest.mark.full
def test_a_kernel_without_sched_ext_says_so_and_has_the_hints(tmp_path: Path) -> None:
    head = ". /lab/functions\nload cpuidle_emul machine=skx\nload cpuidle_lab\n"
    result = run(f"{head}{ANSWERS}ls /sys/kernel/sched_ext\n:", "6.12", tmp_path, real_time=True)
    assert answers(result) == EXPECTED
    assert "/sys/kernel/sched_ext: No such file" in result.output
