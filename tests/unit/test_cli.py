# SPDX-License-Identifier: GPL-2.0
"""The command line, and the parts of the lab that need no machine."""

import errno
import io
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cpuidle_lab import cli
from cpuidle_lab.base import apt, cache, files
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.settings import Setting
from cpuidle_lab.cli import main
from cpuidle_lab.commands import compare, demo, replay
from cpuidle_lab.lab import LabRun, emulator, images, run_lab, workloads
from cpuidle_lab.lab import run as run_module
from cpuidle_lab.lab.archive import CpioWriter
from cpuidle_lab.lab.machine import ALL_CPUS, VirtualMachine, host_cpu_taken
from cpuidle_lab.lab.run import is_real_time
from cpuidle_lab.lab.session import PhasePlan, Session
from cpuidle_lab.replay import candidates as spec
from cpuidle_lab.states import kernel_tables, linux_source
from tests.unit import synthetic

TOP = Path(__file__).resolve().parents[2]


def test_every_command_has_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    commands = list(cli.discover())
    assert len(commands) >= 5
    assert len({command.NAME for command in commands}) == len(commands)
    for command in commands:
        with pytest.raises(SystemExit) as end:
            main([command.NAME, "--help"])
        assert end.value.code == 0
        assert "example" in capsys.readouterr().out, command.NAME


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (UserError("it broke"), 1, "it broke"),
        (UserError("not so", USAGE), 2, "not so"),
        (OSError(errno.ENOSPC, "No space left on device", "out"), 1, "out: No space left"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_errors_are_one_sentence_and_a_code(
    error: BaseException,
    code: int,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(_args: object) -> int:
        raise error

    command = SimpleNamespace(
        NAME="x", HELP="x", EPILOG="", add_arguments=lambda _parser: None, run=run
    )
    monkeypatch.setattr(cli, "discover", lambda _wanted: iter([command]))
    monkeypatch.delenv("CPUIDLE_LAB_DEBUG", raising=False)
    assert main(["x"]) == code
    said = capsys.readouterr().err.strip()
    assert sentence in said
    assert "\n" not in said


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


# ---- Names that are not UTF-8, streams that are closed, ASCII ----

ODD = b"odd\xff\x1b[31m"


def run_odd(*words: str | bytes, shell: str = "", **variables: str) -> tuple[int, bytes, bytes]:
    """Run the command as a process of its own, by a shell that changes its streams."""
    python = [sys.executable, "-m", "cpuidle_lab", *words]
    done = subprocess.run(
        ["sh", "-c", f'"$@" {shell}', "sh", *python],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(TOP / "tools"), **variables},
    )
    return done.returncode, done.stdout, done.stderr


ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


@pytest.mark.parametrize("variables", [ASCII, {"PYTHONIOENCODING": "utf-8:strict"}])
def test_a_name_that_is_not_utf_8_is_escaped(tmp_path: Path, variables: dict[str, str]) -> None:
    missing = os.fsencode(tmp_path) + b"/" + ODD
    code, out, said = run_odd("report", missing, **variables)
    assert (code, out) == (1, b"")
    assert said.endswith(b"/odd\\xff\\x1b[31m: cannot be read: No such file or directory\n")
    code, out, said = run_odd("report", b"--" + ODD, **variables)
    assert code == USAGE and b"\x1b" not in said and b"Traceback" not in said


@pytest.mark.parametrize("shell", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_closed_stream_is_no_traceback(tmp_path: Path, shell: str) -> None:
    """The command fails where its output is lost, and makes its page all the same."""
    page = tmp_path / f"{os.fsdecode(ODD)}.html"
    path = synthetic.demo(tmp_path / os.fsdecode(ODD), 2_000_000)
    code, out, said = run_odd("report", os.fsencode(path), "-o", os.fsencode(page), shell=shell)
    assert b"\x1b" not in out and (not out or b"odd\\xff\\x1b[31m.html\n" in out)
    lost = b"cpuidle-lab: error: standard output is closed\n" * (shell == ">&-")
    assert (code, said) == (int(shell.startswith(">")), lost)
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_columns_may_have_a_name_that_is_not_utf_8(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = synthetic.demo(tmp_path / "t.dat", 2_000_000)
    folder = tmp_path / os.fsdecode(ODD)
    assert main(["export", "--parquet", str(folder), str(path)]) == 0
    assert capsys.readouterr().out.endswith("/odd\\xff\\x1b[31m\n")
    assert main(["replay", str(folder), "--same-points", "--governors", "menu_ng"]) == 0


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["machines", "--version", "--help", "report --help"])
def test_a_full_standard_output_is_named(words: str, unbuffered: str) -> None:
    code, _, said = run_odd(*words.split(), shell=">/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (code, said.count(b"\n")) == (1, 1)
    assert b"error: standard output: No space left on device; free some space" in said


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_is_no_full_directory(tmp_path: Path, unbuffered: str) -> None:
    """A command prints while it has a directory for temporary files."""
    text = (
        "from cpuidle_lab.cli import open_streams\n"
        "from cpuidle_lab.base.files import scratch\n"
        "open_streams()\n"
        "try:\n"
        "    with scratch():\n"
        "        print('x' * 100_000, flush=True)\n"
        "except OSError as error:\n"
        "    raise SystemExit(f'{error.filename}: {error.strerror}')\n"
    )
    done = subprocess.run(
        ["sh", "-c", '"$@" >/dev/full', "sh", sys.executable, "-c", text],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(TOP / "tools"), "PYTHONUNBUFFERED": unbuffered},
    )
    assert done.stderr == b"standard output: No space left on device\n"


@pytest.mark.parametrize(
    "words",
    ["report x -o -", "export --parquet - x", "export --perfetto - x", "diff a b --csv -",
     "calibrate --page -", "new x --directory -"],
)  # fmt: skip
def test_an_output_has_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == USAGE
    assert "and - is neither; name one" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--machine", "--domains"])
@pytest.mark.parametrize("command", ["report x", "export x --parquet y"])
def test_an_empty_name_is_no_option_that_was_left_out(
    option: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), option, ""]) == USAGE
    assert f"error: {option} names nothing\n" in capsys.readouterr().err


