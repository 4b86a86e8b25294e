# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab experiment domains`."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

from cpuidle_lab.base.cache import digest
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.domains import account, joint, replayed
from cpuidle_lab.evidence.plots import Line, Plot
from cpuidle_lab.evidence.tables import Cell, Section, Table
from cpuidle_lab.recording import state_tables, synth
from cpuidle_lab.replay.candidates import MAINLINE, candidate
from cpuidle_lab.states import costs, domain_files, domains
from experiments.domains import machines
from experiments.domains.machines import ARRANGEMENTS, HZ, LAWS, MIXED, TREES
from experiments.experiment import ORIGINAL, QUICK, Findings, Job, Request, Row, run_jobs
from experiments.memo import Memo, sources

# Intervals of each CPU.
COUNTS = {QUICK: 500, ORIGINAL: 20_000}
COUNT = 1500

GOVERNORS = (*MAINLINE, "wteo", "bayes")

_CODE = (machines, replayed, joint, account, costs, domains, domain_files)

Figures = dict[str, list[float]]


def cells() -> list[tuple[str, str]]:
    """Return law and arrangement of each machine; CPUs of unlike laws have one arrangement."""
    return [(MIXED, "independent"), *((law, how) for law in LAWS for how in ARRANGEMENTS)]


def play(tree: str, law: str, arrangement: str, count: int, seed: int) -> Figures:
    """Return regret, own part and neighbours' part of each governor, %.

    Raises:
        UserError: a figure contradicts itself.
    """
    with TemporaryDirectory(prefix="cpuidle-lab-") as folder:
        path = Path(folder) / "recording"
        machines.write(tree, law, arrangement, count, seed, path)
        found = replayed.replay(path, tree, [candidate(name) for name in GOVERNORS])
    told = {row.label: found.regret(row) for row in found.rows}
    # A machine on which the joint oracle is a bound, or a rule is broken, gives no figure.
    if not found.joint.is_exact or found.broken:
        return {}
    return {label: list(regret) for label, regret in told.items() if regret}


def _key(*parts: object) -> str:
    code = [Path(str(module.__file__)).read_bytes() for module in _CODE] + [synth.code()]
    trees = [path.read_bytes() for path in sorted(domain_files.TREES.glob("*.yaml"))]
    return digest(["domains", *map(repr, parts), *map(sources, GOVERNORS), *code, *trees])


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
    in_lab = False

    def refusals(self, _: Request) -> list[str]:
        """Return nothing: the trees and tables come along."""
        return []

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
            rooms = [
                mean(_of(found, tree, replayed.OWN, 2, seed=seed) or [0.0])
                for seed in range(1, request.seeds + 1)
            ]
            result.rows.append(Row(f"{tree}: lost by not knowing the neighbours", ours=rooms,
                                   unit="%"))  # fmt: skip
        result.sections = [_rooms(found), _governors(found)]
        if left := len(jobs) - len(found):
            result.sections[0].tables[0] = _noted(result.sections[0].tables[0], left, len(jobs))
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


def _governors(found: Found) -> Section:
    rows: list[list[Cell]] = []
    for tree in TREES:
        for name in GOVERNORS:
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
The machines have four CPUs and synthetic intervals. Their ends are as drawn: the exit latency of a
domain delays nothing, and CPUs do not wake each other. MT8196 is left out, since its idle states
are known from a dump alone. Powers are modelled, as each tree says. No governor here knows its
neighbours: the page measures the room, and a bound of the gain."""
_MEANING = """\
**Where there is room.** A domain that the hardware enters although the stay is too short makes the
choices of CPUs depend on each other. There the joint oracle keeps a CPU shallow while a neighbour
would end the sleep too soon. The room is largest where four CPUs wake up independently of each
other after about a millisecond, which is when such a sleep begins to pay. Hardware that demotes
(`client`) leaves no room, a POWER9 core hardly any, and CPUs that wake up together none: the
interval of each is the domain's.

**It is a bound.** The oracle of each CPU knows the future. A governor that knows its neighbours but
not the future saves less. None is here yet, so the page does not say how much less.

**Own errors are the larger part.** A CPU that is too shallow keeps a whole package awake. Of the
governors that a kernel can run, wteo comes closest to the joint oracle; menu and TEO lose two to
six times as much. Where the hardware enters each sleep wteo is below bayes. Its default counts
entering and leaving a state twice. So it avoids states that hardly pay, and with them the sleeps of
a package that do not pay."""

EXPERIMENT = Domains()
