# SPDX-License-Identifier: GPL-2.0
"""`capture --stock` where the kernel refuses, a user interrupts or a session is killed."""

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cpuidle_lab.base import files
from cpuidle_lab.cli import main
from cpuidle_lab.host import capture, idle_states, unfinished
from cpuidle_lab.host.machine import TRACEFS
from cpuidle_lab.host.machine import Host as Host
from cpuidle_lab.host.probes import KPROBE_EVENTS, Probes, best_way
from cpuidle_lab.host.recorder import OUR_EVENTS
from cpuidle_lab.host.sysfs import Tree
from tests.unit import command, recorded
from tests.unit.command import start, wait_for
from tests.unit.kernel_events import Kernel

TOP = Path(__file__).resolve().parents[2]

CLOCK = "local [global] mono"
# As trace-cmd sets it.
SET = "local global [mono]\n"


class Refusing(Tree):
    """A machine whose kernel refuses some lines of kprobe_events."""

    def __init__(self, root: Path, *refused: str) -> None:
        super().__init__(root)
        self.refused = refused
        self.lines: list[str] = []

    def append(self, name: str, text: str) -> None:
        """Add a line unless it is refused."""
        if not text.startswith("-:") and any(word in text for word in self.refused):
            raise OSError(errno.ENOENT, "No such file or directory")
        self.lines.append(text)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unfold a machine on which everything is in place; work in a directory beside it."""
    root = recorded.enter("debian13", tmp_path, monkeypatch)
    tracing = root / TRACEFS.lstrip("/")
    (tracing / "kprobe_events").write_text("")
    (tracing / "trace_clock").write_text(f"{CLOCK}\n")
    for event in ("power/cpu_idle", "timer/tick_stop", "timer/hrtimer_expire_entry"):
        (tracing / "events" / event).mkdir(parents=True)
        (tracing / "events" / event / "enable").write_text("0\n")
    (root / f"boot/config-{Host(Tree(root)).kernel()}").write_text("CONFIG_HZ=250\n")
    return root


def contents(root: Path) -> dict[str, str]:
    """Return everything that a session must leave as it was, except the lines of probes."""
    left = {"notes", "recorded-arguments", "trace_marker", "kprobe_events", "trace_clock"}
    return command.contents(root, left)


# ---- The first lines of the README ----


def lines_of_readme() -> list[list[str]]:
    """Return the commands of the first block of code."""
    text = (TOP / "README.md").read_text(encoding="utf-8")
    block = re.findall(r"(?:^    [^\n]+\n)+", text, re.MULTILINE)[0]
    return [line.split() for line in block.splitlines()]


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_the_first_lines_of_the_readme_run_in_a_clean_clone(root: Path, tmp_path: Path) -> None:
    """The first needs Python and trace-cmd alone, and leaves nothing of root's in the clone."""
    capture_line, compare_line = lines_of_readme()
    assert capture_line[:4] == ["sudo", "./cpuidle-lab", "capture", "--stock"]
    top, tools = tmp_path / "clone", tmp_path / "bin"
    made = subprocess.run(["git", "clone", "-q", TOP, top], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("the tree is no clone")
    subprocess.run(["chown", "-R", "12345:12345", top], check=True)
    tools.mkdir()
    (tools / "python3").write_text(f'#!/bin/sh\nexec {Path(sys.executable).resolve()} -S "$@"\n')
    (tools / "python3").chmod(0o755)
    env = {"PATH": f"{tools}:/usr/bin:/bin", "CPUIDLE_LAB_ROOT": str(root)}
    by_sudo = {**env, "SUDO_UID": "12345", "SUDO_GID": "12345"}
    shorter = ["0.1" if word == "60" else word for word in capture_line[1:]]
    done = subprocess.run(
        shorter, cwd=top, env=by_sudo, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [path for path in top.rglob("*") if path.lstat().st_uid != 12345] == []
    # The recorder of this machine writes no trace.
    kernel = Kernel()
    for _ in range(200):
        kernel.idle(1, 300_000, sleep=10**9, delta=10**9)
    kernel.write(top / "trace.dat")
    (top / "build").mkdir()
    for name in ("venv", "cache"):
        (top / "build" / name).symlink_to(TOP / "build" / name)
    done = subprocess.run(
        compare_line, cwd=top, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "the least regret first" in done.stdout
    assert (top / "compare.html").exists()


# ---- Ways ----


def test_with_neither_probes_nor_timers_cpu_idle_alone_is_recorded(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / KPROBE_EVENTS.lstrip("/")).unlink()
    (root / f"{TRACEFS}/events/timer/tick_stop/enable".lstrip("/")).unlink()
    way = best_way(Host(Tree(root)), Probes(Host(Tree(root))))
    why = "the kernel has no kprobe_events, and it lacks events of timers"
    assert (way.name, way.why) == ("cpu_idle", why)
    assert way.events[:2] == ("-e", "power:cpu_idle")
    assert not any("cil_" in word for word in way.events)


def test_the_command_records_without_probes(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / KPROBE_EVENTS.lstrip("/")).unlink()
    assert main(["capture", "--stock", "--", "true"]) == 0
    assert "recorded by events only: the kernel has no kprobe_events" in capsys.readouterr().err
    assert not (root / KPROBE_EVENTS.lstrip("/")).exists()
    Path("trace.dat").unlink()
    monkeypatch.setattr(Tree, "may_write", lambda *_: False)
    assert main(["capture", "--stock", "--", "true"]) == 1
    assert "needs root" in capsys.readouterr().err


WAYS = ("probes", "events", "cpu_idle")


def limit(root: Path, way: str) -> None:
    """Leave of the kernel what makes a way the best."""
    lacks: dict[str, tuple[str, ...]] = {
        "probes": (),
        "events": (KPROBE_EVENTS,),
        "cpu_idle": (KPROBE_EVENTS, f"{TRACEFS}/events/timer/tick_stop/enable"),
    }
    for name in lacks[way]:
        (root / name.lstrip("/")).unlink()


class Marked(Tree):
    """A machine that keeps what is written to its trace_marker."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.marks: list[str] = []

    def _write(self, name: str, text: str) -> None:
        if name.endswith("/trace_marker"):
            self.marks.append(text)
        super()._write(name, text)


@pytest.mark.parametrize("way", WAYS)
def test_each_way_records_its_events_and_says_itself(root: Path, way: str) -> None:
    limit(root, way)
    for event in ("sched/sched_switch", "timer/hrtimer_rearm"):
        folder = root / f"{TRACEFS}/events/{event}".lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "enable").write_text("0\n")
    before = contents(root)
    tree = Marked(root)
    plan = capture.Plan(Path("a.dat"), False, None, (), (), None, ("true",), stock=True)
    result = capture.record(Host(tree), plan)
    assert (result.exit_code, result.way, bool(result.why)) == (0, way, way != "probes")
    asked = (root / "recorded-arguments").read_text().split()
    assert asked[3:5] == ["-C", "mono"]
    assert any(word.startswith("cil_p") for word in asked) == (way == "probes")
    # The device of the clock tells what probes tell better.
    assert ("timer:hrtimer_rearm" in asked) == (way == "events")
    assert {"power:cpu_idle", "timer:hrtimer_expire_entry"} <= set(asked)
    assert OUR_EVENTS not in asked
    kernel = [mark for mark in tree.marks if mark.startswith("stock kernel=")]
    assert len(kernel) == 1 and kernel[0].endswith(f" way={way}")
    told = [mark.split()[0] for mark in tree.marks]
    assert told[0] == "stock" and told.index("phase") > told.index("stock")
    # Values that may have changed are written once more.
    begin = [mark for mark in tree.marks if mark.startswith("stock machine ")]
    end = [mark for mark in tree.marks if mark.startswith("stock end ")]
    assert end and [line.replace("stock end", "stock machine") for line in end] == begin
    assert contents(root) == before
    assert Path("a.dat").exists()


def test_without_any_event_of_idle_cpus_nothing_is_recorded(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / f"{TRACEFS}/events/power/cpu_idle/enable".lstrip("/")).unlink()
    assert main(["capture", "--stock", "--", "true"]) == 1
    assert "has no event power:cpu_idle" in capsys.readouterr().err
    assert (root / KPROBE_EVENTS.lstrip("/")).read_text() == ""


@pytest.mark.parametrize(
    ("refused", "way"),
    [
        (("tick_nohz_idle_retain_tick",), "events"),
        (("dn=",), "probes"),  # before 6.9
        (("cpuidle_reflect",), "probes"),  # inlined
    ],
)
def test_probes_before_a_refused_one_are_removed(
    root: Path, refused: tuple[str, ...], way: str
) -> None:
    tree = Refusing(root, *refused)
    probes = Probes(Host(tree))
    found = best_way(Host(tree), probes)
    assert found.name == way
    assert ("tick_nohz_idle_retain_tick: no such file" in found.why) == (way == "events")
    probes.remove()
    there: set[str] = set()
    for line in tree.lines:
        event = line[2:].split()[0]
        if line.startswith("-:"):
            there.remove(event)  # each is removed once
        else:
            assert event not in there
            there.add(event)
    assert there == set()


# ---- Interruptions ----


@pytest.mark.parametrize("way", ["events", "cpu_idle"])
def test_ctrl_c_restores_what_a_session_without_probes_changed(root: Path, way: str) -> None:
    limit(root, way)
    before = contents(root)
    process = start("capture", "--stock", "--", "sh", "-c", "echo > on; exec sleep 60")
    wait_for(Path("on").exists)
    clock = root / unfinished.TRACE_CLOCK.lstrip("/")
    clock.write_text(SET)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGINT
    assert err.endswith("no trace was kept, the system is as before\n")
    assert clock.read_text() == "global\n"
    assert contents(root) == before and not list((root / "run").iterdir())
    assert not (root / KPROBE_EVENTS.lstrip("/")).exists()
    assert [path.name for path in Path().iterdir()] == ["on"]


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_ends_an_open_session_which_keeps_its_trace(root: Path, way: str) -> None:
    limit(root, way)
    before = contents(root)
    process = start("capture", "--stock")
    marker = root / f"{TRACEFS}/trace_marker".lstrip("/")
    wait_for(lambda: marker.exists() and "phase governor=" in marker.read_text())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert ("recorded by " in err) == (way != "probes")
    assert Path("trace.dat").read_text() == "a trace\n"
    assert contents(root) == before and not list((root / "run").iterdir())
    if way == "probes":
        lines = (root / KPROBE_EVENTS.lstrip("/")).read_text().splitlines()
        assert sorted(lines[6:]) == sorted(f"-:{line.split()[0][2:]}" for line in lines[:6])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_restores_everything(root: Path, number: signal.Signals) -> None:
    before = contents(root)
    process = start("capture", "--stock", "--", "sh", "-c", "echo > on; exec sleep 60")
    wait_for(Path("on").exists)
    probes = root / KPROBE_EVENTS.lstrip("/")
    assert probes.read_text().count("\n") == 6
    clock = root / unfinished.TRACE_CLOCK.lstrip("/")
    clock.write_text(SET)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert err.endswith("no trace was kept, the system is as before\n")
    lines = probes.read_text().splitlines()
    assert sorted(lines[6:]) == sorted(f"-:{line.split()[0][2:]}" for line in lines[:6])
    assert clock.read_text() == "global\n"
    assert contents(root) == before
    assert [path.name for path in Path().iterdir()] == ["on"]


# ---- Killed sessions ----


def killed(root: Path) -> Path:
    """Kill a session; return the directory of its unfinished trace."""
    process = start("capture", "--stock", "--", "sh", "-c", "echo $$ > on; exec sleep 60")
    wait_for(lambda: Path("on").exists() and Path("on").read_text() != "")
    (root / unfinished.TRACE_CLOCK.lstrip("/")).write_text(SET)
    process.kill()
    os.kill(int(Path("on").read_text()), signal.SIGKILL)  # it has the same pipes
    process.communicate(timeout=60)
    (scratch,) = Path().glob(f"{files.SCRATCH}*")
    # The recorder ends by itself, and writes its trace there.
    wait_for(lambda: (root / f"{TRACEFS}/set_event".lstrip("/")).read_text() == "")
    wait_for((scratch / "trace.dat").exists)
    return scratch


def test_the_next_session_mends_what_a_killed_one_left(root: Path) -> None:
    scratch = killed(root)
    clock = root / unfinished.TRACE_CLOCK.lstrip("/")
    assert scratch.is_dir() and clock.read_text() == SET
    assert main(["capture", "-o", "own.dat", "--", "true"]) == 0
    assert clock.read_text() == "global\n"
    assert sorted(path.name for path in Path().iterdir()) == ["on", "own.dat"]
    assert list((root / "run").iterdir()) == []


@pytest.mark.parametrize("case", ["alive", "another clock", "another directory", "no note"])
def test_what_is_not_a_leftover_is_left_alone(root: Path, case: str) -> None:
    host = Host(Tree(root))
    clock = root / unfinished.TRACE_CLOCK.lstrip("/")
    kept = Path("mine" if case == "another directory" else f"{files.SCRATCH}a").absolute()
    kept.mkdir()
    clock.write_text("[local] mono\n" if case == "another clock" else "local [mono]\n")
    (root / "run").mkdir(exist_ok=True)
    name = "cpuidle-lab-capture-x" if case == "no note" else "cpuidle-lab-capture-42"
    (root / "run" / name).write_text(f"{kept}\nglobal\n")
    if case == "alive":
        (root / "proc/42").mkdir()
        (root / "proc/42/cmdline").write_bytes(b"python3\0cpuidle-lab\0capture\0")
    before = clock.read_text()
    unfinished.mend(host)
    assert kept.is_dir() == (case != "another clock")
    assert (clock.read_text() == before) == (case != "another directory")
    assert (root / "run" / name).exists() == (case in ("alive", "no note"))


def test_a_machine_without_run_records_all_the_same(root: Path) -> None:
    (root / "run").write_text("no directory\n")
    assert main(["capture", "--stock", "--", "true"]) == 0
    assert Path("trace.dat").exists()


# ---- Latency requests ----


def test_each_cpu_tells_its_own_latency_request(root: Path) -> None:
    cpus = root / "sys/devices/system/cpu"
    for cpu, request in ((1, "30"), (2, "n/a"), (3, "0")):
        folder = cpus / f"cpu{cpu}/cpuidle/state0"
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in (("name", "C1"), ("latency", "2"), ("residency", "2")):
            (folder / name).write_text(f"{value}\n")
        (cpus / f"cpu{cpu}/power").mkdir(exist_ok=True)
        (cpus / f"cpu{cpu}/power/pm_qos_resume_latency_us").write_text(f"{request}\n")
    lines = idle_states.lines(Host(Tree(root)))
    words = [dict(word.split("=", 1) for word in line.split()[2:]) for line in lines]
    assert [(one["cpus"], one["latency_req_us"]) for one in words] == [
        ("0-0", "-1"), ("1-1", "30"), ("2-2", "0"), ("3-3", "-1"),
    ]  # fmt: skip
