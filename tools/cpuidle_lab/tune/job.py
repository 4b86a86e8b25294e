# SPDX-License-Identifier: GPL-2.0
"""From the command line to the result: traces, references, search, front, held-out figures."""

import argparse
import contextlib
import sys
from pathlib import Path

from optuna.trial import TrialState
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from cpuidle_lab.base.cache import BUILD, digest
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.replay import library
from cpuidle_lab.states.linux_source import NEWEST
from cpuidle_lab.tune import search
from cpuidle_lab.tune.pieces import figures, gather
from cpuidle_lab.tune.result import PICKS, Row, Tuning, front
from cpuidle_lab.tune.space import defaults, ranges

STUDIES = BUILD / "tune"


class Job:
    """A run of the command.

    Attributes:
        args: of the command line, see commands/tune.py.
        governor: whose tunables.
        searched: their ranges.
        split: the traces.
        task: the search.
    """

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        """Read the traces into `folder`, which must stay until run() is done.

        Raises:
            UserError: what was given cannot be used.
        """
        self.args = args
        self._console = Console(stderr=True)
        self.governor = library.governor(args.governor)
        self.searched = ranges(self.governor, args.tunable)
        if args.storage:
            search.without_password(args.storage)
        with self._status("reading the traces"):
            self.split = gather(args.traces, args.hold_out, args.hold_out_share, args.seed, folder)
            study = self._study()
        self.task = search.Task(
            governor=args.governor,
            searched=self.searched,
            pieces=self.split.search,
            url=args.storage or f"sqlite:///{STUDIES / study}.db",
            study=study,
            seed=args.seed,
            trials=args.trials,
        )

    def _status(self, text: str) -> contextlib.AbstractContextManager[object]:
        if self._console.is_terminal:
            return self._console.status(text)
        return contextlib.nullcontext()

    def _study(self) -> str:
        """Name what makes figures comparable: code, intervals, machines, ranges and the seed."""
        sources = Path(self.governor.library._name).parent.name  # ends in their hash
        space = [f"{item.key}={item.low}:{item.high}" for item in self.searched]
        content = sorted(piece.digest() for piece in self.split.search)
        name = digest([sources, *space, *content, str(self.args.seed)])
        return f"{self.args.governor}-{name}"

    def _row(self, name: str, spec: str) -> Row:
        governor = library.governor(spec)
        seen = figures(self.split.search, governor, {})
        return Row(
            name,
            defaults(self.searched) if governor is self.governor else None,
            (seen.regret, seen.p99_us),
            figures(self.split.held_out, governor, {}),
        )

    def _references(self) -> tuple[list[Row], list[str]]:
        """Return the default values and mainline's governors, and why one is missing."""
        rows, notes = [self._row("defaults", self.args.governor)], []
        for spec in (f"teo@{NEWEST}", f"menu@{NEWEST}"):
            try:
                rows.append(self._row(spec, spec))
            except UserError as error:
                notes.append(f"{spec} is left out: {error.message}")
        return rows, notes

    def _search(self) -> None:
        columns = (
            TextColumn("trials"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
        )
        live = self._console.is_terminal
        with Progress(*columns, console=self._console, transient=True, disable=not live) as bar:
            line = bar.add_task("", total=self.task.trials)
            search.search(self.task, self.args.jobs, lambda done: bar.update(line, completed=done))

    def run(self) -> Tuning:
        """Search, and judge what was found.

        Raises:
            UserError: a trace, the database or a process failed.
        """
        task, searched = self.task, self.searched
        STUDIES.mkdir(parents=True, exist_ok=True)
        database = search.without_password(task.url)
        with self._status("replaying the default values and mainline's governors"):
            references, notes = self._references()
        study = search.open_study(task.url, task.study, task.seed, fresh=self.args.fresh)
        try:
            self._search()
        except KeyboardInterrupt:
            kept = f"{search.count(study)} of {task.trials} trials are kept in {database}"
            print(f"\n{kept}; the same command goes on", file=sys.stderr)
            raise
        with search.reported(task.url):
            trials = study.get_trials(states=(TrialState.COMPLETE,))
        points = front(trials, searched)
        with self._status("replaying the front on the held-out traces"):
            rows = [
                Row(
                    f"trial {point.trial}",
                    point.settings,
                    (point.regret, point.p99_us),
                    figures(self.split.held_out, self.governor, point.settings),
                )
                for point in points
            ]
        return Tuning(
            governor=self.args.governor,
            searched=searched,
            split=self.split,
            study=task.study,
            database=database,
            seed=task.seed,
            complete=len(trials),
            front=tuple(rows),
            references=tuple(references),
            pick=self.args.pick,
            picked=points.index(PICKS[self.args.pick][0](points)),
            notes=tuple(notes),
        )
