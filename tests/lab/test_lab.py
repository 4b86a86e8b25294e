# SPDX-License-Identifier: GPL-2.0
"""The lab boots stock kernels, repeats itself to the last bit, and says what went wrong."""

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.settings import Setting
from cpuidle_lab.cli import main
from cpuidle_lab.figures.intervals import with_energy, with_intervals
from cpuidle_lab.lab import LabRun, run_lab, workloads
from cpuidle_lab.lab.images import FLAVOURS
from cpuidle_lab.lab.run import SCRIPT_BEGINS, read_results
from cpuidle_lab.lab.session import OUR_EVENTS, STOCK, TRACE, PhasePlan, Session, sha256
from cpuidle_lab.recording.trace import load

pytestmark = pytest.mark.lab

TOP = Path(__file__).resolve().parents[2]


def session_hash(directory: Path, seed: int) -> str:
    phases = [
        PhasePlan("wteo", "timer", workloads.find("stress-timer").shell(1, seed)),
        PhasePlan("teo_ng", "pipe", "hackbench --pipe --groups 1 --fds 2 --loops 20"),
    ]
    run = LabRun(Session("skx", phases).script(), seed=seed, real_time=False)
    result = run_lab(run, directory).check()
    return sha256(result.files / TRACE)


def test_same_seed_same_trace_to_the_last_bit(tmp_path: Path) -> None:
    assert session_hash(tmp_path / "1", 7) == session_hash(tmp_path / "2", 7)


@pytest.mark.full
def test_another_seed_is_another_trace(tmp_path: Path) -> None:
    assert session_hash(tmp_path / "1", 7) != session_hash(tmp_path / "2", 8)


@pytest.mark.full
def test_polling_cpus_repeat_themselves(tmp_path: Path) -> None:
    """Two CPUs that halt for microseconds at a time: QEMU alone would not repeat that."""
    script = """
    . /lab/functions
    load cpuidle_emul machine=skx
    load cpuidle_lab
    for state in /sys/devices/system/cpu/cpu[01]/cpuidle/state[123]; do
        echo 1 >$state/disable
    done
    governor teo_ng
    trace_start 64 cpuidle_lab
    cyclictest --default-system --quiet --duration 1 --threads 2 --interval 200
    trace_stop trace.dat
    """
    runs = [run_lab(LabRun(script, real_time=False), tmp_path / str(n)).check() for n in range(3)]
    assert len({sha256(run.files / TRACE) for run in runs}) == 1


@pytest.mark.parametrize("kernel", FLAVOURS)
def test_stock_kernel_runs_the_modules_that_dkms_installed(kernel: str, tmp_path: Path) -> None:
    script = """
    . /lab/functions
    load cpuidle_emul machine=power9
    load cpuidle_lab
    uname -r
    modinfo -n cpuidle_lab
    cat $cpuidle/current_driver
    """
    result = run_lab(LabRun(script, kernel=kernel, real_time=True), tmp_path / "out").check()
    version, path, driver = result.output.split()
    assert version == result.kernel_version
    assert version.startswith(kernel + ".")
    assert f"/lib/modules/{version}/updates/dkms/cpuidle_lab.ko" in path
    assert driver == "cpuidle_emul"


@pytest.mark.full
def test_the_clock_is_the_machines_own(tmp_path: Path) -> None:
    """Two idle minutes and the boot are over within the time limit, and to the same microsecond."""
    script = "sleep 120; cut -d ' ' -f 1 /proc/uptime; cat /proc/interrupts"
    run = LabRun(script, with_modules=False, real_time=False, time_limit_s=110)
    results = [run_lab(run, tmp_path / name).check() for name in ("first", "second")]
    assert results[0].guest_s > 120
    assert results[0].output == results[1].output
    assert results[0].dmesg == results[1].dmesg


