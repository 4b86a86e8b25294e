# SPDX-License-Identifier: GPL-2.0
"""capture --stock: probes in tracefs, and the script to record by hand."""

import gzip
import json
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from cpuidle_lab.cli import main
from cpuidle_lab.host import capture_script, doctor
from cpuidle_lab.host.machine import TRACEFS
from cpuidle_lab.host.machine import Host as Host
from cpuidle_lab.host.probes import KPROBE_EVENTS, Probes, best_way
from cpuidle_lab.host.sysfs import Tree
from cpuidle_lab.recording import columns
from cpuidle_lab.recording.stock import context_of
from cpuidle_lab.states import machines
from tests.unit import recorded
from tests.unit.kernel_events import MS


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Return a recorded machine with the files of probes and of the kernel's events."""
    root = recorded.unfold("debian13", tmp_path / "machine")
    tracing = root / TRACEFS.lstrip("/")
    (tracing / "kprobe_events").write_text("p:mine/own some_function\n")
    for event in ("power/cpu_idle", "timer/tick_stop", "timer/hrtimer_expire_entry"):
        (tracing / "events" / event).mkdir(parents=True)
        (tracing / "events" / event / "enable").write_text("0\n")
    return Host(Tree(root))


def probe_lines(host: Host) -> list[str]:
    """Return what was written to kprobe_events; a plain file keeps every line."""
    return (host.tree.read(KPROBE_EVENTS) or "").splitlines()


def test_probes_are_added_and_removed_beside_those_of_others(host: Host) -> None:
    probes = Probes(host)
    way = best_way(host, probes)
    assert (way.name, way.why) == ("probes", "")
    assert way.events[:2] == ("-e", probes.group)
    added = probe_lines(host)
    assert added[0] == "p:mine/own some_function" and len(added) == 7
    assert "dn=+0($arg1):s64" in added[1]
    probes.remove()
    assert probe_lines(host)[7:] == [f"-:{line.split()[0][2:]}" for line in added[1:]]
    probes.remove()
    assert len(probe_lines(host)) == 13


def test_an_old_kernel_gets_no_argument_in_a_return_probe(host: Host) -> None:
    host.tree.path("/proc/sys/kernel/osrelease").write_text("6.1.0-40-amd64\n")
    best_way(host, Probes(host))
    assert "dn=" not in probe_lines(host)[1]


def test_leftovers_of_a_killed_session_are_removed_and_a_living_ones_kept(host: Host) -> None:
    for pid in (41, 42):
        folder = host.tree.path(f"{TRACEFS}/events/cil_p{pid}")
        folder.mkdir()
        (folder / "enable").write_text("1\n")
        host.tree.append(KPROBE_EVENTS, f"p:cil_p{pid}/cil_stop_tick tick_nohz_idle_stop_tick")
    alive = host.tree.path("/proc/42/cmdline")
    alive.parent.mkdir()
    alive.write_bytes(b"python3\0cpuidle-lab\0capture\0--stock\0")
    assert Probes(host).mend() == ["cil_p41"]
    assert probe_lines(host)[-1] == "-:cil_p41/cil_stop_tick"
    assert host.tree.read(f"{TRACEFS}/events/cil_p41/enable") == "0"
    assert host.tree.read(f"{TRACEFS}/events/cil_p42/enable") == "1"


def test_without_probes_the_kernels_events_are_used_and_the_reason_is_said(host: Host) -> None:
    host.tree.path(KPROBE_EVENTS).unlink()
    way = best_way(host, Probes(host))
    assert (way.name, way.why) == ("events", "the kernel has no kprobe_events")


