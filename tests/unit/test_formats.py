# SPDX-License-Identifier: GPL-2.0
"""Formats of recordings: what of them is kept in memory, and what of them is read."""

import bz2
import gzip
import json
import lzma
import os
import random
import re
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.recording import columns
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.formats import as_trace, is_foreign, perfetto, text
from cpuidle_lab.recording.formats.packed import FORMS
from cpuidle_lab.recording.formats.writer import Event, Writer
from tests.unit import dump_forms, test_former
from tests.unit.format_files import CPU_ID, TEXT, field
from tests.unit.kernel_events import EXIT, MS, bare
from tests.unit.test_other_forms import UNREAD

# ---- What is read ----

STYLES = {
    "trace-cmd report -t": "          <idle>-0     [000]{flags} {ts:.9f}: {name}: {rest}",
    "trace-cmd report --ts-diff": "   <idle>-0     [000]{flags} {ts:.6f}: (+3)     {name}: {rest}",
    "/sys/kernel/tracing/trace": "          <idle>-0       [000] d..1. {ts:.6f}: {name}: {rest}",
    "systrace, HTML": "  <idle>-0     (-----) [000] d..2 {ts:.6f}: {name}: {rest}\\n\\",
    "perf script": "swapper     0 [000] {ts:.6f}:     {name}: {rest}",
    "perf script with period": "swapper     0 [000] {ts:.6f}:          1 power:{name}: {rest}",
}


def in_style(style: str) -> bytes:
    """Return five idle periods as text."""

    def line(ts: float, name: str, rest: str) -> str:
        return STYLES[style].format(flags="", ts=ts, name=name, rest=rest)

    lines = ["cpus=1", "# tracer: nop", "nonsense"]
    for n in range(5):
        lines.append(line(10 + n, "cpu_idle", "state=1 cpu_id=0"))
        lines.append(line(10.5 + n, "cpu_idle", f"state={EXIT} cpu_id=0"))
    return "\n".join([*lines, ""]).encode()


@pytest.mark.parametrize("style", STYLES)
def test_text_of_each_program_is_read(tmp_path: Path, style: str) -> None:
    path = tmp_path / "trace.txt"
    path.write_bytes(in_style(style))
    assert is_foreign(path)
    with columns.opened(path) as recording:
        assert recording.kind == columns.CPU_IDLE
        assert recording.table("interval")["length_ns"].to_list() == [500 * MS] * 5


# A part of these is readable, or refused by a program.
WHOLE = ("UTF-16", "perf.data")

# Packs some text in each form.
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "zstd": lambda data: (
        subprocess.run(["zstd", "-cq"], input=data, capture_output=True, check=True).stdout
    ),
    "bzip2": bz2.compress,
    "zlib": lambda data: b"TRACE:\n" + zlib.compress(data),
    "perf.data": lambda data: b"PERFILE2" + data,
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "JSON": lambda data: json.dumps({"systemTraceEvents": data.decode()}).encode(),
}


