# SPDX-License-Identifier: GPL-2.0
"""The points of a recording at which a policy decides again.

A governor starts where a checkpoint of its state is in the trace: before its first traced decision
on a CPU, after each enable and reset, on request and after a second. Where events were lost nothing
is decided until the next one; such decisions are counted as unknowable, not guessed.
"""

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from cpuidle_lab.base import abi
from cpuidle_lab.recording.columns import Recording
from cpuidle_lab.replay.engine import Array, Run
from cpuidle_lab.replay.library import Governor
from cpuidle_lab.replay.policies import governor_name, policies_of
from cpuidle_lab.replay.tunables import Tunables

GO_ON = abi.constant("RP_GO_ON")
AFRESH = abi.constant("RP_AFRESH")
STATE = abi.constant("RP_STATE")
UNKNOWABLE = abi.constant("RP_UNKNOWABLE")
NO_OUTCOME = abi.constant("CIL_OUTCOME_NONE")
ASKED = abi.constant("CIL_DECISION_ASKED")
FRESH = abi.constant("CIL_SHADOW_FRESH")

POINT_TYPES = abi.columns("rp_points")
ANSWER_TYPES = abi.columns("rp_answers")

# Fields that must be the same, by their names in recording and replay.
COMPARED = ("index", "stop_tick", "reason", "row")


@dataclass
class States:
    """Recorded states of one governor on one CPU.

    Attributes:
        at: which state belongs to the decision of that number.
        data: the states one after the other.
    """

    at: dict[int, int]
    data: Array

    @classmethod
    def collect(cls, events: pl.DataFrame, cpu: int, size: int) -> "States":
        """Put the pieces together; a state of which one is missing is left out."""
        mine = events.filter((pl.col("cpu") == cpu) & (pl.col("total") == size))
        pieces: dict[int, dict[int, bytes]] = {}
        for seq, offset, data in mine.select("seq", "offset", "data").rows():
            pieces.setdefault(seq, {})[offset] = data
        whole = {
            seq: b"".join(part for _, part in sorted(parts.items()))
            for seq, parts in pieces.items()
            if sum(map(len, parts.values())) == size
        }
        joined = b"".join(whole.values())
        return cls({seq: n for n, seq in enumerate(whole)}, np.frombuffer(joined, np.uint8))


class Points:
    """Turns the recorded decisions of one CPU and governor into what the library reads."""

    def __init__(self, recording: Recording, cpu: int, chosen: Governor, tunables: Tunables):
        self._recording = recording
        self._cpu = cpu
        self._tunables = tunables
        events = recording.table("state")
        self.states = States.collect(events, cpu, chosen.state_size)
        config = recording.table("config").filter(pl.col("cpu") == cpu)
        self._configs = set(config["seq"].to_list())
        self._stateless = chosen.state_size == 0
        self._whose = policies_of(recording, cpu)
        self._name = chosen.name
        self._before: tuple[int, int] | None = None

    def chunks(self) -> Iterator[tuple[dict[str, Array], dict[str, Array]]]:
        """Yield points, and what was recorded at them."""
        for chunk in self._recording.periods(self._cpu):
            mine = self._whose.of(chunk) == self._name
            start = self._starts(chunk)
            if not mine.any():
                continue
            recorded = {name: values[mine] for name, values in chunk.items()}
            points = _point_columns(recorded)
            points["start"] = start[mine]
            points["tunables"] = self._sets(recorded["generation"], points["start"])
            yield points, recorded

    def _gaps(self, chunk: Mapping[str, Array]) -> Array:
        """Tell before which decisions of a CPU events are missing; nothing is before the first."""
        seq = chunk["seq"].astype(np.int64)
        before = self._before or (int(seq[0]) - 2, NO_OUTCOME)
        follows = np.diff(seq, prepend=before[0]) == 1
        told = np.concatenate([[before[1]], chunk["out_kind"][:-1]]) != NO_OUTCOME
        self._before = int(seq[-1]), int(chunk["out_kind"][-1])
        gaps: Array = ~(follows & told & (chunk["lost"] == 0))
        return gaps

    def _starts(self, chunk: Mapping[str, Array]) -> Array:
        """Return what comes before each decision of a CPU: nothing, a state, or a gap."""
        seq = chunk["seq"].astype(np.int64)
        start = np.where(self._gaps(chunk), UNKNOWABLE, GO_ON).astype(np.uint32)
        if self._stateless:
            # There is nothing that a gap could have changed.
            start[start == UNKNOWABLE] = AFRESH
            return start
        for position in np.flatnonzero(np.isin(seq, list(self._configs))):
            number = self.states.at.get(int(seq[position]))
            if number is not None:
                start[position] = STATE + number
        return start

    def _sets(self, generations: Array, start: Array) -> Array:
        found = np.zeros(len(generations), np.uint32)
        for generation in np.unique(generations):
            number = self._tunables.number(int(generation))
            here = generations == generation
            if number is None:
                start[here] = UNKNOWABLE
            else:
                found[here] = number
        return found


