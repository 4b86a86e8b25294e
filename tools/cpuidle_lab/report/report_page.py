# SPDX-License-Identifier: GPL-2.0
"""The report as a page."""

from collections.abc import Sequence
from html import escape

from cpuidle_lab.crossval import trust
from cpuidle_lab.figures.group import NO_REGRET, Group
from cpuidle_lab.figures.metrics import definitions, scalars
from cpuidle_lab.recording.trace import Trace, losses
from cpuidle_lab.report.bars import state_colours
from cpuidle_lab.report.charts import all_charts
from cpuidle_lab.report.model import Report, known_columns
from cpuidle_lab.states.table import StateTable
from cpuidle_lab.view.drawing import Chart
from cpuidle_lab.view.html_page import (
    Part,
    best_of,
    generator,
    meanings,
    pictures,
    state_table,
    summary,
    table,
    table_cell,
    table_head,
)
from cpuidle_lab.view.html_page import render as page

COMMAND = "report"
GENERATOR = generator(COMMAND)

# Figures that are better when they are lower, and so have a best one worth marking.
_LOWER_IS_BETTER = ("regret", "power_mw", "latency_p99_us")

# The figures of the tables, in this order; the rest is in the JSON.
_MAIN = (
    "regret",
    "power_mw",
    "oracle_mw",
    "measured_mj",
    "measured_mw",
    "emulated_mj",
    "emulated_mw",
    "latency_p50_us",
    "latency_p99_us",
    "latency_max_us",
    "idle_share",
    "periods",
    "decisions_per_s",
    "tick_wakeups",
    "aborted",
    "above",
    "below",
)


def _value(key: str, value: float | None, best: float | None = None) -> str:
    if value is None:
        return table_cell("?", "unknown")
    text = definitions()[key].show(value)
    same = best is not None and text == definitions()[key].show(best)
    return table_cell(text, "best" if same else "")


def _summary(report: Report) -> str:
    lines = report.summaries()
    best_mean = best_of(line.mean_regret for line in lines)
    best_worst = best_of(line.worst_regret for line in lines)
    best_p99 = best_of(line.worst_p99_us for line in lines)
    heads = [
        table_head("Governor"),
        table_head("Worst regret", "%"),
        table_head("in workload", kind="text"),
        table_head("Mean regret", "%"),
        table_head("Worst wake-up latency p99", "us"),
        table_head("Workloads judged"),
    ]
    rows = [
        [
            table_cell(escape(line.governor)),
            _value("regret", line.worst_regret, best_worst),
            table_cell(escape(line.worst_workload), "text"),
            _value("regret", line.mean_regret, best_mean),
            _value("latency_p99_us", line.worst_p99_us, best_p99),
            table_cell(str(line.workloads)),
        ]
        for line in lines
    ]
    return table(heads, rows)


def _main_table(groups: Sequence[Group]) -> str:
    metrics = definitions()
    judged = [g for g in groups if g.judged_regret is not None or g.values["regret"] is None]
    best = {key: best_of(group.values[key] for group in judged) for key in _LOWER_IS_BETTER}
    keys = known_columns(_MAIN, groups)
    heads = [
        table_head("Governor"),
        *(table_head(metrics[key].title, metrics[key].unit) for key in keys),
    ]
    rows = [
        [
            table_cell(escape(group.governor)),
            *(_value(key, group.values[key], best.get(key)) for key in keys),
        ]
        for group in groups
    ]
    return table(heads, rows)


def _state_table(groups: Sequence[Group], colours: dict[str, str]) -> str:
    names = list(dict.fromkeys(name for group in groups for name in group.names))
    heads = [table_head("Governor")] + [
        f'<th><span class="swatch" style="background:{colours[name]}"></span>{escape(name)}<br>'
        '<span class="soft">% time · % entries</span></th>'
        for name in names
    ]
    rows = []
    for group in groups:
        time, count = sum(group.residency_ns), sum(group.entries)
        cells = dict.fromkeys(names, table_cell(""))
        for name, ns, entries in zip(group.names, group.residency_ns, group.entries, strict=True):
            share = 100 * ns / time if time else 0
            often = 100 * entries / count if count else 0
            cells[name] = table_cell(f"{share:.1f} · {often:.1f}")
        rows.append([table_cell(escape(group.governor)), *cells.values()])
    return table(heads, rows)


