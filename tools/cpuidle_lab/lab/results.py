# SPDX-License-Identifier: GPL-2.0
"""A directory of results of the lab: it lists its files, so that no other is removed with it."""

from collections.abc import Iterable
from pathlib import Path

from cpuidle_lab.base import files

CONTENTS = "contents"
_HEAD = "cpuidle-lab lab wrote these files, and replaces them:\n"

# Pages lie beside their recording by default.
_page = files.marked(files.PAGE)


def _known(folder: Path) -> set[str]:
    path = folder / CONTENTS
    text = path.read_text() if path.is_file() else ""
    return set(text.removeprefix(_HEAD).splitlines()) if text.startswith(_HEAD) else set()


def _names(folder: Path) -> Iterable[str]:
    """Return the names of all that is below a directory, other directories apart."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(repr(str(path.relative_to(folder)))[1:-1] for path in paths)


def note(folder: Path, written: Path | None = None) -> None:
    """List the files of a directory of results.

    Args:
        folder: the directory; what its list has already stays there.
        written: a file in it that is new; by default all files are.
    """
    new = _names(folder) if written is None else [written.name]
    names = sorted({*_known(folder), *new, CONTENTS})
    (folder / CONTENTS).write_text(_HEAD + "".join(f"{name}\n" for name in names))


def foreign(folder: Path) -> str:
    """Tell why a directory must not be replaced by results; "" if it may be."""
    if not folder.is_dir():
        return "is not a directory"
    known = _known(folder)
    for name in _names(folder):
        path = folder / name
        if name not in known and (_page(path) or not path.stat().st_size):
            return f"holds {name}, which is no result of the lab"
    return ""