class OtherPoints(Points):
    """The decisions of whatever governor, for one that did not make them.

    It starts afresh with the first of them, and after each gap.
    """

    def chunks(self) -> Iterator[tuple[dict[str, Array], dict[str, Array]]]:
        """Yield points, and what was recorded at them."""
        for recorded in self._recording.periods(self._cpu):
            points = _point_columns(recorded)
            points["start"] = np.where(self._gaps(recorded), AFRESH, GO_ON).astype(np.uint32)
            points["tunables"] = np.zeros(len(points["start"]), np.uint32)
            yield points, recorded


class ShadowPoints(Points):
    """The decisions at which a governor decided as a shadow, and what it decided there."""

    def __init__(self, recording: Recording, cpu: int, chosen: Governor, tunables: Tunables):
        super().__init__(recording, cpu, chosen, tunables)
        numbers = [n for n in range(256) if governor_name(recording, n) == chosen.name]
        frame = recording.table("shadow").filter(
            (pl.col("cpu") == cpu) & pl.col("governor").is_in(numbers)
        )
        self._shadow = {name: frame.sort("seq")[name].to_numpy() for name in frame.columns}

    def chunks(self) -> Iterator[tuple[dict[str, Array], dict[str, Array]]]:
        """Yield points, and what the shadow decided at them."""
        shadow = self._shadow
        for chunk in self._recording.periods(self._cpu):
            gaps = self._starts(chunk) == UNKNOWABLE
            at = np.searchsorted(shadow["seq"], chunk["seq"])
            at = np.minimum(at, max(0, len(shadow["seq"]) - 1))
            mine = (
                shadow["seq"][at] == chunk["seq"]
                if len(shadow["seq"])
                else np.zeros(len(at), np.bool_)
            )
            if not mine.any():
                continue
            decided = {name: values[at[mine]] for name, values in shadow.items()}
            recorded = {name: values[mine] for name, values in chunk.items()}
            points = _point_columns(recorded)
            # A kernel governor under the gate is not told the hint; its shadows are.
            hint = recorded["hint_ns"]
            limit = np.where(hint >= 0, hint, points["latency_req_ns"])
            points["latency_req_ns"] = np.minimum(points["latency_req_ns"], limit)
            # The gap of a decision without the shadow belongs to the next one with it.
            owner = np.minimum(np.searchsorted(chunk["seq"][mine], chunk["seq"]), mine.sum() - 1)
            gap = np.zeros(int(mine.sum()), np.bool_)
            np.logical_or.at(gap, owner, gaps | ~mine)
            start = np.where(gap, UNKNOWABLE, GO_ON)
            points["start"] = np.where(decided["flags"] & FRESH, AFRESH, start).astype(np.uint32)
            points["tunables"] = self._sets(decided["generation"], points["start"])
            recorded |= {name: decided[name] for name in COMPARED}
            asked = (recorded["flags"] & ~np.uint8(ASKED)) | (decided["flags"] & ASKED)
            yield points, recorded | {"flags": asked}


def _point_columns(recorded: Mapping[str, Array]) -> dict[str, Array]:
    return {
        name: np.ascontiguousarray(recorded[name], dtype=kind)
        for name, kind in POINT_TYPES.items()
        if name in recorded
    }


def repeat(
    run: Run, points: Mapping[str, Array], tunables: Array, states: Array
) -> dict[str, Array]:
    """Let a policy decide at points.

    Args:
        run: of the policy.
        points: of one of the classes here.
        tunables: sets of values, see Tunables.table().
        states: recorded states, see States.data.

    Returns:
        the answers, by ANSWER_TYPES.
    """
    count = len(points["now_ns"])
    answers: dict[str, Array] = {name: np.zeros(count, kind) for name, kind in ANSWER_TYPES.items()}
    run.call(
        "rp_repeat",
        ctypes.byref(abi.pointing("rp_points", points, count=count)),
        ctypes.c_void_p(tunables.ctypes.data),
        ctypes.c_void_p(states.ctypes.data),
        ctypes.byref(abi.pointing("rp_answers", answers)),
    )
    return answers
