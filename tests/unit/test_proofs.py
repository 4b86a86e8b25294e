# SPDX-License-Identifier: GPL-2.0
"""Proofs and campaigns: one command, one page that says what was recorded, targets of make."""

import argparse
import re
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuidle_lab import cli
from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main, parse
from experiments import proofs
from experiments.experiment import found
from tests import long
from tests.proofs.equality.harness import BUILD
from tests.unit import command

NAMES = tuple(proofs.found())

# Names of the targets that make has for them.
OLD = """
accounts bpf calibrate clone coverage dashboard determinism equality evacuation faults fidelity
fleet fuzz
matrix mutants patch soak stock storm storm-debug storm-kcfi storm-kcsan storm-rt storm-stock
throughput trees
"""
OLD_TARGETS = OLD.split()


def options_of(name: str) -> dict[str, argparse.Action]:
    """Return the options that a proof declares, by flag."""
    parser = parse(["experiment", name]).parser
    return {flag: action for action in parser._actions for flag in action.option_strings}


# ---- The programs. ----


def test_proofs_are_found_and_no_experiment_has_their_names() -> None:
    assert {"equality", "storm", "matrix"} <= set(NAMES)
    assert not set(NAMES) & set(found())


@pytest.mark.parametrize("name", NAMES)
def test_a_proof_states_its_promise_and_shows_examples(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 20 < len(proofs.promise(name)) < 100
    for options in proofs.load(name).EXAMPLES:
        assert parse(["experiment", name, *shlex.split(options)]).proof == name
    with pytest.raises(SystemExit) as end:
        main(["experiment", name, "--help"])
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert f"  cpuidle-lab experiment {name}" in said and proofs.promise(name) in said


def test_an_option_is_the_same_everywhere() -> None:
    """A name stands for one thing: its values have one type and one name in the help."""
    kinds: dict[str, tuple[Any, ...]] = {}
    for name in NAMES:
        for flag, action in options_of(name).items():
            if flag in ("--only", "--governors", "--kernels"):  # of which names: each proof's own
                continue
            kind = type(action), action.type, action.metavar, tuple(action.choices or ())
            assert kinds.setdefault(flag, kind) == kind, f"{flag} of {name}"
    assert {"--seed", "-o", "--output", "--json", "--kernel", "--record"} <= set(kinds)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["equality", "cede"], "unrecognized arguments: cede"),
        (["equalty"], "did you mean 'equality'?"),
        (["storm", "--cpus", "1"], "at least 1 round and 2 CPUs"),
        (["evacuation", "--changes", "0"], "at least 1 change"),
        (["fuzz", "--operations", "1001"], "a multiple of the processes"),
        (["matrix", "--list", "--record"], "a run that judges"),
        (["storm", "--sabotage", "leak", "--record"], "a run that judges"),
    ],
)
def test_bad_input_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], record: object
) -> None:
    try:
        code: Any = main(["experiment", *words])
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert said in capsys.readouterr().err


def test_a_value_of_an_option_names_no_proof() -> None:
    args = parse(["experiment", "wteo", "-o", "storm", "--kernel", "stock"])
    assert (args.names, args.output) == (["wteo"], Path("storm"))
    assert parse(["experiment", "--record", "storm"]).proof == "storm"


