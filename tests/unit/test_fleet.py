# SPDX-License-Identifier: GPL-2.0
"""Governors on the recordings of many machines: each counts once, whatever happens meanwhile."""

import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.util import get_temp_dir
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import fsspec
import numpy as np
import polars as pl
import pytest
from distributed import LocalCluster

from cpuidle_lab.base import files, resampling
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.cli import main
from cpuidle_lab.domains import replayed
from cpuidle_lab.fleet import answers, cluster, inputs, task, totals
from cpuidle_lab.recording import reader, synth
from cpuidle_lab.recording.columns import Recording
from cpuidle_lab.replay.candidates import candidate
from cpuidle_lab.replay.engine import counterfactual
from cpuidle_lab.replay.library import governor
from experiments.domains import machines
from tests.unit import fleet_faults
from tests.unit.test_scrub import trace

GOVERNORS = ("menu_ng", "teo_ng")
STREAMS = ("bursts", "drift", "poisson-1ms")


@contextmanager
def quiet(_title: str, _total: int) -> Iterator[Callable[[int], None]]:
    """Show no progress."""
    yield lambda _count: None


def recording(path: Path, seed: int = 1, count: int = 300) -> Path:
    """Write a stream."""
    path.parent.mkdir(parents=True, exist_ok=True)
    name = STREAMS[seed % len(STREAMS)]
    synth.write(name, path, machine_name="skx", hz=250, count=count, seed=seed)
    return path


def results(folder: Path) -> Path:
    """Return a folder for results."""
    for name in ("work", "index", "intervals", "results"):
        (folder / name).mkdir(parents=True)
    return folder


def job(path: Path | str, folder: Path, *governors: str) -> task.Job:
    """Return a task."""
    return task.Job(str(path), "", str(folder), governors or GOVERNORS, 5)


def answered(items: list[inputs.Item], done: dict[str, task.Done], folder: Path) -> str:
    """Return the answers as the file has them."""
    fleet = totals.add_up(items, done, folder, GOVERNORS[0])
    found = answers.answer(fleet, items, GOVERNORS[0], 1.0, [])
    return json.dumps(found.as_json(), indent=1)


# ---- The recordings that a command line names. ----


def test_a_folder_names_its_recordings_and_no_other_files(tmp_path: Path) -> None:
    recording(tmp_path / "in" / "b" / "one")
    (tmp_path / "in" / "a.dat").write_bytes(b"")
    (tmp_path / "in" / "notes.txt").write_text("x")
    (tmp_path / "in" / ".hidden.dat").write_bytes(b"")
    (tmp_path / "in" / "b" / "one" / "inside.dat").write_bytes(b"")
    items, notes = inputs.find([str(tmp_path / "in")], None)
    assert [item.name for item in items] == ["a.dat", "b/one"] and not notes


def test_a_list_has_places_relative_to_it_and_metadata(tmp_path: Path) -> None:
    recording(tmp_path / "one")
    table = tmp_path / "list.csv"
    table.write_text("recording,machine,kind,weight,service\none,web-1,spr,40,nginx\n")
    (item,), _ = inputs.find([str(table)], None)
    assert item == inputs.Item("one", str(tmp_path / "one"), "web-1", "spr", "", "nginx", 40.0)
    items, notes = inputs.find([str(tmp_path)], str(table))
    assert [one.machine for one in items] == ["web-1"] and not notes


