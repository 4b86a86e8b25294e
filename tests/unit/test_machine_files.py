# SPDX-License-Identifier: GPL-2.0
"""Machine files, and tables of idle states by range of CPUs."""

import json
from pathlib import Path
from typing import Any

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.lab.session import emulated
from cpuidle_lab.recording import columns, state_tables
from cpuidle_lab.recording.formats.writer import Event, Writer
from cpuidle_lab.recording.stock import Context, context_of
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import CPUS_MAX, CpuTable
from tests.unit.kernel_events import EXIT, MS

LITTLE, BIG = (1000, 2580), (400, 900)
MARKS = tuple(
    f"stock machine cpus={cpus} tick_ns=4000000 states=WFI:1:1,off:{exit_us}:{target_us}"
    for cpus, (exit_us, target_us) in (("0-1", LITTLE), ("2-3", BIG))
)
COMPARE = ["compare", "--governors", "teo_ng", "--no-mainline", "--no-instructions"]
HINT = "choose one by a CPU, as in 0="


def states(exit_us: int, target_us: int, more: str = "") -> str:
    return (
        "- {name: WFI, exit_latency_us: 1, target_residency_us: 1}\n"
        f"- {{name: off, exit_latency_us: {exit_us}, target_residency_us: {target_us}{more}}}\n"
    )


def indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


HYBRID = f"tables:\n  0-1,4:\n{indented(states(*LITTLE))}  2-3:\n{indented(states(*BIG))}"


def written(tmp_path: Path, text: str, name: str = "mine.yaml") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def powers(*told: object) -> str:
    return "states:\n" + "".join(
        f"- {{name: S{k}, exit_latency_us: {k}, target_residency_us: {10 * k}"
        + (f", power_mw: {power}}}\n" if power is not None else "}\n")
        for k, power in enumerate(told)
    )


# ---- What a file says ----


def test_a_file_gives_tables_by_range(tmp_path: Path) -> None:
    path = written(tmp_path, HYBRID)
    found = [(one.first, one.last, one.table.target_residency_ns[1]) for one in
             state_tables.given(path)]  # fmt: skip
    assert found == [(0, 1, 2_580_000), (2, 3, 900_000), (4, 4, 2_580_000)]


def test_a_file_without_ranges_serves_all_cpus(tmp_path: Path) -> None:
    (table,) = state_tables.given(written(tmp_path, "states:\n" + states(*BIG)))
    assert (table.first, table.last) == (0, CPUS_MAX)


def test_a_table_can_stand_for_other_cpus_too(tmp_path: Path) -> None:
    text = f"hz: 100\ntables:\n  0: &one\n{indented(states(*BIG))}  3: *one\n"
    first, second = state_tables.given(written(tmp_path, text))
    assert (first.first, second.first) == (0, 3) and first.table == second.table
    assert first.table.tick_ns == 10_000_000


