# SPDX-License-Identifier: GPL-2.0
"""Recordings in other formats than trace.dat: docs/formats.md.

Each small reader yields events; `writer` makes a trace.dat of them, in memory bounded by a page for
each CPU, and the one reader of trace.dat does the rest.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import TRACE, scratch
from cpuidle_lab.recording.formats import perfetto, text
from cpuidle_lab.recording.formats.writer import Writer

# Enough of a file to know what it is.
_HEAD = 1 << 16


def is_foreign(path: Path) -> bool:
    """Tell whether a file is of one of these formats, and no trace.dat.

    An empty file, or none, is left to the reader of trace.dat, which says so.
    """
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        head = stream.read(_HEAD)
    return bool(head) and not head.startswith(TRACE) and _reader_of(head) is not None


def _reader_of(head: bytes):  # type: ignore[no-untyped-def]
    if perfetto.is_perfetto(head):
        return perfetto.events
    return text.events if text.is_text(head) else None


@contextmanager
def as_trace(path: Path) -> Iterator[Path]:
    """Yield a trace.dat with the events of a recording; the recording itself if it is one.

    Raises:
        UserError: the file cannot be read, is damaged, or holds no event that is known.
    """
    if not is_foreign(path):
        yield path
        return
    with path.open("rb") as stream:
        reader = _reader_of(stream.read(_HEAD))
    with scratch() as folder:
        target = folder / "trace.dat"
        with Writer(target) as writer:
            for event in reader(path):
                try:
                    writer.add(event)
                except UserError as error:
                    raise UserError(f"{path}: {error.message}") from None
            if not writer.count:
                raise UserError(
                    f"{path}: holds no event of idle CPUs that this program knows "
                    "(power:cpu_idle at least)"
                )
        yield target
