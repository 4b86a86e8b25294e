# SPDX-License-Identifier: GPL-2.0
"""Figures that were measured before, so that a change of a governor costs its own replays only.

All experiments keep their figures here; a run that was killed goes on where it was.

A figure is kept under a hash of all that it depends on: the intervals, the machine, the tunables,
and the sources of the replay and of this governor. Which files these are follows from their
`#include` lines, not from a list.
"""

import json
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from os import cpu_count
from pathlib import Path
from typing import Any

from cpuidle_lab.base.cache import TOP, digest
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.lab.parallel import completed, threads
from cpuidle_lab.replay import build
from cpuidle_lab.replay.library import LIMITS, MAINLINE, governor
from cpuidle_lab.states.linux_source import GOVERNORS as KERNEL_FILES
from cpuidle_lab.states.linux_source import fetch

FOLDER = TOP / "build" / "experiments"

_GOVERNORS = TOP / "governors"
_REPLAY = build.NATIVE / "replay"
_SHIM = build.NATIVE / "mainline"
# Figures are kept so often, in s.
_KEEP_S = 1.0

# Sources that drive every governor.
_ENGINE = [_REPLAY / name for name in ("engine.c", "play.c")]

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
# A string may hold what looks like a comment.
_COMMENT_OR_STRING = re.compile(
    r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)


def closure(roots: Iterable[Path]) -> list[Path]:
    """Return source files and all that they include, and the sources beside included headers."""
    found: set[Path] = set()
    waiting = [path.resolve() for path in roots]
    while waiting:
        path = waiting.pop()
        if path in found or not path.is_file():
            continue
        found.add(path)
        for name in _INCLUDE.findall(path.read_text(errors="replace")):
            header = (path.parent / name).resolve()
            waiting += [header, header.with_suffix(".c")]
    return sorted(found, key=_order)


def _order(path: Path) -> tuple[bool, Path]:
    """Return what sorts files alike wherever the project and the kernel's sources lie."""
    ours = path.is_relative_to(TOP) and not path.is_relative_to(TOP / "build")
    return not ours, path.relative_to(TOP) if ours else Path(path.name)


def _own(name: str) -> list[Path]:
    if name in LIMITS:
        return closure([*_ENGINE, _REPLAY / f"{name}.c"])
    folders = (_GOVERNORS / name, build.FORMER / name)
    return closure([*_ENGINE, *(one for at in folders for one in sorted(at.glob("[!.]*.[ch]")))])


def _kernel(name: str, kernel: str) -> list[Path]:
    tree = Path(kernel) / "drivers/cpuidle/governors"
    folder = tree if "/" in kernel else fetch(kernel).folder
    theirs = [folder / file for file in KERNEL_FILES if file in (f"{name}.c", "gov.h")]
    return closure([*theirs, *sorted(_SHIM.rglob("*.[ch]")), *_ENGINE])


def _at_commit(spec: str) -> list[Path]:
    folder = governor(spec).folder
    assert folder is not None
    return [*closure(_ENGINE), *sorted(folder.rglob("*.[ch]"))]


def code(text: str) -> str:
    """Return C source without comments, each run of white space as one blank."""
    bare = _COMMENT_OR_STRING.sub(lambda m: " " if m[0].startswith("/") else m[0], text)
    return " ".join(bare.split())


def fingerprint(spec: str) -> str:
    """Return a hash of the code that decides what a governor does in replay, as it is now.

    Comments are no part of it: they change no figure.

    Args:
        spec: as of replay.library.governor(); a kernel by its series; of a variant ("wteo~...", see
            steps.py) the sources that it is made from.
    """
    name, at, series = spec.partition("@")
    name = name.partition("~")[0]
    if at and name not in MAINLINE:
        files = _at_commit(spec)
    else:
        files = _kernel(name, series) if at else _own(name)
    parts: list[str | bytes] = [Path(build.__file__).read_bytes()]
    for path in files:
        if not path.name.endswith("_kunit.c"):
            parts += [path.name, code(path.read_text(errors="replace"))]
    return digest(parts)


_known: dict[str, str] = {}


def sources(spec: str) -> str:
    """Return fingerprint() as it was when it was first asked for."""
    if spec not in _known:
        _known[spec] = fingerprint(spec)
    return _known[spec]


def check_sources() -> None:
    """Make sure that sources() is still true of what was compiled since.

    Raises:
        UserError: a governor was edited meanwhile.
    """
    for spec, before in _known.items():
        if fingerprint(spec) != before:
            raise UserError(f"the sources of {spec} changed while they were measured; run it again")


class Memo:
    """Figures by a hash of what they depend on. For one thread; to be closed.

    Attributes:
        put_off: boots by their keys, that wait for those of other experiments; None: none does.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.put_off: dict[str, Callable[[], Any]] | None = None
        path = path or FOLDER / "memo.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._data = sqlite3.connect(path, timeout=60, isolation_level=None)
        self._data.execute("PRAGMA journal_mode = WAL")
        self._data.execute("PRAGMA synchronous = NORMAL")
        self._data.execute("CREATE TABLE IF NOT EXISTS memo (key TEXT PRIMARY KEY, value TEXT)")

    def get(self, key: str) -> Any | None:
        """Return what was put there, None if nothing was."""
        row = self._data.execute("SELECT value FROM memo WHERE key = ?", (key,)).fetchone()
        return json.loads(row[0]) if row else None

    def put(self, key: str, value: Any) -> None:
        """Keep something that JSON can hold."""
        self._data.execute("INSERT OR REPLACE INTO memo VALUES (?, ?)", (key, json.dumps(value)))

    def fill(
        self,
        work: Mapping[str, Callable[[], Any]],
        meter: Meter,
        title: str,
        jobs: int | None = None,
    ) -> dict[str, Any]:
        """Return what belongs to each key; what is not known is worked out in threads, and kept.

        Args:
            work: by key; returns something that JSON can hold. Begun in this order.
            meter: shows progress.
            title: of the phase.
            jobs: threads; None is one for each processor.
        """
        found = {key: self.get(key) for key in work}
        missing = [key for key, value in found.items() if value is None]
        with meter(title, len(missing)) as done, threads(jobs or cpu_count() or 1) as pool:
            waiting = {pool.submit(work[key]): key for key in missing}
            fresh: dict[str, Any] = {}
            kept = time.monotonic()
            try:
                for job in completed(waiting):
                    found[waiting[job]] = fresh[waiting[job]] = job.result()
                    done(1)
                    if time.monotonic() - kept > _KEEP_S:
                        self._keep(fresh)
                        fresh.clear()
                        kept = time.monotonic()
            finally:
                ended = [job for job in waiting if job.done() and not job.exception()]
                late = {waiting[job]: job.result() for job in ended if found[waiting[job]] is None}
                self._keep(fresh | late)
        return found

    def _keep(self, fresh: dict[str, Any]) -> None:
        """Put what was worked out; not under the name of other sources."""
        check_sources()
        for key, value in fresh.items():
            self.put(key, value)

    def __enter__(self) -> "Memo":
        return self

    def __exit__(self, *_: object) -> None:
        self._data.close()
