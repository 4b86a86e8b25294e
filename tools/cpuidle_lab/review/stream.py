# SPDX-License-Identifier: GPL-2.0
"""Intervals on a state table, and the plain data ("spec") that they are made from.

A spec holds what a case of experiments/cases has: tick_hz, states, phases, repeat, and conditions.
So a spec is written as a case, and what is played here is what `experiment` plays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cpuidle_lab.recording import synth
from cpuidle_lab.recording.columns import CONTINUED, GAP, NO_STATE, TIMER, Columns
from cpuidle_lab.recording.draw import Draw
from cpuidle_lab.recording.laws import FAR_NS, STREAMS, US, Integers, S
from cpuidle_lab.recording.trace import TIME_MAX
from cpuidle_lab.replay.engine import INTERVAL_TYPES
from cpuidle_lab.replay.law import NEVER, draw
from cpuidle_lab.states.table import StateTable

Spec = dict[str, Any]

# Work between two intervals of a spec.
BUSY_US = 20
# No idle period reaches such a target residency: of states that only suspend enters.
HUGE_US = 4294967295


@dataclass(frozen=True)
class SpecIntervals:
    """Intervals of one CPU.

    Attributes:
        table: its idle states.
        length_ns, timer_ns, busy_ns: (n,) of each interval, and of the work behind it.
        skip: so many at the beginning are played and not counted.
        tick_stopped: the tick stays stopped between intervals, as with nohz_full.
        latency_req_ns: latency request.
        disabled: bit k: state k is disabled.
        recipe: plain data, from which it can be made again.
    """

    table: StateTable
    length_ns: Integers
    timer_ns: Integers
    busy_ns: Integers
    skip: int = 0
    tick_stopped: bool = False
    latency_req_ns: int = TIME_MAX
    disabled: int = 0
    recipe: Mapping[str, Any] | None = None

    @property
    def count(self) -> int:
        """Number of intervals."""
        return len(self.length_ns)


def slack_of(table: StateTable, longest_ns: int) -> int:
    """Return the greatest exit latency of the states that can be worth their while."""
    times = zip(table.exit_latency_ns, table.target_residency_ns, strict=True)
    return max((latency for latency, target in times if target <= longest_ns), default=0)


def columns_of(stream: SpecIntervals) -> Columns:
    """Return a stream as engine.INTERVAL_TYPES has it; the same as replay/law.py makes."""
    count = stream.count
    slack = slack_of(stream.table, int(stream.length_ns.max()))
    spent = stream.length_ns + stream.busy_ns + slack
    flags = np.where(stream.length_ns == stream.timer_ns, GAP | TIMER, GAP)
    if stream.tick_stopped:
        flags = flags & ~GAP | CONTINUED
        flags[0] |= GAP
    values: dict[str, Any] = {
        "start_ns": S + np.cumsum(spent) - spent,
        "length_ns": stream.length_ns,
        "timer_ns": stream.timer_ns,
        "flags": flags,
        "latency_req_ns": np.full(count, stream.latency_req_ns),
        "disabled": np.full(count, stream.disabled),
        "last_index": np.full(count, NO_STATE),
        "tick_phase_ns": np.zeros(count),
        "answers": np.zeros(count),
    }
    return {
        name: np.ascontiguousarray(values.get(name, ()), dtype=kind)
        for name, kind in INTERVAL_TYPES.items()
    }


# ---- Specs ----


def table_of(spec: Spec) -> StateTable:
    """Return the state table of a spec; its powers are derived."""
    states = spec["states"]
    return StateTable(
        names=tuple(str(state[0]).rstrip("*") for state in states),
        exit_latency_ns=tuple(round(state[1] * US) for state in states),
        target_residency_ns=tuple(round(state[2] * US) for state in states),
        power_uw=(0,) * len(states),
        polling=tuple(str(state[0]).endswith("*") for state in states),
        tick_ns=S // spec["tick_hz"],
    )


def states_of(table: StateTable) -> list[list[Any]]:
    """Return the states of a table as a spec has them."""
    rows = zip(table.names, table.exit_latency_ns, table.target_residency_ns, table.polling,
               strict=True)  # fmt: skip
    return [[name + "*" * polls, exit_ns / US, target_ns / US]
            for name, exit_ns, target_ns, polls in rows]  # fmt: skip


def _tiled(phases: Sequence[Mapping[str, Any]], repeat: int) -> list[Any]:
    """Return lengths, timers and busy times of phases whose times are numbers, ns."""
    counts = [phase["count"] for phase in phases]
    far = FAR_NS / US
    found = []
    for name, missing in (("wake_us", NEVER), ("timer_us", far), ("busy_us", BUSY_US)):
        values = [missing if phase.get(name) is None else phase[name] for phase in phases]
        found.append(np.tile(np.repeat(np.array(values, dtype=float) * US, counts), repeat))
    return found


def _drawn(phases: Sequence[Mapping[str, Any]], repeat: int, seed: int) -> list[Any]:
    """Return the same of phases of any times; each phase is drawn for all repeats at once."""
    source = Draw(seed, "review")
    parts: list[list[Any]] = [[], [], []]
    for phase in phases:
        size = phase["count"] * repeat
        for part, name, missing in zip(
            parts, ("wake_us", "timer_us", "busy_us"), (NEVER, FAR_NS / US, BUSY_US), strict=True
        ):
            times = phase.get(name)
            values = np.full(size, missing) if times is None else draw(times, size, source, name)
            part.append((values * US).reshape(repeat, phase["count"]))
    return [np.concatenate(part, axis=1).ravel() for part in parts]


def _is_plain(phases: Sequence[Mapping[str, Any]]) -> bool:
    times = (phase.get(name) for phase in phases for name in ("wake_us", "timer_us", "busy_us"))
    return all(one is None or isinstance(one, int | float) for one in times)


def _whole(values: Any) -> Integers:
    return np.asarray(np.maximum(1, np.rint(values)), dtype=np.int64)


def of_spec(spec: Spec, seed: int = 1) -> SpecIntervals:
    """Return the stream of a spec.

    Args:
        spec: plain data.
        seed: of its draws; a spec of numbers alone is the same with any.
    """
    phases, repeat = spec["phases"], spec.get("repeat", 1)
    plain = _is_plain(phases)
    wake, timer, busy = _tiled(phases, repeat) if plain else _drawn(phases, repeat, seed)
    table = table_of(spec)
    limit = spec.get("latency_req_us")
    off = spec.get("disabled", [])
    return SpecIntervals(
        table, _whole(np.minimum(wake, timer)), _whole(timer), _whole(busy),
        spec.get("skip", 0), spec.get("tick_stopped", False),
        TIME_MAX if limit is None else round(limit * US),
        sum(1 << table.names.index(name) for name in off if name in table.names),
        {"spec": spec, "seed": seed},
    )  # fmt: skip


def spec_of(stream: SpecIntervals, count: int) -> Spec:
    """Return a spec of numbers alone for the first intervals of a stream."""
    rows = zip(stream.length_ns[:count].tolist(), stream.timer_ns[:count].tolist(),
               stream.busy_ns[:count].tolist(), strict=True)  # fmt: skip
    phases: list[dict[str, Any]] = []
    for length, timer, busy in rows:
        phase: dict[str, Any] = {"count": 1}
        if length < timer:
            phase["wake_us"] = length / US
        if timer != FAR_NS:
            phase["timer_us"] = timer / US
        phases.append(phase | {"busy_us": busy / US})
    spec: Spec = {"tick_hz": S // stream.table.tick_ns, "states": states_of(stream.table),
                  "phases": phases}  # fmt: skip
    if stream.tick_stopped:
        spec["tick_stopped"] = True
    if stream.latency_req_ns != TIME_MAX:
        spec["latency_req_us"] = stream.latency_req_ns / US
    names = [name for k, name in enumerate(stream.table.names) if stream.disabled >> k & 1]
    if names:
        spec["disabled"] = names
    return spec


# ---- Streams of the laws of synth ----


@dataclass(frozen=True)
class Condition:
    """Circumstances of a stream.

    Attributes:
        name: for people.
        hz: ticks a second.
        tick_stopped: as of SpecIntervals.
        latency_us: latency request; None: none.
        disabled: number of a state that is disabled, from the deepest; 0: none.
    """

    name: str
    hz: int = 250
    tick_stopped: bool = False
    latency_us: int | None = None
    disabled: int = 0


PLAIN = Condition("250 Hz")
CONDITIONS = (
    PLAIN, Condition("1000 Hz", 1000), Condition("100 Hz", 100),
    Condition("tick stopped", tick_stopped=True), Condition("request of 50 us", latency_us=50),
    Condition("request of 0 us", latency_us=0), Condition("deepest state disabled", disabled=1),
)  # fmt: skip


_made = lru_cache(len(STREAMS))(synth.make)


def of_law(
    name: str, states: Sequence[Sequence[Any]], condition: Condition, count: int, seed: int
) -> SpecIntervals:
    """Return a stream of synth on a table, under a condition."""
    table = table_of({"states": states, "tick_hz": condition.hz})
    made = _made(name, count, seed)
    off = 1 << table.count - condition.disabled if condition.disabled and table.count > 1 else 0
    limit = TIME_MAX if condition.latency_us is None else condition.latency_us * US
    recipe = {"law": name, "states": states, "condition": vars(condition), "count": count,
              "seed": seed}  # fmt: skip
    return SpecIntervals(table, made.length_ns, made.timer_ns, made.gap_ns, count // 4,
                  condition.tick_stopped, limit, off, recipe)  # fmt: skip


def again(recipe: Mapping[str, Any]) -> SpecIntervals:
    """Return the stream of a recipe, as SpecIntervals.recipe has it."""
    if "spec" in recipe:
        return of_spec(recipe["spec"], recipe["seed"])
    condition = Condition(**recipe["condition"])
    return of_law(recipe["law"], recipe["states"], condition, recipe["count"], recipe["seed"])


# ---- As a reader wants it ----


def _us(value: Any) -> str:
    return "2^32" if value == HUGE_US else f"{value:.10g}"


def _time(times: Any) -> str:
    """Return a time, or a law of times, in words."""
    if isinstance(times, int | float):
        return f"{times:.6g} us"
    kind, value = next(iter(times.items()))
    if kind == "one_of":
        return " or ".join(f"{weight:g} x {_time(one)}" for weight, one in value)
    pair = isinstance(value, list)
    text = f"{value[0]:.3g} to {value[1]:.3g}" if pair else f"{value:.3g}"
    return f"{kind} {text} us"


def table_text(spec: Spec) -> str:
    """Return the table of a spec: name, exit latency/target residency in us."""
    states = ", ".join(
        f"{str(name).rstrip('*')} {_us(exit_us)}/{_us(target)}"
        for name, exit_us, target in spec["states"]
    )
    told = [f"{spec['tick_hz']} Hz"]
    told += ["tick stopped"] if spec.get("tick_stopped") else []
    told += [f"request {spec['latency_req_us']:g} us"] if "latency_req_us" in spec else []
    told += [f"{name} disabled" for name in spec.get("disabled", [])]
    return f"{states}; {', '.join(told)}"


def phases_text(spec: Spec) -> str:
    """Return the intervals of a spec in words."""
    parts = []
    for phase in spec["phases"]:
        wake, timer = phase.get("wake_us"), phase.get("timer_us")
        text = f"{phase['count']} x "
        if wake is None:
            text += f"timer at {_time(timer)}" if timer is not None else "timer at 4 s"
        else:
            text += f"woken at {_time(wake)}"
            text += f", timer in {_time(timer)}" if timer is not None else ""
        parts.append(text)
    again_text = f", {spec['repeat']} times" if spec.get("repeat", 1) > 1 else ""
    return "; ".join(parts) + again_text


def size_of(spec: Spec) -> tuple[int, int]:
    """Return the number of states, and of intervals before they repeat."""
    return len(spec["states"]), sum(phase["count"] for phase in spec["phases"])