@pytest.mark.parametrize("name", ["OFF", "no", "Yes", "on", "1", "010", "null"])
def test_a_name_is_taken_as_written(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, f"states:\n- {{name: {name}, exit_latency_us: 1, "
                   "target_residency_us: 1}\n")  # fmt: skip
    assert state_tables.find(path).names == (name,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"states:\n{states(1, 2, ', powr_mw: 3')}",
         "line 3: unknown key 'powr_mw'; did you mean 'power_mw'?"),
        (f"Hz: 100\nstates:\n{states(1, 2)}", "line 1: unknown key 'Hz'"),
        (f"states:\n{states(1, 2, ', exit_latency_us: 3')}", "line 3: key 'exit_latency_us'"),
        (f"states:\n{states(1, 2)}tables: {{}}\n", "one of 'states' and 'tables'"),
        ("hz: 100\n", "one of 'states' and 'tables'"),
        ("tables: {}\n", "'tables' is empty"),
        ("states: []\n", "states must be a list"),
        (f"states:\n{states(1, 2)}domains: 5\n", "line 4: domains must be a list"),
        (f"states:\n{states(1, 2)}domains: [5]\n", "line 4: a domain must be a mapping"),
        (f"states:\n{states(1, 2)}domains:\n- {{name: P}}\n", "line 5: a domain has no cpus"),
        (f"tables:\n  0-3:\n{indented(states(1, 2))}  3-4:\n{indented(states(1, 2))}",
         "line 2: CPU 3 is in two ranges"),
        (f"tables:\n  4-3:\n{indented(states(1, 2))}", "line 2: '4-3' is no range of CPUs"),
        (f"tables:\n  little:\n{indented(states(1, 2))}", "line 2: 'little' is no range of CPUs"),
        ("states:\n- {name: A, exit_latency_us: true, target_residency_us: 1}\n",
         "line 2: exit_latency_us must be a number, not 'true'"),
        ("states:\n- {name: A, exit_latency_us: 010, target_residency_us: 1}\n",
         "line 2: exit_latency_us must be a number, not '010'"),
        ("states:\n- {name: A, exit_latency_us: 1, target_residency_us: 1:30}\n",
         "line 2: target_residency_us must be a number, not '1:30'"),
        ("states:\n- {name: A, exit_latency_us: '1', target_residency_us: 1}\n",
         "exit_latency_us must stand without quotes"),
        ("states:\n- {name: A, exit_latency_us: -1, target_residency_us: 1}\n",
         "exit_latency_us is out of range"),
        ("states:\n- {name: A, exit_latency_us: 1e99, target_residency_us: 1}\n",
         "exit_latency_us is out of range"),
        ("states:\n- {name: A, exit_latency_us: .nan, target_residency_us: 1}\n",
         "exit_latency_us must be a number"),
        ("states:\n- {name: A, exit_latency_us: 1}\n", "line 2: a state has no target"),
        ("states:\n- {name: A, exit_latency_us: 1, target_residency_us: 1, polling: 1}\n",
         "line 2: polling must be true or false, not '1'"),
        (f"hz: on\nstates:\n{states(1, 2)}", "line 1: hz must be a number, not 'on'"),
        (f"hz: 0\nstates:\n{states(1, 2)}", "hz must be a whole number from 1"),
        ("states:\n- {name: A\n  exit: [}\n", "line 3: it is no YAML: "),
        ("states:\n- \x07\n", "line 2: it is no YAML: special characters"),
        ("states:\n\t- a\n", "line 2: it is no YAML: "),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_line_and_cause(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UserError) as refused:
        state_tables.find(written(tmp_path, text))
    assert refused.value.message.startswith(f"{tmp_path}/mine.yaml: ")
    assert words in refused.value.message


# ---- Powers ----


def test_powers_are_taken_as_given(tmp_path: Path) -> None:
    machine = state_tables.find(written(tmp_path, powers(1000, 980, 2.9, 0.4, 0.4)))
    model = model_of(machine)
    assert model.power_mw == (1000, 980, 2.9, 0.4, 0.4) and not model.derived
    assert model.entry_pj[1] == 20 * 10_000


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ((1000, None, 5), "line 3: 'S1' has no power_mw, but 'S0' has: give all or none"),
        ((None, 5), "line 2: 'S0' has no power_mw, but 'S1' has: give all or none"),
        ((1000, 1001), "line 3: power_mw of 'S1' is above that of the shallower 'S0'"),
        ((1000, 0), "line 3: power_mw: must be above 0, not 0"),
        ((1000, 0.0004), "line 3: power_mw: 0.0004 is finer than 1 uW"),
        ((1000, "true"), "line 3: power_mw must be a number, not 'true'"),
        ((1000, "OFF"), "line 3: power_mw must be a number, not 'OFF'"),
        ((1000, -3), "line 3: power_mw is out of range"),
    ],
)
def test_powers_that_cannot_count_are_refused(
    tmp_path: Path, told: tuple[object, ...], words: str
) -> None:
    with pytest.raises(UserError) as refused:
        state_tables.find(written(tmp_path, powers(*told)))
    assert words in refused.value.message


def test_a_line_of_a_recording_may_have_fractions_of_powers() -> None:
    line = "stock machine cpus=0-0 tick_ns=4000000 states=A:1:1:2.9,B:2:9:0.4"
    told = context_of(Path("a"), [(0, line)])
    assert told and told.tables[0].table.power_uw == (2900, 400)
    with pytest.raises(UserError, match="cannot be read"):
        context_of(Path("a"), [(0, line.replace("2.9", "2.9001"))])


