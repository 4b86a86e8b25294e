#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Size of each governor: lines of code and comment, its description, its tunables.

Examples:
  make size                 all governors
  tests/unit/size.py --json      the same for programs

exit code: 0 if all targets are met, 1 if not
"""

import argparse
import json
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
GOVERNORS = TOP / "governors"

# Most that a governor may have: lines with comments, lines and words of its DOC block, tunables.
TARGETS = {"wteo": {"lines": 1200, "doc_lines": 100, "doc_words": 1000, "tunables": 6}}

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DOC = re.compile(r"/\*\*\n \* DOC:.*?\*/", re.DOTALL)
_TABLE = re.compile(r"const struct cil_tunable \w+\[\w*\] = \{(.*?)\n\};", re.DOTALL)


@dataclass(frozen=True)
class Size:
    """The size of a governor, its test cases apart.

    Attributes:
        governor: its name.
        lines: all lines of its sources.
        code: lines with code.
        comment: lines with a comment alone.
        doc_lines, doc_words: of its DOC block.
        tunables: number of entries in its table.
    """

    governor: str
    lines: int
    code: int
    comment: int
    doc_lines: int
    doc_words: int
    tunables: int


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def measure(name: str, texts: list[str]) -> Size:
    """Return the size of a governor.

    Args:
        name: its name.
        texts: its sources.
    """
    lines = sum(len(text.splitlines()) for text in texts)
    filled = sum(bool(line.strip()) for text in texts for line in text.splitlines())
    bare = [_COMMENT.sub(_blank, text) for text in texts]
    code = sum(bool(line.strip()) for text in bare for line in text.splitlines())
    docs = [found[0] for text in texts for found in _DOC.finditer(text)]
    words = sum(len([w for w in doc.split() if re.search(r"\w", w)]) for doc in docs)
    tables = [found[1] for text in texts for found in _TABLE.finditer(text)]
    tunables = sum(table.count(".name = ") for table in tables)
    doc_lines = sum(len(doc.splitlines()) for doc in docs)
    return Size(name, lines, code, filled - code, doc_lines, words, tunables)


def sizes() -> list[Size]:
    """Return the sizes of all governors."""
    found = []
    for folder in sorted(path for path in GOVERNORS.iterdir() if path.is_dir()):
        files = [path for path in sorted(folder.glob("*.[ch]")) if "_kunit" not in path.name]
        if (folder / "README.md").exists():
            found.append(measure(folder.name, [path.read_text() for path in files]))
    return found


def exceeded(size: Size) -> list[str]:
    """Return what is larger than its target."""
    values = asdict(size)
    targets = TARGETS.get(size.governor, {})
    return [f"{name} {values[name]} > {most}" for name, most in targets.items()
            if values[name] > most]  # fmt: skip


def main() -> int:
    """Print the sizes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    found = sizes()
    if args.json:
        print(json.dumps([{**asdict(one), "exceeded": exceeded(one)} for one in found], indent=2))
    else:
        heads = [name.replace("_", " ") for name in asdict(found[0])]
        print("  ".join(f"{head:>9}" for head in heads))
        for one in found:
            print("  ".join(f"{value:>9}" for value in asdict(one).values()))
            if targets := TARGETS.get(one.governor):
                said = ", ".join(f"{name} {most}" for name, most in targets.items())
                verdict = "; ".join(exceeded(one)) or "met"
                print(f"{'':>9}  at most {said}: {verdict}")
    return 1 if any(exceeded(one) for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
