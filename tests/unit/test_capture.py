# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab capture`, on a recorded machine whose trace-cmd is a script."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpuidle_lab.base import files
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.settings import Setting
from cpuidle_lab.cli import main
from cpuidle_lab.host import capture
from cpuidle_lab.host.capture import Plan
from cpuidle_lab.host.energy import POWERCAP
from cpuidle_lab.host.machine import CPUIDLE, LAB, MOVED, TRACEFS, Host
from cpuidle_lab.host.sysfs import Tree
from tests.unit import command, recorded
from tests.unit.command import PACKAGE, error, start, wait_for

GOVERNOR = f"{CPUIDLE}/current_governor"
BIAS = f"{LAB}/wteo/latency_bias"
WTEO = ["--governor", "wteo", "--set", "wteo.latency_bias=500"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unfold a machine on which everything is in place; work in a directory beside it."""
    return recorded.enter("debian13", tmp_path, monkeypatch)


def names() -> list[str]:
    """Return what lies in the working directory, hidden files included."""
    return sorted(path.name for path in Path().iterdir())


def contents(root: Path) -> dict[str, str]:
    """Return everything that a session must leave as it was."""
    return command.contents(root, {"notes", "recorded-arguments", "reset", "trace_marker"})


# The session.


def test_records_a_workload_and_leaves_the_machine_as_it_was(root: Path) -> None:
    before = contents(root)
    assert main(["capture", *WTEO, "-o", "a.dat", "--", "true"]) == 0
    assert Path("a.dat").read_text() == "a trace\n"
    assert contents(root) == before
    assert names() == ["a.dat"]


def test_governor_and_tunables_hold_from_begin_to_end_of_the_recording(root: Path) -> None:
    main(["capture", *WTEO, "--", "true"])
    assert (root / "notes").read_text() == "begin: wteo 500\nend: wteo 500\n"


def test_the_workload_runs_while_the_events_are_on(root: Path) -> None:
    script = f"cat {root}{TRACEFS}/tracing_on {root}{TRACEFS}/events/cpuidle_lab/enable > seen"
    main(["capture", "--", "sh", "-c", script])
    assert Path("seen").read_text() == "1\n1\n"


def test_a_recording_begins_with_a_checkpoint(root: Path) -> None:
    """It has the state of a governor that decided before the recording."""
    request = Path(f"{root}{LAB}/checkpoint")
    request.write_text("")
    main(["capture", "--", "sh", "-c", f"cat {request} > seen"])
    assert Path("seen").read_text().strip() == "1"


def test_tracecmd_is_asked_for_our_events_and_the_others(root: Path) -> None:
    main(["capture", "--events", "sched,sched:sched_switch", "--", "true"])
    words = (root / "recorded-arguments").read_text().split()
    assert words[0] == "record"
    assert " ".join(words[3:]) == "-e cpuidle_lab -e sched -e sched:sched_switch"


def test_duration_ends_the_recording(root: Path) -> None:
    begin = time.monotonic()
    assert main(["capture", "--duration", "0.3"]) == 0
    assert time.monotonic() - begin >= 0.3
    assert Path("trace.dat").exists()


class Log(Tree):
    """A machine that notes in which order it is written to, and can refuse."""

    def __init__(self, root: Path, refuse: dict[str, int] | None = None) -> None:
        super().__init__(root)
        self.writes: list[str] = []
        self.marks: list[str] = []
        self.refuse = refuse or {}

    def _write(self, name: str, text: str) -> None:
        if name == f"{TRACEFS}/trace_marker":
            self.marks.append(text)
        else:
            self.writes.append(f"{name.rsplit('/', 2)[-2]}/{name.rsplit('/', 1)[-1]}={text}")
        if text in self.refuse:
            raise OSError(self.refuse[text], os.strerror(self.refuse[text]))
        super()._write(name, text)


def plan(**changes: object) -> Plan:
    fields: dict[str, object] = {
        "output": Path("trace.dat"),
        "force": False,
        "governor": "wteo",
        "settings": (
            Setting("wteo", "latency_bias", "500"),
            Setting("wteo", "learning_rate", "99"),
            Setting("wteo", "learning_rate", "98"),
        ),
        "events": (),
        "duration_s": None,
        "command": ("true",),
    }
    return Plan(**(fields | changes))  # type: ignore[arg-type]


def test_order_is_tunables_governor_reset_and_back_in_reverse(root: Path) -> None:
    log = Log(root)
    result = capture.record(Host(log), plan())
    assert (result.exit_code, result.governor) == (0, "wteo")
    assert log.writes == [
        "wteo/latency_bias=500",
        "wteo/learning_rate=99",
        "wteo/learning_rate=98",
        "cpuidle/current_governor=wteo",
        "wteo/reset=1",
        "cpuidle/current_governor=menu",
        "wteo/learning_rate=99",
        "wteo/learning_rate=50",
        "wteo/latency_bias=200",
    ]


def test_a_governor_in_use_already_is_not_switched(root: Path) -> None:
    (root / GOVERNOR[1:]).write_text("wteo\n")
    log = Log(root)
    capture.record(Host(log), plan(settings=()))
    assert log.writes == ["wteo/reset=1"]


def test_the_gate_is_reset_like_the_others(root: Path) -> None:
    log = Log(root)
    capture.record(Host(log), plan(settings=(Setting("gate", "base", "wteo"),), governor="gate"))
    assert log.writes[:3] == ["gate/base=wteo", "cpuidle/current_governor=gate", "gate/reset=1"]


def test_a_governor_of_the_kernel_has_nothing_to_reset(root: Path) -> None:
    log = Log(root)
    capture.record(Host(log), plan(settings=(), governor="ladder"))
    assert log.writes == ["cpuidle/current_governor=ladder", "cpuidle/current_governor=menu"]


@pytest.mark.parametrize("text", ["500", "98", "wteo", "1"])
def test_a_refused_write_undoes_what_was_done(text: str, root: Path) -> None:
    before = contents(root)
    with pytest.raises(UserError, match=rf"cannot write '{text}' .* does not accept"):
        capture.record(Host(Log(root, {text: errno.EINVAL})), plan())
    assert contents(root) == before
    assert names() == []


def test_one_failed_restoration_does_not_stop_the_others(root: Path) -> None:
    with pytest.raises(UserError, match="cannot write 'menu'"):
        capture.record(Host(Log(root, {"menu": errno.EPERM})), plan())
    assert (root / BIAS[1:]).read_text() == "200\n"
    assert (root / f"{LAB}/wteo/learning_rate"[1:]).read_text() == "50\n"


# Marks in the trace: the phase, and the energy counters at its ends.


def add_zone(root: Path, zone: str, name: str, energy_uj: int) -> Path:
    """Add a powercap zone to the machine; return its counter."""
    directory = root / POWERCAP[1:] / zone
    directory.mkdir(parents=True)
    (directory / "name").write_text(f"{name}\n")
    (directory / "max_energy_range_uj").write_text("1000\n")
    (directory / "energy_uj").write_text(f"{energy_uj}\n")
    return directory / "energy_uj"


def test_the_phase_and_its_energy_are_marked(root: Path) -> None:
    (root / POWERCAP[1:] / "intel-rapl").mkdir(parents=True)  # the control type: no counter
    add_zone(root, "intel-rapl:0:0", "dram", 7)
    counter = add_zone(root, "intel-rapl:0", "package-0", 300)
    before = contents(root)
    log = Log(root)
    result = capture.record(Host(log), plan(command=("/bin/sh", "-c", f"echo 900 >{counter}")))
    dram = "energy zone=intel-rapl:0:0 energy_uj=7 max_energy_range_uj=1000 name=dram"
    assert log.marks == [
        "phase governor=wteo workload=sh",
        "energy zone=intel-rapl:0 energy_uj=300 max_energy_range_uj=1000 name=package-0",
        dram,
        "energy zone=intel-rapl:0 energy_uj=900 max_energy_range_uj=1000 name=package-0",
        dram,
        "phase end",
    ]
    assert result.unread_zones == ()
    counter.write_text("300\n")
    assert contents(root) == before


def test_a_zone_that_cannot_be_read_is_left_out_with_one_note(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = str(add_zone(root, "intel-rapl:0", "package-0", 300))
    add_zone(root, "intel-rapl:1", "package-1", 5)
    read_bytes = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if str(path) == secret:
            raise PermissionError(errno.EACCES, "Permission denied")
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert main(["capture", *WTEO, "--", "true"]) == 0
    assert capsys.readouterr().err == "cpuidle-lab: no energy of intel-rapl:0: cannot be read\n"
    log = Log(root)
    capture.record(Host(log), plan(output=Path("b.dat")))
    assert [mark.split()[1] for mark in log.marks if mark.startswith("energy")] == [
        "zone=intel-rapl:1"
    ] * 2


def test_a_governor_that_is_switched_meanwhile_is_said(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["capture", *WTEO, "--", "sh", "-c", f"echo gate >{root}{GOVERNOR}"]) == 0
    assert "switched meanwhile; a report shows wteo only" in capsys.readouterr().err


# Sessions in several files.


def numbers(stem: str) -> list[int]:
    """Return the numbers of the files of a session, which are all that is there of it."""
    return [int(name.removeprefix(f"{stem}-").removesuffix(".dat")) for name in names()]


def until(root: Path, name: str) -> list[str]:
    """Return a workload that notes its start, and lasts until a file is there."""
    return ["sh", "-c", f"echo >>{root}/starts; until [ -e {name} ]; do sleep 0.02; done"]


def test_a_session_in_files_is_one_session(root: Path) -> None:
    before = contents(root)
    options = ["--rotate", "0.05", "-o", "a.dat", "--json"]
    process = start("capture", *WTEO, *options, "--", *until(root, "a-0003.dat"))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0
    found = numbers("a")
    assert found == list(range(1, len(found) + 1)) and len(found) >= 4
    assert json.loads(out)["files"] == names()
    assert json.loads(out)["gap_s"] > 0 and "between the files" in err
    assert (root / "starts").read_text() == "\n"
    (root / "starts").unlink()
    one = "begin: wteo 500\nend: wteo 500\n"
    assert (root / "notes").read_text() == one * len(found)
    assert contents(root) == before


def test_each_file_of_a_session_has_its_own_marks(root: Path) -> None:
    log = Log(root)
    command = ("sh", "-c", "until [ -e a-0002.dat ]; do sleep 0.02; done")
    result = capture.record(Host(log), plan(output=Path("a.dat"), command=command, rotate_s=0.05))
    mark = ["phase governor=wteo workload=sh", "phase end"]
    assert log.marks == mark * len(result.files)
    assert log.writes.count("wteo/reset=1") == 1


def test_the_last_files_alone_are_kept(root: Path) -> None:
    options = ["--rotate", "0.05", "--last", "0.1", "-o", "a.dat"]
    assert main(["capture", *options, "--", *until(root, "a-0004.dat")]) == 0
    first, second, third = numbers("a")
    assert (second, third) == (first + 1, first + 2)
    assert first >= 3


def test_a_part_of_the_last_time_is_a_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Plan] = []

    def note(_: Host, made: Plan, __: object) -> None:
        plans.append(made)
        raise UserError("enough")

    monkeypatch.setattr("cpuidle_lab.commands.capture.record", note)
    main(["capture", "--last", "10m"])
    assert (plans[0].last_s, plans[0].rotate_s, plans[0].kept) == (600, 150, 4)
    main(["capture", "--last", "1.5h", "--rotate", "7m"])
    assert (plans[1].last_s, plans[1].rotate_s, plans[1].kept) == (5400, 420, 13)
    main(["capture", "--duration", "90s"])
    assert (plans[2].duration_s, plans[2].rotate_s, plans[2].kept) == (90, None, None)


def test_files_of_another_session_are_not_mixed_in(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a-0007.dat").write_bytes(files.TRACE)
    for force in ([], ["--force"]):
        assert main(["capture", "--rotate", "1h", "-o", "a.dat", *force, "--", "true"]) == 2
        assert "a-0007.dat exists already" in error(capsys)
    assert names() == ["a-0007.dat"]
    assert not (root / "notes").exists()


def test_ctrl_c_while_a_file_is_written_keeps_it(root: Path) -> None:
    before = contents(root)
    process = start("capture", *WTEO, "--rotate", "0.05", "-o", "a.dat", FAKE_TRACE_CMD="slow")
    notes = root / "notes"
    wait_for(lambda: notes.exists() and "end" in notes.read_text())
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert names() == ["a-0001.dat"]
    assert contents(root) == before


def test_finished_files_outlast_a_signal(root: Path) -> None:
    before = contents(root)
    process = start("capture", *WTEO, "--rotate", "0.05", "-o", "a.dat", "--", "sleep", "60")
    wait_for(Path("a-0001.dat").exists)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert f"only {' '.join(names())} was kept" in err
    assert contents(root) == before


# Exit codes and answers.


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -9 $$", 137)]
)
def test_the_exit_code_is_the_workloads(
    script: str, code: int, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(root)
    assert main(["capture", *WTEO, "--", "sh", "-c", script]) == code
    assert Path("trace.dat").exists()
    assert contents(root) == before
    assert (f"the workload ended with {code}" in capsys.readouterr().err) == (code != 0)


def test_json_holds_the_circumstances_and_nothing_else_is_on_stdout(root: Path) -> None:
    process = start(
        "capture", *WTEO, "--json", "--", "sh", "-c", "echo noise; exit 3", FAKE_TRACE_CMD="lossy"
    )
    out, err = process.communicate(timeout=60)
    answer = json.loads(out)
    assert process.returncode == 3
    assert answer["exit_code"] == 3
    assert answer["governor"] == "wteo"
    assert answer["kernel"] == "6.12.107+deb13-amd64"
    assert answer["settings"] == [{"governor": "wteo", "name": "latency_bias", "value": "500"}]
    assert answer["workload"] == ["sh", "-c", "echo noise; exit 3"]
    assert answer["lost_events"] == 50
    assert answer["start"] < answer["end"]
    assert "noise" in err
    assert "50 events were lost" in err


def test_quiet_when_not_at_a_terminal(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["capture", "--", "true"]) == 0
    assert capfd.readouterr() == ("", "")


# Interruptions.


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_leaves_the_machine_as_it_was_and_no_file(
    number: signal.Signals, root: Path
) -> None:
    before = contents(root)
    process = start("capture", *WTEO, "--", "sh", "-c", "echo $$ > pid; exec sleep 60")
    wait_for(lambda: Path("pid").exists() and Path("pid").read_text() != "")
    assert (root / GOVERNOR[1:]).read_text() == "wteo\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert err == (
        f"cpuidle-lab: interrupted by {number.name}: no trace was kept, the system is as before\n"
    )
    assert contents(root) == before
    assert names() == ["pid"]
    with pytest.raises(ProcessLookupError):
        os.kill(int(Path("pid").read_text()), 0)


def test_a_stubborn_workload_cannot_prevent_the_restoration(root: Path) -> None:
    before = contents(root)
    process = start(
        "capture", *WTEO, "--", "sh", "-c", "trap '' INT TERM; echo > on; sleep 60; sleep 60"
    )
    wait_for(Path("on").exists)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)  # impatience must not break the restoration
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert contents(root) == before


def test_signals_during_the_start_are_not_lost(root: Path) -> None:
    before = contents(root)
    process = start("capture", *WTEO, "--duration", "60")
    wait_for(lambda: (root / GOVERNOR[1:]).read_text() == "wteo\n")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 143
    assert contents(root) == before


def test_ctrl_c_is_the_regular_end_of_an_open_ended_capture(root: Path) -> None:
    before = contents(root)
    process = start("capture", *WTEO)
    wait_for(lambda: (root / "notes").exists())
    wait_for(lambda: (root / f"{TRACEFS}/tracing_on"[1:]).read_text() == "1\n")
    time.sleep(1)  # until the command has seen it, too
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    assert Path("trace.dat").exists()
    assert contents(root) == before


def test_nohup_is_respected(root: Path) -> None:
    process = subprocess.Popen(
        ["nohup", sys.executable, "-m", "cpuidle_lab", "capture", "--", "sh", "-c",
         "echo > on; sleep 1"],
        env=os.environ | {"PYTHONPATH": str(PACKAGE)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_for(Path("on").exists)
    process.send_signal(signal.SIGHUP)
    assert process.wait(30) == 0
    assert Path("trace.dat").exists()


@pytest.mark.parametrize(
    ("mishap", "words"),
    [
        ("refuse", "did not start to record: Failed to allocate memory"),
        ("die", "trace-cmd ended before the session: No space left on device"),
        ("empty", "trace-cmd wrote no trace"),
    ],
)
def test_when_tracecmd_fails_the_machine_is_as_before(
    mishap: str,
    words: str,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = contents(root)
    monkeypatch.setenv("FAKE_TRACE_CMD", mishap)
    begin = time.monotonic()
    assert main(["capture", *WTEO, "--", "sleep", "10" if mishap == "die" else "0"]) == 1
    assert time.monotonic() - begin < 9, "the workload must not run on without a recorder"
    assert words in error(capsys)
    after = contents(root)
    # Only the kernel turns all events off by one write.
    for name in ("sys/kernel/tracing/set_event", "sys/kernel/tracing/events/cpuidle_lab/enable"):
        after[name] = before[name]
    assert after == before
    assert names() == []


def test_tracing_that_was_off_is_off_again(root: Path) -> None:
    (root / f"{TRACEFS}/tracing_on"[1:]).write_text("0\n")
    before = contents(root)
    assert main(["capture", "--", "true"]) == 0
    assert contents(root) == before


def test_events_left_on_by_a_dead_recorder_are_turned_off(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_TRACE_CMD", "die")
    log = Log(root)
    with pytest.raises(UserError):
        capture.record(Host(log), plan(command=("sleep", "10")))
    assert "events/enable=0" in log.writes


# Refusals before anything is changed.


def remove(root: Path, name: str) -> None:
    path = root / name.lstrip("/")
    for child in sorted(path.rglob("*"), reverse=True):
        child.rmdir() if child.is_dir() else child.unlink()
    path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("/sys/module/cpuidle_lab", "not loaded: sudo modprobe cpuidle_lab"),
        ("/sys/kernel/debug/cpuidle_lab", "cannot be read (kernel lockdown: none)"),
        ("/sys/kernel/tracing", "sudo mount -t tracefs tracefs /sys/kernel/tracing"),
        ("/usr/bin/trace-cmd", "sudo apt install trace-cmd"),
    ],
)
def test_what_is_missing_is_named(
    gone: str, words: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remove(root, gone)
    assert main(["capture", *WTEO, "--", "true"]) == 1
    assert words in error(capsys)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (f"{TRACEFS}/current_tracer", "function", "the tracer 'function'"),
        (f"{TRACEFS}/set_event", "a:b\na:c\na:d", "records a:b and 2 more"),
        (f"{TRACEFS}/set_event", "a:b", "records a:b: sudo trace-cmd reset"),
        ("/usr/bin/trace-cmd", "#!/bin/sh\necho trace-cmd version 2.9.6", "2.9.6 is too old"),
        ("/usr/bin/trace-cmd", "#!/bin/sh\nexit 1", "of unknown version is too old"),
        ("/proc/mounts", "", f"sudo mount -t debugfs debugfs {LAB.rsplit('/', 1)[0]}"),
    ],
)
def test_what_stands_in_the_way_is_named(
    name: str, text: str, words: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "/proc/mounts":
        remove(root, LAB)
    (root / name[1:]).write_text(text + "\n")
    before = contents(root)
    assert main(["capture", *WTEO, "--", "true"]) == 1
    assert words in error(capsys)
    assert contents(root) == before
    assert not (root / "notes").exists()


def test_without_permission_it_says_so(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Tree, "may_write", lambda self, name: False)
    assert main(["capture", *WTEO, "--", "true"]) == 1
    assert "needs root: use sudo" in error(capsys)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--governor", "nosuch"], "offers no governor 'nosuch', only: ladder menu haltpoll"),
        (["--set", "nosuch.x=1"], "there are: gate menu_ng teo_ng wteo"),
        (["--set", "menu.x=1"], "'menu' is no governor of cpuidle_lab"),
        (["--governor", "wteo_rfc"], MOVED["wteo_rfc"]),
        (["--set", "wteo_rfc.seed=2"], MOVED["wteo_rfc"]),
        (
            ["--set", "wteo.nosuch=1"],
            "wteo has no tunable 'nosuch'; it has: latency_bias learning_rate",
        ),
        (["--set", "wteo.reset=1"], "wteo has no tunable 'reset'"),
        (["--events", "nosuch"], "no event or event system 'nosuch'"),
        (["--events", "sched:nosuch"], "no event or event system 'sched:nosuch'"),
    ],
)
def test_unknown_names_are_refused(
    arguments: list[str], words: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(root)
    assert main(["capture", *WTEO, *arguments, "--", "true"]) == 1
    assert words in error(capsys)
    assert contents(root) == before
    assert not (root / "notes").exists()


@pytest.mark.parametrize("changes", [{"governor": "nosuch"}, {"events": ("nosuch",)}])
def test_everything_is_checked_before_anything_is_written(
    changes: dict[str, object], root: Path
) -> None:
    log = Log(root)
    with pytest.raises(UserError):
        capture.record(Host(log), plan(**changes))
    assert log.writes == []


def test_a_command_that_does_not_exist(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(root)
    assert main(["capture", *WTEO, "--", "nosuch-command"]) == 1
    assert "cannot run nosuch-command: no such file" in error(capsys)
    assert contents(root) == before
    assert names() == []


def test_an_existing_file_is_kept_unless_forced(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("trace.dat").write_text("precious")
    for force in ([], ["--force"]):
        assert main(["capture", *force, "--", "true"]) == 2
        assert "not written by this command" in error(capsys)
    assert Path("trace.dat").read_text() == "precious"
    Path("trace.dat").write_bytes(files.TRACE + b" of before")
    assert main(["capture", "--", "true"]) == 2
    assert "exists already (--force" in error(capsys)
    assert main(["capture", "--force", "--", "true"]) == 0
    assert Path("trace.dat").read_text() == "a trace\n"


def test_a_failed_forced_capture_keeps_the_old_file(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("trace.dat").write_bytes(files.TRACE)
    monkeypatch.setenv("FAKE_TRACE_CMD", "empty")
    assert main(["capture", "--force", "--", "true"]) == 1
    assert Path("trace.dat").read_bytes() == files.TRACE


@pytest.mark.parametrize(
    ("output", "words"),
    [("nosuch/a.dat", "nosuch: no such directory"), (".", ". is a directory")],
)
def test_impossible_outputs_are_refused(
    output: str, words: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(root)
    assert main(["capture", *WTEO, "-o", output, "--", "true"]) == 2
    assert words in error(capsys)
    assert contents(root) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["--duration", "0"],
        ["--duration", "-1"],
        ["--duration", "nan"],
        ["--duration", "inf"],
        ["--duration", "soon"],
        ["--duration", "5", "--", "true"],
        ["--duration", "5d"],
        ["--duration", "m"],
        ["--rotate", "0"],
        ["--last", "-5m"],
        ["--last", "1m", "--rotate", "2m"],
        ["--set", "wteo"],
        ["--set", "wteo.latency_bias"],
        ["--set", "wteo.latency_bias="],
        ["--set", ".latency_bias=1"],
        ["--set", "../../etc.passwd=1"],
        ["--events", ""],
        ["--events", "a,,b"],
        ["--events", "../x"],
        ["--events", "-p"],
    ],
)
def test_wrong_usage(arguments: list[str], root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["capture", *arguments])
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    assert code == 2
    assert "Traceback" not in capsys.readouterr().err


@given(st.from_regex(r"\A[a-z_0-9]{1,20}\Z"), st.from_regex(r"\A\S([^\x00-\x1f]*\S)?\Z"))
def test_settings_split_at_the_first_dot_and_equals_sign(name: str, value: str) -> None:
    if value.isprintable():
        assert Setting.parse(f"wteo.{name}={value}") == Setting("wteo", name, value)


@pytest.mark.parametrize("command", ["capture", "lab", "ab"])
@pytest.mark.parametrize("text", ["wteo..x=1", "wteo.x", "wteo.x=", ".x=1", "wteo.x= ", "a/b.x=1",
                                  "wteo.x=1\n2"])  # fmt: skip
def test_each_command_refuses_the_same_settings(
    command: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([command, "--set", text])
    assert exit_.value.code == 2
    assert "is not of the form GOVERNOR.TUNABLE=VALUE" in capsys.readouterr().err


def test_a_value_may_have_blanks() -> None:
    assert Setting.parse("gate.latency_map=1 2 3") == Setting("gate", "latency_map", "1 2 3")
