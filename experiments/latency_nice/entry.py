# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab experiment latency-nice`: what schedulers make of latency hints."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from cpuidle_lab.base.cache import CACHE, digest
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.bpf import build
from cpuidle_lab.evidence.plots import Line, Plot
from cpuidle_lab.evidence.tables import Cell, Section, Table
from cpuidle_lab.lab import corpus
from experiments import energy
from experiments.boots import NOT_BOOTED, boots
from experiments.experiment import Findings, Request, Row
from experiments.latency_nice import cells
from experiments.latency_nice.cells import CONDITIONS, DEEP, KERNELS, LOADS, STOCK, name_of
from experiments.memo import Memo


def _ratios(found: Sequence[Any], load: str, claim: "Claim") -> list[float]:
    """Return a figure of one condition beside that of another, for each seed that has both."""
    one, other = f"{claim.one}.{load}", f"{claim.other}.{load}"
    return [
        each[one][claim.figure] / each[other][claim.figure]
        for each in found
        if each[other][claim.figure]
    ]


@dataclass(frozen=True)
class Claim:
    """A comparison that the slides make, or invite.

    Attributes:
        what: in the table.
        one, other: conditions.
        figure: of read_cell().
        reported: what the slides say; "" if nothing.
        agrees: ratios that agree with it.
    """

    what: str
    one: str
    other: str
    figure: str
    reported: str = ""
    agrees: tuple[float, float] | None = None


# Sources that decide the figures besides the modules.
PLAN = ("cells.py", "guest.sh", "scheduler.bpf.c")

LESS, MORE = (0.0, 0.999), (1.001, 1e9)

CLAIMS = (
    Claim("pack: time in deep states, beside stock", "pack", STOCK, "asleep_pct",
          "more: fewer cores are used", MORE),
    Claim("pack: power, beside stock", "pack", STOCK, "power_mw", "less", LESS),
    Claim("pack: work of the important tasks, beside stock", "pack", STOCK, "records_per_s",
          "up to 1.14", (1.01, 1.14)),
    Claim("pack: p99 of the sensitive tasks, beside stock", "pack", STOCK, "p99_us"),
    Claim("prefer-idle: p99 of the sensitive tasks, beside pack-all", "prefer-idle", "pack-all",
          "p99_us", "less", LESS),
    Claim("prefer-idle: power, beside pack-all", "prefer-idle", "pack-all", "power_mw"),
    Claim("bounded: p99 of the sensitive tasks, beside prefer-idle", "bounded", "prefer-idle",
          "p99_us", "less: TPCC gains 1 % without a search", LESS),
    Claim("exit-latency: p99 of the sensitive tasks, beside stock", "exit-latency", STOCK,
          "p99_us"),
    Claim("exit-latency: power, beside stock", "exit-latency", STOCK, "power_mw"),
)  # fmt: skip

# Figures of read_cell().
HEADS = {
    "busy_pct": "busy, %",
    "asleep_pct": f"in {' and '.join(DEEP)}, %",
    "power_mw": "power, mW",
    "p50_us": "sensitive p50, us",
    "p99_us": "p99, us",
    "tolerant_p99_us": "tolerant p99, us",
    "records_per_s": "records/s",
}


def rows(found: Sequence[Any]) -> list[Row]:
    """Return all comparisons, for each load."""
    return [
        Row(f"{load}, {claim.what}", claim.reported, _ratios(found, load, claim),
            agrees=claim.agrees)
        for load in LOADS
        for claim in CLAIMS
    ]  # fmt: skip


def _table(found: Sequence[Any], load: str) -> Table:
    rows: list[list[Cell]] = [
        [one.name, *(median(each[name_of(one, load)][figure] for each in found)
                     for figure in HEADS)]
        for one in CONDITIONS
    ]  # fmt: skip
    return Table(f"{load} load, medians of the seeds", ("placement", *HEADS.values()), rows)


def _plot(found: Sequence[Any], load: str) -> Plot:
    lines = [
        Line(
            one.name,
            [(each[name]["power_mw"], each[name]["p99_us"]) for each in found],
            joined=False,
        )
        for one in CONDITIONS
        for name in [name_of(one, load)]
    ]
    return Plot(
        load, f"{load} load: each seed", "modelled power, mW", "p99 of sensitive tasks, us",
        lines, log_y=True,
    )  # fmt: skip


def _found(request: Request, memo: Memo, meter: Meter) -> list[Any]:
    """Return the figures of each boot that was made."""
    # Without the loader nothing was measured here, and it is not made in order to find that.
    if not request.lab and not any(CACHE.glob("bpf-loader-*")):
        return []
    files = cells.guest_files()
    seconds = cells.SECONDS[request.scale]
    kernel = request.kernel or KERNELS[0]
    runs = [cells.lab_run(seconds, seed, kernel, files) for seed in range(1, request.seeds + 1)]
    code = [Path(cells.__file__), Path(energy.__file__)]
    title = "Placing tasks by their hints"
    told = boots(runs, cells.read, code, request, memo, meter, title)
    return [one for one in told if one]


