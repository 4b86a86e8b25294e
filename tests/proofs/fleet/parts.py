# SPDX-License-Identifier: GPL-2.0
"""Memory in which parts of a fleet are added up and answered.

    PYTHONPATH=tools:. build/venv/bin/python tests/proofs/fleet/parts.py 1000 100000

Each number of parts is of three governors and 300 machines, in a process of its own. The parts are
one part with other energies.
"""

import io
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from cpuidle_lab.fleet import answers, inputs, task, totals

LABELS = ("menu_ng", "teo_ng", "wteo")
MACHINES = 300
_MB = 1024


def _name(content: str, label: str) -> str:
    return f"results/{content[-2:]}/{content}-{label}.parquet"


def write(folder: Path, recordings: int) -> None:
    """Write parts of a number of recordings."""
    energy = 10**12
    row = {
        "content": "", "governor": "", "kernel": "", "kind": "k", "derived": False, "withheld": "",
        "span_ns": 60 * 10**9, "intervals": 20_000, "decisions": 20_000, "above": 100,
        "below": 200, "cost_pj": energy, "oracle_pj": energy // 2, "far_cost_pj": energy,
        "far_oracle_pj": energy // 2, "deep_ns": None, "together_ns": None,
        "latency_ns": [0, 1000, 133_000], "wakeups": [100, 9000, 10_900],
    }  # fmt: skip
    for n in range(recordings):
        for k, label in enumerate(LABELS):
            told = row | {"content": f"{n:032x}", "cost_pj": energy + (7919 * n + k) % 10**9}
            data = io.BytesIO()
            pl.DataFrame([told], schema=task.PART).write_parquet(data, statistics=False)
            path = folder / _name(str(told["content"]), label)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.getvalue())


def _most_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // _MB


def add_up(folder: Path, recordings: int) -> None:
    """Add parts up, answer, and print the most memory before and after."""
    items, done = [], {}
    for n in range(recordings):
        content = f"{n:032x}"
        items.append(inputs.Item(f"{n:06}", f"/x/{n:06}", f"m{n % MACHINES}"))
        done[f"{n:06}"] = task.Done(content, {label: _name(content, label) for label in LABELS})
    before = _most_mb()
    fleet = totals.add_up(items, done, folder, LABELS[0])
    found = answers.answer(fleet, items, LABELS[0], 1.0, [])
    assert found.counted == recordings and found.machines == min(MACHINES, recordings)
    print(f"{recordings * len(LABELS):,} parts: {before} MB before, {_most_mb()} MB at most")


def main() -> None:
    """Measure each number of parts of the command line."""
    if sys.argv[1] == "--add-up":
        add_up(Path(sys.argv[2]), int(sys.argv[3]))
        return
    for count in map(int, sys.argv[1:]):
        with TemporaryDirectory(prefix="cpuidle-lab-") as folder:
            recordings = -(-count // len(LABELS))
            write(Path(folder), recordings)
            words = [sys.executable, __file__, "--add-up", folder, str(recordings)]
            subprocess.run(words, check=True)


if __name__ == "__main__":
    main()