def test_a_package_of_the_same_name_elsewhere_is_not_taken(tmp_path: Path) -> None:
    """Many a package from PyPI installs a folder tests."""
    for name in ("tests", "experiments"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('of another project')\n")
    process = command.start("--help", PYTHONPATH=f"{command.PACKAGE}:{tmp_path}")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said


def test_a_proof_that_needs_more_than_python_enters_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So does its help, since the program declares its options."""

    def absent(_: str) -> None:
        raise ModuleNotFoundError("polars")

    def enter() -> None:
        raise SystemExit(7)

    monkeypatch.setattr(proofs, "load", absent)
    with pytest.raises(SystemExit) as end:
        cli.main(["experiment", "stock", "--help"], enter)  # type: ignore[arg-type]
    assert end.value.code == 7


def test_an_interrupted_proof_leaves_nothing() -> None:
    before = set(BUILD.glob("*"))
    process = command.start("experiment", "equality", "--periods", str(10**10))
    command.wait_for(lambda: any(path.parent not in before for path in BUILD.glob("*/*.o")))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert set(BUILD.glob("*")) <= before


# ---- Records and the page. ----


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Return what runs a proof and reads the records, which are empty before."""
    monkeypatch.setattr(proofs, "RUNS", tmp_path / "runs.json")
    monkeypatch.setattr(proofs, "PAGE", tmp_path / "proofs.md")
    monkeypatch.setattr(long, "commit", lambda: "0123abc")

    def run(work: Callable[[object], int], *words: str) -> dict[str, Any]:
        proof = SimpleNamespace(EXAMPLES={"": ""}, run=work, add_options=lambda _: None)
        monkeypatch.setattr(proofs, "load", lambda _: proof)
        main(["experiment", "determinism", *words])
        return {row["command"]: row for row in proofs.read(proofs.RUNS)}

    return run


def fails(_: object) -> int:
    raise UserError("no machine")


def test_a_run_is_recorded_with_its_verdict(record: Callable[..., dict[str, Any]]) -> None:
    assert record(lambda _: 0) == {}
    assert record(fails, "--record") == {}
    row = record(lambda _: 0, "--record")["determinism"]
    assert (row["verdict"], row["commit"]) == ("held", "0123abc")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["day"])
    assert f"| `determinism` | held, {row['day']}, 0123abc |" in proofs.PAGE.read_text()
    assert record(lambda _: 1, "--record")["determinism"]["verdict"] == "MISSED"
    assert f"| `equality` | {proofs.NO_RUN} |" in proofs.PAGE.read_text()


def test_the_page_is_that_of_the_programs_and_records() -> None:
    assert proofs.PAGE.read_text() == proofs.page(), "run: make proofs-doc"


@pytest.mark.parametrize("row", proofs.read(proofs.RUNS), ids=lambda row: row["command"])
def test_a_recorded_command_is_still_understood(row: dict[str, str]) -> None:
    assert parse(["experiment", *shlex.split(row["command"])]).proof in NAMES
    assert row["verdict"] in ("held", "MISSED")


def test_the_page_says_when_tests_ran_and_which_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        long.Row("tests/lab/test_a.py::one", "passed", 1.0, "aaa", "2026-01-02"),
        long.Row("tests/lab/test_a.py::two", "passed", 1.0, "bbb", "2026-01-01"),
        long.Row("tests/lab/test_b.py::one", "passed", 1.0, "ccc", "2026-01-01"),
        long.Row("tests/lab/test_b.py::two", "failed", 1.0, "ddd", "2026-01-03"),
    ]
    monkeypatch.setattr(long, "load", lambda: {row.test: row for row in rows})
    template = tmp_path / "proofs.md"
    template.write_text("{{tests/lab/test_a.py}}, {{tests/lab/test_[b].py}}, {{tests/c}}")
    monkeypatch.setattr(proofs, "_TEMPLATE", template)
    assert proofs.page() == f"held, 2026-01-01, bbb, MISSED, 2026-01-03, ddd, {proofs.NO_RUN}"


# ---- Targets of make. ----


def make(*words: str) -> str:
    done = subprocess.run(["make", "-C", TOP, *words], capture_output=True, text=True, check=True)
    return done.stdout


def test_make_lists_few_targets() -> None:
    assert 10 < len(re.findall(r"^  make ", make("-s", "help"), re.MULTILINE)) <= 20


@pytest.mark.parametrize("target", OLD_TARGETS)
def test_old_targets_still_run_their_proof(target: str) -> None:
    name, _, flavour = target.partition("-")
    runs = make("-n", target)
    assert f"experiment {name} " in runs and "--record" in runs
    assert not flavour or f"--flavour {flavour}" in runs


def test_make_passes_arguments_and_then_records_nothing() -> None:
    assert "experiment stock --costs\n" in make("-n", "proof-stock", "STOCK_ARGS=--costs")
    assert set(NAMES) <= set(OLD_TARGETS)