_QUESTION = """\
How much power, sleep and latency do the slides' uses of hints cost and save, beside the kernel's
own scheduler? Schedulers of sched_ext read the hints and the exit latency of each CPU through this
module, on an unmodified kernel. `plain` places as sched_ext does by itself. `pack` puts small tasks
that do not mind being late on busy CPUs, `pack-all` all small tasks, whatever their hint.
`prefer-idle` is `pack-all`, but sensitive tasks get an idle CPU; `bounded` looks at 2 CPUs for it.
`exit-latency` gives sensitive tasks the idle CPU that wakes up soonest. `gate` is the kernel's own
scheduler with idle gating, for comparison."""
_SAME = """\
Eight small tasks of latency_nice 19 wake up at random. A task is small below an eighth of a CPU.
The heavy load has the slides' eight important tasks."""
_DIFFERS = """\
The slides' figures are of patches of the fair class. Here sched_ext replaces that class for all
tasks, and `plain` shows what that alone changes. The lab has no turbo, to which packing owed its
gain in throughput. Work is the emulator's ([emul](../../emul/README.md#work)), at most 70 % of 8
CPUs. Power is modelled, of the CPUs alone. A wake-up is late by the lab's turns of up to 50 us
([lab](../lab.md)). The module tells no scheduler which value above 0 a task has, so 1 packs as 19
does. TPCC and Jankbench are not run: wakebench stands for them."""
_MEANING = """\
On the light load packing saves power, as the slides say: 24 % of the CPUs' time is in deep states
in place of 2.1 %, and power falls by 14 %. The price is the sensitive tasks' p99 of 10 ms, for a
CPU that is left alone takes 2 to 10 ms to wake up. Under stock it is 0.2 ms. Together with
placement by exit latency (`pack+exit`) p99 is 0.2 ms, too, at 18 % less power than stock. Packing
without hints (`pack-all`) saves 32 %, at a p99 of 9 ms.

Placement by exit latency alone has a p99 of 0.2 ms, too, and saves 5 %. Most of that is due to
sched_ext: `plain` has the same p99. What the exit latency adds on the light load is a p50 of 27 us
in place of 107, and 3 % less power. On the heavy load it adds nothing.

Important tasks do not gain: the lab has no turbo. They lose 3 % on the light load, where small
tasks share their CPUs. On the heavy load no CPU is left alone for long enough, so nothing sleeps
deep; that contradicts the slides.

An idle CPU for sensitive tasks is a gain on the heavy load alone: p99 falls to 7 % of that of
`pack-all`. On the light load the idle CPU sleeps deep, and p99 stays at 10 ms. The shorter search
gains on the light load in most seeds, where it meets fewer CPUs that sleep deep. On the heavy one
it loses 1 %. A search of 8 CPUs is short; the slides had up to 24.

Read the ratios with care. A cell is two virtual seconds, so a p99 is of at most 1,300 wake-ups, and
a few exits from the deepest state, of 10 ms each, decide it. The spreads on the light load say
so."""


class LatencyNice:
    """The slides' other uses of hints, by schedulers of sched_ext."""

    name = "latency-nice"
    title = "Placement of tasks by latency hints"
    claim = (
        "Packing small tasks of latency_nice 19 on fewer cores saves power, and gives important "
        "ones up to 14 % more throughput; sensitive tasks gain by an idle CPU, and by a shorter "
        "search for one."
    )
    source = (
        'slides "Latency_nice: Implementation and Use-case for Scheduler Optimization", '
        "P. Shah, C. Hyser, D. Eggemann, 2020"
    )
    question = _QUESTION
    in_lab = True
    kernels = KERNELS

    def refusals(self, request: Request) -> list[str]:
        """Return what is missing: sched_ext in the kernel, or the compiler."""
        found = []
        if request.kernel not in ("", *KERNELS):
            found.append(
                f"the kernel {request.kernel} has no sched_ext; "
                f"Debian's {' and '.join(KERNELS)} have it"
            )
        if request.lab:
            try:
                build.tool("clang")
            except UserError as error:
                found.append(str(error))
        return found

    def measure(self, request: Request, memo: Memo, meter: Meter) -> Findings:
        """Boot once for each seed."""
        result = Findings(same=_SAME, differs=_DIFFERS, meaning=_MEANING)
        plan = [(cells.HERE / name).read_bytes() for name in PLAN]
        result.sources = {"modules": corpus.modules_hash(), "plan": digest(plan)}
        found = _found(request, memo, meter)
        if not found:
            result.rows.append(Row(self.title, note=NOT_BOOTED))
            return result
        result.rows = rows(found)
        section = Section("latency-nice", self.title)
        section.tables += [_table(found, load) for load in LOADS]
        section.plots += [_plot(found, load) for load in LOADS]
        result.sections.append(section)
        return result


EXPERIMENT = LatencyNice()
