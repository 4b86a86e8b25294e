# SPDX-License-Identifier: GPL-2.0
"""Makes recorded decisions again, and compares.

A governor starts where a checkpoint of its state is in the trace: before its first traced decision
on a CPU, after each enable and reset, on request and after a second. Where events were lost nothing
is decided until the next one; such decisions are counted as unknowable, not guessed.
"""

import ctypes
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from cpuidle_lab.base import abi
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording.columns import TRACE, Recording
from cpuidle_lab.replay.engine import Array, Progress, Run, Settings, check_machine
from cpuidle_lab.replay.library import TUNABLE_MAX, Governor, governor

GO_ON = abi.constant("RP_GO_ON")
AFRESH = abi.constant("RP_AFRESH")
STATE = abi.constant("RP_STATE")
UNKNOWABLE = abi.constant("RP_UNKNOWABLE")
NO_OUTCOME = abi.constant("CIL_OUTCOME_NONE")
ABORTED = abi.constant("CIL_OUTCOME_ABORTED")
REJECTED = abi.constant("CIL_DECISION_REJECTED")
ASKED = abi.constant("CIL_DECISION_ASKED")
FRESH = abi.constant("CIL_SHADOW_FRESH")

GATE = "gate"
# Programs in BPF decide for it; the configuration names "bpf:NAME@HASH".
BPF = "bpf"
_PROGRAM = re.compile(r"bpf:(\w+)")
_PROGRAM_TUNABLE = re.compile(r"t(\d+)")
# Stands for a kernel governor under the gate: its recorded answer, then the gate's clamp.
BASE = "base"

POINT_TYPES = abi.columns("rp_points")
ANSWER_TYPES = abi.columns("rp_answers")

Result = TypeVar("Result")

# What must be the same: how the recording calls it, and the replay.
COMPARED = ("index", "stop_tick", "reason", "row")


@dataclass
class Difference:
    """A decision that replay made otherwise than the kernel did.

    Attributes:
        cpu: the CPU.
        seq: the decision's number on it.
        what: what differs, with both values.
    """

    cpu: int
    seq: int
    what: str


@dataclass
class Fidelity:
    """How far a governor's replay agrees with its recording.

    Attributes:
        governor: whose decisions they are; "base" are a kernel governor's under the gate.
        decisions: recorded.
        compared: made again.
        identical: index, stop_tick, reason, row and the question for the next timer are the same.
        unknowable: not made again, because events before them were lost.
        aborted: decisions that no idle period followed, among those compared.
        rejected: decisions that follow a state which the driver refused, likewise.
        reasons: decisions compared, by reason.
        states_same: checkpoints that equal what the replay had learned by itself.
        states_fresh: checkpoints of a governor that started afresh.
        states_taken: checkpoints that replay had to go on from: its starting points.
        tunables: sets of tunables in force.
        first: the first differences.
    """

    governor: str
    decisions: int = 0
    compared: int = 0
    identical: int = 0
    unknowable: int = 0
    aborted: int = 0
    rejected: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    states_same: int = 0
    states_fresh: int = 0
    states_taken: int = 0
    tunables: int = 0
    first: list[Difference] = field(default_factory=list)

    def add(self, other: "Fidelity") -> None:
        """Add another part of the recording."""
        for name, value in vars(other).items():
            if name == "tunables":
                self.tunables = max(self.tunables, value)
            elif name != "governor":
                setattr(self, name, getattr(self, name) + value)

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON can have it."""
        first = [vars(difference) for difference in self.first]
        return vars(self) | {"reasons": dict(self.reasons), "first": first}

    def lines(self) -> list[str]:
        """Return the result for people."""
        whose = "gate over a kernel governor" if self.governor == BASE else self.governor
        found = [f"{whose}: identical {self.identical} of {self.compared}"]
        if self.unknowable:
            found.append(f"  not decided, events before them were lost: {self.unknowable}")
        if self.tunables > 1:
            found.append(f"  sets of tunables in force: {self.tunables}")
        if self.states_same:
            found.append(f"  checkpoints equal to what replay had learned: {self.states_same}")
        if self.aborted:
            found.append(f"  without an idle period: {self.aborted}")
        found += [f"  CPU {d.cpu} decision {d.seq}: {d.what}" for d in self.first]
        return found


# Tables of a trace whose formats name the governors and the reasons.
_NAMING = ("period", "decision", "shadow", "config")


def _name(recording: Recording, column: str, number: int) -> str:
    named = (recording.symbols.get((table, column), {}).get(number) for table in _NAMING)
    return next(filter(None, named), f"{column} {number}")


def governor_name(recording: Recording, number: int) -> str:
    """Return the name of a governor, by its number in the trace."""
    return _name(recording, "governor", number)


def reason_name(recording: Recording, number: int) -> str:
    """Return what a reason is called, by its number."""
    return _name(recording, "reason", number)


def is_program(base: str) -> bool:
    """Return whether a configuration's base is a program in BPF, or teo_ng in place of one."""
    return _PROGRAM.match(base) is not None


