# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab experiment domains`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from cpuidle_lab.base.cache import digest
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.domains import account, joint, replayed
from cpuidle_lab.evidence.plots import Line, Plot
from cpuidle_lab.evidence.tables import Cell, Section, Table
from cpuidle_lab.recording import state_tables, synth
from cpuidle_lab.replay.candidates import MAINLINE, candidate
from cpuidle_lab.states import costs, domain_files, domains
from experiments import boots
from experiments.domains import bound, machines, neighbours, programs
from experiments.domains.machines import ARRANGEMENTS, HZ, LAWS, MIXED, TREES
from experiments.experiment import (
    NOT_BOOTED,
    ORIGINAL,
    QUICK,
    Findings,
    Job,
    Request,
    Row,
    run_jobs,
)
from experiments.memo import Memo, sources

# Bounds on causal policies: whether the neighbours are foreseen, or known on the mean.
BOUNDS = {"bound, neighbours on the mean": False, "bound, neighbours foreseen": True}
INDEPENDENT = "independent"

# Intervals of each CPU.
COUNTS = {QUICK: 500, ORIGINAL: 20_000}
COUNT = 1500

GOVERNORS = (*MAINLINE, "wteo", "bayes")

# Governor whose choices a policy changes; the policy; mainline's governor of domains beside it.
BASE = "wteo"
KNOWING, LAST_MAN = "wteo, neighbours known", "wteo, cpu_power_down_ok"
# Energy that the policy has to save on two trees, and may cost on no machine, %.
_PAYS, _HARM = 5.0, 2.0

_CODE = (
    bound, machines, neighbours, programs, replayed, joint, account, costs, domains, domain_files,
)  # fmt: skip

Figures = dict[str, list[float]]


def cells() -> list[tuple[str, str]]:
    """Return law and arrangement of each machine; CPUs of unlike laws have one arrangement."""
    return [(MIXED, "independent"), *((law, how) for law in LAWS for how in ARRANGEMENTS)]


def play(tree: str, law: str, arrangement: str, count: int, seed: int) -> Figures:
    """Return regret, own part and neighbours' part of each governor, %, and of the bounds.

    Raises:
        UserError: a figure contradicts itself.
    """
    with TemporaryDirectory(prefix="cpuidle-lab-") as folder:
        path = Path(folder) / "recording"
        machines.write(tree, law, arrangement, count, seed, path)
        found = replayed.replay(path, tree, [candidate(name) for name in GOVERNORS])
    figures = _told(found)
    if figures and arrangement == INDEPENDENT:
        frames = machines.frames(state_tables.find(TREES[tree], HZ), law, arrangement, count, seed)
        figures |= _bounds(found, dict(enumerate(frames)))
    return figures


def play_recording(path: Path, tree: str) -> Figures:
    """Return what play() does of a recording, but no bounds.

    Raises:
        UserError: it cannot be replayed, or a figure contradicts itself.
    """
    return _told(replayed.replay(path, tree, [candidate(name) for name in GOVERNORS]))


def _told(found: replayed.Replayed) -> Figures:
    """Return the figures of all rows; none where the joint oracle is a bound, or a rule broken."""
    if not found.joint.is_exact or found.broken:
        return {}
    rows = [*found.rows, *_beside(found)]
    told = {row.label: found.regret(row) for row in rows}
    return {label: list(regret) for label, regret in told.items() if regret}


def _bounds(found: replayed.Replayed, frames: Mapping[int, pl.DataFrame]) -> Figures:
    """Return the regret of the bounds on causal policies, %; the joint oracle bounds, too."""
    timers = {}
    for cpu, each in found.intervals.items():
        place = np.searchsorted(frames[cpu]["start_ns"].to_numpy(), each.start_ns)
        timers[cpu] = frames[cpu]["timer_ns"].to_numpy()[place]
    up_pj = bound.up_pj(found.tree, found.intervals)
    told = {}
    for label, foreseen in BOUNDS.items():
        least_pj = up_pj + bound.least_pj(
            found.tree, found.source.state_tables, found.intervals, timers, foreseen
        )
        told[label] = [max(0.0, 100 * (least_pj / found.joint.cost_pj - 1)), 0.0, 0.0]
    return told


def _beside(found: replayed.Replayed) -> list[replayed.Row]:
    """Return rows of wteo with a policy that knows its neighbours, and with mainline's last man."""
    own = next(row for row in found.rows if row.label == BASE)
    tables = found.source.state_tables
    stays = neighbours.knowing(found.tree, tables, own.stays, found.intervals)
    cost = own.cpus_pj + neighbours.dearer_pj(tables, own.stays, stays)
    last_man = [replace(one, rule=replace(one.rule, decides=domains.KERNEL)) for one in found.tree]
    return [
        replayed.row_of(KNOWING, found.tree, stays, cost),
        replayed.row_of(LAST_MAN, last_man, own.stays, own.cpus_pj),
    ]


