# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab ab`: on a recorded machine whose counters a script moves."""

import errno
import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cpuidle_lab.ab import circumstances, estimates, record, sentences, session
from cpuidle_lab.ab.record import StateTime
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.settings import Setting
from cpuidle_lab.base.waiting import Waiter
from cpuidle_lab.cli import main
from cpuidle_lab.host.energy import POWERCAP
from cpuidle_lab.host.machine import CPUIDLE, LAB, Host
from cpuidle_lab.host.sysfs import Tree
from tests.unit import command, recorded
from tests.unit.command import error, start, wait_for

GOVERNOR = f"{CPUIDLE}/current_governor"
STATE = "/sys/devices/system/cpu/cpu0/cpuidle/state1"
RANGE_UJ = 1_000_000
TWO = ["ab", "--settle", "0", "--governors", "teo_ng,wteo"]

# Stands for a workload: notes under which governor it runs, and spends energy and idle time; less
# of it under wteo. The energy counter wraps, as the hardware's do.
WORKLOAD = f"""
cd "$CPUIDLE_LAB_ROOT"
governor=$(cat .{GOVERNOR})
echo "$governor $(cat .{LAB}/wteo/learning_rate)" >>notes
runs=$(wc -l <notes)
spend() {{ echo $((($(cat $1) + $2) % {RANGE_UJ})) >$1; }}
joules=400000
[ "$governor" = wteo ] && joules=360000
spend .{POWERCAP}/intel-rapl:0/energy_uj $((joules + runs * 7919 % 4000))
spend .{STATE}/usage 100
spend .{STATE}/time 5000
spend .{STATE}/above $((runs % 3 + 10))
echo "Time: 0.0"
echo "Time: $runs.5"
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unfold a machine with a RAPL counter; work in a directory beside it."""
    root = recorded.enter("debian13", tmp_path, monkeypatch)
    add(
        root,
        f"{POWERCAP}/intel-rapl:0",
        name="package-0",
        energy_uj=5,
        max_energy_range_uj=RANGE_UJ,
    )
    add(root, STATE, usage=7, time=70, above=0, below=0)
    for number in (0, 2, 3):
        add(root, STATE[:-1] + str(number), usage=7, time=70, above=0, below=0)
    add(root, "/sys/devices/system/cpu", online="0")
    return root


def add(root: Path, directory: str, **values: object) -> None:
    """Add files to the machine."""
    path = root / directory[1:]
    path.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        (path / name).write_text(f"{value}\n")


def contents(root: Path) -> dict[str, str]:
    """Return everything that must be left as it was: what no counter counts."""
    return command.contents(root, {"notes", "reset", "energy_uj", "usage", "time", "above"})


