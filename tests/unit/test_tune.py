# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab tune`: what it finds, that nothing is lost, and what it must not see."""

import gc
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import polars as pl
import pytest
import sqlalchemy
from optuna.trial import FrozenTrial, TrialState, create_trial

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.recording import columns
from cpuidle_lab.replay import engine, library
from cpuidle_lab.replay.candidates import MAINLINE
from cpuidle_lab.states.table import StateTable
from cpuidle_lab.tune import job, pieces, search
from cpuidle_lab.tune.pieces import Figures, Piece, gather, spread
from cpuidle_lab.tune.result import PICKS, front, judge
from cpuidle_lab.tune.space import Range, ranges
from tests.unit.command import wait_for
from tests.unit.synthetic import PLAIN

TOP = Path(__file__).resolve().parents[2]
US = 1000
MACHINE = StateTable(
    ("POLL", "C1", "C1E", "C6"),
    (0, 2 * US, 10 * US, 133 * US),
    (0, 2 * US, 20 * US, 600 * US),
    (3_000_000, 1_200_000, 600_000, 100_000),
    (True, False, False, False),
    4_000_000,
)
ROWS = 8000
TURN = 500


def stream(cpu: int, seed: int, rows: int) -> pl.DataFrame:
    """Return intervals of which one in twenty, without any pattern, is long.

    The others are short and longer in turn, so that a window has to span the former and not the
    turns.
    """
    random = np.random.default_rng([seed, cpu])
    turn = np.where(np.arange(rows) // TURN % 2, 20, 1)
    lengths = np.where(
        random.random(rows) < 0.05,
        random.uniform(1500 * US, 3000 * US, rows),
        random.uniform(20 * US, 60 * US, rows) * turn,
    ).astype(np.int64)
    busy = random.integers(200 * US, 250 * US, rows)
    start = 10**9 + np.concatenate([[0], np.cumsum(lengths + busy)[:-1]])
    given: dict[str, Any] = {
        "cpu": cpu,
        "periods": 1,
        "start_ns": start,
        "length_ns": lengths,
        "timer_ns": 50_000 * US,
        "tick_phase_ns": 12_345,
        "busy_ns": busy,
        "latency_req_ns": 2**63 - 1,
        "hint_ns": 2**63 - 1,
    }
    return pl.DataFrame({name: np.broadcast_to(given.get(name, 0), rows) for name in PLAIN})


def recording(target: Path, seed: int, *, cpus: int = 1, rows: int = ROWS) -> Path:
    meta = {
        "kind": columns.SYNTH,
        "source": "",
        "kernel": "",
        "machines": {str(cpu): columns.describe(MACHINE) for cpu in range(cpus)},
    }
    with columns.Writer(target, meta) as writer:
        for cpu in range(cpus):
            writer.add("interval", stream(cpu, seed, rows))
    return target


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("traces")
    library.governor("wteo")  # compiled now, so that no command says that it compiles
    return [recording(folder / name, seed, cpus=2) for seed, name in enumerate("abc")]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "cpuidle_lab", "tune", *map(str, arguments)]


