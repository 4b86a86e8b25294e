# SPDX-License-Identifier: GPL-2.0
"""The search: any number of processes, here and elsewhere, take trials from one Optuna study.

Each trial is one setting of the tunables, replayed on every piece. A process that dies leaves a
trial that runs for ever; its heartbeat stops, and the next process has it tried again.
"""

import multiprocessing
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from types import FrameType

import numpy as np
import optuna
import sqlalchemy
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.trial import FrozenTrial, TrialState

from cpuidle_lab.base.errors import FAILURE, USAGE, UserError
from cpuidle_lab.replay import library
from cpuidle_lab.tune.pieces import Figures, Piece, figures
from cpuidle_lab.tune.space import Range, defaults

# Seconds between signs of life of a running trial, and without one until it is given up.
HEARTBEAT_S = 10
GRACE_S = 60

# Seconds that a database, or another process that is making its tables, is waited for.
WAIT_S = 60

# Words of the databases for a table, or its first row, that another process has just made.
_MADE_AT_ONCE = re.compile("already exists|duplicate|unique", re.IGNORECASE)

# Seconds between looks at how far the search is.
LOOK_S = 0.25

optuna.logging.set_verbosity(optuna.logging.ERROR)


@dataclass(frozen=True)
class Task:
    """A search.

    Attributes:
        governor: as on the command line.
        searched: ranges of its tunables.
        pieces: what is replayed in each trial.
        url: of the database that holds the study.
        study: its name.
        seed: of the search.
        trials: how many are wanted in all; with several processes a few more may be under way.
    """

    governor: str
    searched: tuple[Range, ...]
    pieces: tuple[Piece, ...]
    url: str
    study: str
    seed: int
    trials: int


class SeededSampler(BaseSampler):
    """A tree-structured Parzen estimator that depends on the seed and the trial's number alone.

    Processes that share a study thus never draw alike, and one process draws the same after a
    restart.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._inner = TPESampler(multivariate=True, seed=seed)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Begin a trial afresh."""
        seed = np.random.SeedSequence([self._seed, trial.number]).generate_state(1)[0]
        self._inner = TPESampler(multivariate=True, seed=int(seed))
        self._inner.before_trial(study, trial)

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """As BaseSampler."""
        return self._inner.infer_relative_search_space(study, trial)

    def sample_relative(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, object]:
        """As BaseSampler."""
        return self._inner.sample_relative(study, trial, search_space)

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> object:
        """As BaseSampler."""
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """As BaseSampler."""
        self._inner.after_trial(study, trial, state, values)


def without_password(url: str) -> str:
    """Return an URL of a database as it may be shown.

    Raises:
        UserError: it is none, or of one that several processes cannot share.
    """
    try:
        parsed = sqlalchemy.make_url(url)
    except sqlalchemy.exc.ArgumentError:
        raise UserError(
            f"'{url}' is no URL of a database such as sqlite:///tune.db or "
            "mysql+pymysql://USER@HOST/NAME",
            USAGE,
        ) from None
    if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise UserError(f"'{url}' is a database in memory, which processes cannot share", USAGE)
    return parsed.render_as_string(hide_password=True)


@contextmanager
def reported(url: str) -> Iterator[None]:
    """Turn errors of a database into a UserError."""
    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        cause = error.__cause__ or error
        reason = str(getattr(cause, "orig", None) or cause).splitlines()[0]
        raise UserError(f"the database {without_password(url)}: {reason}") from None
    except ImportError as error:
        driver = str(error.__cause__ or error)
        raise UserError(f"the database {without_password(url)}: {driver}", USAGE) from None


def open_study(url: str, name: str, seed: int, *, fresh: bool = False) -> optuna.Study:
    """Return a study, which is made where there is none.

    Args:
        url: of the database.
        name: of the study.
        seed: of the search.
        fresh: drop what is there.

    Raises:
        UserError: the database cannot be used.
    """
    waits = {"connect_args": {"timeout": WAIT_S}} if url.startswith("sqlite") else {}
    end = time.monotonic() + WAIT_S
    with reported(url), warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        while True:
            try:
                storage = RDBStorage(
                    url,
                    waits,
                    heartbeat_interval=HEARTBEAT_S,
                    grace_period=GRACE_S,
                    heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(),
                )
                break
            except RuntimeError as error:  # its tables are of another version of Optuna
                raise UserError(f"the database {without_password(url)}: {error}") from None
            except sqlalchemy.exc.DBAPIError as error:
                if not _MADE_AT_ONCE.search(str(error.orig)) or time.monotonic() > end:
                    raise
                time.sleep(0.5)
        if fresh and name in optuna.get_all_study_names(storage):
            optuna.delete_study(study_name=name, storage=storage)
        return optuna.create_study(
            study_name=name,
            storage=storage,
            sampler=SeededSampler(seed),
            directions=["minimize", "minimize"],
            load_if_exists=True,
        )


def count(study: optuna.Study) -> int:
    """Return the number of trials that are complete."""
    return len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))


