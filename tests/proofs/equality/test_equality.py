# SPDX-License-Identifier: GPL-2.0
"""The proof of equality, in the size that fits into every test run."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.states.linux_source import fetch
from tests.unit import command

REASONS = TOP / "governors/common/reasons.h"

# So many idle periods take a few seconds; `make equality` takes ten times as many.
PERIODS = 1_000_000
CLAIMS = {"teo": {"teo_ng"}, "menu": {"menu_ng"}}
# A step that decides less often than this is not tested by the stream.
OFTEN = 100


def prove(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = command.run("experiment", "equality", "--json", *arguments)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def teo_source() -> Path:
    return fetch().folder / "teo.c"


@pytest.fixture(scope="module")
def proof() -> dict[str, Any]:
    code, result = prove("--periods", str(PERIODS), "--seed", "20260101")
    assert code == (0 if result["passed"] else 1)
    return result


def test_every_decision_is_the_kernels(proof: dict[str, Any]) -> None:
    for comparison in proof["comparisons"]:
        assert not comparison["different"], comparison["text"]
        expected = dict.fromkeys(CLAIMS[comparison["mainline"]], PERIODS)
        assert comparison["identical"] == expected
    assert {c["mainline"] for c in proof["comparisons"]} == set(CLAIMS)


@pytest.mark.parametrize(("mainline", "policy"), [("teo", "teo_ng"), ("menu", "menu_ng")])
def test_every_step_decided_often(proof: dict[str, Any], mainline: str, policy: str) -> None:
    prefix = mainline.upper()
    steps = re.findall(rf'X\({prefix}_\w+,\s*\d+,\s*"([^"]+)"', REASONS.read_text())
    assert len(steps) > 5
    (comparison,) = [c for c in proof["comparisons"] if c["mainline"] == mainline]
    rare = [s for s in steps if comparison["counts"].get(f"{policy} {s}", 0) < OFTEN]
    assert not rare


def test_the_stream_has_every_kind_of_event(proof: dict[str, Any]) -> None:
    for comparison in proof["comparisons"]:
        events = {k: n for k, n in comparison["counts"].items() if k.startswith("stream ")}
        assert len(events) == 10
        assert min(events.values()) >= OFTEN


def test_nothing_undefined_happens() -> None:
    code, result = prove("--sanitize", "--periods", "200000")
    assert code == 0, result


def test_every_mutant_of_the_kernels_source_is_noticed() -> None:
    code, result = prove("--mutants")
    assert not [m["mutant"] for m in result["mutants"] if not m["noticed"]]
    assert len(result["mutants"]) > 50
    assert code == 0


def test_the_stream_reaches_the_kernels_branches() -> None:
    code, result = prove("--coverage", "--periods", str(PERIODS))
    assert {c["source"] for c in result["coverage"]} == {"teo.c", "menu.c"}
    for item in result["coverage"]:
        assert item["branches"] > 80
        assert item["percent"] >= 95, item["missed"]
    assert code == 0


def test_a_difference_is_shown_with_all_its_inputs(teo_source: Path, tmp_path: Path) -> None:
    mutant = tmp_path / "teo.c"
    mutant.write_text(
        teo_source.read_text().replace("#define DECAY_SHIFT\t3", "#define DECAY_SHIFT\t2")
    )
    (tmp_path / "gov.h").write_text(teo_source.with_name("gov.h").read_text())
    code, result = prove("--only", "teo", "--teo", str(mutant), "--periods", "100000")
    assert code == 1
    (comparison,) = result["comparisons"]
    assert comparison["different"] == "teo_ng"
    for word in (
        "machine ",
        "target residency",
        "latency request",
        "disabled states",
        "sleep length",
        "tick running",
        "residency",
        "reason of teo_ng",
    ):
        assert word in comparison["text"]


def test_another_seed_is_another_stream(proof: dict[str, Any]) -> None:
    _, other = prove("--periods", str(PERIODS), "--seed", "2", "--only", "teo")
    (teo,) = [c for c in proof["comparisons"] if c["mainline"] == "teo"]
    assert other["comparisons"][0]["counts"] != teo["counts"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--periods", "0"], 2),
        (["--seed", "-1"], 2),
        (["--teo", "/nonexistent/teo.c"], 1),
        (["--governors", "nosuch"], 2),
        (["--governors", "teo_ng,nosuch"], 2),
    ],
)
def test_bad_input_gets_one_sentence(arguments: list[str], code: int) -> None:
    done = command.run("experiment", "equality", *arguments)
    assert done.returncode == code
    assert "error: " in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
