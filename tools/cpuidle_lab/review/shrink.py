# SPDX-License-Identifier: GPL-2.0
"""Shrinks a spec to a size for a reader, and keeps the finding that it shows."""

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

from cpuidle_lab.review.stream import HUGE_US, Spec

Good = Callable[[Spec], bool]
GoOn = Callable[[], bool]

_TIMES = ("wake_us", "timer_us")
_COUNTS = (1, 2, 3, 5, 8, 10, 15, 20, 30, 50, 100)


def rounded(value: float, digits: float) -> float:
    """Return a time with so many digits; with half a digit 1, 2 or 5 times a power of ten."""
    if not 0 < value < HUGE_US:
        return value
    if digits >= 1:
        return max(1.0, float(f"{value:.{int(digits)}g}"))
    power = 10.0 ** math.floor(math.log10(value))
    return max(1.0, min((1, 2, 5, 10), key=lambda m: abs(math.log(m * power / value))) * power)


def within(seconds: float) -> GoOn:
    """Return what tells whether so many seconds are not over."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


def _set(values: Spec, spec: Spec) -> None:
    spec.update(values)


def _pop(key: str, spec: Spec) -> None:
    del spec[key]


def _cut(key: str, at: int, count: int, spec: Spec) -> None:
    del spec[key][at : at + count]


def _put(at: int, values: Spec, spec: Spec) -> None:
    spec["phases"][at].update(values)


def _untime(at: int, spec: Spec) -> None:
    del spec["phases"][at]["timer_us"]


class Shrinker:
    """Takes steps that leave a spec good.

    Args:
        good: tells whether a spec still shows it.
        go_on: it stops where this is false.
        frozen: the table stays as it is.
    """

    def __init__(self, good: Good, go_on: GoOn, *, frozen: bool = False) -> None:
        self._good = good
        self._go_on = go_on
        self._frozen = frozen

    def shrink(self, spec: Spec) -> Spec:
        """Return the smallest spec found; the given one if it is not good itself."""
        spec = deepcopy(spec)
        if not self._good(spec):
            return spec
        steps = (self._conditions, self._phases, self._states, self._counts, self._laws,
                 self._timers, self._neighbours, self._numbers)  # fmt: skip
        before = ""
        while before != (before := json.dumps(spec)) and self._go_on():
            for step in steps:
                spec = step(spec)
        return spec

    def _try(self, spec: Spec, change: Callable[[Spec], object]) -> Spec | None:
        """Return a changed copy, or None where that is not good."""
        if not self._go_on():
            return None
        other = deepcopy(spec)
        change(other)
        if other == spec or not self._good(other):
            return None
        return other

    def _conditions(self, spec: Spec) -> Spec:
        for key in ("tick_stopped", "latency_req_us", "disabled"):
            if key in spec:
                spec = self._try(spec, partial(_pop, key)) or spec
        repeat = spec.get("repeat", 1)
        for fewer in _COUNTS:
            if fewer < repeat and (other := self._try(spec, partial(_set, {"repeat": fewer}))):
                return other
        return spec

    def _phases(self, spec: Spec) -> Spec:
        """Leave out stretches of phases, ever shorter ones."""
        size = len(spec["phases"]) // 2
        while size:
            at = 0
            while at < len(spec["phases"]) and len(spec["phases"]) > size:
                other = self._try(spec, partial(_cut, "phases", at, size))
                spec, at = (other, at) if other else (spec, at + size)
            size //= 2
        return spec

    def _states(self, spec: Spec) -> Spec:
        if self._frozen:
            return spec
        at = 0
        while len(spec["states"]) > 1 and at < len(spec["states"]):
            other = self._try(spec, partial(_cut, "states", at, 1))
            spec, at = (other, at) if other else (spec, at + 1)
        return self._try(spec, partial(_set, {"tick_hz": 250})) or spec

    def _counts(self, spec: Spec) -> Spec:
        for at in range(len(spec["phases"])):
            for count in _COUNTS:
                if count >= spec["phases"][at]["count"]:
                    break
                other = self._try(spec, partial(_put, at, {"count": count}))
                if other:
                    spec = other
                    break
        return spec

    def _laws(self, spec: Spec) -> Spec:
        """Put a number, or a plainer law, in place of a law."""
        for at, phase in enumerate(spec["phases"]):
            for key in _TIMES:
                for law in _plainer(phase.get(key)):
                    other = self._try(spec, partial(_put, at, {key: law}))
                    if other:
                        spec = other
                        break
        return spec

    def _timers(self, spec: Spec) -> Spec:
        for at, phase in enumerate(spec["phases"]):
            if phase.get("timer_us") is not None and phase.get("wake_us") is not None:
                other = self._try(spec, partial(_untime, at))
                spec = other or spec
        return spec

    def _neighbours(self, spec: Spec) -> Spec:
        """Make phases alike, and one of those that are."""
        at = 1
        while at < len(spec["phases"]):
            first, second = spec["phases"][at - 1 : at + 1]
            total = first["count"] + second["count"]

            def merged(s: Spec, at: int = at, total: int = total) -> None:
                s["phases"][at - 1]["count"] = total
                del s["phases"][at]

            if _same_times(first, second):
                merged(spec)
                continue
            other = self._try(spec, merged)
            spec, at = (other, at) if other else (spec, at + 1)
        return spec

    def _numbers(self, spec: Spec) -> Spec:
        for digits in (0.5, 1, 2):
            for number in range(len(list(self._places(spec)))):
                box, key = list(self._places(spec))[number]
                if rounded(box[key], 0.5) == box[key]:
                    continue

                def change(s: Spec, number: int = number, digits: float = digits) -> None:
                    box, key = list(self._places(s))[number]
                    box[key] = rounded(box[key], digits)

                spec = self._try(spec, change) or spec
        return spec

    def _places(self, spec: Spec) -> Iterator[tuple[Any, Any]]:
        """Yield where the times are."""
        for state in () if self._frozen else spec["states"]:
            yield from ((state, 1), (state, 2))
        for phase in spec["phases"]:
            for key in (*_TIMES, "busy_us"):
                yield from _numbers_in(phase, key)


def _numbers_in(box: Any, key: Any) -> Iterator[tuple[Any, Any]]:
    value = box.get(key) if isinstance(box, dict) else box[key]
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield box, key
    elif isinstance(value, dict):
        for kind in value.keys() - {"spread"}:
            yield from _numbers_in(value, kind)
    elif isinstance(value, list):
        for at, one in enumerate(value):
            # Of a weighted part the weight stays.
            if isinstance(one, list):
                yield from _numbers_in(one, 1)
            else:
                yield from _numbers_in(value, at)


def _same_times(first: Spec, second: Spec) -> bool:
    return {**first, "count": 0} == {**second, "count": 0}


def _plainer(times: Any) -> list[Any]:
    """Return plainer laws of about the same times, the plainest first."""
    if not isinstance(times, dict):
        return []
    kind, value = next(iter(times.items()))
    if kind == "one_of":
        parts = [part[1] for part in value]
        plain = [one if not isinstance(one, dict) else _plainer(one)[0] for one in parts]
        return [*plain, {"one_of": [[1, one] for one in plain]}]
    if kind in ("octaves", "between"):
        return [math.sqrt(value[0] * value[1])]
    return [value]


def explicit(spec: Spec, rows: Sequence[tuple[float, float | None]]) -> Spec:
    """Return a spec of single intervals in place of laws.

    Args:
        spec: whose table and conditions are taken.
        rows: length and timer of each in us; None: no timer is near.
    """
    phases: list[dict[str, Any]] = []
    for length, timer in rows:
        phase: dict[str, Any] = {"count": 1}
        if timer is None or length < timer:
            phase["wake_us"] = length
        if timer is not None:
            phase["timer_us"] = timer
        phases.append(phase)
    return {**deepcopy(spec), "phases": phases}
