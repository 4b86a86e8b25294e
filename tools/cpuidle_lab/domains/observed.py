# SPDX-License-Identifier: GPL-2.0
"""Domains in a recording: how they could have slept, were allowed to, and who kept them awake."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import polars as pl

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.domains import tasks
from cpuidle_lab.domains.account import FAR, Account, Stays, account
from cpuidle_lab.domains.blame import UNKNOWN_CAUSE, Reasons, Share, blame, broken
from cpuidle_lab.domains.tasks import Runs
from cpuidle_lab.figures import wakers
from cpuidle_lab.figures.analysis import phases
from cpuidle_lab.figures.frames import Frames, frames_of_trace
from cpuidle_lab.figures.intervals import table_of
from cpuidle_lab.host.sysfs import cpu_list
from cpuidle_lab.recording import domain_trees
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.trace import Trace
from cpuidle_lab.states.domains import KERNEL, Domain, grow
from cpuidle_lab.states.table import CpuTable, StateTable

# Share of a recording that a CPU may cut off at either end without a note.
_CUT_SHARE = 0.05


@dataclass(frozen=True)
class Slept:
    """The sleep of one domain in one phase.

    Attributes:
        account: its stretches.
        shares: who kept it from its deepest level, the dearest first.
        broken: rules that these break; then no figure is shown.
    """

    account: Account
    shares: list[Share]
    broken: list[str]

    @property
    def span_ns(self) -> int:
        """Wall time."""
        return int(self.account.edges_ns[-1] - self.account.edges_ns[0])

    @property
    def could_ns(self) -> int:
        """Time in which all members were idle."""
        return int(self.account.length_ns[self.account.idle].sum())

    @property
    def allowed_ns(self) -> int:
        """Time in which all were deep enough for one of its states."""
        return int(self.account.length_ns[self.account.vote > 0].sum())

    @property
    def paid_ns(self) -> int:
        """Time in which they were so for long enough to pay."""
        return int(self.account.length_ns[self.account.pays].sum())


@dataclass(frozen=True)
class Part:
    """A phase of a recording, or all of it.

    Attributes:
        governor, workload: of the phase; "" where nothing tells.
        first_ns, last_ns: its span, in which all CPUs are known.
        domains: by name.
    """

    governor: str
    workload: str
    first_ns: int
    last_ns: int
    domains: dict[str, Slept]


@dataclass
class Observed:
    """Domains in a recording.

    Attributes:
        path: the recording.
        tree: its domains, each after those within it.
        parts: its phases.
        missing: CPUs of the domains of which the recording tells nothing.
        notes: what a reader must know.
    """

    path: Path
    tree: list[Domain]
    parts: list[Part]
    missing: list[int]
    notes: list[str] = field(default_factory=list)

    @property
    def broken(self) -> bool:
        """A figure contradicts a rule."""
        return any(slept.broken for part in self.parts for slept in part.domains.values())


class OfTree(Protocol):
    """Figures of a tree on one recording."""

    @property
    def path(self) -> Path:
        """The recording."""

    @property
    def tree(self) -> list[Domain]:
        """Its domains."""

    @property
    def notes(self) -> list[str]:
        """Notes, which may be added to."""


def tell_unlike(found: Sequence[OfTree]) -> None:
    """Add a note to figures of each recording on whose machine a tree has other domains.

    Args:
        found: figures of one tree; the first is what the others are held against.
    """
    trees = [
        {domain.name: (domain.cpus, domain.needs, domain.rule) for domain in each.tree}
        for each in found
    ]
    for each, mine in zip(found[1:], trees[1:], strict=True):
        names = [name for name in {**trees[0], **mine} if trees[0].get(name) != mine.get(name)]
        if names:
            each.notes.insert(
                0,
                f"{', '.join(names)}: CPUs or idle states are not those of {found[0].path}, so "
                "figures of domains cannot be compared with its",
            )


def tree_of(spec: str, tables: Mapping[int, StateTable], cpus: int, path: Path) -> list[Domain]:
    """Return the domains of a machine.

    Args:
        spec: name of a tree, or a machine file.
        tables: idle states of the CPUs that are known.
        cpus: how many CPUs the machine has at least.
        path: the recording, for messages.

    Raises:
        UserError: they are no tree over these CPUs.
    """
    rules, lists = domain_trees.read(spec)
    numbers = range(max([cpus, *(cpu + 1 for cpu in tables)]))
    try:
        return grow(rules, list(numbers), tables, lists)
    except ValueError as error:
        raise UserError(f"{spec}: does not fit {path}: {error}") from None


def source_notes(tree: Sequence[Domain]) -> list[str]:
    """Return a sentence on the source of each domain's figures."""
    sources = {domain.rule.name: domain.rule.source for domain in tree}
    return [f"figures of {name}: {source}" for name, source in sources.items()]


