# SPDX-License-Identifier: GPL-2.0
"""Small changes to C sources, each at one operator or number, found by reading tokens."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

# Replacements of an operator: the edge moved by one, and the opposite.
OPERATORS = {
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "==": ("!=",),
    "!=": ("==",),
    "&&": ("||",),
    "||": ("&&",),
}

# Longer ones first, so that a part of one is never taken for another.
OPERATOR = re.compile(r"<<=|>>=|->|<<|>>|" + "|".join(sorted(OPERATORS, key=len, reverse=True)))
NUMBER = re.compile(r"\b(?:0[xX][0-9a-fA-F]+|[0-9]+)(?=[uUlL]*\b)")
# Text that holds no code: comments, strings, characters.
BLANK = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
NAMED_NUMBER = re.compile(r"#define[ \t]+\w+[ \t]")
# Assertions, which are true or do not compile.
ASSERTION = re.compile(r"\bstatic_assert\((?:[^;])*;")
# The lesser or the greater of two, where an equal one is as good: a ? : or an assignment.
OPERAND = r"\w+(?:->\w+|\.\w+|\[[^\]]*\])*"
LIMIT = re.compile(
    rf"(?P<a>{OPERAND}) (?P<operator>[<>]=?) (?P<b>{OPERAND})"
    r"(?:\s*\?\s*(?:(?P=a)\s*:\s*(?P=b)|(?P=b)\s*:\s*(?P=a))(?!\w)"
    r"|\)\s+(?:(?P=a)\s*=\s*(?P=b)|(?P=b)\s*=\s*(?P=a));)"
)
# In the kernel's style the name of a function is on the first line of its definition.
FUNCTION = re.compile(r"^(?!\s|static_assert)[^;=\n{}#]*?(\w+)\([^;]*?\)\n\{", re.MULTILINE)


@dataclass(frozen=True)
class Mutant:
    """One change.

    Attributes:
        path: of the source, relative to the top of the tree.
        place: function that it is in, or "" outside of any.
        line: the changed line, with what was changed from.
        start: offset of the first changed character.
        old: text there.
        new: what takes its place.
        number: line number, from 1.
    """

    path: str
    place: str
    line: str
    start: int
    old: str
    new: str
    number: int

    def apply(self, source: str) -> str:
        """Return the changed source."""
        return source[: self.start] + self.new + source[self.start + len(self.old) :]


def blanked(match: re.Match[str]) -> str:
    """Return as many blanks as were matched, with the same line ends."""
    return re.sub(r"[^\n]", " ", match.group())


def code_of(source: str) -> str:
    """Return a source of the same length in which only code is left.

    Of directives, definitions of numbers without parameters stay.
    """

    def directive(match: re.Match[str]) -> str:
        return match.group() if NAMED_NUMBER.match(match.group()) else blanked(match)

    code = BLANK.sub(blanked, source)
    return ASSERTION.sub(blanked, DIRECTIVE.sub(directive, code))


def changes(code: str, numbers: bool) -> Iterator[tuple[int, str, str]]:
    """Yield what can be changed: offset, old and new text, in the order of the source."""
    limits = {match.start("operator") for match in LIMIT.finditer(code)}
    definitions = [match.span() for match in DIRECTIVE.finditer(code)]
    done = set()
    for match in re.finditer(f"{OPERATOR.pattern}|{NUMBER.pattern}", code):
        start, old = match.start(), match.group()
        definition = next((span for span in definitions if span[0] <= start < span[1]), None)
        if old in OPERATORS and not definition:
            # The edge is the first way; moved, a limit stays what it is.
            for new in OPERATORS[old][start in limits :]:
                yield start, old, new
        elif numbers and definition and definition not in done and NUMBER.fullmatch(old):
            # One number of each name is enough.
            done.add(definition)
            yield start, old, str(int(old, 0) + 1)


def find(path: str, source: str) -> list[Mutant]:
    """Return all changes of a source.

    Args:
        path: its name, relative to the top of the tree.
        source: its text, in the kernel's style.

    Returns:
        The mutants in the order of the source. No two have the same place and line: the second
        of equal ones has " (2)" behind its line.
    """
    code = code_of(source)
    # Those that headers name are sizes and units.
    numbers = path.endswith(".c")
    functions = [(match.start(), match.group(1)) for match in FUNCTION.finditer(code)]
    ends = [match.end() for match in re.finditer(r"^\}", code, re.MULTILINE)]
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for start, old, new in changes(code, numbers):
        begin, place = max(((at, name) for at, name in functions if at < start), default=(0, ""))
        if any(begin < end <= start for end in ends):
            place = ""
        first = source.rfind("\n", 0, start) + 1
        last = source.find("\n", start)
        text = source[first:start] + f"[{old} -> {new}]" + source[start + len(old) : last]
        line = " ".join(text.split())
        seen[place, line] += 1
        if seen[place, line] > 1:
            line += f" ({seen[place, line]})"
        number = source.count("\n", 0, start) + 1
        found.append(Mutant(path, place, line, start, old, new, number))
    return found
