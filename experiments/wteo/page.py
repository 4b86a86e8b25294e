# SPDX-License-Identifier: GPL-2.0
"""The document: page.md, with what was measured filled in."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from cpuidle_lab.base.files import marked
from cpuidle_lab.evidence.plots import MARK, svg
from cpuidle_lab.evidence.tables import Section, Table
from cpuidle_lab.replay.candidates import parse
from cpuidle_lab.states.linux_source import NEWEST, fetch
from experiments.memo import sources
from experiments.pages import wrapped, write_page
from experiments.wteo import programs
from experiments.wteo.plan import Plan
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


def _circumstances(plan: Plan) -> str:
    """Return what the figures depend on."""
    governor = parse(plan.subject, False)[0].governor
    defaults = [
        f"`{one.name}={one.names[one.default] if one.names else one.default}`"
        for one in governor.tunables
    ]
    corpus = f"{len(plan.corpus)} recordings" if plan.corpus else "none (`cpuidle-lab corpus`)"
    lines = [
        f"State tables: {', '.join(plan.machines)}, a tick of {HZ} Hz. Streams: "
        f"{len(plan.streams)}, of {plan.sizes.intervals:,} intervals, seed {SEED}. "
        f"Corpus: {corpus}.",
        f"Mainline: the governors of linux-source {fetch(NEWEST).package_version}.",
        f"{plan.subject}: sources {sources(governor.spec)}, with {', '.join(defaults)}.",
    ]
    return "\n".join(f"- {line}" for line in lines)


def render(plan: Plan, sections: Sequence[Section], command: str, folder: str) -> str:
    """Return the document.

    Args:
        plan: what was measured.
        sections: what was found.
        command: that makes it again.
        folder: of the pictures, as seen from the document.
    """
    values: Mapping[str, str] = {
        "subject": plan.subject,
        "command": command,
        "kernel_series": programs.KERNEL,
        "circumstances": _circumstances(plan),
        "summary": _summary(sections),
        **{section.part: section.markdown(folder) for section in sections},
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    return wrapped(_PLACE.sub(lambda found: values.get(found[1], "Not measured."), text))


def write(plan: Plan, sections: Sequence[Section], command: str, target: Path) -> list[Path]:
    """Write the document and its pictures, and remove pictures that are no part of it.

    Returns:
        What was written.
    """
    folder = target.with_suffix("")
    text = render(plan, sections, command, folder.name)
    pictures = {
        f"{plot.name}.svg": (svg(plot), marked(MARK)) for one in sections for plot in one.plots
    }
    return write_page(target, text, pictures)