def begin(study: optuna.Study, searched: Sequence[Range]) -> None:
    """Have the default values tried first, unless they were or are about to be.

    A range that leaves them out has its nearest values tried. One that runs does not count: its
    process may be dead, and trying twice does no harm.
    """
    values = defaults(searched)
    params = {item.key: item.stored(values[item.name]) for item in searched}
    states = (TrialState.COMPLETE, TrialState.WAITING)
    trials = study.get_trials(deepcopy=False, states=states)
    if not any(params in (trial.params, trial.user_attrs.get("first")) for trial in trials):
        study.enqueue_trial(params, user_attrs={"first": params})


class Stopped(Exception):  # noqa: N818 - nothing went wrong
    """The search is to end."""


class _Worker:
    """Work of one process.

    Its parent's end of `line` says when to stop: by a word, or by being closed as its process ends.
    No lock is shared with other processes, since one that is killed would never let go of it.
    """

    def __init__(self, task: Task, line: Connection) -> None:
        self._task = task
        self._line = line
        self._governor = library.governor(task.governor)
        self._known: dict[tuple[int, ...], Figures] = {}
        self._over = False

    def _check(self, _intervals: int = 0) -> None:
        if self._line.poll():
            raise Stopped

    def _objective(self, trial: optuna.Trial) -> tuple[float, float]:
        self._over = False
        try:
            values = {item.name: item.suggest(trial) for item in self._task.searched}
        except optuna.exceptions.UpdateFinishedTrialError:
            self._over = True
            raise
        key = tuple(values.values())
        if key not in self._known:
            self._known[key] = figures(
                self._task.pieces, self._governor, values, jobs=1, progress=self._check
            )
        self._over = True
        return self._known[key].regret, self._known[key].p99_us

    def run(self) -> None:
        """Take trials until as many as are wanted are complete."""
        study = open_study(self._task.url, self._task.study, self._task.seed)
        while count(study) < self._task.trials:
            self._check()
            try:
                study.optimize(self._objective, n_trials=1)
            except (AssertionError, ValueError):
                # This process slept so long that another gave its trial up: so be it. Optuna does
                # not expect it, and fails in one of two ways.
                if not self._over:
                    raise


def _work(task: Task, line: Connection) -> None:
    """Run in a process of its own; `line` takes the sentence of an error."""
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    try:
        with reported(task.url):
            _Worker(task, line).run()
    except Stopped:
        pass
    except UserError as error:
        line.send(error.message)
        sys.exit(FAILURE)


@contextmanager
def interrupts(
    handler: Callable[[int, FrameType | None], None] | signal.Handlers,
) -> Iterator[None]:
    """Handle Ctrl-C in another way for a while."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _start(task: Task) -> tuple[SpawnProcess, Connection]:
    """Start a process to which Ctrl-C means nothing, and return it with our end of its line."""
    context = multiprocessing.get_context("spawn")
    line, theirs = context.Pipe()
    worker = context.Process(target=_work, args=(task, theirs), daemon=True)
    with interrupts(signal.SIG_IGN):  # is inherited
        worker.start()
    theirs.close()
    return worker, line


def _stop(workers: Sequence[tuple[SpawnProcess, Connection]]) -> list[str]:
    """Stop processes; return what went wrong in them."""
    for _, line in workers:
        with suppress(BrokenPipeError):  # it has ended by itself
            line.send("stop")
    said = []
    for worker, line in workers:
        worker.join()
        if not worker.exitcode:
            continue
        try:
            said.append(str(line.recv()))
        except (EOFError, ConnectionResetError):
            how = "failed" if worker.exitcode > 0 else f"was ended by signal {-worker.exitcode}"
            said.append(f"a process of the search {how}; the same command goes on")
    return said


def search(task: Task, jobs: int, progress: Callable[[int], None]) -> None:
    """Run a search until it has as many trials as are wanted.

    Args:
        task: what to search.
        jobs: processes.
        progress: called from time to time with the number of trials that are complete.

    Raises:
        UserError: a trial cannot be run, or a process or the database failed; what is complete
            stays in the database.
        KeyboardInterrupt: by Ctrl-C, once all processes have ended.
    """
    study = open_study(task.url, task.study, task.seed)
    pressed = False

    def press(_number: int, _frame: FrameType | None) -> None:
        # Amid a query it would leave the database locked, and our processes waiting for it.
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    workers: list[tuple[SpawnProcess, Connection]] = []
    with reported(task.url), interrupts(press):
        try:
            begin(study, task.searched)
            progress(count(study))
            for _ in range(jobs):
                workers.append(_start(task))
            while alive := [worker.sentinel for worker, _ in workers if worker.exitcode is None]:
                if pressed or any(worker.exitcode for worker, _ in workers):
                    break
                connection.wait(alive, timeout=LOOK_S)
                progress(count(study))
        finally:
            wrong = _stop(workers)
    if wrong:
        raise UserError(wrong[0])
    if pressed:
        raise KeyboardInterrupt