def test_a_dataset_of_parquet_is_a_list_whose_folders_name_values(tmp_path: Path) -> None:
    for kind, name in (("spr", "one"), ("skx", "two")):
        recording(tmp_path / name)
        part = tmp_path / "list.parquet" / f"kind={kind}" / "0.parquet"
        part.parent.mkdir(parents=True)
        place = str(tmp_path / name)
        pl.DataFrame({"recording": [place], "weight": [2]}).write_parquet(part)
    items, _ = inputs.find([f"{tmp_path}/list.parquet/"], None)
    assert [(item.name, item.kind, item.weight) for item in items] == [
        (str(tmp_path / "one"), "spr", 2.0), (str(tmp_path / "two"), "skx", 2.0)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("recording,weight\none,-1\n", "no positive number"),
        ("recording,heavy\none,1\n", "unknown column 'heavy'"),
        ("machine\none\n", "no column 'recording'"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, text: str, said: str) -> None:
    recording(tmp_path / "one")
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(UserError, match=said):
        inputs.find([str(tmp_path / "list.csv")], None)


# ---- One task. ----


def test_a_part_has_the_figures_of_replay_and_is_made_once(tmp_path: Path) -> None:
    path, folder = recording(tmp_path / "one"), results(tmp_path / "out")
    done = task.Done(**task.work(job(path, folder, "teo_ng")))
    assert (done.sentence, done.fresh, done.intervals) == ("", 1, 300)
    part = pl.read_parquet(folder / done.parts["teo_ng"]).row(0, named=True)
    outcome = counterfactual(Recording(path), governor("teo_ng"))
    assert part["cost_pj"] == round(outcome.cost_pj)
    assert dict(zip(part["latency_ns"], part["wakeups"], strict=True)) == outcome.latency_ns
    assert task.Done(**task.work(job(path, folder, "teo_ng"))).fresh == 0
    more = task.Done(**task.work(job(path, folder)))
    assert more.fresh == 1 and more.content == done.content
    other = task.Done(**task.work(job(path, folder, "wteo", "wteo:half_life_ms=500")))
    assert other.fresh == 2 and len(set(other.parts.values())) == 2


def test_a_recording_that_changes_is_another_one(tmp_path: Path) -> None:
    path, folder = recording(tmp_path / "one"), results(tmp_path / "out")
    first = task.Done(**task.work(job(path, folder, "teo_ng")))
    shutil.rmtree(path)
    recording(path, seed=2)
    second = task.Done(**task.work(job(path, folder, "teo_ng")))
    assert second.fresh == 1 and second.content != first.content


def test_a_recording_elsewhere_is_fetched_and_kept_as_intervals(tmp_path: Path) -> None:
    path, folder = recording(tmp_path / "one"), results(tmp_path / "out")
    there = fsspec.filesystem("memory")
    there.put(str(path), "/fleet/one", recursive=True)
    done = task.Done(**task.work(job("memory://fleet/one", folder, "teo_ng")))
    here = task.Done(**task.work(job(path, folder, "teo_ng")))
    assert (done.sentence, done.fresh) == ("", 1) and here.content == done.content
    assert here.fresh == 0
    there.rm("/fleet/one", recursive=True)


def test_a_place_that_does_not_answer_is_an_error_that_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = fsspec.filesystem("memory")
    there.pipe("/fleet/two.dat", b"x")
    started = []

    def hang(*_: object, **__: object) -> None:
        started.append(1)
        time.sleep(1)

    monkeypatch.setattr(type(there), "get", hang)
    slow = task.Job("memory://fleet/two.dat", "", str(results(tmp_path / "out")), GOVERNORS, 0.05)
    with pytest.raises(TimeoutError, match="longer than"):
        task.work(slow)
    assert started


@pytest.mark.parametrize(
    ("name", "said"), [("SEGV", "damaged: it cannot be read"), ("KILL", "ended by SIGKILL")]
)
def test_a_recording_that_kills_the_reader_has_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    deadly = tmp_path / "reader" / "trace-columns"
    deadly.parent.mkdir()
    deadly.write_text(f"#!/bin/sh\nkill -{name} $$\n")
    deadly.chmod(0o755)
    monkeypatch.setattr(reader, "native_reader", lambda: deadly)
    (tmp_path / "one.dat").write_bytes(b"\x17\x08\x44tracing")
    done = task.Done(**task.work(job(tmp_path / "one.dat", results(tmp_path / "out"))))
    assert said in done.sentence and not done.parts


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("short", "fewer than 100"),
        ("other", "trace"),
        ("meta", "is damaged"),
    ],
)
def test_a_recording_that_cannot_be_replayed_has_a_sentence(
    tmp_path: Path, damage: str, said: str
) -> None:
    folder = results(tmp_path / "out")
    path = tmp_path / "one"
    if damage == "other":
        path = tmp_path / "one.dat"
        path.write_bytes(b"\x89PNG and so on")
    else:
        recording(path, count=50 if damage == "short" else 300)
    if damage == "meta":
        (path / "meta.json").write_text("{")
    done = task.Done(**task.work(job(path, folder)))
    assert said in done.sentence and not done.parts and str(folder) not in done.sentence


# ---- Answers. ----


def test_the_interval_of_a_ratio_is_that_of_a_mean_where_bottoms_are_one() -> None:
    top = np.random.default_rng(3).normal(5, 2, 40)
    mean = resampling.interval(top.tolist(), 1)
    ratio = answers.ratio_interval(top, np.ones(40))
    assert ratio is not None and None not in mean
    assert ratio == pytest.approx(mean, rel=0.03)
    assert answers.ratio_interval(top[:4], np.ones(4)) is None


