# SPDX-License-Identifier: GPL-2.0
"""Recordings of Perfetto and in text, packed or not, and the memory that they take."""

import json
import tracemalloc
from pathlib import Path

import polars as pl
import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.host.marks import MARK
from cpuidle_lab.recording import columns, reader, synth
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.formats import perfetto, writer
from cpuidle_lab.recording.formats.writer import UNCOUNTED, Event, Writer
from cpuidle_lab.recording.phases import phases_of
from cpuidle_lab.report.model import build
from tests.unit import test_former
from tests.unit.format_files import CPU_ID, MARKERS, MEMORY, TEXT, field, idle_packet
from tests.unit.kernel_events import EXIT, MACHINE, MS, Kernel, bare, periods
from tests.unit.tracedat import Trace

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


# ---- Perfetto ----


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


# ---- Text ----


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


# ---- replay --check takes each kind, and says which of them has decisions ----


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
