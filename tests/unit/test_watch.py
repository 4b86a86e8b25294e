# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab watch`, on a recorded machine."""

import argparse
import errno
import json
import os
import pty
import re
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.waiting import Waiter
from cpuidle_lab.cli import main
from cpuidle_lab.commands.watch import add_arguments
from cpuidle_lab.commands.watch import watch as run_watch
from cpuidle_lab.host.machine import CURRENT_GOVERNOR, LAB, MOVED, Host
from cpuidle_lab.host.sysfs import Tree
from cpuidle_lab.view import watch
from cpuidle_lab.view.watch import SHADOW, SHADOW_STATS, Look, StateCount, Tally, compare, look
from tests.unit import command, recorded
from tests.unit.command import wait_for

CPU0 = "/sys/devices/system/cpu/cpu0/cpuidle"

STATS = """\
# cpu governor role decisions agree deeper shallower cost oracle_cost
0 wteo active 100 100 0 0 1100 1000
0 menu_ng shadow 100 70 20 10 1500 1000
0 teo_ng shadow 100 100 0 0 1100 1000
3 wteo active 300 300 0 0 3300 3000
3 menu_ng shadow 300 250 0 50 3300 3000
3 teo_ng shadow 300 299 1 0 3900 3000
"""

HINTS = """\
# pid limit_us cpu comm
17 50 0 my server
18 20 0 (odd) 1 2 3
19 2000 2 other
# cpu0: 2 placed
# cpu2: 1 placed
# tracepoints attached: yes
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unfold a machine on which wteo is in use and has a shadow."""
    root = recorded.unfold("debian13", tmp_path / "machine")
    write(root, CURRENT_GOVERNOR, "wteo")
    write(root, SHADOW, "teo_ng")
    write(root, SHADOW_STATS, STATS)
    for state, (usage, microseconds) in enumerate(((5, 10), (50, 1000), (20, 4000), (9, 80000))):
        write(root, f"{CPU0}/state{state}/usage", str(usage))
        write(root, f"{CPU0}/state{state}/time", str(microseconds))
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(root))
    return root


def write(root: Path, name: str, text: str) -> None:
    (root / name[1:]).write_text(text + "\n")


def remove(root: Path, name: str) -> None:
    path = root / name[1:]
    for child in sorted(path.rglob("*"), reverse=True):
        child.rmdir() if child.is_dir() else child.unlink()
    path.rmdir() if path.is_dir() else path.unlink()


