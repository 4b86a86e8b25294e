# SPDX-License-Identifier: GPL-2.0
"""Recordings that are packed: compressed, in UTF-16, or in a page of JSON.

unpacked() writes the contents to a file beside; formats/__init__.py then reads that file.
"""

import bz2
import gzip
import json
import lzma
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from cpuidle_lab.base.errors import UserError

_PIECE = 1 << 20
# A page of JSON is read whole.
_JSON_MAX = 256 << 20
# Lines that `atrace -z` writes before the data of zlib, the first one to a standard output alone.
_ATRACE = (b"TRACE:\n", b"capturing trace... done\nTRACE:\n")
_ZLIB = (b"\x78\x01", b"\x78\x9c", b"\x78\xda")
_BOM = (b"\xff\xfe", b"\xfe\xff")
# Beginnings of text, as UTF-16 without a mark has them.
_UNMARKED = tuple(one.encode(f"utf-16-{end}") for one in "#< csv{" for end in ("le", "be"))


def _gzip(path: Path) -> Iterator[bytes]:
    with gzip.open(path) as stream:
        yield from iter(lambda: stream.read(_PIECE), b"")


def _xz(path: Path) -> Iterator[bytes]:
    with lzma.open(path) as stream:
        yield from iter(lambda: stream.read(_PIECE), b"")


def _bzip2(path: Path) -> Iterator[bytes]:
    with bz2.open(path) as stream:
        yield from iter(lambda: stream.read(_PIECE), b"")


def _zlib(path: Path) -> Iterator[bytes]:
    engine = zlib.decompressobj()
    with path.open("rb") as stream:
        head = stream.read(64)
        stream.seek(next((len(lines) for lines in _ATRACE if head.startswith(lines)), 0))
        for piece in iter(lambda: stream.read(_PIECE), b""):
            while piece and not engine.eof:
                yield engine.decompress(piece, _PIECE)
                piece = engine.unconsumed_tail
    if not engine.eof:
        raise EOFError


def _zstd(path: Path) -> Iterator[bytes]:
    program = shutil.which("zstd")
    if program is None:
        raise UserError(f"{path}: is compressed by zstd, which is not installed")
    with subprocess.Popen(
        [program, "-dcq", "--", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        read = process.stdout.read
        try:
            yield from iter(lambda: read(_PIECE), b"")
        except GeneratorExit:
            process.kill()
            raise
    if process.returncode:
        raise EOFError


def _utf16(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        head = stream.read(2)
    unmarked = "utf-16-le" if head.endswith(b"\0") else "utf-16-be"
    with path.open(encoding="utf-16" if head in _BOM else unmarked) as stream:
        for piece in iter(lambda: stream.read(_PIECE), ""):
            yield piece.encode()


def _json(path: Path) -> Iterator[bytes]:
    """Yield the text of ftrace within a page of systrace: the value of systemTraceEvents."""
    if path.stat().st_size > _JSON_MAX:
        raise UserError(f"{path}: is JSON of more than {_JSON_MAX >> 20} MiB; record text instead")
    page = json.loads(path.read_bytes())
    events = page.get("systemTraceEvents") if isinstance(page, dict) else None
    if not isinstance(events, str):
        raise UserError(
            f"{path}: is JSON without systemTraceEvents, the text of ftrace in a page of systrace"
        )
    yield events.encode()


# Form, its beginning, and the function that yields the contents.
FORMS: tuple[tuple[str, tuple[bytes, ...], Callable[[Path], Iterator[bytes]]], ...] = (
    ("gzip", (b"\x1f\x8b",), _gzip),
    ("xz", (b"\xfd7zXZ\0",), _xz),
    ("zstd", (b"\x28\xb5\x2f\xfd",), _zstd),
    ("bzip2", (b"BZh",), _bzip2),
    ("zlib", tuple(lines + data for lines in (b"", *_ATRACE) for data in _ZLIB), _zlib),
    ("UTF-16", (*_BOM, *_UNMARKED), _utf16),
    ("JSON", (b"{", b"\xef\xbb\xbf{", b" {", b'\n{"', b"\n{\n "), _json),
)


def form_of(head: bytes) -> str | None:
    """Return the name of the form of a file that begins so; None: it is not packed."""
    found = (name for name, begins, _ in FORMS if head.startswith(begins))
    return next(found, None)


def unpack(path: Path, target: Path) -> None:
    """Write the contents of a packed file to a target.

    Raises:
        UserError: the file is damaged, or a program for it is missing.
        OSError: the file cannot be read, or the target cannot be written.
    """
    with path.open("rb") as stream:
        form = form_of(stream.read(64))
    contents = next(function for name, _, function in FORMS if name == form)
    with target.open("wb") as output:
        try:
            for piece in contents(path):
                output.write(piece)
        except (EOFError, lzma.LZMAError, zlib.error, ValueError, RecursionError, OSError) as error:
            # Those of gzip and bzip2 are errors of the system, without a number.
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise UserError(f"{path}: its {form} data are damaged, or end too early") from error
