# SPDX-License-Identifier: GPL-2.0
"""Duties of every governor to its driver, on tables and inputs that no author thought of."""

import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from cpuidle_lab.replay.library import STATE_MAX
from cpuidle_lab.review.play import SIDES, Pair, differing
from cpuidle_lab.review.shrink import Shrinker, within
from cpuidle_lab.review.stream import (
    HUGE_US,
    Spec,
    SpecIntervals,
    again,
    columns_of,
    of_spec,
    spec_of,
)

# A trial of some hundred intervals takes a millisecond.
_TRIAL_S = 0.1
_BROKEN = 10

FINE = "fine"
_BREAKS = "breaks a rule"
UNUSED = "unused inputs change nothing"
ODD = "odd tables neither crash it nor make it break a rule"

# Wake-ups and timers at all distances.
_MIXED = [
    {"count": 40, "wake_us": {"octaves": [3, 30_000]}, "timer_us": {"octaves": [50, 1_000_000]}},
    {"count": 20, "timer_us": {"octaves": [20, 100_000]}},
    {"count": 20, "wake_us": {"mean": 30}},
]

_TABLES: dict[str, list[list[Any]]] = {
    "polling alone": [["POLL*", 0, 0]],
    "one state, which does not poll": [["C1", 1, 1]],
    "no polling state": [["C1", 1, 1], ["C6", 100, 500]],
    "targets that are not sorted": [["POLL*", 0, 0], ["C1", 2, 600], ["C6", 133, 20]],
    "exit latencies above the targets": [["C1", 50, 1], ["C6", 900, 100]],
    "states that are alike": [["C1", 10, 20], ["C2", 10, 20], ["C3", 10, 20]],
    "targets of 0": [["C1", 0, 0], ["C2", 0, 0], ["C3", 100, 0]],
    "targets of 2^32 us": [["C1", 1, 1], ["C2", 100, HUGE_US], ["C3", HUGE_US, HUGE_US]],
    "ten states": [[f"C{k}", 2**k, 3 * 2**k] for k in range(STATE_MAX)],
}  # fmt: skip


def odd() -> Iterator[tuple[str, Spec]]:
    """Yield odd specs and their names."""
    for name, states in _TABLES.items():
        spec: Spec = {"tick_hz": 250, "states": states, "phases": _MIXED, "repeat": 4}
        yield name, spec
        yield f"{name}, request of 0 us", {**spec, "latency_req_us": 0}
        if len(states) > 1:
            yield f"{name}, first state disabled", {**spec, "disabled": [states[0][0].rstrip("*")]}
        yield f"{name}, tick stopped", {**spec, "tick_stopped": True}


def _try(pair: Pair, side: str, stream: SpecIntervals) -> None:
    """Play in a process that ends by it."""
    signal.setitimer(signal.ITIMER_VIRTUAL, _TRIAL_S)
    breaches = pair.one(side, stream, columns_of(stream)).breaches
    broken = any(breaches[rule] for rule in ("range", "disabled", "latency"))
    os._exit(_BROKEN if broken else 0)


def trial(pair: Pair, side: str, stream: SpecIntervals) -> str:
    """Return how a governor comes through a stream, in a process of its own.

    Returns:
        FINE, "breaks a rule", "crashes (SIGSEGV)" or "loops for ever".
    """
    child = os.fork()
    if not child:
        try:
            _try(pair, side, stream)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name
        return "loops for ever" if number == signal.SIGVTALRM else f"crashes ({name})"
    code = os.WEXITSTATUS(status)
    return {0: FINE, _BROKEN: _BREAKS}.get(code, f"ends with {code}")


def rule(text: str, found: Mapping[str, str], spec: Spec | None = None) -> dict[str, Any]:
    """Return the verdict on a rule.

    Args:
        text: its sentence.
        found: for each side how it breaks the rule, "" where it does not.
        spec: smallest input by which the side after breaks it.
    """
    return {"rule": text, "held": not found["after"], "held_before": not found["before"],
            "why": found["after"], "case": spec}  # fmt: skip


def _odd(pair: Pair) -> dict[str, Any]:
    worst = dict.fromkeys(SIDES, "")
    witness: Spec | None = None
    fatal = ""
    for name, spec in odd():
        verdicts = {side: trial(pair, side, of_spec(spec)) for side in SIDES}
        for side, verdict in verdicts.items():
            if verdict == FINE or (side == "after" and verdict == verdicts["before"]):
                continue
            worst[side] = worst[side] or f"{verdict}: {name}"
            if side == "after" and witness is None:
                witness = smallest(pair, side, of_spec(spec), verdict, 3.0)
                fatal = "" if verdict == _BREAKS else verdict
    return rule(ODD, worst, witness) | {"fatal": fatal}


def _unused(pair: Pair, seed: int) -> dict[str, Any]:
    """Set the bits of states that are none."""
    found = dict.fromkeys(SIDES, "")
    for count in (2, 3, 5):
        states = [["POLL*", 0, 0], *([f"C{k}", 4**k, 6 * 4**k] for k in range(1, count))]
        spec: Spec = {"tick_hz": 250, "states": states, "phases": _MIXED, "repeat": 8}
        stream = of_spec(spec, seed)
        dirty = replace(stream, disabled=(1 << STATE_MAX) - (1 << count))
        for side in SIDES:
            one = partial(pair.one, side, choices=True)
            if differing(one(stream, columns_of(stream)), one(dirty, columns_of(dirty))).any():
                found[side] = f"bits of disabled states beyond the table of {count} states matter"
    return rule(UNUSED, found)


def examine(pair: Pair, seed: int) -> list[dict[str, Any]]:
    """Return the verdicts on odd tables and unused inputs."""
    return [_odd(pair), _unused(pair, seed)]


def smallest(pair: Pair, side: str, stream: SpecIntervals, verdict: str, seconds: float) -> Spec:
    """Return a small spec by which a governor fails as it does on a stream."""

    def good(spec: Spec) -> bool:
        return trial(pair, side, of_spec(spec)) == verdict

    spec = spec_of(stream, stream.count)
    return Shrinker(good, within(seconds)).shrink(spec)


def reduce(pair: Pair, side: str, recipe: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return how a governor fails on a stream, and the smallest spec by which it does.

    Args:
        pair: the governors.
        side: which of them.
        recipe: of the stream.
        seconds: after so many the spec found so far is returned.
    """
    stream = again(recipe)
    verdict = trial(pair, side, stream)
    if verdict == FINE:
        return {"verdict": "crashes or loops, but not again on the same input", "spec": None}
    return {"verdict": verdict, "spec": smallest(pair, side, stream, verdict, seconds)}
