# SPDX-License-Identifier: GPL-2.0
"""C source as tokens, and as the pieces of its top level: functions, types, macros, comments.

It knows as much of the language as the kernel's style leaves: a definition begins a line, a blank
line separates definitions, and macros of a group follow each other without one.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)
    |(?P<directive>^[ \t]*\#(?:/\*.*?\*/|\\\n|[^\n])*)
    |(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<name>[A-Za-z_]\w*)
    |(?P<number>\.?\d[\w.]*)
    |(?P<blank>\s+)
    |(?P<mark><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
_OPEN, _CLOSE = "([{", ")]}"
_NAMED = re.compile(r"[A-Za-z_]\w*")
_DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)")


@dataclass(frozen=True)
class Token:
    """A token of C.

    Attributes:
        kind: comment, directive, text, name, number, blank or mark.
        text: its characters.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class Piece:
    """A definition at the top level, with the comment before it.

    Attributes:
        kind: comment, macro, type, function or data.
        name: what it defines; "" for a comment alone.
        comment: "" or the comment.
        code: the definition; "" for a comment alone.
        leads: the next macro follows without a blank line, so the comment is for both.
    """

    kind: str
    name: str
    comment: str
    code: str
    leads: bool = False


def tokens(text: str) -> list[Token]:
    """Return the tokens of C, which together are the text."""
    return [Token(str(one.lastgroup), one[0]) for one in _TOKEN.finditer(text)]


def text_of(parts: Iterable[Token]) -> str:
    """Return the text of tokens."""
    return "".join(token.text for token in parts)


def names(code: str) -> set[str]:
    """Return the names that code uses, those of its macros among them."""
    found: set[str] = set()
    for token in tokens(code):
        if token.kind == "name":
            found.add(token.text)
        elif token.kind == "directive":
            body = _DEFINE.sub("", re.sub(r"/\*.*?\*/", "", token.text, flags=re.DOTALL))
            found |= set(_NAMED.findall(body))
    return found


def closing(parts: Sequence[Token], at: int) -> int:
    """Return the index of the mark that closes the one at an index."""
    depth = 0
    for index in range(at, len(parts)):
        if parts[index].kind == "mark":
            depth += (parts[index].text in _OPEN) - (parts[index].text in _CLOSE)
            if not depth:
                return index
    raise ValueError(f"'{parts[at].text}' is not closed")


def split(parts: Sequence[Token], mark: str = ",") -> list[list[Token]]:
    """Return the parts between marks that are in no further brackets."""
    found: list[list[Token]] = [[]]
    depth = 0
    for token in parts:
        if token.kind == "mark":
            depth += (token.text in _OPEN) - (token.text in _CLOSE)
            if token.text == mark and not depth:
                found.append([])
                continue
        found[-1].append(token)
    return found


def _kind_and_name(code: str) -> tuple[str, str]:
    if found := _DEFINE.match(code):
        return "macro", found[1]
    parts = [token for token in tokens(code) if token.kind not in ("blank", "comment")]
    texts = [token.text for token in parts]
    if texts[0] in ("struct", "enum", "union") and "{" in texts[:3]:
        return "type", texts[1]
    if texts[0] == "static_assert":
        return "assert", ""
    for index, text in enumerate(texts):
        if text == "(" and index and parts[index - 1].kind == "name":
            if texts[index - 1] == "__attribute__":
                continue
            return ("function" if texts[-1] == "}" else "prototype"), texts[index - 1]
        if text in ("=", "[", ";"):
            return "data", texts[index - 1]
    return "data", ""


def _ends(parts: Sequence[Token], index: int, depth: int, code: str) -> bool:
    """Return whether a definition ends with a token."""
    token = parts[index]
    if depth or token.kind not in ("mark", "directive"):
        return False
    if token.kind == "directive":
        return token.text == code
    if token.text == ";":
        return True
    if token.text != "}":
        return False
    after = next((one.text for one in parts[index + 1 :] if one.kind != "blank"), "")
    return after != ";" and not re.match(r"\s*(typedef|struct \w+ \w+\[?.*=)", code)


def pieces(text: str) -> Iterator[Piece]:
    """Yield the pieces of a file, without its directives but the macros."""
    comment, code, depth = "", "", 0
    parts = tokens(text)
    for index, token in enumerate(parts):
        if not code and token.kind == "blank":
            if comment and token.text.count("\n") > 1:
                yield Piece("comment", "", comment, "")
                comment = ""
            continue
        if not code and token.kind == "comment":
            if comment:
                yield Piece("comment", "", comment, "")
            comment = token.text
            continue
        code += token.text
        if token.kind == "mark":
            depth += (token.text in _OPEN) - (token.text in _CLOSE)
        if not _ends(parts, index, depth, code):
            continue
        after = parts[index + 1 : index + 3]
        leads = len(after) == 2 and after[0].text == "\n" and after[1].kind == "directive"
        if token.kind != "directive" or _DEFINE.match(code):
            yield Piece(*_kind_and_name(code), comment, code, leads)
            comment = ""
        elif comment:
            yield Piece("comment", "", comment, "")
            comment = ""
        code = ""
    if comment:
        yield Piece("comment", "", comment, "")
