# SPDX-License-Identifier: GPL-2.0
"""CPU evacuation on a stock kernel: CPUs go and come back, whatever happens meanwhile."""

import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from cpuidle_lab.lab import LabResult, LabRun, run_lab

TOP = Path(__file__).resolve().parents[2]
PACKAGE = TOP / "tools" / "cpuidle_lab"

# Messages of the kernel about a foreign module, a crowded host, and a value refused at load.
FOREIGN = (
    "out-of-tree module",
    "module verification failed",
    "hrtimer: interrupt took",
    "invalid for parameter",
)

FUNCTIONS = """
. /lab/functions
e=$knobs/evacuate
cpus=/sys/devices/system/cpu
gone() { cat $e/evacuated_cpus; }
set_pct() { echo "$1" 2>/dev/null >$e/max_capacity_pct; }
name() { echo "$(cat $e/evacuated_cpus)|$(cat $e/max_capacity_pct)|$(cat $e/evacuate_cpus)"; }
deepest_us() { cat $cpus/cpu$1/cpuidle/state3/time; }
stat_of() { sed -n "s/^cpu$1:.* $2=\\([0-9]*\\).*/\\1/p" $e/stats; }
"""

MODULES = "load cpuidle_emul machine=skx{}\nload cpuidle_lab\n"

BAD = """
set_pct 75
for bad in 0 101 -1 x 50x '' 4294967296; do
    echo "$bad" 2>/dev/null >$e/max_capacity_pct && echo "taken: $bad"
done
# All online CPUs; CPUs that are offline, that do not exist; no list.
echo 0 >$cpus/cpu2/online
for bad in 0,1,3 0-3 2 0,2 4 9999 x 3-1 -1; do
    echo "$bad" 2>/dev/null >$e/evacuate_cpus && echo "taken: $bad"
done
echo 1 >$cpus/cpu2/online
for file in evacuate_latency_us evacuate_slice_us evacuate_share_pct evacuate_backoff_ms \\
    evacuate_order; do
    before=$(cat $e/$file)
    for bad in 0 -1 x 99999999 ''; do
        [ $file = evacuate_order ] && [ "$bad" = 0 ] && bad=sideways
        echo "$bad" 2>/dev/null >$e/$file && echo "taken: $bad in $file"
    done
    [ "$(cat $e/$file)" = "$before" ] || echo "taken: $file changed"
done
for bad in 50 max_capacity_pct= max_capacity_pct=0 evacuate_cpus=0-3 evacuate_cpus x=1 ''; do
    echo "$bad" 2>/dev/null >$e/lease && echo "taken: $bad by lease"
done
echo "bad: $(name)"
echo 0 2>/dev/null >/sys/module/cpuidle_lab/parameters/max_capacity_pct && echo "taken: parameter"
set_pct 100
"""

FOLLOWS = """
for n in 100 75 50 25 1; do
    set_pct $n
    echo "left.$n: $(gone)"
done
set_pct 50
echo 0 >$cpus/cpu3/online; echo "offline.3: $(gone)"
echo 0 >$cpus/cpu1/online; echo "offline.1: $(gone)"
echo 1 >$cpus/cpu3/online; echo 1 >$cpus/cpu1/online; echo "online: $(gone)"
set_pct 100
echo 1-3 >$e/evacuate_cpus; echo "mask: $(gone)"
echo 0 >$cpus/cpu2/online; echo "mask.offline: $(gone)"
echo 1 >$cpus/cpu2/online; echo "mask.online: $(gone)"
echo >$e/evacuate_cpus; echo "mask.empty: $(gone)"
exec 7>$e/lease 8>$e/lease
echo max_capacity_pct=75 >&7; echo evacuate_cpus=1 >&8; echo "leases: $(gone)"
exec 8>&-; echo "lease: $(gone)"
exec 7>&-; echo "no.lease: $(gone)"
sh -c "exec 7>$e/lease; echo max_capacity_pct=50 >&7; kill -9 \\$\\$"
echo "killed: $(gone)"
for device in /sys/class/thermal/cooling_device*; do
    [ "$(cat $device/type)" = cpuidle_lab ] || continue
    echo "cooling.max: $(cat $device/max_state)"
    echo 2 >$device/cur_state; echo "cooling.2: $(gone)"
    echo 4 2>/dev/null >$device/cur_state && echo "taken: state 4"
    echo 0 >$device/cur_state; echo "cooling.0: $(gone)"
done
heat() { echo $1 >/sys/module/cpuidle_emul/parameters/temperature_mc; }
heat 70000
usleep 800000
echo "hot: $(gone)"
heat 40000
usleep 800000
echo "cool: $(gone)"
set_pct 50
for governor in wteo gate menu; do governor $governor; done
echo "governors: $(gone)"
suspend || echo "taken: no sleep"
echo "slept: $(gone)"
"""

