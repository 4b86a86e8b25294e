# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab experiment wteo`: the promises of wteo, or of another governor."""

from cpuidle_lab.base.progress import Meter
from experiments.experiment import Findings, Request, Row, wanted
from experiments.memo import Memo, sources
from experiments.wteo import page
from experiments.wteo.scope import CHOICES, SUBJECT, TITLES, Scope, measure


class Wteo:
    """The promises of a governor of this project."""

    name = SUBJECT
    title = "wteo's promises"
    claim = (
        "wteo is to lose less energy than menu and TEO, to do no harm on any stream, and to cost "
        "as much a decision."
    )
    source = "governors/wteo/README.md of this project"
    question = "Which promises of wteo hold?"
    in_lab = True
    parts = TITLES
    choices = CHOICES

    def refusals(self, request: Request) -> list[str]:
        """Return nothing: without --lab the part in the lab says that it is not measured.

        Raises:
            UserError: see Scope.of().
        """
        Scope.of(request, wanted(self, request))
        return []

    def measure(self, request: Request, memo: Memo, meter: Meter) -> Findings:
        """Measure the parts of a request."""
        scope = Scope.of(request, wanted(self, request))
        sections = measure(scope, meter, memo)
        rows = [
            Row(f"{one.part}: {line.promise}", note=line.figures, judged=line.state)
            for one in sections
            for line in one.verdicts
        ]
        governor = scope.subject.partition(":")[0]
        return Findings(
            rows=rows,
            sections=sections,
            sources={governor: sources(governor)},
            page=page.render(scope, sections, self.name),
        )


EXPERIMENT = Wteo()
