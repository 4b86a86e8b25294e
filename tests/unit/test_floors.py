# SPDX-License-Identifier: GPL-2.0
"""The folders of the Python package stand on floors: imports go down, and none is hidden."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "tools" / "cpuidle_lab"

# From the ground up. A folder imports from those before it alone.
FLOORS = (
    "base", "host", "states", "recording", "replay", "figures", "view", "lab", "bpf", "evidence",
    "crossval", "clone", "compare", "domains", "report", "tune", "ab", "calibrate",
    "dump", "review", "patch", "kit", "fleet", "commands", "",
)  # fmt: skip
# The package's own file opens recordings in notebooks.
DOOR = "__init__"

Import = tuple[str, str, int]


def modules(package: Path = PACKAGE) -> dict[str, Path]:
    """Return the files of the package by their names with dots, without its own."""
    return {
        ".".join(path.relative_to(package).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(package.rglob("*.py"))
        if "templates" not in path.parts
    }


def imports(package: Path = PACKAGE) -> Iterator[Import]:
    """Yield importing file, imported file or folder, and line, those within functions, too."""
    known = modules(package)
    for name, path in known.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                wanted = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path}:{node.lineno}: a relative import"
                wanted = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            for word in wanted:
                if not word.startswith("cpuidle_lab."):
                    continue
                target = word.removeprefix("cpuidle_lab.")
                while target and target not in known:
                    target = target.rpartition(".")[0]
                yield name, target, node.lineno


def folder(name: str) -> str:
    """Return the folder of a file, "" at the top."""
    return name if name in FLOORS else name.rpartition(".")[0].partition(".")[0]


def upward(package: Path = PACKAGE) -> list[str]:
    """Return a sentence for each import that does not go down."""
    floor = {name: place for place, name in enumerate(FLOORS)}
    return [
        f"{name}, line {line}: imports {target or 'the package'}"
        for name, target, line in imports(package)
        if name != DOOR
        and folder(name) != folder(target)
        and floor[folder(target)] > floor[folder(name)]
    ]


def circles(package: Path = PACKAGE) -> list[str]:
    """Return the files that import each other, within a folder, too."""
    edges: dict[str, set[str]] = {}
    for name, target, _ in imports(package):
        # A folder's __init__ gathers what is in it.
        if name != target and not target.startswith(f"{name}.") and name != DOOR:
            edges.setdefault(name, set()).add(target)
    found = []
    for start in edges:
        seen, todo = set(), [*edges[start]]
        while todo:
            each = todo.pop()
            if each not in seen:
                seen.add(each)
                todo += edges.get(each, ())
        if start in seen:
            found.append(start)
    return found


def test_each_folder_has_a_floor() -> None:
    assert {folder(name) for name in modules() if name != DOOR} == set(FLOORS)


def test_imports_go_down() -> None:
    assert upward() == []


def test_no_file_imports_itself_by_others() -> None:
    assert circles() == []


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("base/files.py", "from cpuidle_lab.lab import run", "base.files, line 1: imports lab.run"),
        (
            "report/model.py",
            "def f():\n    from cpuidle_lab.commands import demo",
            "report.model, line 2: imports commands.demo",
        ),
    ],
)
def test_an_import_that_goes_up_is_found(file: str, line: str, said: str, tmp_path: Path) -> None:
    for name, text in ((file, line), ("lab/run.py", ""), ("commands/demo.py", "")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n")
    assert upward(tmp_path) == [said]


def test_a_circle_within_a_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base/a.py").write_text("from cpuidle_lab.base.b import x\n")
    (tmp_path / "base/b.py").write_text("def f():\n    from cpuidle_lab.base import a\n")
    assert circles(tmp_path) == ["base.a", "base.b"]
