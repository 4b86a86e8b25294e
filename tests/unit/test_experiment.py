# SPDX-License-Identifier: GPL-2.0
"""The experiments: the figures of each case, mistakes in its file, bisection, pages."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from cpuidle_lab.base.cache import CACHE
from cpuidle_lab.base.errors import FAILURE, UserError
from cpuidle_lab.cli import main
from cpuidle_lab.evidence.tables import ABSENT
from cpuidle_lab.recording import columns, state_tables
from cpuidle_lab.recording.trace import TIME_MAX
from cpuidle_lab.replay import law
from cpuidle_lab.replay.candidates import candidate
from cpuidle_lab.replay.engine import Run
from cpuidle_lab.replay.library import governor
from cpuidle_lab.states.linux_source import GOVERNORS
from cpuidle_lab.view.terminal import meter
from experiments import boots, experiment, pages
from experiments.cases import bisect, schema
from experiments.cases.bisect import Step, changes
from experiments.cases.case import FOLDER, IN_LAB, Case, cases, kernel_is_there, play, stream_of
from experiments.cases.figures import KINDS, value
from experiments.cases.schema import Cell, Description
from experiments.cyclic import entry as cyclic
from experiments.experiment import (
    AGREES,
    DIFFERS,
    NOT_BOOTED,
    UNJUDGED,
    Findings,
    Request,
    Row,
    as_json,
)
from experiments.memo import Memo
from experiments.weighted_teo import replayed
from tests.unit.small_case import GOOD

CASES = [case.path.stem for case in cases()]
KEPT = pages.results()


def case(name: str) -> Case:
    return Case(FOLDER / f"{name}.yaml")


# ---- The cases themselves: what moves a figure, in a governor or in replay, shows here. ----


def playable(cell: Cell) -> bool:
    """Tell whether a cell needs no download and no tree."""
    kernel = cell.governor.partition(":")[0].partition("@")[2]
    return not kernel or kernel_is_there(kernel)


@pytest.mark.parametrize("name", CASES)
def test_each_figure_is_what_its_case_expects(name: str, tmp_path: Path) -> None:
    one = case(name)
    cells = tuple(filter(playable, one.described.cells))
    vars(one)["described"] = replace(one.described, cells=cells)
    with Memo(tmp_path / "memo.db") as memo:
        result = one.measure(Request(seeds=1), memo, meter)
    assert cells
    replayed = [row for row in result.rows if not row.what.endswith(IN_LAB)]
    for cell, row in zip(cells, replayed, strict=True):
        assert cell.expect, f"{row.what}: has no range that it is expected in"
        low, high = cell.expect
        assert row.median is not None and low <= row.median <= high, f"{row.what}: {row.figures()}"


def test_a_case_is_the_same_whenever_it_is_played() -> None:
    described = case("teo-livelock").described
    cell = described.cells[-1]
    who, stream = candidate(cell.governor), described.streams[cell.stream]
    first, again = (play(described, stream, who, stream_of(described, cell, 3)) for _ in range(2))
    other = play(described, stream, who, stream_of(described, cell, 4))
    assert first == again
    assert first != other


def test_a_killed_run_goes_on_with_what_it_has(tmp_path: Path) -> None:
    done: list[int] = []

    def work(number: int) -> int:
        if number == 2 and len(done) < 3:
            raise KeyboardInterrupt
        done.append(number)
        return number

    def run() -> list[Any]:
        cells = [experiment.Job(str(n), partial(work, n)) for n in range(4)]
        with Memo(tmp_path / "memo.db") as memo:
            return experiment.run_jobs(cells, memo, meter, "", threads=1)

    with Memo(tmp_path / "memo.db") as memo:
        memo.put("0", 0)
    with pytest.raises(KeyboardInterrupt):
        run()
    done.extend([0, 0, 0])
    assert run() == [0, 1, 2, 3]
    assert done.count(1) == 1


def test_experiments_boot_in_one_plan(tmp_path: Path, monkeypatch: Any) -> None:
    """So no processor waits for the last boot of each; a second measurement has all figures."""
    plans: list[tuple[str, list[str]]] = []
    told: list[list[Any]] = []

    @contextmanager
    def meter(title: str, total: int) -> Iterator[Callable[[int], None]]:
        plans.append((title, []))
        yield lambda _: None

    def boot(name: str) -> str:
        plans[-1][1].append(name)
        return name

    def measure(name: str, _: Request, memo: Memo, meter: Any) -> Findings:
        plan = [
            partial(experiment.Job, f"{name}{n}", partial(boot, f"{name}{n}")) for n in (1, 2, 3)
        ]
        told.append(boots.figures(plan, [], True, memo, meter, name))
        return Findings()

    monkeypatch.setattr(boots, "at_once", lambda: 1)
    some: list[Any] = [SimpleNamespace(measure=partial(measure, name)) for name in "ab"]
    request = Request(lab=True)
    with Memo(tmp_path / "memo.db") as memo:
        memo.put("a2", "known")
        boots.boot_together(some, request, memo, meter)
        for one in some:
            one.measure(request, memo, meter)
    names = ["a1", "a3", "b1", "b2", "b3"]
    assert [plan for plan in plans if plan[1]] == [("Booting for all experiments", names)]
    assert told == [
        [None, "known", None], [None] * 3, ["a1", "known", "a3"], ["b1", "b2", "b3"]
    ]  # fmt: skip


# ---- Intervals. ----


def made(text: str, **options: Any) -> dict[str, Any]:
    phases = [law.Stretch(**one) for one in yaml.safe_load(text)]
    return law.intervals(phases, 1, "some", 1, slack_ns=100_000, **options)


def test_seeds_that_change_nothing_are_no_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Any] = [SimpleNamespace(kernel="6.12")] * 3

    def booted(*figures: float) -> list[Any]:
        monkeypatch.setattr(boots, "figures", lambda *_: list(figures))
        memo: Any = None
        return boots.boots(
            runs, lambda _: 0.0, [], Request(lab=True), memo, meter, "Evacuating CPUs"
        )

    assert booted(0.5, 0.5, 0.25) == [0.5, 0.5, 0.25]
    with pytest.raises(UserError, match="Evacuating CPUs: all 3 seeds came to the same"):
        booted(0.5, 0.5, 0.5)


def test_a_timer_ends_the_intervals_that_no_device_ends_before() -> None:
    found = made("[{count: 500, wake_us: {between: [50, 150]}, timer_us: 100}]")
    by_timer = found["length_ns"] == found["timer_ns"]
    assert 0 < by_timer.sum() < 500
    assert (found["length_ns"] <= 100_000).all()
    assert np.array_equal(found["flags"] & columns.TIMER != 0, by_timer)


def test_no_interval_begins_before_the_longest_way_out_is_over() -> None:
    found = made("[{count: 100, wake_us: {mean: 200}, busy_us: 7}]")
    ends = found["start_ns"][:-1] + found["length_ns"][:-1].astype(np.uint64)
    assert (found["start_ns"][1:] - ends == 107_000).all()


def test_parts_of_a_mixture_are_as_large_as_their_weights() -> None:
    found = made("[{count: 20000, wake_us: {one_of: [[3, 10], [1, {near: 1000, spread: 0.1}]]}}]")
    assert (found["length_ns"] == 10_000).mean() == pytest.approx(0.75, abs=0.02)


def test_with_nohz_full_the_tick_stays_stopped() -> None:
    found = made("[{count: 3, timer_us: 10}]", tick_stopped=True, latency_req_ns=5)
    assert (found["flags"] & columns.CONTINUED != 0).all()
    assert (found["latency_req_ns"] == 5).all()
    assert (made("[{count: 3, timer_us: 10}]")["latency_req_ns"] == TIME_MAX).all()


def test_with_nohz_full_no_tick_comes_before_the_first_long_interval() -> None:
    # teo keeps the tick after short intervals, so it would wake from the first long ones.
    laws = "[{count: 200, wake_us: {one_of: [[9, 30], [1, 5000]]}, timer_us: 20000}]"
    ticks = {}
    for stopped in (False, True):
        with Run(governor("teo_ng"), state_tables.find("skx", 250)) as run:
            run.play(made(laws, tick_stopped=stopped), choices=False)
            ticks[stopped] = run.totals().ticks
    assert ticks[False] > 0 == ticks[True]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[{count: 3, wake_us: -5}]", "'-5' is no number above 0"),
        ("[{count: 3, wake_us: true}]", "'True' is no number above 0"),
        ("[{count: 3, wake_us: .inf}]", "'inf' is no number above 0"),
        ("[{count: 3, wake_us: 1.0e+300}]", "is no number above 0"),
        ("[{count: 3, wake_us: {mean: long}}]", "'long' is no number above 0"),
        ("[{count: 3, wake_us: {near: 5, spread: []}}]", "is no number above 0"),
        ("[{count: 3, wake_us: {one_of: [5]}}]", "are no pairs of weight and times"),
        ("[{count: 3, wake_us: {one_of: [[-1, 5]]}}]", "'-1' is no number above 0"),
        ("[{count: 3, wake_us: {}}]", "is empty"),
        ("[{count: 3, wake_us: {often: 3}}]", "is no law of times"),
        ("[{count: 3, wake_us: {between: [3, 1]}}]", "are no two rising times"),
        ("[{count: 3, wake_us: {octaves: 3}}]", "are no two rising times"),
        ("[{count: 0}]", "has no interval"),
        ("[{count: 3000000}]", "more than 2,000,000"),
    ],
)
def test_a_law_that_is_none_is_refused(text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        made(text)


# ---- The file. ----


def test_ten_lines_are_a_regression() -> None:
    described = schema.parse(GOOD, "some")
    assert described.machine.names[-1] == "C6"
    assert described.cells[0].stream == "one"


def test_a_cell_may_have_a_machine_of_its_own(tmp_path: Path) -> None:
    more = GOOD.replace("agrees: [0, 400]}", "agrees: [0, 400]}, {governor: wteo, machine: icx}")
    described = schema.parse(more, "some")
    here, there = (described.at(cell).machine for cell in described.cells)
    assert here == described.machine == state_tables.find("spr", 250)
    assert there == state_tables.find("icx", 250)
    with pytest.raises(UserError, match="some"):
        schema.parse(more.replace("icx", "[[C1, 2]]"), "some")


def test_wake_ups_one_after_the_other_wait_for_each_exit_latency() -> None:
    described = case("spin-then-sleep").described
    cell = next(one for one in described.cells if one.latency_req_us == 20)
    played = play(described, described.streams[cell.stream], candidate(cell.governor),
                  stream_of(described, cell, 1))  # fmt: skip
    lasts, energy = (one for one in described.also if one.kind in ("lasts", "energy"))
    # 400,000 wake-ups of C1E, 2 us each, and 20 s without.
    assert value(lasts, played, described.machine) == pytest.approx(20.8, abs=0.01)
    mean_j = played.cost_pj / played.intervals / 1e12
    assert value(energy, played, described.machine) == pytest.approx(400_000 * mean_j)
    with pytest.raises(UserError, match="'a_second' is missing"):
        value(replace(lasts, a_second=0), played, described.machine)


def test_the_index_shows_an_example_that_works() -> None:
    text = Path(pages.__file__).with_name("index.md").read_text()
    example = text.split("```yaml\n")[1].split("```")[0]
    assert isinstance(schema.parse(example, "example"), Description)
    for kind in KINDS:
        assert f"`{kind}`" in text, f"the figure {kind} is not named"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("title: A title\n", "", "'title' is missing"),
        ("title: A title\n", "heading: A title\n", "unknown key 'heading'"),
        ("machine: spr", "machine: z80", "unknown machine"),
        ("machine: spr", "machine: [[C1, 2]]", "is no \\[NAME, EXIT_US"),
        ("machine: spr", "machine: [[OFF, 2, 2]]", "False is no name of a state; put it into"),
        ("machine: spr", "machine: [[C1, yes, 2]]", "must have numbers after the name"),
        ("machine: spr", "machine: [[C1, 2, .nan]]", "must have numbers after the name"),
        ("machine: spr", "machine: [[C1, 2, 2, 5], [C2, 9, 9]]", "'C2' has no power_mw"),
        ("machine: spr", "machine: [[C1, 2, 2, 0]]", "power of 'C1': must be above 0"),
        ("machine: spr", "machine: [[C1, 2, 2, 5], [C2, 9, 9, 6]]", "above that of the shallower"),
        ("machine: spr", "tick_hz: 0\nmachine: spr", "out of range"),
        ("machine: spr", "disabled: [C9]\nmachine: spr", "no state 'C9'"),
        ("count: 200,", "count: 200, often: 3,", "unknown key 'often'"),
        ("[0, 400]", "[400, 0]", "is no range"),
        (", agrees: [0, 400]", "", "go together"),
        ("governor: wteo,", "governor: wteo, stream: two,", "no stream 'two'"),
        ("cells: [{governor: wteo", "cells: [{who: wteo", "unknown key 'who'"),
        ("title: A title", "title: [", "^some: is no case: line 3: "),
        ("title: A title", "title: \x07", "^some: is no case: line 1: special characters"),
        ("title: A title", "title: " + "[" * 3000, "it nests too deeply"),
        ("machine: spr", "machine: spr\nmachine: skx", "line 6: key 'machine' occurs twice"),
    ],
)
def test_a_mistake_in_a_case_is_one_sentence(old: str, new: str, why: str) -> None:
    assert old in GOOD
    with pytest.raises(UserError, match=why) as caught:
        schema.parse(GOOD.replace(old, new), "some")
    assert "\n" not in caught.value.message


WRONG: tuple[Any, ...] = (
    5,
    -1,
    1.5,
    "x",
    "",
    True,
    None,
    [],
    [1],
    {},
    {"a": 1},
    10**30,
    float("nan"),
    [[1]],
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place of a case: a list or a mapping, and an index of it."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


# Each value of a case is replaced in turn by those of other types and sizes.
def test_a_value_of_another_type_is_read_or_refused() -> None:
    whole = yaml.safe_load(GOOD)
    refused = 0
    for holder, key in places(whole):
        kept = holder[key]
        for wrong in WRONG:
            holder[key] = wrong
            try:
                described = schema.parse(yaml.safe_dump(whole), "some")
                for stream in described.streams.values():
                    law.times(stream.phases, stream.repeat, "some", 1)
            except UserError as error:
                assert "\n" not in error.message
                refused += 1
        holder[key] = kept
    assert refused > 100


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xff\xfe\x00", "is no case: it is no text in UTF-8"),
        (b"", "is no case: the file must be a mapping of keys to values"),
        (b"- a", "is no case: the file must be a mapping of keys to values"),
        (b"heading: a", "unknown key 'heading'; .*"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_is_no_case_is_named_as_given(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    path = tmp_path / "some.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=f"^{path}: {why}$") as caught:
        schema.read(path)
    assert caught.value.exit_code == FAILURE


# ---- Verdicts. ----


def test_a_figure_agrees_by_its_median() -> None:
    row = Row("it", "about 5", (1.0, 6.0, 7.0), "us", (5, 7))
    assert row.state == AGREES
    assert row.figures() == "6 (1 to 7) us"
    assert Row("it", "about 5", (8.0,), "us", (5, 7)).state == DIFFERS
    assert Row("it", "about 5", (), "us", (5, 7)).state == ABSENT
    assert Row("it", ours=(8.0,)).state == ""


def test_one_figure_that_differs_makes_the_experiment_differ() -> None:
    good = Row("a", "5", (5.0,), "us", (5, 5))
    assert Findings([good, Row("b")]).state == AGREES
    assert Findings([good, Row("b", "5", (6.0,), "us", (5, 5))]).state == DIFFERS
    assert Findings([Row("b", "5", (), "us", (5, 5))]).state == ABSENT
    assert Findings([Row("b", ours=(5.0,))]).state == UNJUDGED


# ---- The kernel that is found. ----


def test_a_fault_can_come_and_go() -> None:
    steps = [Step("a", 1, False), Step("b"), Step("c", 9, True), Step("d", 1, False)]
    assert changes(steps) == [
        "the fault appears between a and c",
        "the fault is gone between c and d",
    ]
    assert changes([Step("a", 1, False)]) == ["none has the fault"]
    assert changes([Step("a")]) == ["no kernel could be played"]


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


@pytest.mark.skipif(
    not all(kernel_is_there(one) for one in ("6.12", "7.2")), reason="would download kernels"
)
def test_the_commit_is_found_in_a_git_tree(tmp_path: Path, monkeypatch: Any) -> None:
    tree, folder = tmp_path / "linux", tmp_path / "linux" / bisect.FOLDER
    folder.mkdir(parents=True)
    git(tree, "init", "-q")
    git(tree, "config", "user.email", "test@localhost")
    git(tree, "config", "user.name", "Test")
    for series, subject in (("6.12", "old"), ("6.12", "unrelated"), ("7.2", "the fix")):
        for name in GOVERNORS:
            (folder / name).write_text((CACHE / "linux-source" / series / name).read_text())
        (tree / "other").write_text(subject)
        git(tree, "add", ".")
        git(tree, "commit", "-q", "-m", subject)
    monkeypatch.setattr(bisect, "TOP", tmp_path)
    found = bisect.commits(tree, "HEAD~2..HEAD")
    assert [name.partition(" ")[2] for name in found] == ["old", "the fix"]
    with Memo(tmp_path / "memo.db") as memo:
        kernels = {name: str(path) for name, path in found.items()}
        steps = bisect.bisect(case("teo-livelock"), kernels, 1, memo, meter)
    assert [step.bad for step in steps] == [True, False]
    assert changes(steps)[0].endswith("the fix")


def test_a_span_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is no A\.\.B"):
        bisect.commits(tmp_path, "HEAD")
    with pytest.raises(UserError, match=r"is no A\.\.B"):
        bisect.commits(tmp_path, "--output=x..y")
    with pytest.raises(UserError, match="git log failed"):
        bisect.commits(tmp_path, "a..b")


# ---- The command and the pages. ----


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nosuch"], 2, "unknown experiment 'nosuch'"),
        (["cde"], 2, "did you mean 'cede'?"),
        ([], 2, "name an experiment"),
        (["cede", "--all"], 2, "name an experiment"),
        (["cede", "--commits", "a..b"], 2, "--commits is for --bisect"),
        (["cede", "--bisect", "--commits", "a..b"], 2, "wants one --tree"),
        (["cede", "--tree", "x=/nowhere"], 1, "no such directory"),
        (["cede", "-o", "/nowhere"], 2, "no such directory"),
        (["cede", "-o", "/proc"], 1, "no page can be written"),
        (["poll-only", "--bisect"], 1, "its file has no 'bisect'"),
    ],
)
def test_bad_input_is_refused(words: list[str], code: int, said: str, capfd: Any) -> None:
    assert main(["experiment", *words]) == code
    assert said in capfd.readouterr().err


def test_a_full_disk_is_said_before_anything_starts(monkeypatch: Any, capfd: Any) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    assert main(["experiment", "evacuate", "--lab", "--quick"]) == 1
    said = capfd.readouterr()
    assert "1024 MiB are free" in said.err and not said.out
    # A case that is replayed alone needs no room.
    assert main(["experiment", "reject", "--lab", "--quick", "--seeds", "1"]) == 0


def test_a_case_of_any_file_is_played(tmp_path: Path, capfd: Any) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(GOOD)
    assert main(["experiment", str(file), "--seeds", "1", "--json"]) == 0
    told = capfd.readouterr()
    assert [one["name"] for one in json.loads(told.out)] == ["mine"]
    assert "written" not in told.err and [*tmp_path.iterdir()] == [file]
    assert main(["experiment", str(tmp_path / "none.yaml")]) == 1
    assert "cannot be read" in capfd.readouterr().err


def test_the_list_names_every_case(capfd: Any) -> None:
    assert main(["experiment", "--list", "--json"]) == 0
    names = {one["name"] for one in json.loads(capfd.readouterr().out)}
    assert {*CASES, "wteo", "gate"} <= names


def test_a_page_and_its_figures_are_written(tmp_path: Path, capfd: Any) -> None:
    words = ["experiment", "poll-only", "--seeds", "1", "-o", str(tmp_path), "--json"]
    assert main(words) == 0
    told = json.loads(capfd.readouterr().out)[0]
    assert told["name"] == "poll-only"
    page = (tmp_path / "poll-only.md").read_text()
    assert "cpuidle-lab experiment poll-only --seeds 1\n" in page
    assert (tmp_path / "poll-only" / "figure.svg").is_file()
    assert "[poll-only](poll-only.md)" in (tmp_path / "README.md").read_text()


def test_a_page_with_more_figures_is_kept(tmp_path: Path) -> None:
    """Where the lab was not booted, or a tree was not given."""
    target = tmp_path / "gate.md"
    measured = Row("in the lab", ours=[1.0, 2.0])
    absent = Row("in the lab", note=NOT_BOOTED)
    replayed = Row("replayed", ours=[3.0])
    assert pages.lost(Findings([absent]), target) == []
    (tmp_path / "gate").mkdir()
    told = as_json(next(iter(cases())), Findings([measured, replayed]))
    (tmp_path / "gate" / pages.RESULT).write_text(json.dumps(told))
    assert pages.lost(Findings([absent, replayed]), target) == ["in the lab"]
    assert pages.lost(Findings([Row("programs", note=NOT_BOOTED), replayed]), target) == [
        "in the lab"
    ]
    # Rows may be renamed, or go, where all that there is was measured.
    assert pages.lost(Findings([Row("other", ours=[1.0])]), target) == []
    assert (
        pages.lost(Findings([measured, replayed, Row("tree", note="needs --tree")]), target) == []
    )


def test_a_verdict_counts_as_a_figure(tmp_path: Path) -> None:
    """The rows of wteo's page are promises: no list of figures, a verdict."""
    target = tmp_path / "wteo.md"
    (tmp_path / "wteo").mkdir()
    held = Row("kernel: no program has more regret", note="none", judged="held")
    regret = Row("regret: 90 % of the gap closed", note="126 %", judged="held")
    told = as_json(next(iter(cases())), Findings([regret, held]))
    (tmp_path / "wteo" / pages.RESULT).write_text(json.dumps(told))
    absent = Row("kernel: with these sources", note="add --lab", judged=ABSENT)
    assert pages.lost(Findings([regret, absent]), target) == [held.what]
    assert pages.lost(Findings([regret, held]), target) == []


