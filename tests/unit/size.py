#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The size of each governor, and of each folder of the package and of the modules' C.

Examples:
  make size                 all of it
  tests/unit/size.py --json      the same for programs

exit code: 0 if all targets are met, 1 if not
"""

import argparse
import ast
import json
import re
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import distributions
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP), str(TOP / "tools")]

from experiments.wteo.footprint import footprints  # noqa: E402

GOVERNORS = TOP / "governors"

# Most that a governor may have: lines with comments, lines and words of its DOC block, tunables.
TARGETS = {"wteo": {"lines": 1200, "doc_lines": 75, "doc_words": 900, "tunables": 3}}

# The trees by folder. A file of the package has at most LONGEST lines, or its header says why.
TREES = {"tools/cpuidle_lab": "*.py", "module": "*.[ch]", "governors": "*.[ch]"}
PACKAGE = TOP / "tools" / "cpuidle_lab"
LONGEST = 500
REASON = f"Longer than {LONGEST} lines: "

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


@dataclass(frozen=True)
class Folder:
    """The size of a folder, those below it included.

    Attributes:
        folder: its path.
        files, lines: how many.
        largest: name of the file with most lines.
        most: lines of that file.
    """

    folder: str
    files: int
    lines: int
    largest: str
    most: int


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


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def folders(top: Path = TOP) -> list[Folder]:
    """Return the sizes of the folders of each tree, the files beside them as the tree's own."""
    found = []
    for tree, pattern in TREES.items():
        parts: dict[Path, dict[Path, int]] = {}
        for path in sorted((top / tree).rglob(pattern)):
            folder = top.joinpath(tree, *path.relative_to(top / tree).parts[:-1][:1])
            parts.setdefault(folder, {})[path] = _lines(path)
        for folder, sizes_of in sorted(parts.items()):
            largest = max(sizes_of, key=lambda path: sizes_of[path])
            name, lines = str(folder.relative_to(top)), sum(sizes_of.values())
            found.append(Folder(name, len(sizes_of), lines, largest.name, sizes_of[largest]))
    return found


def packages() -> dict[str, float]:
    """Return the sizes on disk of the packages of this Python, in MiB, by name."""
    found = {}
    for one in sorted(distributions(), key=lambda one: one.name.lower()):
        paths = (Path(str(file.locate())) for file in one.files or ())
        blocks = sum(path.stat().st_blocks for path in paths if path.exists())
        found[one.name] = blocks / 2048
    return found


def too_long(package: Path = PACKAGE) -> list[str]:
    """Return the files of the package that are too long and give no reason in their header."""
    return [
        f"{path.relative_to(package)}: {_lines(path)} lines > {LONGEST}"
        for path in sorted(package.rglob("*.py"))
        if _lines(path) > LONGEST
        and REASON not in (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")
    ]


def main() -> int:
    """Print the sizes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--packages", action="store_true", help="of Python instead, in MiB")
    args = parser.parse_args()
    if args.packages:
        print("\n".join(f"{size:7.1f} {name}" for name, size in packages().items()))
        return 0
    found = sizes()
    if args.json:
        governors = [{**asdict(one), "exceeded": exceeded(one)} for one in found]
        parts = [asdict(one) for one in folders()]
        print(
            json.dumps({"governors": governors, "folders": parts, "too_long": too_long()}, indent=2)
        )
    else:
        heads = [name.replace("_", " ") for name in asdict(found[0])]
        print("  ".join(f"{head:>9}" for head in heads))
        for one in found:
            print("  ".join(f"{value:>9}" for value in asdict(one).values()))
            if targets := TARGETS.get(one.governor):
                said = ", ".join(f"{name} {most}" for name, most in targets.items())
                verdict = "; ".join(exceeded(one)) or "met"
                print(f"{'':>9}  at most {said}: {verdict}")
        print(f"\n{'governor':>9}  states  cache lines of its state a decision: mean, most")
        for one in found:
            for each in footprints(one.governor) if one.governor != "gate" else ():
                print(f"{each.governor:>9}  {each.states:6}  {each.mean:38.2f}, {each.most}")
        print(f"\n{'folder':28}{'files':>6}{'lines':>7}  largest file")
        for part in folders():
            print(f"{part.folder:28}{part.files:6}{part.lines:7}  {part.largest} {part.most}")
        for line in too_long():
            print(f"without a reason in its header: {line}")
    return 1 if any(exceeded(one) for one in found) or too_long() else 0


if __name__ == "__main__":
    sys.exit(main())
