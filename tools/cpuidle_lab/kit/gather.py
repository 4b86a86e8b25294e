# SPDX-License-Identifier: GPL-2.0
"""The steps of a kit: commands of this program, each with the file that it leaves."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base.cache import TOP

# The governors of a comparison on the machine, those that it has.
GOVERNORS = ("menu", "teo", "teo_ng", "wteo")

RECORDING = "trace.dat"
# The command that makes the figures of the recording.
FIGURES = ("compare", RECORDING, "--governors", "wteo", "--no-instructions", "--json")

# A round has a run of each governor.
ROUNDS = 5

# The kernel's command line can name disks and hosts.
_COMMAND_LINE = re.compile(r'("command_line": )"(?:[^"\\]|\\.)*"')

Run = Callable[[Sequence[str], Path], tuple[int, str, str]]


@dataclass(frozen=True)
class Step:
    """A command, and its file.

    Attributes:
        name: of the part.
        words: of the command line, run in the folder of the kit.
        output: file that gets what the command prints; "": the command writes its own.
        codes: exit codes that are no failure.
        needs: the step whose file it reads; without that it is left out.
    """

    name: str
    words: tuple[str, ...]
    output: str = ""
    codes: tuple[int, ...] = (0,)
    needs: str = ""


def steps(duration_s: float, governors: Sequence[str]) -> list[Step]:
    """Return the steps.

    Args:
        duration_s: of the recording, and of each run of the comparison.
        governors: that the machine has; two make a comparison.
    """
    seconds = f"{duration_s:g}"
    there = [name for name in GOVERNORS if name in governors]
    found = [
        Step("doctor", ("doctor", "--json"), "doctor.json", (0, 1)),
        Step("before", ("dump", "-o", "before.txt")),
        Step(
            "recording",
            ("capture", "--stock", "--scrub", "--duration", seconds, "-o", RECORDING),
        ),
        # The reader of the kit makes them, too, where this Python lacks the packages.
        Step("figures", FIGURES, "figures.json", needs="recording"),
    ]
    if len(there) > 1:
        words = ("ab", "--governors", ",".join(there), "--rounds", str(ROUNDS), "--runs-only",
                 "-o", "ab.jsonl")  # fmt: skip
        found.append(Step("ab", (*words, "--", "sleep", seconds)))
    return [*found, Step("after", ("dump", "-o", "after.txt"))]


def run(words: Sequence[str], folder: Path) -> tuple[int, str, str]:
    """Run a command of this program; return its exit code, and what it printed."""
    path = os.pathsep.join(filter(None, (str(TOP / "tools"), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-m", "cpuidle_lab", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def why(said: str) -> str:
    """Return the last line of what a command said, without the program's name."""
    last = [line for line in said.splitlines() if line.strip()][-1:] or ["it said nothing"]
    return last[0].removeprefix("cpuidle-lab: ").removeprefix("error: ")


def gather(
    folder: Path, plan: Sequence[Step], run: Run, tell: Callable[[str], None]
) -> dict[str, str]:
    """Run the steps; return those that failed, with the reason.

    Args:
        folder: an empty one, for the files.
        plan: the steps.
        run: runs a command.
        tell: shows what is being done.
    """
    missing: dict[str, str] = {}
    left_out: set[str] = set()
    for step in plan:
        if step.needs in missing or step.needs in left_out:
            left_out.add(step.name)
            continue
        tell(f"cpuidle-lab {' '.join(step.words)}")
        code, out, err = run(step.words, folder)
        if code not in step.codes:
            missing[step.name] = why(err)
        elif step.output:
            (folder / step.output).write_text(out, encoding="utf-8")
    if (comparison := folder / "ab.jsonl").exists():
        text = comparison.read_text(encoding="utf-8")
        comparison.write_text(_COMMAND_LINE.sub(r'\1""', text), encoding="utf-8")
    return missing
