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
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.host.marks import MARK
from cpuidle_lab.recording import columns, reader, synth
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.formats import as_trace, is_foreign, perfetto, text, writer
from cpuidle_lab.recording.formats.packed import FORMS
from cpuidle_lab.recording.formats.writer import UNCOUNTED, Event, Writer
from cpuidle_lab.recording.phases import phases_of
from cpuidle_lab.report.model import build
from tests.unit import dump_forms, test_former
from tests.unit.kernel_events import EXIT, MACHINE, MS, Kernel, bare, periods
from tests.unit.test_other_forms import UNREAD
from tests.unit.tracedat import Trace

MARKERS = 1_000_000
MEMORY = 64 << 20

# Of a Perfetto event of an idle CPU; the reader does without it.
CPU_ID = 2

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


def field(number: int, value: int | bytes) -> bytes:
    """Return a field of a protocol buffer."""

    def varint(n: int) -> bytes:
        out = b""
        while n >= 128:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def idle_packet(ts: int, state: int, more: bytes = b"") -> bytes:
    """Return the fields of a packet with one idle event of CPU 3."""
    told = field(perfetto.STATE, state) + field(CPU_ID, 3)
    event = field(perfetto.TIMESTAMP, ts) + field(perfetto.CPU_IDLE, told)
    bundle = field(perfetto.CPU, 3) + more + field(perfetto.EVENT, event)
    return field(perfetto.FTRACE_EVENTS, bundle)


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


TEXT = "".join(
    f"  <idle>-0  [00{n % 2}] d..1. {n}.{n:06}: cpu_idle: state={(1, EXIT)[n % 2]} cpu_id=0\n"
    for n in range(40)
).encode()


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


# ---- Memory ----


def test_a_million_markers_are_not_kept(tmp_path: Path) -> None:
    trace = Trace()
    for n in range(1000):
        trace.mark(0, 1000 + n, f"marker {n} of a program that marks each of its frames")
    path = tmp_path / "marks.dat"
    trace.write_large(path, MARKERS)
    tracemalloc.start()
    assert tr.context_in(path) is None
    assert tracemalloc.get_traced_memory()[1] < MEMORY
    marks = pl.DataFrame({"ts": range(MARKERS)}).with_columns(text=pl.format("m {}", "ts"))
    tracemalloc.reset_peak()
    assert phases_of(marks, MARKERS) == []
    assert tracemalloc.get_traced_memory()[1] < MEMORY
    tracemalloc.stop()


def test_lines_of_a_recorder_without_end_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tr, "LINES_MAX", 20)
    trace = Trace()
    for n in range(21):
        trace.mark(0, 1000 + n, "phase governor=menu workload=a")
    with pytest.raises(UserError, match="has more than 20 lines of its recorder"):
        tr.context_in(trace.write(tmp_path / "marks.dat"))


def test_a_part_of_long_texts_is_written_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cpuidle_lab.recording.columns.writer.PART_BYTES", 10_000)
    kernel = Kernel()
    for _ in range(3):
        kernel.idle(1, 300_000, sleep=MS, delta=MS)
    with Writer(tmp_path / "a.dat") as to:
        for cpu in range(4):
            for event in kernel.events:
                values = {**event.values, **({"cpu_id": cpu} if event.name == "cpu_idle" else {})}
                to.add(Event(cpu, event.ts, event.name, values, event.text))
            for n in range(20):
                to.add(Event(cpu, kernel.now + n, "print", text="x" * 1000))
    with columns.opened(tmp_path / "a.dat") as recording:
        assert len(recording.parts["marker"]) == 4
        assert recording.table("marker").height == 4 * 22


def test_names_of_functions_are_kept_up_to_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_FUNCTIONS_MAX", 2)
    with Writer(tmp_path / "a.dat") as to:
        for n, name in enumerate(("one", "two", "three", "one")):
            to.add(Event(0, n, "hrtimer_expire_entry", text=name))
    pieces = reader.read_chunks(tmp_path / "a.dat", ("hrtimer",))
    chunks = (one for one in pieces if isinstance(one, reader.Chunk))
    (found,) = (one.frame["function"].to_list() for one in chunks)
    assert found == ["one", "two", "unknown", "one"]


@pytest.mark.parametrize("kind", ["plain", "compressed"])
def test_a_packet_that_is_too_large_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(perfetto, "_PACKET_MAX", 1 << 20)
    large = field(9, bytes(2 << 20))
    if kind == "compressed":
        import zlib

        large = field(perfetto.COMPRESSED_PACKETS, zlib.compress(field(perfetto.PACKET, large)))
    path = tmp_path / "x"
    path.write_bytes(field(perfetto.PACKET, field(8, 5)) + field(perfetto.PACKET, large))
    with pytest.raises(UserError, match="has a packet of more than 1 MiB, which is not read"):
        list(perfetto.events(path))


