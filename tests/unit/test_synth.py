# SPDX-License-Identifier: GPL-2.0
"""Synthetic streams: the same bytes for the same seed, and the law that was asked for."""

import hashlib
import json
import math
import re
import time
from pathlib import Path

import numpy as np
import pytest

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.cli import main
from cpuidle_lab.lab.session import MACHINES
from cpuidle_lab.recording import columns, draw, laws, state_tables, synth
from cpuidle_lab.recording.columns import Recording
from cpuidle_lab.recording.draw import Draw
from cpuidle_lab.recording.laws import MS, US
from cpuidle_lab.replay.engine import counterfactual
from cpuidle_lab.replay.library import governor
from cpuidle_lab.states import machines

NAMES = list(laws.STREAMS)
TOP = Path(__file__).parents[2]


def recorded(folder: Path, name: str, *, count: int = 5000, seed: int = 1) -> Recording:
    target = folder / f"{name}-{seed}"
    synth.write(name, target, machine_name="skx", hz=250, count=count, seed=seed)
    return Recording(target)


def digest(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return found.hexdigest()


# ---- Machines come from the emulator's source. ----


def test_all_machines_of_the_emulator_are_known() -> None:
    assert machines.emulated_names() == MACHINES


@pytest.mark.parametrize("name", MACHINES)
def test_machines_are_read_whole(name: str) -> None:
    source = (TOP / "emul" / "machines.c").read_text()
    count = re.search(rf'\.name = "{name}".*?\.count = (\d+)', source, re.DOTALL)
    assert count
    machine = state_tables.find(name, 250)
    assert machine.count == int(count[1]) + 1
    assert machine.polling == (True,) + (False,) * int(count[1])
    assert machine.tick_ns == 4 * MS
    assert list(machine.target_residency_ns) == sorted(machine.target_residency_ns)
    assert list(machine.power_uw) == sorted(machine.power_uw, reverse=True)


def test_a_state_is_what_it_is() -> None:
    machine = state_tables.find("skx", 1000)
    assert machine.names == ("POLL", "C1", "C1E", "C6")
    assert (machine.exit_latency_ns[3], machine.target_residency_ns[3]) == (133 * US, 600 * US)
    assert (machine.power_uw[0], machine.power_uw[3]) == (4_000_000, 100_000)


# ---- Randomness. ----


def test_logarithm_and_exponential_are_right() -> None:
    x = np.concatenate([Draw(1, "x").unit(1000), [1e-300, 0.5, 0.7071067811865476, 1, 2, 1e300]])
    assert draw.logarithm(x) == pytest.approx([math.log(v) for v in x], rel=1e-13, abs=1e-15)
    y = np.linspace(-50, 50, 1001)
    assert draw.exponential(y) == pytest.approx([math.exp(v) for v in y], rel=1e-13)


def test_laws_have_the_moments_that_they_should() -> None:
    n = 200_000
    draw = Draw(2, "moments")
    near = 4 / math.sqrt(n)
    assert draw.unit(n).mean() == pytest.approx(0.5, abs=near * math.sqrt(1 / 12))
    poisson = draw.poisson(1.0, n)
    assert poisson.mean() == pytest.approx(1, abs=near)
    assert (poisson > 2).mean() == pytest.approx(math.exp(-2), abs=near * 0.35)
    pareto = draw.pareto(10.0, 0.8, n)
    assert pareto.min() >= 10 * (1 - 1e-12)
    assert (pareto > 40).mean() == pytest.approx(4**-0.8, abs=near * 0.5)
    octaves = np.log2(draw.log_uniform(1.0, 16.0, n))
    assert octaves.mean() == pytest.approx(2, abs=near * 4 / math.sqrt(12))
    assert octaves.min() >= 0 and octaves.max() <= 4


# ---- Streams. ----


def test_there_are_enough_of_them() -> None:
    assert len(NAMES) >= 20


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        recorded(folder, name, count=2000)
    assert digest(one) == digest(two)
    recorded(two, name, count=2000, seed=2)
    assert (two / f"{name}-1/interval/00000.parquet").read_bytes() != (
        two / f"{name}-2/interval/00000.parquet"
    ).read_bytes()


def test_streams_never_change() -> None:
    """Claims rest on them: a new version of NumPy or of this program must not change them."""
    found = hashlib.sha256()
    for name in NAMES:
        made = synth.make(name, 1000, 1)
        for column in (made.length_ns, made.timer_ns, made.gap_ns, made.condition):
            found.update(column.astype("<i8").tobytes())
    assert found.hexdigest() == ("10f6042b4da6e147494dd723299f9d6d5d12eccdf76910273302dc9c23ef8417")


@pytest.mark.parametrize("name", NAMES)
def test_a_variation_is_of_the_same_kind_with_other_times(name: str) -> None:
    stream = laws.STREAMS[name]
    one, two = laws.varied(stream, 1), laws.varied(stream, 2)
    assert one == laws.varied(stream, 1)
    assert one.parameters != two.parameters and one.law is stream.law
    for key, value in stream.parameters.items():
        before, after = np.atleast_1d(value), np.atleast_1d(one.parameters[key])
        if key.endswith("_ns"):
            assert (before / 2.01 <= after).all() and (after <= before * 2.01).all()
            assert ((before != after) | (before == 0)).all()
        else:
            assert (before == after).all()
    made = synth.made_from(one, 1000, 1)
    assert (made.length_ns != synth.make(name, 1000, 1).length_ns).mean() > 0.9


@pytest.mark.parametrize("name", NAMES)
def test_rows_agree_with_each_other(name: str, tmp_path: Path) -> None:
    recording = recorded(tmp_path, name)
    assert (recording.kind, recording.cpus) == (columns.SYNTH, [0])
    (rows,) = recording.intervals(0)
    length, timer = rows["length_ns"], rows["timer_ns"]
    assert len(length) == 5000
    assert (length >= 1).all() and (length <= timer).all()
    start = rows["start_ns"].astype(np.int64)
    assert (np.diff(start) == (length + rows["busy_ns"])[:-1]).all()
    # Whatever was chosen, the CPU is awake and has worked before the next begins.
    deepest = recording.state_tables[0].exit_latency_ns[-1]
    assert (rows["busy_ns"] >= deepest + laws.BUSY_NS).all()
    assert (rows["flags"] & columns.GAP).all()
    assert ((rows["flags"] & columns.TIMER != 0) == (length == timer)).all()


def means(name: str, count: int = 60_000) -> dict[int, float]:
    """Return the mean length of each condition, in us."""
    made = synth.make(name, count, 1)
    return {
        int(condition): float(made.length_ns[made.condition == condition].mean() / US)
        for condition in np.unique(made.condition)
    }


def test_streams_are_what_they_are_called() -> None:
    assert means("poisson-1ms")[0] == pytest.approx(1000, rel=0.02)
    assert means("uniform-3ms")[0] == pytest.approx(1500, rel=0.01)
    assert means("bimodal-even")[0] == pytest.approx(2510, rel=0.02)
    assert means("bursts") == pytest.approx({0: 50, 1: 30_000}, rel=0.08)
    assert means("regimes-500") == pytest.approx({0: 8000, 1: 50}, rel=0.03)
    assert means("alternating") == pytest.approx({0: 30, 1: 3000}, rel=0.01)
    assert list(means("pattern-of-7").values()) == pytest.approx(
        [40, 3000, 40, 40, 3000, 300, 12_000], rel=0.01
    )


def test_regimes_last_for_minutes() -> None:
    made = synth.make("regimes-minutes", 500_000, 1)
    time_ns = np.cumsum(made.length_ns + made.gap_ns)
    changes = time_ns[1:][np.diff(made.condition) != 0]
    assert len(changes) >= 5
    assert np.diff(changes) / (60 * laws.S) == pytest.approx(2, rel=0.01)


def test_self_similar_traffic_stays_bursty_on_long_scales() -> None:
    """Counts of arrivals vary more from second to second than Poisson's would."""

    def dispersion(name: str) -> float:
        made = synth.make(name, 200_000, 1)
        arrivals = np.cumsum(made.length_ns + made.gap_ns)
        counts = np.bincount(arrivals // laws.S)[:-1]
        return float(counts.var() / counts.mean())

    assert dispersion("poisson-1ms") < 1.5
    assert dispersion("self-similar") > 20


# ---- The floor of a one-shot choice. ----


def test_the_floor_is_zero_where_all_is_known() -> None:
    machine = state_tables.find("skx", 250)
    for name in ("periodic-300us", "periodic-3ms", "timer-1ms", "alternating", "pattern-of-7"):
        assert synth.floor_regret(synth.make(name, 20_000, 1), machine) == pytest.approx(0, abs=0.1)


def test_the_floor_agrees_with_a_closed_form() -> None:
    """Of a memoryless length: min_k (E_k + P_k m) over the sum of the pieces of the envelope."""
    machine = state_tables.find("skx", 250)
    made = synth.make("poisson-1ms", 400_000, 1)
    power = (4000, 1400, 900, 100)
    pays = (0, 2 * US, 20 * US, 600 * US, math.inf)
    entry = [0.0]
    for k in range(1, 4):
        entry.append(entry[-1] + (power[k - 1] - power[k]) * pays[k])
    m = float(MS)
    oracle = 0.0
    for k in range(4):
        a, b = pays[k], pays[k + 1]
        ea, eb = math.exp(-a / m), math.exp(-b / m)
        moment = (a + m) * ea - (0 if b == math.inf else (b + m) * eb)
        oracle += entry[k] * (ea - eb) + power[k] * moment
    floor = 100 * (min(e + p * m for e, p in zip(entry, power, strict=True)) / oracle - 1)
    assert synth.floor_regret(made, machine) == pytest.approx(floor, abs=0.5)


def test_a_hidden_condition_lowers_the_floor() -> None:
    machine = state_tables.find("skx", 250)
    made = synth.make("regimes-60", 20_000, 1)
    blind = synth.Made(
        made.length_ns, made.timer_ns, made.gap_ns, np.zeros_like(made.condition), True
    )
    told, not_told = synth.floor_regret(made, machine), synth.floor_regret(blind, machine)
    assert told is not None and not_told is not None and told < not_told / 2


def test_a_recording_tells_its_floor(tmp_path: Path) -> None:
    recording = recorded(tmp_path, "drift")
    assert recording.law is not None
    assert synth.one_shot_floor(recording) == recording.law["floor_regret"] > 1
    assert synth.one_shot_floor(recorded(tmp_path, "self-similar")) is None


def test_a_million_intervals_take_less_than_two_seconds(tmp_path: Path) -> None:
    start = time.process_time()
    recorded(tmp_path, "timer-and-device", count=1_000_000)
    assert time.process_time() - start < 2


# ---- The command. ----


def test_the_list_names_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["synth", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == NAMES
    assert main(["synth", "--list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["streams"]) == len(NAMES)


def test_it_writes_what_was_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["synth", "bursts", "drift", "--machine", "power9", "--hz", "1000", "--count", "500"]
    assert main([*command, "-o", str(tmp_path / "new"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["streams"]
    assert [law["name"] for law in told] == ["bursts", "drift"]
    recording = Recording(tmp_path / "new" / "drift")
    assert recording.rows("interval", 0) == 500
    assert recording.state_tables[0].names[0] == "snooze"
    assert recording.state_tables[0].tick_ns == MS
    # Once more, over its own.
    assert main([*command, "-o", str(tmp_path / "new")]) == 0


def test_with_the_tick_stopped_no_governor_is_asked_by_it(tmp_path: Path) -> None:
    """The law says so; intervals and floor are the same."""
    ticks = []
    for options in ([], ["--tick-stopped"]):
        folder = tmp_path / str(len(options))
        command = ["synth", "poisson-1ms", "--count", "2000", "-o", str(folder), *options]
        assert main(command) == 0
        recording = Recording(folder / "poisson-1ms")
        law = recording.law or {}
        ticks.append(counterfactual(recording, governor("teo_ng")).ticks)
        assert law.get("tick_stopped", False) == bool(options)
        assert law["floor_regret"] == pytest.approx(synth.one_shot_floor(recording))
    assert ticks[0] > 10
    assert ticks[1] == 0


def test_all_of_them_can_be_written(tmp_path: Path) -> None:
    assert main(["synth", "--all", "--count", "50", "-o", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(NAMES)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name streams, or give --all"),
        (["--all", "bursts"], "name streams, or give --all"),
        (["bursts", "nothing"], "unknown stream 'nothing'"),
        (
            ["bursts", "--machine", "vax"],
            "unknown machine 'vax'; `cpuidle-lab machines` lists them",
        ),
        (["bursts", "--count", "0"], "0 intervals are out of range"),
        (["bursts", "--count", "1000000000"], "out of range: 1 to 20000000"),
        (["bursts", "--seed", "-1"], "the seed -1 is out of range"),
        (["bursts", "--hz", "0"], "a tick of 0 Hz is out of range"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out"
    assert main(["synth", *arguments, "-o", str(target)]) == USAGE
    assert says in capsys.readouterr().err
    assert not target.exists()


def test_without_a_place_nothing_is_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["synth", "bursts"]) == USAGE
    assert "say with -o" in capsys.readouterr().err


def test_what_is_not_ours_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "bursts"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    assert main(["synth", "bursts", "-o", str(tmp_path)]) == 2
    assert "holds thesis.txt, which is no part of a recording" in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*")] == ["bursts", "thesis.txt"]


def test_a_trace_has_no_law(tmp_path: Path) -> None:
    recording = recorded(tmp_path, "bursts")
    recording.law = None
    with pytest.raises(UserError, match="no synthetic stream"):
        synth.one_shot_floor(recording)
