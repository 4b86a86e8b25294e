# SPDX-License-Identifier: GPL-2.0
"""A comparison as a page."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from cpuidle_lab.compare.charts import all_charts
from cpuidle_lab.compare.compare_text import first_replayed, title_of
from cpuidle_lab.compare.figures import (
    Line,
    best_line,
    definitions,
    headline,
    is_worse,
    lines,
    notes,
    show,
    show_mean,
    show_range,
    show_regret,
)
from cpuidle_lab.compare.model import Comparison, Result
from cpuidle_lab.compare.sources import Source
from cpuidle_lab.compare.worst import Bad
from cpuidle_lab.host.sysfs import cpu_list
from cpuidle_lab.replay.candidates import BEST_KIND, BEST_MAINLINE, LIMIT_KIND, RECORDED_KIND
from cpuidle_lab.states.table import StateTable
from cpuidle_lab.view import html_page as base
from cpuidle_lab.view.drawing import Chart
from cpuidle_lab.view.html_page import Part

COMMAND = "compare"
GENERATOR = base.generator(COMMAND)

_LIMITS = Path(__file__).parent / "limits.html"

_COLUMNS = (
    "latency_p50_us",
    "latency_p99_us",
    "latency_max_us",
    "above",
    "below",
    "tick_wakeups",
    "instructions",
)
# Kinds that stand below the governors that can be run.
_BELOW = (BEST_KIND, LIMIT_KIND)
# Kinds that are no candidates: what happened, and the above.
_APART = (RECORDED_KIND, *_BELOW)
_BESTS = ("latency_p50_us", "latency_p99_us", "latency_max_us", "instructions")


def _cell(key: str, value: float | None, best: float | None) -> str:
    if value is None:
        return base.table_cell("", "unknown")
    text = show(key, value)
    return base.table_cell(text, "best" if best is not None and text == show(key, best) else "")


def _regret_cell(text: str, value: float | None, best: float | None) -> str:
    """Return a cell for a regret or its range."""
    if value is None:
        return base.table_cell("", "unknown")
    return base.table_cell(text, "best" if best is not None and value <= best else "")


def _name(label: str) -> str:
    """Return a governor's label, with places where a line may end."""
    return escape(label).replace(" ", "&nbsp;").replace(":", ":<wbr>")


def _heads(keys: Sequence[str]) -> list[str]:
    known = definitions()
    return [base.table_head(known[key].title, known[key].unit) for key in keys]


def _regret_cells(line: Line, found: Sequence[Line], several: bool) -> list[str]:
    best_mean = base.best_of(item.mean_regret for item in found)
    best_worst = base.best_of(item.worst_regret for item in found)
    mean = _regret_cell(show_mean(line), line.mean_regret, best_mean)
    if not several:
        return [mean]
    lost = line.lost_to_mainline
    return [
        mean,
        base.table_cell(show_range(line.low, line.high)),
        base.table_cell(show_range(line.least_regret, line.worst_regret)),
        _cell("worst_regret", line.worst_regret, best_worst),
        base.table_cell(escape(line.worst_trace), "text"),
        base.table_cell("" if lost is None or line.kind in _BELOW else str(lost)),
    ]


def _summary(comparison: Comparison, found: Sequence[Line]) -> str:
    several = len(comparison.sources) > 1
    real = [line for line in found if line.kind not in _APART]
    regrets = _heads(["mean_regret" if several else "regret"])
    if several:
        regrets += _heads(["regret_interval", "regret_spread", "worst_regret"])
        regrets += [base.table_head("on", kind="text"), *_heads(["lost_to_mainline"])]
    columns = [key for key in _COLUMNS if comparison.counted or key != "instructions"]
    rows = []
    ruled = {first_replayed(comparison, list(found))} - {0}
    below = [n for n, line in enumerate(found) if line.kind in _BELOW]
    ruled |= set(below[:1])
    best = {key: base.best_of(line.values[key] for line in real) for key in _BESTS}
    for n, line in enumerate(found):
        mine = line in real
        kind = "limit" if line.kind in _BELOW else ""
        kind += " rule" * (n in ruled)
        cells = [base.table_cell(_name(title_of(comparison, line)))]
        cells += _regret_cells(line, real if mine else [], several)
        cells += [_cell(key, line.values[key], best.get(key) if mine else None) for key in columns]
        rows.append((kind, cells))
    heads = [base.table_head("Governor"), *regrets, *_heads(columns)]
    return base.table(heads, (cells for _, cells in rows), (kind for kind, _ in rows))