def policy_of(name: str, base: str) -> str:
    """Return which policy decides, by a configuration's governor and base.

    A program in BPF stands for the policy whose name it has: the same sources made both.
    """
    program = _PROGRAM.match(base)
    if program:
        return program[1]
    return base if name == GATE else name


def _of_program(words: Mapping[str, str], chosen: Governor) -> dict[str, str | int]:
    """Return the tunables of a program by the names that its policy gives them."""
    found = ((_PROGRAM_TUNABLE.fullmatch(name), value) for name, value in words.items())
    numbers = {int(match[1]): value for match, value in found if match}
    names = [each.name for each in chosen.tunables]
    return {names[n]: value for n, value in numbers.items() if n < len(names)}


def settings_of(base: str, text: str, chosen: Governor) -> dict[str, str | int]:
    """Return the tunables of a policy as a configuration has them.

    Args:
        base: of the configuration; it names the program, if one decided.
        text: "NAME=VALUE NAME=VALUE"; a program's are numbered.
        chosen: the policy.
    """
    words = dict(word.split("=", 1) for word in text.split() if "=" in word)
    return _of_program(words, chosen) if is_program(base) else dict(words)


class Tunables:
    """The sets of values that a governor had in a recording, by generation."""

    def __init__(self, recording: Recording, chosen: Governor, fixed: Settings | None = None):
        """Collect them.

        Args:
            recording: where.
            chosen: whose.
            fixed: use these whatever was recorded (a governor that did not record it).
        """
        self._governor = chosen
        self._fixed = fixed
        self._rows: list[tuple[int, ...]] = []
        self._known: dict[int, int] = {}
        if fixed is not None or not chosen.tunables:
            self._rows.append(chosen.values(fixed or {}))
            self._fixed = self._fixed or {}
            return
        config = recording.table("config").select("generation", "governor", "base", "tunables")
        self._anchors: dict[int, dict[str, str | int]] = {}
        for generation, number, base, text in config.unique().sort("generation").rows():
            name = governor_name(recording, number)
            if policy_of(name, base) == chosen.name:
                self._anchors[generation] = settings_of(base, text, chosen)
        self._changes: dict[int, dict[str, str | int]] = {}
        events = recording.table("tunable").select("generation", "governor", "name", "value")
        for generation, number, name, value in events.rows():
            by = governor_name(recording, number)
            if by == chosen.name:
                self._changes.setdefault(generation, {})[name] = value
            elif by == BPF:
                self._changes.setdefault(generation, {}).update(_of_program({name: value}, chosen))
        for generation, change in self._changes.items():
            # All of them at once: as good as a checkpoint.
            if len(change) == len(chosen.tunables):
                self._anchors.setdefault(generation, change)

    def number(self, generation: int) -> int | None:
        """Return which row of `table` was in force; None if the trace does not tell."""
        if self._fixed is not None:
            return 0
        if generation not in self._known:
            settings = self._settings(generation)
            if settings is None:
                return None
            values = self._governor.values(settings)
            if values not in self._rows:
                self._rows.append(values)
            self._known[generation] = self._rows.index(values)
        return self._known[generation]

    def _settings(self, generation: int) -> Mapping[str, str | int] | None:
        if generation in self._anchors:
            return self._anchors[generation]
        before = max((n for n in self._anchors if n < generation), default=None)
        if before is None or generation not in self._changes:
            return None
        settings = dict(self._anchors[before])
        for change in sorted(n for n in self._changes if before < n <= generation):
            settings |= self._changes[change]
        return settings

    def table(self) -> Array:
        """Return all sets, a row of TUNABLE_MAX for each."""
        result = np.zeros((max(1, len(self._rows)), TUNABLE_MAX), np.uint32)
        for number, values in enumerate(self._rows):
            result[number, : len(values)] = values
        return result

    def __len__(self) -> int:
        return len(self._rows)


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
        self._whose = _policies(recording, cpu)
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


