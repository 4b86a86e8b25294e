# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab evacuate` in a guest, and a CPU on which the kernel injects idle time."""

from pathlib import Path

import pytest

from cpuidle_lab.host import evacuation
from cpuidle_lab.lab import LabResult
from tests.lab.extra import replaced
from tests.lab.guest_python import PYTHON, command_files, guest_ctypes
from tests.lab.test_evacuate import boot, lines

pytestmark = [pytest.mark.lab, pytest.mark.full]

TOP = Path(__file__).resolve().parents[2]

MAIN = """
import signal, sys
from cpuidle_lab import cli
# A shell's background jobs ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(cli.main())
"""

# The module's list of CPUs, or that of the partition.
TOOL = f"""
mount -t cgroup2 none /sys/fs/cgroup
export PYTHONPATH=/lab/tools
partition={evacuation.PARTITION}
tool() {{ {PYTHON} /lab/main.py evacuate "$@"; }}
state() {{
    if [ $1 = module ]; then gone; else cat $partition/cpuset.cpus 2>/dev/null; fi
}}
until_state() {{
    for _ in $(seq 200); do
        [ "$(state $1)" != "$2" ] || return 0
        usleep 50000
    done
    return 1
}}
for method in module cpuset; do
    ask=$partition/cpuset.cpus
    [ $method = cpuset ] || ask=$e/evacuated_cpus
    tool --max-capacity 50 --method $method -- sh -c "cat $ask >/tmp/during; exit 5"
    echo "$method.code: $?"
    echo "$method.during: $(cat /tmp/during)"
    echo "$method.after: $(state $method)"
    for signal in TERM INT KILL; do
        say "$method $signal"
        {PYTHON} /lab/main.py evacuate --max-capacity 50 --method $method -- sleep 600 &
        until_state $method 2-3 || echo "taken: no effect by $method"
        until_runs sleep
        kill -$signal $!
        wait $!
        echo "$method.$signal.code: $?"
        until_state $method "" || echo "taken: left by $method after $signal"
        echo "$method.$signal.sleeps: $(pidof sleep | wc -w)"
        killall -q -9 sleep {PYTHON}
        taskset -c 3 true || echo "taken: CPU 3 is gone"
    done
done
"""

INJECT = """
set_pct 50
sleep 1
load cil_injects cpu=3
sleep 2
slices=$(stat_of 3 slices) others=$(stat_of 2 slices)
sleep 3
echo "injected.slices: $(($(stat_of 3 slices) - slices))"
echo "injected.others: $(($(stat_of 2 slices) - others))"
echo "injected.count: $(stat_of 3 injection)"
rmmod cil_injects
sleep 4
slices=$(stat_of 3 slices)
sleep 1
echo "free.slices: $(($(stat_of 3 slices) - slices))"
# A CPU that comes back is held: its thread for injection has only been unparked.
echo 0 >$cpus/cpu3/online
echo 1 >$cpus/cpu3/online
slices=$(stat_of 3 slices) count=$(stat_of 3 injection)
sleep 1
echo "online.slices: $(($(stat_of 3 slices) - slices))"
echo "online.count: $(($(stat_of 3 injection) - count))"
set_pct 100
"""

CHANGES = (
    replaced("Kbuild", "obj-$(CONFIG_CPUIDLE_LAB) += cpuidle_lab.o\n",
             "obj-$(CONFIG_CPUIDLE_LAB) += cpuidle_lab.o\nobj-m += cil_injects.o\n")
    | replaced("dkms.conf", 'BUILT_MODULE_NAME[1]="cpuidle_emul"',
               'BUILT_MODULE_NAME[2]="cil_injects"\n\tDEST_MODULE_LOCATION[2]="/updates/dkms"\n'
               '\tBUILT_MODULE_NAME[1]="cpuidle_emul"')
    | {"cil_injects.c": (TOP / "tests/lab/injects/injects.c").read_text()}
)  # fmt: skip


def order() -> dict[str, bytes]:
    """Return the order of CPUs for the guest, which has no compiler, with its source."""
    library = evacuation.library()
    paths = [*(TOP / name for name in evacuation._SOURCES), library]
    return {f"lab/{path.relative_to(TOP)}": path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> LabResult:
    files = command_files(MAIN) | guest_ctypes() | order()
    output = tmp_path_factory.mktemp("tool") / "results"
    return boot(TOOL + INJECT, output, files=files, changes=CHANGES, memory_mib=1024)


@pytest.fixture(scope="module")
def said(result: LabResult) -> dict[str, str]:
    return lines(result)


@pytest.mark.parametrize("method", evacuation.METHODS)
def test_cpus_come_back_at_the_end_and_at_a_signal(said: dict[str, str], method: str) -> None:
    assert said[f"{method}.code"] == "5"
    assert said[f"{method}.during"] == "2-3"
    assert said.get(f"{method}.after", "") == ""
    codes = {name: said[f"{method}.{name}.code"] for name in ("TERM", "INT", "KILL")}
    assert codes == {"TERM": "143", "INT": "130", "KILL": "137"}
    # The command ends with the tool, unless that could do nothing about it.
    left = [said[f"{method}.{name}.sleeps"] for name in ("TERM", "INT", "KILL")]
    assert left == ["0", "0", "1"]


def test_a_cpu_with_injected_idle_time_is_released(said: dict[str, str]) -> None:
    assert said["injected.slices"] == "0"
    assert int(said["injected.others"]) > 50
    assert int(said["injected.count"]) >= 2
    assert int(said["free.slices"]) > 20


def test_a_cpu_that_came_online_is_held(said: dict[str, str]) -> None:
    assert int(said["online.slices"]) > 20
    assert said["online.count"] == "0"
