# SPDX-License-Identifier: GPL-2.0
"""The experiment wteo: its arithmetic, its streams, and the command."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.evidence import plots
from cpuidle_lab.evidence.tables import Table, verdict
from cpuidle_lab.recording import laws, state_tables, synth
from cpuidle_lab.replay.candidates import MAINLINE, Candidate, parse
from cpuidle_lab.replay.engine import Run
from cpuidle_lab.replay.library import TunableInfo
from cpuidle_lab.states.table import StateTable
from cpuidle_lab.view.terminal import meter
from experiments import memo, pages
from experiments.wteo import (
    cost,
    every_machine,
    front,
    mechanisms,
    regimes,
    regret,
    resets,
    robust,
    scope,
    steps,
    streams,
    worst,
)
from experiments.wteo.streams import Figures, StudyIntervals, Twist

SKX = state_tables.find("skx", 250)


def stream(name: str = "poisson-1ms", count: int = 2000, table: str = "skx") -> StudyIntervals:
    return streams.synthetic(laws.STREAMS[name], state_tables.find(table, 250), table, count)


def who(label: str) -> Candidate:
    return parse(label, False)[0]


# ---- Regret and harm. ----


def test_the_gap_that_is_closed() -> None:
    assert regret.share_closed(60.0, 33.0, 30.0) == pytest.approx(90)
    assert regret.share_closed(60.0, 25.0, 30.0) == pytest.approx(350 / 3)
    assert regret.share_closed(60.0, 66.0, 30.0) == pytest.approx(-20)
    assert regret.share_closed(30.2, 30.0, 30.0) is None


def figures(percent: float, latency_ns: int = 1000) -> Figures:
    cost_pj = 100 + percent
    return Figures(cost_pj, 100, cost_pj, 100, latency=[(latency_ns, 1000)])


def case(name: str, floor: float | None, mine: float, menu: float, teo: float) -> regret.Comparison:
    made = StudyIntervals(name, streams.SYNTH, "skx", {}, {}, floor)
    theirs = zip(MAINLINE, (figures(menu), figures(teo)), strict=True)
    of = {"wteo": figures(mine), "bayes": figures(5), **dict(theirs)}
    return regret.Comparison(made, of)


def test_both_readings_of_the_better_mainline_governor() -> None:
    cases = [case("a", 10, 20, 100, 30), case("b", 20, 30, 40, 90), case("c", None, 900, 1, 1)]
    row = regret.row_of(streams.SYNTH, "skx", cases, "wteo")
    assert row.streams == 2  # that of unknown floor is left out
    assert row.regret["wteo"] == pytest.approx(25) and row.floor == pytest.approx(15)
    assert row.better_each == pytest.approx(35)
    assert row.by_mean == pytest.approx(100 * (60 - 25) / (60 - 15))
    assert row.by_stream == pytest.approx(100 * (35 - 25) / (35 - 15))
    assert row.worst[0] == "c" and row.worst[1] == pytest.approx(899)


def test_harm_is_against_the_better_and_latency_against_the_worse() -> None:
    made = case("a", 10, 33, 40, 30)
    assert made.harm("wteo") == pytest.approx(3)
    late = regret.Comparison(made.stream, {**made.of, "wteo": figures(0, 5000)})
    assert late.late_us("wteo") == pytest.approx(4)
    assert made.late_us("wteo") == 0


def test_every_case_above_the_limits_is_listed() -> None:
    late = case("late", 10, 0, 50, 50)
    cases = [
        case("fine", 10, 31.9, 40, 30),
        case("harmed", 10, 32.1, 40, 30),
        regret.Comparison(late.stream, {**late.of, "wteo": figures(0, 5000)}),
    ]
    assert [row[1] for row in regret._violations(cases, "wteo")] == ["harmed", "late"]


def test_quantiles_of_a_table_count_each_stream_the_same() -> None:
    long = Figures(latency=[(1000, 10**6)])
    short = Figures(latency=[(9000, 1)])
    assert streams.latency_of([long, short], 0.5) == 1
    assert streams.latency_of([long, short], 0.51) == 9


def test_dominance() -> None:
    base = front.Point("a", 10, 5, 100)
    assert front.Point("b", 9, 5, 100).dominates(base)
    assert not front.Point("b", 9, 6, 100).dominates(base)
    assert not base.dominates(base)


def test_values_of_a_bias() -> None:
    bias = TunableInfo("latency_bias", "", "", 0, 1000, 30, ())
    found = front.values_of(bias)
    assert found[0] == 0 and found[-1] == 1000 and 30 in found and found == sorted(set(found))


def test_a_front_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another tunable in the place of the bias."""
    made = [stream("bimodal-rare", 1000), stream("poisson-1ms", 1000)]
    with memo.Memo(tmp_path / "memo.db") as kept:
        monkeypatch.setattr(front, "BIAS", "nothing")
        absent = front.measure("wteo", made, kept, meter)
        monkeypatch.setattr(front, "BIAS", "learning_rate")
        found = front.measure("wteo", made, kept, meter)
    assert len(absent.tables[0].rows) == 3
    assert len(found.tables[0].rows) > 5 and len(found.verdicts) == 6
    assert len({row[2] for row in found.tables[0].rows}) > 2