AGAIN = """
# With all states but polling disabled a held CPU would spin. A governor of ours sees that
# at its decision of each second, or at a later one where the host has no time for this CPU.
# await NAME VALUE waits until that count of CPU 3 is above the value, at most for 30 s.
await() {
    count=0
    while [ $(stat_of 3 $1) -le $2 ] && [ $count -lt 300 ]; do
        usleep 100000
        count=$((count + 1))
    done
}
disable() {
    before=$(stat_of 3 latency)
    for state in 1 2 3; do echo 1 >$cpus/cpu3/cpuidle/state$state/disable; done
    if [ $1 = gate ]; then await latency $before; else usleep 1500000; fi
    echo "disabled.$1: $(($(stat_of 3 latency) - before))"
    slices=$(stat_of 3 slices)
    for state in 1 2 3; do echo 0 >$cpus/cpu3/cpuidle/state$state/disable; done
    await slices $slices
    before=$(stat_of 3 latency) slices=$(stat_of 3 slices)
    usleep 300000
    echo "enabled.$1: $(($(stat_of 3 latency) - before))"
    echo "held.$1: $(($(stat_of 3 slices) - slices))"
}
governor gate
disable gate
governor menu
disable menu
# The driver's table changes while CPUs are held.
states=/sys/kernel/debug/cpuidle_emul/states
energy() { cat /sys/class/powercap/cpuidle-emul:0/energy_uj; }
for bad in 0 5 -1 x ''; do
    echo "$bad" 2>/dev/null >$states && echo "taken: $bad states"
done
governor gate
before=$(energy)
for count in 2 4 1 4; do
    echo $count >$states || echo "taken: no table of $count"
    [ "$(energy)" -ge "$before" ] || echo "taken: the energy falls"
    before=$(energy)
    slices=$(stat_of 3 slices)
    usleep 200000
    echo "table.$count: $(cat $states) $(ls -d $cpus/cpu3/cpuidle/state* | wc -l) $(gone)"
    echo "table.held.$count: $(($(stat_of 3 slices) - slices))"
done
governor menu
# It is held, let go, and held again.
set_pct 100
usleep 300000
trace_start 2 cpuidle_lab:cil_evacuation cpuidle_lab:cil_forced_idle
set_pct 50
usleep 200000
trace_stop again.dat
trace-cmd report -i /results/again.dat >/results/again
"""

