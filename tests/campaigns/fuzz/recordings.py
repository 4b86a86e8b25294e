# SPDX-License-Identifier: GPL-2.0
"""Fuzz the commands with recordings that are damaged by intent.

    PYTHONPATH=tools:. build/venv/bin/python -m tests.campaigns.fuzz.recordings --count 10000

Each input goes through one command, in this process. The commands may refuse it in one sentence.
They may not show figures that contradict each other, end with a traceback, or take longer than
60 s. An input that fails is kept in build/fuzz/recordings, and named by its number: --first NUMBER
--count 1 makes it again.
"""

import argparse
import contextlib
import faulthandler
import io
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any
from unittest import mock

from cpuidle_lab.cli import main as command
from cpuidle_lab.figures.invariants import Facts, broken
from cpuidle_lab.replay.fidelity import Apart, Returned
from tests.campaigns.fuzz.damage import make
from tests.unit.tracedat import TOP

LIMIT_S = 60
KEPT = TOP / "build" / "fuzz" / "recordings"

COMMANDS: dict[str, Callable[[Path], list[object]]] = {
    "report": lambda path: ["report", path, "--json"],
    "compare": lambda path: [
        "compare", path, "--json", "--no-instructions", "--no-mainline", "--governors", "menu_ng",
        "--worst", 3,
    ],
    "check": lambda path: ["replay", path, "--json", "--check", "--jobs", 1],
    "same-points": lambda path: [
        "replay", path, "--json", "--same-points", "--governors", "wteo", "--jobs", 1,
    ],
    "export": lambda path: ["export", path, "--json", "--perfetto", path.parent / "out.pftrace"],
}  # fmt: skip

# Control characters, a path that the user has not given, and a sentence that ends twice.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Finding(Exception):  # noqa: N818
    """An answer that may not be."""


# ---- What must be true of an answer ----


def _no_number(text: str) -> float:
    raise Finding(f"the JSON has {text}")


def _demand(broken_rules: Sequence[str], where: str) -> None:
    if broken_rules:
        raise Finding(f"{where}: contradicts: {'; '.join(broken_rules)}")


def judge_report(found: dict[str, Any]) -> None:
    """Hold the figures of `report` against each other.

    Raises:
        Finding: they contradict themselves.
    """
    for run in found["runs"]:
        if run["broken"]:
            continue
        values, states = run["metrics"], run["states"]
        entries = [state["entries"] for state in states]
        energy = [state["energy_mj"] for state in states]
        facts = Facts(
            regret=values["regret"],
            cost_pj=values["power_mw"],
            oracle_pj=values["oracle_mw"],
            counts={"periods": (values["periods"], sum(entries))},
        )
        if values["energy_mj"] is not None and None not in energy:
            facts.parts["energy"] = energy, values["energy_mj"]
        for name in ("idle_share", "short", "overslept", "above", "below", "aborted"):
            if values[name] is not None and not -1e-6 <= values[name] <= 100 + 1e-6:
                raise Finding(f"report: {name} is {values[name]} %")
        _demand(broken(facts), "report")


def judge_compare(found: dict[str, Any]) -> None:
    """Hold the figures of `compare` against each other.

    Raises:
        Finding: they contradict themselves.
    """
    recorded = {one["trace"]: one["intervals"] for one in found["traces"]}
    least = {one["trace"]: math.inf for one in found["traces"]}
    for one in found["results"]:
        values = one["metrics"]
        if one["broken"] or values["power_mw"] is None:
            continue
        if one["governor"] == "oracle":
            least[one["trace"]] = values["power_mw"]
        decisions = sum(one["reasons"].values())
        if one["kind"] == "recorded":  # no reason is recorded without the module
            decisions = round(values["decisions_per_interval"] * values["intervals"])
        facts = Facts(
            regret=values["regret"],
            parts={"decisions": ([sum(row) for row in one["chosen_ideal"]], decisions)},
        )
        _demand(broken(facts), f"compare, {one['governor']}")
        if values["intervals"] > recorded[one["trace"]]:
            raise Finding(f"compare: plays {values['intervals']} of {recorded[one['trace']]}")
    # There a note says that the recorder had states that the oracle was not allowed.
    unlike = {one["trace"] for one in found["traces"] if "request" in one["withheld"]}
    for one in found["results"]:
        if one["kind"] == "recorded" and one["trace"] in unlike:
            continue
        power = one["metrics"]["power_mw"]
        if power is not None and power < least[one["trace"]] * (1 - 1e-6) < math.inf:
            raise Finding(f"compare: {one['governor']} has less power than the oracle")


def judge_replay(found: Any) -> None:
    """Hold the figures of `replay` against each other.

    Raises:
        Finding: they contradict themselves.
    """
    rows = found["decisions"] if isinstance(found, dict) else found
    for one in rows:
        if "same" in one and one["same"] + one["deeper"] + one["shallower"] != one["decisions"]:
            raise Finding("replay: counts do not sum up to all decisions")
        if "identical" in one and not one["identical"] <= one["compared"] <= one["decisions"]:
            raise Finding("replay: compares more decisions than there are")


def judge_export(found: dict[str, Any]) -> None:
    """Hold the figures of `export` against each other.

    Raises:
        Finding: they contradict themselves.
    """
    if Path(found["file"]).stat().st_size != found["bytes"]:
        raise Finding("export: the file has another size")


JUDGES: dict[str, Callable[[Any], None]] = {
    "report": judge_report, "compare": judge_compare, "check": judge_replay,
    "same-points": judge_replay, "export": judge_export,
}  # fmt: skip