def _trace_cells(comparison: Comparison, source: Source, found: Sequence[Line]) -> list[str]:
    results = [comparison.results[source.label, line.label] for line in found]
    best = base.best_of(item.regret for item in results if item.kind not in _APART)
    cells = []
    for result in results:
        text = escape(show_regret(result))
        kind = ""
        if result.kind == BEST_KIND:
            better = result.governor.partition("@")[0] if result.regret is not None else ""
            text += f" <span class='soft'>{escape(better)}</span>" * bool(better)
        elif result.kind == RECORDED_KIND:
            text += f" <span class='soft'>{escape(result.governor)}</span>"
        elif result.kind != LIMIT_KIND:
            lost = is_worse(comparison, result)
            is_best = best is not None and show("regret", result.regret) == show("regret", best)
            kind = "best" if is_best else "lost" if lost else ""
        cells.append(base.table_cell(text, kind))
    return cells


def _traces(comparison: Comparison, found: Sequence[Line]) -> str:
    heads = [base.table_head("Recording"), base.table_head("Intervals")]
    names = [f"<th>{_name(title_of(comparison, line))}</th>" for line in found]
    rows = [
        [
            base.table_cell(escape(source.label)),
            base.table_cell(f"{source.intervals:,}"),
            *_trace_cells(comparison, source, found),
        ]
        for source in comparison.sources
    ]
    latencies = [
        [
            base.table_cell(escape(source.label)),
            *(
                base.table_cell(show("latency_p99_us", result.outcome.latency_us(0.99)))
                for result in (comparison.results[source.label, line.label] for line in found)
            ),
        ]
        for source in comparison.sources
    ]
    amber = "; amber: worse than the best mainline" if _has_mainline(comparison) else ""
    return (
        f'<div class="card table"><h3>Regret, %</h3><p>Green: the best governor{amber}.</p>'
        f"{base.table([*heads, *names], rows)}</div>"
        f'<div class="card table"><h3>Wake-up latency p99, us</h3>'
        f"{base.table([heads[0], *names], latencies)}</div>"
    )


def _has_mainline(comparison: Comparison) -> bool:
    return BEST_MAINLINE in comparison.governors


def _us(value: float | None, otherwise: str) -> str:
    return (
        base.table_cell(otherwise, "unknown") if value is None else base.table_cell(f"{value:,.1f}")
    )


def _bad_cells(bad: Bad) -> list[str]:
    tick = "tick stopped" if bad.stop_tick else "tick kept"
    text = "text"
    return [
        base.table_cell(f"{bad.excess_uj:,.2f}"),
        base.table_cell(f"{bad.time_s:.6f}"),
        base.table_cell(str(bad.cpu)),
        base.table_cell(f"{bad.length_us:,.1f}"),
        _us(bad.timer_us, "none"),
        _us(bad.tick_us, "unknown"),
        _us(bad.latency_req_us, "any"),
        base.table_cell(escape(" ".join(bad.disabled)), text),
        base.table_cell(f"{escape(bad.chosen)} <span class='soft'>{tick}</span>", text),
        base.table_cell(escape(bad.reason), text),
        base.table_cell(str(bad.decisions)),
        base.table_cell(escape(bad.last), text),
        base.table_cell(escape(bad.ideal), text),
    ]


def _bad_part(result: Result) -> str:
    rows = "\n".join(f"<tr>{''.join(_bad_cells(bad))}</tr>" for bad in result.worst)
    empty = '<tr><td class="text" colspan="13">No decision lost anything.</td></tr>'
    return (
        f'<tbody data-trace="{escape(result.trace)}" data-governor="{escape(result.label)}">'
        f"{rows or empty}</tbody>"
    )


def _pick(name: str, title: str, options: Sequence[str], first: str) -> str:
    choices = "".join(
        f"<option{' selected' if option == first else ''}>{escape(option)}</option>"
        for option in options
    )
    return f'<label>{title} <select id="pick-{name}">{choices}</select></label>'


