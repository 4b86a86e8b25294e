# SPDX-License-Identifier: GPL-2.0
"""The gate's comparison as tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console

from cpuidle_lab.view.terminal import console, grid
from experiments.gate.guest import CONDITIONS, MENU, OURS

TITLES = {each.name: each.title for each in CONDITIONS}

_HEADS = (
    "condition",
    "wake-\nups",
    "exit latency, us\np50 / p99 / max",
    "end to end, us\nmean / p50 / p99 / max",
    "mean,\nto menu",
    "trans-\nactions",
    "power,\nmW",
    "to\nmenu",
    "RFC's: mean,\nms",
    "to\nmenu",
    "trans-\nactions",
    "power,\nW",
    "to\nmenu",
)


def number(value: float | None, digits: int = 0) -> str:
    """Return a number as people read it; a question mark where there is none."""
    return "?" if value is None else f"{value:,.{digits}f}"


def table(
    out: Console,
    title: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    left: Sequence[int],
) -> None:
    """Print a table; columns are aligned to the right but for those in `left`."""
    right = [place not in left for place in range(len(heads))]
    out.print(grid(out, title, list(zip(heads, right, strict=True)), rows))


def gate_costs(out: Console, part: Mapping[str, Any]) -> None:
    """Print what the gate adds to a decision.

    Args:
        out: where to print.
        part: as of decisions.measure().
    """
    title = (
        f"select in the kernel {part['kernel']}, learning from the last period and the tick's "
        f"answer included; {part['workload']} on {part['machine']}; instructions"
    )
    heads = ("case", "mean", "median", "max", "decisions", f"gate adds to {part['base']}")
    cells = [
        (
            case["case"],
            number(case["mean"]),
            number(case["median"]),
            number(case["max"]),
            number(case["decisions"]),
            "" if case["added"] is None else f"{case['added']:+,.0f}",
        )
        for case in part["cases"]
    ]
    table(out, title, heads, cells, (0,))


def switch_costs(out: Console, part: Mapping[str, Any]) -> list[bool | None]:
    """Print what hints add to a context switch; return whether the targets are met.

    Args:
        out: where to print.
        part: as of switches.measure().
    """
    title = f"a context switch in the kernel {part['kernel']}, pipes included; instructions"
    heads = ("case", "median", "hints add", "at most")
    met = [case["added"] <= case["most"] for case in part["cases"] if case["most"] is not None]
    cells = [
        (
            case["title"],
            number(case["instructions"], 1),
            f"{case['added']:+,.1f}",
            "" if case["most"] is None else number(case["most"]),
        )
        for case in part["cases"]
    ]
    table(out, title, heads, cells, (0,))
    return list(met)


def _micros(found: Mapping[str, float]) -> str:
    return " / ".join(number(value / 1e3, 0) for value in found.values())


def _change(value: float | None) -> str:
    return "" if value is None else f"{100 * value:+.0f} %"


def _known(value: float | None, digits: int = 0) -> str:
    return "" if value is None else number(value, digits)


def _row(title: str, cell: Mapping[str, Any], menu: Mapping[str, Any]) -> tuple[str, ...]:
    mean, power = cell["end_to_end_ns"]["mean"], cell["power_mw"]["1"]
    stock = cell["condition"] == MENU
    latency_change = None if stock else mean / menu["end_to_end_ns"]["mean"] - 1
    power_change = None if stock else power / menu["power_mw"]["1"] - 1
    published = cell["published"] or {}
    return (
        title,
        number(cell["wakeups"]),
        _micros(cell["exit_ns"]),
        _micros(cell["end_to_end_ns"]),
        _change(latency_change),
        number(cell["transactions"]),
        number(power),
        _change(power_change),
        _known(published.get("latency_ms"), 3),
        "" if stock else _change(published.get("latency")),
        _known(published.get("transactions")),
        _known(published.get("watts"), 1),
        "" if stock else _change(published.get("power")),
    )


def _word(met: bool | None) -> str:
    return {True: "met", False: "MISSED", None: "unknown"}[met]


def _targets(out: Console, title: str, targets: Sequence[Mapping[str, Any]]) -> None:
    heads = ("target", "value", "at most", "")
    cells = [
        (
            each["target"],
            number(each["value"], 2),
            number(each["limit"], 2),
            _word(each["met"]),
        )
        for each in targets
    ]
    table(out, title, heads, cells, (0, 3))


def _limit(decision: Mapping[str, Any]) -> str:
    return "none" if decision["hint_ns"] < 0 else number(decision["hint_ns"] / 1e3)


def _missed(out: Console, work: Mapping[str, Any]) -> None:
    """Print which decisions missed a target: those for the worst wake-ups, or that cost most."""
    missed = [each["target"] for each in work["targets"] if each["met"] is False]
    cell = work["cells"][OURS]
    title = TITLES[OURS]
    if any("latency" in target for target in missed):
        heads: tuple[str, ...] = (
            "at, s", "CPU", "task", "state", "exit latency, us", "limit, us", "reason"
        )  # fmt: skip
        rows = [
            (
                f"{each['time_s']:.6f}",
                str(each["cpu"]),
                str(each["pid"]),
                each["state"],
                number(each["exit_ns"] / 1e3),
                _limit(each),
                each["reason"],
            )
            for each in cell["worst"]
        ]
        table(out, f"{title}: decisions before the slowest wake-ups", heads, rows, (3, 6))
    if any("energy" in target for target in missed):
        heads = ("state", "limit, us", "reason", "decisions", "time, s")
        kinds = [
            (
                each["state"],
                _limit(each),
                each["reason"],
                number(each["decisions"]),
                number(each["time_ns"] / 1e9, 2),
            )
            for each in cell["costly"]
        ]
        table(
            out, f"{title}: decisions under a hint, those of most time first", heads, kinds, (0, 2)
        )


def show(parts: Mapping[str, Mapping[str, Any]]) -> None:
    """Print every part that was measured.

    Args:
        parts: gating, as of figures.measure(), gate, as of decisions.measure(), and switches, as of
            switches.measure().
    """
    out = console()
    judged: list[bool | None] = []
    for found in parts["gating"]["machines"]:
        for work in found["works"]:
            cells = work["cells"]
            rows = [_row(TITLES[name], each, cells[MENU]) for name, each in cells.items()]
            limit = f"hint {work['limit_us']} us; all in virtual time, power modelled"
            title = (
                f"{work['title']} on {found['machine']}, {parts['gating']['cpus']} CPUs; {limit}"
            )
            table(out, title, _HEADS, rows, (0,))
            _targets(out, f"Targets; {work['title']} on {found['machine']}", work["targets"])
            _missed(out, work)
            judged += [each["met"] for each in work["targets"]]
    gate_costs(out, parts["gate"])
    _targets(out, "Targets; what the gate costs", parts["gating"]["cost_targets"])
    judged += [each["met"] for each in parts["gating"]["cost_targets"]]
    judged += switch_costs(out, parts["switches"])
    out.print(f"{judged.count(True)} of {len(judged)} targets met, {judged.count(False)} missed")
