# SPDX-License-Identifier: GPL-2.0
"""Space of the search: tables that hardware has, or might have, and laws of programs."""

import math
from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise
from random import Random
from typing import Any

from cpuidle_lab.review.stream import HUGE_US, Spec
from cpuidle_lab.review.tables import known

# Intervals of an evaluation, and at most so much time.
COUNT, SPAN_US = 600, 4_000_000
# So many at least are played, whatever the time, lest only the start from nothing counts.
LEAST = 16
_LONGEST_US, _TIMER_US = 300_000, 1_000_000


def plausible(spec: Spec) -> bool:
    """Return whether hardware might have the table of a spec, and its phases are short enough.

    A tick of each millisecond over minutes takes as much CPU time as a governor that hangs.
    """
    states = spec["states"]
    if not 1 < len(states) <= 10 or not 0 < _span(spec) <= 4 * SPAN_US:
        return False
    polls = [str(state[0]).endswith("*") for state in states]
    if any(polls[1:]) or (polls[0] and (states[0][1] or states[0][2])):
        return False
    real = states[1:] if polls[0] else states
    rising = all(
        low[1] <= high[1] and low[2] <= high[2] and low[1:] != high[1:]
        for low, high in pairwise(states)
    )
    # Every table has a state that soon pays, but for POWER's CEDE, behind its polling state.
    soon = real[0][2] <= (150 if polls[0] else 20)
    return bool(rising and soon and all(map(_is_state, real)))


def _is_state(state: Sequence[Any]) -> bool:
    _, exit_us, target = state
    if not 1 <= exit_us <= target:
        return False
    return bool(target >= HUGE_US or (exit_us <= 3000 and target <= max(20, 16 * exit_us)))


