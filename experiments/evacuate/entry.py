# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab experiment evacuate`: the table of the patch of 2009, by three methods.

One boot for each seed has all methods, percentages and numbers of threads.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.plots import Line, Plot
from cpuidle_lab.evidence.tables import Section, Table
from cpuidle_lab.lab import LabResult, LabRun, programs
from experiments.boots import NOT_BOOTED, boots, limit_s, sources
from experiments.evacuate.table import CPUS, METHODS, PERCENTAGES, REPORTED, Change, Found, read
from experiments.experiment import ORIGINAL, Findings, Request, Row
from experiments.memo import Memo

HERE = Path(__file__).parent
# Code that plans the boots and reads their results.
CODE = [Path(__file__), HERE / "table.py", HERE / "guest.sh"]
RECORDS = programs.Program("records", "experiments/evacuate/records.c")

# Virtual time of a run, s.
ORIGINAL_S, USUAL_S = 30, 1

# Figures of a point, beside those of 100 %.
FIGURES = ("records", "power", "machine")

# Records of an under-used load, effect and p99 of a CPU that stays: what is promised.
KEPT, EFFECT_MS, P99 = 0.97, 20.0, 1.10


def lab_run(scale: str, seed: int) -> LabRun:
    """Return a boot.

    Args:
        scale: of the run.
        seed: of the run.
    """
    seconds = ORIGINAL_S if scale == ORIGINAL else USUAL_S
    script = f"SECONDS_EACH={seconds} SEED={seed}\n{(HERE / 'guest.sh').read_text()}"
    return LabRun(
        script=script,
        cpus=CPUS,
        packages=2,
        seed=seed,
        files=programs.file(RECORDS),
        time_limit_s=limit_s(scale, 3600),
    )


def _read(result: LabResult) -> dict[str, Any]:
    """Return a boot's figures relative to 100 %, and its times, for the memo."""
    found: Found = read(result.output, result.files)
    points = {}
    for (method, percent, threads), point in found.points.items():
        base = found.points["none", 100, threads]
        points[f"{method} {percent} {threads}"] = [
            point.records_per_s / base.records_per_s,
            point.power_mw / base.power_mw,
            point.machine_mw / base.machine_mw,
        ]
    changes = {f"{m} {p}": vars(change) for (m, p), change in found.changes.items()}
    return {"points": points, "changes": changes, "p99_us": found.p99_us}


def _each(found: Sequence[Any], of: Callable[[Any], float | None]) -> list[float]:
    """Return a figure of all boots that have it."""
    return [value for value in map(of, found) if value is not None]


def _point(method: str, percent: int, threads: int, place: int) -> Callable[[Any], float | None]:
    return lambda one: one["points"][f"{method} {percent} {threads}"][place]


def _change(method: str, percent: int, what: str) -> Callable[[Any], float | None]:
    return lambda one: one["changes"].get(f"{method} {percent}", {}).get(what)


def _worst(found: Sequence[Any], what: str) -> list[float]:
    """Return the worst time of each boot among the module's changes, ms."""
    return [
        max(one["changes"][f"module {percent}"][what] for percent in PERCENTAGES) for one in found
    ]


def _rows(found: Sequence[Any]) -> list[Row]:
    rows = []
    for percent in PERCENTAGES:
        _, records, power = REPORTED[percent]
        for what, place, reported in (("records", 0, records), ("machine's power", 2, power)):
            rows.append(
                Row(
                    f"{percent} %, 8 threads: {what} beside 100 %",
                    f"{reported:.2f}",
                    _each(found, _point("module", percent, 8, place)),
                    agrees=(reported - 0.05, reported + 0.05),
                )
            )
    kept = [
        min(one["points"][f"module {percent} 4"][0] for percent in PERCENTAGES) for one in found
    ]
    p99 = [one["p99_us"]["module"] / one["p99_us"]["hotplug"] for one in found]
    return [
        *rows,
        Row("4 threads: least records beside 100 %", "promised: 0.97", kept, agrees=(KEPT, 2)),
        Row("first idle on all that go, at worst", "promised: 20 ms", _worst(found, "effect_ms"),
            "ms", agrees=(0, EFFECT_MS)),
        Row("p99 of cyclictest on CPUs that stay, beside hotplug", "promised: 1.10", p99,
            agrees=(0, P99)),
    ]  # fmt: skip