def _worst(comparison: Comparison, found: Sequence[Line]) -> str:
    if not comparison.bad:
        return "<p class='soft'>Not kept (--worst 0).</p>"
    labels = [line.label for line in found if line.kind not in _BELOW]
    best = best_line(found) or found[0]
    results = [comparison.results[s.label, name] for s in comparison.sources for name in labels]
    heads = [
        base.table_head("Lost", "uJ"),
        base.table_head("Time", "s"),
        base.table_head("CPU"),
        base.table_head("Length", "us"),
        base.table_head("Next timer in", "us"),
        base.table_head("Next tick in", "us"),
        base.table_head("Latency request", "us"),
        base.table_head("Disabled", kind="text"),
        base.table_head("Chosen", kind="text"),
        base.table_head("Reason", kind="text"),
        base.table_head("Decisions"),
        base.table_head("Woken from", kind="text"),
        base.table_head("Ideal", kind="text"),
    ]
    traces = [source.label for source in comparison.sources]
    return (
        f'<div class="pick">{_pick("governor", "Governor", labels, best.label)}'
        f"{_pick('trace', 'Recording', traces, best.worst_trace)}</div>"
        f'<div class="scroll"><table><thead><tr>{"".join(heads)}</tr></thead>'
        f"{''.join(_bad_part(result) for result in results)}</table></div>"
    )


def _state_tables(comparison: Comparison) -> str:
    kinds: dict[StateTable, list[str]] = {}
    for source in comparison.sources:
        for table in dict.fromkeys(source.state_tables.values()):
            cpus = [cpu for cpu, one in source.state_tables.items() if one == table]
            kinds.setdefault(table, []).append(f"{source.label}, CPU {cpu_list(cpus)}")
    return "".join(
        f'<div class="card table"><h3>{escape(", ".join(names))}</h3><p class="soft">tick every '
        f"{table.tick_ns / 1e6:g} ms</p>{base.state_table(table)}</div>"
        for table, names in kinds.items()
    )


def _facts(comparison: Comparison) -> str:
    sources = comparison.sources
    count = sum(source.intervals for source in sources)
    real = [name for name, kind in comparison.governors.items() if kind not in
            _APART]  # fmt: skip
    return (
        f"{len(real)} governors replayed on {len(sources)} recording{'s' * (len(sources) != 1)}, "
        f"{count:,} idle intervals. All energy is modelled, not measured."
    )


def render(comparison: Comparison, further: Sequence[tuple[Part, Sequence[Chart]]] = ()) -> str:
    """Return the page.

    Args:
        comparison: the figures.
        further: sections with their charts, behind the recordings.
    """
    found = lines(comparison)
    charts = all_charts(comparison)
    remarks = "".join(f"<li>{escape(note)}.</li>" for note in notes(comparison))
    listed = f"<ul class='soft'>{remarks}</ul>" if remarks else ""
    caption = (
        "Regret: modelled idle energy above that of an oracle that knows the future. The least "
        "mean regret first; green is the best governor of its column. Grey: what no kernel can "
        "run. Each recording counts the same. The row recorded is what happened. Two regrets are a "
        "range: recordings leave sleep lengths open. Where ranges overlap, no order is told."
    )
    told = (
        "The intervals in which most energy was lost against the oracle, with what the governor "
        "could know at its first decision, and the step of its algorithm that decided; kernel "
        "governors do not tell it."
    )
    worst = f'<div class="card table"><p>{told}</p>\n{_worst(comparison, found)}</div>'
    parts = [
        base.summary("All governors", caption, f"{_summary(comparison, found)}\n{listed}"),
        Part("traces", "By recording", _traces(comparison, found)),
        base.pictures(charts),
        *(part for part, _ in further),
        Part("worst", "Worst decisions", worst),
        Part("limits", "What replay cannot know", _LIMITS.read_text(encoding="utf-8").rstrip()),
        Part("machines", "Machines", _state_tables(comparison)),
        base.meanings(definitions().values()),
    ]
    footer = f"{escape(comparison.start)}: <code>{escape(comparison.command)}</code>"
    facts = f'<p class="facts">{escape(_facts(comparison))}</p>'
    drawn = [*charts, *(chart for _, mine in further for chart in mine)]
    return base.render(COMMAND, headline(comparison), facts, parts, drawn, footer)
