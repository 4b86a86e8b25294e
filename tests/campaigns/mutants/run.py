# SPDX-License-Identifier: GPL-2.0
"""The governors' unit tests notice a wrong comparison, operator or number.

Changes each comparison, each logical operator and each named number of the governors' code, one
at a time, builds the userspace cases and runs them, at last under the sanitizers. A change that
no case notices must be listed in survivors.toml, with the reason. Works on a copy of the sources.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from threading import local

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import USAGE, UserError
from experiments import proofs
from tests.campaigns.mutants.mutants import Mutant, find
from tests.logic import logic

SURVIVORS = Path(__file__).with_name("survivors.toml")
BUILD = TOP / "build/mutation"
# Share of the mutants that must be killed.
NEEDED_PERCENT = 90.0
# Processor time: the cases take a fraction of a second, a loop without end takes this.
LIMIT_S = 5
JOBS = 2
# Builds of the cases: quickly, and what survives that, under the sanitizers.
MODES = ("fast", "asan")

KILLED, SURVIVED, UNBUILDABLE = "killed", "survived", "unbuildable"

EXAMPLES = {
    "": "all of them",
    "--only governors/gate/gate.c": "one file",
    "--list": "print the mutants",
}


@dataclass(frozen=True)
class MutantResult:
    """The fate of a mutant.

    Attributes:
        mutant: the change.
        fate: KILLED, SURVIVED or UNBUILDABLE.
        by: the first case that failed, or what else ended the run; "" if it survived.
    """

    mutant: Mutant
    fate: str
    by: str


class Copy:
    """A copy of the sources in which one file at a time is changed and the cases are run.

    Attributes:
        folder: where it is.
    """

    def __init__(self, folder: Path) -> None:
        """Copy the sources."""
        self.folder = folder
        for name in ("governors", "kunit", "module/evacuate/policy", "tools/native/former"):
            shutil.copytree(TOP / name, folder / name, ignore=shutil.ignore_patterns("*.o", ".*"))
        self._changed: tuple[Path, str] | None = None

    def build(self, mode: str) -> str:
        """Build the cases; return what the compiler said against it, "" if nothing."""
        command = ["make", "-s", "-C", str(self.folder / "kunit"), f"MODE={mode}", "WARN=-w"]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.stderr.strip() or "failed" if done.returncode else ""

    def run(self, mode: str) -> str:
        """Run the cases; return the first that failed, or what else ended it; "" if all passed."""
        program = self.folder / "build/unit" / mode / "run-kunit"
        limited = ["sh", "-c", f'ulimit -t {LIMIT_S}; exec "$0"', str(program)]
        done = subprocess.run(limited, capture_output=True, text=True, errors="replace")
        if done.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
            return "no end"
        if not done.returncode:
            return ""
        failed = (line for line in done.stdout.splitlines() if line.startswith("    not ok"))
        return next(failed, "crash").split()[-1]

    def restore(self) -> None:
        """Undo the last change."""
        if self._changed:
            path, text = self._changed
            path.write_text(text, encoding="utf-8")
            self._changed = None

    def judge(self, mutant: Mutant) -> MutantResult:
        """Apply a change instead of the last one; build and run."""
        path = self.folder / mutant.path
        if self._changed and self._changed[0] != path:
            self.restore()
        text = self._changed[1] if self._changed else path.read_text(encoding="utf-8")
        self._changed = (path, text)
        path.write_text(mutant.apply(text), encoding="utf-8")
        for mode in MODES:
            if complaint := self.build(mode):
                return MutantResult(mutant, UNBUILDABLE, complaint.splitlines()[0])
            if by := self.run(mode):
                return MutantResult(mutant, KILLED, by)
        return MutantResult(mutant, SURVIVED, "")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    proofs.shared(parser, json=False)
    parser.add_argument("--only", metavar="FILE", help="change this source only")
    parser.add_argument("--list", action="store_true", help="only list the mutants")


def sources(only: str | None) -> list[str]:
    """Return the governors' sources and headers, relative to the top, in a fixed order.

    Raises:
        UserError: there is no such source among them.
    """
    found = [path.relative_to(TOP).as_posix() for path in logic()]
    if only is None:
        return found
    name = Path(only).as_posix().removeprefix(f"{TOP}/")
    if name not in found:
        raise UserError(f"{only} is no source of a governor", USAGE)
    return [name]


def read_survivors(path: Path = SURVIVORS) -> dict[tuple[str, str], str]:
    """Return the reasons by source and "function: changed line"."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return {(source, key): why for source, kept in table.items() for key, why in kept.items()}


