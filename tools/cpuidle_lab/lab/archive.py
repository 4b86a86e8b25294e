# SPDX-License-Identifier: GPL-2.0
"""The cpio archives that the kernel unpacks as its first root.

The same content gives the same bytes: no times, owners or inode numbers of the host.
"""

import stat
from pathlib import Path, PurePosixPath
from typing import BinaryIO


class CpioWriter:
    """Writes an archive in the "newc" format, all of it owned by root."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._inode = 0
        self._directories: set[PurePosixPath] = set()

    def directory(self, path: str) -> None:
        """Add a directory and those above it, each once."""
        wanted = PurePosixPath(path)
        for each in [*reversed(wanted.parents), wanted]:
            if each != PurePosixPath(".") and each not in self._directories:
                self._directories.add(each)
                self._entry(str(each), stat.S_IFDIR | 0o755, b"")

    def file(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Add a regular file and the directories above it."""
        self.directory(str(PurePosixPath(path).parent))
        self._entry(path, stat.S_IFREG | mode, data)

    def symlink(self, path: str, target: str) -> None:
        """Add a symbolic link and the directories above it."""
        self.directory(str(PurePosixPath(path).parent))
        self._entry(path, stat.S_IFLNK | 0o777, target.encode())

    def tree(self, root: Path, prefix: str) -> None:
        """Add every file below `root` under `prefix`, in the order of their names."""
        for path in sorted(root.rglob("*")):
            name = str(PurePosixPath(prefix) / path.relative_to(root))
            if path.is_symlink():
                self.symlink(name, str(path.readlink()))
            elif path.is_dir():
                self.directory(name)
            else:
                self.file(name, path.read_bytes(), path.stat().st_mode & 0o777)

    def close(self) -> None:
        """Write the archive's end; another archive may follow in the same stream."""
        self._entry("TRAILER!!!", 0, b"")

    def _entry(self, name: str, mode: int, data: bytes) -> None:
        self._inode += 1
        raw = name.encode() + b"\0"
        fields = [self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0]
        header = b"070701" + "".join(f"{field:08x}" for field in fields).encode()
        self._padded(header + raw)
        self._padded(data)

    def _padded(self, data: bytes) -> None:
        self._stream.write(data + b"\0" * (-len(data) % 4))
