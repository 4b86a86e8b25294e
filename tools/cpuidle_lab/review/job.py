# SPDX-License-Identifier: GPL-2.0
"""A review from its command line to its result: subjects, the order of the parts, the time."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.files import scratch
from cpuidle_lab.recording.columns import UNKNOWN, Columns, joined, opened
from cpuidle_lab.replay.engine import INTERVAL_TYPES
from cpuidle_lab.replay.library import MAINLINE
from cpuidle_lab.review import base as bases
from cpuidle_lab.review import checkers, listed, steps, walk
from cpuidle_lab.review import patch as patches
from cpuidle_lab.review.base import Base
from cpuidle_lab.review.confined import Confined, Died, network_is_closed
from cpuidle_lab.review.effect import FigureChange, save
from cpuidle_lab.review.result import ReviewResult
from cpuidle_lab.review.sweep import RULES
from cpuidle_lab.states.table import StateTable

# Intervals that are compared; the laws and tables of the sweep have about as many cells as it has
# thousands.
PERIODS = 10_000_000
# Least time of both searches, where the budget has twice as much.
_SEARCH_S = 90.0
# Least time that must be left for sanitizers, and for the list's cases, s.
_EXTRA_S = 30.0
# Shares of the budget.
_SWEEP, _EFFECT = 0.3, 0.2

Told = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Subject:
    """A pair of governors.

    Attributes:
        before, after: as replay takes them.
        labels: of both, for people.
        words: of both, as `experiment` takes them.
        base: what a patch was applied to; None: two governors were given.
        others: changed paths that are not judged.
        column: head of its column in a table of several; "": it is none of several.
        trees: kernel trees of words, by label.
    """

    before: str
    after: str
    labels: tuple[str, str]
    words: tuple[str, str]
    base: Base | None = None
    others: tuple[str, ...] = ()
    column: str = ""
    trees: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Wish:
    """Options of a review.

    Attributes:
        budget_s: time of it all.
        seed: of all draws.
        periods: intervals that are compared at most.
        limits: how much a figure may rise.
        recordings: to be replayed, too.
        command: for the result.
        reverse: the patch is taken back.
    """

    budget_s: float
    seed: int
    periods: int
    limits: Mapping[str, float]
    recordings: Sequence[Path] = ()
    command: str = ""
    reverse: bool = False


# ---- Subjects ----


def _resolved(word: str, trees: Mapping[str, Path]) -> str:
    """Return a governor with the path of a tree in place of its label."""
    head, colon, tunables = word.partition(":")
    name, at, kernel = head.partition("@")
    if at and kernel in trees:
        return f"{name}@{trees[kernel].resolve()}{colon}{tunables}"
    return word


def of_governors(before: str, after: str, trees: Mapping[str, Path]) -> Subject:
    """Return two governors as a subject."""
    return Subject(_resolved(before, trees), _resolved(after, trees), (before, after),
                   (before, after), trees=trees)  # fmt: skip


def _governors(changed: Sequence[str], files: Mapping[str, str]) -> list[str]:
    """Return the governors whose files, or the header that these include, are changed."""
    sources = {name: files.get(f"{name}.c", "") for name in MAINLINE}
    headers = [name for name in changed if name.endswith(".h")]
    return [
        name for name, text in sources.items()
        if f"{name}.c" in changed or any(f'"{header}"' in text for header in headers)
    ]  # fmt: skip


def of_patch(
    path: Path, base: str, trees: Mapping[str, Path], tree: Path, *, reverse: bool,
    mails: Path | None = None, split: str = steps.WHOLE,
) -> list[Subject]:  # fmt: skip
    """Return a subject for each governor that a patch, or a part of a series, changes.

    Args:
        path: the patch.
        base: a series or the label of a tree; "": find one.
        trees: kernel trees by label.
        tree: where the governors after the patch go.
        reverse: the patch is merged, and is to be taken back.
        mails: folder of a list's mails, by which later patches are taken back.
        split: parts of the series, as of steps.of_series().

    Raises:
        UserError: it cannot be read, applies nowhere, or changes no governor.
    """
    series = patches.read(path)
    history = walk.read(mails) if mails else ()
    found = bases.find(series, base, trees, reverse=reverse, mails=history)
    if not _governors(found.changed, found.after):
        raise UserError(f"{path}: changes no governor: {', '.join(found.changed) or 'nothing'}")
    parts = steps.of_series(series, found, split, reverse=reverse)
    return _of_steps(parts, trees, tree, tuple(patches.others(series)))


def of_commits(label: str, trees: Mapping[str, Path], span: str, tree: Path, split: str
               ) -> list[Subject]:  # fmt: skip
    """Return a subject for each governor that commits of a tree change.

    Args:
        label: of the tree.
        trees: kernel trees by label.
        span: "A..B".
        tree: where the governors after them go.
        split: all together, or one by one, as of steps.of_commits().

    Raises:
        UserError: there are none, or they change no governor.
    """
    found = _of_steps(steps.of_commits(label, trees[label], span, split), trees, tree, ())
    if not found:
        raise UserError(f"{span}: changes no governor")
    return found


def _of_steps(
    parts: Sequence[steps.Step], trees: Mapping[str, Path], tree: Path, others: tuple[str, ...]
) -> list[Subject]:
    """Write the governors of each step as trees, and return them as subjects.

    Raises:
        UserError: they cannot be written there.
    """
    if ":" in str(tree.resolve()):
        raise UserError(f"{tree}: a governor's path cannot have a colon; give --output", USAGE)
    found = []
    for one in parts:
        base, place, kernel, end = one.base, tree, one.base.kernel, one.column.lstrip("-")
        if end:
            place = tree.with_name(f"{tree.name}-{end}")
        bases.write(base.after, place)
        own = {"patched": place}
        if base.made:
            kernel = f"base-{end}" if end else "base"
            own[kernel] = bases.write(base.before, tree.parent / kernel)
            trees = {**trees, kernel: own[kernel]}
        found += [
            Subject(
                _resolved(f"{name}@{kernel}", trees), f"{name}@{place.resolve()}",
                (f"{name}@{kernel}", f"{name} {one.what}"),
                (f"{name}@{kernel}", f"{name}@patched"), base, others, one.column, own,
            )
            for name in _governors(base.changed, base.after)
        ]  # fmt: skip
    return found


# ---- The order of the parts ----


class Review:
    """Work on one subject; what it found is there at any time.

    Args:
        subject: the governors.
        wish: options.
        told: called with the part, the share that is done and the seconds that are left.

    Raises:
        UserError: a recording cannot be replayed.
    """

    def __init__(self, subject: Subject, wish: Wish, told: Told) -> None:
        self.result = ReviewResult(
            *subject.labels, wish.limits, wish.command, wish.seed, subject.base, wish.reverse,
            list(subject.others), network=network_is_closed(), column=subject.column,
        )  # fmt: skip
        self._subject = subject
        self._wish = wish
        self._told = told
        self._part = ""
        self._recordings = [(path.name, intervals_of(path)) for path in wish.recordings]
        self._end = time.monotonic() + wish.budget_s

    def run(self) -> None:
        """Do all parts; the first crash is the verdict."""
        with scratch() as folder:
            worker = Confined(self._subject.before, self._subject.after, folder, self._tell)
            with worker:
                try:
                    self._parts(worker, folder)
                except Died as death:
                    self._bury(worker, death)

    def _tell(self, done: float, left_s: float) -> None:
        self._told(self._part, done, left_s)

    @property
    def _left_s(self) -> float:
        return self._end - time.monotonic()

    def _parts(self, worker: Confined, folder: Path) -> None:
        result, wish = self.result, self._wish
        self._part = "contract"
        result.contract = worker.ask("contract", seed=wish.seed)
        if fatal := next((one for one in result.contract if one.get("fatal")), None):
            result.died = {"verdict": fatal["fatal"], "spec": fatal["case"]}
            result.unreached.append("all parts after that")
            return
        self._part = "comparing decisions"
        result.sweep = worker.ask("sweep", periods=wish.periods, seed=wish.seed,
                                  seconds=wish.budget_s * _SWEEP)  # fmt: skip
        result.contract += _rules(result.sweep)
        if not result.sweep["complete"]:
            periods = result.sweep["total"]["periods"]
            result.unreached.append(f"{wish.periods - periods:,} periods were not compared")
        for name, cpus in self._recordings:
            self._part = f"replaying {name}"
            result.cells += on_recording(worker, name, cpus, folder)
        if result.share == 0 and result.sweep["complete"]:
            result.unreached.append("no search and no figures, since no decision differs")
            return
        self._part = "measuring the effect"
        told = worker.ask("effect", seed=wish.seed, seconds=wish.budget_s * _EFFECT)
        result.cells += [_cell(one) for one in told["cells"]]
        result.bounds = tuple(told["bounds"])
        if told["left"]:
            result.unreached.append(f"{told['left']} places of the effect were not measured")
        self._cost(worker)
        self._list()
        self._part = "searching for harm and gain"
        self._search(worker, folder)

    def _cost(self, worker: Confined) -> None:
        self._part = "counting instructions"
        try:
            self.result.instructions = worker.ask("instructions", seed=self._wish.seed)
            if self.result.base:
                self.result.checkers = checkers.compare(self.result.base)
        except UserError as error:
            self.result.unreached.append(f"checkers: {error.message}")
        if self._left_s < _EXTRA_S:
            self.result.unreached.append("UBSan and valgrind, for which there was no time")
            return
        self._part = "running sanitizers"
        try:
            told = worker.ask("sanitize")
        except UserError as error:
            self.result.unreached.append(f"sanitizers: {error.message}")
            return
        self.result.contract += told["rules"]
        self.result.unreached += told["skipped"]

    def _list(self) -> None:
        """Play the list's cases under both."""
        if self._left_s < _EXTRA_S:
            self.result.unreached.append("the list's cases, for which there was no time")
            return
        self._part = "playing the list's cases"
        subject = self._subject
        try:
            self.result.listed = listed.play(subject.words, subject.trees.items())
        except UserError as error:
            self.result.unreached.append(f"the list's cases: {error.message}")

    def _search(self, worker: Confined, folder: Path) -> None:
        """Search for harm here, and for gain in a second process meanwhile."""
        result = self.result
        seconds = max(self._left_s, min(_SEARCH_S, self._wish.budget_s / 2))
        options = {"seed": self._wish.seed, "seconds": seconds,
                   "starts": result.sweep.get("starts", [])}  # fmt: skip
        inner = folder / "gain"
        inner.mkdir()
        other = Confined(self._subject.before, self._subject.after, inner, lambda *_: None)
        with other, ThreadPoolExecutor(1) as pool:
            gain = pool.submit(other.ask, "hunt", gain=True, **options)
            try:
                harm = worker.ask("hunt", gain=False, **options)
            except BaseException:
                other.kill()
                raise
            result.harm = harm["witnesses"]
            found = gain.result()
        result.gain = found["witnesses"]
        result.searched = {key: harm[key] + found[key] for key in ("evaluations", "by_chance")}

    def _bury(self, worker: Confined, death: Died) -> None:
        """Make the input small by which the governor failed."""
        result, subject = self.result, self._subject
        result.died = {"verdict": death.how, "spec": None}
        if death.side == subject.before != subject.after:
            raise UserError(f"{result.before} itself {death.how} in replay, so nothing is judged")
        if death.recipe is not None:
            with suppress(Died, UserError):
                told = worker.ask("reduce", side="after", recipe=death.recipe, seconds=20.0)
                result.died = {**told, "verdict": death.how}
        result.unreached.append("all parts after that")