def test_a_full_temporary_directory_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="No space left") as error,
        files.scratch(tmp_path) as folder,
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert (error.value.filename, folder.exists()) == (str(tmp_path), False)


def test_foreign_directory_is_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious").touch()
    assert main(["lab", "--output", str(tmp_path)]) == 2
    assert (tmp_path / "precious").exists()
    assert "holds precious, which is no result of the lab" in capsys.readouterr().err


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


@pytest.fixture
def temporary_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cache, "CACHE", tmp_path)
    return tmp_path


def writes(text: str) -> Callable[[Path], None]:
    def build(target: Path) -> None:
        (target / "file").write_text(text)

    return build


def test_cache_makes_each_thing_once(temporary_cache: Path) -> None:
    path = cache.cached("thing", ["1"], "Making", writes("one"))
    assert path.parent == temporary_cache
    assert cache.cached("thing", ["1"], "Making", writes("two")) == path
    assert (path / "file").read_text() == "one"
    assert cache.cached("thing", ["1", ""], "Making", writes("two")) != path


def test_failed_build_leaves_nothing(temporary_cache: Path) -> None:
    def fail(target: Path) -> None:
        (target / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.cached("thing", [], "Making", fail)
    assert [path.name for path in temporary_cache.iterdir()] == [".thing.lock"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts something")
def test_what_is_mounted_in_a_folder_outlives_it(tmp_path: Path) -> None:
    """As /proc and /dev, if the process that made a root there was killed."""
    script = """
    mkdir -p left/dev other && mount --bind /dev/shm left/dev && mount -t tmpfs none left/dev &&
    touch left/dev/null left/file &&
    "$0" -c 'from cpuidle_lab.base import cache; cache.discard(cache.Path("left"))'
    [ ! -e left/file ] && [ -e left/dev/null ]
    """
    command = ["unshare", "--mount", "sh", "-c", script, sys.executable]
    subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(TOP / "tools")}, check=True
    )


def test_what_a_killed_build_left_is_removed(temporary_cache: Path) -> None:
    (temporary_cache / ".thing.tmp-killed").mkdir()
    cache.cached("thing", [], "Making", writes("x"))
    assert not (temporary_cache / ".thing.tmp-killed").exists()