@contextmanager
def running(arguments: list[str], **settings: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a command in a process group of its own, which is gone afterwards."""
    environment = {**os.environ, "PYTHONPATH": str(TOP / "tools"), **settings}
    process = subprocess.Popen(
        arguments,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def number(url: str, state: str) -> int:
    """Return how many trials of the only study in a database are in a state; 0 without one."""
    engine_ = sqlalchemy.create_engine(url)
    try:
        with engine_.connect() as connection:
            query = sqlalchemy.text("select count(*) from trials where state = :state")
            return int(connection.execute(query, {"state": state}).scalar_one())
    except sqlalchemy.exc.DBAPIError:
        return 0  # its tables are being made
    finally:
        engine_.dispose()


def trials_of(url: str) -> list[FrozenTrial]:
    """Return all trials of the only study in a database."""
    storage = optuna.storages.RDBStorage(url)
    try:
        (name,) = optuna.get_all_study_names(storage)
        return optuna.load_study(study_name=name, storage=storage).trials
    finally:
        storage.engine.dispose()


def complete(url: str) -> list[FrozenTrial]:
    return [trial for trial in trials_of(url) if trial.state == TrialState.COMPLETE]


def test_planted_optimum_is_found_and_nothing_held_out_is_seen(
    traces: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Runs twice from the beginning, with other traces held out: the same search, other judges."""
    monkeypatch.setattr(job, "STUDIES", tmp_path)
    results, studies = [], []
    for held_out in traces[1:]:
        arguments = ["tune", traces[0], "--governor", "menu_ng", "--tunable"]
        arguments += ["history_size=12:128", "--trials", 25, "--jobs", 1, "--json", "--fresh"]
        assert main([*map(str, arguments), "--hold-out", str(held_out)]) == 0
        results.append(json.loads(capsys.readouterr().out))
        studies.append(trials_of(f"sqlite:///{next(tmp_path.glob('*.db'))}"))

    first, second = results
    assert first["study"] == second["study"]
    keys = ("name", "settings", "search")
    assert [[point[key] for key in keys] for point in first["front"]] == [
        [point[key] for key in keys] for point in second["front"]
    ]
    assert [point["held_out"] for point in first["front"]] != [
        point["held_out"] for point in second["front"]
    ]
    seen = [[(trial.params, trial.values) for trial in trials] for trials in studies]
    assert seen[0] == seen[1]
    begun = [{trial.datetime_start for trial in trials} for trials in studies]
    assert not begun[0] & begun[1], "--fresh begins anew"
    assert len(seen[0]) == 25
    assert seen[0][0][0] == {"history_size": 12}, "the value nearest to the default is first"

    recorded, governor = columns.Recording(traces[0]), library.governor("menu_ng")
    truth = {
        value: engine.counterfactual(recorded, governor, {"history_size": value})
        for value in range(12, 129)
    }
    assert seen[0][0][1] == [truth[12].regret, truth[12].latency_us(0.99)]
    regrets = sorted(outcome.regret or 0 for outcome in truth.values())
    best = first["front"][0]["search"]["regret"]
    assert regrets[0] <= best <= regrets[6], "among the best 5 % of all values"
    assert first["verdict"]["better"]
    assert best < first["references"][0]["search"]["regret"]
    value = first["front"][0]["settings"]["history_size"]
    assert first["commands"] == [
        "echo 1 > /sys/kernel/debug/cpuidle_lab/menu_ng/defaults",
        f"echo {value} > /sys/kernel/debug/cpuidle_lab/menu_ng/history_size",
    ]
    assert first["option"] == f'options cpuidle_lab menu_ng="history_size={value}"'
    assert [row["name"] for row in first["references"]] == ["defaults", *reversed(MAINLINE)]


def test_search_killed_in_the_middle_goes_on_in_two_commands_at_once(
    traces: list[Path], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'tune.db'}"
    wanted = 60
    arguments = command(*traces, "--governor", "wteo", "--storage", url, "--trials", wanted)
    with running([*arguments, "--jobs", "2"], TMPDIR=str(tmp_path)) as process:
        wait_for(lambda: number(url, "COMPLETE") >= 8)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    before = complete(url)
    assert 8 <= len(before) < wanted
    with (
        running([*arguments, "--jobs", "1", "--json"]) as one,
        running([*arguments, "--jobs", "1", "--json"]) as two,
    ):
        for process in (one, two):
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
            assert json.loads(out)["trials"] >= wanted
    after = complete(url)
    assert wanted <= len(after) <= wanted + 1
    assert after[: len(before)] == before
    assert len({trial.number for trial in trials_of(url)}) == len(trials_of(url))


def test_trial_of_a_dead_process_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "GRACE_S", 1)
    study = search.open_study(f"sqlite:///{tmp_path / 'tune.db'}", "x", 1)
    warnings.simplefilter("ignore", UserWarning)  # the heartbeat is written by hand
    dead = study.ask()
    dead.suggest_int("a", 0, 10**6)
    study._storage.record_heartbeat(dead._trial_id)  # type: ignore[attr-defined]
    time.sleep(2.1)
    study.optimize(lambda trial: (trial.suggest_int("a", 0, 10**6), 0), n_trials=1)
    states = [trial.state for trial in study.trials]
    assert states == [TrialState.FAIL, TrialState.COMPLETE]
    assert study.trials[1].params == dead.params


