# SPDX-License-Identifier: GPL-2.0
"""Takes out of C code what nothing uses: definitions, stores, members, parameters, locals."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from cpuidle_lab.patch.pieces import Piece, Token, closing, names, split, text_of, tokens

_BLANK = ("blank", "comment")
_LOCAL = re.compile(
    r"^\t+(?!return |goto )(?:static )?(?:const )?(?:struct )?\w+ \**(\w+)"
    r"(?:\[[^\]]*\])*(?: = [^;]*)?;\n",
    re.MULTILINE,
)


def _near(parts: Sequence[Token], at: int, step: int) -> Token:
    at += step
    while 0 <= at < len(parts):
        if parts[at].kind not in _BLANK:
            return parts[at]
        at += step
    return Token("blank", "")


def reached(pieces: Sequence[Piece], roots: Iterable[str]) -> list[Piece]:
    """Return the pieces that some names need, each behind those that it needs itself.

    Args:
        pieces: in the order of the files.
        roots: the names.
    """
    by_name: dict[str, list[Piece]] = {}
    for piece in pieces:
        by_name.setdefault(piece.name, []).append(piece)
    needed: set[str] = set()
    queue = [name for name in roots if name in by_name]
    while queue:
        name = queue.pop()
        if name in needed:
            continue
        needed.add(name)
        for piece in by_name[name]:
            queue += [one for one in names(piece.code) if one in by_name]
    found: list[Piece] = []
    seen: set[str] = set()

    def add(name: str) -> None:
        if name in seen:
            return
        seen.add(name)
        for piece in by_name[name]:
            for one in sorted(names(piece.code) & needed, key=list(by_name).index):
                add(one)
            found.append(piece)

    for piece in pieces:
        if piece.name and piece.name in needed:
            add(piece.name)
    return found


def _members(piece: Piece) -> list[str]:
    """Return the members of a struct."""
    parts = tokens(piece.code)
    begin = next(i for i, one in enumerate(parts) if one.text == "{")
    inner = parts[begin + 1 : closing(parts, begin)]
    found = []
    for line in split(inner, ";"):
        words = [one.text for one in line if one.kind == "name"]
        bracket = next((i for i, one in enumerate(line) if one.text == "["), len(line))
        before = [one.text for one in line[:bracket] if one.kind == "name"]
        found += before[-1:] if words else []
    return found


def _owner(parts: Sequence[Token], at: int, code: str) -> str:
    """Return the struct whose member is at an index; "" if it is not told by a variable."""
    base = parts[at - 2]
    if base.kind != "name" or parts[at - 3].text in (".", "->"):
        return ""
    found = re.search(rf"\bstruct (\w+) (?:\w+(?: = [^,;]*)?, )?\**{base.text}\b", code)
    return found[1] if found else ""


def _uses(code: str, *, stores: bool) -> Iterator[tuple[int, str, str]]:
    """Yield index, struct and name of the members that are stored, or of those that are read."""
    parts = tokens(code)
    for at, token in enumerate(parts):
        is_member = token.kind == "name" and at and parts[at - 1].text in (".", "->")
        if is_member and (_near(parts, at, 1).text == "=") == stores:
            yield at, _owner(parts, at, code), token.text


def _read(codes: Iterable[str]) -> set[tuple[str, str]]:
    """Return struct and name of the members that are read, or whose address is taken."""
    return {(owner, name) for code in codes for _, owner, name in _uses(code, stores=False)}


def _without_statement(parts: list[Token], at: int) -> list[Token]:
    """Return the tokens without the store at an index, or the initialiser."""
    if parts[at - 1].text == "." and _near(parts, at - 1, -1).text in ("{", ","):
        end, depth = at, 0
        while depth or parts[end].text not in (",", "}"):
            depth += (parts[end].text in "([{") - (parts[end].text in ")]}")
            end += 1
        end += parts[end].text == ","
        # The white space before it goes, so that what follows keeps its own.
        begin = at - 1 - (parts[at - 2].kind == "blank")
        return parts[:begin] + parts[end:]
    begin = at
    while parts[begin - 1].text not in (";", "{", "}"):
        begin -= 1
    end = at
    while parts[end].text != ";":
        end += 1
    return _unbraced(parts[:begin] + parts[end + 1 :], begin - 1)


def _unbraced(parts: list[Token], at: int) -> list[Token]:
    """Drop the braces around the token at an index if a single statement is left in them."""
    depth = 0
    begin = at
    while begin >= 0:
        depth += (parts[begin].text == "}") - (parts[begin].text == "{")
        if depth < 0:
            break
        begin -= 1
    if begin < 0 or _near(parts, begin, -1).text != ")":
        return parts
    end = closing(parts, begin)
    inner = parts[begin + 1 : end]
    outer = begin
    while parts[outer].text != "(" and outer > 0:
        outer -= 1
    is_function = parts[begin - 1].text == "\n"
    plain = [one for one in inner if one.kind not in _BLANK]
    ends = sum(one.text == ";" for one in plain)
    if is_function or ends != 1 or _near(parts, end, 1).text == "else" or "{" in text_of(inner):
        return parts
    before = parts[: begin - 1]
    return before + tokens(text_of(inner).rstrip()) + parts[end + 1 :]


def _without_stores(code: str, dead: set[tuple[str, str]]) -> str:
    """Drop stores to members that are dead; an initialiser does not tell its struct."""
    always = {name for _, name in dead}
    found = [at for at, owner, name in _uses(code, stores=True)
             if (owner, name) in dead or (not owner and name in always)]  # fmt: skip
    if not found:
        return code
    return _without_stores(text_of(_without_statement(tokens(code), found[0])), dead)


def _without_members(piece: Piece, dead: set[tuple[str, str]]) -> Piece:
    code, comment = piece.code, piece.comment
    for member in [name for owner, name in dead if owner == piece.name]:
        code = re.sub(rf"^\t[^\n]*\b{member}(\[[^\]]*\])*;\n", "", code, flags=re.MULTILINE)
        comment = re.sub(rf" \* @{member}:[^\n]*\n(?: \*\t[^\n]*\n)*", "", comment)
    return replace(piece, code=code, comment=comment)


def _parameters(parts: Sequence[Token], name: str) -> tuple[int, int]:
    at = next(i for i, one in enumerate(parts) if one.text == name)
    return at + 1, closing(parts, at + 1)


def _unused(piece: Piece) -> list[int]:
    """Return which parameters of a function its body does not use."""
    parts = tokens(piece.code)
    begin, end = _parameters(parts, piece.name)
    body = names(text_of(parts[end:]))
    found = []
    for number, parameter in enumerate(split(parts[begin + 1 : end])):
        words = [one.text for one in parameter if one.kind == "name"]
        if words and words != ["void"] and words[-1] not in body:
            found.append(number)
    return found


def _without_arguments(code: str, name: str, numbers: Sequence[int]) -> str:
    """Drop arguments, or parameters, wherever a function is called or defined."""
    parts = tokens(code)
    at = 0
    while at < len(parts) - 1:
        if parts[at].text == name and parts[at + 1].text == "(":
            end = closing(parts, at + 1)
            kept = [text_of(one).strip() for number, one in enumerate(split(parts[at + 2 : end]))
                    if number not in numbers]  # fmt: skip
            parts[at + 2 : end] = tokens(", ".join(kept))
        at += 1
    return text_of(parts)


def _without_parameter_comment(piece: Piece) -> Piece:
    """Drop the lines of a kernel-doc comment on parameters that are gone."""
    if piece.kind != "function" or not piece.comment.startswith("/**"):
        return piece
    parts = tokens(piece.code)
    begin, end = _parameters(parts, piece.name)
    there = names(text_of(parts[begin:end]))
    comment = piece.comment
    for name in re.findall(r"^ \* @(\w+):", comment, re.MULTILINE):
        if name not in there:
            comment = re.sub(rf" \* @{name}:[^\n]*\n(?: \*\t[^\n]*\n)*", "", comment)
    return replace(piece, comment=comment)


def _without_locals(code: str) -> str:
    count = [one.text for one in tokens(code) if one.kind == "name"]
    code = _LOCAL.sub(lambda found: "" if count.count(found[1]) == 1 else found[0], code)
    return code.replace("{\n\n", "{\n")


def prune(pieces: Sequence[Piece], roots: Sequence[str], used: str) -> list[Piece]:
    """Return what some names need of the pieces, without anything that nothing reads.

    Args:
        pieces: in the order of the files.
        roots: the names.
        used: further code that reads members.
    """
    found = list(pieces)
    while True:
        before = found
        found = reached(found, roots)
        read = _read([*(one.code for one in found), used])
        dead = {(one.name, member) for one in found
                if one.kind == "type" and one.code.startswith("struct")
                for member in _members(one)
                if not {(one.name, member), ("", member)} & read}  # fmt: skip
        found = [
            _without_members(one, dead) if one.kind == "type" else
            replace(one, code=_without_locals(_without_stores(one.code, dead)))
            if one.kind == "function" else one
            for one in found
        ]  # fmt: skip
        for piece in [one for one in found if one.kind == "function"]:
            now = next(one for one in found if one.name == piece.name and one.kind == "function")
            if numbers := _unused(now):
                found = [replace(one, code=_without_arguments(one.code, now.name, numbers))
                         for one in found]  # fmt: skip
        found = [_without_parameter_comment(one) for one in found]
        if found == before:
            return found