def _middle(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _relative(found: Sequence[Any], threads: int) -> Table:
    heads = ["percent", *(f"{method}: {what}" for method in METHODS for what in FIGURES)]
    rows = [
        [percent, *(_middle(_each(found, _point(method, percent, threads, place)))
                    for method in METHODS for place in range(len(FIGURES)))]
        for percent in PERCENTAGES
    ]  # fmt: skip
    title = f"{threads} threads, relative to 100 %: medians of the seeds"
    return Table(title, heads, rows, 3, _POWERS)


def _plot(found: Sequence[Any]) -> Plot:
    """Return records and machine's power of eight threads, by the percentage."""
    lines = []
    for place, theirs, what in ((0, 1, "records"), (2, 2, "machine's power")):
        reported = [(float(percent), REPORTED[percent][theirs]) for percent in PERCENTAGES]
        lines.append(Line(f"2009: {what}", reported))
        for method in METHODS:
            ours = [(float(percent), middle) for percent in PERCENTAGES
                    if (middle := _middle(_each(found, _point(method, percent, 8, place))))
                    is not None]  # fmt: skip
            lines.append(Line(f"{method}: {what}", ours))
    return Plot("evacuate", "Eight threads on eight CPUs, beside 100 %", "percent of the CPUs",
                "beside 100 %", lines)  # fmt: skip


_POWERS = """\
`power` is that of the CPUs, `machine` that of the CPUs and both packages. A package takes 60 W, and
25 W while its four CPUs are in C6, as in the tree [xeon](../domains.md#trees). All are modelled."""


def _times(found: Sequence[Any]) -> Table:
    fields = list(Change.__dataclass_fields__)
    rows = [
        [method, percent, *(_middle(_each(found, _change(method, percent, what)))
                            for what in fields)]
        for method in METHODS
        for percent in PERCENTAGES
    ]  # fmt: skip
    heads = ("method", "percent", "writes return", "first idle on all", "last task left", "back")
    note = (
        "Times in ms after the first write; eight threads work on the eight CPUs, for 0.8 s after "
        "it. A thread that is there in the end has not left. For hotplug the first idle time is "
        "the return of the last write. A dash: one of the CPUs did not become idle within the run."
    )
    return Table("Times of an evacuation, ms: medians of the seeds", heads, rows, 2, note)


class Evacuate:
    """The patch's table, in the module, by cpuset partitions and by CPU hotplug."""

    name = "evacuate"
    title = "CPU evacuation: the table of 2009"
    claim = (
        "On two quad-core packages, ebizzy gains up to 1.26 times its records and takes down to "
        "0.86 times the power as sched_max_capacity_pct falls from 100 to 50."
    )
    source = (
        '"[RFC PATCH v2 0/2] Saving power by cpu evacuation sched_max_capacity_pct=n", '
        "Vaidyanathan Srinivasan, linux-kernel, 13 May 2009"
    )
    question = (
        "The same table with this module, with cpuset partitions and with CPU hotplug: records and "
        "power, the time until the CPUs are idle, and the disturbance of those that stay."
    )
    in_lab = True

    def refusals(self, _: Request) -> list[str]:
        """Return nothing: the guest has the programs."""
        return []

    def measure(self, request: Request, memo: Memo, meter: Meter) -> Findings:
        """Boot once for each seed."""
        runs = [lab_run(request.scale, seed) for seed in range(1, request.seeds + 1)]
        told = boots(runs, _read, CODE, request, memo, meter, "Evacuating CPUs")
        found = [one for one in told if one]
        result = Findings(same=_SAME, differs=_DIFFERS, meaning=_MEANING)
        result.sources = sources(CODE)
        if not found:
            result.rows.append(Row(self.title, note=NOT_BOOTED))
            return result
        result.rows = _rows(found)
        tables = [_relative(found, 8), _relative(found, 4), _times(found)]
        section = Section("evacuate", self.title, tables=tables, plots=[_plot(found)])
        result.sections.append(section)
        return result


_SAME = """\
Eight CPUs in two packages, eight threads, the percentages, and the rule for the CPUs that are
left."""
_DIFFERS = """\
The lab has one CPU's worth of instructions, so a record is 1 ms of the emulator's work, which takes
time instead ([emul](../../emul/README.md#work)). A run has 1 s, not 30. Power is modelled, of CPUs
and packages. There are no caches, to which the patch owes its gain in records."""
_MEANING = """\
Records follow the number of CPUs that are left: without shared caches nothing is gained for a load
that needs all CPUs. So nearly does the power of the CPUs. The machine's power falls less, as that
of 2009 did, because a package sleeps only while all of its CPUs do. It is the four CPUs of one
package that go at 50 %. A load that needs half of the CPUs keeps its records.
The module idles its CPUs within 0.3 ms. Cpusets take 8 to 16 ms, CPU hotplug most of a second.

With as many threads as CPUs, the module's last one leaves late or never: the scheduler's balancing
takes a held CPU for a slow one, not for one that is gone. A cpuset moves all tasks at once."""

EXPERIMENT = Evacuate()
