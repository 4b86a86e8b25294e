# SPDX-License-Identifier: GPL-2.0
"""The parts of the lab that need no machine: archives, sessions, workloads, virtual machines."""

import io
import re
import signal
import subprocess
import tempfile
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.settings import Setting
from cpuidle_lab.cli import main
from cpuidle_lab.commands import demo
from cpuidle_lab.lab import LabRun, emulator, images, run_lab, workloads
from cpuidle_lab.lab import run as run_module
from cpuidle_lab.lab.archive import CpioWriter
from cpuidle_lab.lab.machine import ALL_CPUS, VirtualMachine, host_cpu_taken
from cpuidle_lab.lab.run import is_real_time
from cpuidle_lab.lab.session import PhasePlan, Session

TOP = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--kernel", "5.10"], "unknown kernel '5.10'"),
        (["--machine", "pdp11"], "unknown machine 'pdp11'"),
        (["--governor", "nosuch"], "unknown governor 'nosuch'"),
        (["--workload", "nothing"], "unknown workload 'nothing'"),
        (["--cpus", "0"], "--cpus must be above 0"),
        (["--set", "wteo.nosuch=1"], "wteo has no tunable 'nosuch'; it has learning_rate, half"),
        (["--set", "gate.nosuch=1"], "it has mode, linger_ms, linger_max_ms, hints_per_user, base"),
        (["--set", "menu.nosuch=1"], "menu has no tunable 'nosuch'; it has none"),
        (["--set", "nosuch.x=1"], "unknown governor 'nosuch'"),
        (["--set", "bpf.t99=1"], "bpf has no tunable 't99'; it has t0, t1"),
        (["--governor", "bpf:wteo", "--set", "wteo.half_life_ms=1"], "are bpf.t0, bpf.t1"),
        (["--workload", "idle", "--", "true"], "give one of"),
        (["--kernel", "6.1", "--cpus", "2"], "starts only one CPU in virtual time"),
        (["--script", "/no/such/file"], "No such file"),
        (["--script", "/bin/sh"], "file that is no text in UTF-8"),
    ],
)
def test_bad_lab_arguments(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def made(name: str, *_: object) -> Path:
        raise AssertionError(f"{name} was made before the arguments were read")

    monkeypatch.setattr(images, "cached", made)
    code = main(["lab", "--output", str(tmp_path / "out"), *arguments])
    assert code == (1 if "file" in sentence else 2)
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e300", "soon"])
@pytest.mark.parametrize(
    ("command", "option"),
    [("lab", "duration"), ("lab", "time-limit"), ("capture", "duration"), ("evacuate", "duration")],
)
def test_a_duration_is_above_0(
    text: str, command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, f"--{option}", text])
    assert end.value.code == USAGE
    assert f"'{text}' is no number of seconds above 0" in capsys.readouterr().err


