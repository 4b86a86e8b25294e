# SPDX-License-Identifier: GPL-2.0
"""The parts that all experiments share: request, result, and the search for entry.py.

An experiment is a file `experiments/NAME/entry.py` that has EXPERIMENT, or a description
`experiments/cases/NAME.yaml`. Nothing else names them: the command, the pages and the tests find
what is there.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.base.suggestions import did_you_mean
from cpuidle_lab.evidence.tables import ABSENT, MISSED, Section
from experiments import proofs
from experiments.memo import Memo

HERE = Path(__file__).parent

AGREES, DIFFERS = "agrees", "DIFFERS"

# The original gives no figure that ours can be judged by.
UNJUDGED = "figures only"

# Ours is of something else than the original's; the page says of what.
UNLIKE = "not comparable"

# Scales of a measurement.
QUICK, USUAL, ORIGINAL = "quick", "usual", "original"

# Every run has so many seeds, unless the command says otherwise.
SEEDS: Mapping[str, int] = {QUICK: 1, USUAL: 5, ORIGINAL: 25}

# In the document of an experiment that writes its own.
COMMAND = "{{command}}"

# Of a row that needs the lab, where --lab was not given.
NOT_BOOTED = "not measured with these sources: add --lab"


@dataclass(frozen=True)
class Request:
    """The options of one run of an experiment.

    Attributes:
        scale: QUICK, USUAL or ORIGINAL.
        seeds: rounds.
        lab: boot the lab for what has no figure yet.
        trees: kernel trees by label, in the order of the command line.
        corpus: directory of recordings.
        mails: directory of a list's mails; need not be there.
        kernel: series of the guest's, where an experiment has a choice; "": its own.
        here: on this machine, not in the lab.
        only: parts of the experiment that are measured; none: all.
        chosen: values of the experiment's own choices, by name.
    """

    scale: str = USUAL
    seeds: int = SEEDS[USUAL]
    lab: bool = False
    trees: Mapping[str, Path] = field(default_factory=dict)
    corpus: Path = TOP / "build" / "corpus"
    mails: Path = TOP / "build" / "mails"
    kernel: str = ""
    here: bool = False
    only: Sequence[str] = ()
    chosen: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A figure of the original beside ours.

    Attributes:
        what: the governor or condition.
        reported: what the original says, as text; "" if it says nothing.
        ours: our figure for each seed; empty: not available.
        unit: of ours.
        agrees: least and greatest figure that would agree with the report; None: no report.
        note: why there is no figure, or what a reader must know.
        judged: the verdict where it is not by `agrees`: on a promise, or UNLIKE.
    """

    what: str
    reported: str = ""
    ours: Sequence[float] = ()
    unit: str = ""
    agrees: tuple[float, float] | None = None
    note: str = ""
    judged: str = ""

    @property
    def median(self) -> float | None:
        """Median of the seeds."""
        return median(self.ours) if self.ours else None

    @property
    def measured(self) -> bool:
        """It has a figure, or a verdict on a promise."""
        return bool(self.ours) or self.state not in ("", ABSENT)

    @property
    def state(self) -> str:
        """AGREES, DIFFERS, ABSENT, UNLIKE, or "" if the original says nothing."""
        if self.judged:
            return self.judged
        if self.agrees is None:
            return ""
        middle = self.median
        if middle is None:
            return ABSENT
        low, high = self.agrees
        return AGREES if low <= middle <= high else DIFFERS

    def figures(self) -> str:
        """Return the median with the spread, as text."""
        if not self.ours:
            return self.note if self.judged and self.note else ABSENT
        low, middle, high = min(self.ours), median(self.ours), max(self.ours)
        if f"{low:.3g}" == f"{high:.3g}":
            return f"{number(middle)} {self.unit}".rstrip()
        return f"{number(middle)} ({number(low)} to {number(high)}) {self.unit}".rstrip()


def number(value: float) -> str:
    """Return a number with three digits that count."""
    if value and abs(value) < 0.0005:
        return "0"
    text = f"{value:.3g}"
    return f"{value:,.0f}" if "e" in text or abs(value) >= 1000 else text


@dataclass
class Findings:
    """Result of an experiment.

    Attributes:
        rows: the original's figures beside ours.
        sections: further tables and plots.
        same, differs: what is as in the original, and what is not; sentences.
        meaning: what the result means; Markdown.
        sources: hashes of what made the figures, by name.
        page: the document, where the experiment writes its own; COMMAND stands for the command.
    """

    rows: list[Row] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    same: str = ""
    differs: str = ""
    meaning: str = ""
    sources: dict[str, str] = field(default_factory=dict)
    page: str = ""

    @property
    def state(self) -> str:
        """AGREES if all rows with a verdict do; UNJUDGED or ABSENT if there is none."""
        states = {row.state for row in self.rows} - {"", ABSENT, UNLIKE}
        if not states:
            return UNJUDGED if any(row.ours for row in self.rows) else ABSENT
        return DIFFERS if states & {DIFFERS, MISSED} else AGREES


