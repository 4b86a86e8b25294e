# SPDX-License-Identifier: GPL-2.0
"""Inputs that cannot be read: one kind of error has one exit code and one sentence everywhere."""

import json
import re
from pathlib import Path

import pytest

from cpuidle_lab.base import settings
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.cli import main
from cpuidle_lab.recording import state_tables
from cpuidle_lab.states import domain_files
from tests.unit import synthetic


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording that is a directory."""
    folder = tmp_path_factory.mktemp("stream")
    assert main(["synth", "bursts", "--count", "10", "-o", str(folder)]) == 0
    return folder / "bursts"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which the command runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        "report nosuch", "compare nosuch", "replay --check nosuch", "export nosuch --parquet x",
        "diff nosuch nosuch", "machines nosuch.yaml", "tune nosuch --governor wteo",
        "crossval nosuch", "clone nosuch -o x", "fleet nosuch -o x", "ab --read nosuch",
        "kit --read nosuch", "domains nosuch --domains xeon", "bpf build nosuch.c",
        "patch wteo --evidence nosuch -o x", "lab --clone nosuch", "lab --script nosuch",
        "compare nosuch --machine nosuch.yaml", "review menu@7.3 teo@7.3 --on nosuch",
        # A directory is a kind of file here.
        "report nosuch/trace.dat", "compare ./nosuch/trace.dat", "review --mails nosuch 0001.patch",
        "review --tree x=nosuch --commits A..B", "experiment --corpus nosuch",
        "experiment --mails nosuch", "experiment cede --tree x=nosuch", "review ./nosuch",
        "bpf build ./nosuch", "synth bursts --machine ./nosuch -o x",
        "domains nosuch --domains ./nosuch", "fleet {here} --metadata nosuch -o x",
    ],
)  # fmt: skip
def test_a_file_that_is_missing_has_one_exit_code(
    words: str, stream: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.format(here=stream).split()) == 1
    said = "".join(capsys.readouterr())
    place = "nosuch(.yaml|.c|/trace.dat)?"
    no_such = "[Nn]o such file|no such directory|there is no such patch"
    assert re.search(f"{place}: .*({no_such})|is no file {place}", said)
    assert "[Errno" not in said
    assert not list(here.iterdir())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("report LOOP", "Too many levels of symbolic links"),
        ("compare LOOP", "Too many levels of symbolic links"),
        ("compare LOOP STREAM", "Too many levels of symbolic links"),
        ("report STREAM", "is a directory; give the trace.dat"),
        ("export STREAM --parquet x", "is a directory; give the trace.dat"),
        ("domains STREAM --domains xeon", "is a directory; give the trace.dat"),
        ("review --mails TEXT x.patch", "is no directory"),
        ("review --tree x=TEXT --commits A..B", "is no directory"),
        ("bpf build TEXT", "is no program in C"),
        ("patch wteo --evidence TEXT -o x", "is no mail of `cpuidle-lab review`"),
        ("machines TEXT", "is no machine"),
        ("diff TEXT TEXT", "is no dump"),
        ("ab --read TEXT", "was not written by"),
    ],
)
def test_an_input_of_another_kind_has_that_code(
    words: str, sentence: str, stream: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "loop").symlink_to("loop")
    (here / "text").write_text("hello\n")
    named = {"LOOP": here / "loop", "TEXT": here / "text", "STREAM": stream}
    for word, path in named.items():
        words = words.replace(word, str(path))
    assert main(words.split()) == 1
    said = capsys.readouterr().err
    assert (said.count("\n"), sentence in said) == (1, True), said
    assert {path.name for path in here.iterdir()} == {"loop", "text"}


def test_an_unknown_governor_is_wrong_usage_in_review_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["review", "nosuch", "menu@7.3", "-o", str(tmp_path / "x")]) == USAGE
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "sentence"), [("text", "line 1: the file must be"), ("no", "No such")]
)
def test_a_path_of_domains_is_a_file_whatever_its_name(
    name: str, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("hello\n")
    with pytest.raises(UserError, match=sentence) as error:
        domain_files.read(str(tmp_path / name))
    assert error.value.exit_code == 1


def test_a_recording_under_two_names_counts_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = synthetic.demo(tmp_path / "t.dat", 2_000_000)
    (tmp_path / "link.dat").symlink_to(path)
    assert main(["report", str(path), str(tmp_path / "link.dat"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["traces"]) == 1


def test_a_directory_without_a_name_is_no_working_directory() -> None:
    with pytest.raises(UserError, match="a directory of inputs has no name") as found:
        settings.directory("")
    assert found.value.exit_code == USAGE
    with pytest.raises(UserError, match="no such directory"):
        settings.directory("~nosuch-user/x")


def test_a_machine_that_is_missing_is_the_users_fault() -> None:
    with pytest.raises(UserError, match=r"^nosuch/a: No such file"):
        state_tables.given("nosuch/a")