def _files() -> list[Path]:
    """Return what figures depend on, beside governors and streams."""
    code = [Path(str(module.__file__)) for module in _CODE]
    return [*code, machines.MT8196, *sorted(domain_files.TREES.glob("*.yaml"))]


def _key(*parts: object) -> str:
    code = [path.read_bytes() for path in _files()]
    return digest(["domains", *map(repr, parts), *map(sources, GOVERNORS), *code, synth.code()])


class Domains:
    """The room for a governor that knows its neighbours, on the trees that come along."""

    name = "domains"
    title = "A governor that knows its neighbours"
    claim = "A limit of governors is that they look at one CPU alone."
    source = "Reviewers of linux-pm, of governors for machines with packages and clusters"
    question = (
        "The joint oracle chooses for all CPUs together. How much less energy does it need than an "
        "oracle of each CPU, which knows its own intervals alone? That is the most that knowing "
        "the neighbours can save a governor that predicts its own CPU well. And how much of a "
        "governor's loss is its own error?"
    )
    in_lab = True

    def refusals(self, request: Request) -> list[str]:
        """Return why the lab cannot be booted; the trees and tables come along."""
        return boots.refusals(request)

    def measure(self, request: Request, memo: Memo, meter: Meter) -> Findings:
        """Replay the governors on each machine."""
        count = COUNTS.get(request.scale, COUNT)
        jobs = [
            (tree, law, how, count, seed)
            for tree in TREES
            for law, how in cells()
            for seed in range(1, request.seeds + 1)
        ]
        plan = [
            Job(_key(*job, state_tables.find(TREES[job[0]], HZ)), partial(play, *job))
            for job in jobs
        ]
        told = run_jobs(plan, memo, meter, "Replaying machines of four CPUs")
        found = {job: figures for job, figures in zip(jobs, told, strict=True) if figures}
        result = Findings(same=_SAME, differs=_DIFFERS, meaning=_MEANING)
        result.sources = {name: sources(name) for name in GOVERNORS}
        for tree in TREES:
            each = [
                _of(found, tree, replayed.OWN, 2, seed=seed) for seed in range(1, request.seeds + 1)
            ]
            rooms = [mean(one) for one in each if one]
            result.rows.append(Row(f"{tree}: lost by not knowing the neighbours", ours=rooms,
                                   unit="%"))  # fmt: skip
            each = [
                _changes(found, tree, KNOWING, seed=seed) for seed in range(1, request.seeds + 1)
            ]
            saved = [-mean(one) for one in each if one]
            result.rows.append(Row(f"{tree}: saved by knowing them", ours=saved, unit="%"))
        result.sections = [_rooms(found), _bound(found), _policies(found), _governors(found)]
        if left := len(jobs) - len(found):
            result.sections[0].tables[0] = _noted(result.sections[0].tables[0], left, len(jobs))
        governors = [sources(name) for name in GOVERNORS]
        recorded = programs.measure(request, play_recording, _files(), governors, memo, meter)
        result.sources |= boots.sources([Path(str(programs.__file__))])
        if recorded:
            result.sections.append(_programs(recorded))
        else:
            result.rows.append(Row("programs", note=NOT_BOOTED))
        return result


Found = dict[tuple[str, str, str, int, int], Figures]


def _of(
    found: Found, tree: str, label: str, part: int, law: str = "", how: str = "", seed: int = 0
) -> list[float]:
    """Return a part of a governor's regret (0: all, 1: own, 2: neighbours) on some machines, %.

    "" and 0 stand for each law, arrangement and seed.
    """
    return [
        figures[label][part]
        for (one, its_law, its_how, _, its_seed), figures in found.items()
        if one == tree and law in ("", its_law) and how in ("", its_how) and seed in (0, its_seed)
    ]


def _changes(found: Found, tree: str, label: str, law: str = "", seed: int = 0) -> list[float]:
    """Return the energy of the machine against BASE, %, as of _of()."""
    new, old = (_of(found, tree, one, 0, law, seed=seed) for one in (label, BASE))
    return [100 * ((100 + a) / (100 + b) - 1) for a, b in zip(new, old, strict=True)]


