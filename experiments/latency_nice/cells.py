# SPDX-License-Identifier: GPL-2.0
"""The plan of cells, the guest, and what is read of it. One boot for each seed has all cells.

scheduler.bpf.c is built once for each of its modes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.bpf import build
from cpuidle_lab.lab import LabResult, LabRun, programs
from cpuidle_lab.recording import state_tables
from cpuidle_lab.recording.laws import US
from experiments.energy import BUSY, OFFLINE, account, power_mw
from experiments.evacuate.entry import RECORDS
from experiments.experiment import ORIGINAL, QUICK, USUAL

HERE = Path(__file__).parent

# The machine of the slides.
TABLE, HZ, CPUS = "power9", 250, 8
DEEP = ("stop8", "stop11")

# Series whose Debian kernels have sched_ext.
KERNELS = ("7.2", "7.3")

# Bits of MODE in scheduler.bpf.c.
PACK, PACK_ALL, PREFER_IDLE, BOUNDED, AWARE = (1 << n for n in range(5))
# CPUs that a bounded search looks at.
SEARCH = 2


@dataclass(frozen=True)
class Condition:
    """A way to place tasks.

    Attributes:
        name: of files, and in tables.
        mode: of scheduler.bpf.c; None: the kernel's own scheduler.
        governor: of all CPUs.
    """

    name: str
    mode: int | None
    governor: str = "teo_ng"


STOCK = "stock"
CONDITIONS = (
    Condition(STOCK, None),
    Condition("gate", None, "gate"),
    Condition("plain", 0),
    Condition("pack-all", PACK_ALL),
    Condition("pack", PACK),
    Condition("prefer-idle", PACK_ALL | PREFER_IDLE),
    Condition("bounded", PACK_ALL | PREFER_IDLE | BOUNDED),
    Condition("exit-latency", AWARE),
    Condition("pack+exit", PACK | AWARE),
)

# Important tasks, their work and their pause, us.
LOADS = {"light": (2, 3000, 2000), "heavy": (8, 3000, 3000)}

# Virtual time of a cell, s.
SECONDS = {QUICK: 1, USUAL: 2, ORIGINAL: 30}


def name_of(condition: Condition, load: str) -> str:
    """Return the name of a cell's files."""
    return f"{condition.name}.{load}"


ALL = tuple((one, load) for load in LOADS for one in CONDITIONS)


def script(seconds: int, seed: int, cells: Sequence[tuple[Condition, str]] = ALL) -> str:
    """Return what the guest runs: cells, in an order that rotates with the seed."""
    lines = [f"SECONDS_EACH={seconds}", (HERE / "guest.sh").read_text()]
    for place in range(len(cells)):
        one, load = cells[(place + seed) % len(cells)]
        scheduler = STOCK if one.mode is None else f"mode{one.mode}"
        words = [name_of(one, load), scheduler, one.governor, *map(str, LOADS[load])]
        lines.append(f"cell {' '.join(words)}")
    return "\n".join(lines)


def guest_files() -> dict[str, bytes]:
    """Return the files of the guest, by path.

    Raises:
        UserError: the compiler of programs in BPF is missing.
    """
    files = programs.file(RECORDS) | programs.file(programs.WAKEBENCH)
    files |= programs.file(programs.LATNICE) | {"usr/bin/cil-bpf": build.loader().read_bytes()}
    for mode in {one.mode for one in CONDITIONS if one.mode is not None}:
        values = {"MODE": mode, "CPUS": CPUS, "SEARCH": SEARCH}
        files[f"lab/mode{mode}.bpf.o"] = build.plain(HERE / "scheduler.bpf.c", values)
    return files


def lab_run(seconds: int, seed: int, kernel: str, files: Mapping[str, bytes]) -> LabRun:
    """Return a boot."""
    return LabRun(
        script=script(seconds, seed), kernel=kernel, cpus=CPUS, seed=seed, files=files,
        real_time=False, time_limit_s=3600,
    )  # fmt: skip


def read_cell(folder: Path, name: str) -> dict[str, float]:
    """Return the figures of a cell.

    Raises:
        UserError: a program saw too little, or printed something else.
    """

    def text(suffix: str) -> str:
        return (folder / f"{name}.{suffix}").read_text(errors="replace")

    slots = account(text("before"), text("after"))
    online_ns = sum(slot.time_ns for slot in slots if slot.state != OFFLINE)

    def share(*states: str) -> float:
        return 100 * sum(slot.time_ns for slot in slots if slot.state in states) / online_ns

    try:
        taken = {who: [int(line) / US for line in text(who).split()]
                 for who in ("sensitive", "tolerant")}  # fmt: skip
        percentiles = {who: quantiles(each, n=100, method="inclusive")
                       for who, each in taken.items()}  # fmt: skip
        done, ns = map(int, text("important").split())
        records_per_s = done * 1e9 / ns
    except (ValueError, ArithmeticError) as error:
        raise UserError(f"{name}: the programs' output is not understood: {error}") from error
    return {
        "p50_us": percentiles["sensitive"][49],
        "p99_us": percentiles["sensitive"][98],
        "tolerant_p99_us": percentiles["tolerant"][98],
        "records_per_s": records_per_s,
        "power_mw": power_mw(slots, state_tables.find(TABLE, HZ)),
        "asleep_pct": share(*DEEP),
        "busy_pct": share(BUSY),
    }


def read(result: LabResult) -> dict[str, Any]:
    """Return the figures of all cells of a boot, for the memo."""
    names = [name_of(one, load) for one, load in ALL]
    return {name: read_cell(result.files, name) for name in names}
