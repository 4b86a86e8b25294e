# SPDX-License-Identifier: GPL-2.0
"""Recordings in other formats than trace.dat: docs/formats.md.

Each small reader yields events; `writer` makes a trace.dat of them, in memory bounded by a page for
each CPU, and the one reader of trace.dat does the rest. A packed file is unpacked before.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import TRACE, scratch
from cpuidle_lab.recording.formats import packed

# Enough of a file to know what it is.
_HEAD = 1 << 16
# A file that is packed more often is no recording.
_LAYERS = 3


def _head_of(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(_HEAD)


def is_foreign(path: Path) -> bool:
    """Tell whether a file is of one of these formats, and no trace.dat.

    An empty file, or none, is left to the reader of trace.dat, which says so.
    """
    if not path.is_file():
        return False
    head = _head_of(path)
    if packed.form_of(head):
        return True
    return bool(head) and not head.startswith(TRACE) and _reader_of(head) is not None


def is_recording(path: Path) -> bool:
    """Tell whether a file begins as a recording, or is packed; it may be damaged all the same."""
    return _head_of(path).startswith(TRACE) or is_foreign(path)


def _reader_of(head: bytes):  # type: ignore[no-untyped-def]
    # Not at the top, here and below: a trace.dat needs none of these.
    from cpuidle_lab.recording.formats import perfetto, text

    if perfetto.is_perfetto(head):
        return perfetto.events
    return text.events if text.is_text(head) else None


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Yield a file with the contents of a packed one; the file itself if it is not packed.

    Raises:
        UserError: it is damaged.
    """
    with scratch() as folder:
        found = path
        try:
            for layer in range(_LAYERS):
                if not packed.form_of(_head_of(found)):
                    break
                target = folder / f"unpacked-{layer}"
                packed.unpack(found, target)
                found = target
            yield found
        except UserError as error:
            # The user knows nothing of the files below the folder.
            message = re.sub(
                re.escape(str(folder)) + r"/unpacked-\d", lambda _: str(path), error.message
            )
            raise UserError(message, error.exit_code) from None


@contextmanager
def as_trace(path: Path) -> Iterator[Path]:
    """Yield a trace.dat with the events of a recording; the recording itself if it is one.

    Raises:
        UserError: the file cannot be read, is damaged, or holds no event that is known.
    """
    if not is_foreign(path):
        yield path
        return
    with unpacked(path) as plain, scratch() as folder:
        yield _made(plain, folder)


def refuse_other(plain: Path, path: Path) -> None:
    """Name a form of text that no reader takes, and what to do.

    Args:
        plain: the file, unpacked.
        path: as the user gave it.

    Raises:
        UserError: the file is of such a form.
    """
    head = _head_of(plain) if plain.is_file() else b""
    if head.startswith(TRACE):
        return
    from cpuidle_lab.recording.formats import other

    if sentence := other.sentence_on(head):
        raise UserError(f"{path}: {sentence}")


def _made(path: Path, folder: Path) -> Path:
    """Return a trace.dat below a folder with the events of a recording; itself if it is one."""
    if not is_foreign(path):
        return path
    from cpuidle_lab.recording.formats.holes import in_order
    from cpuidle_lab.recording.formats.writer import Writer

    reader = _reader_of(_head_of(path))
    target = folder / "trace.dat"
    with Writer(target) as writer:
        for event in in_order(path, reader(path)):
            try:
                writer.add(event)
            except UserError as error:
                raise UserError(f"{path}: {error.message}") from None
        if not writer.count:
            raise UserError(
                f"{path}: holds no event of idle CPUs that this program knows "
                "(power:cpu_idle at least)"
            )
    return target