def start(*arguments: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    """Start `watch` for a terminal of 120 columns."""
    return command.start("watch", *arguments, stdout=stdout, TERM="xterm", COLUMNS="120")


def build_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(arguments)


# Reading.


def test_stats_are_read_and_foreign_lines_left_out() -> None:
    tallies = watch.parse_stats(STATS + "0 new active 1 2\nnonsense\n-1 a active 1 1 1 1 1 1\n")
    assert len(tallies) == 6
    assert tallies[1] == Tally(0, "menu_ng", "shadow", 100, 70, 20, 10, 1500, 1000)


def test_the_smallest_limit_of_each_cpu_counts() -> None:
    assert watch.parse_limits(HINTS) == {0: 20, 2: 2000}
    assert watch.parse_limits("# pid limit_us cpu comm\n# tracepoints attached: no\n") == {}


def test_a_look_sees_states_governor_and_shadows(root: Path) -> None:
    seen = look(Host())
    assert seen.governor == "wteo"
    assert seen.base is None
    assert list(seen.states) == [0]
    assert seen.states[0][1] == StateCount("C1", 50, 1000, latency_us=2)
    assert seen.shadows == ("teo_ng",)
    assert len(seen.tallies or []) == 6


@pytest.mark.parametrize(
    ("listing", "cpus"), [("0", [0]), ("0-1,3", [0, 1, 3]), ("1,3", [1, 3]), (None, [0, 1, 3])]
)
def test_cpus_that_are_offline_are_left_out(
    listing: str | None, cpus: list[int], root: Path
) -> None:
    for cpu in (1, 3):
        directory = root / f"sys/devices/system/cpu/cpu{cpu}/cpuidle/state0"
        directory.mkdir(parents=True)
        (directory / "name").write_text("POLL\n")
    if listing is not None:
        write(root, "/sys/devices/system/cpu/online", listing)
    assert list(look(Host()).states) == cpus


def test_hints_are_shown_where_the_gate_heeds_them(root: Path) -> None:
    write(root, f"{LAB}/gate/hints", HINTS)
    assert look(Host()).limits_us == {}
    write(root, CURRENT_GOVERNOR, "gate")
    seen = look(Host())
    assert (seen.base, seen.limits_us) == ("menu", {0: 20, 2: 2000})


# Figures made of it.


def sample(when_s: float, counts: list[tuple[int, int]], tallies: str = "") -> Look:
    """Return a look at CPU 0 with these counts (usage, us) of its states."""
    states = [StateCount(f"C{n}", *count) for n, count in enumerate(counts)]
    return Look(when_s, "wteo", None, {0: states}, watch.parse_stats(tallies), {0: 7}, ("a",))


def test_shares_are_those_between_two_looks(root: Path) -> None:
    before = sample(10, [(5, 100), (7, 200)], STATS)
    now = sample(12, [(5, 100), (27, 500_200)], STATS.replace("wteo active 100", "wteo active 150"))
    view = compare(Host(), before, now)
    (cpu,) = view.cpus
    assert cpu.idle == {"C0": 0, "C1": 0.25}
    assert cpu.awake == 0.75
    assert cpu.entries_per_s == 10
    assert cpu.decisions_per_s == 25
    assert cpu.limit_us == 7
    assert (view.seconds, view.note) == (2, "")


def test_counters_that_began_again_and_late_counts_are_no_nonsense(root: Path) -> None:
    before = sample(10, [(5, 100), (700, 900_000)], STATS)
    now = sample(
        11, [(6, 3_000_100), (10, 500_000)], STATS.replace("wteo active 100", "wteo active 9")
    )
    (cpu,) = compare(Host(), before, now).cpus
    assert cpu.idle == {"C0": 1, "C1": 0.5}
    assert cpu.awake == 0
    assert cpu.entries_per_s == 11
    assert cpu.decisions_per_s == 9


def test_another_driver_and_a_new_cpu_begin_at_zero(root: Path) -> None:
    before = sample(10, [(5, 100)])
    now = replace(sample(11, [(8, 100_000), (2, 0)]), tallies=None)
    now.states[1] = [StateCount("C0", 4, 250_000)]
    first, second = compare(Host(), before, now).cpus
    assert first.idle == {"C0": 0.1, "C1": 0}
    assert second.idle == {"C0": 0.25}
    assert second.decisions_per_s is None


def test_governors_are_summed_over_the_cpus_the_one_in_use_first(root: Path) -> None:
    lines = STATS.splitlines(keepends=True)
    tallies = watch.totals(watch.parse_stats("".join(lines[::-1])))
    assert [(tally.role, tally.governor) for tally in tallies[:1]] == [("active", "wteo")]
    by_name = {tally.governor: tally for tally in tallies}
    menu = by_name["menu_ng"]
    assert (menu.decisions, menu.agree, menu.deeper, menu.shallower) == (400, 320, 20, 60)
    assert menu.share(menu.agree) == 0.8
    assert menu.regret == pytest.approx(0.2)
    assert by_name["wteo"].regret == pytest.approx(0.1)
    assert by_name["teo_ng"].regret == pytest.approx(0.25)


def test_nothing_counted_yet_is_unknown_not_zero() -> None:
    tally = Tally(0, "wteo", "shadow", 0, 0, 0, 0, 0, 0)
    assert (tally.regret, tally.share(0)) == (None, None)


# Output.


def test_without_a_terminal_one_table_is_printed(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", "--interval", "0.1"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("governor: wteo; the last 0.1 s\n")
    assert out.count("governor: ") == 1
    assert "\x1b" not in out
    assert re.search(r"wteo \(in use\) +\| +400 \| +100\.0 \| +0\.0 \| +0\.0 \| +10\.0", out)
    assert re.search(r"menu_ng \(shadow\) \| +400 \| +80\.0 \| +5\.0 \| +15\.0 \| +20\.0", out)
    assert re.search(r"\| +0 \| +100\.0 \| +0\.0 \|", out)
    assert "note" not in out


def test_several_cpus_have_a_mean(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for state in range(4):
        directory = root / f"sys/devices/system/cpu/cpu1/cpuidle/state{state}"
        directory.mkdir(parents=True)
        for name in ("name", "usage", "time"):
            (directory / name).write_bytes((root / f"{CPU0[1:]}/state{state}/{name}").read_bytes())
    assert main(["watch", "--interval", "0.1"]) == 0
    assert re.findall(r"^\| *(mean|\d+) ", capsys.readouterr().out, re.MULTILINE) == [
        "mean",
        "0",
        "1",
    ]


def test_json_is_a_line_for_each_refresh(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "--interval", "0.1", "--count", "3", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 3
    assert lines[0]["time"] < lines[1]["time"]
    line = lines[2]
    assert line["command"] == "watch"
    assert line["kernel"] == "6.12.107+deb13-amd64"
    assert line["governor"] == "wteo"
    assert line["cpus"] == [
        {
            "cpu": 0,
            "entries_per_s": 0,
            "idle": {"POLL": 0, "C1": 0, "C1E": 0, "C6": 0},
            "awake": 1,
            "limit_us": None,
            "decisions_per_s": 0,
        }
    ]
    assert [governor["governor"] for governor in line["governors"]] == ["wteo", "menu_ng", "teo_ng"]
    assert line["governors"][1]["shallower"] == 0.15
    assert line["governors"][1]["regret"] == pytest.approx(0.2)


def test_the_gate_names_its_base(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(root, CURRENT_GOVERNOR, "gate")
    write(root, f"{LAB}/gate/hints", HINTS)
    assert main(["watch", "--interval", "0.1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("governor: gate over menu;")
    assert re.search(r"hint *\|\n.*us *\|", out)
    assert re.search(r"\| +0 \|.*\| +20\|", out)


# Missing values.


def note(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one note of the one table."""
    assert main(["watch", "--interval", "0.1"]) == 0
    out = capsys.readouterr().out
    (line,) = (line for line in out.splitlines() if line.startswith("note: "))
    assert "C1E" in out or "no idle states" in line
    return line


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("/sys/module/cpuidle_lab", "not loaded (sudo modprobe cpuidle_lab)"),
        (LAB, "only root can read them (use sudo)"),
        (SHADOW_STATS, "the module is older than this tool"),
        (CPU0, "no idle states: the machine has no idle driver"),
    ],
)
def test_one_note_says_what_is_missing(
    gone: str, words: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remove(root, gone)
    if gone == "/sys/module/cpuidle_lab":
        remove(root, LAB)
    assert words in note(capsys)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({CURRENT_GOVERNOR: "menu"}, "menu is no governor of cpuidle_lab"),
        ({SHADOW: "none"}, "--shadow wteo,menu_ng would show some"),
        ({}, "have not decided yet"),
        ({"/proc/mounts": "", f"{LAB}/version": ""}, "sudo mount -t debugfs"),
        ({"/sys/kernel/security/lockdown": "none [integrity]"}, "locked down (integrity)"),
    ],
)
def test_one_note_says_why_nothing_is_counted(
    files: dict[str, str], words: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(root, SHADOW_STATS, STATS.splitlines()[0])
    for name, text in files.items():
        write(root, name, text)
    assert words in note(capsys)


# The list of shadows.


class Log(Tree):
    """A machine that notes what is written to it, and can refuse."""

    def __init__(self, root: Path, refuse: str = "") -> None:
        super().__init__(root)
        self.writes: list[str] = []
        self.refuse = refuse

    def _write(self, name: str, text: str) -> None:
        self.writes.append(f"{name.removeprefix(LAB)}={text}")
        if text == self.refuse:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        super()._write(name, text)


def watch_once(tree: Tree, *arguments: str) -> list[watch.View]:
    """Watch a machine for one refresh, or as the arguments say."""
    views: list[watch.View] = []
    args = build_arguments(["--interval", "0.1", "--count", "1", *arguments])
    with Waiter() as waiter:
        run_watch(Host(tree), waiter, args, views.append)
    return views


@pytest.mark.parametrize(("before", "restored"), [("teo_ng", "teo_ng"), ("none", "none")])
def test_the_list_is_set_meanwhile_and_restored(before: str, restored: str, root: Path) -> None:
    write(root, SHADOW, before)
    log = Log(root)
    assert len(watch_once(log, "--shadow", "wteo,menu_ng")) == 1
    assert log.writes == ["/shadow=wteo menu_ng", f"/shadow={restored}"]


def test_without_shadow_nothing_is_written(root: Path) -> None:
    log = Log(root)
    watch_once(log)
    assert log.writes == []


def test_a_failure_meanwhile_restores_the_list(root: Path) -> None:
    log = Log(root)
    args = build_arguments(["--interval", "0.1", "--shadow", "wteo"])

    def fail(_: watch.View) -> None:
        raise BrokenPipeError

    with Waiter() as waiter, pytest.raises(BrokenPipeError):
        run_watch(Host(log), waiter, args, fail)
    assert log.writes == ["/shadow=wteo", "/shadow=teo_ng"]


def test_a_refused_list_is_an_error_and_the_old_one_stays(root: Path) -> None:
    log = Log(root, refuse="wteo")
    with pytest.raises(UserError, match="does not accept"):
        watch_once(log, "--shadow", "wteo")
    assert (root / SHADOW[1:]).read_text() == "teo_ng\n"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("nosuch", "'nosuch' cannot be a shadow, only: menu_ng teo_ng wteo"),
        ("wteo,gate", "'gate' cannot be a shadow"),
        ("menu", "'menu' cannot be a shadow"),
        ("wteo_rfc", MOVED["wteo_rfc"]),
    ],
)
def test_what_cannot_be_a_shadow_is_named(
    names: str, words: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", "--shadow", names]) == 1
    assert words in capsys.readouterr().err
    assert (root / SHADOW[1:]).read_text() == "teo_ng\n"


@pytest.mark.parametrize(
    ("gone", "words"),
    [("/sys/module/cpuidle_lab", "not loaded: sudo modprobe"), (SHADOW, "need root and debugfs")],
)
def test_shadows_that_cannot_be_set_are_an_error(
    gone: str, words: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remove(root, gone)
    assert main(["watch", "--shadow", "wteo"]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "arguments", "code"),
    [
        (signal.SIGINT, [], 0),
        (signal.SIGTERM, [], 143),
        (signal.SIGINT, ["--count", "100"], 130),
    ],
)
def test_a_signal_restores_the_list(
    number: signal.Signals, arguments: list[str], code: int, root: Path
) -> None:
    process = start("--interval", "0.2", "--json", "--shadow", "wteo,menu_ng", *arguments)
    assert process.stdout
    first = json.loads(process.stdout.readline())
    assert first["command"] == "watch"
    assert (root / SHADOW[1:]).read_text() == "wteo menu_ng\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    said = f"\ncpuidle-lab: interrupted by {number.name}\n" if code else ""
    assert (process.returncode, err) == (code, said)
    assert (root / SHADOW[1:]).read_text() == "teo_ng\n"


def test_a_reader_that_leaves_ends_it_and_the_list_is_restored(root: Path) -> None:
    process = start("--interval", "0.1", "--json", "--shadow", "wteo")
    assert process.stdout and process.stderr
    process.stdout.readline()
    process.stdout.close()
    with process.stderr as stream:
        assert stream.read() == ""
    assert process.wait(30) == 1
    assert (root / SHADOW[1:]).read_text() == "teo_ng\n"


def test_at_a_terminal_it_goes_on_until_ctrl_c(root: Path) -> None:
    ours, theirs = pty.openpty()
    process = start("--interval", "0.1", "--shadow", "wteo", stdout=theirs)
    os.close(theirs)
    seen = b""

    def refreshed() -> bool:
        nonlocal seen
        seen += os.read(ours, 65536)
        return seen.count(b"governor: wteo") >= 3

    wait_for(refreshed)
    assert b"in use" in seen
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    os.close(ours)
    assert (process.returncode, err) == (0, "")
    assert (root / SHADOW[1:]).read_text() == "teo_ng\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--interval", "0"],
        ["--interval", "nan"],
        ["--interval", "inf"],
        ["--interval", "soon"],
        ["--interval", "1e9"],
        ["--count", "0"],
        ["--count", "-1"],
        ["--count", "²"],
        ["--shadow", ""],
        ["--shadow", "wteo,"],
        ["--shadow", "wteo,wteo"],
        ["--shadow", "wteo menu_ng"],
        ["extra"],
    ],
)
def test_wrong_usage(arguments: list[str], root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["watch", *arguments])
    assert exit_.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
