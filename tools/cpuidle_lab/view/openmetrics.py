# SPDX-License-Identifier: GPL-2.0
"""Counters of a machine, as metrics in the text format of Prometheus.

Every figure is there for each CPU (`cpuidle_lab_cpu_...`) and for the machine (`cpuidle_lab_...`).
All but ratios are counters of the kernel or the module, so Prometheus computes the rates, and
nothing is lost between two readings.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from cpuidle_lab.base.version import __version__
from cpuidle_lab.view.watch import ACTIVE, Look, StateCount, Tally, totals

# Upper bounds of the latency's buckets, in us.
BUCKETS_US = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)

# Seconds at the greatest power of a state table in one unit of cost (docs/tracing.md).
_UNIT_S = 4.096e-6

Labels = Mapping[str, str]


@dataclass
class Family:
    """One metric with all of its samples.

    Attributes:
        name: with its unit, and `_total` where it is a counter.
        kind: counter, gauge or histogram.
        about: what it counts.
        samples: suffix of the name, labels, value.
    """

    name: str
    kind: str
    about: str
    samples: list[tuple[str, Labels, float]] = field(default_factory=list)

    def text(self) -> str:
        """Return it in the text format of Prometheus."""
        lines = [f"# HELP {self.name} {self.about}", f"# TYPE {self.name} {self.kind}"]
        for suffix, labels, value in self.samples:
            shown = ",".join(f'{name}="{_escape(text)}"' for name, text in labels.items())
            lines.append(f"{self.name}{suffix}{{{shown}}} {_number(value)}")
        return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _sums(cpus: Iterable[list[StateCount]]) -> list[StateCount]:
    """Return the counts of all CPUs by the name of the state, in the order of first sight."""
    found: dict[str, StateCount] = {}
    for state in (state for states in cpus for state in states):
        old = found.get(state.name, StateCount(state.name, 0, 0, latency_us=state.latency_us))
        found[state.name] = StateCount(
            state.name,
            old.usage + state.usage,
            old.time_us + state.time_us,
            old.above + state.above,
            old.below + state.below,
            max(old.latency_us, state.latency_us),
        )
    return list(found.values())


_STATE_COUNTERS: tuple[tuple[str, str, Callable[[StateCount], float]], ...] = (
    ("residency_seconds", "time in the idle state", lambda s: s.time_us / 1e6),
    ("wakeups", "idle periods in the idle state that ended", lambda s: s.usage),
    ("above", "idle periods for which a shallower state would have been right", lambda s: s.above),
    ("below", "idle periods for which a deeper state would have been right", lambda s: s.below),
)

_GOVERNOR_COUNTERS: tuple[tuple[str, str, Callable[[Tally], float]], ...] = (
    ("decisions", "decisions since the shadows started", lambda t: t.decisions),
    ("deeper", "decisions for a deeper state than the governor in use", lambda t: t.deeper),
    ("shallower", "decisions for a shallower state than the governor in use",
     lambda t: t.shallower),
    ("cost_seconds", "modelled energy, as seconds at the greatest power of the state table",
     lambda t: t.cost * _UNIT_S),
    ("oracle_cost_seconds", "the least modelled energy that was possible",
     lambda t: t.oracle_cost * _UNIT_S),
)  # fmt: skip


def _histogram(family: Family, labels: Labels, states: list[StateCount]) -> None:
    for bound in BUCKETS_US:
        count = sum(state.usage for state in states if state.latency_us <= bound)
        family.samples.append(("_bucket", {**labels, "le": repr(bound / 1e6)}, count))
    total = sum(state.usage for state in states)
    spent_us = sum(state.usage * state.latency_us for state in states)
    family.samples.append(("_bucket", {**labels, "le": "+Inf"}, total))
    family.samples.append(("_sum", labels, spent_us / 1e6))
    family.samples.append(("_count", labels, total))


def _of_states(prefix: str, each: list[tuple[Labels, list[StateCount]]]) -> list[Family]:
    found = []
    for name, about, value in _STATE_COUNTERS:
        family = Family(f"{prefix}_{name}_total", "counter", f"{about}, by the kernel's count")
        for labels, states in each:
            family.samples += [("", {**labels, "state": s.name}, value(s)) for s in states]
        found.append(family)
    latency = Family(
        f"{prefix}_exit_latency_seconds",
        "histogram",
        "wake-ups by the exit latency that the driver states; nothing is measured",
    )
    for labels, states in each:
        _histogram(latency, labels, states)
    return [*found, latency]


def _saved(tally: Tally, active: Tally | None) -> float | None:
    """Return the part of the cost that a shadow would have saved; below 0: that it would add."""
    return 1 - tally.cost / active.cost if active and active.cost else None


def _of_governors(prefix: str, each: list[tuple[Labels, list[Tally]]]) -> list[Family]:
    found = []
    for name, about, value in _GOVERNOR_COUNTERS:
        family = Family(f"{prefix}_governor_{name}_total", "counter", about)
        for labels, tallies in each:
            family.samples += [
                ("", {**labels, "governor": t.governor, "role": t.role}, value(t)) for t in tallies
            ]
        found.append(family)
    savings = Family(
        f"{prefix}_shadow_savings_ratio",
        "gauge",
        "part of the modelled energy that the shadow would have saved since it started",
    )
    for labels, tallies in each:
        active = next((tally for tally in tallies if tally.role == ACTIVE), None)
        for tally in tallies:
            saved = _saved(tally, active)
            if tally.role != ACTIVE and saved is not None:
                savings.samples.append(("", {**labels, "governor": tally.governor}, saved))
    return [*found, savings]


def _info(look: Look, kernel: str) -> Family:
    labels = {
        "governor": look.governor,
        "base": look.base or "",
        "kernel": kernel,
        "version": __version__,
    }
    return Family("cpuidle_lab_info", "gauge", "the governor in use; always 1", [("", labels, 1)])


def text(look: Look, kernel: str) -> str:
    """Return what a look at a machine saw, in the text format of Prometheus.

    Args:
        look: the look.
        kernel: release of the kernel.
    """
    cpus = sorted(look.states)
    tallies: dict[int, list[Tally]] = {}
    for tally in look.tallies or ():
        tallies.setdefault(tally.cpu, []).append(tally)
    families = [
        _info(look, kernel),
        *_of_states("cpuidle_lab_cpu", [({"cpu": str(cpu)}, look.states[cpu]) for cpu in cpus]),
        *_of_states("cpuidle_lab", [({}, _sums(look.states.values()))]),
        *_of_governors(
            "cpuidle_lab_cpu", [({"cpu": str(cpu)}, mine) for cpu, mine in tallies.items()]
        ),
        *_of_governors("cpuidle_lab", [({}, totals(look.tallies or ()))]),
    ]
    return "".join(family.text() for family in families if family.samples)