HELD = """
trace_start 8 cpuidle_lab:cil_evacuation cpuidle_lab:cil_forced_idle \\
    cpuidle_lab:cil_evacuate_back_off power:cpu_idle
set_pct 100
set_pct 50
sleep 1
trace_stop held.dat
trace-cmd report -i /results/held.dat >/results/held
from=$(deepest_us 3) slices=$(stat_of 3 slices) held=$(stat_of 3 held_ns)
read -r start _ </proc/uptime
sleep 2
read -r end _ </proc/uptime
to=$(deepest_us 3)
echo "deep.us: $((to - from))"
echo "time.cs: $((${end%.*}${end#*.} - ${start%.*}${start#*.}))"
echo "slices: $(($(stat_of 3 slices) - slices))"
# The latency limit is kept; one that no state keeps releases the CPU.
shallow=$(cat $cpus/cpu3/cpuidle/state2/time)
echo 20 >$e/evacuate_latency_us
sleep 1
echo "shallow.us: $(($(cat $cpus/cpu3/cpuidle/state2/time) - shallow))"
governor gate
echo 1 >$e/evacuate_latency_us
usleep 500000
echo "latency: $(stat_of 3 latency)"
echo 1000000 >$e/evacuate_latency_us
governor menu
usleep 200000
# Work that can run nowhere else has the CPU.
trace_start 4 cpuidle_lab:cil_evacuate_back_off
echo "pinned: $(records -t 1 -S 2 -w 1000 -c 3)"
trace_stop pinned.dat
trace-cmd report -i /results/pinned.dat >/results/pinned
echo "free: $(records -t 2 -S 2 -w 1000)"
set_pct 100
echo "all: $(records -t 2 -S 2 -w 1000)"
"""

LEAVE = """
set_pct 1
rmmod cpuidle_lab || echo "taken: rmmod"
echo "threads: $(ps | grep -c '[c]il_evacuate')"
for cpu in 0 1 2 3; do taskset -c $cpu true || echo "taken: cpu $cpu is gone"; done
load cpuidle_lab max_capacity_pct=50 evacuate_cpus=1
echo "parameters: $(gone)"
modprobe -r cpuidle_lab
modprobe cpuidle_lab max_capacity_pct=0 2>/dev/null && echo "taken: at load"
modprobe cpuidle_lab evacuate_cpus=0-3 2>/dev/null && echo "taken: at load"
true
"""


@cache
def records() -> bytes:
    """Return the program of the experiment, linked statically."""
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "records"
        command = ["gcc", "-std=gnu11", "-O2", "-static", "-pthread", "-o", str(target)]
        subprocess.run([*command, str(TOP / "experiments/evacuate/records.c")], check=True)
        return target.read_bytes()


def boot(script: str, output: Path, thermal: bool = True, **options: object) -> LabResult:
    """Run a script on four CPUs in two packages; the kernel must have nothing to say.

    Args:
        script: for the guest.
        output: folder of the results.
        thermal: emulate a thermal zone; the project's own kernels cannot.
        options: more of the LabRun.
    """
    files = {"usr/bin/records": records(), **options.pop("files", {})}  # type: ignore[dict-item]
    run = LabRun(
        script=FUNCTIONS + MODULES.format(" thermal=1" if thermal else "") + script,
        cpus=4,
        packages=2,
        real_time=True,
        files=files,
        **options,  # type: ignore[arg-type]
    )
    result = run_lab(run, output).check()
    assert [line for line in result.complaints() if not any(t in line for t in FOREIGN)] == []
    return result


def lines(result: LabResult) -> dict[str, str]:
    """Return the script's lines "name: value"."""
    found = dict(line.split(": ", 1) for line in result.output.splitlines() if ": " in line)
    assert not re.findall("^taken: .*", result.output, re.MULTILINE), result.output
    return found


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> LabResult:
    return boot(BAD + FOLLOWS + AGAIN + LEAVE, tmp_path_factory.mktemp("evacuate") / "results")


@pytest.fixture(scope="module")
def said(result: LabResult) -> dict[str, str]:
    return lines(result)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> LabResult:
    """Measure by the machine's own clock: on a crowded host the figures say little."""
    return boot(HELD, tmp_path_factory.mktemp("held") / "results")


@pytest.fixture(scope="module")
def measured(held: LabResult) -> dict[str, str]:
    return lines(held)


def test_bad_input_changes_nothing(said: dict[str, str]) -> None:
    assert said["bad"] == "3|75|"