def key_of(mutant: Mutant) -> tuple[str, str]:
    """Return what a mutant is called in survivors.toml: source, and "function: changed line"."""
    return mutant.path, f"{mutant.place}: {mutant.line}" if mutant.place else mutant.line


def judge_all(mutants: Sequence[Mutant]) -> Iterator[MutantResult]:
    """Judge the mutants, some at a time, in copies that vanish at the end.

    Raises:
        UserError: the unchanged cases do not build or do not pass.
    """
    BUILD.mkdir(parents=True, exist_ok=True)
    mine = local()

    def judge(mutant: Mutant) -> MutantResult:
        if not hasattr(mine, "copy"):
            mine.copy = Copy(Path(tempfile.mkdtemp(dir=scratch)))
        copy: Copy = mine.copy
        return copy.judge(mutant)

    with tempfile.TemporaryDirectory(dir=BUILD) as scratch:
        first = Copy(Path(tempfile.mkdtemp(dir=scratch)))
        for mode in MODES:
            if wrong := first.build(mode) or first.run(mode):
                raise UserError(f"the unchanged cases fail: {wrong}")
        with ThreadPoolExecutor(JOBS) as pool:
            try:
                for future in as_completed([pool.submit(judge, mutant) for mutant in mutants]):
                    yield future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def complaints(
    results: Sequence[MutantResult], listed: dict[tuple[str, str], str], chosen: Sequence[str]
) -> list[str]:
    """Return what is wrong with survivors.toml and with the share, a sentence each."""
    found = []
    fates = {key_of(result.mutant): result.fate for result in results}
    for key, why in listed.items():
        if key[0] not in chosen:
            continue
        if fates.get(key) != SURVIVED:
            found.append(f"listed, but {fates.get(key, 'there is no such change')}: {shown(key)}")
        elif not why.strip():
            found.append(f"listed without a reason: {shown(key)}")
    found += [
        f"survived, but is not listed: {shown(key)}"
        for key, fate in fates.items()
        if fate == SURVIVED and key not in listed
    ]
    if percent(results) < NEEDED_PERCENT:
        found.append(f"only {percent(results):.1f} % killed, {NEEDED_PERCENT} % needed")
    return found


def shown(key: tuple[str, str]) -> str:
    """Return a key for people."""
    return f"{key[0]}: {key[1]}"


def percent(results: Sequence[MutantResult]) -> float:
    """Return the share that was killed, in percent; what did not build does not count."""
    built = [result for result in results if result.fate != UNBUILDABLE]
    return 100.0 * sum(r.fate == KILLED for r in built) / len(built) if built else 100.0


def report(results: Sequence[MutantResult], wrong: Sequence[str], seconds: float) -> None:
    """Print the shares by source, and what is wrong."""
    for path in sorted({result.mutant.path for result in results}):
        of_path = [result for result in results if result.mutant.path == path]
        killed = sum(result.fate == KILLED for result in of_path)
        built = sum(result.fate != UNBUILDABLE for result in of_path)
        print(f"  {path:36} {percent(of_path):5.1f} % of {built:4} killed ({built - killed} left)")
    print(f"mutants killed: {percent(results):.1f} % of {len(results)} in {seconds:.0f} s")
    for sentence in wrong:
        print(f"WRONG {sentence}")


def as_json(results: Sequence[MutantResult], wrong: Sequence[str]) -> str:
    """Return everything as JSON."""
    return json.dumps(
        {
            "passed": not wrong,
            "percent": round(percent(results), 2),
            "needed_percent": NEEDED_PERCENT,
            "wrong": wrong,
            "mutants": [
                {
                    "source": result.mutant.path,
                    "line": result.mutant.number,
                    "change": key_of(result.mutant)[1],
                    "fate": result.fate,
                    "by": result.by,
                }
                for result in results
            ],
        },
        indent=1,
    )


def run(args: argparse.Namespace) -> int:
    """Change the sources, run the cases; return the exit code."""
    os.nice(10)  # others may have the machine first
    chosen = sources(args.only)
    mutants = [m for path in chosen for m in find(path, (TOP / path).read_text(encoding="utf-8"))]
    if args.list:
        for mutant in mutants:
            print(shown(key_of(mutant)))
        return 0
    began = time.monotonic()
    results = []
    for result in judge_all(mutants):
        results.append(result)
        if not args.json and result.fate != KILLED:
            print(f"{result.fate:12} {shown(key_of(result.mutant))}", flush=True)
    order = {mutant: number for number, mutant in enumerate(mutants)}
    results.sort(key=lambda result: order[result.mutant])
    wrong = complaints(results, read_survivors(), chosen)
    if args.json:
        print(as_json(results, wrong))
    else:
        report(results, wrong, time.monotonic() - began)
    return 1 if wrong else 0