def test_the_interval_of_a_ratio_holds_the_truth_in_some_95_of_100() -> None:
    held = 0
    for seed in range(80):
        draw = np.random.default_rng(seed)
        bottom = draw.gamma(4, 1, 20)
        top = 1.3 * bottom + draw.normal(0, 0.5, 20)
        low, high = answers.ratio_interval(top, bottom, seed) or (0, 0)
        held += low <= 1.3 <= high
    assert 71 <= held <= 80


def rows(machines: int, copies: int, governors: dict[str, float]) -> totals.Fleet:
    """Return a fleet whose machines have `copies` equal recordings each."""
    draw = np.random.default_rng(7)
    found: list[dict[str, Any]] = []
    for n in range(machines):
        oracle = int(draw.uniform(1e9, 3e9))
        spread = draw.normal(0, 0.02)
        for label, share in governors.items():
            cost = round(oracle * (share + spread))
            found += [
                {"kind": "k", "service": "s", "machine": f"m{n:03}", "governor": label,
                 "span_ns": copies * 10**9, "intervals": copies, "decisions": copies, "above": 0,
                 "below": 0, "cost_pj": copies * cost, "oracle_pj": copies * oracle,
                 "far_cost_pj": copies * cost, "far_oracle_pj": copies * oracle, "weight": 1.0,
                 "deep_ns": 0, "together_ns": 0,
                 "derived": False, "recordings": copies}
            ]  # fmt: skip
    frame = pl.DataFrame(found)
    empty = pl.DataFrame(schema={"kind": pl.String, "service": pl.String, "machine": pl.String,
                                 "governor": pl.String, "latency_ns": pl.Int64,
                                 "wakeups": pl.Int64})  # fmt: skip
    recordings = frame.with_columns(name="machine", shown=pl.format("/x/{}", "machine"))
    return totals.Fleet(frame, empty, recordings, [*governors], {}, machines, [])


def test_more_recordings_of_the_same_machines_make_nothing_more_certain() -> None:
    few, many = (rows(20, copies, {"a": 1.5, "b": 1.4}) for copies in (1, 50))
    items = [inputs.Item(f"m{n:03}", f"/m{n:03}", f"m{n:03}") for n in range(20)]
    one, other = (answers.answer(fleet, items, "a", 1.0, []) for fleet in (few, many))
    ranges = [[found.lines[0].regret.low, found.lines[0].regret.high] for found in (one, other)]
    assert None not in ranges[0] and ranges[0] == pytest.approx(ranges[1])
    assert one.rollouts[0].more == 0 and one.rollouts[0].top is None


def test_harm_is_listed_worst_first_with_the_command_that_shows_it() -> None:
    fleet = rows(120, 1, {"a": 1.5, "b": 1.4})
    bad = {"m003": 1.2, "m007": 1.4}
    share = pl.col("machine").replace_strict(bad, default=1.0)
    is_b = pl.col("governor") == "b"
    worse = pl.when(is_b).then(pl.col("cost_pj") * share).otherwise("cost_pj").cast(pl.Int64)
    machines = fleet.machines.with_columns(cost_pj=worse, far_cost_pj=worse)
    shown = machines.with_columns(name="machine", shown=pl.format("/x/{}", "machine"))
    changed = totals.Fleet(machines, fleet.latencies, shown, fleet.governors, {}, 120, [])
    items = [inputs.Item(f"m{n:03}", f"/x/m{n:03}", f"m{n:03}") for n in range(120)]
    found = answers.answer(changed, items, "a", 5.0, [])
    assert [harm.machine for harm in found.harmed] == ["m007", "m003"]
    assert found.harmed[0].command == "cpuidle-lab compare /x/m007 --governors a,b"
    assert found.rollouts[0].top is not None and 0 < found.rollouts[0].top < 10


def test_the_deep_share_of_packages_is_that_of_domains(tmp_path: Path) -> None:
    path, folder = tmp_path / "one", results(tmp_path / "out")
    machines.write("xeon", "poisson-1ms", "independent", 300, 1, path)
    item = inputs.Item("one", str(path), "web-1", domains="xeon")
    done = {"one": task.Done(**task.work(replace(job(path, folder), domains="xeon")))}
    assert not done["one"].sentence
    fleet = totals.add_up([item], done, folder, GOVERNORS[0])
    found = answers.answer(fleet, [item], GOVERNORS[0], 1.0, [])
    chosen = [candidate(label) for label in GOVERNORS]
    rows_of = replayed.replay(path, "xeon", chosen).rows
    wanted = [row.deep_percent("package") for row in rows_of[:2]]
    assert [line.deep.value for line in found.lines] == pytest.approx(wanted)
    assert wanted[0] != wanted[1]
    bare = task.Done(**task.work(job(path, folder)))
    assert bare.fresh == 2 and {*bare.parts.values()}.isdisjoint(done["one"].parts.values())
    wrong = task.work(replace(job(path, folder), domains="mt8196"))
    assert "does not fit" in wrong["sentence"]


