# SPDX-License-Identifier: GPL-2.0
"""The process in which governors are replayed: see confined.py for the other end.

`python -m cpuidle_lab.review.worker BOX ANSWERS` reads questions as lines of JSON, and writes
answers to the file descriptor ANSWERS. Governors run in it that a patch has changed, so nothing
that it says is trusted.
"""

import json
import math
import os
import re
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

# Address space, size of a file, open files.
_MEMORY, _FILE, _FILES = 6 << 30, 256 << 20, 256


def limit() -> None:
    """Bound what this process and its children may use."""
    for which, most in (
        (resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_FSIZE, _FILE),
        (resource.RLIMIT_NOFILE, _FILES), (resource.RLIMIT_CORE, 0),
    ):  # fmt: skip
        _, hard = resource.getrlimit(which)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (most, most))


class Worker:
    """Answers questions."""

    def __init__(self, box: Path, say: Callable[[dict[str, Any]], None]) -> None:
        self._path = box
        self._say = say
        self._pair: Any = None
        self._now = time.monotonic

    def cpu_time(self) -> dict[str, Any]:
        """Let seconds be those of this process' CPU time, whatever else the machine does."""
        self._now = time.process_time
        return {}

    def _clock(
        self, seconds: float, streams: float = math.inf, swapped: Any = None
    ) -> Callable[[float], bool]:
        """Return what tells whether time and streams are left, and the time to the other end.

        Args:
            seconds: from now on.
            streams: that the pair plays from now on.
            swapped: the pair, if it is another than the worker's.
        """
        end = self._now() + seconds
        told = 0.0
        pair = swapped or self._pair
        last = pair.played + streams

        def go_on(done: float) -> bool:
            nonlocal told
            now = self._now()
            if now - told > 0.5:
                told = now
                self._say({"done": done, "left_s": max(0.0, end - now)})
            return now < end and pair.played < last

        return go_on

    def pair(self, before: str, after: str) -> dict[str, Any]:
        """Load two governors."""
        from cpuidle_lab.base.errors import UserError
        from cpuidle_lab.replay.candidates import candidate
        from cpuidle_lab.review.play import Box, Pair

        try:
            self._pair = Pair(candidate(before), candidate(after), Box(self._path))
        except OSError as error:
            found = re.search(r"undefined symbol: (\w+)", str(error))
            if not found:
                raise
            raise UserError(f"the stand-in for the kernel has no {found[1]}()") from None
        return {}

    def contract(self, seed: int) -> list[dict[str, Any]]:
        """Return the verdicts of contract.examine()."""
        from cpuidle_lab.review.contract import examine

        return examine(self._pair, seed)

    def sweep(self, periods: int, seed: int, seconds: float, streams: float = 1e18
              ) -> dict[str, Any]:  # fmt: skip
        """Compare decisions, and return the smallest counterexample.

        Args:
            periods: so many intervals.
            seed: of the streams.
            seconds: at most so much time, and a quarter of it for the counterexample.
            streams: at most so many are played to make that small.
        """
        from cpuidle_lab.review import sweep
        from cpuidle_lab.review.contract import reduce

        found = sweep.sweep(self._pair, periods, seed, self._clock(seconds))
        told: dict[str, Any] = {
            "total": vars(found.total), "complete": found.complete, "broken": found.broken,
            "kinds": {name: vars(tally) for name, tally in found.kinds.items()},
        }  # fmt: skip
        # A livelock is not seen in a trial, whose streams are short.
        told["cases"] = {
            rule: reduce(self._pair, "after", sides["after"], 5.0)["spec"]
            for rule, sides in found.broken.items() if {*sides} == {"after"} and rule != "livelock"
        }  # fmt: skip
        if found.soonest:
            inside = partial(self._clock(max(10.0, seconds / 4), streams), 1.0)
            spec = sweep.smallest(self._pair, *found.soonest, inside)
            told |= {"spec": spec, "parting": sweep.parting(self._pair, spec)}
            told["starts"] = [spec, *(start for _, start in found.starts)]
        return told

    def effect(self, seed: int, seconds: float) -> dict[str, Any]:
        """Return what effect.measure() finds."""
        from cpuidle_lab.review.effect import measure

        return measure(self._pair, seed, self._clock(seconds)).as_json()

    def recording(self, name: str, path: str, tables: list[dict[str, Any]]) -> list[Any]:
        """Return the cells of effect.on_recording()."""
        from cpuidle_lab.review.effect import on_recording
        from cpuidle_lab.states.table import StateTable

        def plain(value: Any) -> Any:
            return tuple(value) if isinstance(value, list) else value

        made = [StateTable(*(plain(table[one.name]) for one in fields(StateTable)))
                for table in tables]  # fmt: skip
        return [cell.as_json() for cell in on_recording(self._pair, name, Path(path), made)]

    def hunt(self, seed: int, seconds: float, gain: bool, starts: list[dict[str, Any]],
             streams: float = 1e18) -> dict[str, Any]:  # fmt: skip
        """Return what hunt.hunt() finds; of a gain, too, before is the first governor.

        Args:
            seed: of the search.
            seconds: at most so much time.
            gain: the first governor is to lose.
            starts: specs on which decisions differ.
            streams: at most so many are played.
        """
        from cpuidle_lab.review.hunt import hunt

        pair = self._pair.swapped() if gain else self._pair
        found = hunt(
            pair, seed, lambda share: self._clock(seconds * share, streams * share, pair), starts
        )
        witnesses = [one.as_json() for one in found.witnesses]
        for one in witnesses if gain else ():
            one["before"], one["after"] = one["after"], one["before"]
        return {"witnesses": witnesses, "by_chance": found.by_chance,
                "evaluations": found.evaluations}  # fmt: skip

    def reduce(self, side: str, recipe: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return how a governor fails, and on which smallest input."""
        from cpuidle_lab.review.contract import reduce

        return reduce(self._pair, side, recipe, seconds)

    def sanitize(self) -> dict[str, Any]:
        """Return what sanitizers.examine() finds."""
        from cpuidle_lab.review.sanitizers import examine

        return examine(self._pair)

    def instructions(self, seed: int) -> dict[str, Any]:
        """Return the mean instructions of a decision by number of states and side; {} without."""
        from cpuidle_lab.review.cost import instructions

        return instructions(self._pair, seed)


def main() -> int:
    """Answer until the questions end."""
    box, descriptor = sys.argv[1:]
    limit()
    answers = os.fdopen(int(descriptor), "w", encoding="utf-8")

    def say(what: dict[str, Any]) -> None:
        print(json.dumps(what), file=answers, flush=True)

    from cpuidle_lab.base.errors import FAILURE, UserError

    worker = Worker(Path(box), say)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            say({"answer": getattr(worker, name)(**arguments)})
        except (UserError, OSError, MemoryError) as error:
            said = getattr(error, "message", "") or str(error) or type(error).__name__
            say({"error": said, "code": getattr(error, "exit_code", FAILURE)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