def _zone_table(name: str, groups: Sequence[Group]) -> str:
    """Return the energy by zone; nothing where the counters were not read."""
    zones = {zone.zone: zone for group in groups for zone in group.zones}
    if not zones:
        return ""
    heads = [table_head("Governor")] + [
        f"<th>{escape(zone.zone)}<br>{escape(zone.name)}<br>"
        f'<span class="soft">{escape(zone.role)}<br>mJ · mW</span></th>'
        for zone in zones.values()
    ]
    rows = []
    for group in groups:
        cells = dict.fromkeys(zones, table_cell("unknown", "unknown"))
        for zone in group.zones:
            if zone.energy_mj is not None and zone.power_mw is not None:
                cells[zone.zone] = table_cell(f"{zone.energy_mj:,.1f} · {zone.power_mw:,.1f}")
        rows.append([table_cell(escape(group.governor)), *cells.values()])
    return f"<h3>{escape(name)}: energy counters</h3>{table(heads, rows)}"


def _notes(groups: Sequence[Group]) -> str:
    names = dict.fromkeys(group.workload for group in groups)
    known_errors = [text for name in names if (text := trust.known_error(name))]
    lines = [
        f"<li>{escape(group.governor)}: {escape(note)}.</li>"
        for group in groups
        for note in group.notes
    ]
    lines += [f"<li>{escape(known)}.</li>" for known in known_errors]
    lines += [
        f"<li>{escape(group.governor)}: {escape(group.unjudged)}, so not in the summary.</li>"
        for group in groups
        if group.unjudged not in {"", NO_REGRET}
    ]
    return f"<ul class='soft'>{''.join(lines)}</ul>" if lines else ""


def _tables(report: Report) -> str:
    colours = state_colours(report)
    return "\n".join(
        f'<div class="card table"><h3>{escape(name)}</h3>{_main_table(groups)}'
        f"<h3>{escape(name)}: idle states</h3>{_state_table(groups, colours)}"
        f"{_zone_table(name, groups)}{_notes(groups)}</div>"
        for name, groups in report.sections().items()
    )


def _cpus(cpus: Sequence[int]) -> str:
    return f"CPU {cpus[0]}" if len(cpus) == 1 else f"CPUs {', '.join(map(str, cpus))}"


def _state_tables(item: Trace) -> str:
    kinds: dict[StateTable, list[int]] = {}
    for cpu, states in sorted(item.state_tables.items()):
        kinds.setdefault(states, []).append(cpu)
    return "".join(
        f"<p class='soft'>{_cpus(cpus)}; tick every "
        f"{states.tick_ns / 1e6:g} ms</p>{state_table(states)}"
        for states, cpus in kinds.items()
    )


def _settings(item: Trace) -> str:
    config = item.tables["config"]
    rows = []
    if config.height:
        seen = config.unique(["governor", "base", "tunables"], maintain_order=True)
        for governor, base, tunables in seen.select("governor", "base", "tunables").rows():
            name = item.name_of("config", "governor", governor)
            rows.append(
                [
                    table_cell(escape(name)),
                    table_cell(escape(base), "text"),
                    table_cell(f"<code>{escape(tunables)}</code>", "wrap"),
                ]
            )
    if not rows:
        return ""
    heads = [
        table_head("Governor"),
        table_head("base", kind="text"),
        table_head("tunables", kind="text"),
    ]
    return f"<h3>Tunables</h3>{table(heads, rows)}"


def _changes(item: Trace) -> str:
    events = item.tables["tunable"]
    if not events.height:
        return ""
    start = item.first_ns
    heads = [
        table_head("Time", "s"),
        table_head("Governor", kind="text"),
        table_head("Tunable", kind="text"),
        table_head("New value", kind="text"),
    ]
    rows = [
        [
            table_cell(f"{(ts - start) / 1e9:.3f}"),
            table_cell(escape(item.name_of("tunable", "governor", governor)), "text"),
            table_cell(escape(name), "text"),
            table_cell(escape(value), "text"),
        ]
        for ts, governor, name, value in events.sort("ts")
        .select("ts", "governor", "name", "value")
        .head(200)
        .rows()
    ]
    more = (
        f"<p class='soft'>{events.height - 200:,} more are not shown.</p>"
        if events.height > 200
        else ""
    )
    return f"<h3>Changes while recording</h3>{table(heads, rows)}{more}"


