# SPDX-License-Identifier: GPL-2.0
"""Recordings of other programs with holes, and with lines that a program for mail has broken."""

import json
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.figures import cpu_idle
from cpuidle_lab.recording import columns, trace
from cpuidle_lab.recording.formats import is_foreign, perfetto, text
from cpuidle_lab.recording.formats.writer import OFFLINE, UNCOUNTED
from tests.unit.format_files import field
from tests.unit.kernel_events import EXIT, MS
from tests.unit.test_formats import STYLES
from tests.unit.test_formats_perfetto import REPORT

# The hole lies in the third idle period of CPU 1, CPU 0 is idle across it.
HOLE = 5
TIMES_MS = (0, 1, 2, 3, 4, 304, 305, 306)


def line(cpu: int, n: int, style: str = "/sys/kernel/tracing/trace") -> str:
    """Return event `n` of a CPU as a program writes it."""
    state = EXIT if n % 2 else 1
    shown = STYLES[style].replace("[000]", f"[{cpu:03}]")
    return shown.format(
        flags="", ts=TIMES_MS[n] / 1000, name="cpu_idle", rest=f"state={state} cpu_id={cpu}"
    )


def lines(*hole: str, head: Sequence[str] = ("# tracer: nop",)) -> str:
    """Return a recording with some lines where events of CPU 1 are missing."""
    found = [*head, line(0, 4)]
    for n in range(len(TIMES_MS)):
        found += [*(hole if n == HOLE else ()), line(1, n)]
    return "\n".join([*found, line(0, 5)]) + "\n"


def lengths(path: Path, cpu: int) -> list[int]:
    """Return the lengths of a CPU's idle periods in ms, on which both readers agree."""
    with columns.opened(path) as recording:
        rows = recording.table("interval")
        by_reader = rows.filter(rows["cpu"] == cpu)["length_ns"].to_list()
    found = cpu_idle.idle_periods(trace.load(path))
    assert found.filter(found["cpu"] == cpu)["residency"].to_list() == by_reader
    return [length // MS for length in by_reader]


def written(path: Path, content: str) -> Path:
    """Write a recording; return its path."""
    path.write_text(content)
    assert is_foreign(path)
    return path


# Losses: events that are counted, places without a number; of CPU 1, or of all.
WORDINGS = {
    "CPU:1 [LOST 1740 EVENTS]": (1740, 0, False),
    "CPU:1 [LOST EVENTS]": (0, 1, False),
    "CPU:1 [1740 EVENTS DROPPED]": (1740, 0, False),
    "CPU:1 [EVENTS DROPPED]": (0, 1, False),
    "  CPU:1 [EVENTS DROPPED]": (0, 1, False),
    "> CPU:1 [LOST 1740 EVENTS]": (1740, 0, False),
    # A buffer of its own, or one of several files, in trace-cmd report; the kernel's log.
    "   idle:  CPU:1 [1740 EVENTS DROPPED]": (1740, 0, False),
    "   idle:  CPU:1 [EVENTS DROPPED]": (0, 1, False),
    "[   12.345678] CPU:1 [LOST 1740 EVENTS]": (1740, 0, False),
    "CPU:1 [LOST 1740\nEVENTS]": (1740, 0, False),
    "CPU:1 [1740 EVENTS": (0, 1, False),
    "CPU:1 [LOST 40 EVENTS]\nCPU:1 [LOST 2 EVENTS]": (42, 0, False),
    "CPU:1 [LOST 40 EVENTS]\nCPU:1 [LOST EVENTS]": (0, 1, False),
    "swapper     0 [001]   0.100000: PERF_RECORD_LOST lost 1740": (1740, 0, False),
    "swapper     0 [001]   0.100000: PERF_RECORD_LOST_SAMPLES lost 1740": (1740, 0, False),
    "swapper     0   0.100000: PERF_RECORD_LOST lost 1740": (0, 2, True),
    "LOST 1740 events!": (0, 2, True),
    "Lost 1740 events": (0, 2, True),
    "swapper     0 [001]   0.100000: PERF_RECORD_LOST_SAMPLES": (0, 1, False),
    "[LOST EVENTS]": (0, 2, True),
    "[EVENTS DROPPED]": (0, 2, True),
    "[events lost]": (0, 2, True),
    "[Missed records]": (0, 2, True),
    "[LOST 1740 EVENTS]": (0, 2, True),
    "Lost 1740 events (cpu 1)": (1740, 0, False),
    "CPU 1: 1740 events lost": (1740, 0, False),
    "CPU 1 lost 1740 events": (1740, 0, False),
    "Warning: 1740 events were lost on CPU#1": (1740, 0, False),
    "*** LOST 1740 EVENTS ***": (0, 2, True),
    "-- 1740 samples dropped --": (0, 2, True),
    "Lost events: 1740": (0, 2, True),
    "events lost: 1740": (0, 2, True),
    # A line of an event that was cut off, or has a state that cannot be.
    "<idle>-0  [001] d..1. 0.200000: cpu_idle: state=4x cpu_id=1": (0, 1, False),
    "<idle>-0  [001] d..1. 0.200000: cpu_idle: state=-2 cpu_id=1": (0, 1, False),
    "<idle>-0  [001] d..1. 0.200000: cpu_idle: state=429 cpu_id=1": (0, 1, False),
    "<idle>-0       [001] d..1.": (0, 1, False),
    "<idle>-0       [001] d..1. 0.200000:": (0, 1, False),
    "<idle>-0       [001] d..1. 0.200000: cpu_idle:": (0, 1, False),
}


@pytest.mark.parametrize("wording", WORDINGS)
def test_no_idle_period_spans_a_loss(tmp_path: Path, wording: str) -> None:
    path = written(tmp_path / "x", lines(wording))
    known, unknown, everywhere = WORDINGS[wording]
    assert lengths(path, 1) == [1, 1, 1]
    assert lengths(path, 0) == ([] if everywhere else [300])
    found = trace.load(path).integrity
    assert (found.lost_known, found.lost_unknown) == (known, unknown)


# Commands agree on what was lost.
def test_every_command_names_a_loss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "x", lines("CPU:1 [1740 EVENTS DROPPED]"))
    assert main(["report", str(path), "--json", "-o", str(tmp_path / "r.html")]) == 0
    (told,) = json.loads(capsys.readouterr().out)["traces"]
    assert told["integrity"]["lost_known"] == 1740
    assert main(["export", str(path), "--parquet", str(tmp_path / "out")]) == 0
    assert "1740 events lost by the kernel" in capsys.readouterr().out
    assert main(["replay", "--check", str(path)]) == 1
    assert "events were lost" in capsys.readouterr().out


