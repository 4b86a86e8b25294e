# SPDX-License-Identifier: GPL-2.0
"""Plays a case: each of its governors on each of its streams, with several seeds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cpuidle_lab.base.cache import CACHE, TOP, digest
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.plots import Line, Plot
from cpuidle_lab.evidence.tables import Section, Table
from cpuidle_lab.recording import columns
from cpuidle_lab.recording.columns import Columns
from cpuidle_lab.recording.laws import US
from cpuidle_lab.recording.trace import TIME_MAX
from cpuidle_lab.replay import law
from cpuidle_lab.replay.candidates import Candidate, candidate
from cpuidle_lab.replay.engine import Run, check_table
from cpuidle_lab.states.table import StateTable
from experiments import experiment
from experiments.boots import sources as sources_of_boots
from experiments.cases import figures, lab
from experiments.cases.figures import Played, played
from experiments.cases.schema import CaseIntervals, Cell, Description, Figure, read
from experiments.experiment import NOT_BOOTED, Findings, Request, Row
from experiments.memo import Memo, sources

FOLDER = Path(__file__).parent

# Of what is kept: another number where a figure changes its meaning.
_FORMAT = 1

# The choice of governors.
GOVERNORS = "governors"

# Behind the label of a cell that was booted.
IN_LAB = ", in the lab"

# Figures of a cell for each seed, or the reason that there are none.
Found = list[Played] | str


def _longest(stream: Columns) -> int:
    return int(stream["length_ns"].max())


def slack_of(machine: StateTable, longest_ns: int) -> int:
    """Return the greatest exit latency of the states that can be worth their while."""
    reachable = [
        latency
        for latency, target in zip(
            machine.exit_latency_ns, machine.target_residency_ns, strict=True
        )
        if target <= longest_ns
    ]
    return max(reachable, default=0)


def stream_of(case: Description, cell: Cell, seed: int) -> Columns:
    """Return the intervals that a cell plays."""
    stream = case.streams[cell.stream]
    limit = TIME_MAX if cell.latency_req_us is None else round(cell.latency_req_us * US)
    made = partial(
        law.intervals,
        stream.phases,
        stream.repeat,
        f"{case.name} {cell.stream}",
        seed,
        tick_stopped=stream.tick_stopped,
        latency_req_ns=limit,
        disabled=case.disabled,
    )
    return made(slack_ns=slack_of(case.machine, _longest(made(slack_ns=0))))


def play(case: Description, stream: CaseIntervals, who: Candidate, part: Columns) -> Played:
    """Replay a governor on intervals of a case."""
    machine = case.machine
    count = len(part["flags"])
    with Run(who.governor, machine, dict(who.settings)) as run:
        if case.rejected:
            run.drive(0, case.rejected, 1)
        run.play(columns.sliced(part, 0, stream.skip), choices=False)
        run.forget_totals()
        counted = columns.sliced(part, stream.skip, count)
        choices = run.play(counted, choices=True)
        stopped = int(choices["stop_tick"].astype(bool).sum())
        return played(run.totals(), machine.count, counted, stopped)


def kernel_is_there(kernel: str) -> bool:
    """Return whether a packaged kernel's governors need no download."""
    return "/" in kernel or (CACHE / "linux-source" / kernel / "stamp.json").is_file()


