# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab experiment gate`: idle gating's tables of 2020 and 2021, beside ours."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from cpuidle_lab.base.cache import TOP, digest
from cpuidle_lab.base.files import scratch
from cpuidle_lab.compare.model import Phase
from cpuidle_lab.evidence.plots import Line, Plot
from cpuidle_lab.evidence.tables import Section, Table
from cpuidle_lab.lab import LabRun, corpus
from cpuidle_lab.lab.keys import machine_parts
from experiments.boots import figures
from experiments.experiment import (
    NOT_BOOTED,
    ORIGINAL,
    QUICK,
    Cell,
    Request,
    Result,
    Row,
    checked,
)
from experiments.gate import decisions, guest, judgement, switches
from experiments.gate.gate_text import TITLES
from experiments.gate.guest import MENU, PERFORMANCE, RFC, Sizes
from experiments.gate.judgement import PUBLISHED
from experiments.memo import Memo

HERE = Path(__file__).parent

# By so many points may ours differ from a published change and agree with it.
MARGIN = 25.0

# `bench gate` has both machines, and 10 and 20 s, with one seed. Polling costs most: a virtual
# second takes 18 of the host's without idle states, and 30 with the gate of the RFC.
USUALLY = replace(guest.FULL, machines=("power9",), wake_s=1, server_s=3)
QUICKLY = replace(guest.QUICK, machines=("power9",), wake_s=1, server_s=2)

Works = Mapping[str, Any]


def _sizes(request: Request) -> list[Sizes]:
    base = {QUICK: QUICKLY, ORIGINAL: guest.FULL}.get(request.scale, USUALLY)
    return [
        replace(base, machines=(machine,), seed=guest.SEED + number)
        for machine in base.machines
        for number in range(request.seeds)
    ]


def _code() -> list[bytes]:
    """Return the sources that plan the boots, run in them and read their results."""
    paths = [path for path in sorted(HERE.rglob("*.py")) if path.name != "entry.py"]
    paths += [TOP / one.source for one in guest.PROGRAMS]
    return [path.read_bytes() for path in paths]


def _key(kind: str, what: object) -> str:
    return digest(["gate", kind, repr(what), *machine_parts(), *_code()])


def _cell(kind: str, what: object, work: Callable[[], Any]) -> Cell:
    return checked(lambda: _key(kind, what), work)


def _machine(sizes: Sizes) -> dict[str, Any]:
    with scratch(TOP / "build") as folder:
        files = guest.run(sizes.machines[0], sizes, folder / "results")
        return judgement.machine_figures(sizes.machines[0], files, sizes)


def _changes(runs: Sequence[Works], work: str, condition: str, what: str) -> list[float]:
    """Return for each seed a condition's change to menu, %."""
    found = []
    for run in runs:
        cells = next(one["cells"] for one in run["works"] if one["name"] == work)
        quantile = "p99" if what == "latency" and work.startswith("wake") else "mean"
        value, base = (_value(cells[name], what, quantile) for name in (condition, MENU))
        found.append(100 * (value / base - 1))
    return found


def _value(cell: Mapping[str, Any], what: str, quantile: str = "mean") -> float:
    if what == "power":
        return float(cell["power_mw"]["1"])
    return float(cell["end_to_end_ns"][quantile])


def _rows(machine: str, runs: Sequence[Works]) -> list[Row]:
    rows = []
    for work in (one["name"] for one in runs[0]["works"]):
        for condition in (PERFORMANCE, RFC):
            published = PUBLISHED.get((work, condition))
            if not published:
                continue
            for what in ("latency", "power"):
                theirs = 100 * getattr(published, what)
                rows.append(
                    Row(
                        f"{machine}, {work}, {TITLES[condition]}: {what}, to menu",
                        f"{theirs:+.0f} %",
                        _changes(runs, work, condition, what),
                        "%",
                        (theirs - MARGIN, theirs + MARGIN) if machine == "power9" else None,
                    )
                )
    return rows


def _table(machine: str, runs: Sequence[Works]) -> Table:
    rows: list[list[str | float]] = []
    for place, work in enumerate(runs[0]["works"]):
        for name in work["cells"]:
            cells = [run["works"][place]["cells"][name] for run in runs]
            published = PUBLISHED.get((work["name"], name))
            theirs = published and published.latency_ms
            rows.append(
                [
                    work["title"],
                    TITLES[name],
                    median(cell["exit_ns"]["p99"] for cell in cells) / 1000,
                    median(cell["end_to_end_ns"]["mean"] for cell in cells) / 1000,
                    median(cell["power_mw"]["1"] for cell in cells) / 1000,
                    f"{theirs:.3f}" if theirs else "",
                    f"{published.watts:.1f}" if published and published.watts else "",
                ]
            )
    heads = ("workload", "condition", "exit latency p99, us", "mean latency, us", "power, W",
             "RFC's mean, ms", "RFC's power, W")  # fmt: skip
    return Table(f"On {machine}, medians of the seeds", heads, rows, 2)


