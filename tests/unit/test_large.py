# SPDX-License-Identifier: GPL-2.0
"""Recordings that are packed, which the reader opens again after a while, or large."""

import subprocess
from pathlib import Path

import pytest

from cpuidle_lab.recording import reader
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.formats.writer import Event
from cpuidle_lab.recording.native import compile_reader
from tests.unit.kernel_events import MS
from tests.unit.synthetic import Session
from tests.unit.test_stock import Timers

# Bytes of a page; the reader of the test opens the file again after each.
PAGE = 4096


def write(path: Path) -> Path:
    """Write timers of two CPUs, one of which is silent for a while."""
    kernel = Timers()
    kernel.begin()
    for n in range(2000):
        kernel.add(1000, "hrtimer_start", "hrtimer_wakeup", hrtimer=77, expires=kernel.now + 9 * MS)
        kernel.switch()
        for k in range(200 if n == 1000 else 1):
            values = {"hrtimer": 99 + k, "expires": kernel.now + 7 * MS}
            kernel.now += 10
            kernel.events.append(Event(1, kernel.now, "hrtimer_start", values, "hrtimer_wakeup"))
        if n % 2:  # the timer of CPU 0
            kernel.now += 10
            kernel.events.append(Event(1, kernel.now, "hrtimer_cancel", {"hrtimer": 77}))
        kernel.choose(1, 20_000)
        if n % 100 == 99:
            kernel.tick()
    return kernel.write(path)


def test_events_of_several_cpus_are_read_on(tmp_path: Path) -> None:
    plain, packed = write(tmp_path / "plain.dat"), tmp_path / "packed.dat"
    convert = ["trace-cmd", "convert", "--file-version", "7", "--compression", "any"]
    subprocess.run([*convert, "-i", str(plain), "-o", str(packed)], check=True, capture_output=True)
    assert plain.stat().st_size > 50 * PAGE
    compile_reader(tmp_path, f"-DUNPACKED_MAX={PAGE}")
    told = tr.context_in(plain)
    assert told
    found = [
        subprocess.run([str(program), str(packed), *told.options(), "period", "interval"],
                       capture_output=True, check=True).stdout
        for program in (tmp_path / "trace-columns", reader.native_reader())
    ]  # fmt: skip
    assert found[0] == found[1]
    assert len(found[0]) > 100_000


def read(program: Path, path: Path, *options: str) -> tuple[bytes, bytes]:
    """Return what the reader writes, and what it says."""
    done = subprocess.run([str(program), str(path), *options], capture_output=True, check=True)
    return done.stdout, done.stderr


def test_a_large_file_is_read_and_not_mapped(tmp_path: Path) -> None:
    session = Session(cpus=2)
    session.phase("wteo", "hackbench", 20_000_000)
    path = session.trace.write(tmp_path / "a.dat")
    compile_reader(tmp_path, "-DMAPPED_MAX=0")
    found = read(tmp_path / "trace-columns", path)
    assert found == read(reader.native_reader(), path)
    assert len(found[0]) > 100_000 and not found[1]


# libtracecmd takes the kernel's limit of maps for the end of the data then: 5.5 million events.
@pytest.mark.full
def test_a_cpu_may_have_more_than_2_gib(tmp_path: Path) -> None:
    session = Session(cpus=1)
    session.phase("teo_ng", "hackbench", 100_000_000)
    path = tmp_path / "large.dat"
    session.trace.write_large(path, 46_000_000)
    assert path.stat().st_size > 1 << 31
    *_, ending = reader.read_chunks(path, ["lost"])
    assert isinstance(ending, reader.Ending)
    assert ending.events >= 46_000_000