def _policies(found: Found) -> Section:
    rows: list[list[Cell]] = []
    for tree in TREES:
        for label in (KNOWING, LAST_MAN):
            by = {law: _mean(_changes(found, tree, label, law)) for law in (*LAWS, MIXED)}
            told = {law: float(value) for law, value in by.items() if value is not None}
            every = _changes(found, tree, label)
            best, worst = min(told, key=told.__getitem__), max(told, key=told.__getitem__)
            rows.append([tree, label, _mean(every), best, told[best], worst, told[worst],
                         min(every), max(every)])  # fmt: skip
    pays = [tree for tree in TREES if -mean(_changes(found, tree, KNOWING) or [0.0]) >= _PAYS]
    most = max(max(_changes(found, tree, KNOWING) or [0.0]) for tree in TREES)
    verdict = "stays out" if len(pays) < 2 or most > _HARM else "may go further"
    heads = ("tree", "policy", "mean", "best law", "of it", "worst law", "of it", "best machine",
             "worst machine")  # fmt: skip
    note = (
        f"Energy of the machine against wteo's, %, means over arrangements and seeds. A policy is "
        f"to save {_PAYS:g} % on two trees, and to cost more than {_HARM:g} % on no machine. "
        f"'{KNOWING}' does the first on {len(pays)} trees, and costs {most:.1f} % at most: it "
        f"{verdict}."
    )
    section = Section("policies", "Policies")
    section.tables.append(Table("Policies that know their neighbours, %", heads, rows, 2, note))
    return section


def _mean(values: Sequence[float]) -> Cell:
    return mean(values) if values else None


def _worst(values: Iterable[float]) -> Cell:
    return max(values, default=None)


def _noted(table: Table, left: int, every: int) -> Table:
    note = f"{table.note} {left} of {every} machines have no figure: the joint oracle is a bound."
    return Table(table.title, table.heads, table.rows, table.digits, note)


def _rooms(found: Found) -> Section:
    rows: list[list[Cell]] = []
    for tree in TREES:
        by = [_mean(_of(found, tree, replayed.OWN, 2, how=how)) for how in ARRANGEMENTS]
        rooms = {law: _of(found, tree, replayed.OWN, 2, law, "independent") for law in LAWS}
        worst = max(LAWS, key=lambda law: mean(rooms[law] or [0.0]))
        every = _of(found, tree, replayed.OWN, 2)
        rows.append([tree, *by, _mean(every), _worst(every), worst])
    heads = ("tree", *ARRANGEMENTS, "mean of all", "worst machine", "law with most room")
    note = (
        "Energy of the machine with the oracle of each CPU above that with the joint oracle, %, "
        "means over laws and seeds. The law is that of most room if the CPUs are independent."
    )
    section = Section("room", "The room")
    section.tables.append(Table("Lost by not knowing the neighbours, %", heads, rows, 2, note))
    section.plots.append(
        Plot("room", "Lost by not knowing the neighbours", "%", "",
             [Line(how, [(float(row[n + 1] or 0), float(k)) for k, row in enumerate(rows)],
                   joined=False) for n, how in enumerate(ARRANGEMENTS)], categories=tuple(TREES))
    )  # fmt: skip
    return section


def _bound(found: Found) -> Section:
    rows: list[list[Cell]] = []
    mean_label, foreseen = BOUNDS
    beyond = 0
    for tree in TREES:
        own, *bounds = (_of(found, tree, name, 0, how=INDEPENDENT)
                        for name in (BASE, mean_label, foreseen))  # fmt: skip
        gains = [100 * (1 - (100 + low) / (100 + high)) for low, high in zip(bounds[1], own,
                 strict=True)]  # fmt: skip
        beyond += sum(gain < 0 for gain in gains)
        rows.append([tree, _mean(own), *map(_mean, bounds), _mean(gains), _worst(gains)])
    heads = ("tree", BASE, *BOUNDS, "gain of wteo at most", "on one machine")
    note = (
        "Regret of the machine against the joint oracle, %, means over laws and seeds of CPUs that "
        "are independent; the gain is of the machine's energy, %. A bound has the past of the CPU "
        "itself by one context alone. wteo has more of it, and is below the bound on "
        f"{beyond} of {sum(len(_of(found, tree, BASE, 0, how=INDEPENDENT)) for tree in TREES)}."
    )
    section = Section("bound", "A bound on causal policies")
    section.tables.append(Table("Least energy by the past of each CPU, %", heads, rows, 1, note))
    return section