def _rules(sweep: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the verdicts on the rules that the sweep checks."""
    broken = sweep["broken"]
    return [
        {"rule": text, "held": "after" not in broken.get(rule, {}),
         "held_before": "before" not in broken.get(rule, {}),
         "why": "", "recipe": broken.get(rule, {}).get("after"), "case": sweep["cases"].get(rule)}
        for rule, text in RULES.items()
    ]  # fmt: skip


def intervals_of(path: Path) -> list[tuple[StateTable, Columns]]:
    """Return the idle states and the intervals of each CPU of a recording.

    Raises:
        UserError: it cannot be replayed.
    """
    cpus = []
    with opened(path) as recording:
        for cpu in recording.cpus:
            if not recording.rows("interval", cpu):
                continue
            table = recording.state_tables.get(cpu)
            if table is None:
                raise UserError(f"{path}: the idle states of CPU {cpu} are unknown")
            chunk = joined(list(recording.intervals(cpu, list(INTERVAL_TYPES))))
            if (chunk["flags"] & np.uint8(UNKNOWN)).any():
                raise UserError(
                    f"{path}: does not tell the timers, without which governors cannot be replayed"
                )
            cpus.append((table, chunk))
    if not cpus:
        raise UserError(f"{path}: holds no idle interval")
    return cpus


def on_recording(
    worker: Confined, name: str, cpus: Sequence[tuple[StateTable, Columns]], folder: Path
) -> list[FigureChange]:
    """Return the figures on a recording."""
    file = folder / "intervals.npz"
    save(file, cpus)
    told = worker.ask("recording", name=name, path=str(file),
                      tables=[asdict(table) for table, _ in cpus])  # fmt: skip
    return [_cell(one) for one in told]


def _cell(told: Mapping[str, Any]) -> FigureChange:
    return FigureChange(**{**told, "before": tuple(told["before"]), "after": tuple(told["after"])})
