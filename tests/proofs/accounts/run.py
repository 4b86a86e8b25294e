# SPDX-License-Identifier: GPL-2.0
"""The emulated machine's account of domains is that of its recording, within 1 % on each tree.

The lab plays each tree that comes along and has one table of idle states. The emulated machine's
account is read at both ends of each phase, and made once more of the recording's idle periods.
Energy and time asleep are compared; the number of sleeps is in the energy by their price.
"""

import argparse
import json
import shlex
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import FAILURE
from cpuidle_lab.compare.sources import open_source
from cpuidle_lab.crossval.parts import overslept
from cpuidle_lab.domains import observed
from cpuidle_lab.domains.account import FAR, Account, Stays, account
from cpuidle_lab.figures.analysis import phases
from cpuidle_lab.figures.frames import Frames, frames_of_trace
from cpuidle_lab.figures.intervals import table_of
from cpuidle_lab.lab import LabRun, run_lab, workloads
from cpuidle_lab.lab.session import OUR_EVENTS, TRACE, PhasePlan, Session
from cpuidle_lab.lab.trees import emulated_domains
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.states.table import StateTable
from experiments import proofs
from experiments.domains.machines import TREES
from experiments.energy import Slot
from experiments.energy import account as energy
from tests.proofs.accounts import costs

ACCOUNTS = "/sys/kernel/debug/cpuidle_emul"
READ = ("energy", "domains")
UP = "up"

# The emulated machine has one table of idle states, an MT8196 one of each cluster.
PLAYED = tuple(name for name in TREES if name != "mt8196")

# A module of the tree has four CPUs, and a package several modules.
CPUS = {"ecore-modules": 8}
WORKLOADS = ("idle", "cyclictest-1700us", "hackbench-pipe")
LIMIT = 0.01
# Most that the kernel may take around the driver; it takes some 300 ns.
AROUND_MOST_NS = 1000
# Turns of CPUs as in `make crossval`: see docs/lab.md.
TURN_US = 10
OVERSLEPT_SHARE = 0.001

EXAMPLES = {"": "", "--costs": "instructions of the machine's account"}


@dataclass(frozen=True)
class Figures:
    """Figures of a domain in a phase.

    Attributes:
        energy_mj: modelled.
        asleep_ms: time in one of its states.
        sleeps: how many.
    """

    energy_mj: float
    asleep_ms: float
    sleeps: int


@dataclass(frozen=True)
class Compared:
    """A domain in a phase, as the emulated machine and the recording have it."""

    tree: str
    workload: str
    domain: str
    emulated: Figures
    recorded: Figures

    @property
    def errors(self) -> tuple[float, float]:
        """Parts by which the recording's energy and time asleep are off."""
        mine, other = self.emulated, self.recorded
        late_ms = abs(other.asleep_ms - mine.asleep_ms)
        return (
            abs(other.energy_mj - mine.energy_mj) / mine.energy_mj,
            late_ms / mine.asleep_ms if mine.asleep_ms else float(late_ms > 0),
        )

    @property
    def is_same(self) -> bool:
        """Energy and time asleep are within the limit."""
        return max(self.errors) <= LIMIT


def levels(text: str) -> dict[str, dict[str, tuple[int, int, int]]]:
    """Return time (ns), entries and energy (uJ) by domain and level, of the machine's account."""
    found: dict[str, dict[str, tuple[int, int, int]]] = {}
    for line in text.splitlines()[1:]:
        domain, level, _, _, *figures = line.split()
        time_ns, entries, energy_uj = map(int, figures)
        found.setdefault(domain, {})[level] = (time_ns, entries, energy_uj)
    return found


def emulated(before: str, after: str) -> dict[str, Figures]:
    """Return the figures of each domain between two readings of the machine's account."""
    old, new = levels(before), levels(after)
    found = {}
    for domain, rows in new.items():
        rise = {
            level: [b - a for a, b in zip(old[domain][level], row, strict=True)]
            for level, row in rows.items()
        }
        asleep = [row for level, row in rise.items() if level != UP]
        found[domain] = Figures(
            sum(row[2] for row in rise.values()) / 1e3,
            sum(row[0] for row in asleep) / 1e6,
            sum(row[1] for row in asleep),
        )
    return found


def recorded(account: Account) -> Figures:
    """Return the figures of a domain by the recording's account."""
    return Figures(
        account.energy_pj() / 1e9,
        float(account.level_ns()[1:].sum()) / 1e6,
        int((account.level > 0).sum()),
    )


