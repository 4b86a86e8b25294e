# SPDX-License-Identifier: GPL-2.0
"""A pass over LLVM's text that lets the kernel's verifier accept a governor.

The verifier follows every value that it knows along every path, and gives up after a million
instructions. All that a governor touches lies in an arena, where any address is safe, so the values
need not be known. After each place where control flow merges integers (phi, select) the pass adds
a zero that only the run time knows: the verifier then finds the paths equal and walks one of them.

Local arrays and constant tables go to the arena, too: the verifier allows no index that it cannot
bound into the stack or into constants.
"""

import re

from cpuidle_lab.base.errors import UserError

FRAME = 512  # bytes, CIL_FRAME of bpf/cil_bpf.h

_PHI = re.compile(r"^\s+(%[\w.\-\"]+) = phi (i\d+) ")
_SELECT = re.compile(r"^\s+(%[\w.\-\"]+) = select i1 [^,]+, (i\d+) ")
_ANY_PHI = re.compile(r"^\s+%[\w.\-\"]+ = phi ")
_ARRAY = re.compile(r"^\s+(%[\w.\-\"]+) = alloca \[(\d+) x i(\d+)\]")
_TABLE = re.compile(
    r"^(@[\w.\-\"]+) = internal (?:unnamed_addr )?constant (?=\[\d+ x i\d+\] )", re.M
)
_LABEL = re.compile(r"^[\w.\-\"]+:")
_DEBUG = re.compile(r", !dbg !\d+")
_ADD = 'asm sideeffect "$0 += $2", "=r,0,r"'


def _forgotten(name: str, kind: str) -> list[str]:
    """Return the lines that make a value, unknown to the verifier, of its raw form."""
    if kind == "i64":
        return [f"  {name} = call i64 {_ADD}(i64 {name}.raw, i64 %cil.zero)"]
    return [
        f"  {name}.wide = zext {kind} {name}.raw to i64",
        f"  {name}.blind = call i64 {_ADD}(i64 {name}.wide, i64 %cil.zero)",
        f"  {name} = trunc i64 {name}.blind to {kind}",
    ]


def _is_debug(line: str) -> bool:
    return line.lstrip().startswith("#dbg")


class _Function:
    """Memory of the pass within a function."""

    def __init__(self, starts: bool) -> None:
        self.starts = starts
        self.moved: set[str] = set()
        self.pending: list[str] = []


def _tables_moved(text: str) -> str:
    for found in _TABLE.finditer(text):
        name = found[1]
        there = f"{name} = internal addrspace(1) global "
        uses = text.replace(found[0], there)
        cast = f"ptr addrspacecast (ptr addrspace(1) {name} to ptr)"
        text = re.sub(rf"ptr (?:(?:noundef|nonnull) )*{re.escape(name)}\b", cast, uses)
    return text


def forget_values(text: str) -> str:
    """Return LLVM's text of a program with values forgotten, its local arrays in the arena.

    Raises:
        UserError: the local arrays of all functions together do not fit.
    """
    lines = _tables_moved(text).split("\n")
    out: list[str] = []
    frame = 0
    here = _Function(False)
    for at, line in enumerate(lines):
        if line.startswith("define"):
            here = _Function(True)
            out.append(line)
            continue
        if here.starts and not _is_debug(line) and not _LABEL.match(line):
            out.append("  %cil.zero = load volatile i64, ptr @cil_zero, align 8")
            here.starts = False
        if array := _ARRAY.match(line):
            debug = next(m.group() for rest in lines[at:] if (m := _DEBUG.search(rest)))
            out.append(f"  {array[1]} = call ptr @cil_frame(i32 {frame}){debug}")
            frame += (int(array[2]) * int(array[3]) // 8 + 7) // 8 * 8
            here.moved.add(array[1])
            continue
        if "llvm.lifetime" in line and any(f"{name})" in line for name in here.moved):
            continue
        if here.pending and not _ANY_PHI.match(line) and not _is_debug(line):
            out += here.pending
            here.pending = []
        found = _PHI.match(line) or _SELECT.match(line)
        if not found:
            out.append(line)
            continue
        out.append(line.replace(f"{found[1]} =", f"{found[1]}.raw =", 1))
        # Nothing may stand between two phis.
        after = here.pending if _PHI.match(line) else out
        after += _forgotten(found[1], found[2])
    if frame > FRAME:
        raise UserError(f"the policy's local arrays have {frame} bytes, and {FRAME} is the most")
    return "\n".join(out)