# ---- Playing. ----


def test_a_stream_is_the_one_that_synth_writes(tmp_path: Path) -> None:
    synth.write("bursts", tmp_path / "s", machine_name="skx", hz=250, count=500, seed=1)
    from cpuidle_lab.recording.columns import Recording
    from cpuidle_lab.replay.engine import counterfactual

    written = Recording(tmp_path / "s")
    there = counterfactual(written, who("wteo").governor)
    here = streams.play(stream("bursts", 500), who("wteo"))
    assert (here.cost_pj, here.oracle_pj) == (there.cost_pj, there.oracle_pj)
    assert stream("bursts", 500).floor == written.law["floor_regret"] if written.law else False


def test_the_warm_part_is_the_rest() -> None:
    whole = streams.play(stream(count=3000), who("teo_ng"))
    assert 0 < whole.warm_cost_pj < whole.cost_pj
    assert whole.warm_oracle_pj / whole.oracle_pj == pytest.approx(0.9, abs=0.05)


def told_twice(made: StudyIntervals) -> StudyIntervals:
    """Return a stream where the kernel tells half-way when every second interval ends."""
    part = dict(made.intervals[0])
    half = part["length_ns"] // 2
    part["answers"] = (np.arange(made.count) % 2).astype(np.uint32)
    part["answer_at_ns"] = (part["start_ns"] + half.astype(np.uint64))[1::2]
    part["answer_timer_ns"] = (part["length_ns"] - half)[1::2]
    return replace(made, intervals={0: part})


def test_answers_go_with_their_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    told = told_twice(stream(count=3000))
    pieces: list[Any] = []
    monkeypatch.setattr(Run, "play", lambda _run, chunk, **_: pieces.append(chunk))
    streams.play(told, who("wteo"))
    at_ns = told.intervals[0]["answer_at_ns"]
    assert [len(piece["flags"]) for piece in pieces] == [300, 2700]
    assert (pieces[0]["answer_at_ns"] == at_ns[:150]).all()
    assert (pieces[1]["answer_at_ns"] == at_ns[150:]).all()
    assert (cost.middle(told, 20)[1]["answer_at_ns"] == at_ns[745:755]).all()


def test_what_is_known_is_not_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [(stream(count=200), who("wteo"), streams.AS_TOLD)]
    with memo.Memo(tmp_path / "memo.db") as kept:
        first = streams.play_all(jobs, kept, meter, "")
    monkeypatch.setattr(streams, "play", lambda *_: pytest.fail("played again"))
    with memo.Memo(tmp_path / "memo.db") as kept:
        again = streams.play_all(jobs, kept, meter, "")
    assert again[0].cost_pj == first[0].cost_pj
    assert again[0].latency_us(0.99) == first[0].latency_us(0.99)


