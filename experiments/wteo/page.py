# SPDX-License-Identifier: GPL-2.0
"""The document: page.md, with what was measured filled in."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from cpuidle_lab.evidence.tables import Section, Table
from cpuidle_lab.replay.candidates import parse
from cpuidle_lab.states.linux_source import NEWEST, fetch
from experiments.experiment import COMMAND
from experiments.memo import sources
from experiments.pages import wrapped
from experiments.wteo import programs
from experiments.wteo.scope import SUBJECT, Scope
from experiments.wteo.streams import HZ, SEED

TEMPLATE = Path(__file__).parent / "page.md"

_PLACE = re.compile(r"\{\{(\w+)\}\}")


def _summary(sections: Sequence[Section]) -> str:
    rows = [
        [section.part, line.promise, line.state, line.figures]
        for section in sections
        for line in section.verdicts
    ]
    return Table("", ("part", "promise", "", "measured"), rows).markdown()


def _circumstances(scope: Scope) -> str:
    """Return what the figures depend on."""
    governor = parse(scope.subject, False)[0].governor
    defaults = [
        f"`{one.name}={one.names[one.default] if one.names else one.default}`"
        for one in governor.tunables
    ]
    corpus = f"{len(scope.corpus)} recordings" if scope.corpus else "none (`cpuidle-lab corpus`)"
    lines = [
        f"State tables: {', '.join(scope.machines)}, a tick of {HZ} Hz. Streams: "
        f"{len(scope.streams)}, of {scope.sizes.intervals:,} intervals, seed {SEED}. "
        f"Corpus: {corpus}.",
        f"Mainline: the governors of linux-source {fetch(NEWEST).package_version}.",
        f"{scope.subject}: sources {sources(governor.spec)}, with {', '.join(defaults)}.",
    ]
    return "\n".join(f"- {line}" for line in lines)


def render(scope: Scope, sections: Sequence[Section], folder: str) -> str:
    """Return the document.

    Args:
        scope: of the run.
        sections: its findings.
        folder: of the pictures, as seen from the document.
    """
    values: Mapping[str, str] = {
        "subject": scope.subject,
        "command": COMMAND,
        "with": "" if scope.subject == SUBJECT else f" --with governor={scope.subject}",
        "kernel_series": programs.KERNEL,
        "circumstances": _circumstances(scope),
        "summary": _summary(sections),
        **{section.part: section.markdown(folder) for section in sections},
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    return wrapped(_PLACE.sub(lambda found: values.get(found[1], "Not measured."), text))