class _Policies:
    """Which policy decided, by the number of the governor; under the gate by its base."""

    def __init__(self, plain: Mapping[int, str], since: Array, bases: list[str]):
        self._plain = plain
        self._since = since
        self._bases = bases

    def of(self, chunk: Mapping[str, Array]) -> Array:
        numbers = chunk["governor"]
        names = np.array([self._plain.get(n, "?") for n in range(256)], dtype=object)[numbers]
        led = np.isin(names, (GATE, BPF))
        if led.any():
            at = np.searchsorted(self._since, chunk["seq"], side="right") - 1
            based = np.array([*self._bases, "?"], dtype=object)[at]
            names = np.where(led, based, names)
        return names


def _policies(recording: Recording, cpu: int) -> _Policies:
    config = recording.table("config").filter(pl.col("cpu") == cpu).sort("seq")
    plain = {n: governor_name(recording, n) for n in range(256)}
    own = {name for name in plain.values() if not name.startswith("governor ")}
    bases = [
        name if name in own or is_program(base) else BASE
        for base in config["base"].to_list()
        for name in [policy_of(GATE, base)]
    ]
    return _Policies(plain, config["seq"].to_numpy(), bases)


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


def recorded_policies(recording: Recording) -> list[str]:
    """Return whose decisions a recording holds: governors, and "base" under the gate."""
    _must_be_trace(recording)
    found: dict[str, None] = {}
    for cpu in recording.cpus:
        whose = _policies(recording, cpu)
        for chunk in recording.periods(cpu, ["seq", "governor"]):
            found |= dict.fromkeys(sorted(set(whose.of(chunk))))
    return [name for name in found if name != "?"]


def recorded_shadows(recording: Recording) -> list[str]:
    """Return which governors decided as shadows in a recording, programs in BPF not among them.

    The events of a shadow do not say which program it was.
    """
    numbers = sorted(recording.table("shadow")["governor"].unique().to_list())
    names = [governor_name(recording, n) for n in numbers]
    return [name for name in names if name != BPF]


def _generations(recording: Recording, shadow: bool) -> list[int]:
    found: set[int] = set()
    if shadow:
        return sorted(recording.table("shadow")["generation"].unique().to_list())
    for cpu in recording.cpus:
        for chunk in recording.periods(cpu, ["generation"]):
            found |= set(np.unique(chunk["generation"]).tolist())
    return sorted(found)


def _must_be_trace(recording: Recording) -> None:
    if recording.kind != TRACE:
        raise UserError(
            f"{recording.path}: holds no decisions of the project's governors to be made again; "
            "record cpuidle_lab events"
        )


def _repeat(
    run: Run, points: Mapping[str, Array], tunables: Array, states: Array
) -> dict[str, Array]:
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


def _compare(
    result: Fidelity,
    recording: Recording,
    recorded: Mapping[str, Array],
    answers: Mapping[str, Array],
    known: Array,
) -> None:
    same = known.copy()
    for name in COMPARED:
        same &= recorded[name] == answers[name]
    same &= (recorded["flags"] & ASKED != 0) == (answers["asked"] != 0)
    result.decisions += len(known)
    result.compared += int(known.sum())
    result.identical += int(same.sum())
    result.unknowable += int((~known).sum())
    result.aborted += int((known & (recorded["out_kind"] == ABORTED)).sum())
    result.rejected += int((known & (recorded["flags"] & REJECTED != 0)).sum())
    numbers, counts = np.unique(recorded["reason"][known], return_counts=True)
    for number, count in zip(numbers, counts, strict=True):
        result.reasons[reason_name(recording, int(number))] += int(count)
    for position in np.flatnonzero(known & ~same)[: 10 - len(result.first)]:
        parts = [
            f"{name} {recorded[name][position]} was recorded, {answers[name][position]} replayed"
            for name in COMPARED
            if recorded[name][position] != answers[name][position]
        ]
        what = "; ".join(parts) or "only one of them asked for the sleep length"
        result.first.append(
            Difference(int(recorded["cpu"][position]), int(recorded["seq"][position]), what)
        )


