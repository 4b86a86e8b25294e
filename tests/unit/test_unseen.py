# SPDX-License-Identifier: GPL-2.0
"""A small part of a recording is not judged as the whole: time of the CPUs that is not told."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cpuidle_lab.cli import main
from cpuidle_lab.recording.formats.writer import Event
from cpuidle_lab.recording.unseen import IDLE_EXIT, Unseen
from tests.unit.interrupts import Arm, write
from tests.unit.kernel_events import MS, Kernel

END = 10 * MS


def rows(cpu: int, *events: tuple[int, bool]) -> pl.DataFrame:
    """Return rows of `cpu_idle`: time in ms, and whether the CPU goes idle."""
    told = [(ts * MS, cpu, 1 if idle else IDLE_EXIT) for ts, idle in events]
    return pl.DataFrame(told, schema={"ts": pl.UInt64, "cpu": pl.UInt16, "state": pl.UInt32},
                        orient="row")  # fmt: skip


def losses(cpu: int, *times: int, events: int = 5) -> pl.DataFrame:
    told = [(ts * MS, cpu, events) for ts in times]
    return pl.DataFrame(told, schema={"ts": pl.UInt64, "cpu": pl.UInt16, "events": pl.Int64},
                        orient="row")  # fmt: skip


@pytest.mark.parametrize(
    ("pieces", "percent"),
    [
        ([rows(0, (0, True), (4, False))], 0),
        ([rows(0, (0, True), (4, False), (6, True))], 40),
        ([rows(0, (0, True), (4, False), (6, True)), rows(1, (0, True), (9, False))], 20),
        ([rows(0, (0, True), (4, False)), losses(0, 3)], 40),
        ([rows(0, (0, True), (4, False)), losses(0, 4)], 40),  # it comes before its event
        ([rows(0, (0, True), (4, False)), losses(0, 1, 3)], 40),
        # The hole goes from one piece into the next, or to the end.
        ([rows(0, (0, True), (4, False)), losses(0, 5), rows(0, (7, True), (10, False))], 30),
        ([rows(0, (0, True), (4, False)), losses(0, 5), losses(0, 6)], 60),
        # A CPU that was offline is not lost, and a loss before the first event is no part.
        ([rows(0, (0, True), (4, False)), losses(0, 3, events=0)], 0),
        ([rows(0, (0, True), (4, False), (5, True)), losses(0, 6, events=0)], 0),
        ([losses(0, 1), rows(0, (5, True), (10, False))], 0),
        ([rows(0, (0, True), (4, False)), losses(1, 3), rows(1, (8, True), (9, False))], 0),
    ],
)
def test_the_share_of_the_time_is_as_computed_by_hand(
    pieces: list[pl.DataFrame], percent: float
) -> None:
    found = Unseen()
    for piece in pieces:
        found.take("lost" if "events" in piece.columns else "cpu_idle", piece)
    assert found.percent(END) == pytest.approx(percent)


def test_rows_of_several_cpus_may_come_together() -> None:
    idle = [rows(cpu, (0, True), (4, False)) for cpu in range(3)]
    lost = [losses(1, 3), losses(2, 5)]
    found = Unseen()
    found.add(pl.concat(idle), pl.concat(lost))
    assert found.percent(END) == pytest.approx((0 + 40 + 60) / 3)


def by_cpu_idle(path: Path, others: int) -> Path:
    """Write a recording of CPUs that are idle from an early moment on, beside one that is busy."""
    kernel = Kernel()
    for n in range(150):
        kernel.add(3000, "cpu_idle", state=1 + n % 2, cpu_id=0)
        kernel.add(900_000, "cpu_idle", state=IDLE_EXIT, cpu_id=0)
    entry = kernel.events[2]
    kernel.events += [
        Event(cpu, entry.ts, entry.name, entry.values) for cpu in range(1, 1 + others)
    ]
    kernel.events.sort(key=lambda event: event.ts)
    return kernel.write(path)


def by_interrupts(path: Path, others: int) -> Path:
    cpus = [Arm(cpu) for cpu in range(1 + others)]
    cpus[0].learn()
    for n in range(150):
        cpus[0].timer(900_000, 1 + n % 2)
    for cpu in cpus[1:]:
        cpu.enter()
    return write(path, *cpus)


@pytest.mark.parametrize("make", [by_cpu_idle, by_interrupts])
@pytest.mark.parametrize(("others", "judged"), [(1, True), (9, False)])
def test_a_small_part_of_the_time_leaves_no_regret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Any, others: int, judged: bool
) -> None:
    path = make(tmp_path / "t.dat", others)
    words = ("--machine", "skx")
    assert main(["report", str(path), "--json", *words]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert main(["compare", str(path), "--governors", "menu_ng", "--no-mainline",
                 "--no-instructions", "--json", *words]) == 0  # fmt: skip
    found = json.loads(capsys.readouterr().out)
    row = next(one for one in found["results"] if one["governor"] == "recorded")
    assert (run["metrics"]["regret"] is not None) == judged
    assert (row["metrics"]["regret"] is not None) == judged
    (said,) = [note for note in run["notes"] if "of the time of the CPUs is not told" in note]
    assert any(said in note for note in found["notes"])
