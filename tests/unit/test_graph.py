# SPDX-License-Identifier: GPL-2.0
"""The units of module/ depend on each other in one direction, and see little of the wings.

A wing is a folder below module/ that the build can leave out.

A unit is a source file with its header. It depends on another whose header it includes, or one of
whose names it uses: functions, variables (tables of operations and locks are some), types, macros.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]

# The headers of each wing that the rest of the module includes, and how long each may get. One is
# enough where a wing does not both serve the glue and stand on it.
DOORS = {
    "hints/": {"hints/hints"},
    "evacuate/": {"evacuate/evacuate"},
    "bpf/": {"bpf/program", "bpf/attach"},
}
DOOR_LINES = 80

# The functions that each policy calls by policy.h, whatever it runs in. The governor bpf is one.
ENVIRONMENT = "cil_env_"

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
UNOWNED = re.compile(r"(?:->|\.)\s*\w+|\bTRACE_EVENT\w*\(\w+")
WORD = re.compile(r"\b[A-Za-z_]\w*\b")

INLINE = re.compile(r"^static (?:__always_)?inline [\w\s*]*?\b(\w+)\(", re.MULTILINE)

# Definitions that a header has for others, besides those of the source behind it.
IN_HEADERS = (
    # Each header of events has its own TRACE_SYSTEM.
    re.compile(r"^#define\s+(?!TRACE_)(\w+)", re.MULTILINE),
    re.compile(r"^(?:struct|enum|union)\s+(\w+)\s*\{", re.MULTILINE),
    INLINE,
    re.compile(r"^\t([A-Z][A-Z0-9_]+)(?:\s*=[^,\n]*)?,$", re.MULTILINE),
)
# At the start of a line; what is static, or only declared, is nothing that others could use.
DEFINITIONS = (
    re.compile(r"^(?!static\b|extern\b)\w[\w\s*]*?\b(\w+)\([^;{}]*\)\s*\{", re.MULTILINE),
    re.compile(r"^(?!static\b|extern\b|return\b)(?:\w+[\s*]+)+(\w+)(?:\[[^\]]*\])*(?:;| = )", re.M),
    re.compile(r"^DEFINE_(?:MUTEX|STATIC_KEY_FALSE|STATIC_CALL)\((\w+)", re.MULTILINE),
)
# Functions, data, pointers to functions, and data that a macro defines.
# Declarations of a header: the header of a wing declares for sources of the wing.
DECLARED = re.compile(r"^(?!static\b)\w[\w\s*]*?\b(\w+)\([^;{}]*\);", re.MULTILINE)
STATIC = (
    re.compile(r"^static (?!inline\b)[\w\s*]*?\b(\w+)\([^;{}]*\)\s*\{", re.MULTILINE),
    re.compile(r"^static (?:[\w\s*]|__\w+\(\w+\))*?\b(\w+)(?:\[[^\]]*\])*(?:;| =)", re.MULTILINE),
    re.compile(r"^static [\w\s*]+\(\*(?:const )?(\w+)", re.MULTILINE),
    re.compile(r"^static DEFINE_PER_CPU\w*\([^,]+,\s*(\w+)", re.MULTILINE),
    re.compile(r"^static (?!DEFINE_PER_CPU)[A-Z]\w+\((\w+)", re.MULTILINE),
)


def sources(folder: Path) -> dict[str, dict[str, str]]:
    """Return the text of each unit's files without comments, by unit and suffix."""
    units: dict[str, dict[str, str]] = {}
    for path in sorted(folder.rglob("*.[ch]")):
        if path.name.endswith(".mod.c"):
            continue
        unit = path.relative_to(folder).with_suffix("").as_posix()
        units.setdefault(unit, {})[path.suffix] = COMMENT.sub(" ", path.read_text())
    return units


def owners(units: dict[str, dict[str, str]]) -> dict[str, str]:
    """Return the unit that defines each name that others can use.

    A function that a header defines empty, for a build without the wing, belongs to the source.
    """
    found: dict[str, str] = {}
    for suffix, rules in ((".c", DEFINITIONS), (".h", IN_HEADERS)):
        for unit, files in units.items():
            for rule in rules:
                for name in rule.findall(files.get(suffix, "")):
                    if not name.startswith(ENVIRONMENT):
                        found.setdefault(name, unit)
    return found


def graph(folder: Path, doors: Iterable[str] = ()) -> dict[str, dict[str, str]]:
    """Return the units that each unit depends on, each with a reason.

    A header does not depend on the source that defines a function that it declares.

    Args:
        folder: the sources.
        doors: units to which all that their header declares belongs.
    """
    units = sources(folder)
    owner = owners(units)
    for door in doors:
        owner |= dict.fromkeys(DECLARED.findall(units[door][".h"]), door)
    edges: dict[str, dict[str, str]] = {unit: {} for unit in units}
    for unit, files in units.items():
        for suffix, text in files.items():
            for name in INCLUDE.findall(text):
                target = str(Path(name).with_suffix(""))
                if target in units and target != unit:
                    edges[unit].setdefault(target, f"{unit}{suffix} includes {name}")
            # Members, labels and the names of events belong to no unit.
            bare = UNOWNED.sub(" ", STRING.sub(" ", text))
            declared = {n for rule in (DECLARED, INLINE) for n in rule.findall(bare)}
            for name in set(WORD.findall(bare)) - (declared if suffix == ".h" else set()):
                target = owner.get(name, unit)
                if target != unit:
                    edges[unit].setdefault(target, f"{unit}{suffix} uses {name}")
    return edges