def judge(name: str, code: int, out: str, said: str, folder: Path) -> str:
    """Judge what a command printed.

    Returns:
        What came of the input, in a word.

    Raises:
        Finding: it may not be.
    """
    if code == 0 or (out and name in ("report", "compare", "check")):
        found = json.loads(out, parse_constant=_no_number)
        JUDGES[name](found)
        return "figures" if code == 0 else "said"
    if code not in (1, 2):
        raise Finding(f"exit code {code}")
    last = said.rstrip("\n").rpartition("\n")[2]
    if not last.startswith("cpuidle-lab: error: ") or len(last) > 1000:
        raise Finding(f"is no sentence: {last[:1000]!r}")
    if CONTROL.search(last):
        raise Finding(f"has control characters: {last!r}")
    rest = last.replace(str(folder), "")
    if ".cpuidle-lab-" in rest or "/tmp" in rest or "please report" in rest:
        raise Finding(f"names what the user does not know: {last}")
    return "refused"


# ---- Running ----


class _Here(Apart[Returned]):
    """A call of a function in this process."""

    def __init__(self, function: Callable[..., Returned]) -> None:
        self._of = function

    def begin(self, *arguments: object) -> None:
        self._arguments = arguments

    def __exit__(self, *error: object) -> None:
        pass

    def result(self, path: Path) -> Returned:
        return self._of(*self._arguments)


# Modules that start such a process by this name.
_STARTS = ("replay.fidelity", "compare.model")


@contextlib.contextmanager
def one_process() -> Iterator[None]:
    """Let replay of recorded states run in this process: another one has its imports to do."""
    with contextlib.ExitStack() as stack:
        for name in _STARTS:
            stack.enter_context(mock.patch(f"cpuidle_lab.{name}.Apart", _Here))
        yield


def run_one(seed: int, number: int, folder: Path) -> str:
    """Make an input and give it to a command; returns what came of it.

    Raises:
        Finding: the answer may not be.
    """
    chance = random.Random(f"{seed} {number}")
    path = make(folder, chance)
    name = chance.choice(list(COMMANDS))
    if path is None:
        return "not made"
    out, said = io.StringIO(), io.StringIO()
    begin = time.monotonic()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
            code = command([str(word) for word in COMMANDS[name](path)])
    except BaseException as error:
        where = traceback.format_exc()
        raise Finding(f"{name} of {path.name}: {where}") from error
    if code > 128:  # the campaign itself is to end
        raise SystemExit(code)
    if time.monotonic() - begin > LIMIT_S:
        raise Finding(f"{name} of {path.name} took longer than {LIMIT_S} s")
    try:
        what = judge(name, code, out.getvalue(), said.getvalue(), folder)
    except Finding as error:
        raise Finding(f"{name} of {path.name}: {error}") from error
    return f"{name} of {path.suffix[1:]}: {what}"


def run(seed: int, numbers: Sequence[int], note: Callable[[int], None]) -> tuple[Counter[str], int]:
    """Run inputs; print and keep what is found.

    Args:
        seed: of all of them.
        numbers: of the inputs.
        note: called with the number of each.

    Returns:
        How many came to what, and the number of findings.
    """
    came: Counter[str] = Counter()
    findings = 0
    with one_process():
        for number in numbers:
            note(number)
            folder = Path(tempfile.mkdtemp(prefix="fuzz-recordings-"))
            faulthandler.dump_traceback_later(LIMIT_S + 30, exit=True, file=2)
            try:
                came[run_one(seed, number, folder)] += 1
            except Finding as error:
                findings += 1
                print(f"input {number} of seed {seed}: {error}", flush=True)
                keep(folder, seed, number)
            finally:
                faulthandler.cancel_dump_traceback_later()
                shutil.rmtree(folder, ignore_errors=True)
    return came, findings


def keep(folder: Path, seed: int, number: int) -> None:
    """Keep the input of a finding."""
    target = KEPT / f"{seed}-{number}"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    print(f"kept in {target}", flush=True)


def campaign(seed: int, first: int, count: int) -> int:
    """Run inputs in processes of their own, so that one that crashes ends only that.

    Returns:
        1 if something was found.
    """
    came: Counter[str] = Counter()
    failed = False
    at, end = first, first + count
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        while at < end:
            words = [sys.executable, "-m", __spec__.name, "--seed", str(seed), "--first", str(at),
                     "--count", str(min(500, end - at)), "--result", str(result)]  # fmt: skip
            code = subprocess.run(words, check=False).returncode
            if code > 128:
                return code
            told = json.loads(result.read_text())
            came += Counter(told["came"])
            failed |= told["findings"] > 0
            at = told["at"] + 1
            if not told["complete"]:
                print(f"input {told['at']} of seed {seed}: the process ended with {code}")
                failed = True
    for what, times in sorted(came.items()):
        print(f"{times:7,} {what}")
    return int(failed)


def _part(args: argparse.Namespace) -> int:
    """Run inputs in this process, and note in a file how far it is."""

    def note(number: int, **more: object) -> None:
        told = {"at": number, "came": {}, "findings": 0, "complete": False, **more}
        args.result.write_text(json.dumps(told))

    numbers = range(args.first, args.first + args.count)
    came, findings = run(args.seed, numbers, note)
    note(numbers[-1], came=came, findings=findings, complete=True)
    return int(findings > 0)


def main() -> int:
    """Run the campaign of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    today = int(f"{date.today():%Y%m%d}")
    parser.add_argument("--seed", type=int, default=today, help="default: the day")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--count", type=int, default=10_000, help="how many inputs")
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    faulthandler.enable()
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    if args.result:
        return _part(args)
    print(f"seed {args.seed}", flush=True)
    return campaign(args.seed, args.first, args.count)


if __name__ == "__main__":
    sys.exit(main())
