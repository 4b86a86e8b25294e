# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab new`: a governor to begin with, in every place that a governor needs.

The templates are the sources of a governor named "skeleton"; only the name is
replaced. Everything is made up in memory first, so that a source tree that is
not understood is left alone, and put in place by renaming.
"""

import argparse
import contextlib
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.files import marked, whole, write_whole
from cpuidle_lab.host.machine import MOVED, project_directory, project_governors

NAME = "new"
HELP = "create a governor: a skeleton that builds and passes its tests"
EPILOG = """\
examples:
  cpuidle-lab new lazy           creates governors/lazy/ and adds it to the build
  cpuidle-lab new lazy --bpf     and bpf/lazy.bpf.c, its build as a program in BPF
  cpuidle-lab new lazy --directory mine
                                 in the source tree mine/, which is made if it is missing

NAME is a C identifier in lower case of at most 15 characters, and the name for current_governor.
The command changes the source tree that holds the current directory. Elsewhere it makes one,
./cpuidle-lab, from the sources of the command. The ./cpuidle-lab in that tree knows the governor.

exit codes: 0 created, 1 nothing was changed, 2 wrong usage
"""

TOP = Path(__file__).resolve().parents[3]

# Contents of a source tree, and its name by default.
SOURCES = (
    "Kbuild", "VERSION", "bpf", "cpuidle-lab", "dkms.conf", "emul", "governors", "kunit", "module",
    "tools",
)  # fmt: skip
TREE = Path("cpuidle-lab")

TEMPLATES = Path(__file__).parents[1] / "templates" / "governor"
PROGRAM = Path(__file__).parents[1] / "templates" / "skeleton.bpf.c"

# The kernel compares and shows this many characters.
_LONGEST_NAME = 15

# Names that a governor must not have: those of the kernel's governors, those of
# files beside governors in this tree and in debugfs, and words of C.
_KERNEL_GOVERNORS = frozenset({"menu", "teo", "ladder", "haltpoll", "none"})
_OURS = frozenset({"common", "gate", "kunit", "skeleton", "symbols", "version", "hints"})
_OUR_PREFIXES = ("cil_", "kunit_")
# The last two are macros of gcc.
_C_KEYWORDS = """
    alignas alignof asm auto bool break case char const constexpr continue default do double else
    enum extern false float for goto if inline int long nullptr register restrict return short
    signed sizeof static struct switch thread_local true typedef typeof union unsigned void
    volatile while linux unix
"""
_C_WORDS = frozenset(_C_KEYWORDS.split())

_REASONS_PER_GOVERNOR = 16
_LAST_REASON = 254  # 255 stands for an invalid one in traces
_LAST_GOVERNOR = 253  # list.h says who has the two beyond it

# Identifier and text of the template's reasons.
_REASONS = (
    ("DEEPEST", "deepest"),
    ("LATENCY", "latency-limit"),
    ("TIMER", "timer-limit"),
    ("EARLY", "woken-early"),
    ("TICK", "tick-limit"),
)

_TAB = 8
_BACKSLASH_COLUMN = {"CIL_GOVERNORS": 40, "CIL_REASONS": 72}


def check_name(name: str, taken: list[str]) -> None:
    """Raise a `UserError` unless a governor may have this name.

    Args:
        name: the name.
        taken: names of the governors that exist.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name, re.ASCII):
        raise UserError(
            f"'{name}' is no C identifier in lower case (a to z, 0 to 9, _; a letter first)", USAGE
        )
    if len(name) > _LONGEST_NAME:
        raise UserError(
            f"'{name}' has {len(name)} characters, the kernel takes {_LONGEST_NAME}", USAGE
        )
    if name in _C_WORDS:
        raise UserError(f"'{name}' is a word of the C language", USAGE)
    if name in _KERNEL_GOVERNORS:
        raise UserError(f"the kernel has a governor '{name}'", USAGE)
    if name in MOVED:
        raise UserError(f"recordings have a governor '{name}', which the module once had")
    if name in taken:
        raise UserError(f"there is a governor '{name}' already")
    if name in _OURS or name.startswith(_OUR_PREFIXES):
        raise UserError(f"'{name}' has another meaning in this project", USAGE)


# Entries that are appended to the lists.


def _tabs_to(text: str, column: int) -> str:
    """Append tabs (at least one) until `text` is `column` wide."""
    while True:
        text += "\t"
        if len(text.expandtabs(_TAB)) >= column:
            return text


def _append_to_macro(text: str, macro: str, entries: list[str], file: str) -> str:
    """Append entries to the X-macro `macro` of a header."""
    lines = text.splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith(f"#define {macro}(X)")]
    if len(starts) != 1:
        raise UserError(f"{file} is not understood: {macro}(X) is not defined once")
    last = starts[0]
    while lines[last].endswith("\\") and last + 1 < len(lines):
        last += 1
    if not re.search(r"\bX\(.*\)$", lines[last]):
        raise UserError(f"{file} is not understood: {macro}(X) does not end with an entry")
    column = _BACKSLASH_COLUMN[macro]
    block = [lines[last], *(f"\t{entry}" for entry in entries)]
    block = [_tabs_to(line, column) + "\\" for line in block[:-1]] + block[-1:]
    lines[last : last + 1] = block
    return "\n".join(lines) + "\n"


def _append_to_make(text: str, name: str) -> str:
    return re.sub(
        r"^(CIL_GOVERNORS\s*:?=.*?)[ \t]*$", rf"\1 {name}", text, count=1, flags=re.MULTILINE
    )