def test_the_script_to_record_by_hand_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capture", "--print"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("#!/bin/sh") and "kprobe_events" in text
    if shellcheck := shutil.which("shellcheck"):
        command = [shellcheck, "--severity=warning", "-s", "sh", "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def by_hand(host: Host) -> subprocess.CompletedProcess[str]:
    """Run the script to record by hand on a recorded machine; its trace is `out`."""
    root = host.tree.root
    script = capture_script.SCRIPT
    for folder in ("/sys", "/boot", "/proc", "/dev/cpu"):
        script = re.sub(rf"(?<=[\s=\"]){folder}", f"{root}{folder}", script)
    environment = {**os.environ, "PATH": f"{root}/bin:{os.environ['PATH']}"}
    return subprocess.run(
        ["sh", "-s", "1", str(root / "out")],
        input=script, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def hand(host: Host) -> Host:
    """Return a machine whose trace-cmd notes its arguments and leaves tracing as it used it."""
    tree, root = host.tree, host.tree.root
    for name, content in (
        ("current_tracer", "nop"),
        ("set_event", ""),
        ("trace_clock", "[local] global mono"),
        ("tracing_on", "0"),
    ):
        tree.path(f"{TRACEFS}/{name}").write_text(f"{content}\n")
    (root / "bin").mkdir(exist_ok=True)
    (root / "bin/uname").write_text("#!/bin/sh\necho own\n")
    (root / "bin/trace-cmd").write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" >>{root}/arguments\ncd {root}{TRACEFS} || exit\n'
        "echo 'local global [mono]' >trace_clock\necho 1 >tracing_on\n"
        "echo power:cpu_idle >set_event\n"
    )
    for program in ("uname", "trace-cmd"):
        (root / "bin" / program).chmod(0o755)
    return host


def test_the_script_by_hand_leaves_tracing_as_it_was(hand: Host) -> None:
    tree = hand.tree
    done = by_hand(hand)
    assert done.returncode == 0, done.stderr
    words = (tree.root / "arguments").read_text().splitlines()
    assert words[0] == "record" and "reset" not in words
    added = probe_lines(hand)[1:7]
    assert probe_lines(hand)[0] == "p:mine/own some_function"
    removed = sorted(f"-:{line.split()[0][2:]}" for line in added)
    assert sorted(probe_lines(hand)[7:]) == removed
    assert tree.read(f"{TRACEFS}/trace_clock") == "local"
    assert tree.read(f"{TRACEFS}/tracing_on") == "0"
    assert tree.read(f"{TRACEFS}/events/enable") == "0"


def test_the_script_by_hand_reads_the_limits_again_at_the_end(hand: Host) -> None:
    root = hand.tree.root
    with (root / "bin/trace-cmd").open("a") as file:
        file.write('until [ "$1" = sh ]; do shift; done\n"$@"\n')
    done = by_hand(hand)
    assert done.returncode == 0, done.stderr
    # A file keeps the last line only.
    last = (hand.tree.read(f"{TRACEFS}/trace_marker") or "").strip()
    assert last.startswith("stock end cpus=")
    words = (root / "arguments").read_text().splitlines()
    assert last.replace("stock end", "stock machine") in words


def test_the_script_by_hand_records_without_probes(hand: Host) -> None:
    hand.tree.path(KPROBE_EVENTS).unlink()
    done = by_hand(hand)
    assert done.returncode == 0 and "recorded by events only" in done.stderr
    text = (hand.tree.root / "arguments").read_text()
    assert "way=events" in text and "cil_p" not in text
    assert not hand.tree.exists(KPROBE_EVENTS)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("current_tracer", "a tracer is in use"),
        ("set_event", "another session records events"),
        ("", "exists already"),
    ],
)
def test_the_script_by_hand_refuses_what_it_would_destroy(
    hand: Host, name: str, words: str
) -> None:
    if name:
        hand.tree.path(f"{TRACEFS}/{name}").write_text("function\n")
    else:
        (hand.tree.root / "out").write_text("mine")
    done = by_hand(hand)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1) and words in done.stderr
    assert len(probe_lines(hand)) == 1
    assert hand.tree.read(f"{TRACEFS}/trace_clock") == "[local] global mono"
    assert not (hand.tree.root / "arguments").exists()


