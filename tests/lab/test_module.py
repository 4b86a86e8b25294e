# SPDX-License-Identifier: GPL-2.0
"""The module comes and goes, and leaves the kernel as it was."""

import re
from pathlib import Path

import pytest

from cpuidle_lab.lab import LabResult, LabRun, run_lab
from tests.lab.kernels import every_kernel

pytestmark = pytest.mark.lab

TOP = Path(__file__).resolve().parents[2]
OURS = ["teo_ng", "menu_ng", "wteo", "gate"]
# Only where the kernel can have it.
PROGRAMS = "bpf"

# Messages of the kernel itself about any module from outside its tree.
TAINT = ("loading out-of-tree module taints kernel", "module verification failed")

# A guest in real time says this if the host did not run it for a while.
STALLED = ("hrtimer: interrupt took",)


def guest(tmp_path: Path, script: str, **options: object) -> LabResult:
    """Run a script in the guest with the lab's functions at hand; it must succeed.

    In real time unless the script has much to do: a boot takes a quarter of the seconds.
    """
    whole = f". /lab/functions\n{script}"
    run = LabRun(script=whole, **{"real_time": True} | options)  # type: ignore[arg-type]
    return run_lab(run, tmp_path / "results").check()


def complaints(result: LabResult) -> list[str]:
    """Return the warnings of the kernel's log but for those that say nothing of our modules."""
    expected = (*TAINT, *STALLED)
    return [line for line in result.complaints() if not any(text in line for text in expected)]


def answers(result: LabResult) -> dict[str, str]:
    """Return the script's lines "name: value"."""
    return dict(line.split(": ", 1) for line in result.output.splitlines() if ": " in line)


@every_kernel
def test_loading_changes_nothing_but_the_list(kernel: str, tmp_path: Path) -> None:
    result = guest(
        tmp_path,
        """
        load cpuidle_emul machine=skx
        ask() { echo "$1.list: $(cat $cpuidle/available_governors)"
                echo "$1.current: $(cat $cpuidle/current_governor)"; }
        ask before
        echo "taint.before: $(cat /proc/sys/kernel/tainted)"
        load cpuidle_lab
        ask loaded
        echo "taint.loaded: $(cat /proc/sys/kernel/tainted)"
        for each in teo_ng menu_ng wteo gate; do
            governor $each
            sleep 0.05
            rmmod cpuidle_lab 2>&1 | grep -q "in use" || fail "rmmod under $each"
        done
        echo "states: $(cat $knobs/wteo/state/cpu0 | wc -l)"
        governor menu
        rmmod cpuidle_lab
        ask after
        [ -e $knobs ] && fail "debugfs is left behind"
        rmmod cpuidle_emul
        """,
        kernel=kernel,
    )
    said = answers(result)
    loaded = [name for name in said["loaded.list"].split() if name != PROGRAMS]
    assert loaded == said["before.list"].split() + OURS
    assert said["loaded.current"] == said["before.current"] == "menu"
    assert said["after.list"] == said["before.list"]
    assert said["after.current"] == "menu"
    assert said["taint.loaded"] == said["taint.before"]  # the emulator tainted already: O and E


def test_a_governor_of_the_command_line_is_used(tmp_path: Path) -> None:
    result = guest(
        tmp_path,
        """
        load cpuidle_emul machine=skx
        load cpuidle_lab
        echo "loaded: $(cat $cpuidle/current_governor)"
        rmmod cpuidle_lab 2>&1 | grep -q "in use" || fail "rmmod under wteo"
        governor menu
        rmmod cpuidle_lab
        """,
        options=("cpuidle.governor=wteo",),
    )
    assert answers(result)["loaded"] == "wteo"
    assert "governor wteo is in use: cpuidle.governor= wants it" in result.dmesg
    assert complaints(result) == []
    assert complaints(result) == []


@pytest.mark.full
@every_kernel
def test_two_hundred_rounds_leave_nothing(kernel: str, tmp_path: Path) -> None:
    result = guest(
        tmp_path,
        """
        load cpuidle_emul machine=skx
        memory() {
            echo 3 >/proc/sys/vm/drop_caches
            sleep 1
            awk '/^(SUnreclaim|Percpu|VmallocUsed)/ { n += $2 } END { print n }' /proc/meminfo
        }
        round() {
            insmod $module
            for each in teo_ng menu_ng wteo gate; do echo $each >$cpuidle/current_governor; done
            sleep 0.01
            echo menu >$cpuidle/current_governor
            rmmod cpuidle_lab
        }
        module=$(modinfo -n cpuidle_lab)
        for i in $(seq 20); do round; done
        echo "before: $(memory)"
        for i in $(seq 200); do round; done
        echo "after: $(memory)"
        """,
        kernel=kernel,
        real_time=None,
    )
    said = answers(result)
    # KiB; one leaked page or per-CPU block a round would be 800 and more.
    assert int(said["after"]) - int(said["before"]) < 400
    assert complaints(result) == []