class Read(PhasePlan):
    """A phase at whose begin and end the machine's account is read.

    Each marker follows a reading, so that both span the same time. All CPUs wake up before and
    after it, for the recording to know the idle period that each is in.
    """

    def calls(self) -> list[str]:
        """Return the lines that run the workload between the markers."""
        wake = "for cpu in $(seq 0 $(($(nproc) - 1))); do taskset -c $cpu true; done"
        # On one CPU, for a reading and its marker not to wait for the exit latency of another.
        alone = "taskset -cp 0 $$ >/dev/null"
        free = "taskset -cp 0-1023 $$ >/dev/null"
        return [
            wake,
            alone,
            self._read("before"),
            f"mark 'phase governor={self.governor} workload={self.workload}'",
            free,
            f"sh -c {shlex.quote(self.command)} >/dev/null 2>&1 || fail {self.workload}",
            alone,
            self._read("after"),
            "mark 'phase end'",
            free,
            wake,
        ]

    def _read(self, when: str) -> str:
        """Return the line that reads the accounts; each is read as a whole."""
        names = (f"cat {ACCOUNTS}/{name} >/results/{self.workload}.{name}.{when}" for name in READ)
        return "; ".join(names)


def slept(frames: Frames) -> pl.DataFrame:
    """Return the idle periods, each as long as the kernel measured it, with its recorded end.

    Where many CPUs wake up at once a CPU may wait for its turn right after the event at its begin.
    """
    told = frames.decisions.select("cpu", "seq", "residency_ns")
    idle = frames.idle.join(told, on=["cpu", "seq"], how="left", maintain_order="left")
    start = pl.col("end_ns") - pl.col("residency_ns")
    return idle.with_columns(
        start_ns=pl.when(pl.col("residency_ns") > 0).then(start).otherwise("start_ns")
    ).drop("residency_ns")


def entered(idle: pl.DataFrame, tables: Mapping[int, StateTable]) -> pl.DataFrame:
    """Return the idle periods that were entered: the machine takes the exit latency in each.

    A task that comes before the halt ends the others.
    """
    exits = pl.DataFrame(
        [(cpu, k, ns) for cpu, each in tables.items() for k, ns in enumerate(each.exit_latency_ns)],
        schema={"cpu": pl.UInt16, "index": pl.UInt32, "exit_ns": pl.UInt64},
        orient="row",
    )
    known = idle.join(exits, on=["cpu", "index"], how="left", maintain_order="left")
    halted = (pl.col("end_ns") - pl.col("start_ns") >= pl.col("exit_ns")) & (pl.col("exit_ns") > 0)
    return known.filter(halted)


def stays_of(idle: pl.DataFrame) -> dict[int, Stays]:
    """Return the idle periods of each CPU."""
    found = {}
    for (cpu,), rows in idle.sort("start_ns").partition_by("cpu", as_dict=True).items():
        start, end, index = (
            rows[name].to_numpy().astype(np.int64) for name in ("start_ns", "end_ns", "index")
        )
        found[int(str(cpu))] = Stays(start, end, index, np.full(len(start), FAR))
    return found


def around_ns(table: StateTable, stays: Mapping[int, Stays], slots: Sequence[Slot]) -> int:
    """Return the time by which an idle period of the recording is longer than the machine's.

    The kernel takes the time before it calls the driver and after that. Where CPUs change places
    within that time, the recording has a sleep that the machine does not have. Of the means of all
    states that both have as often, it is the median. A mean beyond AROUND_MOST_NS is none: of few
    idle periods, those that the phase cuts make it.
    """
    means = []
    for k, name in enumerate(table.names):
        lengths = [each.end_ns[each.index == k] - each.start_ns[each.index == k]
                   for each in stays.values()]  # fmt: skip
        mine = [slot for slot in slots if slot.state == name]
        count = sum(map(len, lengths))
        if count and count == sum(slot.entries for slot in mine):
            longer = sum(int(each.sum()) for each in lengths) - sum(slot.time_ns for slot in mine)
            if 0 <= longer <= count * AROUND_MOST_NS:
                means.append(longer / count)
    return round(median(means)) if means else 0


def read(folder: Path, workload: str, name: str) -> tuple[str, str]:
    """Return the texts of an account of the machine before and after a workload."""
    before, after = ((folder / f"{workload}.{name}.{w}").read_text() for w in ("before", "after"))
    return before, after


def accounts(path: Path, tree: str) -> dict[str, dict[str, Account]]:
    """Return the account of each domain by a recording, by workload and name."""
    trace = tr.load(path)
    idle = slept(frames_of_trace(trace))
    tables = {cpu: table for cpu in idle["cpu"].unique() if (table := table_of(trace, cpu))}
    stays = stays_of(entered(idle, tables))
    found: dict[str, dict[str, Account]] = {}
    for each in phases(trace):
        span = (each.start_ns, each.end_ns)
        mine = found[each.workload] = {}
        known = {cpu: all_of.within(*span) for cpu, all_of in stays.items()}
        around = around_ns(tables[0], known, energy(*read(path.parent, each.workload, "energy")))
        known = {cpu: replace(one, end_ns=one.end_ns - around) for cpu, one in known.items()}
        for domain in observed.tree_of(tree, tables, trace.cpus, path):
            mine[domain.name] = account(domain, known, mine, *span)
    return found