def test_an_experiment_says_that_it_keeps_the_page(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["experiment", "over-eager", "--seeds", "1", "-o", str(tmp_path)]
    assert main(words) == 0
    kept = tmp_path / "over-eager" / pages.RESULT
    told = json.loads(kept.read_text())
    next(row for row in told["rows"] if row["what"] == "teo@patched")["median"] = 70
    kept.write_text(json.dumps(told))
    before = (tmp_path / "over-eager.md").read_text()
    capfd.readouterr()
    assert main(words) == 0
    err = capfd.readouterr().err
    assert "kept: " in err and "1 figures more" in err and "--tree" in err
    assert (tmp_path / "over-eager.md").read_text() == before


def test_the_table_is_made_of_the_results_that_are_kept() -> None:
    assert (pages.FOLDER / pages.INDEX).read_text() == pages.index(KEPT)


def test_every_case_has_a_page() -> None:
    assert set(CASES) <= {one["name"] for one in KEPT}


@pytest.mark.parametrize("told", KEPT, ids=lambda told: told["name"])
def test_a_page_names_what_made_it(told: dict[str, Any]) -> None:
    if told["name"] not in CASES:
        return
    page = (pages.FOLDER / f"{told['name']}.md").read_text()
    assert told["hash"] in page
    assert told["command"] in page


# ---- The seeds. ----

STRESS = """\
stress-ng: info:  [12] cyclic: latency percentiles:
stress-ng: info:  [12] cyclic:   50.00%:       6600 ns
stress-ng: info:  [12] cyclic:   99.00%:       7200 ns
stress-ng: info:  [12] cyclic: latency distribution (100 ns intervals):
stress-ng: info:  [12] cyclic: (for the first 2 buckets of 300)
stress-ng: info:  [12] cyclic: latency (ns)  frequency
stress-ng: info:  [12] cyclic:            0          3
stress-ng: info:  [12] cyclic:          100         40
"""


def test_the_cyclic_stressor_is_read() -> None:
    assert cyclic.distribution(STRESS) == {0: 3, 100: 40}
    assert cyclic.percentiles(STRESS) == {50.0: 6600, 99.0: 7200}
    with pytest.raises(UserError, match="no percentiles"):
        cyclic.percentiles("stress-ng: nothing")


def test_regret_is_split_without_a_rest() -> None:
    machine = state_tables.find("power9", 250)
    part = replayed._stream("bimodal-even", machine, 500, 1)
    found = replayed.split(machine, part, "teo_ng")
    with Run(candidate("teo_ng").governor, machine) as run:
        run.play(part, choices=False)
        totals = run.totals()
    lost = sum(found[name] for name in ("deep", "shallow", "other"))
    assert lost == pytest.approx(totals.cost_pj - totals.oracle_pj)
    assert found["deep"] > 0 or found["shallow"] > 0


def test_text_and_long_items_of_a_page_are_filled() -> None:
    long = " ".join(["word"] * 30)
    page = f"## Head\n{long}\n\n- {long}\n- short\n  lines\n\n    {long}\n\n| {long} |"
    lines = pages.wrapped(page).split("\n")
    assert [line for line in lines if len(line) > 100] == [f"    {long}", f"| {long} |"]
    assert [len(line) for line in lines[:8]] == [7, 99, 49, 0, 96, 56, 7, 7]
    assert " ".join("\n".join(lines).split()) == " ".join(page.split())