def test_trial_that_others_gave_up_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a sleep of the whole machine."""
    searched = ranges(library.governor("wteo"), ["learning_rate"])
    task = search.Task("wteo", searched, (), f"sqlite:///{tmp_path / 'tune.db'}", "x", 1, 2)
    study = search.open_study(task.url, task.study, task.seed)
    given_up: list[int] = []

    def replay(*_: object, **__: object) -> Figures:
        if not given_up:
            (trial,) = study.get_trials(states=(TrialState.RUNNING,))
            study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
            given_up.append(trial.number)
        return Figures(1.0, 2.0, ())

    monkeypatch.setattr(search, "figures", replay)
    warnings.simplefilter("ignore", UserWarning)
    ours, theirs = multiprocessing.Pipe()
    with ours, theirs:
        search._Worker(task, theirs).run()
    states = [trial.state for trial in study.trials]
    assert states == [TrialState.FAIL, TrialState.COMPLETE, TrialState.COMPLETE]


def test_ctrl_c_keeps_what_is_done_and_leaves_nothing_behind(
    traces: list[Path], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'tune.db'}"
    (tmp_path / "tmp").mkdir()
    arguments = command(*traces, "--governor", "wteo", "--storage", url, "--trials", 5000)
    with running([*arguments, "--jobs", "2"], TMPDIR=str(tmp_path / "tmp")) as process:
        wait_for(lambda: number(url, "COMPLETE") >= 3)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert out == ""
    done = len(complete(url))
    said = f"{done} of 5000 trials are kept in {url}; the same command goes on"
    assert err.splitlines() == ["", said, "", "cpuidle-lab: interrupted"]
    assert {trial.state for trial in trials_of(url)} <= {TrialState.COMPLETE, TrialState.FAIL}
    assert not list((tmp_path / "tmp").iterdir())


def test_process_that_is_killed_ends_the_search_with_a_sentence(
    traces: list[Path], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'tune.db'}"
    arguments = command(*traces, "--governor", "wteo", "--storage", url, "--trials", 5000)
    with running([*arguments, "--jobs", "2"]) as process:
        wait_for(lambda: number(url, "COMPLETE") >= 3)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        workers = [
            int(pid)
            for pid in children
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert err == (
        "cpuidle-lab: error: a process of the search was ended by signal 9; "
        "the same command goes on\n"
    )


@contextmanager
def mariadb() -> Iterator[str]:
    """Run a database server of our own, as a user without rights; yield an empty database."""
    server = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin")
    if not server:
        pytest.skip("there is no database server: apt install mariadb-server-core")
    user = "nobody" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="cpuidle-lab-") as folder:
        data, socket = Path(folder) / "data", Path(folder) / "socket"
        data.mkdir()
        if user:
            shutil.chown(folder, user)
            shutil.chown(data, user)
        options = [f"--datadir={data}", f"--socket={socket}", "--skip-networking"]
        # Without system tables there are no accounts; only this machine's users reach the socket.
        options += ["--skip-grant-tables"]
        # It need not outlive a power cut.
        options += ["--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync"]
        if user:
            options.append(f"--user={user}")
        log = Path(folder) / "log"
        with log.open("w") as stream:
            process = subprocess.Popen(
                [server, "--no-defaults", *options], stdout=stream, stderr=subprocess.STDOUT
            )
        try:
            wait_for(lambda: socket.exists() or process.poll() is not None)
            assert process.poll() is None, log.read_text()
            url = f"mysql+pymysql://root@localhost/{{}}?unix_socket={socket}"
            engine_ = sqlalchemy.create_engine(url.format(""))
            with engine_.begin() as connection:
                connection.execute(sqlalchemy.text("create database tune"))
            engine_.dispose()
            yield url.format("tune")
        finally:
            process.terminate()
            process.wait()


def test_commands_share_a_study_on_a_database_server(traces: list[Path], tmp_path: Path) -> None:
    wanted = 50
    with mariadb() as url:
        arguments = command(*traces, "--governor", "wteo", "--storage", url, "--trials", wanted)
        together = 0

        def both_work() -> bool:
            nonlocal together
            together = max(together, number(url, "RUNNING"))
            return together >= 2 and number(url, "COMPLETE") >= 10

        with (
            running([*arguments, "--jobs", "1"], TMPDIR=str(tmp_path)) as one,
            running([*arguments, "--jobs", "2", "--json"]) as two,
        ):
            wait_for(lambda: both_work() or two.poll() is not None)
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()
            out, err = two.communicate(timeout=120)
            assert two.returncode == 0, err
        result = json.loads(out)
        done = complete(url)
        assert wanted <= len(done) <= wanted + 2
        assert result["trials"] == len(done)
        assert together >= 2
        points = front(done, ranges(library.governor("wteo"), []))
        assert [point.regret for point in points] == [
            row["search"]["regret"] for row in result["front"]
        ]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--governor", "teo_ng"], 2, "teo_ng has no tunables"),
        (["--governor", "nosuch"], 2, "unknown governor 'nosuch'"),
        (["--tunable", "nothing"], 2, "wteo has no tunable 'nothing'; it has learning_rate"),
        (["--tunable", "learning_rate=5"], 2, "a range is learning_rate=LOW:HIGH"),
        (["--tunable", "learning_rate=0:5"], 2, "'0' is no value of learning_rate: 1 to 100"),
        (["--tunable", "learning_rate=1:x"], 2, "'x' is no value of learning_rate"),
        (["--tunable", "learning_rate=9:5"], 2, "9 is above 5"),
        (["--tunable", "latency_bias=0:most"], 2, "'most' is no value of latency_bias"),
        (
            ["--tunable", "latency_bias", "--tunable", "latency_bias=1:2"],
            2,
            "--tunable latency_bias is given twice",
        ),
        (["--trials", "0"], 2, "--trials must be at least 1"),
        (["--jobs", "0"], 2, "--jobs must be at least 1"),
        (["--seed", "-1"], 2, "--seed must be at least 0"),
        (["--hold-out-share", "1"], 2, "--hold-out-share must be between 0 and 1"),
        (["--hold-out-share", "nan"], 2, "--hold-out-share must be between 0 and 1"),
        (["--storage", "tune.db"], 2, "'tune.db' is no URL of a database such as sqlite:"),
        (["--storage", "sqlite://"], 2, "a database in memory"),
        (["--storage", "nosuch://host/x"], 1, "nosuch"),
        (["--storage", "postgresql+pg8000://a:secret@host/x"], 2, "a:***@host/x: No module"),
        (["--storage", "mysql+pymysql://a:secret@127.0.0.1:9/x"], 1, "a:***@127.0.0.1:9/x: (2003"),
        (["--storage", "sqlite:////no/such/x.db"], 1, "unable to open database file"),
        (["--storage", "sqlite:///{foreign}"], 1, "file is not a database"),
        (["--hold-out", "{trace}"], 1, "hold the same intervals"),
        (["--hold-out", "{foreign}"], 1, "foreign"),
    ],
)
def test_nonsense_is_one_sentence(
    arguments: list[str],
    code: int,
    sentence: str,
    traces: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(job, "STUDIES", tmp_path / "studies")
    foreign = tmp_path / "foreign"
    foreign.write_text("no database and no trace\n" * 100)
    given = [word.format(trace=traces[0], foreign=foreign) for word in arguments]
    governor = [] if "--governor" in given else ["--governor", "wteo"]
    assert main(["tune", str(traces[0]), "--trials", "1", *governor, *given]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("cpuidle-lab: error: ")
    assert err.count("\n") == 1
    assert sentence in err
    assert "secret" not in err
    assert foreign.read_text() == "no database and no trace\n" * 100


def starts(piece: Piece) -> list[int]:
    return [int(start) for cpu in piece.cpus for start in piece.column(cpu, "start_ns")]


# The answers of an interval stay with it: where a piece begins, theirs begin.
@pytest.mark.parametrize("most", [0, 3])
def test_pieces_have_their_answers(tmp_path: Path, most: int) -> None:
    counts = np.random.default_rng(1).integers(0, most + 1, 500).tolist()
    numbers = iter(range(10**9, 2 * 10**9))
    lists = [[next(numbers) for _ in range(count)] for count in counts]
    meta = {"kind": columns.SYNTH, "source": "", "machines": {"0": columns.describe(MACHINE)}}
    answers = {"answers": counts, **dict.fromkeys(columns.ANSWERS, lists)}
    with columns.Writer(tmp_path / "c", meta) as writer:
        writer.add("interval", stream(0, 1, 500).with_columns(**{
            name: pl.Series(values, dtype=columns.INTERVAL[name])
            for name, values in answers.items()
        }))  # fmt: skip
    whole = spread(columns.Recording(tmp_path / "c"), tmp_path / "c", tmp_path / "spread")
    rows = []
    for piece in whole.cut(0.3):
        (chunk,) = piece.intervals(0)
        rows.append(len(chunk["flags"]))
        first = rows[0] if len(rows) == 2 else 0
        expected = [number for some in lists[first : first + rows[-1]] for number in some]
        assert chunk["answers"].tolist() == counts[first : first + rows[-1]]
        assert all(chunk[name].tolist() == expected for name in columns.ANSWERS)
    assert sum(rows) == 500 and all(rows)


def test_single_trace_is_cut_in_time(traces: list[Path], tmp_path: Path) -> None:
    split = gather(traces[:1], [], 1 / 3, 1, tmp_path)
    early, late = starts(split.search[0]), starts(split.held_out[0])
    assert len(early) + len(late) == 2 * ROWS
    assert max(early) < min(late)
    assert (max(late) - max(early)) / (max(late) - min(early)) == pytest.approx(1 / 3, abs=0.01)


def test_whole_traces_are_held_out_whatever_their_order(traces: list[Path], tmp_path: Path) -> None:
    chosen = []
    for number, order in enumerate((traces, traces[::-1])):
        (tmp_path / str(number)).mkdir()
        split = gather(order, [], 1 / 3, 1, tmp_path / str(number))
        assert {piece.path for piece in (*split.search, *split.held_out)} == set(traces)
        chosen.append([piece.path for piece in split.held_out])
    assert chosen[0] == chosen[1]
    assert len(chosen[0]) == 1
    seeds = set()
    for seed in range(8):
        (tmp_path / f"seed{seed}").mkdir()
        seeds.add(gather(traces, [], 0.5, seed, tmp_path / f"seed{seed}").held_out[0].path)
    assert len(seeds) > 1


def test_trace_too_short_to_be_cut_is_refused(tmp_path: Path) -> None:
    short = recording(tmp_path / "short", 1, rows=1)
    (tmp_path / "into").mkdir()
    with pytest.raises(UserError, match="too few intervals"):
        gather([short], [], 1 / 3, 1, tmp_path / "into")


def test_every_value_of_a_range_can_be_suggested_and_kept() -> None:
    governor = library.governor("wteo")
    every = {item.name: item for item in ranges(governor, [])}
    assert "seed" not in {item.name for item in ranges(library.governor("wteo_rfc"), [])}
    assert every["half_life_ms"].log
    assert every["learning_rate"].log
    assert every["latency_bias"].log
    of_menu = {item.name: item for item in ranges(library.governor("menu_ng"), [])}
    assert not of_menu["min_share"].log
    for item in every.values():
        for value in (item.low, item.high, item.tunable.default):
            assert item.value(item.stored(value)) == value
            params = {item.key: item.stored(value)}
            assert item.suggest(optuna.trial.FixedTrial(params)) == value  # type: ignore[arg-type]
    (seed,) = ranges(library.governor("wteo_rfc"), ["seed=5:9"])
    assert (seed.low, seed.high) == (5, 9)
    assert seed.stored(1) == 5
    named = library.TunableInfo("mode", "", "", 0, 2, 0, ("off", "sample", "expected"))
    (some,) = ranges(replace(governor, tunables=(named,)), ["mode=sample:expected"])
    assert [some.shown(value) for value in range(some.low, some.high + 1)] == [
        "sample",
        "expected",
    ]


def finished(regret: float, p99_us: float, history_size: int) -> FrozenTrial:
    distribution = optuna.distributions.IntDistribution(2, 128)
    return create_trial(
        values=[regret, p99_us],
        params={"history_size": history_size},
        distributions={"history_size": distribution},
    )


def test_front_and_picks() -> None:
    (size,) = ranges(library.governor("menu_ng"), ["history_size=3:20"])
    searched = (Range(size.tunable, 2, 20),)
    figures = [(10, 100), (5, 133), (5, 133), (9, 101), (30, 2), (11, 10), (12, 10), (4.9, 140)]
    trials = [finished(*pair, number + 2) for number, pair in enumerate(figures)]
    for number, trial in enumerate(trials):
        trial.number = number
    points = front(trials, searched)
    assert [point.trial for point in points] == [7, 1, 3, 0, 5, 4]
    assert points[1].settings == {"history_size": 3}
    picked = {how: pick(points).trial for how, (pick, _) in PICKS.items()}
    assert picked == {"knee": 5, "energy": 7, "latency": 4}
    assert PICKS["knee"][0](points[-2:]).trial == 5, "of two the one of less regret"
    assert PICKS["knee"][0](points[:1]).trial == 7


@pytest.mark.parametrize(
    ("picked", "better", "text"),
    [
        ((9.0, 10.0), True, "regret 1.00 percentage points less"),
        ((9.0, 9.0), True, "regret 1.00 percentage points less, p99 latency 1.00 us less"),
        ((10.001, 10.0), False, "NOT BETTER than the defaults: the same"),
        (
            (11.0, 10.0),
            False,
            "NOT BETTER than the defaults, but worse on the held-out traces: regret 1.00",
        ),
        (
            (9.0, 12.0),
            False,
            "a trade on the held-out traces: regret 1.00 percentage points less, p99 latency 2.00",
        ),
    ],
)
def test_held_out_traces_judge(picked: tuple[float, float], better: bool, text: str) -> None:
    verdict = judge(Figures(*picked, ()), Figures(10.0, 10.0, ()))
    assert verdict.better is better
    assert text in verdict.text


def test_columns_are_mapped_in_several_threads(tmp_path: Path) -> None:
    """Without the lock some of the threads fail in CPython 3.11's parser."""
    path = tmp_path / "column.npy"
    np.save(path, np.arange(10))

    def collected(_phase: str, _info: dict[str, int]) -> None:
        sum(range(50))

    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    gc.callbacks.append(collected)
    try:
        sys.setswitchinterval(1e-6)
        gc.set_threshold(5)
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(lambda _: pieces._mapped(path).sum(), range(3000)))
    finally:
        gc.callbacks.remove(collected)
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)
    assert set(found) == {45}