@pytest.fixture
def perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a perf that prints what PACKERS put into a perf.data, and notes how it was called."""
    program = tmp_path / "bin" / "perf"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$PERF_CONFIG" "$@" >{tmp_path}/called\n'
        'for file; do :; done\ntail -c +9 "$file"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


def idle_text() -> bytes:
    """Return 400 idle periods as text."""
    line = "          <idle>-0     [000]    {:.6f}: cpu_idle:  state={} cpu_id=0"
    both = [line.format(10 + n / 2, (1, EXIT)[n % 2]) for n in range(800)]
    return "\n".join(["cpus=1", *both, ""]).encode()


@pytest.mark.usefixtures("perf")
@pytest.mark.parametrize("form", [name for name, _, _ in FORMS])
def test_a_packed_recording_is_unpacked(tmp_path: Path, form: str) -> None:
    path = tmp_path / "given"
    path.write_bytes(PACKERS[form](idle_text()))
    with columns.opened(path) as recording:
        assert recording.table("interval")["length_ns"].to_list() == [500 * MS] * 400


@pytest.mark.parametrize("form", [name for name, _, _ in FORMS if name not in WHOLE])
def test_a_packed_recording_that_is_cut_off_is_refused(tmp_path: Path, form: str) -> None:
    """No event of it is used, and the message names the file that the user gave."""
    path = tmp_path / "given"
    data = PACKERS[form](idle_text())
    path.write_bytes(data[: len(data) * 2 // 3])
    expected = f"^{path}: its {form} data are damaged, or end too early$"
    with pytest.raises(UserError, match=expected), columns.opened(path):
        pass


# Contents that have the beginning of a form, and are not of it.
@pytest.mark.parametrize(
    ("form", "data"),
    [
        ("bzip2", bz2.compress(b"x" * 1000)[:12] + bytes(40)),
        ("JSON", b'{"systemTraceEvents": ' + b"[" * 200_000),
        ("zlib", b"TRACE:\nx\x9c" + bytes(40)),
    ],
    ids=["bzip2", "JSON", "zlib"],
)
def test_a_packed_recording_that_is_damaged_is_refused(
    tmp_path: Path, form: str, data: bytes
) -> None:
    path = tmp_path / "given"
    path.write_bytes(data)
    expected = f"^{path}: its {form} data are damaged, or end too early$"
    with pytest.raises(UserError, match=expected), columns.opened(path):
        pass


# To a standard output atrace writes another line before it.
@pytest.mark.parametrize("pack", [bytes, zlib.compress], ids=["plain", "zlib"])
@pytest.mark.parametrize("head", [b"", b"capturing trace... done\n"])
def test_what_atrace_writes_is_read(
    tmp_path: Path, head: bytes, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "given"
    path.write_bytes(head + b"TRACE:\n" + pack(idle_text()))
    with columns.opened(path) as recording:
        assert recording.table("interval")["length_ns"].to_list() == [500 * MS] * 400


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-8-sig"])
@pytest.mark.parametrize("form", ["text", "JSON"])
def test_an_encoding_of_text_is_read(tmp_path: Path, form: str, encoding: str) -> None:
    path = tmp_path / "given"
    data = idle_text() if form == "text" else PACKERS["JSON"](idle_text())
    path.write_bytes(data.decode().encode(encoding))
    with columns.opened(path) as recording:
        assert recording.table("interval")["length_ns"].to_list() == [500 * MS] * 400


def test_a_recording_that_is_packed_twice_is_named_as_given(tmp_path: Path) -> None:
    path = tmp_path / "given"
    path.write_bytes(gzip.compress(lzma.compress(b"cpus=1\n# tracer: nop\n")))
    with pytest.raises(UserError, match=f"^{path}: holds no event"), columns.opened(path):
        pass


def test_a_packed_trace_of_the_module_is_read(tmp_path: Path) -> None:
    plain = test_former.recorded(tmp_path / "a.dat")
    path = tmp_path / "a.dat.gz"
    path.write_bytes(gzip.compress(plain.read_bytes()))
    with columns.opened(plain) as first, columns.opened(path) as second:
        assert first.kind == second.kind == columns.TRACE
        assert first.rows("period") == second.rows("period") > 0


def test_perf_prints_without_scripts_and_configuration_of_a_user(
    tmp_path: Path, perf: Path
) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(PACKERS["perf.data"](idle_text()))
    with columns.opened(path):
        pass
    config, command, *options = (tmp_path / "called").read_text().split()
    assert (config, command, options[-2:]) == (os.devnull, "script", ["-i", str(path)])
    assert not {"-s", "--script", "--dlfilter", "-g"}.intersection(options)
    perf.write_text("#!/bin/sh\necho no cpu >&2\necho x. Ignoring. >&2\nexit 255\n")
    expected = f"^{path}: perf script cannot print it: no cpu$"
    with pytest.raises(UserError, match=expected), columns.opened(path):
        pass
    perf.write_text("#!/bin/sh\n")
    with pytest.raises(UserError, match=f"^{path}: its perf.data data hold nothing$"):
        tr.load(path)


def test_a_program_that_prints_without_end_is_ended(
    tmp_path: Path, perf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cpuidle_lab.recording.formats.packed._CPU_S", 1)
    perf.write_text("#!/bin/sh\nwhile :; do :; done\n")
    path = tmp_path / "perf.data"
    path.write_bytes(b"PERFILE2")
    with pytest.raises(UserError, match="perf script cannot print it: it ended with -"):
        tr.load(path)


@pytest.mark.parametrize("time", ["   70.672006:", "   7us+:"])
def test_the_latency_format_is_refused(tmp_path: Path, time: str) -> None:
    path = tmp_path / "trace.txt"
    path.write_text(f"cpus=1\n  <idle>-0       0d..1. {time} cpu_idle:   state=1 cpu_id=0\n" * 2)
    with pytest.raises(UserError, match="is in the latency format"), columns.opened(path):
        pass


@pytest.mark.parametrize("event", ["cpu_idle:", "power:cpu_idle:"])
def test_a_clock_of_whole_numbers_is_refused(tmp_path: Path, event: str) -> None:
    path = tmp_path / "trace.txt"
    path.write_text(f" <idle>-0   [000] d..1. 706720061234: {event} state=1 cpu_id=0\n" * 2)
    expected = "times of a clock that does not count ns.* trace-cmd record -C mono"
    with pytest.raises(UserError, match=expected), columns.opened(path):
        pass


def forms(folder: Path) -> dict[str, bytes]:
    """Return a recording in each form of the page."""
    latency = b"  <idle>-0       0d..1.  70.672006: cpu_idle:   state=1 cpu_id=0\n"
    unitless = b" <idle>-0   [000] d..1. 706720061234: cpu_idle: state=1 cpu_id=0\n"
    return {
        "trace.dat": bare(folder).read_bytes(),
        **{style: in_style(style) for style in STYLES},
        "Perfetto, of ftrace": packed(),
        **{name: PACKERS[name](idle_text()) for name, _, _ in FORMS},
        "`atrace -z`": b"TRACE:\n" + zlib.compress(idle_text()),
        "zstd, without `zstd`": PACKERS["zstd"](idle_text()),
        "perf.data, without `perf`": PACKERS["perf.data"](idle_text()),
        "lines that a mail broke": idle_text().replace(b" cpu_id", b"\ncpu_id"),
        "an impossible time among many": idle_text().replace(b"12.000000", b"99999.000000"),
        "colours of a terminal": re.sub(
            rb"(cpu_idle):", b"\x1b[01;31m\x1b[K\\1\x1b[m:", idle_text()
        ),
        "a comma in times": re.sub(rb"(\d)\.(\d{6}):", rb"\1,\2:", idle_text()),
        "`trace-cmd report -l`": latency * 2,
        "a clock such as `x86-tsc`": unitless * 2,
        "perf's count of lost chunks": idle_text() + b"Processed 9 events and lost 3 chunks!\n",
        "JSON of Chrome": b'{"traceEvents": []}',
        "a dump of sysfs": dump_forms.grep(dump_forms.machine(1)).encode(),
        "`cpupower idle-info`": dump_forms.cpupower(dump_forms.machine(1)).encode(),
        **{name: text.encode() for name, text in UNREAD.items()},
        "any other file": bytes(range(256)) * 4,
    }


@pytest.mark.usefixtures("perf")
def test_the_page_has_the_verdict_on_each_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ["| form | verdict |", "|---|---|"]
    for name, data in forms(tmp_path).items():
        path = tmp_path / "given"
        path.write_bytes(data)
        with monkeypatch.context() as patch:
            if "without" in name:
                patch.setenv("PATH", "")
            try:
                with columns.opened(path) as recording:
                    assert recording.rows("interval"), name
                verdict = "read"
            except UserError as error:
                verdict = error.message.replace(str(path), "FILE").removeprefix("FILE: ")
        rows.append(f"| {name} | {verdict} |")
    page = (Path(__file__).parents[2] / "docs/formats.md").read_text()
    table = "\n".join(rows)
    assert f"{table}\n\n" in page, f"docs/formats.md must have this table:\n{table}"


def packed(kind: str = "plain") -> bytes:
    """Return a Perfetto trace of two idle periods."""
    events = b""
    for ts, state in ((1000, 1), (2000, EXIT), (3000, 2), (9000, EXIT)):
        told = field(perfetto.STATE, state) + field(CPU_ID, 3)
        events += field(
            perfetto.EVENT, field(perfetto.TIMESTAMP, ts) + field(perfetto.CPU_IDLE, told)
        )
    packet = field(perfetto.FTRACE_EVENTS, field(perfetto.CPU, 3) + events)
    if kind == "compressed":
        packet = field(perfetto.COMPRESSED_PACKETS, zlib.compress(field(perfetto.PACKET, packet)))
    return field(perfetto.PACKET, field(8, 5)) + field(perfetto.PACKET, packet)


@pytest.mark.parametrize("kind", ["plain", "compressed"])
def test_a_perfetto_trace_is_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "trace.pftrace"
    path.write_bytes(packed(kind))
    with columns.opened(path) as recording:
        assert recording.table("interval")["length_ns"].to_list() == [1000, 6000]
        assert recording.cpus == [3]


def test_text_may_begin_as_a_perfetto_trace_does(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    path.write_bytes(b"\n\n" + idle_text())
    with columns.opened(path) as recording:
        assert recording.rows("interval") == 400


def test_a_perfetto_trace_may_begin_as_json_does(tmp_path: Path) -> None:
    path = tmp_path / "trace.pftrace"
    first = field(perfetto.PACKET, field(1000, b"x" * 120))
    assert first.startswith(b"\n{")
    path.write_bytes(first + packed())
    with columns.opened(path) as recording:
        assert recording.table("interval")["length_ns"].to_list() == [1000, 6000]


def test_the_numbers_of_perfettos_fields_are_those_of_its_package() -> None:
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    for message, fields in {
        "TracePacket": {
            "ftrace_events": 1,
            "trusted_packet_sequence_id": 10,
            "previous_packet_dropped": 42,
            "compressed_packets": 50,
        },
        "FtraceEventBundle": {
            "cpu": 1,
            "event": 2,
            "lost_events": 3,
            "error": 8,
            "broken_abi_trace_page": 512,
        },
        "FtraceEvent": {"timestamp": 1, "print": 3, "sched_switch": 4, "cpu_idle": 13},
        "CpuIdleFtraceEvent": {"state": 1, "cpu_id": 2},
        "SchedSwitchFtraceEvent": {"prev_pid": 2, "next_pid": 6},
        "PrintFtraceEvent": {"buf": 2},
    }.items():
        known = getattr(protos, message).DESCRIPTOR.fields_by_name
        assert {name: known[name].number for name in fields} == fields


def damaged(whole: bytes, seed: int) -> bytes:
    """Return the bytes cut short, or with some changed."""
    source = random.Random(seed)
    data = bytearray(whole[: source.randrange(1, len(whole))] if seed % 2 else whole)
    for _ in range(source.randrange(8)):
        data[source.randrange(len(data))] = source.randrange(256)
    return bytes(data)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("reader", ["text", "perfetto"])
def test_damaged_files_give_events_or_one_sentence(tmp_path: Path, seed: int, reader: str) -> None:
    path = tmp_path / "x"
    whole = TEXT if reader == "text" else packed("compressed" if seed % 3 else "plain")
    path.write_bytes(damaged(whole, seed))
    readers: dict[str, Callable[[Path], Iterator[Event]]] = {
        "text": text.events,
        "perfetto": perfetto.events,
    }
    try:
        with Writer(tmp_path / "y") as writer:
            for event in readers[reader](path):
                writer.add(event)
    except UserError as error:
        assert "\n" not in error.message


def test_time_that_runs_backwards_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(
        " <idle>-0 [000] d..1. 2.000000: cpu_idle: state=1 cpu_id=0\n"
        " <idle>-0 [000] d..1. 1.000000: cpu_idle: state=1 cpu_id=0\n"
    )
    with pytest.raises(UserError, match="time runs backwards") as refused, as_trace(path):
        pass
    assert refused.value.message.startswith(f"{path}: ")


# The times of one event among 400: far too late, too early, beyond 64 bits.
@pytest.mark.parametrize("at", [0, 1, 200, 201])
@pytest.mark.parametrize("time", ["99999.000000", "0.000001", "12.000001", "999999999999.000000"])
def test_one_impossible_time_is_a_hole(tmp_path: Path, at: int, time: str) -> None:
    path = tmp_path / "x"
    given = idle_text().decode().splitlines(keepends=True)
    given[1 + at] = re.sub(r"[\d.]+(?=: cpu_idle)", time, given[1 + at])
    path.write_text("".join(given))
    with columns.opened(path) as recording:
        lengths = recording.table("interval")["length_ns"].to_list()
    in_order = time == "0.000001" and at == 0
    assert lengths[in_order:] == [500 * MS] * (len(lengths) - in_order)
    assert len(lengths) >= 397
    assert in_order or tr.load(path).integrity.lost_unknown == 1


def test_many_impossible_times_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(idle_text() + idle_text())
    with pytest.raises(UserError, match=f"^{path}: .* time runs backwards"), as_trace(path):
        pass


def test_a_text_without_idle_events_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("# tracer: nop\n")
    with pytest.raises(UserError, match="holds no event of idle CPUs"), as_trace(path):
        pass


@pytest.mark.parametrize(
    "line",
    [
        f"CPU:{'9' * 5000} [LOST 3 EVENTS]",
        f"[CPU:{'9' * 5000} LOST 3 EVENTS]",
        f" a-1 [000] d..1. 0.000000: sched_switch: a:{'9' * 5000} [120] S ==> b:1 [120]",
        f" a-1 [000] d..1. 0.000000: sched_switch: a:1 [120] S ==> b:{'9' * 5000} [120]",
    ],
    ids=["lost", "cut", "from", "to"],
)
def test_a_huge_number_in_a_text_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    path = tmp_path / "x"
    path.write_bytes(line.encode() + b"\n" + TEXT.replace(b"[001]", b"[000]"))
    assert main(["export", str(path), "--parquet", str(tmp_path / "out")]) == 0
    assert "Traceback" not in capsys.readouterr().err


def test_the_scripts_of_a_systrace_page_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "trace.html"
    script = b" x [000] d..1. 0.000000: cpu_idle: state=1 cpu_id=0"
    path.write_bytes(
        b"<!DOCTYPE html>\n<html><head>\n" + script.rjust(1 << 20, b"x") + b"\n"
        b'<script class="trace-data" type="application/text">\n' + TEXT + script.rjust(1 << 16)
    )
    assert is_foreign(path)
    assert [event.ts for event in text.events(path)] == [n * 1_000_001_000 for n in range(40)]