def fitted(spec: Spec) -> Spec:
    """Return a spec repeated as often as an evaluation wants it, a quarter of it not counted."""
    cycle = sum(phase["count"] for phase in spec["phases"])
    repeat = max(4, min(-(-COUNT // cycle), int(SPAN_US / _span(spec))), -(-LEAST // cycle))
    return {**spec, "repeat": repeat, "skip": cycle * repeat // 4}


def _span(spec: Spec) -> float:
    """Return about the time of all phases once, us."""
    return float(sum(phase["count"] * _mean(phase) for phase in spec["phases"]))


def _mean(phase: Spec) -> float:
    times = (_middle(phase[key]) for key in ("wake_us", "timer_us") if phase.get(key) is not None)
    return min(times, default=4e6)


def _middle(times: Any) -> float:
    """Return about the mean of times, us."""
    if isinstance(times, int | float):
        return float(times)
    kind, value = next(iter(times.items()))
    if kind == "one_of":
        total = sum(part[0] for part in value)
        return float(sum(part[0] * _middle(part[1]) for part in value) / total)
    return sum(value) / 2 if isinstance(value, list) else float(value)


def jittered(spec: Spec, r: Random, part: float, exits: float = 1.0) -> Spec:
    """Return a spec whose times are all moved by up to a part of them.

    Args:
        spec: the original.
        r: of the randomness.
        part: at most so much.
        exits: factor of all exit latencies.
    """
    found = deepcopy(spec)

    def near(value: float) -> float:
        return value if not 0 < value < HUGE_US else value * r.uniform(1 - part, 1 + part)

    for state in found["states"]:
        state[1], state[2] = near(state[1]) * exits, near(state[2])
    for low, high in pairwise(found["states"]):
        high[1], high[2] = max(low[1], high[1]), max(low[2], high[2])
    for phase in found["phases"]:
        for key in ("wake_us", "timer_us"):
            if isinstance(phase.get(key), int | float):
                phase[key] = near(phase[key])
            elif phase.get(key) is not None:
                _scale(phase[key], r.uniform(1 - part, 1 + part))
    return found


def _scale(times: dict[str, Any], factor: float) -> None:
    kind, value = next(iter(times.items()))
    if kind == "one_of":
        for part in value:
            if isinstance(part[1], dict):
                _scale(part[1], factor)
            else:
                part[1] *= factor
    elif isinstance(value, list):
        times[kind] = [one * factor for one in value]
    else:
        times[kind] = value * factor


class Space:
    """Draws specs, and changes them a little.

    Args:
        seed: of all that is drawn.
        real: share of tables that machines have.
    """

    def __init__(self, seed: int, real: float = 0.5) -> None:
        self.r = Random(seed)
        self._real = real

    def fresh(self) -> Spec:
        """Return a new spec."""
        phases = [self._phase() for _ in range(self.r.choice([1, 1, 2, 2, 3]))]
        hz = self.r.choice([1000, 250, 250, 100])
        found: Spec = {"tick_hz": hz, "states": self._table(), "phases": phases}
        if self.r.random() < 0.1:
            found["tick_stopped"] = True
        return found

    def near(self, spec: Spec) -> Spec:
        """Return a spec with some changes."""
        found = deepcopy(spec)
        for _ in range(self.r.choice([1, 1, 2, 3])):
            self.r.choices(
                (self._change_time, self._change_state, self._change_law, self._change_table,
                 self._change_phases, self._change_tick),
                (30, 30, 15, 8, 12, 5),
            )[0](found)  # fmt: skip
        return found

    def _log(self, low: float, high: float) -> float:
        return math.exp(self.r.uniform(math.log(low), math.log(high)))

    def _table(self) -> list[list[Any]]:
        r = self.r
        if r.random() < self._real:
            states = [list(state) for state in r.choice(known()).states]
            if r.random() < 0.3 and len(states) > 2:
                del states[r.randrange(len(states))]
        else:
            states = self._made_up()
        if r.random() < 0.12:
            states.append(["s2idle", 20000, HUGE_US])
        if r.random() < 0.15 and states[0][0].endswith("*") and len(states) > 2:
            del states[0]
        return states

    def _made_up(self) -> list[list[Any]]:
        exits = [self._log(1, 12), *(self._log(1, 1500) for _ in range(self.r.randint(1, 4)))]
        states: list[list[Any]] = []
        target = 0.0
        for number, exit_us in enumerate(sorted(exits)):
            target = min(max(target, exit_us * self._log(1, 10)), 16 * exit_us)
            states.append([f"C{number + 1}", float(f"{exit_us:.2g}"), float(f"{target:.2g}")])
        if self.r.random() < 0.6:
            states.insert(0, ["POLL*", 0, 0])
        return states

    def _law(self) -> Any:
        r = self.r
        middle = self._log(3, 100_000)
        kind = r.choice(["fixed", "near", "mean", "octaves", "one_of"])
        if kind == "fixed":
            return middle
        if kind == "near":
            return {"near": middle, "spread": r.choice([0.01, 0.05, 0.1, 0.3])}
        if kind == "mean":
            return {"mean": middle}
        if kind == "octaves":
            return {"octaves": [middle, middle * r.choice([2, 5, 20])]}
        share = r.choice([1, 3, 5, 7, 9])
        modes = [[share, {"near": middle}], [10 - share, {"near": self._log(3, 100_000)}]]
        return {"one_of": modes}

    def _timer(self) -> Any:
        period = self._log(50, _TIMER_US)
        return self.r.choice([period, {"between": [1.0, period]}])

    def _phase(self) -> Spec:
        phase: Spec = {"count": int(self._log(1, 300))}
        if self.r.random() < 0.75:
            phase["wake_us"] = self._law()
        if "wake_us" not in phase or self.r.random() < 0.7:
            phase["timer_us"] = self._timer()
        phase["count"] = max(1, min(phase["count"], int(SPAN_US / _mean(phase))))
        return phase

    def _scaled(self, value: float, low: float, high: float) -> float:
        octaves = self.r.gauss(0, self.r.choice([0.1, 0.5, 1.5]))
        return min(high, max(low, value * math.exp(octaves)))

    def _change_time(self, spec: Spec) -> None:
        phase = self.r.choice(spec["phases"])
        key = self.r.choice([key for key in ("wake_us", "timer_us", "count") if key in phase])
        if key == "count":
            phase["count"] = round(self._scaled(phase["count"], 1, 400))
        elif isinstance(phase[key], int | float):
            phase[key] = self._scaled(phase[key], 1, _LONGEST_US)
        else:
            self._change_part(phase[key])

    def _change_part(self, times: dict[str, Any]) -> None:
        kind, value = next(iter(times.items()))
        if kind == "one_of":
            self._change_part(self.r.choice(value)[1])
        elif isinstance(value, list):
            _scale(times, self._scaled(1, 0.1, 10))
        else:
            times[kind] = self._scaled(value, 1, _LONGEST_US)

    def _change_state(self, spec: Spec) -> None:
        state = self.r.choice(spec["states"])
        if not state[0].endswith("*") and state[2] < HUGE_US:
            which = self.r.choice([1, 2])
            state[which] = round(self._scaled(state[which], 1, 20_000))

    def _change_law(self, spec: Spec) -> None:
        phase = self.r.choice(spec["phases"])
        if self.r.random() < 0.5:
            phase["wake_us"] = self._law()
        else:
            phase["timer_us"] = self._timer()

    def _change_table(self, spec: Spec) -> None:
        states = spec["states"]
        pick = self.r.randrange(4)
        if pick == 0:
            spec["states"] = self._table()
        elif pick == 1 and len(states) > 2:
            del states[self.r.randrange(len(states))]
        elif pick == 2 and states[0][0].endswith("*"):
            del states[0]
        elif pick == 2:
            states.insert(0, ["POLL*", 0, 0])
        elif states[-1][2] >= HUGE_US:
            del states[-1]
        else:
            states.append(["s2idle", 20000, HUGE_US])

    def _change_phases(self, spec: Spec) -> None:
        phases = spec["phases"]
        if self.r.random() < 0.5:
            phases.insert(self.r.randrange(len(phases) + 1), self._phase())
            del phases[4:]
        elif len(phases) > 1:
            del phases[self.r.randrange(len(phases))]

    def _change_tick(self, spec: Spec) -> None:
        spec["tick_hz"] = self.r.choice([1000, 250, 100])
