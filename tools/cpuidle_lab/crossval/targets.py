# SPDX-License-Identifier: GPL-2.0
"""Limits of the distance between predictions and facts, and their verdicts."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cpuidle_lab.crossval.pairs import Pair
from cpuidle_lab.evidence.plots import Line, Plot
from cpuidle_lab.evidence.tables import MISSED, Cell, Table, Verdict, verdict

# Of a governor on its own recording: points of regret, or share of the figure, the larger.
OWN_POINTS, OWN_SHARE, OWN_CASES = 0.3, 0.01, 0.95

# Of a governor on another's recording.
MEAN_POINTS, PAIR_POINTS, PAIR_CASES, P99_CASES = 0.7, 2.0, 0.95, 0.95

# Idle time in intervals that outlasted their own next event, of the idle time of a workload.
OVERSLEPT_SHARE = 0.001

# Where two governors differ by so many points, the sign of the prediction must be right.
DIFFER_POINTS, SIGN_CASES = 1.0, 0.98


def own_limit(pair: Pair) -> float:
    """Return the largest error that a governor's replay on its own recordings may have, points."""
    return max(OWN_POINTS, OWN_SHARE * pair.real_regret)


def is_missed(pair: Pair) -> bool:
    """Tell whether a pair is beyond its limit."""
    return pair.judged_error > (own_limit(pair) if pair.own else PAIR_POINTS)


@dataclass(frozen=True)
class Difference:
    """Two governors under one workload: by how much the second has more regret than the first.

    Attributes:
        workload, machine, kernel: as of a Pair.
        first, second: labels.
        predicted: on the recordings of the first, points.
        real: by their own recordings, points.
    """

    workload: str
    machine: str
    kernel: str
    first: str
    second: str
    predicted: float
    real: float

    @property
    def right(self) -> bool:
        """The sign is right."""
        return self.predicted * self.real > 0


def differences(pairs: Sequence[Pair]) -> list[Difference]:
    """Return all pairs of governors that really differ by more than DIFFER_POINTS.

    Both predictions stand on the same recordings: those that the first governor made.
    """
    own = {(*p.key, p.recorded): p for p in pairs if p.own}
    found = []
    for pair in pairs:
        mine = own.get((*pair.key, pair.recorded))
        theirs = own.get((*pair.key, pair.replayed))
        if pair.own or mine is None or theirs is None:
            continue
        real = theirs.real_regret - mine.real_regret
        # A difference that seeds alone make is not real.
        if abs(real) > max(DIFFER_POINTS, mine.spread, theirs.spread):
            found.append(
                Difference(*pair.key, pair.recorded, pair.replayed,
                           pair.predicted_regret - mine.predicted_regret, real)
            )  # fmt: skip
    return found


def _share(hits: int, count: int) -> str:
    return f"{hits} of {count} ({100 * hits / count:.1f} %)" if count else "none"


def overslept_share(pairs: Sequence[Pair]) -> float:
    """Return the share of the idle time in overslept intervals, of the recordings."""
    facts = [one for p in pairs if p.own for one in p.real]
    idle = sum(one.idle_ns for one in facts)
    return sum(one.overslept_ns for one in facts) / idle if idle else 0.0


def _overslept(pairs: Sequence[Pair]) -> Verdict:
    """Return whether the lab, or the machine, woke its CPUs by their timers."""
    workloads = dict.fromkeys(p.key for p in pairs)
    shares = {key: overslept_share([p for p in pairs if p.key == key]) for key in workloads}
    worst = max(shares, key=lambda key: shares[key])
    return verdict(
        shares[worst] <= OVERSLEPT_SHARE,
        f"at most {100 * OVERSLEPT_SHARE} % of the idle time of each workload is overslept",
        f"{100 * shares[worst]:.3f} % at most ({worst[0]}); of all "
        f"{100 * overslept_share(pairs):.3f} %",
    )