NO_LOSS = (
    "", "CPU:1 [LOST 0 EVENTS]", "##### CPU 1 buffer started ####", "CPU 1 is empty",
    "Processed 9 events and lost 0 chunks!", "dropped events: 0", "commit overrun: 0",
    "# no events were lost", "lost events: 0", "CPU 1: 0 events lost", "9 events, lost no chunk",
    "  a-1  [001] d..1. 0.200000: sched_wakeup: comm=CPU:1 [LOST 3 EVENTS]",
    "# entries-in-buffer/entries-written: 7/7   #P:2",
    "  a-1  [001] d..1. 0.200000: do_idle <-cpu_startup_entry",
    "  a-1  [001] d..1. 0.200000: lost_events: LOST 3 events",
)  # fmt: skip


@pytest.mark.parametrize("hole", NO_LOSS)
def test_nothing_is_lost_where_nothing_says_so(tmp_path: Path, hole: str) -> None:
    path = written(tmp_path / "x", lines(hole))
    assert lengths(path, 1) == [1, 1, 300, 1]
    assert trace.load(path).integrity.complete


def test_events_that_were_overwritten_are_counted(tmp_path: Path) -> None:
    head = ["# tracer: nop", "# entries-in-buffer/entries-written: 205/1050   #P:2"]
    path = written(tmp_path / "x", lines(head=head))
    assert lengths(path, 1) == [1, 1, 300, 1]
    found = trace.load(path).integrity
    assert (found.lost_known, found.lost_unknown) == (845, 0)


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("Processed 9 events and lost 2 chunks!", "--show-lost-events"),
        ("Processed 9 samples and lost 7.25%!", "--show-lost-events"),
        ("dropped events: 17", "overwrite"),
        ("commit overrun: 3", "overwrite"),
    ],
    ids=["perf", "perf samples", "trace-cmd", "nested"],
)
def test_a_loss_without_a_place_is_refused(tmp_path: Path, said: str, remedy: str) -> None:
    path = written(tmp_path / "x", lines() + said + "\n")
    with pytest.raises(UserError, match=f"lost, and not where; .*{remedy}"):
        list(text.events(path))