def _programs(found: Mapping[programs.Program, Figures]) -> Section:
    shown = (*MAINLINE, BASE, KNOWING)
    rows: list[list[Cell]] = [
        [*one, figures[replayed.OWN][2], *(figures[label][0] for label in shown)]
        for one, figures in found.items()
    ]
    heads = ("tree", "program", "lost by not knowing the neighbours", *shown)
    note = (
        f"Recorded once in the lab under {programs.RECORDER}, with {machines.CPUS} CPUs and the "
        "idle states of the tree. Regret of the machine against the joint oracle, %."
    )
    every = programs.plan()
    if left := len(every) - len(found):
        note += (
            f" {left} of {len(every)} programs have no figure: they were not measured with these "
            "sources, or the joint oracle is a bound there."
        )
    section = Section("programs", "Programs")
    section.tables.append(Table("Programs on four CPUs, %", heads, rows, 1, note))
    return section


def _governors(found: Found) -> Section:
    rows: list[list[Cell]] = []
    for tree in TREES:
        for name in (*GOVERNORS, KNOWING, LAST_MAN):
            whole, own = (_of(found, tree, name, part) for part in (0, 1))
            by = [_mean(_of(found, tree, name, 0, how=how)) for how in ARRANGEMENTS]
            rows.append([tree, name, _mean(whole), _mean(own), *by, _worst(whole)])
    heads = ("tree", "governor", "regret", "own", *ARRANGEMENTS, "worst machine")
    note = (
        "Regret of the machine against the joint oracle, %, means over laws and seeds. Own: beyond "
        "the oracle of each CPU; below 0 where shallow choices kept the hardware out of sleeps too "
        "short to pay. bayes knows the law, and makes the energy of its own CPU least."
    )
    section = Section("governors", "Governors")
    section.tables.append(Table("Regret of the machine, %", heads, rows, 1, note))
    return section


_SAME = "The limit is that of the reviewers: each governor sees its own CPU."
_DIFFERS = """\
The machines have four CPUs and synthetic intervals; the last table has programs. Their ends are as
drawn: the exit latency of a domain delays nothing, and CPUs do not wake each other. Of an MT8196
the four little cores are there, whose idle states a public report has. Powers are modelled, as each
tree says. The policy that knows its neighbours is tried in replay, over wteo's choices. Ends of
intervals, ticks and what wteo learns stay as they were. It is no governor, so instructions and
cache lines were not counted."""
_MEANING = """\
**Where there is room.** A domain that the hardware enters although the stay is too short makes the
choices of CPUs depend on each other. There the joint oracle keeps a CPU shallow while a neighbour
would end the sleep too soon. The room is largest where four CPUs wake up independently of each
other after about a millisecond, which is when such a sleep begins to pay. Hardware that demotes
(`client`) leaves no room, a POWER9 core hardly any, and CPUs that wake up together none: the
interval of each is the domain's.

**It is a bound, and a wide one.** The oracle of each CPU knows the future. The second table has a
bound on policies that do not (`experiments/domains/bound.py`). Each CPU has the chances of its
lengths, which hold its own intervals, so the bound is low rather than high. On `client` bayes
reaches 11.6, where the bound is 6.7. So no governor of this kind can save more than 6 to 12 % of
wteo's energy. Most of that is the CPU's own future. A CPU that foresees its neighbours has at most
1.7 points more than one that knows them on the mean. On mt8196 and power9-smt4 it has 0.1 at most.

**What was tried.** The policy (`experiments/domains/neighbours.py`) acts at the last CPU of a
domain that goes idle. It weighs idle states by the expected time to the domain's first wake-up,
known from past sleeps of the domain and the next timer of each neighbour.

**It is not worth its price.** The table of policies has its gain. On power9-smt4 it costs energy,
most where bursts come. wteo avoids sleeps that hardly pay by its own default already, so it leaves
little of the room. Two simpler forms harmed single
machines. One took the CPUs' chances as independent, which those that wake up in pairs are not. One
left out later sleeps that a shallow CPU bars, and lost where timers end all sleeps. So the policy
stays out: a governor would read lines of its neighbours on each entry, for that gain.

**Mainline's last man.** `cpu_power_down_ok` is of machines on which the kernel decides on the
domain. Its row is of the same trees, with that in place of the hardware's decision. It is no choice
on hardware that enters by itself.

**Own errors are the larger part.** A CPU that is too shallow keeps a whole package awake. Of the
governors that a kernel can run, wteo comes closest to the joint oracle; menu and TEO lose two to
nine times as much. Where the hardware enters each sleep wteo is below bayes. Its default counts
entering and leaving a state twice. So it avoids states that hardly pay, and with them the sleeps of
a package that do not pay."""

EXPERIMENT = Domains()
