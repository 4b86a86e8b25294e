# SPDX-License-Identifier: GPL-2.0
"""Scope of a run: the parts, their order, and their sizes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.tables import Section
from cpuidle_lab.lab import turns
from cpuidle_lab.recording import state_tables, synth
from cpuidle_lab.recording.laws import STREAMS
from cpuidle_lab.replay.candidates import OWN_KIND, parse
from experiments import experiment
from experiments.experiment import Request, listed
from experiments.memo import Memo, check_sources, sources
from experiments.wteo import (
    ablation,
    cost,
    every_machine,
    front,
    kernel,
    learning,
    regret,
    robust,
    steps_lab,
)
from experiments.wteo.streams import HZ, StudyIntervals, corpus, laws, suite

SUBJECT = "wteo"
MACHINES = ("skx", "skl", "power9", "spr")


@dataclass(frozen=True)
class Sizes:
    """Numbers of intervals and runs.

    Attributes:
        intervals: of each synthetic stream.
        sample: intervals of each recording whose instructions are counted.
        odd: intervals of each stream on odd machines.
        unseen: intervals of each variation of a stream.
        variations: how many there are of each.
        learning: resets, changes of regime.
        kernel: runs in the lab.
        steps: runs in the lab, of each step that is removed.
    """

    intervals: int
    sample: int
    odd: int
    unseen: int
    variations: int
    learning: learning.Size
    kernel: turns.Size
    steps: turns.Size


FULL = Sizes(
    intervals=50_000,
    sample=2_000,
    odd=20_000,
    unseen=20_000,
    variations=3,
    learning=learning.FULL,
    kernel=kernel.FULL,
    steps=steps_lab.FULL,
)
QUICK = Sizes(
    intervals=5_000,
    sample=500,
    odd=2_000,
    unseen=2_000,
    variations=1,
    learning=learning.QUICK,
    kernel=kernel.QUICK,
    steps=steps_lab.QUICK,
)


def _load(subject: str) -> None:
    """Compile a governor, and make sure that what is compiled is what its figures are kept under.

    Raises:
        UserError: there is none such, or its source changed meanwhile.
    """
    sources(subject.partition(":")[0])
    parse(subject, False)
    check_sources()


def _among(sizes: Sizes, regimes: Sequence[str]) -> learning.Size:
    if len(regimes) < 2:
        raise UserError(f"regimes: there is nothing to change to from {regimes[0]}", USAGE)
    changed = replace(sizes.learning.regimes, regimes=tuple(regimes))
    return replace(sizes.learning, regimes=changed)


def _number(chosen: Mapping[str, str], name: str, usual: int) -> int:
    text = chosen.get(name, str(usual))
    if not text.isdecimal() or not int(text):
        raise UserError(f"{name}: '{text}' is no number above 0", USAGE)
    return int(text)


@dataclass(frozen=True)
class Scope:
    """All that a run measures.

    Attributes:
        subject: the governor that is judged, with its tunables.
        parts: of PARTS, in their order.
        machines: state tables.
        streams: names of synth's.
        sizes: how much.
        folder: of the corpus.
        lab: boot the lab.
        programs: names of turns.PROGRAMS.
        tick_stopped: the tick never runs in synthetic streams.
    """

    subject: str
    parts: Sequence[str]
    machines: Sequence[str]
    streams: Sequence[str]
    sizes: Sizes
    folder: Path
    lab: bool
    programs: Sequence[str]
    tick_stopped: bool

    @classmethod
    def of(cls, request: Request, parts: Sequence[str]) -> "Scope":
        """Return the scope of a request, all of whose names are known.

        Args:
            request: its choices are those of CHOICES.
            parts: of PARTS.

        Raises:
            UserError: a name is unknown, a number is none, the governor is no single one of ours.
        """
        subject = request.chosen.get("governor", SUBJECT)
        if "," in subject:
            raise UserError("one governor is judged at a time", USAGE)
        _load(subject)
        if parse(subject, False)[0].kind != OWN_KIND:
            raise UserError(f"{subject}: others are judged by it; it is no governor of ours", USAGE)
        named = {
            name: listed(request.chosen[name]) if name in request.chosen else usual
            for name, usual in (
                ("machines", MACHINES),
                ("streams", list(STREAMS)),
                ("programs", [program.name for program in turns.PROGRAMS]),
                ("regimes", ()),
            )
        }
        for name in named["machines"]:
            state_tables.find(name, HZ)
        sizes = QUICK if request.scale == experiment.QUICK else FULL
        sizes = replace(
            sizes,
            intervals=_number(request.chosen, "count", sizes.intervals),
            variations=_number(request.chosen, "variations", sizes.variations),
        )
        if named["regimes"]:
            sizes = replace(sizes, learning=_among(sizes, named["regimes"]))
        for name in (*named["streams"], *named["regimes"]):
            synth.check(name, sizes.intervals, 0)
        tick = request.chosen.get("tick", "running")
        if tick not in ("running", "stopped"):
            raise UserError(f"tick: '{tick}' is neither running nor stopped", USAGE)
        known = [program.name for program in turns.PROGRAMS]
        for name in named["programs"]:
            if name not in known:
                raise UserError(f"unknown program '{name}'; there are {', '.join(known)}", USAGE)
        return cls(subject, parts, named["machines"], named["streams"], sizes, request.corpus,
                   request.lab, named["programs"], tick == "stopped")  # fmt: skip

    @cached_property
    def suite(self) -> list[StudyIntervals]:
        """The synthetic streams."""
        wanted = laws(self.streams)
        return suite(self.machines, self.sizes.intervals, wanted, tick_stopped=self.tick_stopped)

    @cached_property
    def corpus(self) -> list[StudyIntervals]:
        """The recordings; empty where there are none."""
        return corpus(self.folder)

    @property
    def subjects(self) -> tuple[str, ...]:
        """The governor with no regard to latency, and as it is where that differs."""
        return tuple(dict.fromkeys((front.energy_alone(self.subject), self.subject)))

    @property
    def chosen(self) -> list[turns.JudgedProgram]:
        """The programs in the lab."""
        return [program for program in turns.PROGRAMS if program.name in self.programs]


def _regret(scope: Scope, memo: Memo, meter: Meter) -> Section:
    streams = [*scope.suite, *scope.corpus]
    return regret.measure(scope.subjects, streams, memo, meter)


def _learning(scope: Scope, memo: Memo, meter: Meter) -> Section:
    machines = {name: state_tables.find(name, HZ) for name in scope.machines}
    return learning.measure(
        scope.subjects[0], scope.suite, machines, scope.sizes.learning, memo, meter
    )


def _unseen(scope: Scope, memo: Memo, meter: Meter) -> Section:
    count = min(scope.sizes.unseen, scope.sizes.intervals)
    wanted = laws(scope.streams, scope.sizes.variations)
    streams = suite(scope.machines, count, wanted, tick_stopped=scope.tick_stopped)
    return regret.measure_unseen(scope.subjects, streams, memo, meter)


def _front(scope: Scope, memo: Memo, meter: Meter) -> Section:
    return front.measure(scope.subject, [*scope.suite, *scope.corpus], memo, meter)


def _robust(scope: Scope, memo: Memo, meter: Meter) -> Section:
    count = min(scope.sizes.odd, scope.sizes.intervals)
    return robust.measure(scope.subjects[0], scope.machines, scope.streams, count, memo, meter)


def _machines(scope: Scope, memo: Memo, meter: Meter) -> Section:
    count = min(scope.sizes.odd, scope.sizes.intervals)
    return every_machine.measure(scope.subjects, scope.streams, count, memo, meter)


def _ablation(scope: Scope, memo: Memo, meter: Meter) -> Section:
    machines = {name: state_tables.find(name, HZ) for name in scope.machines}
    in_lab = steps_lab.InLab(scope.chosen, scope.sizes.steps, scope.lab)
    streams = [*scope.suite, *scope.corpus]
    return ablation.measure(scope.subjects[0], streams, machines, memo, meter, in_lab)


def _cost(scope: Scope, memo: Memo, meter: Meter) -> Section:
    return cost.measure(scope.subject, scope.corpus, memo, meter, scope.sizes.sample)


def _kernel(scope: Scope, memo: Memo, meter: Meter) -> Section:
    return kernel.measure(scope.subject, scope.sizes.kernel, memo, meter, scope.lab, scope.chosen)


# Title and measurement of each part, by name.
PARTS: Mapping[str, tuple[str, Callable[[Scope, Memo, Meter], Section]]] = {
    regret.PART: (regret.TITLE, _regret),
    regret.UNSEEN: (regret.UNSEEN_TITLE, _unseen),
    front.PART: (front.TITLE, _front),
    learning.PART: (learning.TITLE, _learning),
    cost.PART: (cost.TITLE, _cost),
    robust.PART: (robust.TITLE, _robust),
    every_machine.PART: (every_machine.TITLE, _machines),
    kernel.PART: (kernel.TITLE, _kernel),
    ablation.PART: (ablation.TITLE, _ablation),
}

TITLES = {name: title for name, (title, _) in PARTS.items()}

CHOICES = {
    "governor": "NAME[:TUNABLE=VALUE]...: the governor of this project that is judged (wteo)",
    "machines": f"state tables, with commas ({','.join(MACHINES)})",
    "streams": "of `synth --list` (all)",
    "count": f"intervals of each stream ({FULL.intervals})",
    "tick": "running, or stopped throughout, as on a CPU of nohz_full (running)",
    "variations": f"of each stream, in the part {regret.UNSEEN} ({FULL.variations})",
    "regimes": "streams that change into each other, in the part learning: those of which no "
    f"interval depends on another ({','.join(FULL.learning.regimes.regimes)})",
    "programs": "of those in the lab (all)",
}


def measure(scope: Scope, meter: Meter, memo: Memo) -> list[Section]:
    """Measure every part of a scope.

    Raises:
        UserError: something cannot be measured, or was edited meanwhile.
    """
    sections = [PARTS[part][1](scope, memo, meter) for part in scope.parts]
    check_sources()
    return sections