def _plot(machine: str, runs: Sequence[Works]) -> Plot:
    lines = []
    for name, title in TITLES.items():
        cells = [work["cells"][name] for run in runs for work in run["works"]]
        points = [
            (_value(cell, "power") / 1000, cell["exit_ns"]["p99"] / 1000 + 0.1) for cell in cells
        ]
        lines.append(Line(title, points, joined=False))
    return Plot(
        machine, f"Idle gating on {machine}", "power, W", "p99 of the exit latency + 0.1, us",
        lines, log_x=True, log_y=True,
    )  # fmt: skip


class Gate:
    """Latency hints: menu, no idle states, the gate as in the RFC, and the gate as it is here."""

    name = "gate"
    title = "Idle gating"
    claim = (
        "On POWER9 idle gating takes schbench's p99 down by 94 to 98 % for 17 to 20 % more power; "
        "without idle states it is 95 to 98 % for 30 %. With one client of pgbench it saves 10 % "
        "of the extra power, with 44 clients 85 %."
    )
    source = (
        '"Idle-gating for latency-sensitive workloads", P. Shah, 2021; slides "Latency_nice", '
        "P. Shah, C. Hyser, D. Eggemann, 2020"
    )
    question = (
        "How much latency and power do hints cost and save, beside menu and beside a machine "
        "without idle states? docs/bench.md says how it is judged."
    )
    in_lab = True

    def refusals(self, _: Request) -> list[str]:
        """Return nothing: without --lab the rows say what is missing."""
        return []

    def measure(self, request: Request, memo: Memo, phase: Phase) -> Result:
        """Boot each machine once for each seed, and once more for the costs."""
        plan = _sizes(request)
        cells = [
            partial(_cell, "costs", 1, partial(decisions.measure, 1)),
            partial(_cell, "switches", 1, switches.measure),
            *(partial(_cell, "machine", one, partial(_machine, one)) for one in plan),
        ]
        kernels = [LabRun.kernel]
        found = figures(cells, kernels, request.lab, memo, phase, "Booting for the gate")
        result = Result(sources={"modules": corpus.modules_hash(), "code": digest(_code())})
        result.same, result.differs, result.meaning = _SAME, _DIFFERS, _MEANING
        runs = [one for one in found[2:] if one]
        if not runs:
            result.rows.append(Row(self.title, note=NOT_BOOTED))
            return result
        section = Section("gate", self.title)
        for machine in dict.fromkeys(run["machine"] for run in runs):
            mine = [run for run in runs if run["machine"] == machine]
            result.rows += _rows(machine, mine)
            section.tables.append(_table(machine, mine))
            section.plots.append(_plot(machine, mine))
        if found[0]:
            rows = [[case["case"], case["mean"], case["added"]] for case in found[0]["cases"]]
            heads = ("case", "instructions of a decision", "added by the gate")
            section.tables.append(Table("What the gate costs", heads, rows, 0))
        if found[1]:
            rows = [[case["title"], case["instructions"], case["added"]]
                    for case in found[1]["cases"]]  # fmt: skip
            heads = ("case", "instructions of a context switch", "added by hints")
            section.tables.append(Table("What hints cost at a switch", heads, rows, 1))
        result.sections.append(section)
        return result


_SAME = """\
Without idle states the power rises most. The gate as in the RFC lies between that and menu. With
one worker both take the latency down by nearly all of it."""
_DIFFERS = """\
Theirs are watts of a machine with two sockets, with a constant part that no idle state changes;
ours are of the emulated CPUs alone, so the same change is a larger part. End to end, virtual time
holds the turns of the emulated CPUs. The latency of wakebench is p99, of pgbench the mean, as
theirs. wakebench has schbench's pattern, with fewer threads.

With 44 clients the gate as in the RFC has no exit latency at its p99, in four of five seeds. Yet
its mean latency is above that of menu in three of five, where theirs fell by 41 %. The cause is the
lab. Where deeper states are enabled, the kernel's polling state gives up after 10 us, and the gate
decides again. So the CPUs are busy with decisions for 44 to 52 % of the time, and for 7 to 9 %
without idle states. In virtual time busy CPUs slow each other down: they share one clock of
instructions. A transaction takes five times as long. Shorter turns of the CPUs do not help: in runs
of 6 s the mean was 8.7 ms with turns of 100 us, and 8.5 ms with 10 us. CPUs of a real machine
decide beside each other.

The gate with a limit of 10 us has a quarter of that mean for 37 % of that power. In four of five
seeds the p99 of its exit latency is 2 or 10 ms. A run of 3 s completes 13 to 27 transactions with
44 clients, and 4 to 12 under the gate of the RFC. So one late wake-up makes a p99. The start of the
44 servers is a part of the 3 s, and of the power: with `bench gate` it is a part of 20 s."""
_MEANING = """\
Compare the order of the conditions. A hint with a latency (`latnice -l`) keeps the target for a
part of the energy of polling; [the benchmark's page](../bench.md) judges it against its targets."""

EXPERIMENT = Gate()