def _labelled(trace: Trace, frames: Frames) -> pl.DataFrame:
    """Return stays with what ended each and who chose its state: cpu, start_ns, end_ns, …."""
    names = ["cpu", "seq", "governor", "reason", "ended_by_tick"]
    idle = frames.idle.join(
        frames.decisions.select(names), on=["cpu", "seq"], how="left", maintain_order="left"
    )
    idle = idle.with_columns(
        pl.col("start_ns", "end_ns").cast(pl.Int64),
        following=pl.col("start_ns").shift(-1).over("cpu").cast(pl.Int64),
    ).with_columns(end_ns=pl.min_horizontal("end_ns", "following"))
    named = wakers.events(trace).select("cpu", "waker", at=pl.col("ts").cast(pl.Int64))
    named = named.join(tasks.senders(trace.path), on=["cpu", "at"], how="left").with_columns(
        waker=pl.coalesce("sender", "waker")
    )
    idle = idle.sort("start_ns").join_asof(
        named.sort("at"), left_on="start_ns", right_on="at", by="cpu", strategy="forward",
        check_sortedness=False,
    )  # fmt: skip
    before = pl.col("following").is_null() | (pl.col("at") <= pl.col("following"))
    tick = pl.when(pl.col("ended_by_tick").fill_null(False)).then(pl.lit("tick"))
    told = pl.col("reason").is_not_null() & (pl.col("reason") != "not recorded")
    by = (
        pl.when(pl.col("governor").is_not_null())
        .then(pl.format(" chosen by {}", "governor"))
        .otherwise(pl.lit(""))
    )
    reason = pl.when(told).then(pl.format(" ({})", "reason")).otherwise(pl.lit(""))
    return idle.with_columns(
        woken=pl.coalesce(pl.when(before).then("waker"), tick, pl.lit(UNKNOWN_CAUSE)),
        chosen=pl.concat_str("state", by, reason),
    ).sort("cpu", "start_ns")


def _stays(rows: pl.DataFrame) -> Stays:
    start = rows["start_ns"].to_numpy()
    return Stays(
        start, rows["end_ns"].to_numpy(), rows["index"].to_numpy().astype(np.int64),
        np.full(len(start), FAR),
    )  # fmt: skip


def _ends(frames: Frames) -> pl.DataFrame:
    """Return where the first idle period of each CPU begins, and where the last one ends."""
    return frames.idle.group_by("cpu").agg(pl.col("start_ns").min(), pl.col("end_ns").max())


def _late(frames: Frames) -> str:
    """Return a sentence if a CPU that is idle late, or no more, cuts off much of the recording."""
    ends = _ends(frames).sort("cpu")
    begin, end = int(str(ends["start_ns"].min())), int(str(ends["end_ns"].max()))
    first, last = int(str(ends["start_ns"].max())), int(str(ends["end_ns"].min()))
    least = (end - begin) * _CUT_SHARE
    cut = (pl.col("start_ns") > begin + least) | (pl.col("end_ns") < end - least)
    cpus = ends.filter(cut)["cpu"].to_list()
    if not cpus:
        return ""
    return (
        f"the figures are of {max(0, last - first) / 1e9:.3f} of {(end - begin) / 1e9:.3f} s: CPU "
        f"{cpu_list(cpus)} was idle later, or no more, as a CPU that is offline or always busy"
    )