def lines(name: str = "ab.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


def result(root: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Run ten rounds and return the JSON."""
    assert main([*TWO, *arguments, "--json", "--", "sh", "-c", WORKLOAD]) == 0
    return json.loads(capsys.readouterr().out)


# The session.


def test_every_governor_has_a_turn_in_every_round_after_one_to_warm_up(root: Path) -> None:
    before = contents(root)
    assert main([*TWO, "--rounds", "4", "--", "sh", "-c", WORKLOAD]) == 0
    assert contents(root) == before
    notes = [line.split()[0] for line in (root / "notes").read_text().splitlines()]
    head, *runs, end = lines()
    assert notes[1:] == [run["governor"] for run in runs]
    assert notes[1:] == [governor for round_ in head["order"] for governor in round_]
    assert [(run["round"], run["position"]) for run in runs] == [
        (round_, position) for round_ in (1, 2, 3, 4) for position in (1, 2)
    ]
    assert end["complete"] is True
    assert sorted(path.name for path in Path().iterdir()) == ["ab.jsonl"]


def test_the_counters_of_a_run_are_its_own_and_wraps_are_undone(root: Path) -> None:
    main([*TWO, "--rounds", "3", "--", "sh", "-c", WORKLOAD])
    runs = lines()[1:-1]
    for number, run in enumerate(runs, 2):
        joules = (360 if run["governor"] == "wteo" else 400) + number * 7919 % 4000 / 1e3
        assert run["zones"][0]["energy_mj"] == pytest.approx(joules)
        assert run["idle"][1] == {
            "name": "C1", "usage": 100, "time_us": 5000, "above": number % 3 + 10, "below": 0
        }  # fmt: skip
    counted = sum(run["zones"][0]["energy_mj"] for run in runs)
    assert counted * 1e3 > RANGE_UJ, "no counter wrapped"


def test_governors_learn_afresh_in_every_run_and_ones_of_the_kernel_are_left_alone(
    root: Path,
) -> None:
    log = Writes(root)
    measure(log, governors=("wteo", "ladder"))
    turns = [text for text in log.writes if text != "current_governor=menu"]
    assert turns.count("reset=1") == turns.count("current_governor=wteo")
    at = [index for index, text in enumerate(turns) if text == "current_governor=wteo"]
    assert all(turns[index + 1] == "reset=1" for index in at)


class Writes(Tree):
    """A machine that notes what is written, and can refuse."""

    def __init__(self, root: Path, refuse: str = "") -> None:
        super().__init__(root)
        self.writes: list[str] = []
        self._refuse = refuse

    def _write(self, name: str, text: str) -> None:
        self.writes.append(f"{name.rsplit('/', 1)[-1]}={text}")
        if text == self._refuse:
            raise OSError(errno.EINVAL, "Invalid argument")
        super()._write(name, text)


def measure(tree: Tree, **changes: Any) -> record.Log:
    fields: dict[str, Any] = {
        "governors": ("teo_ng", "wteo"),
        "rounds": 3,
        "settings": (),
        "seed": 1,
        "settle_s": 0.0,
        "seconds": None,
        "command": ("sh", "-c", WORKLOAD),
        "metric": None,
        "better": "higher",
    }
    log = record.Log(Path("ab.jsonl"))
    session.measure(Host(tree), session.Plan(**(fields | changes)), ["ab"], log, lambda _: None)
    return log


def test_tunables_hold_meanwhile(root: Path) -> None:
    before = contents(root)
    tunables = ["--set", "wteo.learning_rate=80", "--set", "wteo.latency_bias=500"]
    assert main([*TWO, *tunables, "--rounds", "3", "--", "sh", "-c", WORKLOAD]) == 0
    notes = (root / "notes").read_text().splitlines()
    assert {line.split()[1] for line in notes} == {"80"}
    assert contents(root) == before


def test_without_a_command_it_waits(root: Path) -> None:
    begin = time.monotonic()
    assert main([*TWO, "--rounds", "3", "--duration", "0.1"]) == 0
    assert time.monotonic() - begin >= 0.6
    assert all(run["wall_s"] >= 0.1 for run in lines()[1:-1])


def test_it_settles_before_each_run(root: Path) -> None:
    begin = time.monotonic()
    assert main([*TWO, "--settle", "0.1", "--rounds", "3", "--", "true"]) == 0
    assert time.monotonic() - begin >= 0.7, "the warm-up and six runs"


def test_sleeps_are_counted_before_and_after_a_run_by_waking_all_cpus(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visited: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 5})

    def move(pid: int, cpus: set[int]) -> None:
        visited.append(cpus)
        if cpus == {5}:
            raise OSError(errno.EINVAL, "it went offline")

    monkeypatch.setattr(os, "sched_setaffinity", move)
    assert main([*TWO, "--rounds", "3", "--", "true"]) == 0
    assert visited == [{0}, {1}, {5}, {0, 1, 5}] * 12


def test_long_runs_are_read_in_between(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = root / f"{POWERCAP}/intel-rapl:0/energy_uj"[1:]
    monkeypatch.setattr(session, "_READ_ENERGY_EVERY_S", 0.1)
    # 2.7 times round: the two readings at the ends would see 0.7 of it.
    steps = " ".join(str(900_000 * step % RANGE_UJ) for step in (1, 2, 3))
    command = f"echo 0 >{counter}; for uj in {steps}; do sleep 0.5; echo $uj >{counter}; done"
    counter.write_text("0\n")
    plan = session.Plan(("teo_ng",), 1, (), 1, 0, None, ("sh", "-c", command), None, "higher")
    (root / GOVERNOR[1:]).write_text("teo_ng\n")
    with Waiter() as waiter:
        run = session.Runner(Host(), plan, waiter).measure("teo_ng", 1, 1)
    assert run.zones[0].energy_mj == pytest.approx(2700)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_order_is_balanced_and_drawn(count: int) -> None:
    names = tuple("abcde"[:count])
    order = session.draw_order(names, 4 * count, seed=3)
    assert all(sorted(round_) == sorted(names) for round_ in order)
    for position in range(count):
        assert set(Counter(round_[position] for round_ in order).values()) == {4}
    assert order == session.draw_order(names, 4 * count, seed=3)
    assert len({str(session.draw_order(names, 4 * count, seed)) for seed in range(20)}) >= 8


def test_an_odd_number_of_rounds_is_balanced_within_one() -> None:
    for seed in range(50):
        first = Counter(round_[0] for round_ in session.draw_order(("a", "b"), 11, seed))
        assert sorted(first.values()) == [5, 6]


# The output.


def test_a_difference_is_found_and_said(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = result(root, capsys)
    found = {item["figure"]: item for item in answer["comparisons"]}
    energy = found["measured_j"]
    assert (energy["governor"], energy["reference"]) == ("wteo", "teo_ng")
    assert (energy["verdict"], energy["better"]) == ("less", True)
    assert energy["change"]["mean"] == pytest.approx(-10, abs=0.5)
    assert energy["text"].startswith("wteo used ")
    assert "% less package energy than teo_ng (95 % interval " in energy["text"]
    assert energy["text"].endswith(" %, 10 rounds)")
    assert found["time_C6"]["verdict"] == "none"
    assert answer["intervals"] == {"method": "bootstrap-t", "level": 0.95, "resamples": 10000}
    assert answer["rounds"] == 10
    assert len(answer["runs"]) == 20
    assert answer["kernel"] == "6.12.107+deb13-amd64"
    assert answer["start"] < answer["end"]
    assert answer["arguments"] == sys.argv


def test_the_metric_is_the_last_match(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = result(root, capsys, "--metric", r"^Time: ([\d.]+)", "--better", "lower")
    assert [run["metric"] for run in answer["runs"]] == [2.5 + number for number in range(20)]
    assert answer["figures"]["metric"]["better"] == "lower"


def test_the_seed_decides_on_everything(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([*TWO, "--rounds", "6", "--", "sh", "-c", WORKLOAD])
    first = capsys.readouterr().out
    assert main(["ab", "--read", "ab.jsonl"]) == 0
    assert capsys.readouterr().out == first
    assert "10000 resamples of the rounds, seed 1" in first


def test_the_terminal_has_the_table_and_the_circumstances(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*TWO, "--", "sh", "-c", WORKLOAD])
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("wteo used ")
    assert "package energy, J" in out
    assert "kernel 6.12.107+deb13-amd64" in out
    assert "some runs are shorter than 1 s" in out


def test_with_few_rounds_nothing_is_claimed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = result(root, capsys, "--rounds", "4")
    assert {item["verdict"] for item in answer["comparisons"]} == {"unknown"}
    text = next(item["text"] for item in answer["comparisons"] if item["figure"] == "measured_j")
    assert text.startswith("no difference in package energy between wteo and teo_ng can be shown")
    assert ": 4 rounds are too few (mean " in text
    assert any("with fewer than 5 rounds" in note for note in answer["notes"])


def test_emulated_energy_is_called_so(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zone = root / POWERCAP[1:]
    (zone / "intel-rapl:0").rename(zone / "cpuidle-emul:0")
    (zone / "cpuidle-emul:0" / "max_energy_range_uj").write_text(f"{2**63}\n")
    script = WORKLOAD.replace("intel-rapl", "cpuidle-emul").replace("% 1000000", "")
    assert main([*TWO, "--json", "--", "sh", "-c", script]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert "measured_j" not in answer["figures"]
    assert answer["figures"]["emulated_j"]["governors"]["wteo"]["mean"] == pytest.approx(0.36, 0.02)
    assert any("says nothing about real hardware" in note for note in answer["notes"])


def test_zones_within_others_are_figures_of_their_own(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(root, f"{POWERCAP}/intel-rapl:0:0", name="core", energy_uj=5, max_energy_range_uj=RANGE_UJ)
    answer = result(root, capsys, "--rounds", "3")
    assert answer["figures"]["zone_intel-rapl:0:0_j"]["label"] == "core energy (intel-rapl:0:0)"


# Circumstances.


def test_circumstances_are_stated(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cpu = "/sys/devices/system/cpu"
    policy = {"scaling_min_freq": 800000, "scaling_max_freq": 3700000}
    for number in (0, 1):
        add(root, f"{cpu}/cpufreq/policy{number}", scaling_driver="intel_pstate",
            scaling_governor="powersave", **policy)  # fmt: skip
    add(root, f"{cpu}/intel_pstate", no_turbo=0)
    add(root, f"{cpu}/smt", control="on")
    add(root, f"{cpu}/cpu0/microcode", version="0x2007006")
    add(root, "/sys/class/thermal/thermal_zone3", type="x86_pkg_temp", temp=45000)
    before = contents(root)
    answer = result(root, capsys, "--rounds", "3")
    assert contents(root) == before
    machine = answer["machine"]
    assert machine["frequency"] == [
        {"cpus": 2, "driver": "intel_pstate", "governor": "powersave", "min_khz": 800000,
         "max_khz": 3700000}
    ]  # fmt: skip
    assert (machine["turbo"], machine["smt"]) == (True, "on")
    assert machine["microcode"] == "0x2007006"
    assert machine["idle_states"][3] == "C6 133/600 us"
    assert answer["runs"][0]["temperature_c"] == [45.0, 45.0]
    assert any(note.startswith("the frequency follows the load") for note in answer["notes"])
    assert any(note.startswith("turbo is on") for note in answer["notes"])


@pytest.mark.parametrize(
    ("driver", "governor", "limits", "steady"),
    [
        ("intel_pstate", "performance", (800, 3700), True),
        ("intel_pstate", "powersave", (800, 3700), False),
        ("acpi-cpufreq", "powersave", (800, 3700), True),
        ("acpi-cpufreq", "schedutil", (800, 3700), False),
        ("acpi-cpufreq", "schedutil", (2000, 2000), True),
        ("intel_cpufreq", "ondemand", (None, None), False),
    ],
)
def test_a_frequency_that_follows_the_load_is_known(
    driver: str, governor: str, limits: tuple[int | None, int | None], steady: bool
) -> None:
    assert circumstances.Frequency(1, driver, governor, *limits).is_steady == steady


def test_boost_is_turbo_and_off_is_off(root: Path) -> None:
    assert circumstances.look(Host()).turbo is None
    add(root, "/sys/devices/system/cpu/cpufreq", boost=1)
    assert circumstances.look(Host()).turbo is True
    add(root, "/sys/devices/system/cpu/intel_pstate", no_turbo=1)
    assert circumstances.look(Host()).turbo is False


def test_a_machine_that_somebody_changes_meanwhile_is_noted(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(root, "/sys/devices/system/cpu/cpufreq", boost=1)
    command = f"echo 0 >{root}/sys/devices/system/cpu/cpufreq/boost"
    main([*TWO, "--rounds", "3", "--", "sh", "-c", command])
    assert "the machine was changed meanwhile: turbo" in capsys.readouterr().out


def test_a_governor_that_somebody_switches_ends_it(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(root)
    assert main([*TWO, "--", "sh", "-c", f"echo gate >{root}{GOVERNOR}"]) == 1
    assert "the governor was switched to gate" in error(capsys)
    assert contents(root) == before


# Interruptions and failures.


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_machine_as_it_was_and_keeps_what_is_complete(
    number: signal.Signals, root: Path
) -> None:
    before = contents(root)
    script = f"{WORKLOAD}\n[ $runs -lt 4 ] || {{ echo $$ >pid; exec sleep 60; }}"
    process = start(*TWO, "--set", "wteo.latency_bias=500", "--", "sh", "-c", script)
    pid = root / "pid"
    wait_for(lambda: pid.exists() and pid.read_text() != "")
    assert (root / f"{LAB}/wteo/latency_bias"[1:]).read_text() == "500\n"
    process.send_signal(number)
    process.send_signal(number)  # impatience must not break the restoration
    out, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert out == ""
    assert err == (
        f"cpuidle-lab: interrupted by {number.name}: the system is as before; "
        "complete runs: cpuidle-lab ab --read ab.jsonl\n"
    )
    sleeper = int(pid.read_text())
    pid.unlink()
    assert contents(root) == before
    with pytest.raises(ProcessLookupError):
        os.kill(sleeper, 0)
    assert [line["kind"] for line in lines()] == ["head", "run", "run", "end"]
    assert lines()[-1]["complete"] is False


def test_a_signal_while_settling_restores_too(root: Path) -> None:
    before = contents(root)
    process = start("ab", "--governors", "teo_ng,wteo", "--settle", "60", "--", "true")
    wait_for(lambda: (root / GOVERNOR[1:]).read_text().strip() in ("teo_ng", "wteo"))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.endswith("the system is as before; no run was complete\n")
    assert contents(root) == before
    assert not Path("ab.jsonl").exists()


def test_killed_outright_the_file_has_what_is_complete(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = f"{WORKLOAD}\n[ $runs -lt 11 ] || {{ echo $$ >pid; exec sleep 60; }}"
    process = start(*TWO, "--", "sh", "-c", script)
    pid = root / "pid"
    wait_for(lambda: pid.exists() and pid.read_text() != "")
    process.kill()
    process.communicate(timeout=30)
    os.kill(int(pid.read_text()), signal.SIGKILL)
    with Path("ab.jsonl").open("a") as stream:
        stream.write('{"kind": "run", "rou')
    assert main(["ab", "--read", "ab.jsonl", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (len(answer["runs"]), answer["rounds"], answer["complete"]) == (9, 4, False)
    assert "4 of 10 rounds are complete; the others do not count" in answer["notes"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo first; echo no luck >&2; exit 3", "the command ended with 3: no luck"),
        ("kill -9 $$", "the command was ended by signal 9: it said nothing"),
    ],
)
def test_a_command_that_fails_ends_it(
    script: str, words: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(root)
    assert main([*TWO, "--", "sh", "-c", script]) == 1
    assert words in error(capsys)
    assert contents(root) == before
    assert not Path("ab.jsonl").exists()


def test_a_command_that_fails_later_keeps_what_is_complete(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(root)
    script = f"{WORKLOAD}\n[ $runs -lt 4 ] || {{ echo out of luck; exit 3; }}"
    assert main([*TWO, "--", "sh", "-c", script]) == 1
    text = error(capsys)
    assert "round 2: the command ended with 3: out of luck; complete runs: " in text
    assert contents(root) == before
    assert len(lines()) == 4


@pytest.mark.parametrize("text", ["500", "wteo", "1"])
def test_a_refused_write_undoes_what_was_done(text: str, root: Path) -> None:
    before = contents(root)
    setting = Setting("wteo", "latency_bias", "500")
    with pytest.raises(UserError, match=f"cannot write '{text}'"):
        measure(Writes(root, text), settings=(setting,))
    assert contents(root) == before


def test_one_failed_restoration_does_not_stop_the_others(root: Path) -> None:
    setting = Setting("wteo", "latency_bias", "500")
    with pytest.raises(UserError, match="cannot write 'menu'"):
        measure(Writes(root, "menu"), settings=(setting,))
    assert (root / f"{LAB}/wteo/latency_bias"[1:]).read_text() == "200\n"


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"Speed: (\d+)", "printed nothing that matches 'Speed: (\\d+)': Time: 1.5"),
        ("(Time)", "found 'Time' in the command's output, which is no number"),
        ("(Speed)?Time", "found 'None' in the command's output, which is no number"),
    ],
)
def test_a_metric_that_is_not_there_ends_it(
    pattern: str, words: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(root)
    assert main([*TWO, "--metric", pattern, "--", "sh", "-c", WORKLOAD]) == 1
    assert words in error(capsys)
    assert contents(root) == before


# Refusals before anything is changed.


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["--governors", "teo_ng,nosuch"], "no governor 'nosuch', only: ladder menu", 1),
        (["--governors", "teo_ng"], "at least two governors", 2),
        (["--governors", "wteo,teo_ng,wteo"], "names wteo twice", 2),
        (["--rounds", "2"], "at least 3 rounds", 2),
        (["--duration", "5"], "either --duration or a COMMAND", 2),
        (["--better", "lower"], "--better needs --metric", 2),
        (["--set", "wteo.nosuch=1"], "wteo has no tunable 'nosuch'", 1),
        (["--set", "menu.x=1"], "'menu' is no governor of cpuidle_lab", 1),
        (["-o", "."], "is a directory", 2),
        (["-o", "nosuch/a"], "nosuch: no such directory", 2),
        (["--read", "nosuch"], "--read shows a file", 2),
    ],
)
def test_nonsense_is_refused_in_one_sentence(
    arguments: list[str], words: str, code: int, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(root)
    assert main([*TWO, *arguments, "--", "touch", "ran"]) == code
    assert words in error(capsys)
    assert contents(root) == before
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rounds", "many"],
        ["--rounds", "-1"],
        ["--rounds", "9" * 5000],
        ["--seed", "-1"],
        ["--settle", "nan"],
        ["--settle", "-1"],
        ["--governors", "a,,b"],
        ["--governors", "../x,y"],
        ["--set", "wteo"],
        ["--set", "wteo.x"],
        ["--set", "wteo.x="],
        ["--set", "../x.y=1"],
        ["--metric", "("],
        ["--metric", "x"],
        ["--metric", "(x)(y)"],
        ["--better", "faster"],
    ],
)
def test_wrong_usage(arguments: list[str], root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([*TWO, *arguments, "--", "true"])
    assert exit_.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_without_a_command_and_a_time_there_is_nothing_to_do(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(TWO) == 2
    assert "either --duration or a COMMAND" in error(capsys)
    assert main([*TWO, "--duration", "0"]) == 2
    assert "measures nothing" in error(capsys)


def test_without_permission_it_says_so(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Tree, "may_write", lambda self, name: False)
    assert main([*TWO, "--", "true"]) == 1
    assert "needs root: use sudo" in error(capsys)


def test_cpuidle_that_is_off_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(recorded.unfold("cpuidle-off", tmp_path / "off")))
    monkeypatch.chdir(tmp_path)
    assert main([*TWO, "--", "true"]) == 1
    assert "asks no idle governor here" in error(capsys)


def test_a_module_that_is_not_loaded_is_named(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "sys/module/cpuidle_lab").rename(root / "gone")
    (root / f"{CPUIDLE}/available_governors"[1:]).write_text("ladder menu \n")
    assert main([*TWO, "--", "true"]) == 1
    assert "only: ladder menu; cpuidle_lab is not loaded: sudo modprobe" in error(capsys)


def test_a_command_that_does_not_exist(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(root)
    assert main([*TWO, "--", "nosuch-command"]) == 1
    assert "cannot run nosuch-command: no such file" in error(capsys)
    assert contents(root) == before


def test_an_existing_file_is_kept_unless_forced(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("ab.jsonl").write_text("precious")
    for force in ([], ["--force"]):
        assert main([*TWO, "--rounds", "3", *force, "--", "true"]) == 2
        assert "not written by this command" in error(capsys)
    before = '{"kind": "head", "before": 1}\n'
    Path("ab.jsonl").write_text(before)
    assert main([*TWO, "--rounds", "3", "--", "true"]) == 2
    assert "exists already (--force" in error(capsys)
    assert main([*TWO, "--rounds", "3", "--force", "--", "false"]) == 1
    assert Path("ab.jsonl").read_text() == before
    assert main([*TWO, "--rounds", "3", "--force", "--", "true"]) == 0
    assert lines()[0]["kind"] == "head"


# Reading files.


@pytest.fixture
def written(root: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines of a good file."""
    main([*TWO, "--rounds", "3", "--", "sh", "-c", WORKLOAD])
    capsys.readouterr()
    return Path("ab.jsonl").read_text().splitlines()


@pytest.mark.parametrize("text", ["", "\n", "{}\n", "[]\n", "nonsense\n", '{"kind": "head"}\n'])
def test_other_files_are_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a"
    path.write_text(text)
    assert main(["ab", "--read", str(path)]) == 1
    assert "was not written by cpuidle-lab ab" in error(capsys)


def test_damaged_files_are_read_or_refused(
    written: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(1)
    text = "\n".join(written) + "\n"
    for _ in range(300):
        damaged = list(text)
        for index in random.integers(0, len(text), 3):
            damaged[index] = random.choice(list('0"{}[],:-eax\n'))
        Path("damaged").write_text("".join(damaged))
        code = main(["ab", "--read", "damaged", "--json"])
        assert code in (0, 1)
        if code:
            error(capsys)
        else:
            json.loads(capsys.readouterr().out)


def test_a_file_without_a_complete_round_says_so(
    written: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("short").write_text("\n".join(written[:2]) + "\n")
    assert main(["ab", "--read", "short"]) == 1
    assert "has no complete round" in error(capsys)


def test_rounds_in_which_a_figure_is_missing_do_not_count_for_it(written: list[str]) -> None:
    values = [json.loads(line) for line in written]
    values[1]["zones"] = []
    Path("part").write_text("".join(json.dumps(value) + "\n" for value in values))
    summary = estimates.summarize(record.load(Path("part")))
    assert summary.estimates["measured_j", "wteo"].count == 2
    assert summary.estimates["wall_s", "wteo"].count == 3
    assert "package energy: known in 2 of 3 rounds only" in summary.notes


def test_idle_counters_are_added_over_cpus_and_lost_ones_are_none() -> None:
    old = {0: [StateTime("C1", 5, 50, 1, None)], 1: [StateTime("C1", 0, 0, 0, 0)]}
    new = {0: [StateTime("C1", 8, 70, 2, None)], 1: [StateTime("C1", 1, 9, 1, 0)]}
    assert session.idle_between(old, new) == (2, (StateTime("C1", 4, 29, 2, None),))
    assert session.idle_between(new, old) == (2, None)
    assert session.idle_between({0: old[0]}, new)[0] == 1, "a CPU that came online"


# Sentences.


def compared(ratio: float, spread: float, key: str, rounds: int = 10, better: str = "lower") -> str:
    """Return the sentence for rounds with this ratio."""
    base = [100.0] * rounds
    other = [100 * ratio * (1 + spread * (number % 3 - 1)) for number in range(rounds)]
    head = {"plan": {"command": ["x"], "better": better}}
    empty = record.Session(head, None, (), None)  # type: ignore[arg-type]
    figure = next(item for item in estimates.figures(empty) if item.key == key)
    change = estimates._change(base, other, figure.kind, 1)
    return sentences.sentence(estimates._compare(figure, "wteo", "teo_ng", change))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            (0.9, 0.03, "measured_j"),
            "wteo used 10.3 % less package energy than teo_ng "
            "(95 % interval 8.5 … 12.0 %, 10 rounds)",
        ),
        (
            (1.2, 0.01, "emulated_j"),
            "wteo used 19.9 % more emulated energy than teo_ng "
            "(95 % interval 19.1 … 20.7 %, 10 rounds)",
        ),
        (
            (0.5, 0.01, "wall_s"),
            "wteo took 50.05 % less time than teo_ng (95 % interval 49.72 … 50.36 %, 10 rounds)",
        ),
        (
            (1.2, 0.01, "metric"),
            "the metric was 19.9 % higher under wteo than under teo_ng, worse "
            "(95 % interval 19.1 … 20.7 %, 10 rounds)",
        ),
        (
            (1.0, 0.03, "measured_j"),
            "no difference in package energy between wteo and teo_ng can be shown "
            "(95 % interval 2.2 % less … 1.6 % more, 10 rounds)",
        ),
        (
            (0.5, 0.01, "wall_s", 4),
            "no difference in wall time between wteo and teo_ng can be shown: "
            "4 rounds are too few (mean 50.1 % less)",
        ),
    ],
)
def test_sentences(arguments: Any, text: str) -> None:
    assert compared(*arguments) == text


def test_better_is_as_the_user_says() -> None:
    assert ", better (" in compared(1.2, 0.01, "metric", better="higher")
    assert ", worse (" in compared(0.8, 0.01, "metric", better="higher")
