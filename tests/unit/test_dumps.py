# SPDX-License-Identifier: GPL-2.0
"""Dumps in all forms give the same counters, or a sentence; those of this machine are read."""

import gzip
import itertools
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.dump.gather import moment_of
from cpuidle_lab.dump.script import SCRIPT
from cpuidle_lab.host.machine import Host as Host
from cpuidle_lab.host.sysfs import Tree
from cpuidle_lab.recording.dumps import bare, reading
from cpuidle_lab.recording.dumps.model import Moment
from tests.unit import command, dump_forms, recorded
from tests.unit.dump_forms import BIG, FORMS, LITTLE, NAMED, OPTIONAL, SERVER, write


def states_of(moment: Moment) -> list[list[dict[str, str]]]:
    return [[dict(state.files) for state in cpu.states] for cpu in moment.cpus]


# ---- Forms ----


@pytest.mark.parametrize("form", FORMS)
def test_every_form_tells_the_same(form: str, tmp_path: Path) -> None:
    files = dump_forms.machine(1, range(12))
    path = write(tmp_path, "x", FORMS[form](files))
    (moment,) = reading.read(path).moments
    assert moment.numbered == (form in NAMED)
    order = sorted(files) if moment.numbered else sorted(files, key=str)
    assert states_of(moment) == [files[cpu] for cpu in order]


def noisy(text: str) -> str:
    return f"me@host:~$ cat it | less\n{text}me@host:~$ uptime\n 10:00 up 3 days, load: 0.1\nme@h$ "


DRESSES: dict[str, Callable[[str], bytes]] = {
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "prompts": lambda text: noisy(text).encode(),
    "a mail's quotes": lambda text: "".join(f"> {line}\n" for line in text.splitlines()).encode(),
    "gzip": lambda text: gzip.compress(text.encode()),
    "UTF-16": lambda text: text.encode("utf-16"),
    "colours": lambda text: f"\x1b[1;32mme@host\x1b[0m$ cat\n{text}".encode(),
    "indented": lambda text: "".join(f"    {line}\n" for line in text.splitlines()).encode(),
}


@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize("form", FORMS)
def test_text_around_a_dump_changes_nothing(form: str, dress: str, tmp_path: Path) -> None:
    text = FORMS[form](dump_forms.machine(1))
    plain = reading.read(write(tmp_path, "plain", text)).moments
    assert reading.read(write(tmp_path, "x", DRESSES[dress](text))).moments == plain


@pytest.mark.parametrize("lacks", [
    lacks for count in range(5) for lacks in itertools.combinations(OPTIONAL, count)
])  # fmt: skip
def test_values_without_names_are_told_by_their_layout(lacks: tuple[str, ...]) -> None:
    files = dump_forms.machine(2, range(3), lacks)
    (moment,) = bare.read(dump_forms.bare(files).split("\n"))
    assert states_of(moment) == list(files.values())


@pytest.mark.parametrize("lacks", [(), ("s2idle",), ("default_status", "rejected")])
def test_values_without_names_are_never_shifted_by_a_cut(lacks: tuple[str, ...]) -> None:
    files = dump_forms.machine(2, range(3), lacks)
    lines = dump_forms.bare(files).split("\n")[:-1]
    known = list(files.values())
    read = 0
    for cut in range(1, len(lines)):
        for part in (lines[:cut], lines[cut:]):
            try:
                (moment,) = bare.read(part) if bare.count(part) else (Moment(()),)
            except UserError:
                continue
            found = [states for states in states_of(moment) if states]
            for states in found:
                parts = [
                    part for each in known for part in (each[: len(states)], each[-len(states) :])
                ]
                assert states in parts, (cut, part[:2])
            read += len(found)
    assert read > len(lines) // 2  # most parts are read, and not refused


@pytest.mark.parametrize("form", FORMS)
def test_a_dump_cut_anywhere_tells_no_other_figures(form: str, tmp_path: Path) -> None:
    files = dump_forms.machine(1, range(3))
    data = FORMS[form](files).encode()
    known = list(files.values())
    for end in range(7, len(data), 397):
        try:
            (moment,) = reading.read(write(tmp_path, "x", data[:end])).moments
        except UserError as error:
            assert "\n" not in error.message
            continue
        counted = [[{**s} for s in states] for states in states_of(moment)]
        for states in counted:
            whole = next(one for one in known if one[0]["usage"] == states[0]["usage"])
            assert all(state.items() <= other.items()
                       for state, other in zip(states, whole, strict=False))  # fmt: skip
        assert len(counted) == 3 or moment.notes or data[end - 1 : end] == b"\n"