def _spans(trace: Trace, frames: Frames) -> list[tuple[str, str, int, int]]:
    """Return governor, workload, first and last ns of each phase, where all CPUs are known."""
    ends = _ends(frames)
    first, last = int(str(ends["start_ns"].max())), int(str(ends["end_ns"].min()))
    told = [
        (phase.governor or "", phase.workload, phase.start_ns, phase.end_ns)
        for phase in phases(trace)
    ]
    governors = frames.decisions["governor"].unique().to_list()
    one = str(governors[0]) if len(governors) == 1 else ""
    cut = [
        (governor, workload, max(first, begin), min(last, end))
        for governor, workload, begin, end in told or [(one, "", first, last)]
    ]
    return [each for each in cut if each[3] > each[2]]


def _part(
    tree: Sequence[Domain],
    stays: Mapping[int, pl.DataFrame],
    runs: Mapping[int, Runs],
    span: tuple[str, str, int, int],
) -> Part:
    governor, workload, first, last = span
    rows = {
        cpu: each.filter((pl.col("end_ns") > first) & (pl.col("start_ns") < last))
        for cpu, each in stays.items()
    }
    mine = {cpu: _stays(each).within(first, last) for cpu, each in rows.items()}
    reasons = {
        cpu: Reasons(each["woken"].to_list(), each["chosen"].to_list(), *runs.get(cpu, ()))
        for cpu, each in rows.items()
    }
    accounts: dict[str, Account] = {}
    found = {}
    for domain in tree:
        one = accounts[domain.name] = account(domain, mine, accounts, first, last)
        if one.cpus:
            shares = blame(one, mine, reasons)
            found[domain.name] = Slept(one, shares, broken(one, shares))
    return Part(governor, workload, first, last, found)


def _notes(trace: Trace, found: Observed, lost: int) -> list[str]:
    said = [*trace.omissions]
    if found.missing:
        # A sleep that does not pay costs more than staying up.
        pays = all(domain.rule.demotes for domain in found.tree)
        energy = ", the energy is a lower bound" if pays else ""
        said.append(
            f"the recording tells nothing of CPU {cpu_list(found.missing)}, which count as asleep: "
            f"the times that their domains sleep are upper bounds{energy}"
        )
    if lost:
        said.append(f"{lost} phases are left out, since events were dropped in them")
    kernels = {domain.name for domain in found.tree if domain.rule.decides == KERNEL}
    if kernels:
        said.append(
            "the timers that the kernel's last man saw are not known: he is taken to see none in "
            f"{', '.join(sorted(kernels))}"
        )
    return [*said, *source_notes(found.tree)]


def observe(path: Path, spec: str, given: Sequence[CpuTable] = ()) -> Observed:
    """Return the domains in a trace.dat.

    Args:
        path: of the recording.
        spec: name of a tree, or a machine file.
        given: idle states of a recording without the module, in place of its own.

    Raises:
        UserError: it cannot be read, tells no idle states, or the tree does not fit.
    """
    trace = tr.load(path, context=tr.context_with(path, given) if given else None)
    frames = frames_of_trace(trace)
    cpus = frames.idle["cpu"].unique().to_list()
    tables = {cpu: table for cpu in cpus if (table := table_of(trace, cpu))}
    if unknown := sorted(set(cpus) - set(tables)):
        raise UserError(
            f"{path}: does not tell the idle states of CPU {cpu_list(unknown)}; give them with "
            "--machine"
        )
    tree = tree_of(spec, tables, trace.cpus, path)
    stays = _labelled(trace, frames).partition_by("cpu", as_dict=True)
    by_cpu = {int(str(cpu)): rows for (cpu,), rows in stays.items()}
    lost = trace.tables["lost"]["ts"].to_list() if trace.tables["lost"].height else []
    spans = _spans(trace, frames)
    whole = [each for each in spans if not any(each[2] <= ts <= each[3] for ts in lost)]
    if not whole:
        why = "events were dropped" if spans else "its CPUs are not idle in a common span of time"
        raise UserError(f"{path}: no phase has an account of its domains, since {why}")
    missing = sorted({cpu for domain in tree for cpu in domain.cpus} - set(tables))
    runs = tasks.runs(path)
    parts = [_part(tree, by_cpu, runs, span) for span in whole]
    found = Observed(path, tree, parts, missing)
    found.notes = [*filter(None, [_late(frames)]), *_notes(trace, found, len(spans) - len(whole))]
    return found
