# SPDX-License-Identifier: GPL-2.0
"""Cost of a longer window for menu_ng, in instructions.

Callgrind counts every select + update of kunit/bench_menu.c. Run as a program,
this file prints the table for all window sizes; as a test it demands that 128
intervals cost at most twice as much as 8 on average.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import pytest

TOP = Path(__file__).resolve().parents[2]
BUILD = TOP / "build" / "unit" / "bench"
SIZES = (8, 16, 32, 64, 128)
PERIODS = 500
MOST_RATIO = 2.0

# As in the kernel: optimised, and no vector registers.
FLAGS = ("-std=gnu11", "-O2", "-g", "-mgeneral-regs-only")


@dataclass(frozen=True)
class Cost:
    """Instructions of select + update: mean and maximum over idle periods."""

    mean: float
    worst: int


def run(command: list[str | Path]) -> str:
    """Run a command in the build folder and return its output."""
    done = subprocess.run(command, cwd=BUILD, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr}")
    return done.stdout


def build() -> Path:
    """Compile the benchmark; menu_ng alone without vector registers."""
    BUILD.mkdir(parents=True, exist_ok=True)
    folder = TOP / "governors" / "menu_ng"
    objects = []
    for name in ("menu_ng", "menu_ng_window"):
        objects.append(BUILD / f"{name}.o")
        run(["gcc", *FLAGS, "-c", "-o", objects[-1], folder / f"{name}.c"])
    source = TOP / "kunit" / "bench_menu.c"
    program = BUILD / "bench-menu"
    run(["gcc", "-std=gnu11", "-O2", "-g", "-o", program, source, *objects, "-lm"])
    return program


def count(program: Path, size: int) -> dict[str, Cost]:
    """Return the cost per stream for one window size."""
    streams = run([program, "--list"]).split()
    report = BUILD / f"callgrind.{size}"
    report.unlink(missing_ok=True)
    function = "measured_period"
    run(
        [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={report}",
            "--combine-dumps=yes",
            f"--toggle-collect={function}",
            f"--zero-before={function}",
            f"--dump-after={function}",
            program,
            str(size),
            str(PERIODS),
        ]
    )
    counts = [
        int(line.split()[1])
        for line in report.read_text(encoding="utf-8").splitlines()
        if line.startswith("summary:")
    ]
    # The last dump is that of the end of the program.
    assert len(counts) == len(streams) * PERIODS + 1, "callgrind lost a dump"
    report.unlink()
    return {
        name: Cost(mean(part), max(part))
        for name, part in zip(
            streams,
            (counts[i : i + PERIODS] for i in range(0, len(counts) - 1, PERIODS)),
            strict=True,
        )
    }


def overall(costs: dict[str, Cost]) -> Cost:
    """Return the mean over all streams, and the worst of them."""
    return Cost(mean(c.mean for c in costs.values()), max(c.worst for c in costs.values()))


def table(costs: dict[int, dict[str, Cost]]) -> str:
    """Format the costs of all sizes: mean (worst), the ratio of the means."""
    first, last = min(costs), max(costs)
    rows = {name: {size: costs[size][name] for size in costs} for name in costs[first]}
    rows["all streams"] = {size: overall(costs[size]) for size in costs}
    lines = ["instructions of select + update by history_size: mean (worst)"]
    lines.append(f"{'stream':16}" + "".join(f"{size:>14}" for size in costs) + f"{'ratio':>8}")
    for name, row in rows.items():
        cells = "".join(f"{cost.mean:>7.0f} ({cost.worst:>4})" for cost in row.values())
        lines.append(f"{name:16}{cells}{row[last].mean / row[first].mean:>8.2f}")
    return "\n".join(lines)


@pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("valgrind")),
    reason="gcc or valgrind is not installed",
)
def test_a_long_window_costs_at_most_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """The mean at 128 intervals is at most twice the mean at 8."""
    program = build()
    costs = {size: count(program, size) for size in (SIZES[0], SIZES[-1])}
    with capsys.disabled():
        print("\n" + table(costs))
    short, long = (overall(costs[size]).mean for size in costs)
    assert long <= MOST_RATIO * short


if __name__ == "__main__":
    try:
        bench = build()
        print(table({size: count(bench, size) for size in SIZES}))
    except (OSError, RuntimeError) as error:
        sys.exit(f"test_menu_window: {error}")
