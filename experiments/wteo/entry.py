# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab experiment wteo`: the study of wteo as one of the experiments."""

from cpuidle_lab.compare.model import Phase
from experiments.experiment import QUICK, Request, Result, Row
from experiments.memo import Memo, sources
from experiments.wteo import page
from experiments.wteo.plan import Plan, measure

SUBJECT = "wteo"


class Study:
    """The promises of a governor; `cpuidle-lab study` has more options."""

    name = SUBJECT
    title = "wteo's promises"
    claim = (
        "wteo is to lose less energy than menu and TEO, to do no harm on any stream, and to cost "
        "as much a decision."
    )
    source = "governors/wteo/README.md of this project"
    question = "Which promises of wteo hold?"
    in_lab = True

    def refusals(self, _: Request) -> list[str]:
        """Return nothing: without --lab the part in the lab says that it is not measured."""
        return []

    def measure(self, request: Request, memo: Memo, phase: Phase) -> Result:
        """Measure every part of the study."""
        plan = Plan.of(
            subject=SUBJECT,
            parts=None,
            machines=None,
            streams=None,
            count=None,
            variations=None,
            regimes=None,
            quick=request.scale == QUICK,
            full=False,
            corpus=request.corpus,
            everything=False,
            lab=request.lab,
            programs=None,
        )
        sections = measure(plan, phase, memo)
        rows = [
            Row(f"{one.part}: {line.promise}", note=line.figures, judged=line.state)
            for one in sections
            for line in one.verdicts
        ]
        command = f"cpuidle-lab experiment {SUBJECT}"
        return Result(
            rows=rows,
            sections=sections,
            sources={SUBJECT: sources(SUBJECT)},
            page=page.render(plan, sections, command, SUBJECT),
        )


EXPERIMENT = Study()