def test_the_same_twice_is_worked_out_once(tmp_path: Path) -> None:
    job = (stream(count=200), who("wteo"), streams.AS_TOLD)
    with memo.Memo(tmp_path / "memo.db") as kept:
        one, other, two = streams.play_all(
            [job, (job[0], who("teo_ng"), job[2]), job], kept, meter, ""
        )
        assert one == two != other
        found = cost._count([counted(SKX), counted(SKX), counted(cost.ten_states())], kept, meter)
    assert found[0] == found[1] != found[2]


def counted(machine: StateTable) -> cost._Job:
    return cost._Job("t", "s", who("teo_ng"), machine, stream(count=100).intervals[0])


def test_an_interrupt_ends_the_work(tmp_path: Path) -> None:
    begun = []

    def stop() -> None:
        begun.append(1)
        raise KeyboardInterrupt

    def slow() -> int:
        begun.append(1)
        time.sleep(0.05)
        return 1

    work = {"0": stop, **{str(n): slow for n in range(1, 200)}}
    with memo.Memo(tmp_path / "memo.db") as kept, pytest.raises(KeyboardInterrupt):
        kept.fill(work, meter, "")
    assert len(begun) < 50


def test_what_makes_a_difference_has_another_key() -> None:
    base = streams._key(stream(), who("wteo"), streams.AS_TOLD)
    others = [
        streams._key(stream(count=1999), who("wteo"), streams.AS_TOLD),
        streams._key(stream(table="spr"), who("wteo"), streams.AS_TOLD),
        streams._key(stream(), who("teo_ng"), streams.AS_TOLD),
        streams._key(stream(), who("wteo:learning_rate=51"), streams.AS_TOLD),
        streams._key(stream(), who("wteo"), Twist(powers=(2.0,))),
    ]
    assert len({base, *others}) == 6
    assert streams._key(stream(), who("wteo"), streams.AS_TOLD) == base