@dataclass(frozen=True)
class Case:
    """An experiment of a YAML file.

    Attributes:
        path: the file.
    """

    path: Path
    choices: ClassVar = {
        GOVERNORS: "these in place of the case's, on each of its streams: teo@7.3,wteo"
    }

    @cached_property
    def described(self) -> Description:
        """Contents of the file, checked."""
        return read(self.path)

    @property
    def in_lab(self) -> bool:
        """At least one cell is booted, too."""
        case = self.described
        return any(isinstance(lab.place_of(case, cell), lab.Place) for cell in case.cells)

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.stem

    @property
    def title(self) -> str:
        """Heading of the page."""
        return self.described.title

    @property
    def claim(self) -> str:
        """Claim of the original."""
        return self.described.claim

    @property
    def source(self) -> str:
        """Source of the claim."""
        return self.described.source

    @property
    def question(self) -> str:
        """Subject of the measurement."""
        return self.described.question

    def refusals(self, _: Request) -> list[str]:
        """Return nothing: replay runs everywhere, and the guest has the programs."""
        return []

    def measure(self, request: Request, memo: Memo, meter: Meter) -> Findings:
        """Play all cells, and say how the figures compare."""
        case = self.described
        if GOVERNORS in request.chosen:
            case = with_governors(case, experiment.listed(request.chosen[GOVERNORS]))
        for cell in case.cells:
            check_table(case.name, case.at(cell).machine)
        chosen = [_resolved(cell, request.trees) for cell in case.cells]
        replayed = play_cells(case, chosen, request.seeds, memo, meter)
        # A governor that replay cannot have, the lab cannot have either.
        without = [n for n, found in enumerate(replayed) if isinstance(found, str)]
        booted = lab.measure(replace(case, cells=tuple(chosen)), without, request, memo, meter)
        # Replayed figures stand above booted ones, cell by cell.
        both = [
            [(cell, "", found)] + ([(cell, IN_LAB, booted[n] or NOT_BOOTED)] if n in booted else [])
            for n, (cell, found) in enumerate(zip(case.cells, replayed, strict=True))
        ]
        shown = [one for each in both for one in each]
        rows = [_row(case.at(cell), cell, found, where) for cell, where, found in shown]
        result = Findings(
            rows=rows,
            sections=[_section(case, rows, shown)],
            same=case.same,
            differs=case.differs,
            meaning=case.meaning,
        )
        result.sources = hashes(self.path, [cell.governor for cell in chosen])
        if booted:
            result.sources |= sources_of_boots([*lab.CODE, TOP / lab.PLAYER.source])
        return result


def with_governors(case: Description, governors: Sequence[str]) -> Description:
    """Return a case with other governors on each of its streams, requests and machines.

    Args:
        case: whose reports and expectations do not hold then, and are dropped.
        governors: as on the command line.
    """
    places = {
        repr((cell.stream, cell.latency_req_us, cell.machine)): cell for cell in case.cells
    }.values()
    cells = []
    for place in places:
        # Behind the governor a label tells the machine.
        own = place.label.startswith(place.governor)
        which = place.label.removeprefix(place.governor) if own else ""
        if place.latency_req_us is not None:
            which = f", request {place.latency_req_us:g} us"
        cells += [
            replace(place, governor=name, label=f"{name}{which}", reported="", agrees=None,
                    expect=None)
            for name in governors
        ]  # fmt: skip
    return replace(case, cells=tuple(cells))


def _resolved(cell: Cell, trees: Mapping[str, Path]) -> Cell:
    """Return the cell with the path of a tree in place of its label."""
    head, colon, tunables = cell.governor.partition(":")
    name, at, kernel = head.partition("@")
    if at and kernel in trees:
        return replace(cell, governor=f"{name}@{trees[kernel].resolve()}{colon}{tunables}")
    return cell


def play_cells(
    case: Description, cells: Sequence[Cell], seeds: int, memo: Memo, meter: Meter
) -> list[Found]:
    """Return for each cell what its seeds came to, or why there is nothing."""
    found: list[Found] = []
    plan: list[experiment.Job] = []
    for cell in cells:
        try:
            who = candidate(cell.governor)
        except UserError as error:
            if "@" not in cell.governor:
                raise
            found.append(_why_not(cell, error))
            continue
        plan += [_planned(case.at(cell), cell, who, seed) for seed in range(1, seeds + 1)]
        found.append([])
    figured = iter(experiment.run_jobs(plan, memo, meter, f"Replaying {case.name}"))
    return [
        one if isinstance(one, str) else [Played(**next(figured)) for _ in range(seeds)]
        for one in found
    ]


def _why_not(cell: Cell, error: UserError) -> str:
    kernel = cell.governor.partition(":")[0].partition("@")[2]
    if "/" in kernel or re.fullmatch(r"\d+\.\d+", kernel):
        return error.message
    return f"needs --tree {kernel}=PATH"


