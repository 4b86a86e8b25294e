# SPDX-License-Identifier: GPL-2.0
"""Lines of C as the kernel lays them out: aligned to open parentheses, filled to 80 columns."""

import re

from cpuidle_lab.patch.pieces import closing, split, text_of, tokens

_TAB = 8
WIDTH = 80


def _column(text: str) -> int:
    return len(text.rpartition("\n")[2].expandtabs(_TAB))


def _indent(column: int) -> str:
    return "\t" * (column // _TAB) + " " * (column % _TAB)


def aligned(code: str) -> str:
    """Return code whose lines within parentheses begin behind the open one."""
    done = ""
    stack: list[int | None] = []
    parts = tokens(code)
    for index, token in enumerate(parts):
        text = token.text
        if token.kind == "blank" and "\n" in text and stack and stack[-1] is not None:
            text = text[: text.rindex("\n") + 1] + _indent(stack[-1])
        done += text
        if token.kind == "mark" and text in "([{":
            ends = parts[index + 1].text.startswith("\n") if index + 1 < len(parts) else True
            stack.append(None if text == "{" or ends else _column(done))
        elif token.kind == "mark" and text in ")]}" and stack:
            stack.pop()
    return done


def _filled(head: str, arguments: list[str], tail: str) -> str | None:
    """Return a call over as many lines as it needs; None if an argument is too long."""
    indent = _column(head)
    lines = [head]
    for number, argument in enumerate(arguments):
        last = number + 1 == len(arguments)
        text = argument + ("" if last else ",")
        space = "" if lines[-1] is head or lines[-1] == _indent(indent) else " "
        length = _column(lines[-1]) + len(space + text) + (len(tail) if last else 0)
        if length > WIDTH and space:
            lines.append(_indent(indent))
            space = ""
        lines[-1] += space + text
        if _column(lines[-1]) + (len(tail) if last else 0) > WIDTH:
            return None
        if lines[0] is head:
            head = ""
    return "\n".join(lines)


def filled(code: str) -> str:
    """Return code in which lists in parentheses that are too long or too short are filled."""
    parts = tokens(code)
    at = 0
    while at < len(parts):
        if parts[at].text == "(" and at and parts[at - 1].kind == "name":
            end = closing(parts, at)
            inner = parts[at + 1 : end]
            before, after = text_of(parts[: at + 1]), text_of(parts[end:])
            listed = [re.sub(r"\s+", " ", text_of(one)).strip() for one in split(inner)]
            many = "\n" in text_of(inner) or _column(before + text_of(inner)) > WIDTH
            plain = not any(one.kind == "comment" for one in inner)
            if many and plain and len(listed) > 1 and not text_of(inner).startswith("\n"):
                made = _filled(before, listed, after.partition("\n")[0])
                if made is not None:
                    parts = tokens(made) + parts[end:]
        at += 1
    return text_of(parts)