# ---- Many tasks. ----


def test_recordings_go_to_a_process_together_where_there_are_many() -> None:
    names = [str(n) for n in range(2000)]
    for count, workers, sizes in ((2000, 2, {8}), (100, 2, {1, 3}), (7, 1, {1}), (600, 10, {3})):
        batches = cluster._batches(names[:count], workers)
        assert [name for batch in batches for name in batch] == names[:count]
        assert {len(batch) for batch in batches} == sizes and len(batches) >= min(count, 16)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("together", [1, 4])
def test_faults_change_nothing_and_count_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    """Dead processes and timeouts leave the answers as they are; what is guilty is listed."""
    monkeypatch.setattr(
        cluster, "_batches",
        lambda names, _: [names[n : n + together] for n in range(0, len(names), together)],
    )  # fmt: skip
    for n in range(6):
        recording(tmp_path / "in" / f"{n:02}", seed=n)
    for n, fault in ((3, fleet_faults.UNLUCKY), (5, fleet_faults.SLOW)):
        (tmp_path / "in" / f"{n:02}").rename(tmp_path / "in" / f"{n:02}-{fault}")
    shutil.copytree(tmp_path / "in" / "01", tmp_path / "in" / "twin")
    (tmp_path / "in" / "damaged.dat").write_bytes(b"\x17\x08\x44tracing")
    recording(tmp_path / "in" / f"x-{fleet_faults.DEADLY}", seed=40)
    items, _ = inputs.find([str(tmp_path / "in")], None)
    disturbed = results(tmp_path / "disturbed")
    settings: list[tuple[str, ...]] = []

    def started(**given: object) -> Any:
        made = LocalCluster(**given)
        settings.append((made.scheduler_address, *made.scheduler.workers))
        # A command that is killed leaves nothing that the next one does not remove.
        for place in (dask.config.get("temporary-directory"), get_temp_dir()):
            assert Path(place).name.startswith(files.SCRATCH)
        return made

    monkeypatch.setattr(cluster, "LocalCluster", started)
    jobs = {item.name: job(item.url, disturbed) for item in items}
    done = cluster.run(jobs, quiet, workers=1, task=fleet_faults.work)
    assert all(address.startswith("tcp://127.0.0.1:") for address in settings[0])
    assert len(settings[0]) == 2
    deadly = done[f"x-{fleet_faults.DEADLY}"]
    assert deadly.sentence == "2 processes that read or replayed it were killed or crashed"
    assert done["damaged.dat"].sentence and "trace" in done["damaged.dat"].sentence

    calm = results(tmp_path / "calm")
    alone = {name: task.Done(**task.work(job(one.url, calm))) for name, one in jobs.items()
             if fleet_faults.DEADLY not in name}  # fmt: skip
    alone[f"x-{fleet_faults.DEADLY}"] = deadly
    text = answered(items, done, disturbed)
    assert text == answered(items, alone, calm)
    found = json.loads(text)
    assert (found["recordings"], found["counted"]) == (9, 6)
    assert found["failed"]["twin"] == "has the contents of 01, which counts once"


SCHEDULER = {"host": "127.0.0.1", "protocol": "tcp", "dashboard_address": "127.0.0.1:0",
             "processes": False, "n_workers": 1, "threads_per_worker": 1}  # fmt: skip