def test_fractions_of_powers_last_through_columns(tmp_path: Path) -> None:
    path = two_kinds(tmp_path / "a.dat")
    given = state_tables.given(written(tmp_path, powers(2.9, 1.4, 0.4)))
    told = Context(given=given)
    columns.write(path, tmp_path / "out", context=told)
    machine = columns.Recording(tmp_path / "out").state_tables[0]
    assert machine.power_uw == (2900, 1400, 400) and not model_of(machine).derived


def test_the_lab_refuses_powers_that_the_emulator_cannot_count(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the emulator counts whole mW"):
        emulated(written(tmp_path, powers(4, 3, 1.5)))


def test_the_lab_takes_the_power_of_polling(tmp_path: Path) -> None:
    text = powers(700, 30).replace("S0", "POLL")
    assert emulated(written(tmp_path, text)) == "states=S1:1:10:30 busy_mw=700"


# ---- By range ----


def two_kinds(path: Path, marks: tuple[str, ...] = ()) -> Path:
    """Write a recording of CPU 0 and 2: each sleeps 1.5 ms in state 1, 4 times."""
    events = [Event(0, 1000 + n, "print", text=line) for n, line in enumerate(marks)]
    for n in range(4):
        for at, state in ((2 + 2 * n, 1), (3.5 + 2 * n, EXIT)):
            for cpu in (0, 2):
                values = {"state": state, "cpu_id": cpu}
                events.append(Event(cpu, round(at * MS) + cpu, "cpu_idle", values))
    with Writer(path) as writer:
        for event in events:
            writer.add(event)
    return path


def shown(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


@pytest.fixture
def given(tmp_path: Path) -> dict[str, str]:
    """Write machine files by name, with a recording of two kinds of CPUs."""
    return {
        "little": written(tmp_path, "states:\n" + states(*LITTLE), "little.yaml"),
        "big": written(tmp_path, "states:\n" + states(*BIG), "big.yaml"),
        "both": written(tmp_path, HYBRID),
        "trace": str(two_kinds(tmp_path / "a.dat")),
        "marked": str(two_kinds(tmp_path / "marked.dat", MARKS)),
    }


@pytest.mark.parametrize(
    "machine", ["0-1,4={little},2-3={big}", "{both}", "{marked}", "0={marked},2={big}",
                "0-2={both}"],
)  # fmt: skip
@pytest.mark.parametrize("command", [["report"], COMPARE])
def test_each_range_has_its_own_machine(
    given: dict[str, str], capsys: pytest.CaptureFixture[str], machine: str, command: list[str]
) -> None:
    words = [command[0], given["trace"], "--machine", machine.format(**given), *command[1:]]
    found = shown(words, capsys)
    (one,) = found["traces"]
    targets = [one["machines"][cpu]["target_residency_ns"][1] for cpu in ("0", "2")]
    assert targets == [2_580_000, 900_000]
    assert "serves CPU" not in json.dumps(found)


@pytest.mark.parametrize(
    ("trace", "machine", "words"),
    [
        ("trace", "{little}", "one table of idle states serves CPU 0,2; --machine"),
        ("marked", "{little}", "serves CPU 0,2, although the recording tells 2 different ones"),
        ("marked", "0-3={big}", "serves CPU 0,2, although the recording tells 2 different ones"),
        ("marked", "2={big}", ""),
        ("trace", "0-3={big}", ""),
        ("marked", "", ""),
    ],
)
@pytest.mark.parametrize("command", [["report"], COMPARE])
def test_one_table_for_cpus_that_may_differ_is_noted(
    given: dict[str, str], capsys: pytest.CaptureFixture[str], command: list[str], trace: str,
    machine: str, words: str,
) -> None:  # fmt: skip
    option = ["--machine", machine.format(**given)] if machine else []
    found = json.dumps(shown([command[0], given[trace], *option, *command[1:]], capsys))
    assert ("one table of idle states" in found) == bool(words) and words in found


def test_columns_take_ranges_too(
    given: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    assert main(["export", given["trace"], "--parquet", out]) == 0
    assert main([COMPARE[0], out, "--machine", f"0={given['little']}", *COMPARE[1:]]) == 1
    assert "no table has CPU 2" in capsys.readouterr().err
    with columns.opened(Path(out), state_tables.given(given["both"])) as recording:
        assert [recording.state_tables[cpu].exit_latency_ns[1] for cpu in (0, 2)] == [
            10**6,
            400_000,
        ]


def test_a_cpu_outside_of_the_ranges_keeps_its_own_states_or_is_left_out(
    given: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    option = ["--machine", f"2={given['big']}"]
    (one,) = shown(["report", given["marked"], *option], capsys)["traces"]
    assert one["machines"]["0"]["target_residency_ns"][1] == 2_580_000
    (one,) = shown(["report", given["trace"], *option], capsys)["traces"]
    assert list(one["machines"]) == ["2"] and "4 idle periods are left out" in one["omissions"][0]


@pytest.mark.parametrize("command", [["report"], COMPARE])
def test_figures_by_state_say_whose_names_they_have(
    given: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    other = written(tmp_path, ("states:\n" + states(*BIG)).replace("off", "C6S"), "other.yaml")
    for name, is_said in ((other, True), (given["big"], False)):
        option = ["--machine", f"0={given['little']},2={name}"]
        found = json.dumps(shown([command[0], given["trace"], *option, *command[1:]], capsys))
        assert ("CPUs name their idle states differently" in found) == is_said


def test_latency_requests_stay_those_of_the_recording() -> None:
    machine = state_tables.find("skx")
    own = [CpuTable(0, 3, machine, 7, 2), CpuTable(2, 2, machine, 9, 4)]
    other = state_tables.find("icx")
    known = Context(own, given=[CpuTable(1, 2, other)]).known()
    said = {cpu: next(t for t in reversed(known) if t.first <= cpu <= t.last) for cpu in range(4)}
    assert [said[cpu].latency_req_us for cpu in range(4)] == [7, 7, 9, 7]
    assert [said[cpu].table == other for cpu in range(4)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("0-3=skx,3=icx", "CPU 3 is in two ranges"),
        ("3-0=skx", "'3-0' is no range of CPUs"),
        ("0-99999=skx", "'0-99999' is no range of CPUs"),
        ("0-3=skx,5", "'5' has no machine"),
        ("0-3=", "'0-3' has no machine"),
        ("0-3=skz", "unknown machine 'skz'"),
        ("0-5={both}", "does not tell the idle states of all of CPU 0-5"),
    ],
)
def test_a_wrong_range_is_one_sentence(
    given: dict[str, str], capsys: pytest.CaptureFixture[str], spec: str, words: str
) -> None:
    assert main(["report", given["trace"], "--machine", spec.format(**given)]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"hello\n", "is no machine: neither a machine file, whose name ends in .yaml, nor a rec"),
        (b"", "is no machine: neither"),
        (b"\x89PNG\r\n" + bytes(range(200)), "is no machine: neither"),
        (None, "No such file or directory"),
    ],
)
def test_a_file_that_is_no_machine_is_one_sentence(
    content: bytes | None, words: str, given: dict[str, str], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = tmp_path / "mine"
    if content is not None:
        path.write_bytes(content)
    for command in (["machines", str(path)], ["report", given["trace"], "--machine", str(path)]):
        assert main(command) == 1
        told = capsys.readouterr().err
        assert f"error: {path}: {words}" in told and told.count("\n") == 1


def test_where_one_table_serves_several_are_refused(
    given: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["-o", str(tmp_path / "out")]
    for command in (["synth", "bursts", "--count", "10"], ["lab"]):
        assert main([*command, "--machine", given["both"], *out]) == 2
        told = capsys.readouterr().err
        assert f"has 2 tables of idle states (CPU 0-1,4; CPU 2-3) where one serves; {HINT}" in told
    assert state_tables.find(f"3={given['both']}").target_residency_ns[1] == 900_000


def test_machines_shows_each_table_with_its_cpus(
    given: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = shown(["machines", given["both"], given["marked"], "skx"], capsys)["machines"]
    assert [one["cpus"] for one in found] == ["0-1,4", "2-3", "0-1", "2-3", ""]
    assert main(["machines", given["both"]]) == 0
    told = capsys.readouterr().out
    assert "mine.yaml, CPU 0-1,4" in told and "mine.yaml, CPU 2-3" in told