def test_the_set_follows(said: dict[str, str]) -> None:
    assert [said[f"left.{n}"] for n in (75, 50, 25, 1)] == ["3", "2-3", "1-3", "1-3"]
    assert (said["offline.3"], said["offline.1"], said["online"]) == ("2", "2", "2-3")
    assert (said["mask"], said["mask.offline"], said["mask.online"]) == ("1-3", "1,3", "1-3")
    assert (said["leases"], said["lease"]) == ("1", "3")
    assert (said["cooling.max"], said["cooling.2"]) == ("3", "2-3")
    # The thermal governor goes one step further only while the temperature rises.
    assert said["hot"] == "3"
    assert (said["governors"], said["slept"], said["parameters"]) == ("2-3", "2-3", "1,3")
    assert not {"left.100", "mask.empty", "no.lease", "killed", "cooling.0", "cool"} & {
        name for name, value in said.items() if value
    }


def seconds(line: str) -> float:
    """Return the time of a line of trace-cmd's report."""
    found = re.search(r" (\d+\.\d+): ", line)
    assert found
    return float(found[1])


def test_a_cpu_that_would_spin_is_released(said: dict[str, str]) -> None:
    assert int(said["disabled.gate"]) > 0
    assert int(said["disabled.menu"]) == 0
    for governor in ("gate", "menu"):
        assert int(said[f"enabled.{governor}"]) == 0
        assert int(said[f"held.{governor}"]) > 0


def test_the_table_may_change_while_cpus_are_held(said: dict[str, str]) -> None:
    for count in (1, 2, 4):
        assert said[f"table.{count}"] == f"{count} {count} 2-3"
        # Where a CPU can but poll, it is not held.
        assert (int(said[f"table.held.{count}"]) > 0) == (count > 1)


def test_a_second_evacuation_begins_afresh(result: LabResult) -> None:
    """The last slice of the first one is not told as the first slice of the second."""
    report = (result.files / "again").read_text().splitlines()
    (begin,) = (seconds(line) for line in report if "evacuated=2-3" in line)
    slices = [line for line in report if "forced_idle:" in line and "[003]" in line]
    held_ns = re.search(r"held_ns=(\d+)", slices[0])
    assert held_ns
    assert seconds(slices[0]) - begin >= 0.9e-9 * int(held_ns[1])


@pytest.mark.full
def test_forced_idle_is_seen_by_the_kernels_own_event(held: LabResult) -> None:
    report = (held.files / "held").read_text().splitlines()
    starts = [i for i, line in enumerate(report) if "evacuated=2-3" in line]
    assert starts
    for cpu in (2, 3):
        deep = [line for line in report[starts[-1] :] if f"[{cpu:03}]" in line]
        assert any("cpu_idle:" in line and "state=3" in line for line in deep)
        forced = [line for line in deep if "forced_idle:" in line]
        assert len(forced) > 10
        assert all("limit_ns=1000000000" in line for line in forced)


@pytest.mark.full
def test_evacuated_cpus_are_deep(measured: dict[str, str]) -> None:
    assert int(measured["deep.us"]) >= 0.95 * 10_000 * int(measured["time.cs"])
    assert int(measured["slices"]) > 20


@pytest.mark.full
def test_the_latency_limit_is_kept(measured: dict[str, str]) -> None:
    assert int(measured["shallow.us"]) > 800_000
    assert int(measured["latency"]) > 0


@pytest.mark.full
def test_pinned_work_has_the_cpu(held: LabResult, measured: dict[str, str]) -> None:
    count, taken_ns = map(int, measured["pinned"].split())
    assert count * 1_000_000 >= 0.6 * taken_ns
    report = (held.files / "pinned").read_text()
    # 100 ms, and twice as long each further time: trace-cmd's threads may have come before.
    length = "length_ns=[1248]00000000"
    assert re.search(rf"reason=pinned {length} released=1 pid=\d+ comm=records", report)
    assert "length_ns=200000000" in report


@pytest.mark.full
def test_an_under_used_machine_keeps_its_throughput(measured: dict[str, str]) -> None:
    rates = {name: int(measured[name].split()[0]) for name in ("free", "all")}
    assert rates["free"] >= 0.9 * rates["all"]


def test_unload_leaves_nothing(said: dict[str, str]) -> None:
    assert said["threads"] == "0"
