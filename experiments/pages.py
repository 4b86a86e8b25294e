# SPDX-License-Identifier: GPL-2.0
"""The page of an experiment, and the table of all of them."""

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cpuidle_lab.base.cache import TOP, digest
from cpuidle_lab.base.files import DOCUMENT, Foreign, check, marked, write_all, write_whole
from cpuidle_lab.evidence.plots import MARK, svg
from cpuidle_lab.evidence.tables import ABSENT, Table
from experiments.experiment import (
    AGREES,
    COMMAND,
    DIFFERS,
    UNJUDGED,
    Experiment,
    Findings,
    Request,
    as_json,
    number,
)

FOLDER = TOP / "docs" / "experiments"

# Beside the pictures; the table of all experiments is made from these.
RESULT = "result.json"

INDEX = "README.md"
_TEMPLATE = Path(__file__).parent / "index.md"

_PLURAL = {AGREES: "agree", DIFFERS: "DIFFER"}

# So many small plots stand beside each other.
_ABREAST = 2

_WIDTH = 100


def hash_of(result: Findings) -> str:
    """Return one hash of all that made the figures."""
    return digest([f"{name} {value}" for name, value in sorted(result.sources.items())])[:12]


def _rows(result: Findings) -> str:
    rows = [[row.what, row.reported, row.figures(), row.state] for row in result.rows]
    text = Table("", ("", "original", "ours", ""), rows).markdown()
    notes = [f"- {row.what}: {row.note}." for row in result.rows if row.note]
    return "\n\n".join(part for part in (text, "\n".join(notes)) if part)


def _seeds(count: int) -> str:
    return "one seed" if count == 1 else f"{count} seeds, in brackets the spread"


def render(
    experiment: Experiment, result: Findings, request: Request, command: str, folder: str
) -> str:
    """Return an experiment's page.

    Args:
        experiment: which.
        result: what was found.
        request: with which sizes.
        command: that makes the page again.
        folder: of the pictures, as seen from the page.
    """
    if result.page:
        return result.page.replace(COMMAND, command)
    plots = [plot for section in result.sections for plot in section.plots]
    tables = [table for section in result.sections for table in section.tables]
    made = ", ".join(f"{name} `{value}`" for name, value in sorted(result.sources.items()))
    parts = [
        f"# {experiment.title}",
        f"{DOCUMENT}the command below; changes belong in experiments/. -->",
        f"    {command}",
        f"**Claim.** {experiment.claim}",
        f"**Source.** {experiment.source}",
        f"## The question\n{experiment.question}",
        f"## Figures\nMedian of {_seeds(request.seeds)}.\n\n{_rows(result)}",
        "\n\n".join(f"![{plot.title}]({folder}/{plot.name}.svg)" for plot in plots),
        "\n\n".join(f"**{table.title}**\n\n{table.markdown()}" for table in tables if table.rows),
        f"## What is the same\n{result.same}" if result.same else "",
        f"## What differs\n{result.differs}" if result.differs else "",
        f"## What it means\n{result.meaning}",
        f"## Made by\n`{hash_of(result)}`, which is the hash of: {made}.",
    ]
    return "\n\n".join(wrapped(part) for part in parts if part) + "\n"


# Lines that are no text to be filled: code, tables, headings, numbered lists, pictures, comments.
_AS_IT_IS = re.compile(r"    |\||#|!|<|\d\. ")