def no_room(_job: task.Job) -> dict[str, Any]:
    """Fail as a task does whose disk is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/x/results")


@pytest.mark.filterwarnings("default")
def test_a_full_disk_ends_the_run_and_blames_no_recording(tmp_path: Path) -> None:
    with (
        LocalCluster(**SCHEDULER) as there,
        pytest.raises(OSError, match="No space left on device: '/x/results'"),
    ):
        cluster.run({"one": job("/x/one", tmp_path)}, quiet, scheduler=there.scheduler_address,
                    task=no_room)  # fmt: skip


def test_a_full_disk_of_a_batch_ends_the_run_at_once() -> None:
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/x/results")
    future = SimpleNamespace(status="error", exception=lambda: error)
    client: Any = SimpleNamespace(gather=lambda _futures, errors: {0: None})
    with pytest.raises(OSError, match="No space left on device"):
        cluster._told(client, {("one", "two"): future})


@contextmanager
def scheduler_that_ends(_title: str, _total: int) -> Iterator[Callable[[int], None]]:
    """Show no progress, and end the scheduler after the first task."""
    yield lambda _count: SCHEDULERS.pop().close() if SCHEDULERS else None


SCHEDULERS: list[Any] = []


@pytest.mark.filterwarnings("default")
def test_a_run_whose_scheduler_ends_says_so_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(6):
        recording(tmp_path / "in" / f"{n}", seed=n)
    items, _ = inputs.find([str(tmp_path / "in")], None)
    folder = results(tmp_path / "out")
    jobs = {item.name: job(item.url, folder) for item in items}
    monkeypatch.setattr(cluster, "_TOGETHER", 1)
    monkeypatch.setattr(cluster, "_CONNECT_S", 0.5)
    first = LocalCluster(**SCHEDULER)
    SCHEDULERS.append(first)
    with pytest.raises(UserError, match="the same command goes on"):
        cluster.run(jobs, scheduler_that_ends, scheduler=first.scheduler_address)
    made = len([*folder.glob("results/*/*")])
    assert 0 < made < 12
    with LocalCluster(**SCHEDULER) as second:
        done = cluster.run(jobs, quiet, scheduler=second.scheduler_address)
    assert sum(one.fresh for one in done.values()) == 12 - made
    calm = results(tmp_path / "calm")
    alone = {name: task.Done(**task.work(job(one.url, calm))) for name, one in jobs.items()}
    assert answered(items, done, folder) == answered(items, alone, calm)


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "much"])
def test_a_harm_is_a_percentage(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["fleet", "x", "-o", "y", "--harm", text])
    assert end.value.code == USAGE
    assert f"'{text}' is no percentage from 0 on" in capsys.readouterr().err


def test_no_results_go_into_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = tmp_path / "in" / "one"
    recording(one)
    before = {path.name for path in one.iterdir()}
    for folder in (one, one / "deeper"):
        assert main(["fleet", str(tmp_path / "in"), "-o", str(folder)]) == USAGE
        assert "lies in the input" in capsys.readouterr().err
    assert {path.name for path in one.iterdir()} == before


def test_a_command_without_recordings_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    assert main(["fleet", str(tmp_path / "in"), "-o", str(tmp_path / "out")]) == 1
    assert "no recording" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# ---- Without names ----


def test_scrubbed_answers_are_the_same_without_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def alone(jobs: dict[str, task.Job], *_: object, **__: object) -> dict[str, task.Done]:
        return {name: task.Done(**task.work(one)) for name, one in jobs.items()}

    monkeypatch.setattr(cluster, "run", alone)
    for n, name in enumerate(("secret-b", "secret-a")):
        for k in range(2):
            recording(tmp_path / "in" / f"{name}-{k}", seed=2 * n + k)
    noisy = trace().write(tmp_path / "in" / "secret-trace.dat")
    (tmp_path / "in" / "secret-bad.dat").write_bytes(noisy.read_bytes()[:500])
    rows = [f"secret-{n}-{k},{n}.secret.example" for n in "ba" for k in range(2)]
    table = tmp_path / "machines.csv"
    table.write_text("\n".join(["recording,machine", *rows, "secret-none,x"]))
    words = ["fleet", str(tmp_path / "in"), "--metadata", str(table),
             "--governors", "menu_ng,teo_ng", "--harm", "0", "--json"]  # fmt: skip
    assert main([*words, "-o", str(tmp_path / "plain")]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert main([*words, "-o", str(tmp_path / "out"), "--scrub"]) == 0
    scrubbed = json.loads(capsys.readouterr().out)
    assert scrubbed["lines"] == plain["lines"]
    assert len(scrubbed["failed"]) == len(plain["failed"]) == 1
    assert {one["machine"] for one in scrubbed["harmed"]} <= {"m000001", "m000002", "r000006"}
    table = tmp_path / "out" / "names.csv"
    told = pl.read_csv(table)
    assert told["name"].to_list() == [f"r{n:06}" for n in range(1, 7)]
    assert {*told["machine"]} >= {"m000001", "m000002"}
    assert "a.secret.example" in told["called"].to_list()
    table.unlink()
    for path in filter(Path.is_file, (tmp_path / "out").rglob("*")):
        assert b"secret" not in path.read_bytes(), path
    (kept,) = (tmp_path / "out" / "intervals").iterdir()
    assert pl.read_parquet(kept / "hint/*.parquet")["comm"].to_list() == ["t"]
