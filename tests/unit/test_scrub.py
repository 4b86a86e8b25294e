# SPDX-License-Identifier: GPL-2.0
"""`capture --scrub` and `--sample`: names leave a trace, samples stay below a size."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.settings import sample, size
from cpuidle_lab.cli import main
from cpuidle_lab.host import samples
from cpuidle_lab.host.machine import TRACEFS
from cpuidle_lab.host.scrub import scrub
from cpuidle_lab.recording import columns
from tests.unit import recorded
from tests.unit.command import error
from tests.unit.kernel_events import KERNEL, MACHINE, Kernel
from tests.unit.tracedat import Event, Field, Trace

SECRET = b"secr"
EXIT = (1 << 32) - 1
ENERGY = "energy zone=a:0 energy_uj=5 max_energy_range_uj=99 name=package-0"


def number(name: str) -> Field:
    return Field("number", "s32", name)


def trace(order: str = "<") -> Trace:
    """Return a trace with names in all places that are known."""
    made = Trace(cpus=2, order=order)
    made.tasks = "1 init\n4 kworker/0:1-secret\n77 secret-task\n9 x\n"
    made.uname = "Linux secret-host 6.12.1 x86_64"
    comms = [Field("array", "char", "prev_comm", 16), Field("array", "char", "next_comm", 16)]
    made.events["switch"] = Event(
        "sched", "sched_switch", 300, [*comms, number("prev_pid"), number("next_pid")]
    )
    made.events["exec"] = Event(
        "sched", "sched_process_exec", 301, [Field("string", "char", "filename"), number("pid")]
    )
    made.events["irq"] = Event(
        "irq", "irq_handler_entry", 302, [number("irq"), Field("string", "char", "name")]
    )
    for n in range(400):  # several pages
        cpu = n // 2 % 2
        made.add(cpu, 1000 * n, "cpu_idle", state=EXIT if n % 2 else 1, cpu_id=cpu)
        made.add(cpu, 1000 * n + 1, "switch", prev_comm="secret-a", next_comm="kworker/0:secr",
                 prev_pid=7, next_pid=7 + n)  # fmt: skip
        made.add(cpu, 1000 * n + 2, "exec", filename="/home/secret/bin", pid=n)
    for cpu in (0, 1):
        made.add(cpu, 500_000, "irq", irq=4, name="arch_timer")
    made.add(0, 600_000, "hint", comm="secret-hint", pid=77, limit_ns=5)
    for n, line in enumerate((MACHINE, KERNEL, ENERGY, "phase governor=menu workload=secret-w",
                              "phase end", "a secret of another program",
                              "energy zone=secret")):  # fmt: skip
        made.mark(1, 700_000 + n, line)
    return made


def test_no_name_is_left(tmp_path: Path) -> None:
    path = trace().write(tmp_path / "a.dat")
    before = path.read_bytes()
    assert before.count(SECRET) > 1000
    scrub(path)
    after = path.read_bytes()
    assert SECRET not in after and len(after) == len(before)
    assert b"1 t\n4 kworker/\n77 t\n9 t\n\n" in after
    assert b"Linux t 6.12.1 x86_64\0" in after
    for kept in (b"kworker/\0", b"arch_timer", MACHINE.encode(), KERNEL.encode(), b"phase end",
                 b"phase governor=menu workload=t\n", ENERGY.encode()):  # fmt: skip
        assert kept in after, kept


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_figures_stay(order: str, tmp_path: Path) -> None:
    path = trace(order).write(tmp_path / "a.dat")
    before = path.read_bytes()
    columns.write(path, tmp_path / "before")
    scrub(path)
    assert SECRET not in path.read_bytes()
    columns.write(path, tmp_path / "after")
    with columns.opened(tmp_path / "before") as old, columns.opened(tmp_path / "after") as new:
        for table in ("interval", "period"):
            assert old.table(table).equals(new.table(table))
        assert old.table("hint").drop("comm").equals(new.table("hint").drop("comm"))
        assert new.table("hint")["comm"].to_list() == ["t"]
        assert new.rows("interval") > 100
    assert len(before) == path.stat().st_size


def test_older_events_behind_the_last_one_of_a_page_go(tmp_path: Path) -> None:
    path = trace().write(tmp_path / "a.dat")
    data = bytearray(path.read_bytes())
    assert not any(data[-20:])
    data[-4:] = SECRET
    path.write_bytes(data)
    scrub(path)
    assert SECRET not in path.read_bytes()


@pytest.mark.parametrize("length", [4, 100, 3000, -4096, -5000])
def test_a_damaged_trace_is_refused(length: int, tmp_path: Path) -> None:
    path = trace().write(tmp_path / "a.dat")
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(UserError, match="cannot be removed"):
        scrub(path)


# ---- The command ----


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unfold a machine that records a trace with names; work in a directory beside it."""
    root = recorded.enter("debian13", tmp_path, monkeypatch)
    monkeypatch.setenv("FAKE_TRACE", str(trace().write(tmp_path / "fake.dat")))
    return root


