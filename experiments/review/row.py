# SPDX-License-Identifier: GPL-2.0
"""One change, put at its place in the past, and judged by comparison and search."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cpuidle_lab.base.cache import TOP, digest
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import scratch
from cpuidle_lab.review import base as bases
from cpuidle_lab.review import walk
from cpuidle_lab.review.base import Base
from cpuidle_lab.review.confined import Confined, Died
from cpuidle_lab.review.patch import Patch
from experiments.memo import sources
from experiments.review.hand import Edits, Hand
from experiments.review.known import Known

_REVIEW = TOP / "tools" / "cpuidle_lab" / "review"
# Modules that decide what is found.
_SEARCH = ("hunt", "play", "shrink", "space", "stream", "sweep", "tables")
# Idle periods that are compared, and streams that make a counterexample small.
_PERIODS, _SHRINK = 400_000, 1000
# Of the kernels back from which the mails lead.
_KERNELS = ("7.3", "6.12", "6.1")

History = Mapping[str, Sequence[walk.Step]]


@dataclass(frozen=True)
class Task:
    """A change at its place.

    Attributes:
        governor: its name.
        before, after: files of both sides; of a pair {}.
        words: of a pair, as replay takes them.
        where: for people.
        by_hand: edits of ours stand for a mail.
    """

    governor: str
    before: Mapping[str, str]
    after: Mapping[str, str]
    words: tuple[str, str] | None
    where: str
    by_hand: bool = False


@dataclass(frozen=True)
class Effort:
    """Bounds of a search.

    Attributes:
        streams: that it plays for harm, and as many for gain. Where time is no bound, findings do
            not depend on how busy the machine is.
        seconds: of CPU time: a quarter for the comparison, the rest for harm and for gain alike.
        periods: idle periods that are compared.
        seed: of all draws.
    """

    streams: float = 1e18
    seconds: float = 1e9
    periods: int = _PERIODS
    seed: int = 1


def histories(mails: Sequence[Patch]) -> History:
    """Return the steps back from each packaged kernel."""
    return {kernel: [*walk.back(bases.files_of(kernel, {}), mails)] for kernel in _KERNELS}


def _placed(known: Known, mails: Sequence[Patch], history: History) -> Task:
    """Return a patch of the list as a task.

    Raises:
        UserError: the mail is missing, or the patch fits nowhere.
    """
    if not mails:
        raise UserError("its mail is not there: give --mails")
    wanted = f"<{known.mail}>"
    patch = next((one for one in mails if one.message_id == wanted), None)
    if patch is None:
        raise UserError("its mail is not among those of --mails")
    found = walk.place([patch], mails, history)
    if found is None:
        raise UserError("its mails lead to no code on which it applies")
    base: Base = bases.walked(found)
    name = base.changed[0].partition(".")[0]
    notes = "; ".join(base.notes)
    where = f"{base.kernel}, {base.how}" + (f"; {notes}" if notes else "")
    return Task(name, base.before, base.after, None, where)


def _edited(name: str, text: str, edits: Edits) -> str:
    """Return a governor after edits.

    Raises:
        UserError: a text that is replaced does not stand there once.
    """
    for old, new in edits:
        if text.count(old) != 1:
            raise UserError(f"{name} has no single place for an edit")
        text = text.replace(old, new)
    return text


def _by_hand(hand: Hand, *, in_place_of_mail: bool) -> Task:
    """Return the edits of a change as a task.

    Raises:
        UserError: one has no place, or the kernel's sources are not there.
    """
    files, name = bases.files_of(hand.kernel, {}), f"{hand.governor}.c"
    before, after = ({**files, name: _edited(name, files[name], side)}
                     for side in (hand.before, hand.after))  # fmt: skip
    how = "built by hand" if in_place_of_mail else "an edit of ours"
    return Task(hand.governor, before, after, None, f"{hand.kernel}, {how}", in_place_of_mail)


def task(known: Known, mails: Sequence[Patch], history: History) -> Task:
    """Return a change at its place: by its mail, else built by hand.

    Raises:
        UserError: it has none; the message says why.
    """
    if known.pair:
        return Task(known.pair[0].partition("@")[0], {}, {}, known.pair, "as packaged")
    if known.hand and not (known.mail and mails):
        return _by_hand(known.hand, in_place_of_mail=bool(known.mail))
    try:
        return _placed(known, mails, history)
    except UserError:
        if known.hand is None:
            raise
        return _by_hand(known.hand, in_place_of_mail=True)


def key(one: Task, streams: int) -> str:
    """Return a hash of all that the figures of a task depend on."""
    parts: list[str | bytes] = [(_REVIEW / f"{name}.py").read_bytes() for name in _SEARCH]
    texts = [text for side in (one.before, one.after) for text in side.values()]
    words = [f"{word} {sources(word)}" for word in one.words or ()]
    return digest(["review", str(streams), one.governor, *parts, *texts, *words])


def judge(one: Task, effort: Effort) -> dict[str, Any]:
    """Return the findings on a change.

    Args:
        one: the change.
        effort: at most so much.

    Returns:
        What rating.rate() takes; where it could not be judged, "died" says why.
    """
    with scratch() as folder:
        words = one.words or tuple(
            f"{one.governor}@{bases.write(files, folder / side)}"
            for side, files in (("before", one.before), ("after", one.after))
        )
        try:
            return _judge(words[0], words[1], folder, effort)
        except UserError as error:
            return {"died": re.sub(r"/\S*/", "", error.message)}


def _judge(before: str, after: str, folder: Path, effort: Effort) -> dict[str, Any]:
    found: dict[str, Any] = {"same": False, "harm": [], "gain": [], "died": "", "streams": 0,
                             "counterexample": None}  # fmt: skip
    with Confined(before, after, folder, lambda *_: None) as worker:
        try:
            worker.ask("cpu_time")
            sweep = worker.ask("sweep", periods=effort.periods, seed=effort.seed,
                               seconds=effort.seconds / 4, streams=_SHRINK)  # fmt: skip
            found["periods"], found["differ"] = sweep["total"]["periods"], sweep["total"]["differ"]
            found["counterexample"] = sweep.get("spec")
            for kind in ("harm", "gain"):
                told = worker.ask("hunt", gain=kind == "gain", seed=effort.seed,
                                  seconds=effort.seconds * 3 / 8, starts=sweep.get("starts", []),
                                  streams=effort.streams)  # fmt: skip
                found[kind] = told["witnesses"]
                found["streams"] += told["evaluations"]
        except Died as death:
            return {**found, "died": str(death)}
    found["same"] = not (found["differ"] or found["harm"] or found["gain"])
    return found