class Experiment(Protocol):
    """An experiment; plain attributes will do."""

    @property
    def name(self) -> str:
        """On the command line, and of its page."""

    @property
    def title(self) -> str:
        """Heading of the page."""

    @property
    def claim(self) -> str:
        """Claim of the original, in a sentence."""

    @property
    def source(self) -> str:
        """Title or subject line, author, place and date."""

    @property
    def question(self) -> str:
        """Subject of the measurement; Markdown."""

    @property
    def in_lab(self) -> bool:
        """It boots the lab."""

    def refusals(self, request: Request) -> list[str]:
        """Return what is missing, as sentences; nothing may have started."""

    def measure(self, request: Request, memo: Memo, meter: Meter) -> Findings:
        """Run the plan; jobs that are in the memo are not run again."""


@cache
def found() -> dict[str, Experiment]:
    """Return all experiments by name, in alphabetical order."""
    from experiments.cases.case import cases

    modules = [path.parent.name for path in HERE.glob("*/entry.py")]
    written: list[Experiment] = [
        importlib.import_module(f"experiments.{name}.entry").EXPERIMENT for name in modules
    ]
    everything: list[Experiment] = [*written, *cases()]
    return {one.name: one for one in sorted(everything, key=lambda one: one.name)}


def kernels(experiment: Experiment) -> Sequence[str]:
    """Return the series among which an experiment has a choice; mostly none."""
    return getattr(experiment, "kernels", ())


def parts(experiment: Experiment) -> Mapping[str, str]:
    """Return the titles of the parts that can be measured alone, by name; mostly none."""
    return getattr(experiment, "parts", {})


def choices(experiment: Experiment) -> Mapping[str, str]:
    """Return what an experiment lets its user choose, by name; mostly nothing."""
    return getattr(experiment, "choices", {})


def check(experiment: Experiment, request: Request) -> None:
    """Make sure that an experiment has the parts and the choices of a request.

    Raises:
        UserError: it has not.
    """
    for what, names, known in (
        ("part", request.only, parts(experiment)),
        ("choice", request.chosen, choices(experiment)),
    ):
        for name in names:
            if name not in known:
                there = f"there are {', '.join(known)}" if known else "there is none"
                raise UserError(f"{experiment.name}: unknown {what} '{name}'; {there}", USAGE)


def wanted(experiment: Experiment, request: Request) -> list[str]:
    """Return the parts that a request wants, in the experiment's order."""
    return [part for part in parts(experiment) if not request.only or part in request.only]


def listed(text: str) -> list[str]:
    """Return the names of a list with commas, each once.

    Raises:
        UserError: a name is missing.
    """
    found = [item.strip() for item in text.split(",")]
    if not all(found):
        raise UserError(f"'{text}': a name is missing before or after a comma", USAGE)
    return list(dict.fromkeys(found))


def is_file(name: str) -> bool:
    """Return whether a name is that of a case's file, such as `review` writes."""
    return name.endswith(".yaml")


def chosen(names: Sequence[str]) -> list[Experiment]:
    """Return experiments by name, and cases by their file.

    Raises:
        UserError: a name is unknown, or a file is no case.
    """
    from experiments.cases.case import Case

    known = dict(found())
    for name in names:
        if is_file(name):
            known[name] = Case(Path(name))
            continue
        if name not in known:
            near = (
                did_you_mean(name, [*known, *proofs.found()]) or "; `experiment --list` shows all"
            )
            raise UserError(f"unknown experiment '{name}'{near}", USAGE)
    return [known[name] for name in dict.fromkeys(names)]


@dataclass(frozen=True)
class Job:
    """A part of a plan that is run as a whole.

    Attributes:
        key: hash of all that its figures depend on.
        work: returns what JSON can hold.
    """

    key: str
    work: Callable[[], Any]


def checked(key: Callable[[], str], work: Callable[[], Any]) -> Job:
    """Return a part of a plan whose figure is kept only if its key is the same after the work.

    Args:
        key: hashes all that the figure depends on.
        work: returns the figure; the part's work raises a UserError where the key changed.
    """
    before = key()

    def check() -> Any:
        found = work()
        if key() != before:
            raise UserError("the sources changed while they ran; run it again")
        return found

    return Job(before, check)


def run_jobs(
    jobs: Sequence[Job], memo: Memo, meter: Meter, title: str, threads: int | None = None
) -> list[Any]:
    """Return the figures of each job; a kill loses no more than the jobs that were running.

    Args:
        jobs: the plan, in the order in which it is run.
        memo: where figures are kept.
        meter: shows progress.
        title: of the phase.
        threads: how many; None is one for each processor.
    """
    known = memo.fill({job.key: job.work for job in jobs}, meter, title, threads)
    return [known[job.key] for job in jobs]


def as_json(experiment: Experiment, result: Findings) -> dict[str, Any]:
    """Return an experiment's result for machines, and for the table of all experiments."""
    return {
        "name": experiment.name,
        "title": experiment.title,
        "claim": experiment.claim,
        "source": experiment.source,
        "state": result.state,
        "rows": [
            {
                "what": row.what,
                "reported": row.reported,
                "ours": list(row.ours),
                "median": row.median,
                "unit": row.unit,
                "agrees": row.agrees,
                "state": row.state,
                "note": row.note,
            }
            for row in result.rows
        ],
        "plots": [plot.name for section in result.sections for plot in section.plots],
        "sources": result.sources,
    }