def _filled(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def wrapped(text: str) -> str:
    """Return Markdown with its paragraphs and items filled to the width of documents."""
    found = []
    for paragraph in text.split("\n\n"):
        head, _, rest = paragraph.partition("\n")
        lines = [head] if head.startswith("#") else []
        body = rest if lines else paragraph
        if body.startswith("- "):
            items = body.split("\n")
            body = "\n".join(_filled(one, "  ") if len(one) > _WIDTH else one for one in items)
        elif body and not _AS_IT_IS.match(body):
            body = _filled(" ".join(body.split()))
        found.append("\n".join([*lines, body] if body else lines))
    return "\n\n".join(found)


def write(
    experiment: Experiment, result: Findings, request: Request, command: str, target: Path
) -> list[Path]:
    """Write the page, its pictures and its figures; return the files."""
    folder = target.with_suffix("")
    plots = {f"{plot.name}.svg": svg(plot) for section in result.sections for plot in section.plots}
    told = {"command": command, "hash": hash_of(result), **as_json(experiment, result)}
    figures = json.dumps(told, indent=1) + "\n"
    page = render(experiment, result, request, command, folder.name)
    texts = {name: (picture, marked(MARK)) for name, picture in plots.items()}
    texts[RESULT] = figures, marked('{\n "command": "cpuidle-lab experiment ')
    return write_page(target, page, texts)


def write_page(target: Path, page: str, texts: Mapping[str, tuple[str, Foreign]]) -> list[Path]:
    """Write a page and the files of its folder, remove old pictures; return what was written.

    Raises:
        UserError: a file of such a name is another one; nothing is written.
    """
    folder = target.with_suffix("")
    check(target, marked(DOCUMENT))
    write_all(folder, texts)
    write_whole(target, page, marked(DOCUMENT))
    for old in folder.glob("*.svg"):
        if old.name not in texts and not marked(MARK)(old):
            old.unlink()
    return [target, *(folder / name for name in texts)]


def lost(result: Findings, target: Path) -> list[str]:
    """Return the rows that a page has figures of, and a result without some of its figures has not.

    Args:
        result: what was measured now. One that has all its figures loses nothing.
        target: the page.
    """
    kept = target.with_suffix("") / RESULT
    if all(row.measured for row in result.rows) or not kept.is_file():
        return []
    measured = {row.what for row in result.rows if row.measured}
    rows = json.loads(kept.read_text(encoding="utf-8"))["rows"]
    return [
        row["what"]
        for row in rows
        if (row["median"] is not None or row["state"] not in ("", ABSENT))
        and row["what"] not in measured
    ]


def _ours(told: Mapping[str, Any]) -> str:
    """Return the figures that the claim is about, in short."""
    shown = [row for row in told["rows"] if row["agrees"]]
    if not shown:
        shown = [row for row in told["rows"] if row["median"] is not None]
    parts = [
        f"{row['what']} {number(row['median'])} {row['unit']}".rstrip()
        if row["median"] is not None
        else f"{row['what']}: {ABSENT}"
        for row in shown[:5]
    ]
    return "; ".join(parts)


def _state(told: Mapping[str, Any]) -> str:
    states = [row["state"] for row in told["rows"] if row["state"]]
    if not states:
        return UNJUDGED if any(row["ours"] for row in told["rows"]) else ABSENT
    count = {state: states.count(state) for state in dict.fromkeys(states)}
    return ", ".join(
        f"{n} {_PLURAL.get(state, state) if n > 1 else state}" for state, n in count.items()
    )


def _multiples(told: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        f'<a href="{one["name"]}.md"><img src="{one["name"]}/{one["plots"][0]}.svg" '
        f'width="400" alt="{one["title"]}"></a>'
        for one in told
        if one["plots"]
    ]
    rows = [cells[n : n + _ABREAST] for n in range(0, len(cells), _ABREAST)]
    rows = [row + [""] * (_ABREAST - len(row)) for row in rows]
    head = "| " + " | ".join([""] * _ABREAST) + " |\n|" + "---|" * _ABREAST
    return "\n".join([head, *("| " + " | ".join(row) + " |" for row in rows)])


def results(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Return the results that have a page, in alphabetical order."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob(f"*/{RESULT}"))]


def index(told: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of all experiments as a document."""
    rows = [
        [f"[{one['name']}]({one['name']}.md)", one["claim"], _ours(one), _state(one)]
        for one in told
    ]
    table = Table("", ("experiment", "the original's claim", "ours", ""), rows).markdown()
    text = _TEMPLATE.read_text(encoding="utf-8")
    return text.replace("{{table}}", table).replace("{{multiples}}", _multiples(told))


def write_index(folder: Path = FOLDER) -> Path:
    """Write the table of all experiments from what has a page."""
    target = folder / INDEX
    write_whole(target, index(results(folder)), marked(DOCUMENT))
    return target
