# SPDX-License-Identifier: GPL-2.0
"""Governors that the module no longer has: old recordings, experiments, and what a user is told."""

import base64
import csv
import re
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

from cpuidle_lab import cli
from cpuidle_lab.base.cache import TOP
from cpuidle_lab.crossval import trust
from cpuidle_lab.host.machine import MOVED, project_governors
from cpuidle_lab.recording import columns
from cpuidle_lab.replay.build import FORMER
from cpuidle_lab.replay.fidelity import fidelity
from cpuidle_lab.replay.policies import recorded_policies
from experiments.weighted_teo import programs
from tests.unit.synthetic import EXIT, NAMES, POWER, TARGET, TICK
from tests.unit.tracedat import Trace

NAME, NUMBER = "wteo_rfc", 3
# 44 idle periods of CPU 1 in the lab, recorded at 4327bd0, whose module had the governor.
ROWS = Path(__file__).parent / "recordings/wteo_rfc.tsv"
# State of the CPU's governor before the first of them.
FRESH = "c-muNpbyBO8u@qGL}!H*Ae#e-6J9YeFaqhcv@|vjBz6A@0EYiGbE3nj+QFk10E|&8O8"


def recorded(path: Path) -> Path:
    """Write the recording as trace-cmd did."""
    trace = Trace()
    for event in trace.events.values():
        if "governor" in event.symbols:
            event.symbols["governor"] = {0: "teo_ng", 1: "menu_ng", 2: "wteo", NUMBER: NAME}
    with ROWS.open() as stream:
        rows = [
            {name: int(text) for name, text in row.items()}
            for row in csv.DictReader(stream, delimiter="\t")
        ]
    begin, pad = rows[0]["decided_ns"], [0] * (10 - len(NAMES))
    trace.add(
        0, begin, "config", seq=1, generation=5, cpu=0, tick_ns=TICK, governor=NUMBER,
        states=len(NAMES), polling=1, exit_latency_ns=[*EXIT, *pad],
        target_residency_ns=[*TARGET, *pad], power_mw=[*POWER, *pad], names=",".join(NAMES),
        tunables="learning_rate=100 history_size=8 half_life_ms=60000 seed=1", kernel="6.12.117",
    )  # fmt: skip
    data = zlib.decompress(base64.b85decode(FRESH))
    trace.add(0, begin + 1, "state", seq=1, total=len(data), governor=NUMBER, data=data)
    for row in rows:
        at = {"seq": row["seq"], "governor": NUMBER}
        same = ("sleep_length_ns", "delta_tick_ns", "flags", "index", "stop_tick", "reason", "row",
                "left")  # fmt: skip
        trace.add(
            0, row["decided_ns"] + 2, "decision", **at, **{name: row[name] for name in same},
            now_ns=row["decided_ns"], latency_req_ns=2_000_000_000_000, hint_ns=-1, generation=5,
            base_index=255, state=NAMES[row["index"]],
        )  # fmt: skip
        trace.add(
            0, row["accounted_ns"], "outcome", **at, now_ns=row["accounted_ns"],
            residency_ns=row["residency_ns"], index=row["entered"], tick=row["tick"],
            state=NAMES[row["entered"]],
        )  # fmt: skip
    return trace.write(path)


def test_replay_repeats_a_recording_of_a_module_that_had_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recorded(tmp_path / "old.dat")
    assert cli.main(["replay", str(path), "--check"]) == 0
    assert f"{NAME}: identical 44 of 44" in capsys.readouterr().out
    with monkeypatch.context() as patch:
        patch.setattr(trust, "DOUBT", -1)
        assert cli.main(["replay", str(path), "--check"]) == 1
    with columns.opened(path) as recording:
        assert recorded_policies(recording) == [NAME]
        found = fidelity(recording, NAME)
    assert found.reasons == {
        "teo-deepest": 13, "teo-intercepts": 11, "teo-timer-limit": 8, "wteo-sample": 12
    }  # fmt: skip


def test_each_that_the_module_once_had_is_told_of_and_kept() -> None:
    header = (TOP / "governors/list.h").read_text()
    listed = header.partition("#define CIL_FORMER_GOVERNORS(X)")[2].partition("*/")[0]
    names = re.findall(r"X\((\w+),", listed)
    assert names == [*MOVED] == sorted(path.name for path in FORMER.iterdir())
    assert not {*names} & {*project_governors(TOP)}
    script = (TOP / "packaging/cpuidle-lab-restore").read_text()
    function = script.partition("\nmoved() {\n")[2].partition("\n}\n")[0]
    assert re.findall(r"^\t(\w+)\) said=", function, re.MULTILINE) == names


@pytest.mark.parametrize(
    "words",
    [
        ["lab", "--governor", NAME],
        ["lab", "--governor", f"bpf:{NAME}"],
        ["lab", "--set", f"{NAME}.seed=2"],
        ["bpf", "build", NAME],
    ],
)
def test_a_command_says_where_it_went(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    assert capsys.readouterr().err == f"cpuidle-lab: error: {MOVED[NAME]}\n"


def test_no_new_governor_gets_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(TOP / "governors", tmp_path / "governors")
    assert cli.main(["new", NAME, "--directory", str(tmp_path)]) == 1
    assert "which the module once had" in capsys.readouterr().err


def test_the_module_of_the_experiment_has_it_under_its_number(tmp_path: Path) -> None:
    """The copy compiles where the module is built: beside the governors, and from them alone."""
    made = programs.with_patch()
    for run in (programs.programs_run("quick", 1), programs.idle_run("quick", 1)):
        assert run.changes == made
    shutil.copytree(TOP / "governors", tmp_path / "governors")
    for path, text in made.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    assert project_governors(tmp_path) == [*project_governors(TOP), NAME]
    probe = tmp_path / "probe.c"
    probe.write_text(
        '#include "governors/common/policy.h"\n#define X(name, number) case number: '
        "return &name##_policy;\nconst struct cil_policy *probe(int number);\n"
        "const struct cil_policy *probe(int number)\n{\n\tswitch (number) {\n"
        "\tCIL_GOVERNORS(X)\n\t}\n\treturn 0;\n}\n"
    )
    expanded = subprocess.run(["gcc", "-E", "-P", probe], capture_output=True, text=True).stdout
    assert f"case {NUMBER}: return &{NAME}_policy;" in expanded
    sources = [probe, *(tmp_path / "governors" / NAME).glob("*.c")]
    subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Werror", "-fsyntax-only", *sources], check=True)
