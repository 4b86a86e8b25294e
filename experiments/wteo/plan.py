# SPDX-License-Identifier: GPL-2.0
"""What is measured, how large, and in which order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.compare.model import Phase
from cpuidle_lab.evidence.tables import Section
from cpuidle_lab.recording import state_tables, synth
from cpuidle_lab.recording.laws import STREAMS
from cpuidle_lab.replay.candidates import OWN_KIND, parse
from cpuidle_lab.states.machines import emulated_names
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
from experiments.wteo import programs as lab_programs
from experiments.wteo.streams import HZ, Stream, corpus, laws, suite

MACHINES = ("skx", "skl", "power9", "spr")


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

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
    kernel: lab_programs.Size
    steps: lab_programs.Size


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
        raise UserError(f"--regimes: there is nothing to change to from {regimes[0]}", USAGE)
    changed = replace(sizes.learning.regimes, regimes=tuple(regimes))
    return replace(sizes.learning, regimes=changed)


@dataclass(frozen=True)
class Plan:
    """What is asked for.

    Attributes:
        subject: the governor that is judged, with its tunables.
        parts: of PARTS, in their order.
        machines: state tables.
        streams: names of synth's.
        sizes: how much.
        folder: of the corpus.
        everything: list all.
        lab: boot the lab.
        programs: names of lab_programs.PROGRAMS.
    """

    subject: str
    parts: Sequence[str]
    machines: Sequence[str]
    streams: Sequence[str]
    sizes: Sizes
    folder: Path
    everything: bool
    lab: bool
    programs: Sequence[str]

    @classmethod
    def of(
        cls,
        *,
        subject: str,
        parts: Sequence[str] | None,
        machines: Sequence[str] | None,
        streams: Sequence[str] | None,
        count: int | None,
        variations: int | None,
        regimes: Sequence[str] | None,
        quick: bool,
        full: bool,
        corpus: Path,
        everything: bool,
        lab: bool,
        programs: Sequence[str] | None,
    ) -> "Plan":
        """Return a plan after checking all names.

        Raises:
            UserError: a name is unknown.
        """
        if "," in subject:
            raise UserError("one governor is studied at a time", USAGE)
        _load(subject)
        if parse(subject, False)[0].kind != OWN_KIND:
            raise UserError(f"{subject}: others are judged by it; it is no governor of ours", USAGE)
        for part in parts or ():
            if part not in PARTS:
                raise UserError(f"unknown part '{part}'; there are {', '.join(PARTS)}", USAGE)
        if full and machines:
            raise UserError("--full and --machines exclude each other", USAGE)
        found = emulated_names() if full else machines or MACHINES
        for name in found:
            state_tables.find(name, HZ)
        sizes = QUICK if quick else FULL
        sizes = sizes if count is None else replace(sizes, intervals=count)
        sizes = sizes if variations is None else replace(sizes, variations=variations)
        sizes = sizes if regimes is None else replace(sizes, learning=_among(sizes, regimes))
        for name in (*(streams or ()), *(regimes or ())):
            synth.check(name, sizes.intervals, 0)
        known = [program.name for program in lab_programs.PROGRAMS]
        chosen = list(programs or known)
        for name in chosen:
            if name not in known:
                raise UserError(f"unknown program '{name}'; there are {', '.join(known)}", USAGE)
        wanted = [part for part in PARTS if parts is None or part in parts]
        names = list(STREAMS) if streams is None else streams
        return cls(subject, wanted, list(found), names, sizes, corpus, everything, lab, chosen)

    @cached_property
    def suite(self) -> list[Stream]:
        """The synthetic streams."""
        return suite(self.machines, self.sizes.intervals, laws(self.streams))

    @cached_property
    def corpus(self) -> list[Stream]:
        """The recordings; empty where there are none."""
        return corpus(self.folder)

    @property
    def chosen(self) -> list[lab_programs.Program]:
        """The programs in the lab."""
        return [program for program in lab_programs.PROGRAMS if program.name in self.programs]


def _regret(plan: Plan, memo: Memo, phase: Phase) -> Section:
    streams = [*plan.suite, *plan.corpus]
    return regret.measure(plan.subject, streams, memo, phase, plan.everything)


def _learning(plan: Plan, memo: Memo, phase: Phase) -> Section:
    machines = {name: state_tables.find(name, HZ) for name in plan.machines}
    return learning.measure(plan.subject, plan.suite, machines, plan.sizes.learning, memo, phase)


def _unseen(plan: Plan, memo: Memo, phase: Phase) -> Section:
    count = min(plan.sizes.unseen, plan.sizes.intervals)
    streams = suite(plan.machines, count, laws(plan.streams, plan.sizes.variations))
    return regret.measure_unseen(plan.subject, streams, memo, phase, plan.everything)


def _front(plan: Plan, memo: Memo, phase: Phase) -> Section:
    return front.measure(plan.subject, [*plan.suite, *plan.corpus], memo, phase)


def _robust(plan: Plan, memo: Memo, phase: Phase) -> Section:
    count = min(plan.sizes.odd, plan.sizes.intervals)
    return robust.measure(plan.subject, plan.machines, plan.streams, count, memo, phase)


def _machines(plan: Plan, memo: Memo, phase: Phase) -> Section:
    count = min(plan.sizes.odd, plan.sizes.intervals)
    return every_machine.measure(
        plan.subject, plan.streams, count, memo, phase, everything=plan.everything
    )


def _ablation(plan: Plan, memo: Memo, phase: Phase) -> Section:
    machines = {name: state_tables.find(name, HZ) for name in plan.machines}
    in_lab = steps_lab.InLab(plan.chosen, plan.sizes.steps, plan.lab)
    streams = [*plan.suite, *plan.corpus]
    return ablation.measure(plan.subject, streams, machines, memo, phase, in_lab)


def _cost(plan: Plan, memo: Memo, phase: Phase) -> Section:
    return cost.measure(plan.subject, plan.corpus, memo, phase, plan.sizes.sample)


def _kernel(plan: Plan, memo: Memo, phase: Phase) -> Section:
    return kernel.measure(plan.subject, plan.sizes.kernel, memo, phase, plan.lab, plan.chosen)


PARTS: dict[str, Callable[[Plan, Memo, Phase], Section]] = {
    regret.PART: _regret,
    regret.UNSEEN: _unseen,
    front.PART: _front,
    learning.PART: _learning,
    cost.PART: _cost,
    robust.PART: _robust,
    every_machine.PART: _machines,
    kernel.PART: _kernel,
    ablation.PART: _ablation,
}


def measure(plan: Plan, phase: Phase, memo: Memo) -> list[Section]:
    """Measure every part of a plan.

    Raises:
        UserError: something cannot be measured, or was edited meanwhile.
    """
    sections = [PARTS[part](plan, memo, phase) for part in plan.parts]
    check_sources()
    return sections
