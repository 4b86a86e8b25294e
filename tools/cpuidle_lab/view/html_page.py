# SPDX-License-Identifier: GPL-2.0
"""One HTML file that needs nothing else: no network, no other file.

A page is a heading, sections with a navigation, and charts; page.html, page.css and page.js are
what all pages share.
"""

import json
import pkgutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import repeat
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from cpuidle_lab.base.cache import shipped
from cpuidle_lab.base.files import PAGE
from cpuidle_lab.base.version import __version__
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.view.drawing import Chart

if TYPE_CHECKING:
    from cpuidle_lab.figures.metrics import Metric
    from cpuidle_lab.states.table import StateTable

HERE = Path(__file__).parent
# Code that draws the charts, in an installation that has no package plotly.
DRAWING = "plotly.min.js"

# Least width of one of several panels beside each other.
_PANEL_PX = 190


@dataclass(frozen=True)
class Part:
    """A section of a page.

    Attributes:
        key: its name in links.
        title: in the navigation; "" is a section that is not there.
        content: HTML.
        headed: its title stands above it, too.
    """

    key: str
    title: str
    content: str
    headed: bool = True

    def html(self) -> str:
        """Return the section."""
        head = f"<h2>{self.title}</h2>" if self.headed else ""
        label = "" if self.headed else f' aria-label="{self.title or self.key.capitalize()}"'
        return f'<section id="{self.key}"{label}>{head}\n{self.content}\n</section>'


def generator(command: str) -> str:
    """Return what is in the first bytes of a command's pages, so that it replaces only these."""
    return f'{PAGE}{command}">'


def table_cell(text: str, kind: str = "") -> str:
    """Return a cell of a table; the text is HTML, `kind` a class of the style sheet."""
    return f'<td class="{kind}">{text}</td>' if kind else f"<td>{text}</td>"


def table_head(title: str, unit: str = "", kind: str = "") -> str:
    """Return a heading of a table's column, its unit below it."""
    below = f'<br><span class="soft">{escape(unit)}</span>' if unit else ""
    return (
        f'<th class="{kind}">{escape(title)}{below}</th>'
        if kind
        else f"<th>{escape(title)}{below}</th>"
    )