def test_one_cpu_whose_values_are_cut_is_never_read_by_another_layout() -> None:
    files = dump_forms.machine(2, range(1))
    lines = dump_forms.bare(files).split("\n")[:-1]
    for end in range(20, len(lines)):
        try:
            dump = reading._parse("\n".join(lines[:end]).encode())
        except UserError:
            continue
        found = [states for each in dump.moments for states in states_of(each)] if dump else []
        assert found in ([], [files[0][: len(found[0])] if found else []]), end


def test_cpupower_tells_counters_of_its_cpus(tmp_path: Path) -> None:
    files = dump_forms.machine(1)
    (moment,) = reading.read(write(tmp_path, "x", dump_forms.cpupower(files))).moments
    for found, states in zip(states_of(moment), files.values(), strict=True):
        for state, each in zip(found, states, strict=True):
            assert state.items() <= each.items() and len(state) == 7
    assert (moment.driver, moment.governor) == ("intel_idle", "menu")


# As cpupower prints it, and after a program that takes blanks away.
@pytest.mark.parametrize("mark", [" (DISABLED) ", " (DISABLED)"])
def test_cpupower_tells_what_is_disabled(mark: str, tmp_path: Path) -> None:
    text = f"analyzing CPU 0:\n\nC1{mark}:\nLatency: 1\nUsage: 5\nDuration: 9\n"
    (moment,) = reading.read(write(tmp_path, "x", text)).moments
    (state,) = moment.cpus[0].states
    assert (state.name, state.value("disable")) == ("C1", 1)


