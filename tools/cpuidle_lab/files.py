# SPDX-License-Identifier: GPL-2.0
"""Files that commands leave behind."""

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file that is there in full or not at all."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        # The name of the temporary file tells a user nothing.
        raise OSError(error.errno, error.strerror, str(path)) from error
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def is_page_of(path: Path, generator: str) -> bool:
    """Tell whether a file is an HTML page whose head names this generator."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return generator.encode() in stream.read(1024)