@every_kernel
def test_no_reference_is_needed_to_get_away(kernel: str, tmp_path: Path) -> None:
    """Without enabled devices nothing holds the module; it must move off by itself."""
    result = guest(
        tmp_path,
        """
        load cpuidle_lab
        governor wteo               # no driver at all
        rmmod cpuidle_lab || fail "rmmod without a driver"
        echo "no_driver: $(cat $cpuidle/current_governor)"
        load cpuidle_lab
        load cpuidle_emul machine=skx
        governor wteo
        sleep 0.1
        rmmod cpuidle_emul          # the driver goes while wteo is current
        rmmod cpuidle_lab || fail "rmmod after the driver has gone"
        echo "driver_gone: $(cat $cpuidle/current_governor)"
        load cpuidle_emul machine=skx
        sleep 0.2
        for i in $(seq 50); do      # a switch races with rmmod
            load cpuidle_lab
            (for j in 1 2 3 4 5; do echo wteo; echo menu; done | while read g; do
                echo $g >$cpuidle/current_governor; done) 2>/dev/null &
            while ! rmmod cpuidle_lab 2>/dev/null; do :; done
            wait
        done
        echo "raced: $(cat $cpuidle/current_governor)"
        echo "list: $(cat $cpuidle/available_governors)"
        sleep 0.2
        """,
        kernel=kernel,
        real_time=None,
    )
    said = answers(result)
    assert (said["no_driver"], said["driver_gone"], said["raced"]) == ("menu", "menu", "menu")
    assert not {*OURS, PROGRAMS} & set(said["list"].split())
    assert complaints(result) == []


@every_kernel
def test_hotplug_starts_afresh(kernel: str, tmp_path: Path) -> None:
    result = guest(
        tmp_path,
        """
        load cpuidle_emul machine=skx
        load cpuidle_lab
        online() { echo $1 >/sys/devices/system/cpu/cpu1/online; }
        state=$knobs/menu_ng/state/cpu1
        # Intervals of its window that are not the zeros of a new one.
        known() { taskset -c 0 grep '^  [0-9]' $state | tr ' ' '\\n' | grep -c '[1-9]'; }
        echo 128 >$knobs/menu_ng/history_size
        governor menu_ng
        taskset -c 1 sh -c 'for i in $(seq 200); do usleep 3000; done'
        echo "before: $(known)"
        online 0
        grep -q "does not decide" $state || fail "an offline CPU decides"
        online 1
        echo "after: $(known)"
        for i in $(seq 20); do
            for each in wteo gate menu_ng; do governor $each; online 0; online 1; done
        done
        governor menu
        rmmod cpuidle_lab
        """,
        kernel=kernel,
    )
    said = answers(result)
    assert int(said["before"]) > 100
    assert int(said["after"] or 0) < int(said["before"]) / 2
    assert complaints(result) == []


@pytest.mark.full
@every_kernel
def test_suspend_is_no_idle_period(kernel: str, tmp_path: Path) -> None:
    """No decision has the suspension as its outcome, and deciding goes on."""
    result = guest(
        tmp_path,
        """
        load cpuidle_emul machine=skx
        load cpuidle_lab
        governor wteo
        for cpu in 0 1; do taskset -c $cpu sh -c 'while :; do usleep 5000; done' & done
        usleep 500000
        time_us() { cat /sys/devices/system/cpu/cpu0/cpuidle/state3/time; }
        begun=$(time_us)
        trace_start 16 cpuidle_lab:cil_outcome
        for i in 1 2 3; do suspend || fail "no suspend: $(dmesg | tail -n 1)"; usleep 100000; done
        trace-cmd stop
        echo "slept: $(($(time_us) - begun))"
        cp $tracing/trace /results/trace
        """,
        kernel=kernel,
    )
    assert complaints(result) == []
    trace = (result.files / "trace").read_text()
    lengths = [int(n) for n in re.findall(r"entered .* residency_ns=(\d+)", trace)]
    assert len(lengths) > 50
    assert int(answers(result)["slept"]) > 300_000, "the driver's own account has it"
    assert max(lengths) < 150_000_000