@pytest.mark.parametrize("where", ["boot", "proc", ""])
def test_the_script_by_hand_takes_the_tick_from_either_file(hand: Host, where: str) -> None:
    root = hand.tree.root
    if where == "boot":
        (root / "boot/config-own").write_text("CONFIG_HZ_1000=y\nCONFIG_HZ=1000\n")
    elif where:
        (root / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_HZ=1000\n"))
    done = by_hand(hand)
    tick_ns = MS if where else 4 * MS
    assert f"tick_ns={tick_ns} " in (root / "arguments").read_text()
    assert done.stderr == ("" if where else "HZ is not known: 250 is assumed\n")


@pytest.mark.parametrize(
    ("own", "general", "limit"),
    [("", None, -1), ("0", 2_000_000_000, -1), ("n/a", None, 0), ("30", 20, 20), ("7", 20, 7)],
)
def test_the_script_by_hand_tells_the_same_idle_states(
    hand: Host, own: str, general: int | None, limit: int
) -> None:
    root = hand.tree.root
    (root / "boot/config-own").write_text("CONFIG_HZ=250\n")
    if own:
        path = root / "sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{own}\n")
    if general is not None:
        (root / "dev").mkdir(exist_ok=True)
        (root / "dev/cpu_dma_latency").write_bytes(struct.pack("=i", general))
    for k, power in ((0, "1500"), (1, "9"), (2, "4294967295")):
        (root / f"sys/devices/system/cpu/cpu0/cpuidle/state{k}/power").write_text(f"{power}\n")
    by_hand(hand)
    lines = [(0, line) for line in (root / "arguments").read_text().splitlines()]
    told = context_of(root, lines)
    assert told is not None and told.tables[0].latency_req_us == limit
    assert told.tables == machines.tables_of(hand)
    assert told.tables[0].table.power_uw[:3] == (1_500_000, 9000, 0)


def test_a_session_sets_probes_and_describes_the_machine(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(host.tree.root))
    output = tmp_path / "a.dat"
    assert main(["capture", "--stock", "-o", str(output), "--json", "--", "true"]) == 0
    assert json.loads(capfd.readouterr().out)["way"] == "probes"
    assert output.exists()
    words = (host.tree.root / "recorded-arguments").read_text()
    assert "-C mono -e cil_p" in words and "-f prev_pid == 0 || next_pid == 0" in words
    assert "cpuidle_lab" not in words
    assert len(probe_lines(host)) == 13
    assert (host.tree.read(f"{TRACEFS}/trace_marker") or "").startswith("stock end")


def test_an_unknown_tick_is_said(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(host.tree.root))

    def words(name: str) -> list[str]:
        return ["capture", "--stock", "-o", str(tmp_path / name), "--", "true"]

    assert main(words("a.dat")) == 0
    assert capsys.readouterr().err.count("the kernel's HZ is not known: 250 is assumed") == 1
    host.tree.path(f"/boot/config-{host.kernel()}").write_text("CONFIG_HZ=250\n")
    assert main(words("b.dat")) == 0
    assert "HZ" not in capsys.readouterr().err


def test_without_a_driver_there_is_nothing_to_record(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(host.tree.root))
    host.tree.path("/sys/devices/system/cpu/cpuidle/current_driver").write_text("none\n")
    assert main(["capture", "--stock", "-o", str(tmp_path / "a.dat")]) == 1
    assert "no cpuidle driver" in capsys.readouterr().err
    assert len(probe_lines(host)) == 1


@pytest.mark.parametrize(("level", "code"), [("integrity", 0), ("confidentiality", 1)])
def test_lockdown_for_confidentiality_alone_forbids_it(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    level: str, code: int,
) -> None:  # fmt: skip
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(host.tree.root))
    host.tree.path("/sys/kernel/security/lockdown").write_text(f"none [{level}]\n")
    assert main(["capture", "--stock", "-o", str(tmp_path / "a.dat"), "--", "true"]) == code
    assert (f"locked down ({level})" in capsys.readouterr().err) == bool(code)
    (finding,) = (one for one in doctor.examine(host) if one.check == "lockdown")
    allowed = "capture --stock is allowed" if not code else "nor capture --stock"
    assert allowed in finding.found


def test_this_machine_records_its_own_idle(tmp_path: Path) -> None:
    host = Host(Tree("/"))
    if host.driver() is None:
        pytest.skip("this machine has no cpuidle driver")
    if not host.tree.may_write(KPROBE_EVENTS) or not host.tool("trace-cmd"):
        pytest.skip("this machine does not permit tracing")
    output = tmp_path / "own.dat"
    assert main(["capture", "--stock", "--duration", "1", "-o", str(output)]) == 0
    with columns.opened(output) as recording:
        assert recording.rows("interval")