def test_a_part_of_a_second_ends_a_program_that_takes_whole_ones() -> None:
    wait = replace(workloads.WORKLOADS["idle"], command="sleep DURATION; echo SEED")
    assert wait.shell(2, 7) == "sleep 2; echo 7"
    begin = time.monotonic()
    done = subprocess.run(["sh", "-c", wait.shell(0.1, 7)], stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (0, b"")
    assert time.monotonic() - begin < 0.9


def test_cpio_is_what_cpio_reads() -> None:
    stream = io.BytesIO()
    writer = CpioWriter(stream)
    writer.file("a/b/file", b"content", 0o755)
    writer.symlink("a/link", "b/file")
    writer.close()
    again = io.BytesIO()
    second = CpioWriter(again)
    second.file("a/b/file", b"content", 0o755)
    second.symlink("a/link", "b/file")
    second.close()
    assert stream.getvalue() == again.getvalue()

    data, entries = stream.getvalue(), {}
    while data:
        fields = [int(data[6 + 8 * i : 14 + 8 * i], 16) for i in range(13)]
        assert data[:6] == b"070701"
        name = data[110 : 110 + fields[11] - 1].decode()
        begin = (110 + fields[11] + 3) // 4 * 4
        entries[name] = (oct(fields[1]), data[begin : begin + fields[6]])
        data = data[(begin + fields[6] + 3) // 4 * 4 :]
    assert entries == {
        "a": ("0o40755", b""),
        "a/b": ("0o40755", b""),
        "a/b/file": ("0o100755", b"content"),
        "a/link": ("0o120777", b"b/file"),
        "TRAILER!!!": ("0o0", b""),
    }


def test_session_switches_tunes_and_marks() -> None:
    phases = [
        PhasePlan("wteo", "a", "echo 'x'", [Setting.parse("wteo.learning_rate=50")]),
        PhasePlan("wteo", "b", "true"),
        PhasePlan("menu", "a", "true"),
    ]
    script = Session("icx", phases).script().splitlines()
    assert "load cpuidle_emul machine=icx" in script
    assert script.index("tune wteo learning_rate 50") < script.index("afresh wteo")
    assert "phase a sh -c 'echo '\"'\"'x'\"'\"''" in script
    assert script[-1] == "trace_stop trace.dat"
    assert not any("trace" in line for line in Session("icx", phases, ()).script().splitlines())


def test_every_phase_begins_anew() -> None:
    rate = Setting.parse("wteo.learning_rate=50")
    phases = [
        PhasePlan("wteo", "a", "true"),
        PhasePlan("wteo", "b", "true", [rate]),
        PhasePlan("wteo", "c", "true", [rate]),
        PhasePlan("menu", "d", "true", [rate]),
        PhasePlan("menu", "e", "true"),
    ]
    script = Session("icx", phases, trace_mib=7).script().splitlines()
    assert "trace_start 7 cpuidle_lab" in script
    begun = [at for at, line in enumerate(script) if line.startswith("phase ")]
    assert [script[at].split()[1] for at in begun] == list("abcde")
    # Directly before the workload: between them there is nothing to learn from.
    assert [script[at - 1] for at in begun] == [f"afresh {phase.governor}" for phase in phases]
    assert not any(line.startswith(("governor ", "reset ")) for line in script)


def test_the_kernels_own_governor_is_recorded_by_probes() -> None:
    script = demo.session("skx", 42).script().splitlines()
    end = script.index("trace_stop trace.dat")
    probes = [at for at, line in enumerate(script) if "kprobe_events" in line]
    menu = [at for at, line in enumerate(script) if line == "afresh menu"]
    assert len(probes) == 6 and len(menu) == len(demo.WORKLOADS)
    assert end < min(probes) < max(probes) < min(menu)
    assert sum(line.startswith("phase ") for line in script[:end]) == 4 * len(menu)
    assert script[-1] == "trace_stop stock.dat"


# A governor begins anew where the kernel switches to it, so there must be a switch in any case.
@pytest.mark.parametrize("before", ["ladder", "menu", "wteo"])
@pytest.mark.parametrize("name", ["ladder", "menu", "wteo"])
def test_afresh_is_a_switch(tmp_path: Path, before: str, name: str) -> None:
    (tmp_path / "current_governor").write_text(f"{before}\n")
    code = f". {TOP}/tools/cpuidle_lab/lab/guest/functions; cpuidle={tmp_path}; " + (
        'governor() { echo "$1" >>$cpuidle/switches; }; afresh "$1"'
    )
    subprocess.run(["sh", "-euc", code, "sh", name], check=True)
    switches = [before, *(tmp_path / "switches").read_text().split()]
    assert switches[-1] == name != switches[-2]


def test_workloads_are_complete() -> None:
    for name, workload in workloads.WORKLOADS.items():
        assert re.fullmatch(r"[a-z0-9-]+", name)
        assert not re.search("DURATION|SEED", workload.shell(3, 7))
        if "cyclictest" in name:  # it would hold the latency request at 0
            assert "--default-system" in workload.command


def test_virtual_time_by_default_where_the_kernel_can() -> None:
    assert not is_real_time(LabRun("", kernel="6.12", cpus=4))
    assert not is_real_time(LabRun("", kernel="6.1", cpus=1))
    assert is_real_time(LabRun("", kernel="6.1", cpus=2))
    assert is_real_time(LabRun("", kernel="7.2", real_time=True))


def machine_of(folder: Path, *emulator: str) -> VirtualMachine:
    return VirtualMachine(
        kernel=folder / "kernel",
        root=folder / "root",
        disk=folder / "disk",
        console=folder / "console",
        cpus=2,
        memory_mib=64,
        seed=1,
        real_time=False,
        time_limit_s=30,
        emulator=emulator,
    )


# Only machines in virtual time have turns, and only where there is another CPU to wait for one.
@pytest.mark.parametrize(
    ("changes", "interval"),
    [
        ({}, "100"),
        ({"turn_us": 250}, "250"),
        ({"turn_us": 0}, None),
        ({"cpus": 1}, None),
        ({"real_time": True}, None),
    ],
)
def test_turns_are_bounded_in_virtual_time(
    tmp_path: Path, changes: dict[str, Any], interval: str | None
) -> None:
    machine = machine_of(tmp_path, "/where/loader", "/where/qemu")
    command = replace(machine, **changes).command()
    assert command[:2] == ["/where/loader", "/where/qemu"]
    found = re.findall(r" -object filter-buffer,\S*\binterval=(\d+)", " ".join(command))
    assert found == ([] if interval is None else [interval])


@pytest.mark.parametrize(("real_time", "times"), [(False, 1), (True, 0)])
def test_the_kernel_is_told_the_rate_of_the_virtual_clock(
    tmp_path: Path, real_time: bool, times: int
) -> None:
    machine = machine_of(tmp_path, "/where/loader", "/where/qemu")
    command = replace(machine, real_time=real_time).command()
    words = command[command.index("-append") + 1].split()
    assert words.count("tsc_early_khz=1000000") == times
    assert words.count("no_timer_check") == 1 - times


# An emulator that counts its boots; as its first argument says, the first ones die of an int3.
DYING = """\
echo boot >>{folder}/boots
[ $(wc -l <{folder}/boots) -gt {deaths} ] && exec echo "lab: done" >{folder}/console
echo "lab: begins
[ 4.0] Oops: int3: 0000 [#1] PREEMPT SMP
[ 4.1] Code: 54 55 53 {before} <90> e8 f1" >{folder}/console
"""


@pytest.mark.parametrize(
    ("deaths", "before", "boots", "dies"),
    [(0, "66", 1, False), (2, "66", 3, False), (3, "66", 3, True), (1, "cc", 1, True)],
)
def test_a_machine_that_stale_code_ends_is_booted_again(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    deaths: int,
    before: str,
    boots: int,
    dies: bool,
) -> None:
    """An int3 that is in the memory is the kernel's."""
    script = tmp_path / "emulator"
    script.write_text(DYING.format(folder=tmp_path, deaths=deaths, before=before))
    machine = replace(machine_of(tmp_path, "sh", str(script)), real_time=True)
    said: list[str] = []
    with pytest.raises(UserError, match="int3") if dies else nullcontext():
        machine.run(said.append)
    assert (tmp_path / "boots").read_text().count("boot") == boots
    assert capsys.readouterr().err.count("QEMU ran stale code: booting again") == boots - 1
    consoles = sorted(path.name for path in tmp_path.glob("console.*"))
    assert consoles == [f"console.{n}" for n in range(1, boots)]
    assert ("done" in said) is not dies


def test_sigterm_leaves_no_folder_of_a_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = tmp_path / "part"
    part.write_bytes(b"")
    kernel = SimpleNamespace(version="6.12", image=part, modules=part)

    class Booted:
        """A machine that a signal ends."""

        def __init__(self, root: Path, disk: Path, memory_mib: int, **_options: object) -> None:
            self.root, self.disk, self.memory_mib = root, disk, memory_mib

        def run(self, _say: object) -> None:
            assert list(tmp_path.glob("build/.cpuidle-lab-*"))
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(run_module, "CACHE", tmp_path / "build" / "cache")
    monkeypatch.setattr(run_module, "VirtualMachine", Booted)
    monkeypatch.setattr(emulator, "x86", list)
    monkeypatch.setattr(images, "kernel", lambda _: kernel)
    monkeypatch.setattr(images, "runtime", lambda: part)
    with pytest.raises(KeyboardInterrupt):
        run_lab(
            LabRun("true", cpus=1, with_modules=False, real_time=False, memory_mib=64),
            tmp_path / "build/out",
        )
    assert [path.name for path in (tmp_path / "build").iterdir()] == ["cache"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_machines_in_virtual_time_leave_a_host_cpu_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3, 4, 5})
    monkeypatch.delenv(ALL_CPUS, raising=False)
    said: list[str] = []

    def wait(_: float) -> None:
        assert said
        raise TimeoutError

    monkeypatch.setattr("time.sleep", wait)
    with host_cpu_taken(said.append) as first, host_cpu_taken(said.append) as second:
        assert {first, second} == {4, 5}
        with pytest.raises(TimeoutError), host_cpu_taken(said.append):
            pass
    assert said == ["waits for another machine to end"]
    with host_cpu_taken(said.append) as again:
        assert again == 4
    monkeypatch.setenv(ALL_CPUS, "1")
    with (
        host_cpu_taken(said.append) as first,
        host_cpu_taken(said.append) as second,
        host_cpu_taken(said.append) as third,
    ):
        assert (first, second, third) == (4, 5, 3)