def judge(pairs: Sequence[Pair]) -> list[Verdict]:
    """Return whether each target is held."""
    own, cross = [p for p in pairs if p.own], [p for p in pairs if not p.own]
    near = sum(not is_missed(p) for p in own)
    within = sum(not is_missed(p) for p in cross)
    same = sum(p.predicted[n].p99 == p.real[n].p99 for p in cross for n in range(len(p.real)))
    seeds = sum(len(p.real) for p in cross)
    differ = differences(pairs)
    right = sum(d.right for d in differ)
    mean = statistics.fmean(p.judged_error for p in cross) if cross else 0.0
    raw = statistics.fmean(p.size for p in cross) if cross else 0.0
    raw_within = sum(p.size <= PAIR_POINTS for p in cross)
    worst = max((p.size for p in own), default=0.0)
    return [
        verdict(
            near >= OWN_CASES * len(own),
            f"on its own recordings within {OWN_POINTS} points or {100 * OWN_SHARE:.0f} % of the "
            f"figure, in {100 * OWN_CASES:.0f} % of the cases",
            f"{_share(near, len(own))}; mean error "
            f"{statistics.fmean(p.size for p in own) if own else 0:.2f}, worst {worst:.2f}",
        ),
        verdict(
            mean <= MEAN_POINTS,
            f"on another's recordings a mean error of at most {MEAN_POINTS} points",
            f"{mean:.2f} (errors within the spread of the seeds counted, too: {raw:.2f})",
        ),
        verdict(
            within >= PAIR_CASES * len(cross),
            f"on another's recordings within {PAIR_POINTS:.0f} points, in "
            f"{100 * PAIR_CASES:.0f} % of the pairs",
            f"{_share(within, len(cross))} (errors within the spread of the seeds counted, too: "
            f"{_share(raw_within, len(cross))})",
        ),
        verdict(
            same >= P99_CASES * seeds,
            "on another's recordings the 99th percentile of the exit latency is of the same "
            f"state, in {100 * P99_CASES:.0f} % of the cases",
            _share(same, seeds),
        ),
        verdict(
            right >= SIGN_CASES * len(differ),
            f"where two governors really differ by more than {DIFFER_POINTS:.0f} point, the right "
            f"one is predicted to be better, in {100 * SIGN_CASES:.0f} % of the cases",
            _share(right, len(differ)),
        ),
        _overslept(pairs),
    ]


def held(verdicts: Sequence[Verdict]) -> bool:
    """Tell whether no target is missed."""
    return all(one.state != MISSED for one in verdicts)


def by_workload(pairs: Sequence[Pair]) -> Table:
    """Return the errors, workload by workload."""
    rows: list[list[Cell]] = []
    for key in dict.fromkeys(p.key for p in pairs):
        mine = [p for p in pairs if p.key == key]
        own, cross = [p for p in mine if p.own], [p for p in mine if not p.own]
        worst = max(cross, key=lambda p: p.size, default=None)
        rows.append(
            [
                key[0],
                mine[0].deepest,
                key[2].split("-")[0],
                statistics.fmean(p.real_regret for p in own),
                statistics.fmean(p.spread for p in own),
                statistics.fmean(p.size for p in own),
                statistics.fmean(p.size for p in cross) if cross else None,
                statistics.fmean(p.moved.percent for p in cross) if cross else None,
                statistics.fmean(p.moved.chance for p in own),
                worst.error if worst else None,
                f"{worst.recorded} -> {worst.replayed}" if worst else "",
            ]
        )
    heads = ("workload", "deepest", "kernel", "regret %", "spread", "own error", "cross error",
             "moved %", "by chance %", "worst", "recorded -> replayed")  # fmt: skip
    return Table("Regret predicted less regret recorded, points", heads, rows, digits=2)