def _planned(case: Description, cell: Cell, who: Candidate, seed: int) -> experiment.Job:
    stream = case.streams[cell.stream]
    spec = who.governor.spec
    parts = [repr(one) for one in (case.machine, case.disabled, case.rejected, stream, seed)]
    parts += [repr((case.name, cell.stream, cell.latency_req_us)), repr(who.settings)]
    parts += [str(_FORMAT), *code(), spec, sources(spec)]
    return experiment.Job(digest(parts), partial(_played, case, cell, who, seed))


def _played(case: Description, cell: Cell, who: Candidate, seed: int) -> dict[str, Any]:
    part = stream_of(case, cell, seed)
    return asdict(play(case, case.streams[cell.stream], who, part))


def code() -> list[str]:
    """Return the text of what makes and plays the intervals."""
    made = Path(law.__file__).read_text()
    return [made, *((FOLDER / name).read_text() for name in ("case.py", "figures.py"))]


def hashes(path: Path, governors: Sequence[str]) -> dict[str, str]:
    """Return hashes of what made the figures, by name."""
    found = {path.name: digest([path.read_bytes(), *code()])}
    for governor in dict.fromkeys(one.partition(":")[0] for one in governors):
        try:
            name = governor if "/" not in governor else f"{governor.partition('@')[0]}@tree"
            found[name] = sources(governor)
        except UserError:
            continue
    return found


def _label(case: Description, cell: Cell) -> str:
    label = cell.label or cell.governor
    return f"{label}, {cell.stream}" if len(case.streams) > 1 else label


def _row(case: Description, cell: Cell, found: Found, where: str) -> Row:
    kind = figures.kind_of(case.figure)
    seeds = [] if isinstance(found, str) else found
    return Row(
        what=_label(case, cell) + where,
        reported=cell.reported,
        ours=[figures.value(case.figure, one, case.machine) for one in seeds],
        unit=kind.unit,
        agrees=cell.agrees,
        note=found if isinstance(found, str) else "",
    )


def _plot(case: Description, rows: Sequence[Row]) -> Plot:
    kind = figures.kind_of(case.figure)
    names = [row.what for row in rows]
    ours = [(value, n) for n, row in enumerate(rows) for value in row.ours]
    reported = [(value, n) for n, row in enumerate(rows) if row.agrees for value in row.agrees]
    lines = [Line("ours", [(x, float(y)) for x, y in ours], joined=False)]
    if reported:
        points = [(x, float(y)) for x, y in reported]
        lines.append(Line("agrees from, to", points, joined=False))
    x = f"{figures.title(case.figure)}, {kind.unit}"
    return Plot("figure", case.title, x, "", lines, categories=names)


def _section(
    case: Description, rows: Sequence[Row], shown: Sequence[tuple[Cell, str, Found]]
) -> Section:
    section = Section("figures", "Figures")
    section.plots.append(_plot(case, rows))
    if case.also:
        heads = ["", *(f"{figures.title(one)}, {figures.kind_of(one).unit}" for one in case.also)]
        cells = [
            [row.what, *(_middle(case.at(cell), one, found, where) for one in case.also)]
            for row, (cell, where, found) in zip(rows, shown, strict=True)
        ]
        section.tables.append(Table("Further figures, medians of the seeds", heads, cells, 2))
    booted = {cell.label or cell.governor for cell, where, _ in shown if where}
    if out := [one for one in lab.left_out(case) if one[0] not in booted]:
        section.tables.append(Table("Not in the lab", ("governor", "why"), out))
    return section


def _middle(case: Description, figure: Figure, found: Found, where: str) -> float | None:
    if isinstance(found, str) or (where and figure.kind in figures.NOT_RECORDED):
        return None
    return float(np.median([figures.value(figure, one, case.machine) for one in found]))


def cases() -> list[Case]:
    """Return the cases that there are."""
    return [Case(path) for path in sorted(FOLDER.glob("*.yaml"))]