@pytest.mark.parametrize("written_of", range(len("state=4294967295")))
def test_a_file_that_ends_within_a_state_is_read(tmp_path: Path, written_of: int) -> None:
    whole = lines().rstrip()
    path = written(tmp_path / "x", whole[: whole.rindex("state=") + written_of])
    assert lengths(path, 1) == [1, 1, 300, 1]
    assert lengths(path, 0) == []


# As 32 bits, as 64 bits, and as numbers with a sign or a base.
@pytest.mark.parametrize("exit_", ["18446744073709551615", "-1", "0xffffffff"])
def test_an_exit_is_known_by_each_of_its_numbers(tmp_path: Path, exit_: str) -> None:
    path = written(tmp_path / "x", lines().replace(str(EXIT), exit_))
    assert lengths(path, 1) == [1, 1, 300, 1]


# ---- CPUs that go offline ----

GONE = [
    "  cpuhp/1-9    [001] .... 0.100000: cpuhp_enter: cpu: 0001 target: 140 step: 232 (f)",
    "  bash-7       [000] .... 0.100000: cpuhp_enter: cpu: 0001 target: 140 step:  89 (f)",
    "  bash-7       [000] .... 0.1000: x",
    "  cpuhp/1-9    [001] .... 0.100000: cpuhp_multi_enter: cpu: 0001 target: 140 step: 9 (f)",
    "  bash-7       [000] .... 0.100000: cpuhp_exit:  cpu: 0001  state: 140 step: 140 ret: 0",
    "  bash-7  [000]  0.100000: cpuhp_latency:        cpu:1 state:offline latency:50 USEC ret: 0",
    "  bash-7       [000] .... 0.100000: sched_cpu_hotplug: cpu 1 offline error=0",
    "  bash-7       [000] .... 0.100000: suspend_resume: CPU_OFF[1] begin",
]


@pytest.mark.parametrize("event", [event for event in GONE if event[-1] != "x"])
def test_no_idle_period_spans_a_time_offline(tmp_path: Path, event: str) -> None:
    path = written(tmp_path / "x", lines(event))
    assert lengths(path, 1) == [1, 1, 1]
    assert lengths(path, 0) == [300]
    assert trace.load(path).integrity.complete


def test_events_of_hotplug_alone_are_no_recording(tmp_path: Path) -> None:
    path = written(tmp_path / "x", f"# tracer: nop\n{GONE[0]}\n")
    with pytest.raises(UserError, match="holds no event of idle CPUs"):
        trace.load(path)


def test_a_perfetto_trace_tells_of_holes(tmp_path: Path) -> None:
    def event(ts: int, number: int, told: bytes) -> bytes:
        return field(perfetto.EVENT, field(perfetto.TIMESTAMP, ts) + field(number, told))

    def packet(*events: bytes, more: bytes = b"") -> bytes:
        bundle = field(perfetto.CPU, 1) + more + b"".join(events)
        return field(perfetto.PACKET, field(perfetto.FTRACE_EVENTS, bundle))

    idle = [
        event(1000 * n, perfetto.CPU_IDLE, field(perfetto.STATE, EXIT if n % 2 else 1))
        for n in range(6)
    ]
    (number,) = (key for key, name in perfetto.OFFLINE.items() if name == OFFLINE)
    path = tmp_path / "x"
    path.write_bytes(
        packet(idle[0], event(500, number, field(1, 1)), idle[1], idle[2])
        + packet(idle[3], idle[4], more=field(perfetto.BROKEN_PAGE, b""))
        + packet(idle[5])
    )
    assert [(one.name, one.lost) for one in perfetto.events(path)] == [
        ("cpu_idle", 0), (OFFLINE, 0), ("cpu_idle", 0), ("cpu_idle", 0),
        ("cpu_idle", UNCOUNTED), ("cpu_idle", 0), ("cpu_idle", 0),
    ]  # fmt: skip
    with columns.opened(path) as recording:
        assert recording.table("interval")["start_ns"].to_list() == [4000]