@pytest.mark.full
def test_missing_symbol_is_named_and_nothing_stays(tmp_path: Path) -> None:
    source = (TOP / "module/symbols.c").read_text()
    changed = source.replace('"tick_nohz_tick_stopped"', '"tick_nohz_no_such_symbol"')
    assert changed != source
    result = guest(
        tmp_path,
        """
        load cpuidle_emul machine=skx
        modprobe cpuidle_lab 2>/tmp/said && fail "it loads"
        echo "said: $(cat /tmp/said)"
        echo "list: $(cat $cpuidle/available_governors)"
        [ -e $knobs ] && fail "debugfs is left behind"
        [ -e /sys/module/cpuidle_lab ] && fail "the module is left behind"
        exit 0
        """,
        changes={"module/symbols.c": changed},
    )
    assert "Unknown symbol" in answers(result)["said"] or "No such file" in answers(result)["said"]
    assert not {*OURS, PROGRAMS} & set(answers(result)["list"].split())
    ours = [line for line in complaints(result) if "cpuidle_lab" in line]
    assert len(ours) == 1
    assert "tick_nohz_no_such_symbol" in ours[0]


def test_switched_off_cpuidle_is_refused(tmp_path: Path) -> None:
    result = guest(
        tmp_path,
        """
        modprobe cpuidle_lab 2>/tmp/said && fail "it loads"
        [ -e $knobs ] && fail "debugfs is left behind"
        echo "said: $(cat /tmp/said)"
        """,
        options=("cpuidle.off=1",),
    )
    assert "No such device" in answers(result)["said"]
    assert [line for line in complaints(result) if "cpuidle.off=1" in line]


@pytest.mark.full
def test_a_taken_name_is_refused_and_the_others_unwound(tmp_path: Path) -> None:
    """The third governor comes under the name of one of the kernel's."""
    source = (TOP / "module/registry.c").read_text()
    register = "\tint ret = static_call(cil_register)(&governor->kernel);\n"
    taken = '\tif (governor->id == 2)\n\t\tstrcpy(governor->kernel.name, "Ladder");\n'
    changed = source.replace(register, "\tint ret;\n\n" + taken + register.replace("int ", "", 1))
    assert changed != source
    result = guest(
        tmp_path,
        """
        load cpuidle_emul machine=skx
        echo "before: $(cat $cpuidle/available_governors)"
        # modprobe would take "exists" for "loaded already".
        insmod $(modinfo -n cpuidle_lab) 2>/tmp/said && fail "it loads"
        echo "said: $(cat /tmp/said)"
        echo "after: $(cat $cpuidle/available_governors)"
        [ -e $knobs ] && fail "debugfs is left behind"
        sleep 0.1
        """,
        changes={"module/registry.c": changed},
    )
    said = answers(result)
    assert "File exists" in said["said"]
    assert said["after"] == said["before"]


def test_without_debugfs_the_parameters_do(tmp_path: Path) -> None:
    result = guest(
        tmp_path,
        """
        load cpuidle_emul machine=skx
        load cpuidle_lab wteo=learning_rate=77,latency_bias=500 gate=base=teo_ng
        [ -e $knobs ] && fail "debugfs is there after all"
        parameters=/sys/module/cpuidle_lab/parameters
        echo "wteo: $(cat $parameters/wteo)"
        echo "gate: $(cat $parameters/gate)"
        echo "learning_rate=0" 2>/dev/null >$parameters/wteo && fail "0 was accepted"
        echo "learning_rate=55 latency_bias=nonsense" 2>/dev/null >$parameters/wteo &&
            fail "half a line was accepted"
        printf 'a\\033[2Jb=1' 2>/dev/null >$parameters/wteo && fail "a name that is none"
        echo "unchanged: $(cat $parameters/wteo)"
        echo "learning_rate=99 latency_bias=0" >$parameters/wteo
        echo "changed: $(cat $parameters/wteo)"
        governor gate
        sleep 0.1
        governor menu
        rmmod cpuidle_lab
        modprobe cpuidle_lab gate=base=nonsense 2>/dev/null && fail "a base that is not there"
        modprobe cpuidle_lab wteo=nonsense=1 2>/dev/null && fail "a tunable that is not there"
        exit 0
        """,
        options=("debugfs=off",),
    )
    said = answers(result)
    assert {"learning_rate=77", "latency_bias=500"} <= set(said["wteo"].split())
    assert "base=teo_ng" in said["gate"].split()
    assert said["unchanged"] == said["wteo"]
    assert {"learning_rate=99", "latency_bias=0"} <= set(said["changed"].split())
    assert any("no debugfs" in line for line in result.dmesg.splitlines())
    assert r"no tunable a\e[2Jb, or" in result.dmesg