def test_values_of_unknown_cpus_in_two_halves_are_refused(tmp_path: Path) -> None:
    halves = [dump_forms.bare(dump_forms.machine(turn)) for turn in (1, 2)]
    with pytest.raises(UserError, match="may hold two dumps of 4 CPUs, or one of 8"):
        reading.read(write(tmp_path, "x", "".join(halves)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("hello\n", "is no dump of idle states; known are: cpuidle-lab dump, grep"),
        ("cpuidle-lab dump 2\n[moment]\n[end]\n", "is a dump of version 2"),
        ("cpuidle-lab dump 1\n", "a dump without a moment"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state0/name:C1\n", "no CPU with counters"),
        ("cpu0/cpuidle/state0/usage:1\nstate0/usage:2\n", "and not those of others"),
        *(
            (f"cpu0/cpuidle/state0/usage:{usage}\ncpu0/cpuidle/state0/time:9\n", words)
            for usage, words in (
                ("-5", "CPU 0 is left out: a counter cannot be that (usage: -5)"),
                ("0x10", "a counter cannot be that (usage: 0x10)"),
                ("1,234", "a counter cannot be that (usage: 1,234)"),
                (str(2**63 - 1), "a counter cannot be that (usage: 9223372036854775807)"),
                (str(2**64), "a counter cannot be that (usage: 18446744073709551616)"),
            )
        ),
    ],
)
def test_a_file_that_is_no_dump_is_one_sentence(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "x", text)
    assert main(["diff", str(path), str(path)]) == 1
    assert words in command.error(capsys)


# ---- Tables ----


def test_a_dump_of_cpus_that_differ_names_the_table_of_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = dump_forms.machine(1, range(4), (), (LITTLE, BIG))
    path = write(tmp_path, "x.txt", dump_forms.grep(files))
    assert main(["machines", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["machines"]
    assert [(one["cpus"], one["states"][1]["name"]) for one in told] == [
        ("0,2", "off-l"),
        ("1,3", "off-b"),
    ]
    bare_path = write(tmp_path, "y.txt", dump_forms.bare(files))
    assert main(["machines", str(bare_path)]) == 1
    assert "several tables of idle states and no CPU numbers" in command.error(capsys)


def test_cpupower_is_a_table_only_with_target_residencies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = dump_forms.machine(1)
    path = write(tmp_path, "x.txt", dump_forms.cpupower(files))
    assert main(["machines", str(path), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["machines"]
    found = [(s["name"], s["exit_latency_us"], s["target_residency_us"]) for s in told["states"]]
    assert found == list(SERVER)
    path.write_text(dump_forms.cpupower(files, with_targets=False))
    assert main(["machines", str(path)]) == 1
    assert "tells no target residency of C1; add it" in command.error(capsys)


# ---- This machine ----


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unfold a machine with counters."""
    root = recorded.unfold("debian13", tmp_path / "machine")
    for path, text in dump_forms.lines(dump_forms.machine(1)):
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{text}\n")
    for path, text in {
        "proc/uptime": "100.50 320.10",
        "proc/sys/kernel/hostname": "secret-host",
        "sys/devices/system/cpu/online": "0-3",
        "sys/devices/system/cpu/cpu1/topology/core_id": "1",
        "sys/class/powercap/intel-rapl:0/name": "package-0",
        "sys/class/powercap/intel-rapl:0/energy_uj": "5000000",
        "sys/class/dmi/id/product_serial": "secret-serial",
    }.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{text}\n")
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(root))
    return root


def test_a_dump_of_this_machine_is_read_as_it_was(root: Path, tmp_path: Path) -> None:
    output = tmp_path / "x.txt"
    assert main(["dump", "-o", str(output)]) == 0
    (moment,) = reading.read(output).moments
    now = moment_of(Host(Tree(root)))
    assert (moment.cpus, moment.files) == (now.cpus, now.files)
    assert moment.uptime_s == 100.5
    text = output.read_text()
    assert not re.search(f"secret|{os.uname().nodename}", text)
    assert len(text) < 3000


def test_a_dump_is_never_replaced(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = write(tmp_path, "x.txt", "mine")
    for more in ([], ["--", "true"]):
        assert main(["dump", "-o", str(output), *more]) == 2
        assert "exists already, and a dump is never replaced" in command.error(capsys)
    assert output.read_text() == "mine"


def test_the_script_dumps_the_same(root: Path, tmp_path: Path) -> None:
    script = re.sub(r"(?<=[ \n\t'])/(?=(?:proc|sys|dev|boot)/)", f"{root}/", SCRIPT)
    assert script.count(f"{root}/") > 15
    path = tmp_path / "x.txt"
    for turn in range(2):  # the second finds the file
        subprocess.run(["sh", "-c", script, "dump.sh", path], check=False)
        if not turn:
            text = path.read_text()
    assert path.read_text() == text
    (moment,) = reading.read(path).moments
    now = moment_of(Host(Tree(root)))
    assert moment.cpus == now.cpus
    assert {path: text for path, text in moment.files.items() if "/boot/" not in path} == now.files


GROW = """for file in "$CPUIDLE_LAB_ROOT"/sys/devices/system/cpu/cpu*/cpuidle/state2/usage; do
    echo $(($(cat "$file") + 5)) >"$file"
done"""


def test_runs_of_a_command_are_pairs_in_one_file(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "x.txt"
    assert main(["dump", "-n", "3", "-o", str(output), "--", "sh", "-c", GROW]) == 0
    labels = [moment.label for moment in reading.read(output).moments]
    assert labels == ["before 1", "after 1", "before 2", "after 2", "before 3", "after 3"]
    capsys.readouterr()
    assert main(["diff", str(output), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (row,) = [row for row in told["rows"] if row["kind"] == "all" and row["state"] == "C1E"]
    (side,) = row["sides"].values()
    assert side["idles"]["runs"] == [20, 20, 20]


def test_a_command_that_fails_is_the_last_and_is_kept(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "x.txt"
    assert main(["dump", "-n", "3", "-o", str(output), "--", "sh", "-c", "exit 7"]) == 7
    assert len(reading.read(output).moments) == 2
    assert "the command ended with 7" in capsys.readouterr().err
    assert main(["dump", "-o", str(tmp_path / "y"), "--", "/no/such"]) == 1
    assert "cannot run /no/such: no such file" in command.error(capsys)
    assert not (tmp_path / "y").exists()


def test_a_machine_without_idle_states_has_no_dump(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(tmp_path / "nothing"))
    assert main(["dump", "-o", str(tmp_path / "x")]) == 1
    assert "shows no idle states" in command.error(capsys)
    assert main(["dump", "-n", "2"]) == 2
    assert "-n needs a COMMAND" in command.error(capsys)