def _append_governor(text: str, name: str, file: str) -> str:
    """Append the governor `name` to list.h, with a number that none in the file has."""
    number = max(map(int, re.findall(r"X\(\w+,\s*(\d+)\)", text)), default=-1) + 1
    if number > _LAST_GOVERNOR:
        raise UserError(f"{file} has no number left below {_LAST_GOVERNOR + 1}")
    entry = _tabs_to(f"\tX({name},", 32)[1:] + f"{number})"
    return _append_to_macro(text, "CIL_GOVERNORS", [entry], file)


def _append_reasons(text: str, name: str, file: str) -> str:
    """Append a range of reason numbers for the governor `name` to reasons.h."""
    used = [int(number) for number in re.findall(r"X\(\w+,\s*(\d+),", text)]
    first = (max(used, default=0) // _REASONS_PER_GOVERNOR + 1) * _REASONS_PER_GOVERNOR
    last = min(first + _REASONS_PER_GOVERNOR - 1, _LAST_REASON)
    if last - first + 1 < len(_REASONS):
        raise UserError(f"{file} has no reason numbers left below {_LAST_REASON + 1}")
    entries = [f"/* {name}: {first} to {last}. */"]
    for number, (identifier, words) in enumerate(_REASONS, first):
        # As deep as the entries of the other governors: the tab before is not counted here.
        start = _tabs_to(f"\tX({name.upper()}_{identifier},", 32)[1:]
        entries.append(f'{start}{number}, "{name.replace("_", "-")}-{words}")')
    return _append_to_macro(text, "CIL_REASONS", entries, file)


def _rename(text: str, name: str) -> str:
    return text.replace("skeleton", name).replace("SKELETON", name.upper())


# Putting it in place.


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        raise UserError(f"{path} is missing: is this the whole source tree?") from None


def _replace(path: Path, text: str) -> None:
    write_whole(path, text, lambda _: "")  # it was read, and is understood


@contextlib.contextmanager
def _all_or_nothing(paths: list[Path]) -> Iterator[None]:
    """Put back the contents of `paths` if anything goes wrong."""
    before = {path: path.read_text() for path in paths}
    try:
        yield
    except BaseException:
        for path, text in before.items():
            if path.read_text() != text:
                _replace(path, text)
        raise


def create(tree: Path, name: str, bpf: bool = False) -> list[Path]:
    """Create a governor in a source tree.

    Args:
        tree: top of the source tree.
        name: name of the governor.
        bpf: make its build as a program in BPF, too.

    Returns:
        the files that were created or changed, the governor's own first.

    Raises:
        UserError: the name cannot be used, or the tree is not understood; nothing was changed.
    """
    governors = tree / "governors"
    make, header = governors / "governors.mk", governors / "list.h"
    reasons = governors / "common" / "reasons.h"
    target = governors / name

    check_name(name, project_governors(tree))
    if target.exists():
        raise UserError(f"{target} exists already")
    program = tree / "bpf" / f"{name}.bpf.c"
    if bpf and program.exists():
        raise UserError(f"{program} exists already")
    changes = {
        make: _append_to_make(_read(make), name),
        header: _append_governor(_read(header), name, str(header)),
        reasons: _append_reasons(_read(reasons), name, str(reasons)),
    }

    with _all_or_nothing(list(changes)), contextlib.ExitStack() as undo:
        with whole(target, marked()) as new:
            new.mkdir()
            for template in sorted(TEMPLATES.iterdir()):
                text = _rename(template.read_text(), name)
                (new / _rename(template.name, name)).write_text(text)
        undo.callback(shutil.rmtree, target, ignore_errors=True)
        if bpf:
            program.parent.mkdir(exist_ok=True)
            write_whole(program, _rename(PROGRAM.read_text(), name), marked())
            undo.callback(program.unlink, missing_ok=True)
        for path, text in changes.items():
            _replace(path, text)
        undo.pop_all()
    return [*sorted(target.iterdir()), *([program] if bpf else []), *changes]


@contextlib.contextmanager
def source_tree(tree: Path) -> Iterator[Path]:
    """Yield the source tree to change, made of the command's sources if it is missing.

    One that is made comes to its place at the end; not after an exception.

    Args:
        tree: where it is, or is to be.

    Raises:
        UserError: the directory has something else.
    """
    if project_directory(tree) == tree:
        yield tree
        return
    with whole(tree, _no_tree) as new:
        new.mkdir()
        for name in SOURCES:
            source = TOP / name
            if source.is_dir():
                shutil.copytree(source, new / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, new)
        yield new


def _no_tree(path: Path) -> str:
    is_empty = path.is_dir() and not any(path.iterdir())
    return "" if is_empty else "is not the project's source tree"


# The command line.


def packages(_args: argparse.Namespace) -> tuple[str, ...]:
    """Return the Python packages that are enough."""
    return ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("name", metavar="NAME", help="name of the governor")
    parser.add_argument("--bpf", action="store_true", help="also as a program in BPF (docs/bpf.md)")
    parser.add_argument(
        "--directory",
        type=Path,
        metavar="DIR",
        help="source tree (default: that of the current directory, else ./cpuidle-lab)",
    )


def run(args: argparse.Namespace) -> int:
    """Create a governor and say what to do with it."""
    place = args.directory or project_directory(Path.cwd()) or TREE
    with source_tree(place) as tree:
        written = [path.relative_to(tree) for path in create(tree, args.name, args.bpf)]
        documents = (tree / "docs").is_dir()
    for path in written:
        print(path)
    print(_NEXT.format(name=args.name, place=shlex.quote(str(place))), end="")
    print("; make tunables-doc brings docs/tunables.md up to date." if documents else ".")
    return 0


_NEXT = """
next, in {place}:
  make -C kunit check FILTER='{name}*'
  ./cpuidle-lab lab --governor {name}
  ./cpuidle-lab report build/lab/trace.dat

Then change governors/{name}/{name}.c"""