@pytest.mark.full
@pytest.mark.parametrize("kernel", ["6.12", "7.2"])
def test_the_kernel_takes_the_rate_of_the_virtual_clock(kernel: str, tmp_path: Path) -> None:
    """It sets the rate of the APIC's timer by that; 7.2 would measure 1000.063 MHz."""
    run = LabRun("dmesg", kernel=kernel, with_modules=False, real_time=False)
    said = run_lab(run, tmp_path / "results").check().output
    # "MHz processor" is what it measures all the same.
    assert "tsc: Detected 1000.000 MHz TSC" in said


def test_results_and_failure_come_back(tmp_path: Path) -> None:
    script = "echo said; echo left >/results/file; echo worse >&2; exit 3"
    result = run_lab(LabRun(script, with_modules=False), tmp_path / "out")
    assert result.status == 3
    assert result.output == "said\nworse\n"
    assert (result.files / "file").read_text() == "left\n"
    with pytest.raises(UserError, match="in the guest: worse"):
        result.check()


def test_panic_is_reported_with_its_reason(tmp_path: Path) -> None:
    run = LabRun("echo c >/proc/sysrq-trigger", with_modules=False, real_time=True)
    died = r"(?s)kernel died .*sysrq triggered crash.*sysrq_handle_crash"
    with pytest.raises(UserError, match=died):
        run_lab(run, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["console", "contents"]


def test_an_early_end_is_reported_with_the_last_words(tmp_path: Path) -> None:
    script = "echo the last words >/dev/console; poweroff -f"
    run = LabRun(script, with_modules=False, real_time=True)
    with pytest.raises(UserError, match=r"ended without leaving its results.*\n.*last words"):
        run_lab(run, tmp_path / "out")
    assert "the last words" in (tmp_path / "out/console").read_text()


def test_a_log_without_its_beginning_is_no_log(tmp_path: Path) -> None:
    """Messages that the kernel's buffer did not hold may have been warnings."""
    for name, text in (("status", "0"), ("output", ""), ("uptime", "1.0")):
        (tmp_path / name).write_text(text)
    (tmp_path / "dmesg").write_text(f"<6>[ 1.0] {SCRIPT_BEGINS}\n<4>[ 2.0] WARNING: x\n")
    assert len(read_results(tmp_path, "6.12", 1).complaints()) == 1
    (tmp_path / "dmesg").write_text("<6>[ 3.0] the rest\n")
    with pytest.raises(UserError, match="beginning of the guest's log is lost"):
        read_results(tmp_path, "6.12", 1)


def test_hang_is_ended_by_the_time_limit(tmp_path: Path) -> None:
    run = LabRun("while :; do :; done", with_modules=False, time_limit_s=12)
    with pytest.raises(UserError, match="did not end within 12 s"):
        run_lab(run, tmp_path / "out")


@pytest.mark.parametrize(
    ("tunable", "sentence"),
    [
        (Setting("wteo", "no_such", "1"), "wteo has no tunable 'no_such'"),
        (Setting("wteo", "learning_rate", "101"), "wteo refuses learning_rate=101"),
    ],
)
def test_bad_tunable_is_one_sentence(tunable: Setting, sentence: str, tmp_path: Path) -> None:
    script = Session("skx", [PhasePlan("wteo", "x", "true", [tunable])], events=()).script()
    with pytest.raises(UserError, match=sentence):
        run_lab(LabRun(script, real_time=True), tmp_path / "out").check()


def test_the_report_holds_the_emulated_energy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The module's account agrees with idle periods and busy time as the trace has them."""
    cpus, busy_mw = 2, 4000  # the emulator's figure for skx
    workload = workloads.find("cyclictest-470us")
    own, menu = (
        PhasePlan(name, workload.name, workload.shell(1, 42)) for name in ("teo_ng", "menu")
    )
    session = Session("skx", [own], (OUR_EVENTS, "irq", "timer"), stock=[menu])
    files = run_lab(LabRun(session.script(), cpus=cpus), tmp_path / "out").check().files
    assert main(["report", "--json", "--together", str(files / STOCK), str(files / TRACE)]) == 0
    stock, run = json.loads(capsys.readouterr().out)["runs"]
    found = run["metrics"]
    # Of menu, which was recorded by probes, all is known that is known of ours.
    unknown = [{key for key, value in each.items() if value is None}
               for each in (stock["metrics"], found)]  # fmt: skip
    assert stock["governor"] == "menu" and unknown[0] <= unknown[1]
    idle_s = sum(state["residency_ns"] for state in run["states"]) / 1e9
    busy_s = cpus * run["seconds"] - idle_s
    assert [(zone["zone"], zone["role"]) for zone in run["zones"]] == [
        ("cpuidle-emul:0", "emulated")
    ]
    assert found["measured_mj"] is None
    assert found["emulated_mj"] == pytest.approx(found["energy_mj"] + busy_s * busy_mw, rel=0.02)
    # cyclictest sleeps by a high-resolution timer.
    assert next(iter(run["wakers"])) == "timer hrtimer_wakeup"
    assert sum(run["wakers"].values()) == sum(state["entries"] for state in run["states"])
    assert found["emulated_mw"] == pytest.approx(found["emulated_mj"] / run["seconds"], rel=0.01)


@pytest.mark.full
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_a_full_disk_is_one_sentence_and_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200m", "none", str(small)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("may not mount")
    try:
        monkeypatch.setattr("cpuidle_lab.lab.run.CACHE", small / "cache")
        script = "head -c 300000000 /dev/urandom >/results/large"
        with pytest.raises(UserError, match=r"results cannot be kept: the disk of .* is full"):
            run_lab(LabRun(script, real_time=True, time_limit_s=300), tmp_path / "out")
    finally:
        subprocess.run(["umount", small], check=True)


def accounts(chosen: Sequence[tuple[str, str]]) -> LabRun:
    """Return a boot that reads the emulated machine's account around each governor's workload.

    A mark stands before and after each reading, so its moment is known to the time between two.
    """
    found = [(governor, workloads.find(name)) for governor, name in chosen]
    few = len(chosen) <= 2  # they fit a machine that has booted
    lines = [". /lab/functions", "load cpuidle_emul machine=skx", "load cpuidle_lab"]
    setups = dict.fromkeys(one.setup for _, one in found if one.setup)
    lines += [". /lab/servers", *setups] if setups else []
    lines += [
        "account() {",
        "    mark account",
        "    cat /sys/kernel/debug/cpuidle_emul/energy >/tmp/account",
        "    mark account",
        '    mv /tmp/account "/results/$1"',
        "}",
        f"trace_start {64 if few else 512} cpuidle_lab",
    ]
    for number, (governor, workload) in enumerate(found):
        lines += [
            f"afresh {governor}",
            f"account {number}-begin",
            f"sh -c {shlex.quote(workload.shell(1, 1))} >/dev/null || fail {workload.name}",
            f"account {number}-end",
        ]
    lines.append(f"trace_stop {TRACE}")
    return LabRun(
        "\n".join(lines),
        files=workloads.files(one for _, one in found),
        memory_mib=LabRun.memory_mib if few else 3072,
        real_time=False,
        time_limit_s=900,
    )


def slots(path: Path) -> dict[tuple[int, str], tuple[int, int, int]]:
    """Return power (mW), entry energy and energy of each CPU's idle states: nJ times entries."""
    rows = [line.split() for line in path.read_text().splitlines()[1:]]
    return {
        (int(cpu), state): (int(mw) * int(ns), int(nj) * int(entries) * 1000, int(entries))
        for cpu, state, mw, nj, ns, entries, _ in rows
        if cpu.isdigit() and state not in ("busy", "offline")
    }


BUSY = [("menu_ng", name) for name in workloads.WORKLOADS if name != "idle"]
# Further apart: the kernel measures some 140 ns around each stay; with 44 clients some stays lack.
APART = {"cyclictest-10us": 0.015, "pgbench-44": 0.0025}


@pytest.mark.parametrize(
    "chosen",
    [
        [("wteo", "cyclictest-500us"), ("menu_ng", "hackbench-pipe")],
        pytest.param(BUSY, marks=pytest.mark.full, id="all"),
    ],
)
def test_modelled_energy_is_the_machines_own_account(
    chosen: list[tuple[str, str]], tmp_path: Path
) -> None:
    """The energy of the recorded idle periods is that of the emulated machine's idle slots.

    The account lies between the energy from mark to mark without its readings, and with them.
    """
    result = run_lab(accounts(chosen), tmp_path / "out").check()
    trace = load(result.files / TRACE)
    periods = with_intervals(trace.periods()).filter("entered")
    energy = with_energy(periods, trace.state_tables[0])
    start, length = pl.col("ts").cast(pl.Float64), pl.col("residency")
    marks = trace.tables["marker"].filter(pl.col("text").str.strip_chars() == "account")
    times = marks["ts"].sort().to_numpy().reshape(len(chosen), 4)

    def modelled_pj(begin: int, end: int) -> float:
        inside = pl.min_horizontal(start + length, end) - pl.max_horizontal(start, begin)
        return float(energy.select(((inside / length).clip(0, 1) * pl.col("cost")).sum()).item())

    for number, (one, moments) in enumerate(zip(chosen, times, strict=True)):
        before, after = (slots(result.files / f"{number}-{x}") for x in ("begin", "end"))
        account_pj = sum(sum(after[key][:2]) - sum(before[key][:2]) for key in after)
        assert sum(after[key][2] - before[key][2] for key in after) > 100, one
        least_pj, most_pj = modelled_pj(*moments[[1, 2]]), modelled_pj(*moments[[0, 3]])
        print(*one, least_pj / account_pj - 1, most_pj / account_pj - 1)
        limit = APART.get(one[1], 0.001)
        assert least_pj <= (1 + limit) * account_pj, one
        assert most_pj >= (1 - limit) * account_pj, one
        assert most_pj - least_pj < 0.02 * account_pj, one


def test_command_line_brings_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out"
    arguments = ["lab", "--governor", "gate", "--set", "gate.base=menu", "--output", str(output)]
    assert main([*arguments, "--json", "--", "sh", "-c", "sleep 0.2; echo $((6 * 7))"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sha256"] == sha256(output / TRACE)
    assert (output / "gate" / "sh").read_text() == "42\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_machine(number: signal.Signals, tmp_path: Path) -> None:
    warm = LabRun("true", with_modules=False, real_time=True)
    run_lab(warm, tmp_path / "warm")  # images are there
    script = tmp_path / "script"
    script.write_text("sleep 1000000000; while :; do :; done")
    output = tmp_path / "out"
    # A shell that runs this in the background may have interrupts ignored.
    command: list[str | Path] = ["env", "--default-signal=INT", TOP / "cpuidle-lab", "lab"]
    command += ["--script", script, "--output", output]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as lab:
        try:
            deadline = time.monotonic() + 120
            while not (machines := descendants(lab.pid, "qemu")) and time.monotonic() < deadline:
                time.sleep(0.2)
            assert machines
            lab.send_signal(number)
            _, said = lab.communicate(timeout=60)
        finally:
            lab.kill()
    assert lab.returncode == 128 + number
    assert "Traceback" not in said
    # A signal while QEMU starts leaves it to the kernel, which ends it with the command.
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in machines):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert not output.exists()


def descendants(pid: int, name: str) -> list[int]:
    """Return the processes below `pid` whose command line contains `name`; some may just end."""
    found = []
    try:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if name in Path(f"/proc/{child}/cmdline").read_text():
                found.append(int(child))
            found += descendants(int(child), name)
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def test_not_root_can_build_the_modules() -> None:
    """The command that gives a build its own mounts works for this user."""
    from cpuidle_lab.base.cache import namespace

    answer = subprocess.run([*namespace(), "id", "-u"], capture_output=True, text=True)
    assert answer.stdout == "0\n", answer.stderr
    assert os.geteuid() == 0 or "--map-root-user" in namespace()