def circle(edges: dict[str, dict[str, str]]) -> list[str]:
    """Return the reasons for the arrows of a circle; none if there is no circle."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        # Each is needed by the one after it.
        way = error.args[1]
        return [edges[b][a] for a, b in pairwise(way)]
    return []


def copied(tmp_path: Path) -> Path:
    """Return a copy of the module's sources."""
    folder = tmp_path / "module"
    for path in (TOP / "module").rglob("*.[ch]"):
        copy = folder / path.relative_to(TOP / "module")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text())
    return folder


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def test_there_is_a_graph() -> None:
    edges = graph(TOP / "module")
    assert {"glue", "registry", "timers", "state", "hints/table"} <= set(edges)
    assert not edges["state"]
    assert "glue" in edges["registry"]
    assert "hints/lock" in edges["hints/levels"]


def test_no_circle() -> None:
    assert circle(graph(TOP / "module")) == []


PLANTED = [
    # A header, a function, a lock, a type, a table of operations; a wing that the glue stands on.
    ("state.h", '#include "timers.h"\n'),
    ("hints/levels.c", "void cil_table_planted(void) { cil_hints_drop_all(); }\n"),
    ("hints/levels.h", "extern struct cil_planted cil_planted[sizeof(struct cil_group_value)];\n"),
    ("timers.c", "void *cil_planted(void) { return &cil_debugfs_planted_ops; }\n"),
    ("base.c", "int cil_planted(void) { return mutex_is_locked(&cil_registry_planted_lock); }\n"),
    ("bpf/program.c", "void cil_planted(void) { cil_glue_restart(NULL); }\n"),
]
UPWARD = {
    "debugfs.c": "const struct file_operations cil_debugfs_planted_ops = { };\n",
    "debugfs.h": '#include "timers.h"\n',
    "registry.c": "DEFINE_MUTEX(cil_registry_planted_lock);\n"
    "void *cil_registry_planted(void) { return cil_base_get(); }\n",
}


@pytest.mark.parametrize(("file", "text"), PLANTED)
def test_a_planted_circle_is_found(file: str, text: str, tmp_path: Path) -> None:
    folder = copied(tmp_path)
    for name, needed in UPWARD.items():
        append(folder / name, needed)
    assert circle(graph(folder)) == []
    append(folder / file, text)
    assert circle(graph(folder))


def outside(folder: Path, wing: str) -> Iterator[tuple[str, str]]:
    """Yield each arrow from outside a wing into it: its end, and its reason."""
    for unit, targets in graph(folder, DOORS[wing]).items():
        if not unit.startswith(wing):
            yield from (item for item in targets.items() if item[0].startswith(wing))


@pytest.mark.parametrize("wing", DOORS)
def test_a_wing_has_its_doors_alone(wing: str) -> None:
    assert {target for target, _ in outside(TOP / "module", wing)} == DOORS[wing]
    for door in DOORS[wing]:
        assert len((TOP / f"module/{door}.h").read_text().splitlines()) <= DOOR_LINES


def test_every_wing_has_doors() -> None:
    wings = {unit.partition("/")[0] + "/" for unit in graph(TOP / "module") if "/" in unit}
    assert wings - {"compat/", "uapi/"} == set(DOORS)


SECOND_DOORS = {
    "hints/levels": "s64 planted(void) { return cil_level_limit(0); }\n",
    "evacuate/holder": "int planted(void) { return cil_holders_start(); }\n",
    "bpf/ops": "int planted(void) { return cil_bpf_ops_register(NULL); }\n",
}


@pytest.mark.parametrize("unit", SECOND_DOORS)
def test_another_door_is_found(unit: str, tmp_path: Path) -> None:
    wing = unit.partition("/")[0] + "/"
    folder = copied(tmp_path)
    append(folder / "glue.c", SECOND_DOORS[unit])
    assert {target for target, _ in outside(folder, wing)} == DOORS[wing] | {unit}


def repeated(folder: Path) -> set[str]:
    """Return the names of static functions and data that stand in more than one file."""
    names = Counter(
        name
        for files in sources(folder).values()
        for text in files.values()
        for name in {name for rule in STATIC for name in rule.findall(text)}
    )
    return {name for name, count in names.items() if count > 1}


@pytest.mark.parametrize("folder", ["module", "emul"])
def test_statics_have_names_of_their_own(folder: str) -> None:
    """A backtrace, or the symbol of an address, says where it is."""
    assert repeated(TOP / folder) == set()


TWICE = {
    "live": "static bool live;\n",
    "names": "static const char *const names[] = {\n};\n",
    "limits": "static struct cil_limit __rcu *limits;\n",
    "lock": "static DEFINE_MUTEX(lock);\n",
    "each": "static DEFINE_PER_CPU(struct each *, each);\n",
    "users": "static DEFINE_HASHTABLE(users, 10);\n",
    "all": "static LIST_HEAD(all);\n",
    "call": "static int (*call)(int cpu);\n",
    "look": "static int\nlook(int cpu)\n{\n}\n",
}


@pytest.mark.parametrize("name", TWICE)
def test_a_repeated_static_is_found(name: str, tmp_path: Path) -> None:
    for file in ("a.c", "b.c"):
        (tmp_path / file).write_text(TWICE[name])
    assert repeated(tmp_path) == {name}