def test_old_versions_go(temporary_cache: Path) -> None:
    for number in range(2 * cache.KEPT_VERSIONS):
        path = cache.cached("thing", [str(number)], "Making", writes("x"))
        os.utime(path, (number, number))
    last = cache.cached("thing", ["last"], "Making", writes("x"))
    left = sorted(temporary_cache.glob("thing-*"))
    assert len(left) == cache.KEPT_VERSIONS
    assert last in left


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_cache_of_another_user_is_used(
    temporary_cache: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    made = cache.cached("thing", [], "Making", writes("x"))
    tables, governors = kernel_tables.fetch("7.3"), linux_source.fetch("7.3")
    refusal = OSError(number, os.strerror(number))
    for where, name in ((os, "utime"), (cache, "locked"), (apt, "locked")):
        monkeypatch.setattr(where, name, Mock(side_effect=refusal))
    assert cache.cached("thing", [], "Making", writes("x")) == made
    assert kernel_tables.fetch("7.3") == tables
    assert linux_source.fetch("7.3") == governors


def test_a_python_that_the_user_may_not_run_is_named(tmp_path: Path) -> None:
    python = tmp_path / "build/venv/bin/python"
    for path in (
        python,
        tmp_path / "tools/requirements.txt",
        python.parents[1] / ".requirements.txt",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    command = shutil.copy(TOP / "cpuidle-lab", tmp_path)
    done = subprocess.run([command, "machines"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"cpuidle-lab: error: {python}: this user may not run it; make ")


def test_what_may_be_in_use_stays(temporary_cache: Path) -> None:
    """A run waits for a host CPU while others make more versions of its machine."""
    for number in range(3):
        cache.cached("thing", [str(number)], "Making", writes("x"), kept=1)
    assert len(list(temporary_cache.glob("thing-*"))) == 3


def test_a_kill_leaves_no_half_of_an_old_version(
    temporary_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = cache.cached("thing", ["old"], "Making", writes("x"), kept=1)
    os.utime(old, (0, 0))
    with monkeypatch.context() as patch:
        patch.setattr(cache, "discard", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            cache.cached("thing", ["new"], "Making", writes("x"), kept=1)
    assert not old.exists()
    cache.cached("thing", ["newer"], "Making", writes("x"), kept=1)
    assert not list(temporary_cache.glob(".thing.tmp-*"))


def test_failed_tool_is_one_sentence_with_its_log(tmp_path: Path) -> None:
    script = "echo first; echo the reason >&2; exit 1"
    with pytest.raises(UserError, match="making it failed: the reason") as caught:
        cache.run_logged(["sh", "-c", script], tmp_path / "log", "making it")
    assert str(tmp_path / "log") in caught.value.message
    with pytest.raises(UserError, match=r"x\.c:1: error: no such"):
        script = "echo 'x.c:1: error: no such'; echo gave up; exit 1"
        cache.run_logged(["sh", "-c", script], tmp_path / "log", "making it")
    with pytest.raises(UserError, match="the disk is full"):
        script = "echo 'dd: No space left on device'; exit 1"
        cache.run_logged(["sh", "-c", script], tmp_path / "log", "making it")


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


def test_an_error_of_several_files_is_one_sentence() -> None:
    first = ("a", "b", "[Errno 28] No space left on device: 'a' -> 'b'")
    text = cli.describe_os_error(shutil.Error([first, first]))
    assert text == "b: No space left on device; free some space and try again"


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


def test_help_lists_every_command_under_a_heading(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert "others:" not in lines
    assert max(map(len, lines)) <= 100
    for command in cli.discover():
        assert [line for line in lines if line.split()[:1] == [command.NAME]] == [
            f"  {command.NAME:12}{command.HELP}"
        ]


# Options of several commands whose values differ: a file or a directory is the output, --only names
# parts of what the command does, doctor's kernel is an installed one, bpf's answers are for FILE,
# capture records for the clone that lab plays, experiments have programs of their own to run here.
VALUES = {
    "--output": {"FILE", "DIR"},
    "--clone": {"FILE", None},
    "--only": {"NAME", "WORKLOAD", "PART[,PART]"},
    "--kernel": {"SERIES", "VERSION"},
    "--here": {"COMMAND", None},
    "--governors": {"LIST", "NAME[@KERNEL][:TUNABLE=VALUE]...[,...]"},
}
# Other names for what these mean: --output, --json, --governors, --set, --duration, --events,
# --time-limit.
OTHER_NAMES = {"--html", "--out", "--as-json", "--overwrite", "--shadows", "--tunables"}
OTHER_NAMES |= {"--seconds", "--event", "--keep", "--folder", "--readme", "--limit", "--policy"}
OTHER_NAMES |= {"--recorders", "--row", "--turns"}
# Limits of figures are no limits of time.
OF_FIGURES = ("--limit", "FIGURE=RISE[,...]")


def test_the_same_option_has_the_same_name_and_value_everywhere() -> None:
    values: dict[str, set[object]] = {}
    for command in cli.discover():
        parser = cli.Parser()
        command.add_arguments(parser)
        for action in parser._actions:
            names = set(action.option_strings)
            of_figures = {name for name in names if (name, action.metavar) == OF_FIGURES}
            assert not names & OTHER_NAMES - of_figures, command.NAME
            assert names & {"-o", "--output"} in ({"-o", "--output"}, set()), command.NAME
            value = None if action.nargs == 0 else action.metavar
            for name in names:
                values.setdefault(name, set()).add(value)
    assert {"--json", "--force", "--csv", "--quick", "--machine"} <= set(values)
    assert {
        name: found
        for name, found in values.items()
        if len(found) > 1 and found != VALUES.get(name)
    } == {"-o": VALUES["--output"]}


# docs/design.md says why these are two commands. An option belongs to the ranking and its page, to
# the proof, or to both.
SHARED = {"--help", "--governors", "--json"}
PAGE = {"--output", "--csv", "--domains", "--force", "--worst", "--machine"}
RANKING = PAGE | {"--no-mainline", "--no-instructions"}
PROOF = {"--check", "--same-points", "--jobs"}


def test_compare_and_replay_share_the_options_that_both_need() -> None:
    shared: list[dict[str, tuple[object, ...]]] = []
    for command, own in ((compare, RANKING), (replay, PROOF)):
        parser = cli.Parser()
        command.add_arguments(parser)
        options = {name: action for action in parser._actions for name in action.option_strings}
        assert {name for name in options if name.startswith("--")} == SHARED | own
        shared.append(
            {
                name: (type(one), one.dest, one.nargs, one.type, one.metavar, one.default)
                for name, one in options.items()
                if name in SHARED
            }
        )
        (trace,) = (one for one in parser._actions if not one.option_strings)
        assert (trace.metavar, trace.type) == ("TRACE", Path)
    assert shared[0] == shared[1]


@pytest.mark.parametrize(
    "text", ["wteo", "menu@7.2,wteo:learning_rate=80:half_life_ms=500", "bayes"]
)
def test_compare_and_replay_mean_the_same_governors(text: str) -> None:
    """One reader of --governors serves both; compare adds the limits."""
    ranked, proved = spec.parse(text, mainline=False), spec.listed(text)
    assert proved
    assert [one for one in ranked if one.label in text.split(",")] == proved
    assert {one.label for one in ranked} - {one.label for one in proved} <= {"bayes", "oracle"}


@pytest.mark.parametrize("text", ["", "wteo,", "nothing", "wteo:learning_rate", "wteo:x=1"])
def test_compare_and_replay_refuse_the_same_governors(text: str) -> None:
    said = []
    for read in (partial(spec.parse, mainline=False), spec.listed):
        with pytest.raises(UserError) as refused:
            read(text)
        said.append(refused.value.message)
    assert said[0] == said[1]


def test_the_programs_of_the_tests_name_their_options_as_the_commands_do() -> None:
    options = re.compile(r"""(?:add_argument|add|option)\(\s*((?:"-[\w-]+",?\s*)+)""")
    seen = 0
    for path in sorted((TOP / "tests").glob("*/**/*.py")):
        for found in options.finditer(path.read_text(encoding="utf-8")):
            names = set(re.findall(r"-[\w-]+", found[1]))
            seen += 1
            assert not names & OTHER_NAMES, path
            assert names & {"-o", "--output"} in ({"-o", "--output"}, set()), path
    assert seen > 50


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the command's files without build/, as in a clone that was never used."""
    top = tmp_path_factory.mktemp("bare")
    shutil.copy(TOP / "cpuidle-lab", top)
    shutil.copytree(TOP / "governors", top / "governors")
    caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(TOP / "tools", top / "tools", ignore=caches)
    (top / "tools/setup.sh").write_text('#!/bin/sh\necho "setup.sh $*"; exit 7\n')
    return top


def called(
    top: Path, *arguments: str, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command with no Python packages at hand, in a folder."""
    tools = top / "bin"
    shutil.rmtree(tools, ignore_errors=True)
    tools.mkdir()
    python = Path(sys.executable).resolve()
    (tools / "python3").write_text(f'#!/bin/sh\nexec {python} -S "$@"\n')
    (tools / "python3").chmod(0o755)
    return subprocess.run(
        [top / "cpuidle-lab", *arguments],
        cwd=folder,
        env={"PATH": f"{tools}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--help"], 0, "doctor"),
        (["--version"], 0, "cpuidle-lab 0"),
        (["report", "--help"], 0, "examples"),
        (["doctor", "--kernel", "6.12.1"], 1, "cannot run the module"),
        (["capture", "--stock", "-o", "/nowhere/x"], 2, "no such directory"),
        (["bpf", "run", "x.bpf.o"], 1, "cpuidle-lab: error: "),
        (["report", "--jsn", "x"], 2, "did you mean '--json'?"),
        (["repoort", "x"], 2, "did you mean 'report'?"),
        (["report", "--jso", "x"], 2, "did you mean '--json'?"),
        (["export", "x", "--perfeto", "y"], 2, "--perfeto is unknown; did you mean '--perfetto'?"),
    ],
)
def test_python_alone_is_enough_for(bare: Path, arguments: list[str], code: int, said: str) -> None:
    done = called(bare, *arguments)
    assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done
    assert "setup.sh" not in done.stdout + done.stderr
    assert not (bare / "build").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_by_sudo_the_environment_is_made_as_the_trees_owner(bare: Path) -> None:
    # Other users reach no directory of pytest's.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        shutil.copytree(bare, top := Path(folder) / "top")
        top.chmod(0o755)
        (top / "tools/setup.sh").write_text("#!/bin/sh\nid -u\nexit 7\n")
        subprocess.run(["chown", "-R", "12345:12345", top], check=True)
        env = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
        for by, user in (({}, "0"), ({"SUDO_UID": "12345"}, "12345")):
            done = subprocess.run([top / "cpuidle-lab", "watch"], env=env | by,
                                  capture_output=True, text=True, check=False)  # fmt: skip
            assert (done.returncode, done.stderr.split()[-1]) == (7, user)


# Processor time: that of the clock depends on what else the machine does.
@pytest.mark.parametrize("argument", ["--help", "--version", "doctor"])
def test_python_alone_answers_within_a_second(bare: Path, argument: str) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = called(bare, argument)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout, done
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1


@pytest.mark.parametrize("arguments", [["report", "x"], ["watch"]])
def test_other_commands_make_the_environment(bare: Path, arguments: list[str]) -> None:
    done = called(bare, *arguments)
    assert (done.returncode, done.stderr) == (7, "setup.sh python\n"), done


def test_python_alone_writes_metrics(bare: Path, tmp_path: Path) -> None:
    done = called(bare, "watch", "--openmetrics", "idle.prom", "--count", "1", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "cpuidle_lab_info" in (tmp_path / "idle.prom").read_text()


def test_folders_of_the_user_are_no_part_of_it(bare: Path, tmp_path: Path) -> None:
    for name in ("experiments", "cpuidle_lab", "json"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the folder of the user')\n")
    done = called(bare, "doctor", "--kernel", "6.12.1", folder=tmp_path)
    assert done.returncode == 1 and "cannot run the module" in done.stdout, done
    assert "study" not in called(bare, "--help", folder=tmp_path).stdout


def test_an_unknown_option_shows_the_usage_of_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for word, meant in (("--jso", "--json"), ("--jsson", "--json"), ("--zzz", "")):
        with pytest.raises(SystemExit) as end:
            main(["export", "trace.dat", "--parquet", "x", word, "--nothing"])
        said = capsys.readouterr().err
        assert (end.value.code, said.startswith("usage: cpuidle-lab export ")) == (2, True)
        assert ("did you mean" in said) == bool(meant) and meant in said


@pytest.mark.parametrize("gone", cli.SUCCESSORS)
def test_what_has_gone_names_its_successor(gone: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, *options = gone.split()
    assert main([command, "x", *(f"{option}=x" for option in options), "--help"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and cli.SUCCESSORS[gone] in said.err
    assert said.err.count("\n") == 1
    # The successor is a command with these options.
    name, *words = cli.SUCCESSORS[gone].split()
    (parser,) = (one for one in cli.discover() if name == one.NAME)
    parsed = cli.Parser()
    parser.add_arguments(parsed)
    parsed.parse_args([word for word in words if word.startswith("--") or word.isupper()])


FOLDERS = ("tools", "tests", "packaging")
SCRIPTS = [TOP / "cpuidle-lab", *(path for name in FOLDERS for path in (TOP / name).rglob("*.sh"))]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(TOP)))
def test_shell_scripts_parse(script: Path) -> None:
    assert subprocess.run(["sh", "-n", script]).returncode == 0


def test_set_up_is_quiet_when_nothing_is_missing() -> None:
    answer = subprocess.run([TOP / "tools/setup.sh", "python"], capture_output=True, text=True)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