# ---- Broken lines ----


def broken(content: str, chosen: Sequence[int], quote: str = "") -> str:
    """Break each line at one blank of it, as programs for mail do; `chosen` says at which."""
    out = []
    for n, whole in enumerate(content.splitlines()):
        blanks = [found.start() for found in re.finditer(r"(?<=\S) +(?=\S)", whole)]
        if blanks and not whole.startswith("#"):
            at = blanks[chosen[n % len(chosen)] % len(blanks)]
            out += [whole[:at] + " ", whole[at:].strip()]
        else:
            out.append(whole)
    return "".join(f"{quote}{part}\n" for part in out)


def agrees(broken: Path, whole: Path) -> bool:
    """Compare events; the task is unknown where a line is broken behind it, and never another."""
    pairs = list(zip(text.events(broken), text.events(whole), strict=True))
    tasks = {(one.comm, one.pid) for one, other in pairs if one.comm != other.comm}
    same = all(replace(one, comm=other.comm, pid=other.pid) == other for one, other in pairs)
    return same and tasks <= {("", 0)}


@pytest.mark.parametrize("quote", ["", "> ", "> > "], ids=["", "quoted", "twice"])
@pytest.mark.parametrize("style", [name for name in STYLES if name != "systrace, HTML"])
@pytest.mark.parametrize("at", range(6))
def test_a_broken_line_is_put_together(tmp_path: Path, style: str, at: int, quote: str) -> None:
    whole = "\n".join(line(cpu, n, style) for n in range(len(TIMES_MS)) for cpu in (0, 1)) + "\n"
    (tmp_path / "whole").write_text(whole)
    path = tmp_path / "wrapped"
    path.write_text(broken(whole, [at], quote))
    assert agrees(path, tmp_path / "whole")
    assert is_foreign(path)


@pytest.mark.parametrize("seed", range(8))
def test_lines_of_all_events_are_put_together(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    (tmp_path / "whole").write_text(REPORT)
    path = tmp_path / "wrapped"
    path.write_text(broken(REPORT, [source.randrange(40) for _ in range(40)]))
    assert agrees(path, tmp_path / "whole")


# The CPU in brackets is the CPU, whether the field is there or not.
# Text on a line of its own tells nothing that the event has told.
@pytest.mark.parametrize(
    "rest", ["", " cpu_id=0", "\ncpu_id=1", " \n cpu_id=1", f"\nstate={EXIT}", "\nRegards"]
)
def test_the_cpu_in_brackets_is_the_cpu(tmp_path: Path, rest: str) -> None:
    path = written(tmp_path / "x", lines().replace(" cpu_id=1", rest))
    assert lengths(path, 1) == [1, 1, 300, 1]
    assert lengths(path, 0) == [300]


OF_THE_RUN = re.compile(
    r"[\d.]+ (s|million/s)\b|\d{4}-\S+T\S+|\"(seconds|events_per_s)\": .*|/tmp/cpuidle-lab-\w+"
)
COMMANDS = {
    "report": ["--json", "-o", "{out}.html"],
    "compare": [
        "--json",
        "--machine",
        "skx",
        "--governors",
        "teo_ng",
        "--no-mainline",
        "--no-instructions",
    ],
    "export": ["--json", "--parquet", "{out}"],
}


def test_a_broken_recording_gives_the_same_figures_in_each_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said: dict[str, list[str]] = {}
    for name in ("one_line", "two_lines"):
        folder = tmp_path / name
        folder.mkdir()
        path = folder / "trace.txt"
        path.write_text(lines() if name == "one_line" else broken(lines(), [0, 1, 2, 3]))
        words = [
            *([command, str(path), *(w.format(out=folder / command) for w in options)]
              for command, options in COMMANDS.items()),
            ["export", str(path), "--perfetto", str(folder / "p.json")],
            ["replay", "--check", str(path)],
        ]  # fmt: skip
        said[name] = []
        for command in words:
            code = main(command)
            out = capsys.readouterr()
            figures = OF_THE_RUN.sub("", out.out + out.err)
            said[name].append(f"{command[0]} {code} {figures.replace(name, 'X')}")
        said[name].append((folder / "p.json").read_bytes().replace(name.encode(), b"X").hex())
    assert said["one_line"] == said["two_lines"]
