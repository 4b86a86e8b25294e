# SPDX-License-Identifier: GPL-2.0
"""Governors on all CPUs together, and the joint oracle against brute force."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cpuidle_lab.cli import main
from cpuidle_lab.domains import joint as oracle
from cpuidle_lab.domains.account import Stays
from cpuidle_lab.domains.joint import Intervals, accounts_of, idle_pj, intervals_of, joint
from cpuidle_lab.domains.replayed import OWN, replay
from cpuidle_lab.recording import columns
from cpuidle_lab.recording.columns import Writer
from cpuidle_lab.replay.candidates import listed
from cpuidle_lab.replay.engine import INTERVAL_TYPES, Run
from cpuidle_lab.replay.library import governor
from cpuidle_lab.states.domains import HARDWARE, KERNEL, Domain
from tests.unit.synthetic import no_answers
from tests.unit.test_domains import RULES, TABLE, rule, state, tree
from tests.unit.test_replay import SKX, mixed

# ---- The joint oracle ----


def drawn(rng: np.random.Generator, count: int, denied: bool) -> Intervals:
    start = np.cumsum(rng.integers(1, 12, 2 * count))
    begin, end = start[::2], start[1::2]
    disabled = rng.choice([0, 0, 2, 4] if denied else [0], count)
    none = np.full(count, 10**9)
    return intervals_of(TABLE, begin, end - begin, none, disabled)


def brute(domains: Sequence[Domain], given: dict[int, Intervals]) -> float:
    """Return the least cost of all choices, each judged by the accounts of the domains."""
    judges = domains if domains[0].is_bound_to_vote else oracle._agreeing(domains)
    counts = [len(each.start_ns) for each in given.values()]
    first = min(int(each.start_ns[0]) for each in given.values())
    last = max(int(each.end_ns[-1]) for each in given.values())
    best = np.inf
    states = next(iter(given.values())).cost_pj.shape[1]
    for choice in product(range(states), repeat=sum(counts)):
        stays, cost, at = {}, 0.0, 0
        for (cpu, each), count in zip(given.items(), counts, strict=True):
            index = np.asarray(choice[at : at + count])
            cost += float(each.cost_pj[np.arange(count), index].sum())
            stays[cpu] = Stays(each.start_ns, each.end_ns, index, each.end_ns)
            at += count
        if cost < best:
            best = min(best, cost + idle_pj(accounts_of(judges, stays, first, last)))
    return best


@pytest.mark.parametrize(("decides", "demotes"), RULES)
def test_the_joint_oracle_is_that_of_brute_force(decides: str, demotes: bool) -> None:
    kind = {"decides": decides, "demotes": demotes}
    two = tree(
        rule("core", "every 1", state("K", 4, 30, "B"), **kind),  # type: ignore[arg-type]
        rule("package", "all", state("P1", 5, 15, "K"), **kind),  # type: ignore[arg-type]
        cpus=2,
    )
    three = tree(rule("package", "all", state("P1", 3, 20, "B"), state("P2", 6, 1, "C"),
                      **kind), cpus=3)  # type: ignore[arg-type]  # fmt: skip
    lost = 0
    for seed, (domains, cpus, count) in enumerate([(two, 2, 3), (three, 3, 2)] * 2):
        rng = np.random.default_rng(seed)
        given = {cpu: drawn(rng, count, denied=seed > 1) for cpu in range(cpus)}
        found = joint(domains, given)
        assert found.is_exact and found.cost_pj == pytest.approx(brute(domains, given))
        lost += found.own_pj > found.cost_pj * 1.001
    assert bool(lost) == (decides == HARDWARE and not demotes)


def test_beyond_so_many_cpus_there_is_a_lower_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    domains = tree(rule("package", "all", state("P", 6, 1, "C")), cpus=3)
    given = {cpu: drawn(np.random.default_rng(cpu), 30, False) for cpu in range(3)}
    exact = joint(domains, given)
    monkeypatch.setattr(oracle, "COMBINATIONS_MAX", 1)
    bound = joint(domains, given)
    assert exact.is_exact and not bound.is_exact
    assert bound.cost_pj < exact.cost_pj < bound.own_pj == exact.own_pj


def test_a_kernel_that_knows_the_intervals_needs_no_agreement() -> None:
    domains = tree(rule("package", "all", state("P", 6, 1, "C"), decides=KERNEL), cpus=3)
    given = {cpu: drawn(np.random.default_rng(cpu), 30, False) for cpu in range(3)}
    found = joint(domains, given)
    assert found.is_exact and found.own_pj == found.cost_pj


# ---- Replay ----

NAMED = replace(SKX, names=("POLL", "C1", "C1E", "C6"))


def recording(tmp_path: Path, kind: str = columns.SYNTH) -> Path:
    """Write intervals of two CPUs."""
    target = tmp_path / "recording"
    meta = {"kind": kind, "source": "test", "kernel": "",
            "machines": {cpu: columns.describe(NAMED) for cpu in "01"}}  # fmt: skip
    with Writer(target, meta) as writer:
        for cpu in range(2):
            frame = mixed(400, seed=cpu + 1)
            writer.add("interval", pl.DataFrame(frame | {"cpu": np.full(400, cpu, np.uint16)}))
    return target


def test_a_trail_tiles_the_intervals() -> None:
    frame = mixed(500)
    chunk = {name: np.asarray(values) for name, values in frame.items()} | no_answers(500)
    with Run(governor("teo_ng"), SKX) as run:
        run.follow()
        found = run.play({name: chunk[name] for name in INTERVAL_TYPES}, choices=True)
        trail, totals = run.trail(), run.totals()
        assert len(run.trail()["index"]) == 0
    length = (trail["end_ns"] - trail["start_ns"]).astype(np.int64)
    for k in range(SKX.count):
        assert length[trail["index"] == k].sum() == totals.state_ns[k]
        assert (trail["index"] == k).sum() == totals.entries[k]
    place = np.searchsorted(chunk["start_ns"], trail["start_ns"], side="right") - 1
    assert (np.bincount(place, length) == chunk["length_ns"]).all()
    assert (trail["index"][np.unique(place, return_index=True)[1]] == found["index"]).all()


def test_a_trail_tells_the_first_timer_and_a_kept_tick() -> None:
    frame = mixed(500)
    chunk = {name: np.asarray(values) for name, values in frame.items()} | no_answers(500)
    with Run(governor("teo_ng"), SKX) as run:
        run.follow()
        found = run.play({name: chunk[name] for name in INTERVAL_TYPES}, choices=True)
        trail = run.trail()
    place = np.searchsorted(chunk["start_ns"], trail["start_ns"], side="right") - 1
    first = np.unique(place, return_index=True)[1]
    left = (trail["next_ns"] - trail["start_ns"]).astype(np.int64)[first]
    stopped = found["stop_tick"] != 0
    assert 0 < stopped.sum() < len(stopped)
    assert (left[stopped] == chunk["timer_ns"][stopped]).all()
    fresh = ~stopped & (chunk["flags"] & columns.CONTINUED == 0)
    assert fresh.any() and (left[fresh] <= np.minimum(chunk["timer_ns"], SKX.tick_ns)[fresh]).all()


def test_the_costs_of_states_are_those_of_replays_oracle() -> None:
    frame = mixed(500)
    chunk = {name: np.asarray(values) for name, values in frame.items()} | no_answers(500)
    with Run(governor("oracle"), SKX) as run:
        found = run.play({name: chunk[name] for name in INTERVAL_TYPES}, choices=True)
    names = ("start_ns", "length_ns", "latency_req_ns", "disabled")
    mine = intervals_of(SKX, *(chunk[name].astype(np.int64) for name in names))
    assert mine.cost_pj.min(axis=1) == pytest.approx(found["oracle_pj"])


def test_governors_lie_above_the_joint_oracle_and_regrets_are_split(tmp_path: Path) -> None:
    found = replay(recording(tmp_path), "xeon", listed("teo_ng,menu_ng,wteo"))
    assert found.broken == [] and found.joint.is_exact
    for row in found.rows:
        told = found.regret(row)
        assert told is not None and told[0] == pytest.approx(told[1] + told[2])
        assert told[0] == pytest.approx(100 * (row.cost_pj / found.joint.cost_pj - 1))
    own = found.regret(found.rows[-1])
    assert found.rows[-1].label == OWN and own is not None and own[1] == pytest.approx(0)


def test_added_latencies_are_those_of_domains_that_slept(tmp_path: Path) -> None:
    (row, _) = replay(recording(tmp_path), "xeon", listed("wteo")).rows
    slept = int((row.accounts["package"].level > 0).sum())
    assert (row.latency_ns > 0).sum() == slept > 0
    assert row.latency_us(1) == 100 and row.latency_us(0.01) == 0


def test_the_command_shows_governors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["domains", str(recording(tmp_path)), "--domains", "xeon", "--governors", "wteo"]
    assert main(words) == 0
    assert "joint oracle" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["label"] for each in told["governors"]] == ["wteo", OWN]
    assert told["joint_oracle"]["is_exact"] and not told["broken"]