def test_sources_follow_includes(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text('#include "b.h"\n#include <string.h>\n')
    (tmp_path / "b.h").write_text('#  include "sub/c.h"\n')
    (tmp_path / "b.c").write_text("")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.h").write_text('#include "../b.h"\n')
    (tmp_path / "unrelated.c").write_text("")
    found = [path.name for path in memo.closure([tmp_path / "a.c"])]
    assert sorted(found) == ["a.c", "b.c", "b.h", "c.h"]


def test_comments_are_no_part_of_the_sources() -> None:
    assert memo.code("a = 1; /* one\n * two */ b; // three\nc") == "a = 1; b; c"
    assert memo.code('s = "/* no */ // no"; /* "yes */') == 's = "/* no */ // no";'
    assert memo.code("c = '\"'; /* yes */ d = '\\''; // yes") == "c = '\"'; d = '\\'';"
    assert memo.code("a / b /* c */ * d") == "a / b * d"


def test_bayes_does_not_depend_on_wteo_but_wteo_rfc_on_teo() -> None:
    of = {path.name for path in memo._own("wteo")}
    assert {"wteo.c", "engine.c"} <= of and not {"teo_ng.c", "bayes.c"} & of
    assert {"wteo_rfc.c", "teo_ng.c"} <= {path.name for path in memo._own("wteo_rfc")}
    assert not {"wteo.c", "wteo.h"} & {path.name for path in memo._own("bayes")}


@pytest.mark.parametrize("name", ["wteo", "bayes"])
def test_a_copy_goes_on_as_the_original_does(name: str) -> None:
    part = stream("bimodal-even", 2000).intervals[0]
    head = {name: values[:1000] for name, values in part.items()}
    rest = {name: values[1000:] for name, values in part.items()}
    governor = who(name).governor
    with Run(governor, SKX) as run:
        run.play(head, choices=False)
        with run.copy() as other:
            copied = other.play(rest, choices=True)
        original = run.play(rest, choices=True)
    with Run(governor, SKX) as afresh:
        fresh = afresh.play(rest, choices=True)
    assert all((copied[name] == original[name]).all() for name in copied)
    assert (fresh["index"] != original["index"]).any()


def test_a_driver_that_demotes_and_one_that_refuses() -> None:
    made = stream("poisson-5ms", 500)
    plain = streams.play(made, who("teo_ng"))
    demoted = streams.play(made, who("teo_ng"), Twist(demoted=1 << 3, every=1))
    refused = streams.play(made, who("teo_ng"), Twist(rejected=1 << 3, every=2))
    deepest = SKX.exit_latency_ns[3]
    assert dict(plain.latency)[deepest] > 400
    assert deepest not in dict(demoted.latency)
    assert demoted.cost_pj > 2 * plain.cost_pj
    assert refused.decisions > 1.5 * plain.decisions
    assert plain.cost_pj < refused.cost_pj < 1.1 * plain.cost_pj


def test_who_is_not_told_of_the_tick_learns_from_it() -> None:
    made = stream("heavy-tail", 2000)
    told, blind = (
        streams.play(made, who("wteo"), twist) for twist in (Twist(), Twist(conceals=True))
    )
    assert blind.ticks > told.ticks > 50
    assert told.intervals == blind.intervals and told.oracle_pj == blind.oracle_pj
    assert blind.cost_pj > 1.01 * told.cost_pj


def test_wrong_powers_are_the_governors_alone() -> None:
    told = Twist(powers=(1.0, 2.0, 0.0)).told(SKX)
    assert told.power_uw == (4_000_000, 2_800_000, 0, 0)
    assert streams.AS_TOLD.told(SKX) == SKX
    made = stream("bimodal-even", 2000)
    right, wrong = (
        streams.play(made, who("wteo"), twist)
        for twist in (Twist(powers=(1.0,)), Twist(powers=(1.0, 0.1, 1.0)))
    )
    # wteo derives powers from target residencies, so what the driver says makes no difference.
    assert (right.oracle_pj, right.cost_pj) == (wrong.oracle_pj, wrong.cost_pj)


def test_disabled_states_are_not_entered() -> None:
    (made,) = robust.without([stream("poisson-5ms", 300)], 1 << 3)
    assert SKX.exit_latency_ns[3] not in dict(streams.play(made, who("wteo")).latency)
    assert made.key != stream("poisson-5ms", 300).key


def test_equal_residencies() -> None:
    odd = robust.equal_residencies(SKX, 7000)
    assert odd.target_residency_ns == (0, 7000, 7000, 7000)
    assert (
        streams.play(streams.synthetic(laws.STREAMS["bursts"], odd, "odd", 300), who("wteo")).regret
        >= 0
    )


def test_kinds_of_decisions_account_for_the_loss() -> None:
    found = worst.kinds(stream("bimodal-even", 3000), who("teo_ng"), most=1000)
    assert sum(kind.share for kind in found) == pytest.approx(100)
    assert sum(kind.count for kind in found) == 3000
    assert [kind.share for kind in found] == sorted((k.share for k in found), reverse=True)


# ---- Learning. ----


def test_regret_by_windows() -> None:
    oracle = np.full(250, 2.0)
    spent = np.concatenate([np.full(100, 3.0), np.full(100, 2.0), np.full(50, 9.0)])
    assert resets.regrets(spent, oracle).tolist() == [50.0, 0.0]


def test_a_change_is_judged_from_the_settled_period_on() -> None:
    cost_pj = np.full((4, regimes._AFTER), 11.0)
    cost_pj[:, : regimes.SETTLED] = 1000
    oracle = np.full_like(cost_pj, 5.0)
    base = regimes.Met(np.full_like(cost_pj, 10.0), oracle)
    change = regimes.Change.of(
        "skx", ["a"], "b", regimes.Met(cost_pj, oracle), base, regimes.SETTLED
    )
    assert change.percent == pytest.approx(10)
    assert change.regret == pytest.approx(120) and change.base == pytest.approx(100)
    assert change.curve[0] == pytest.approx(9900) and change.curve[-1] == pytest.approx(10)


def test_a_regime_meets_the_tick_as_before() -> None:
    regime = regimes._Regime.of("timer-1ms", SKX, 300, 1)
    assert regime.span_ns % SKX.tick_ns == 0
    piece = regime.piece(2, 100)
    assert piece["start_ns"][0] == 0 and len(piece["flags"]) == 100
    assert (piece["length_ns"] == regime.part["length_ns"][200:300]).all()


def test_teo_has_nothing_to_unlearn_from_its_own_regime() -> None:
    world = regimes._World(SKX, ["poisson-5ms"], 5)
    with world.taught(who("teo_ng"), [("poisson-5ms", 30)]) as clock:
        base = world.meets(clock, "poisson-5ms", "poisson-5ms")
    with world.taught(who("teo_ng"), [("poisson-5ms", 60)]) as clock:
        again = world.meets(clock, "poisson-5ms", "poisson-5ms")
    assert abs(again.above(base, regimes.SETTLED)) < 2


# ---- Cost. ----

LISTING = """
0000000000001000 <alpha_select>:
    1000:	call   2000 <helper>
    1005:	jmp    3000 <memcpy@plt>
    100a:	ret
0000000000002000 <helper>:
    2000:	{}
    2003:	je     2005 <helper+0x5>
    2005:	ret
0000000000003000 <memcpy@plt>:
    3000:	jmp    *0x10(%rip)
0000000000004000 <unrelated>:
    4000:	div    %rcx
"""


@pytest.mark.parametrize("instruction", ["div    %rcx", "idivq  (%rax)", "call 9 <__udivti3>"])
def test_divisions_are_found_where_they_can_be_reached(instruction: str) -> None:
    found = cost.divisions(LISTING.format(instruction), "alpha_select")
    assert found.divide == {"helper": 1}
    assert "unrelated" not in found.reached and found.indirect == ()


def test_no_division_and_no_function() -> None:
    found = cost.divisions(LISTING.format("imul   %rcx,%rax"), "alpha_select")
    assert found.divide == {} and found.reached == ("alpha_select", "helper")
    assert cost.divisions(LISTING, "missing").reached == ()


def test_a_call_through_a_pointer_is_told() -> None:
    found = cost.divisions(LISTING.format("call   *%rax"), "alpha_select")
    assert found.indirect == ("helper",)


def test_a_division_in_the_governors_is_seen() -> None:
    listing = cost._disassembled(who("menu_ng"))
    assert listing is not None
    # As mainline's menu does; if nothing did, nothing would be looked for.
    assert cost.divisions(listing, "menu_ng_select").divide


def test_the_largest_table_has_as_many_states_as_there_can_be() -> None:
    machine = cost.ten_states()
    assert machine.count == 10
    for column in (machine.exit_latency_ns, machine.target_residency_ns):
        assert list(column) == sorted(column)
    assert list(machine.power_uw) == sorted(machine.power_uw, reverse=True)


def test_the_middle_of_the_busiest_cpu() -> None:
    made = stream(count=100)
    small = {name: values[:10] for name, values in made.intervals[0].items()}
    both = StudyIntervals(
        "x", streams.CORPUS, "x", {0: SKX, 1: SKX}, {0: small, 1: made.intervals[0]}
    )
    _, chunk = cost.middle(both, 20)
    assert (chunk["start_ns"] == made.intervals[0]["start_ns"][40:60]).all()


# ---- Keeping. ----


def test_what_is_edited_meanwhile_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [(stream(count=200), who("wteo"), streams.AS_TOLD)]
    memo.sources("wteo")
    with memo.Memo(tmp_path / "memo.db") as kept:
        with monkeypatch.context() as patch:
            patch.setattr(memo, "fingerprint", lambda _spec: "other")
            with pytest.raises(UserError, match="changed while"):
                streams.play_all(jobs, kept, meter, "")
            with pytest.raises(UserError, match="changed while"):
                scope._load("wteo")
        assert kept.get(streams._key(*jobs[0])) is None
        streams.play_all(jobs, kept, meter, "")
        assert kept.get(streams._key(*jobs[0])) is not None


def test_sources_are_hashed_alike_wherever_they_lie(tmp_path: Path) -> None:
    ours = [TOP / "governors/wteo/wteo.c", TOP / "tools/native/replay.h"]
    for folder in (TOP / "build/cache/linux", tmp_path):
        theirs = [folder / "gov.h", folder / "menu.c"]
        assert sorted([*theirs, *reversed(ours)], key=memo._order) == [*ours, *theirs]


# ---- Showing. ----


def test_a_table_in_markdown() -> None:
    table = Table("t", ("name", "n"), [["a|b", 1.25], ["c", None]], 1)
    assert table.markdown().splitlines() == [
        "| name | n |", "|---|--:|", "| a\\|b | 1.2 |", "| c | - |",
    ]  # fmt: skip


@pytest.mark.parametrize("log", [False, True])
def test_a_plot_is_an_image_that_is_always_the_same(log: bool) -> None:
    lines = [plots.Line("a <b>", [(1.0, 2.0), (30.0, 0.5)]), plots.Line("c", [(2.0, 2.0)])]
    plot = plots.Plot("p", "title & more", "x", "y", lines, log_x=log, log_y=log)
    text = plots.svg(plot)
    assert text == plots.svg(plot)
    root = ElementTree.fromstring(text)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    circles = [item for item in root if item.tag.endswith("circle")]
    assert len(circles) == 3 + 2
    for circle in circles:
        assert 0 <= float(circle.attrib["cx"]) <= width
        assert 0 <= float(circle.attrib["cy"]) <= height


def test_a_verdict_says_which() -> None:
    assert str(verdict(False, "no harm", "3 streams")) == "MISSED: no harm: 3 streams"
    assert verdict(True, "", "").state == "held"


# ---- The command. ----


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep figures away from those of the project."""
    monkeypatch.setattr(memo, "FOLDER", tmp_path / "kept")
    monkeypatch.setattr(streams, "FOLDER", tmp_path / "kept")
    (tmp_path / "corpus").mkdir()
    return tmp_path


def command(folder: Path, *more: str) -> list[str]:
    few = [word for one in ("machines=skx", "streams=poisson-1ms,bursts", "count=2000")
           for word in ("--with", one)]  # fmt: skip
    return ["experiment", "wteo", *few, "--quick", "--corpus", str(folder / "corpus"), *more]


@pytest.mark.parametrize("words", [["--quick"], ["--only", "regret"], ["--with", "machines=skx"]])
def test_a_run_of_a_part_replaces_no_whole_page(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr(pages, "FOLDER", tmp_path)
    monkeypatch.setattr(scope.Scope, "of", None)  # nothing starts
    assert main(["experiment", "wteo", *words, "-o", str(tmp_path)]) == 2
    assert "of whole runs" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_more_variations_are_more_streams(
    scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(scratch, "--only", "unseen", "--with", "variations=2", "--json")) == 0
    (section,) = json.loads(capsys.readouterr().out)[0]["sections"]
    assert [one["stream"] for one in section["streams"]] == [
        "poisson-1ms~1", "poisson-1ms~2", "bursts~1", "bursts~2"
    ]  # fmt: skip


def test_other_regimes_change_into_each_other(
    scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(scratch, "--only", "learning", "--json",
                        "--with", "regimes=uniform-3ms,timer-10ms")) == 0  # fmt: skip
    (section,) = json.loads(capsys.readouterr().out)[0]["sections"]
    changes = {(*one["past"], one["new"]) for one in section["changes"] if one["kind"] == "switch"}
    assert changes == {("uniform-3ms", "timer-10ms"), ("timer-10ms", "uniform-3ms")}


def test_the_whole_way(
    scratch: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = scratch / "wteo.md"
    few = [
        every_machine.Found(kind, (name, f"{name}-again"), state_tables.find(name, streams.HZ))
        for kind, name in zip(every_machine.KINDS, ("skl", "power9", "skx"), strict=True)
    ]
    monkeypatch.setattr(every_machine, "tables", lambda: (few, ["unsorted"]))
    monkeypatch.setattr(mechanisms, "listed", lambda name: steps.listed(name)[:1])
    assert main(command(scratch, "-o", str(scratch), "--json")) == 0
    (whole,) = json.loads(capsys.readouterr().out)
    by_part = {section["part"]: section for section in whole["sections"]}
    assert list(by_part) == ["regret", "unseen", "front", "learning", "cost", "robust", "machines",
                             "kernel", "ablation"]  # fmt: skip
    # Harm by energy alone and by the default, and latency.
    assert len(by_part["machines"]["verdicts"]) == 3 * len(few)
    (row,) = by_part["regret"]["rows"]
    of = {one["stream"]: one["governors"] for one in by_part["regret"]["streams"]}
    mean = np.mean([of[name]["wteo"]["regret"] for name in ("poisson-1ms", "bursts")])
    assert row["regret"]["wteo"] == pytest.approx(mean)
    assert {one["state"] for one in by_part["kernel"]["verdicts"]} == {"not measured"}
    text = page.read_text()
    assert "{{" not in text and "Not measured." not in text
    pictures = {line.split("(")[1].rstrip(")") for line in text.splitlines() if line[:2] == "!["}
    assert pictures == {f"wteo/{path.name}" for path in (scratch / "wteo").glob("*.svg")}

    # From what is kept, the same page again.
    before = {path.name: path.read_bytes() for path in (scratch / "wteo").iterdir()}
    assert main(command(scratch, "-o", str(scratch))) == 0
    assert page.read_text() == text
    assert {path.name: path.read_bytes() for path in (scratch / "wteo").iterdir()} == before


def test_a_part_alone_writes_nothing(scratch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(scratch, "--only", "regret")) == 0
    out = capsys.readouterr().out
    assert "Mean regret" in out and "written" not in out
    assert {path.name for path in scratch.iterdir()} == {"kept", "corpus"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--with", "governor=nosuch"], "unknown governor"),
        (["--with", "governor=wteo,teo_ng"], "one governor"),
        (["--with", "governor=teo@7.2"], "no governor of ours"),
        (["--with", "governor=bayes"], "no governor of ours"),
        (["--with", "governor=wteo:nothing=1"], "no tunable"),
        (["--only", "regret,beauty"], "unknown part 'beauty'"),
        (["--with", "machines=abacus"], "unknown machine"),
        (["--with", "streams=river"], "unknown stream"),
        (["--with", "programs=doom"], "unknown program"),
        (["--with", "regimes=river,timer-1ms"], "unknown stream"),
        (["--with", "regimes=timer-1ms"], "nothing to change to"),
        (["--with", "variations=0"], "no number above 0"),
        (["--with", "weather=fine"], "unknown choice 'weather'; there are governor, machines"),
        (["--with", "machines"], "is no NAME=VALUE"),
        (["--only", "regret,"], "missing"),
        (["-o", "/nowhere/at/all"], "no such directory"),
        (["cede", "--only", "regret"], "for one experiment"),
    ],
)
def test_what_is_wrong_is_said_at_once(
    words: list[str], message: str, scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "wteo", *words]) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
    assert not (scratch / "kept").exists()
