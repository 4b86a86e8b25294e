# SPDX-License-Identifier: GPL-2.0
"""Count the instructions of select + update per decision, with callgrind.

Usage: python tests/sim/instructions.py [TABLE]...   (after make -C tests/sim)
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SIM = Path(__file__).resolve().parents[2] / "build" / "sim" / "sim"
POLICIES = ("teo_ng", "menu_ng", "wteo-off", "wteo-sample", "wteo-nxn", "wteo")
STREAMS = ("timer-10ms", "timers-mixed", "poisson-15us", "poisson-1ms", "bursts", "heavy-tail")
PERIODS = 1000


def per_decision(table: str, stream: str, policy: str) -> float:
    """Return the mean instructions of one decision and its outcome."""
    done = subprocess.run(
        [
            "valgrind",
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            "--collect-atstart=no",
            "--toggle-collect=sim_select",
            "--toggle-collect=sim_update",
            str(SIM),
            f"table={table}",
            f"stream={stream}",
            f"policy={policy}",
            f"periods={PERIODS}",
            "latency=1",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    collected = re.search(r"Collected : (\d+)", done.stderr)
    assert collected, done.stderr
    decisions = float(done.stdout.split()[-1]) * PERIODS
    return int(collected[1]) / decisions


def main(tables: list[str]) -> None:
    """Print one line for each table and policy."""
    for table in tables:
        for policy in POLICIES:
            counts = [per_decision(table, stream, policy) for stream in STREAMS]
            mean = sum(counts) / len(counts)
            print(f"{table:8} {policy:12} mean {mean:6.0f}  worst stream {max(counts):6.0f}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["skx", "power9"])