def late_share(path: Path) -> float:
    """Return the share of the idle time that is overslept."""
    with ExitStack() as stack:
        _, recording = open_source(path, path.name, (), stack)
        late, total = overslept(recording)
    return late / total if total else 0.0


def play(tree: str, args: argparse.Namespace, output: Path) -> tuple[list[Compared], float]:
    """Run a tree in the lab; return its domains in each phase, and the overslept share."""
    named = [workloads.find(name) for name in args.workloads.split(",")]
    plans = [
        Read(args.governor, each.name, each.shell(args.duration, args.seed), setup=each.setup)
        for each in named
    ]
    # The kernel's event has the very moment at which the driver is called.
    events = (OUR_EVENTS, "power:cpu_idle")
    script = Session(TREES[tree], plans, events, domains=emulated_domains(tree)).script()
    cpus = args.cpus or CPUS.get(tree, 4)
    run_lab(
        LabRun(script=script, kernel=args.kernel, cpus=cpus, seed=args.seed, turn_us=TURN_US),
        output,
    ).check()
    found = []
    for workload, by_name in accounts(output / TRACE, tree).items():
        machine = emulated(*read(output, workload, "domains"))
        for name, one in by_name.items():
            found.append(Compared(tree, workload, name, machine[name], recorded(one)))
    return found, late_share(output / TRACE)


def rows(found: Iterable[Compared]) -> list[str]:
    """Return a line for each domain in each phase."""
    head = (
        f"{'tree':15}{'workload':19}{'domain':10}{'mJ':>11}{'recorded':>11}{'ms asleep':>11}"
        f"{'recorded':>10}{'sleeps':>8}{'recorded':>9}{'mJ %':>8}{'ms %':>8}"
    )
    lines = [head]
    for one in found:
        mine, other = one.emulated, one.recorded
        lines.append(
            f"{one.tree:15}{one.workload:19}{one.domain:10}{mine.energy_mj:11.1f}"
            f"{other.energy_mj:11.1f}{mine.asleep_ms:11.2f}{other.asleep_ms:10.2f}"
            f"{mine.sleeps:8}{other.sleeps:9}{100 * one.errors[0]:8.3f}{100 * one.errors[1]:8.3f}"
        )
    return lines


def told(found: Sequence[Compared], late: Mapping[str, float]) -> str:
    """Return all figures as JSON."""
    table = [asdict(one) | {"errors": one.errors} for one in found]
    return json.dumps({"domains": table, "overslept": dict(late)}, indent=2)


def run(args: argparse.Namespace) -> int:
    """Play each tree, compare, print; return the exit code."""
    with tempfile.TemporaryDirectory(dir=TOP / "build", prefix="accounts-") as folder:
        output = args.output or Path(folder)
        return measure_costs(args, output) if args.costs else compare(args, output)


def measure_costs(args: argparse.Namespace, output: Path) -> int:
    """Measure what the account costs, print; return the exit code."""
    found = [each for cpus in costs.CPUS for each in costs.measure(cpus, output)]
    lines = [json.dumps([asdict(each) for each in found])] if args.json else costs.rows(found)
    print("\n".join(lines))
    return 0


def compare(args: argparse.Namespace, output: Path) -> int:
    """Play each tree, compare, print; return the exit code."""
    found: list[Compared] = []
    late = {}
    for tree in args.trees.split(","):
        more, late[tree] = play(tree, args, output / tree)
        found += more
        if not args.json:
            print("\n".join(rows(more)[bool(late) and len(late) > 1 :]), flush=True)
    if args.json:
        print(told(found, late))
    else:
        shown = ", ".join(f"{tree} {100 * share:.3f} %" for tree, share in late.items())
        print(f"overslept: {shown} of the idle time")
    is_late = max(late.values()) > OVERSLEPT_SHARE
    return 0 if found and all(one.is_same for one in found) and not is_late else FAILURE


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    proofs.shared(parser, kernel="6.12", cpus=0, seed=42, output=None, json=False)
    parser.add_argument("--costs", action="store_true",
                        help="measure instructions of the machine's account instead")  # fmt: skip
    parser.add_argument("--governor", default="menu_ng", help="default: %(default)s")
    parser.add_argument("--duration", type=int, default=2, metavar="S",
                        help="seconds of a phase (default: 2)")  # fmt: skip
    parser.add_argument("--trees", default=",".join(PLAYED), metavar="NAME[,NAME]",
                        help="default: %(default)s")  # fmt: skip
    parser.add_argument("--workloads", default=",".join(WORKLOADS), metavar="NAME[,NAME]",
                        help="default: %(default)s")  # fmt: skip
