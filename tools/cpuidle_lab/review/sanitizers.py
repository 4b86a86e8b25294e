# SPDX-License-Identifier: GPL-2.0
"""Rules that a compiler or an emulator checks: no overflow (UBSan), and no value that is not set.

A governor plays odd inputs in a program of its own, as for the counting of instructions. Signed
numbers wrap in the kernel; an overflow is an error of a governor nevertheless.
"""

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import scratch
from cpuidle_lab.base.packages import COMPILER
from cpuidle_lab.replay import build, instructions
from cpuidle_lab.replay.candidates import Candidate
from cpuidle_lab.review.contract import odd, rule
from cpuidle_lab.review.play import SIDES, Pair
from cpuidle_lab.review.stream import Spec, columns_of, of_spec, table_of

OVERFLOW = "no overflow, shift or index out of bounds (UBSan)"
UNSET = "no use of a value before it is set (valgrind)"

_CHECKS = (
    "-fno-wrapv",
    "-fno-wrapv-pointer",
    "-fsanitize=signed-integer-overflow,integer-divide-by-zero,shift-exponent,bounds",
)
_UBSAN = replace(build.COUNTER, file="ubsan", title="the governors with UBSan",
                 flags=(*build.COUNTER.flags, *_CHECKS))  # fmt: skip
_VALGRIND = ("valgrind", "--tool=memcheck", "--leak-check=no", "--track-origins=yes")
# Valgrind takes a second for each.
_FEW = ("targets of 0", "targets of 2^32 us", "targets that are not sorted", "ten states")
_LONGEST_S = 300.0

_ERROR = re.compile(r"([^\s:]+):(\d+):\d+: runtime error: (.*)")
_FRAME = re.compile(r"\((\w+\.[ch]):(\d+)\)")
# Lines of valgrind's begin so; one without text is between two errors.
_PID = re.compile(r"^==\d+== ?")


def files_of(who: Candidate) -> set[str]:
    """Return the names of the files that a governor's own code may be in."""
    name, folder = who.governor.name, who.governor.folder
    if "@" in who.governor.spec and not folder:
        return {f"{name}.c", "gov.h"}
    top = folder or TOP / "governors"
    return {path.name for one in ("common", name) for path in (top / one).glob("*.[ch]")}


def overflows(said: str, files: set[str]) -> list[str]:
    """Return the errors in some files that UBSan tells of, as FILE:LINE: TEXT."""
    found = [(Path(path).name, line, text) for path, line, text in _ERROR.findall(said)]
    return [f"{name}:{line}: {text}" for name, line, text in found if name in files]


def unset(said: str, files: set[str]) -> list[str]:
    """Return the errors with some files in their stack that valgrind tells of, likewise."""
    found = []
    for block in "\n".join(_PID.sub("", line) for line in said.splitlines()).split("\n\n"):
        places = [place for place in _FRAME.findall(block) if place[0] in files]
        if places and "uninitialised" in block:
            found.append(f"{places[0][0]}:{places[0][1]}: {block.strip().splitlines()[0].strip()}")
    return found


def _said(command: Sequence[str | Path], who: Candidate, spec: Spec) -> str:
    """Return the messages of a program that plays a spec.

    Raises:
        UserError: it does not end.
    """
    with scratch() as folder:
        data = folder / "intervals"
        instructions.write_chunk(data, who.governor, table_of(spec), 0, columns_of(of_spec(spec)),
                                 dict(who.settings))  # fmt: skip
        try:
            done = subprocess.run([*command, who.governor.name, data], capture_output=True,
                                  text=True, errors="replace", timeout=_LONGEST_S,
                                  check=False)  # fmt: skip
        except subprocess.TimeoutExpired:
            raise UserError(f"{command[0]} took longer than {_LONGEST_S:.0f} s") from None
    return done.stderr


def _judged(
    text: str, pair: Pair, specs: Sequence[tuple[str, Spec]], head: Sequence[str],
    product: build.Product, errors: Callable[[str, set[str]], list[str]],
) -> dict[str, Any]:  # fmt: skip
    """Return the verdict on a rule, by the first input on which it is broken."""
    found = dict.fromkeys(SIDES, "")
    case = None
    for side in SIDES:
        who = pair.sides[side]
        command: list[str | Path] = [*head, instructions.program(who.governor, product)]
        for name, spec in specs:
            if broken := errors(_said(command, who, spec), files_of(who)):
                found[side] = f"{broken[0]}: {name}"
                case = spec if side == "after" else None
                break
    return rule(text, found, case)


def _compiles() -> bool:
    """Return whether there is a compiler with UBSan's library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        return False
    with scratch() as folder:
        (folder / "one.c").write_text("int main(void) { return 0; }\n")
        command = [compiler, *_CHECKS, str(folder / "one.c"), "-o", str(folder / "one")]
        return not subprocess.run(command, capture_output=True, check=False).returncode


def examine(pair: Pair) -> dict[str, Any]:
    """Return the verdicts on both rules, and which were not checked, with the reason.

    Raises:
        UserError: a governor does not compile, or does not end.
    """
    rules, skipped = [], []
    specs = [*odd()]
    if _compiles():
        rules.append(_judged(OVERFLOW, pair, specs, (), _UBSAN, overflows))
    else:
        skipped.append(f"{OVERFLOW}: {COMPILER[0]} or its libubsan is not installed")
    if shutil.which(_VALGRIND[0]):
        few = [one for one in specs if one[0] in _FEW]
        rules.append(_judged(UNSET, pair, few, _VALGRIND, build.COUNTER, unset))
    else:
        skipped.append(f"{UNSET}: valgrind is not installed")
    return {"rules": rules, "skipped": skipped}
