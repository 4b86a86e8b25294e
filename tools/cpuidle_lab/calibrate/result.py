# SPDX-License-Identifier: GPL-2.0
"""Results of a calibration: as text, JSON, a page, and a machine file."""

import json
import math
from dataclasses import dataclass
from html import escape
from typing import Any

from cpuidle_lab.base.version import __version__
from cpuidle_lab.calibrate.measure import OTHERS, WAYS
from cpuidle_lab.calibrate.model import State, Value, latencies
from cpuidle_lab.view.html_page import Part, render, table, table_cell, table_head

# Target residency in the machine file of a state that never pays, us.
NEVER_US = 1_000_000
# The least power that a machine file can have.
_LEAST_MW = 0.001

# Beginning of a machine file.
MACHINE_MARK = "# Idle states as measured by cpuidle-lab calibrate"

HEAD = (
    "state", "exit latency us", "measured", "p99", "by timer", "by IPI", "another core awake",
    "target residency us", "break-even us", "against", "power mW", "entry uJ",
)  # fmt: skip


@dataclass(frozen=True)
class Calibration:
    """A calibration.

    Attributes:
        states: the states, measured.
        kernel: release of the kernel.
        driver: the idle driver.
        cpus: number of CPUs.
        hz: scheduler ticks per second; None: unknown.
        busy_mw: power of a CPU that does not sleep; None without an energy counter.
        zones: the energy counters.
        load: part of the time that the CPUs were busy before.
        notes: what a reader must know.
    """

    states: list[State]
    kernel: str
    driver: str
    cpus: int
    hz: int | None
    busy_mw: float | None
    zones: tuple[str, ...]
    load: float
    notes: list[str]

    def latency(self, state: State) -> tuple[float, float] | None:
        """Return median and p99 of a state's exit latency: the later of timer and IPI.

        None where the CPUs were in another state.
        """
        if not state.entered:
            return None
        found = [latencies(state, self.states[0], f"{way} asleep") for way in WAYS]
        known = [each for each in found if each]
        return max(known) if known else None

    def target_us(self, state: State) -> float:
        """Return the target residency for the machine file."""
        if state.never_pays:
            return max(NEVER_US, state.table_target_us)
        return state.break_even_us.value if state.break_even_us else state.table_target_us


def _shown(value: Value | None, scale: float = 1, digits: int = 1) -> str:
    if value is None:
        return "?"
    half = "" if math.isinf(value.half) else f" ± {value.half / scale:,.{digits}f}"
    return f"{value.value / scale:,.{digits}f}{half}"


def _one(found: tuple[float, float] | None) -> str:
    return f"{found[0]:,.1f}" if found else "?"


def rows(result: Calibration) -> list[list[str]]:
    """Return a row of HEAD for each state."""
    found = []
    for state in result.states:
        ways = {
            (way, kind): latencies(state, result.states[0], f"{way} {kind}")
            for way in WAYS
            for kind in OTHERS
        }
        latency = result.latency(state)
        found.append(
            [
                state.name,
                f"{state.table_latency_us:g}",
                _one(latency),
                f"{latency[1]:,.1f}" if latency else "?",
                _one(ways["timer", "asleep"]),
                _one(ways["ipi", "asleep"]),
                " / ".join(_one(ways[way, "awake"]) for way in WAYS),
                f"{state.table_target_us:g}",
                "never pays" if state.never_pays else _shown(state.break_even_us),
                state.pays_against,
                _shown(state.power_mw),
                _shown(state.entry_nj, 1000, 2),
            ]
        )
    return found


def as_text(result: Calibration) -> str:
    """Return the driver's table beside the measured one, as text."""
    table = [list(HEAD), *rows(result)]
    widths = [max(len(row[n]) for row in table) for n in range(len(HEAD))]
    lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in table]
    return "\n".join([*lines, *result.notes]) + "\n"


