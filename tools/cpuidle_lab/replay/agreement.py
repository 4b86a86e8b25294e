# SPDX-License-Identifier: GPL-2.0
"""The decisions of another governor at the recorded points, compared with the recorded ones."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from cpuidle_lab.recording.columns import Recording
from cpuidle_lab.replay.engine import Progress, Run, Settings, check_table
from cpuidle_lab.replay.library import Governor
from cpuidle_lab.replay.points import OtherPoints, repeat
from cpuidle_lab.replay.policies import must_be_trace
from cpuidle_lab.replay.tunables import Tunables


@dataclass
class Agreement:
    """Comparison of another governor's decisions with the recorded ones, at the same points.

    Attributes:
        governor: as given.
        decisions: compared.
        same: the state that was recorded.
        deeper: a deeper one.
        shallower: a shallower one.
        reasons: decisions by number of the reason.
    """

    governor: str
    decisions: int = 0
    same: int = 0
    deeper: int = 0
    shallower: int = 0
    reasons: Counter[int] = field(default_factory=Counter)


def agreement(
    recording: Recording,
    chosen: Governor,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Agreement:
    """Let a governor decide at every recorded decision, learning from what was recorded.

    It starts afresh with the first decision of each CPU and after each gap.

    Raises:
        UserError: the recording holds no decisions, or contradicts itself.
    """
    must_be_trace(recording)
    tunables = Tunables(recording, chosen, settings or {})
    result = Agreement(chosen.spec)
    for cpu, table in recording.state_tables.items():
        check_table(str(recording.path), table)
        source = OtherPoints(recording, cpu, chosen, tunables)
        with Run(chosen, table, settings, cpu) as run:
            for points, recorded in source.chunks():
                answers = repeat(run, points, tunables.table(), source.states.data)
                theirs = recorded["index"].astype(np.int16)
                result.decisions += len(theirs)
                result.same += int((answers["index"] == theirs).sum())
                result.deeper += int((answers["index"] > theirs).sum())
                result.shallower += int((answers["index"] < theirs).sum())
                numbers, counts = np.unique(answers["reason"], return_counts=True)
                for number, count in zip(numbers, counts, strict=True):
                    result.reasons[int(number)] += int(count)
                if progress:
                    progress(len(theirs))
    return result
