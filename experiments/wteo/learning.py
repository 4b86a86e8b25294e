# SPDX-License-Identifier: GPL-2.0
"""Target 3: what learning costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.tables import Section
from cpuidle_lab.replay.candidates import parse
from cpuidle_lab.states.table import StateTable
from experiments.memo import Memo
from experiments.wteo import regimes, resets
from experiments.wteo.streams import StudyIntervals

PART = "learning"
TITLE = "Learning: resets, changes of regime, stale rows"


@dataclass(frozen=True)
class Size:
    """Numbers of measurements.

    Attributes:
        resets: on each state table, at least.
        regimes: changes of regime.
    """

    resets: int
    regimes: regimes.Size


FULL = Size(1000, regimes.Size(switches=200, before_s=3600, away_s=7200))
QUICK = Size(60, regimes.Size(switches=20, before_s=60, away_s=120))


def measure(
    subject: str,
    suite: Sequence[StudyIntervals],
    machines: Mapping[str, StateTable],
    size: Size,
    memo: Memo,
    meter: Meter,
) -> Section:
    """Measure target 3.

    Args:
        subject: the governor that is judged.
        suite: the synthetic streams.
        machines: the state tables, by name.
        size: how much.
        memo: where figures are kept.
        meter: shows progress.
    """
    section = Section(PART, TITLE)
    mine = parse(subject, False)[0]
    resets.measure(section, mine, suite, size.resets * len(machines), memo, meter)
    regimes.measure(section, mine, machines, size.regimes, memo, meter)
    return section