def test_capture_removes_them(root: Path) -> None:
    assert main(["capture", "--scrub", "--", "true"]) == 0
    assert SECRET not in Path("trace.dat").read_bytes()
    words = (root / "recorded-arguments").read_text().split()
    assert words[3:5] == ["--file-version", "6"]
    assert main(["capture", "-o", "b.dat", "--", "true"]) == 0
    assert SECRET in Path("b.dat").read_bytes()


def test_a_trace_that_has_another_form_is_not_kept(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAKE_TRACE")
    assert main(["capture", "--scrub", "--", "true"]) == 1
    assert "names cannot be removed from the trace: no trace of version 6" in error(capsys)
    assert list(Path().iterdir()) == []
    assert (root / f"{TRACEFS}/tracing_on".lstrip("/")).read_text().strip() == "1"


def test_a_sample_lies_in_the_folder_by_its_time(root: Path) -> None:
    Path("samples").mkdir()
    begin = datetime.now(UTC).replace(microsecond=0)
    assert main(["capture", "--scrub", "--sample", "0.1", "-o", "samples"]) == 0
    (path,) = Path("samples").iterdir()
    assert samples.there(Path("samples")) == [path]
    told = datetime.strptime(path.name, "%Y%m%dT%H%M%SZ.dat").replace(tzinfo=UTC)
    assert begin <= told <= datetime.now(UTC)
    assert SECRET not in path.read_bytes()


def test_the_moment_is_in_the_period(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [samples.delay_s(10, 3600) for _ in range(2000)]
    assert 0 <= min(found) < 100 and 3490 < max(found) <= 3590
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    Path("samples").mkdir()
    assert main(["capture", "--sample", "0.1s/1h", "-o", "samples"]) == 0
    assert 0 < max(waits) <= 3599.9


def test_the_oldest_samples_go(root: Path) -> None:
    folder = Path("samples")
    folder.mkdir()
    names = [f"2026010{day}T000000Z.dat" for day in range(1, 6)]
    large = Path(os.environ["FAKE_TRACE"]).stat().st_size
    for name in (*names, "mine.dat", "20260101T000000Z.dat.bak"):
        (folder / name).write_bytes(bytes(large))
    words = ["capture", "--sample", "0.1", "--room", str(3 * large), "-o", "samples"]
    assert main(words) == 0
    kept = [path.name for path in samples.there(folder)]
    assert kept[:2] == names[3:] and len(kept) == 3
    assert {"mine.dat", "20260101T000000Z.dat.bak"} < {path.name for path in folder.iterdir()}


def test_a_sample_that_is_too_large_goes(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("samples").mkdir()
    assert main(["capture", "--sample", "0.1", "--room", "1k", "-o", "samples"]) == 1
    assert "more than --room allows" in error(capsys)
    assert list(Path("samples").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sample", "10", "--duration", "5"], "sets the time"),
        (["--sample", "10", "--", "true"], "sets the time"),
        (["--sample", "10", "-o", "nowhere"], "nowhere: no such directory"),
        (["--sample", "2h/1h"], "longer than their period"),
        (["--sample", "10s/"], "no number of seconds"),
        (["--sample", "10", "--room", "much"], "no number of bytes"),
        (["--sample", "10", "--room", "0G"], "no number of bytes"),
    ],
)
def test_bad_options(
    words: list[str], said: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["capture", *words])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    assert said in capsys.readouterr().err


def test_values() -> None:
    assert sample("10s/1h") == (10, 3600)
    assert sample("1.5m") == (90, None)
    assert [size(text) for text in ("7", "500k", "200M", "2G")] == [
        7,
        500_000,
        2 * 10**8,
        2 * 10**9,
    ]


def test_a_trace_of_the_own_writer_keeps_its_figures(tmp_path: Path) -> None:
    kernel = Kernel()
    for n in range(300):
        kernel.idle(1 + n % 2, 300_000, sleep=10**9, delta=10**9)
    path = kernel.write(tmp_path / "a.dat")
    columns.write(path, tmp_path / "before")
    scrub(path)
    columns.write(path, tmp_path / "after")
    for table in ("interval", "period"):
        for part in sorted((tmp_path / "before" / table).iterdir()):
            assert part.read_bytes() == (tmp_path / "after" / table / part.name).read_bytes()