def by_machine(pairs: Sequence[Pair]) -> Table:
    """Return the errors, machine by machine and kernel by kernel; no rows if there is one."""
    rows: list[list[Cell]] = []
    keys = list(dict.fromkeys((p.machine, p.kernel) for p in pairs))
    for key in keys if len(keys) > 1 else ():
        mine = [p for p in pairs if (p.machine, p.kernel) == key]
        own, cross = [p for p in mine if p.own], [p for p in mine if not p.own]
        differ = differences(mine)
        rows.append(
            [
                own[0].deepest,
                own[0].kernel.split("-")[0],
                len(own),
                sum(is_missed(p) for p in own),
                statistics.fmean(p.size for p in own),
                statistics.fmean(p.size for p in cross),
                100 * sum(not is_missed(p) for p in cross) / len(cross),
                100 * sum(d.right for d in differ) / len(differ) if differ else None,
                100 * overslept_share(mine),
            ]
        )
    heads = ("deepest", "kernel", "own", "beyond", "own error", "cross error", "within 2 %",
             "sign right %", "overslept %")  # fmt: skip
    return Table("Errors by machine and kernel, points", heads, rows, digits=2)


def beyond(pairs: Sequence[Pair]) -> Table:
    """Return the pairs beyond their limit, the worst first."""
    rows: list[list[Cell]] = [
        [p.workload, p.deepest, p.recorded, p.replayed, p.predicted_regret, p.real_regret,
         p.size if p.own else p.error, p.spread, *(3 * [None] if p.own else
                             [p.moved.percent, p.moved.chance, p.moved.most])]
        for p in sorted(pairs, key=lambda p: -p.size)
        if is_missed(p)
    ]  # fmt: skip
    heads = ("workload", "deepest", "recorded", "replayed", "predicted %", "real %", "error",
             "spread", "moved %", "by chance %", "most")  # fmt: skip
    return Table("Beyond the limit", heads, rows, digits=2)


def plot(pairs: Sequence[Pair]) -> Plot:
    """Return predicted against real regret, one dot a pair."""
    least = 0.1

    def dots(wanted: Callable[[Pair], bool]) -> list[tuple[float, float]]:
        return [
            (max(least, p.real_regret), max(least, p.predicted_regret)) for p in pairs if wanted(p)
        ]

    most = max([least * 10, *(max(p.real_regret, p.predicted_regret) for p in pairs)])
    return Plot(
        "crossval",
        f"Regret, predicted against recorded (below {least} % shown as {least} %)",
        "recorded, %",
        "predicted, %",
        [
            Line("another's recording", dots(lambda p: not p.own), joined=False),
            Line("its own recording", dots(lambda p: p.own), joined=False),
            Line("equal", [(least, least), (most, most)]),
        ],
        log_x=True,
        log_y=True,
    )


def measured(pairs: Sequence[Pair]) -> dict[str, dict[str, float | str]]:
    """Return how much predictions err on another's recordings, points, as trust.py reads it.

    The weight (loop.py) and the deepest states of what was measured stand beside them.
    """
    found: dict[str, dict[str, float | str]] = {}
    for workload in dict.fromkeys(p.workload for p in pairs):
        cross = [p for p in pairs if p.workload == workload and not p.own]
        errors = [p.size for p in cross]
        found[workload] = {
            "mean": round(statistics.fmean(errors), 2),
            "worst": round(max(errors), 2),
            "weight": round(statistics.fmean(p.weight for p in cross), 3),
            "deepest": ", ".join(dict.fromkeys(p.deepest for p in cross)),
        }
    return found


def as_json(pairs: Sequence[Pair], verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return everything, units in the names."""
    return {
        "summary": [vars(one) for one in verdicts],
        "pairs": [
            {
                "workload": p.workload,
                "states": p.machine,
                "kernel": p.kernel,
                "recorded": p.recorded,
                "replayed": p.replayed,
                "error_points": p.size if p.own else p.error,
                "spread_points": p.spread,
                "beyond_limit": is_missed(p),
                "moved": asdict(p.moved),
                "predicted": [asdict(one) for one in p.predicted],
                "real": [asdict(one) for one in p.real],
            }
            for p in pairs
        ],
        "differences": [{**asdict(d), "right": d.right} for d in differences(pairs)],
    }