# ---- Perfetto ----


def a_bundle(*more: bytes) -> bytes:
    """Return a Perfetto trace of an idle period, with other events in the middle."""
    idle = [
        field(perfetto.TIMESTAMP, ts)
        + field(perfetto.CPU_IDLE, field(perfetto.STATE, state) + field(CPU_ID, 3))
        for ts, state in ((1000, 1), (9000, EXIT), (10_000, 1), (20_000, EXIT))
    ]
    others = [field(perfetto.TIMESTAMP, 1500) + one for one in more]
    events = b"".join(field(perfetto.EVENT, one) for one in (idle[0], *others, *idle[1:]))
    bundle = field(perfetto.FTRACE_EVENTS, field(perfetto.CPU, 3) + events)
    return field(perfetto.PACKET, bundle)


def generic(name: str) -> bytes:
    """Return an event that Perfetto has no message for."""
    return field(perfetto.GENERIC, field(perfetto.EVENT_NAME, name.encode()))


def test_events_of_timers_and_probes_that_are_not_used_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.pftrace"
    timer = {name: field(number, field(1, 7)) for number, name in perfetto.UNUSED.items()}
    path.write_bytes(
        a_bundle(
            timer["hrtimer_start"], timer["kprobe_event"], timer["hrtimer_start"],
            generic("tick_stop"), generic("some_event"),
        )
    )  # fmt: skip
    said = "the recording has events that are not used: hrtimer_start,kprobe_event,tick_stop"
    assert main(["export", str(path), "--parquet", str(tmp_path / "out")]) == 0
    assert f"{said}\n" in capsys.readouterr().out
    assert main(["replay", "--check", str(path)]) == 1
    assert said in capsys.readouterr().out
    words = ["compare", str(path), "--machine", "skx", "--governors", "teo_ng", "--no-mainline",
             "--no-instructions", "--json"]  # fmt: skip
    assert main(words) == 0
    assert said in json.dumps(json.loads(capsys.readouterr().out))
    assert main(["report", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["traces"][0]["omissions"] == [said]


def test_nothing_is_said_where_all_events_are_used(tmp_path: Path) -> None:
    path = tmp_path / "trace.pftrace"
    path.write_bytes(a_bundle(generic("some_event")))
    with columns.opened(path) as recording:
        assert recording.stock is None
        assert recording.rows("interval") == 2


def test_a_loss_before_a_bundle_of_unused_events_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "trace.pftrace"
    unused = field(perfetto.EVENT, generic("some_event"))
    lossy = field(perfetto.CPU, 3) + field(perfetto.LOST_EVENTS, 1) + unused
    packets = [field(perfetto.PACKET, field(perfetto.FTRACE_EVENTS, lossy)), a_bundle()]
    path.write_bytes(b"".join(packets))
    assert [event.lost for event in perfetto.events(path)] == [UNCOUNTED, 0, 0, 0]


def of_sequence(number: int, packet: bytes, dropped: bool = False) -> bytes:
    """Return a packet of a sequence, which may say that one before it was dropped."""
    head = field(perfetto.SEQUENCE, number)
    if dropped:
        head += field(perfetto.PACKET_DROPPED, 1)
    return field(perfetto.PACKET, head + packet)


@pytest.mark.parametrize(
    ("first", "second", "lost"), [(1, 1, UNCOUNTED), (1, 2, 0)], ids=["same", "other"]
)
def test_a_packet_that_was_dropped_is_a_loss_of_its_sequence(
    tmp_path: Path, first: int, second: int, lost: int
) -> None:
    path = tmp_path / "trace.pftrace"
    # The first packet of a sequence says so where the buffer has wrapped.
    path.write_bytes(
        of_sequence(first, idle_packet(1000, 1), dropped=True)
        + of_sequence(second, b"", dropped=True)
        + of_sequence(first, idle_packet(2000, EXIT))
    )
    assert [event.lost for event in perfetto.events(path)] == [0, lost]


def test_an_error_of_a_bundle_is_a_loss(tmp_path: Path) -> None:
    path = tmp_path / "trace.pftrace"
    path.write_bytes(
        of_sequence(1, idle_packet(1000, 1))
        + of_sequence(1, idle_packet(2000, EXIT, field(perfetto.BUNDLE_ERROR, b"\x08\x01")))
    )
    assert [event.lost for event in perfetto.events(path)] == [0, UNCOUNTED]


def test_the_numbers_of_unused_events_are_those_of_perfettos_package() -> None:
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    known = protos.FtraceEvent.DESCRIPTOR.fields_by_name
    assert {known[name].number: name for name in perfetto.UNUSED.values()} == perfetto.UNUSED
    assert known["generic"].number == perfetto.GENERIC
    assert {known[name].number: name for name in perfetto.OFFLINE.values()} == perfetto.OFFLINE
    for name in perfetto.OFFLINE.values():
        fields = known[name].message_type.fields_by_name
        named = fields["affected_cpu" if "affected_cpu" in fields else "cpu"]
        assert named.number == perfetto.CPU
    generic_event = protos.GenericFtraceEvent.DESCRIPTOR.fields_by_name
    assert generic_event["event_name"].number == perfetto.EVENT_NAME


def test_interrupts_of_a_perfetto_trace_tell_what_woke_the_cpu(tmp_path: Path) -> None:
    def at(ts: int, number: int, *told: bytes) -> bytes:
        stamp = field(perfetto.TIMESTAMP, ts) + field(perfetto.PID, 0)
        return field(perfetto.EVENT, stamp + field(number, b"".join(told)))

    events = b""
    for start in range(1_000_000, 200_000_000, 1_000_000):
        name = b"arch_timer" if start % 4_000_000 else b"eth0"
        events += at(start, perfetto.CPU_IDLE, field(perfetto.STATE, 1))
        events += at(start + 900_000, perfetto.CPU_IDLE, field(perfetto.STATE, EXIT))
        events += at(start + 901_000, 36, field(1, 11), field(2, name))
        events += at(start + 905_000, 26, field(1, 1))
        events += at(start + 909_000, 37, field(1, 11), field(2, 1))
    path = tmp_path / "trace.pftrace"
    bundle = field(perfetto.FTRACE_EVENTS, field(perfetto.CPU, 3) + events)
    path.write_bytes(field(perfetto.PACKET, bundle))
    (group,) = build([path], "", "").groups
    assert group.wakers == {"timer": 150, "device": 49}


def test_the_numbers_of_interrupts_are_those_of_perfettos_package() -> None:
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    known = protos.FtraceEvent.DESCRIPTOR.fields_by_name
    assert known["pid"].number == perfetto.PID
    for number, (name, of) in perfetto.INTERRUPTS.items():
        assert known[name].number == number
        assert known[name].message_type.fields_by_name[of].number == 1
    assert known["irq_handler_entry"].message_type.fields_by_name["name"].number == 2


# ---- Text ----

REPORT = f"""\
cpus=1
     print-9 [000] 0.001000000: print: tracing_mark_write: {MACHINE}
     print-9 [000] 0.001000001: print: tracing_mark_write: {MARK}kernel=6.12.9 way=events
     a-5 [000] 0.005000000: hrtimer_start: hrtimer=0xffff10 function=tick_nohz_handler/0x0 \
expires=8000000 softexpires=8000000
     a-5 [000] 0.008001000: hrtimer_expire_entry: hrtimer=0xffff10 now=8000900 \
function=tick_nohz_handler/0x0
     a-5 [000] 0.008001100: hrtimer_start: hrtimer=0xffff10 function=tick_nohz_handler/0x0 \
expires=12000000 softexpires=12000000
     a-5 [000] 0.008001200: timer_start: timer=0xffff01 function=f expires=1061 [timeout=60] \
bucket_expiry=2000 cpu=0 idx=0 flags=P
     a-5 [000] 0.008001300: hrtimer_start: hrtimer=0xffff77 function=hrtimer_wakeup/0x0 \
expires=10000000 softexpires=10000000
     a-5 [000] 0.008001400: hrtimer_start: hrtimer=0xffff78 function=hrtimer_wakeup/0x0 \
expires=9000000 softexpires=9000000
     a-5 [000] 0.008001500: hrtimer_cancel: hrtimer=0xffff78
     a-5 [000] 0.008001600: sched_switch: a:5 [120] S ==> swapper/0:0 [120]
     <idle>-0 [000] 0.008001700: cpu_idle: state=1 cpu_id=0
     <idle>-0 [000] 0.008021700: cpu_idle: state={EXIT} cpu_id=0
     <idle>-0 [000] 0.008021800: sched_switch: swapper/0:0 [120] R ==> a:5 [120]
     a-5 [000] 0.012001000: hrtimer_expire_entry: hrtimer=0xffff10 now=12000900 \
function=tick_nohz_handler/0x0
"""


def test_timers_of_trace_cmd_report_are_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    path.write_text(REPORT)
    (row,) = periods(path).to_dicts()
    # Hrtimer 78 is cancelled; the kernel reads the clock 100 ns after the switch.
    at = 8_001_700
    assert (row["sleep_length_ns"], row["delta_tick_ns"]) == (10 * MS - at, 10 * MS - at)
    assert row["flags"] & 0x10
    path.write_text(REPORT.replace("hrtimer_cancel: hrtimer=0xffff78", "other: x=1"))
    assert periods(path)["sleep_length_ns"].to_list() == [9 * MS - at]


@pytest.mark.parametrize(("cpu", "flags", "due"), [(1, "P", 20), (1, "I", 40), (0, "P", 40)])
def test_the_cpu_of_a_wheel_timer_and_its_pin_are_read(
    tmp_path: Path, cpu: int, flags: str, due: int
) -> None:
    """CPU 0 is busy, so it serves the timers of CPU 1 that are not pinned."""
    start = "     a-5 [001] 0.008001250: timer_start: function=f expires=1061 [timeout=60] idx=0 "
    lines = REPORT.replace("[000]", "[001]").replace("cpu_id=0", "cpu_id=1").splitlines()
    lines = [
        line for line in lines if "hrtimer_wakeup" not in line and "hrtimer_cancel" not in line
    ]
    lines[6:7] = [
        f"{start} timer=0xffff01 bucket_expiry=1009 cpu=1 flags=P",
        f"{start} timer=0xffff02 bucket_expiry=1004 cpu={cpu} flags={flags}",
    ]
    lines.insert(1, "     b-7 [000] 0.000500000: sched_switch: swapper/0:0 [120] R ==> b:7 [120]")
    path = tmp_path / "trace.txt"
    path.write_text("\n".join(lines) + "\n")
    (row,) = periods(path).to_dicts()
    assert row["sleep_length_ns"] == due * MS - 8_001_700


@pytest.mark.parametrize(("told", "delta_ns"), [(" dn=1000000", MS), ("", 10 * MS - 8_001_650)])
def test_a_time_to_the_tick_that_a_text_lacks_is_rebuilt(
    tmp_path: Path, told: str, delta_ns: int
) -> None:
    sleep_ns = 10 * MS - 8_001_650
    asked = f"a-5 [000] 0.008001650: cil_sleep_length: (a <- b) ret={sleep_ns}{told}"
    path = tmp_path / "trace.txt"
    path.write_text(REPORT.replace("<idle>-0", f"{asked}\n<idle>-0", 1))
    (row,) = periods(path).to_dicts()
    assert (row["sleep_length_ns"], row["delta_tick_ns"]) == (sleep_ns, delta_ns)


def test_no_two_events_have_one_number() -> None:
    numbers = [number for _, number, _ in writer.EVENTS.values()]
    assert len(set(numbers)) == len(numbers)


# ---- replay --check takes each kind, and says which of them has decisions ----

WAYS = {
    "module": (0, "ok", "decisions of the module", ""),
    "probes": (1, "ok", "recorded without the module, by probes", "without the module"),
    "trace.dat": (1, "warn", "power:cpu_idle events alone", "power:cpu_idle events alone"),
    "text": (1, "warn", "power:cpu_idle events alone", "power:cpu_idle events alone"),
    "perfetto": (1, "warn", "power:cpu_idle events alone", "power:cpu_idle events alone"),
    "columns": (1, "warn", "power:cpu_idle events alone", "power:cpu_idle events alone"),
    "stream": (1, "ok", "a synthetic stream", "a synthetic stream"),
}


def of_kind(kind: str, folder: Path) -> Path:
    """Write a recording of a kind of WAYS."""
    path = folder / kind
    if kind == "module":
        return test_former.recorded(path)
    if kind == "stream":
        synth.write("bursts", path, machine_name="skx", hz=250, count=100, seed=1)
    elif kind == "probes":
        kernel = Kernel()
        for _ in range(9):
            kernel.idle(1, 300_000, sleep=MS, delta=MS)
        kernel.write(path)
    elif kind == "columns":
        columns.write(bare(folder), path)
    elif kind == "trace.dat":
        return bare(folder)
    else:
        path.write_bytes(TEXT.replace(b"[001]", b"[000]") if kind == "text" else a_bundle())
    return path


@pytest.mark.parametrize("kind", WAYS)
def test_the_check_of_any_kind_has_findings_and_a_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    code, status, events, reason = WAYS[kind]
    path = str(of_kind(kind, tmp_path))
    assert main(["replay", "--check", path]) == code
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.split()[:2] == [status, "events"] and events in first
    said = [line for line in rest if line.startswith("cannot be checked: ")]
    assert [reason in line for line in said] == ([True] if reason else [])
    assert main(["replay", "--check", path, "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert events in told["findings"][0]["found"]
    assert bool(told["not_checked"]) == bool(reason) == (not told["decisions"])
