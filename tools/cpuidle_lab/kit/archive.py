# SPDX-License-Identifier: GPL-2.0
"""The archive: files with their hashes, and nothing that names a host or a user."""

import getpass
import gzip
import hashlib
import io
import json
import os
import platform
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import Foreign, whole
from cpuidle_lab.base.version import __version__

MANIFEST = "manifest.json"
FORMAT = 1

# In the first bytes of an archive, so that a later run knows its own files.
MARK = "cpuidle-lab-kit"

# Members that an archive may have.
_NAME = re.compile(r"(?:[A-Za-z0-9_][\w.-]*/){0,3}[A-Za-z0-9_][\w.-]*")

# Of one archive when it is unpacked: a minute of 128 CPUs takes less.
_MOST_BYTES = 1 << 31
_MOST_FILES = 10_000


def files_of(folder: Path) -> list[Path]:
    """Return all files of a folder, relative to it, in alphabetical order."""
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a folder, by its name there."""
    return {
        str(name): hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in files_of(folder)
    }


def private_words() -> list[str]:
    """Return the names of this host and of the user that none of the files may hold."""
    host = platform.node()
    names = {host, host.partition(".")[0], os.environ.get("SUDO_USER", "")}
    with suppress(KeyError, OSError):  # A user without a name.
        names.add(getpass.getuser())
    return sorted(name for name in names - {"root", "localhost"} if len(name) > 2)


def naming(folder: Path, words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the files that hold a word, and the word."""
    for word in words:
        pattern = re.compile(rb"(?<![\w-])" + re.escape(word.encode()) + rb"(?![\w-])")
        for name in files_of(folder):
            if pattern.search((folder / name).read_bytes()):
                yield str(name), word


def _member(name: str, data: bytes) -> tuple[tarfile.TarInfo, io.BytesIO]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    return info, io.BytesIO(data)


def pack(folder: Path, told: Mapping[str, Any], target: Path, foreign: Foreign) -> None:
    """Write the archive of a folder; its members have no owner and no time.

    Args:
        folder: with the files.
        told: further facts of the manifest.
        target: of the archive.
        foreign: tells whether a file there may be replaced.

    Raises:
        UserError: see files.check().
    """
    facts = {"format": FORMAT, "version": __version__, **told, "sha256": hashes(folder)}
    with (
        whole(target, foreign) as new,
        new.open("wb") as stream,
        gzip.GzipFile(MARK, "wb", fileobj=stream, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        tar.addfile(*_member(MANIFEST, json.dumps(facts, indent=2).encode()))
        for name in files_of(folder):
            tar.addfile(*_member(str(name), (folder / name).read_bytes()))


def _members(tar: tarfile.TarFile, path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file.

    Raises:
        UserError: a member is no file of a kit, or there is too much.
    """
    room = _MOST_BYTES
    for count, info in enumerate(tar):
        room -= info.size
        if not info.isreg() or not _NAME.fullmatch(info.name):
            raise UserError(f"{path}: '{info.name}' is no file of a kit")
        if room < 0 or count >= _MOST_FILES:
            raise UserError(f"{path}: holds more than a kit does")
        stream = tar.extractfile(info)
        assert stream is not None
        yield info.name, stream.read()


def unpack(path: Path, folder: Path) -> dict[str, Any]:
    """Unpack an archive into a new folder; return its manifest.

    Raises:
        UserError: it is no kit, is damaged, or its files are not those that were packed.
    """
    try:
        with tarfile.open(path, "r:gz") as tar:
            for name, data in _members(tar, path):
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
        found = json.loads((folder / MANIFEST).read_bytes())
        told = dict(found["sha256"])
    except FileNotFoundError as error:
        if str(error.filename) == str(path):
            raise
        raise UserError(f"{path}: is no archive of `cpuidle-lab kit`") from None
    except (tarfile.TarError, EOFError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: is no archive of `cpuidle-lab kit`, or damaged: {error}"
        ) from None
    if found.get("format") != FORMAT:
        raise UserError(f"{path}: has format {found.get('format')}; this version reads {FORMAT}")
    (folder / MANIFEST).unlink()
    for name, digest in sorted(hashes(folder).items() ^ told.items()):
        raise UserError(f"{path}: {name} is not what was packed (SHA-256 {digest[:12]})")
    return dict(found)
