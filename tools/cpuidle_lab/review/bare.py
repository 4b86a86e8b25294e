# SPDX-License-Identifier: GPL-2.0
"""Patches applied to the code alone: comments and empty lines are left out of both.

Maintainers reword comments when they merge, and patches are posted beside each other. So a hunk is
split into its changes, and each is placed by the lines of code around it.
"""

import re
from collections.abc import Sequence
from functools import cache, lru_cache

# As many lines of code around a change are looked at, and so many of them must be there.
_CONTEXT = 3

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
# A line inside of a comment, whose begin a hunk may not show; `*p = 1;` is code.
_INSIDE = re.compile(r"^\s*\*(?: |\t|/|$)")

Lines = tuple[str, ...]
# Code before it, old code, new code, and code behind it.
Change = tuple[Lines, Lines, Lines, Lines]


@lru_cache(maxsize=64)
def code(text: str) -> Lines:
    """Return the lines of C that hold code, without comments."""
    bare = _COMMENT.sub("", text)
    return tuple(line.rstrip() for line in bare.split("\n") if line.strip())


def text(source: str) -> str:
    """Return C without comments and empty lines."""
    return "\n".join([*code(source), ""])


def _of_hunk(lines: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the lines of a hunk that hold code, with their kinds."""
    found, inside = [], False
    for kind, line in lines:
        text = re.sub(r"/\*.*?\*/", "", line)
        if inside or _INSIDE.match(text):
            inside = inside and "*/" not in text
            continue
        head, opens, _ = text.partition("/*")
        inside = bool(opens)
        head = head.partition("//")[0].rstrip()
        if head.strip():
            found.append((kind, head))
    return found


@cache
def changes(lines: tuple[tuple[str, str], ...]) -> list[Change]:
    """Return the changes of a hunk: code before it, old code, new code, and code behind it.

    Args:
        lines: kind (" ", "-" or "+") and text of each line.
    """
    rows = _of_hunk(lines)
    found = []
    at = 0
    while at < len(rows):
        if rows[at][0] == " ":
            at += 1
            continue
        end = at
        while end < len(rows) and rows[end][0] != " ":
            end += 1
        old = tuple(text for kind, text in rows[at:end] if kind == "-")
        new = tuple(text for kind, text in rows[at:end] if kind == "+")
        # Context is what stands there before the hunk's other changes are made.
        lead = [text for kind, text in rows[:at] if kind != "-"][-_CONTEXT:]
        trail = [text for kind, text in rows[end:] if kind != "+"][:_CONTEXT]
        if old != new:
            found.append((tuple(lead), old, new, tuple(trail)))
        at = end
    return found


def _places(lines: Sequence[str], wanted: Lines) -> list[int]:
    size = len(wanted)
    return [at for at in range(len(lines) - size + 1)
            if lines[at] == wanted[0] and tuple(lines[at : at + size]) == wanted]  # fmt: skip


def put(lines: list[str], change: Change) -> bool:
    """Make a change in lines of code, if there is one place for it alone; return whether."""
    lead, old, new, trail = change
    # Without old lines the context alone tells the place.
    least = 0 if old else 2
    for size in range(_CONTEXT, least - 1, -1):
        for before, behind in ((size, size), (size, least), (least, size)):
            head, tail = lead[len(lead) - min(before, len(lead)) :], trail[:behind]
            if not head and not tail and len(old) < 2:
                continue
            found = _places(lines, (*head, *old, *tail))
            if len(found) == 1:
                at = found[0] + len(head)
                lines[at : at + len(old)] = new
                return True
    return False