def as_page(result: Calibration) -> str:
    """Return the same as an HTML page."""
    cells = [[table_cell(escape(cell)) for cell in row] for row in rows(result)]
    kinds = ["off" if state.never_pays else "" for state in result.states]
    states = table([table_head(name) for name in HEAD], cells, kinds)
    parts = [Part("states", "Idle states", f'<div class="card wide">{states}</div>')]
    if result.notes:
        notes = "".join(f"<li>{escape(note)}</li>" for note in result.notes)
        parts.append(Part("notes", "Notes", f'<div class="card wide"><ul>{notes}</ul></div>'))
    where = escape(f"{result.driver}, Linux {result.kernel}, {result.cpus} CPUs")
    return render(
        "calibrate",
        "Idle states: the driver's table and the measured one",
        f'<p class="facts">{where}</p>',
        parts,
        [],
        "±: half the width of the 95 % interval",
    )


def as_json(result: Calibration) -> dict[str, Any]:
    """Return everything as one object; null where something is unknown."""

    def known(value: Value | None) -> dict[str, float | None] | None:
        if value is None:
            return None
        half = None if math.isinf(value.half) else value.half
        return {"value": value.value, "half_width_95": half}

    states = []
    for state in result.states:
        each = {
            f"{way} {kind}": latencies(state, result.states[0], f"{way} {kind}")
            for way in WAYS
            for kind in OTHERS
        }
        states.append(
            {
                "name": state.name,
                "table": {
                    "exit_latency_us": state.table_latency_us,
                    "target_residency_us": state.table_target_us,
                },
                "exit_latency_us": {
                    way: {"p50": found[0], "p99": found[1]} if found else None
                    for way, found in each.items()
                },
                "power_mw": known(state.power_mw),
                "entry_nj": known(state.entry_nj),
                "break_even_us": known(state.break_even_us),
                "pays_against": state.pays_against,
                "never_pays": state.never_pays,
                "share": state.share,
                "hardware_shares": dict(state.hardware),
                "demoted": None
                if state.demoted is None
                else {"share": state.demoted[0], "due": state.demoted[1]},
            }
        )
    return {
        "command": "calibrate",
        "version": __version__,
        "kernel": result.kernel,
        "driver": result.driver,
        "cpus": result.cpus,
        "hz": result.hz,
        "zones": list(result.zones),
        "busy_mw": result.busy_mw,
        "load": result.load,
        "states": states,
        "notes": result.notes,
    }


def as_machine(result: Calibration) -> str:
    """Return the machine file: YAML that commands take as a machine.

    Times never fall from one state to the next, and powers never rise, as every state table has
    it. Unless every state has a power, they stand in comments.
    """
    lines = [
        f"{MACHINE_MARK} {__version__}",
        f"# on {result.driver}, Linux {result.kernel}",
        *(f"# {note}" for note in result.notes),
        *([f"hz: {result.hz}"] if result.hz else []),
        "states:",
    ]
    latency_us = target_us = 0.0
    powers = [state.power_mw for state in result.states]
    with_power = all(power and power.value >= _LEAST_MW for power in powers)
    power_mw = math.inf
    for n, state in enumerate(result.states):
        found = result.latency(state)
        if n == 0 and state.table_latency_us == 0:
            mine, due = 0.0, 0.0
        else:
            mine = found[0] if found else state.table_latency_us
            due = result.target_us(state)
        latency_us = max(latency_us, mine)
        target_us = max(target_us, due, latency_us)
        entry = {
            "name": state.name,
            "exit_latency_us": round(latency_us, 1),
            "target_residency_us": round(target_us, 1),
        }
        measured = round(state.power_mw.value, 3) if state.power_mw else None
        if with_power and measured:
            # A state that draws more than a shallower one never pays: it counts as equal.
            power_mw = entry["power_mw"] = min(power_mw, measured)
        if n == 0 and state.table_latency_us == 0:
            entry["polling"] = True
        text = ", ".join(f"{name}: {json.dumps(value)}" for name, value in entry.items())
        remarks = ["never pays"] if state.never_pays else []
        if measured is not None and measured != entry.get("power_mw"):
            remarks.append(f"measured {measured} mW")
        lines.append(f"  - {{{text}}}" + (f"  # {', '.join(remarks)}" if remarks else ""))
    return "\n".join(lines) + "\n"