def table(
    heads: Iterable[str], rows: Iterable[Iterable[str]], kinds: Iterable[str] | None = None
) -> str:
    """Return a table.

    Args:
        heads: as of table_head().
        rows: cells, as of table_cell().
        kinds: a class of the style sheet for each row.
    """
    opens = repeat("<tr>") if kinds is None else (f'<tr class="{kind}">' for kind in kinds)
    body = "\n".join(f"{start}{''.join(row)}</tr>" for start, row in zip(opens, rows, strict=False))
    return (
        f'<div class="scroll"><table><thead><tr>{"".join(heads)}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


def best_of(values: Iterable[float | None]) -> float | None:
    """Return the least value, if there is more than one to choose from."""
    known = {value for value in values if value is not None}
    return min(known) if len(known) > 1 else None


def chart_card(chart: Chart) -> str:
    """Return the place of a chart in the page, with its title and caption."""
    kind = "card wide" if chart.wide else "card"
    label = escape(f"{chart.title}. {chart.caption}", quote=True)
    return (
        f'<div class="{kind}"><h3>{escape(chart.title)}</h3><p>{escape(chart.caption)}</p>'
        f'<div class="scroll"><div class="plot" id="chart-{chart.key}" role="img" '
        f'aria-label="{label}" style="height:{chart.height}px;min-width:{least_px(chart)}px">'
        "</div></div></div>"
    )


def least_px(chart: Chart) -> int:
    """Return the width below which titles of panels would overlap; the chart is scrolled then."""
    axes = [axis for key, axis in chart.layout.items() if key.startswith("xaxis")]
    beside = len({axis["domain"][0] for axis in axes if "domain" in axis})
    return max(chart.least_px, _PANEL_PX * beside if beside > 1 else 0)


def _us(ns: int) -> str:
    return f"{ns / 1000:g}"


def state_table(states: "StateTable") -> str:
    """Return the table of a machine's idle states, as the model knows them."""
    model = model_of(states)
    source = "derived, illustrative" if model.derived else "as recorded"
    heads = [
        table_head("Idle state"),
        table_head("Exit latency", "us"),
        table_head("Target residency", "us"),
        table_head("Power", f"mW, {source}"),
        table_head("Price of an entry", "uJ"),
        table_head("Polling"),
    ]
    rows = [
        [
            table_cell(escape(name)),
            table_cell(_us(states.exit_latency_ns[k])),
            table_cell(_us(states.target_residency_ns[k])),
            table_cell(f"{model.power_mw[k]:{'.0f' if model.derived else '.10g'}}"),
            table_cell(f"{model.entry_pj[k] / 1e6:,.3f}"),
            table_cell("yes" if states.polling[k] else ""),
        ]
        for k, name in enumerate(states.names)
    ]
    return table(heads, rows)


def definition_list(metrics: "Iterable[Metric]") -> str:
    """Return the list of what figures mean."""
    return "\n".join(
        f"<dt>{escape(m.title)}{f', {escape(m.unit)}' if m.unit else ''}</dt>"
        f"<dd>{escape(m.description)}</dd>"
        for m in metrics
    )


def embedded(charts: Sequence[Chart]) -> str:
    """Return the charts as JSON that may stand in a script element."""
    figures = [
        {"key": c.key, "data": c.data, "layout": c.layout, "height": c.height} for c in charts
    ]
    # "<" would let a name in a trace close the script element.
    return json.dumps(figures, separators=(",", ":")).replace("<", "\\u003c")


def pictures(charts: Sequence[Chart]) -> Part:
    """Return the section of the charts."""
    cards = "\n".join(chart_card(chart) for chart in charts)
    return Part("pictures", "Pictures", f'<div class="grid">\n{cards}\n</div>', headed=False)


def meanings(metrics: "Iterable[Metric]") -> Part:
    """Return the section that says what figures mean."""
    listed = f'<div class="card"><dl>\n{definition_list(metrics)}\n</dl></div>'
    return Part("definitions", "What the figures mean", listed)


def summary(title: str, caption: str, content: str) -> Part:
    """Return the section at the top, which the navigation leaves out."""
    card = f'<div class="card wide"><h3>{title}</h3>\n<p>{caption}</p>\n{content}</div>'
    return Part("summary", "", f'<div class="grid">{card}</div>', headed=False)


def _drawing_code(charts: Sequence[Chart]) -> str:
    """Return what draws the charts: nothing without any, so that such a page needs no package."""
    if not charts:
        return ""
    if found := shipped(DRAWING):
        return found.read_text(encoding="utf-8")
    # plotly.offline has the same text, and imports all of plotly first.
    text = pkgutil.get_data("plotly", f"package_data/{DRAWING}")
    assert text is not None
    return text.decode("utf-8")


def render(
    command: str,
    heading: str,
    facts: str,
    parts: Sequence[Part],
    charts: Sequence[Chart],
    footer: str,
) -> str:
    """Return a page.

    Args:
        command: of cpuidle-lab that makes it.
        heading: plain text.
        facts: HTML below the heading.
        parts: from top to bottom.
        charts: those of pictures().
        footer: HTML behind the version.
    """
    links = "".join(f'<a href="#{part.key}">{part.title}</a>' for part in parts if part.title)
    return Template((HERE / "page.html").read_text(encoding="utf-8")).substitute(
        generator=generator(command),
        kind=command,
        title=f"{escape(heading)}: cpuidle-lab {command}",
        heading=escape(heading),
        facts=facts,
        css=(HERE / "page.css").read_text(encoding="utf-8"),
        links=links,
        parts="\n".join(part.html() for part in parts),
        footer=f"cpuidle-lab {__version__}, {footer}",
        charts=embedded(charts),
        plotly=_drawing_code(charts),
        script=(HERE / "page.js").read_text(encoding="utf-8"),
    )