def _hints(item: Trace) -> str:
    events = item.tables["hint"]
    if not events.height:
        return ""
    counts = events["what"].value_counts(sort=True).rows()
    text = ", ".join(f"{item.name_of('hint', 'what', what)} {count:,}" for what, count in counts)
    return f"<p class='soft'>Latency hints of tasks: {escape(text)}.</p>"


def _recording(report: Report) -> str:
    cards = []
    for item in report.traces:
        lost = losses(item.integrity)
        state = "" if lost else "<p class='soft'>No event is known to be missing.</p>"
        if said := lost + item.omissions:
            lines = "".join(f"<li>{escape(line)}.</li>" for line in said)
            state += f"<ul class='soft'>{lines}</ul>"
        cards.append(
            f'<div class="card table"><h3>{escape(str(item.path))}</h3>'
            f'<p class="soft">{_facts(item)}; {item.integrity.events:,} events; '
            f"{item.integrity.without_outcome:,} decisions without outcome (normal where a "
            f"governor leaves a CPU)</p>{state}{_state_tables(item)}"
            f"{_settings(item)}{_changes(item)}"
            f"{_hints(item)}</div>"
        )
    return "\n".join(cards)


def _facts(item: Trace) -> str:
    kernel = f"Linux {escape(item.kernel)}, " if item.kernel else ""
    return f"{kernel}{item.cpus} CPU{'s' * (item.cpus != 1)}"


def _badges(report: Report) -> str:
    lost = [line for item in report.traces for line in losses(item.integrity)]
    if lost:
        return f'<p><span class="badge warn">Incomplete: {escape("; ".join(lost))}</span></p>'
    return '<p><span class="badge good">Complete: no lost events</span></p>'


def _energy_line(report: Report) -> str:
    if any(group.values["measured_mj"] is not None for group in report.groups):
        return "Measured energy was read from counters; all other energy is modelled."
    return "All energy is modelled, not measured."


def _shown(part: Report, whole: Report) -> str:
    count, every = len(part.groups), len(whole.groups)
    if count == every:
        return ""
    return (
        f'<p><span class="badge warn">The pictures and tables show the first {count:,} of '
        f"{every:,} runs; --json and --csv have all</span></p>"
    )


def render(report: Report, further: Sequence[tuple[Part, Sequence[Chart]]] = ()) -> str:
    """Return the page.

    Args:
        report: the figures.
        further: sections with their charts, behind the tables.
    """
    shown = report.on_page()
    charts = all_charts(shown)
    many = len(report.governors) > 1
    heading = (
        f"{len(report.governors)} idle governors compared"
        if many
        else f"Idle governor {report.governors[0]}"
    )
    facts = "; ".join(dict.fromkeys(_facts(item) for item in report.traces))
    workloads = len(report.sections())
    counted = f"{workloads} workload{'s' * (workloads != 1)}; {len(report.groups)} runs"
    caption = (
        "Regret: modelled idle energy above that of an oracle that knows the future. Sorted by the "
        "worst workload; green is the best of its column."
    )
    parts = [
        summary("At a glance", caption, _summary(report)),
        pictures(charts),
        Part("tables", "Tables", _tables(shown)),
        *(part for part, _ in further),
        Part("recording", "Recording", _recording(report)),
        meanings(definitions().values()),
    ]
    made = f"{escape(report.start)}: <code>{escape(report.command)}</code>"
    head = f'<p class="facts">{facts}; {counted}</p>\n{_badges(report)}{_shown(shown, report)}'
    drawn = [*charts, *(chart for _, mine in further for chart in mine)]
    return page(COMMAND, heading, head, parts, drawn, f"{made}<br>{_energy_line(report)}")


assert set(_MAIN) <= set(scalars())
