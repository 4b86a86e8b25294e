# SPDX-License-Identifier: GPL-2.0
"""Recordings that are packed: compressed, in UTF-16, in a page of JSON, or of perf.

unpacked() writes the contents to a file beside; formats/__init__.py then reads that file.
"""

import bz2
import gzip
import json
import lzma
import os
import resource
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cpuidle_lab.base.errors import UserError

_PIECE = 1 << 20
# A page of JSON is read whole.
_JSON_MAX = 256 << 20
# Lines that `atrace -z` writes before the data of zlib, the first one to a standard output alone.
_ATRACE = (b"TRACE:\n", b"capturing trace... done\nTRACE:\n")
_ZLIB = (b"\x78\x01", b"\x78\x9c", b"\x78\xda")
_BOM = (b"\xff\xfe", b"\xfe\xff")
# No program of a user has a part in it: no script, no configuration. Without symbols no library of
# the traced programs is opened.
_PERF = ("script", "--force", "--ns", "--show-lost-events", "-F", "comm,tid,cpu,time,event,trace",
         "-i")  # fmt: skip
_PERF_ENVIRONMENT = {"PERF_CONFIG": os.devnull, "DEBUGINFOD_URLS": ""}
# Of a program that unpacks.
_CPU_S = 1200
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
        raise UserError(
            f"{path}: is compressed by zstd, which is not installed; unpack it where it is: "
            f"zstd -d {path}"
        )
    try:
        yield from _printed([program, "-dcq", "--", path])
    except subprocess.CalledProcessError:
        raise EOFError from None


def _perf(path: Path) -> Iterator[bytes]:
    program = shutil.which("perf")
    if program is None:
        raise UserError(
            f"{path}: is a perf.data file, and perf is not installed; print it where it is: "
            f"perf script --ns --show-lost-events -i {path} >trace.txt"
        )
    try:
        yield from _printed([program, *_PERF, path.absolute()], **_PERF_ENVIRONMENT)
    except subprocess.CalledProcessError as error:
        raise UserError(f"{path}: perf script cannot print it: {error.stderr}") from None


def _printed(words: Sequence[str | Path], **environment: str) -> Iterator[bytes]:
    """Yield the output of a program, whose time is bounded.

    Raises:
        subprocess.CalledProcessError: it failed; stderr is the last line of its errors.
    """
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said,
            env={**os.environ, **environment},
        ) as process,
    ):  # fmt: skip
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
        assert process.stdout is not None
        read = process.stdout.read
        try:
            yield from iter(lambda: read(_PIECE), b"")
        except GeneratorExit:
            process.kill()
            raise
        code = process.wait()
        said.seek(0)
        lines = said.read(_PIECE).decode(errors="replace").splitlines()
    if code:
        lines = [line for line in lines if line and not line.endswith("Ignoring.")]
        told = lines[-1].strip() if lines else f"it ended with {code}"
        raise subprocess.CalledProcessError(code, str(words[0]), stderr=told)


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
            f"{path}: is JSON without systemTraceEvents, the text of ftrace in a page of systrace; "
            "record a trace of Perfetto, or by trace-cmd record"
        )
    yield events.encode()


# Form, its beginning, and the function that yields the contents.
FORMS: tuple[tuple[str, tuple[bytes, ...], Callable[[Path], Iterator[bytes]]], ...] = (
    ("gzip", (b"\x1f\x8b",), _gzip),
    ("xz", (b"\xfd7zXZ\0",), _xz),
    ("zstd", (b"\x28\xb5\x2f\xfd",), _zstd),
    ("bzip2", (b"BZh",), _bzip2),
    ("zlib", tuple(lines + data for lines in (b"", *_ATRACE) for data in _ZLIB), _zlib),
    ("perf.data", (b"PERFILE2", b"2ELIFREP"), _perf),
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
        UserError: the file is damaged, or a program for it is missing or fails.
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
        if not output.tell():
            raise UserError(f"{path}: its {form} data hold nothing")