def _cpu_fidelity(
    kind: type[Points],
    recording: Recording,
    cpu: int,
    chosen: Governor,
    tunables: Tunables,
    progress: Progress | None,
) -> Fidelity:
    result = Fidelity(chosen.name)
    machine = recording.machines.get(cpu)
    if machine is None:
        return result
    check_machine(str(recording.path), machine)
    source = kind(recording, cpu, chosen, tunables)
    unknown = True
    with Run(chosen, machine, cpu=cpu) as run:
        for points, recorded in source.chunks():
            answers = _repeat(run, points, tunables.table(), source.states.data)
            # From a gap to the next start nothing is decided.
            marks = points["start"]
            last = np.maximum.accumulate(np.where(marks != GO_ON, np.arange(len(marks)), -1))
            open_gap = np.where(last < 0, unknown, marks[last] == UNKNOWABLE)
            unknown = bool(open_gap[-1])
            _compare(result, recording, recorded, answers, ~open_gap)
            if progress:
                progress(len(marks))
        checks = abi.struct("rp_checks")()
        run.call("rp_checks", ctypes.byref(checks))
    result.states_same, result.states_fresh = checks.same, checks.fresh
    result.states_taken = checks.other
    return result


def apart(path: Path, function: Callable[..., Result], *arguments: object) -> Result:
    """Call a function in a process of its own.

    A recorded state is what a governor goes on with, byte for byte. One that was damaged may make
    it read and write astray: then that process ends, and this one says so.

    Args:
        path: the recording, for the message.
        function: of a module; it and its arguments can be pickled.
        arguments: its arguments.

    Raises:
        UserError: the process ended without a result, or the function raised it.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            raise UserError(
                f"{path}: replay broke down; a state that was recorded in it is damaged"
            ) from None


def fidelity_of(path: Path, name: str, jobs: int | None) -> Fidelity:
    """Return fidelity() of a directory of columns."""
    return fidelity(Recording(path), name, jobs=jobs)


def fidelity(
    recording: Recording,
    name: str,
    *,
    shadow: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Fidelity:
    """Make a governor's recorded decisions again and compare.

    Args:
        recording: a trace.
        name: one of recorded_policies(), or of recorded_shadows().
        shadow: compare what it decided as a shadow.
        jobs: threads; None is one for each processor.
        progress: called with the number of decisions after each chunk, from any thread.

    Raises:
        UserError: the recording contradicts itself.
    """
    _must_be_trace(recording)
    chosen = governor(name)
    tunables = Tunables(recording, chosen)
    kind: type[Points] = ShadowPoints if shadow else Points
    # Filled before the threads start; they only read it.
    for generation in _generations(recording, shadow):
        tunables.number(generation)
    result = Fidelity(chosen.name, tunables=len(tunables))
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        for part in pool.map(
            lambda cpu: _cpu_fidelity(kind, recording, cpu, chosen, tunables, progress),
            recording.cpus,
        ):
            result.add(part)
    return result


@dataclass
class Agreement:
    """How another governor's decisions compare with the recorded ones, at the same points.

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
    _must_be_trace(recording)
    tunables = Tunables(recording, chosen, settings or {})
    result = Agreement(chosen.spec)
    for cpu, machine in recording.machines.items():
        check_machine(str(recording.path), machine)
        source = OtherPoints(recording, cpu, chosen, tunables)
        with Run(chosen, machine, settings, cpu) as run:
            for points, recorded in source.chunks():
                answers = _repeat(run, points, tunables.table(), source.states.data)
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
