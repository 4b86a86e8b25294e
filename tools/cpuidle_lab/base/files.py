# SPDX-License-Identifier: GPL-2.0
"""Outputs of commands: each is there in full or not at all, and no other file is lost.

Each output is made in a scratch directory, and renamed to its place. A scratch directory has a lock
as long as its process lives, so the next process removes what a killed one has left.
"""

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError

# Beginning of the names of scratch directories, and the entries of one that holds an output.
SCRATCH = ".cpuidle-lab-"
# End of such a name: programs that read all files of a suffix, hidden ones too, leave it alone.
_HELD = "~"
NEW, OLD = "new", "old"
ALL = "all"

# Another process that sweeps has the lock so long.
_SWEEP_S = 1.0
_LOOK_S = 0.02

TRACE = b"\x17\x08\x44tracing"  # of trace-cmd

# A mark is in the first bytes of a file. These are in all HTML pages, and in Markdown.
_HEAD = 1024
PAGE = '<meta name="generator" content="cpuidle-lab '
DOCUMENT = "<!-- Written by "

FOREIGN = "exists and was not written by this command"

# Tells why an existing file or directory must not be replaced; "" if it may be.
Foreign = Callable[[Path], str]

Identity = tuple[int, int]
_inputs: set[Identity] = set()


def _identity(path: Path) -> Identity | None:
    with contextlib.suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None


@contextmanager
def inputs(paths: Iterable[Path]) -> Iterator[None]:
    """Let no output take the place of one of these, by whichever of its names, or lie in one."""
    before = set(_inputs)
    _inputs.update(filter(None, map(_identity, paths)))
    try:
        yield
    finally:
        _inputs.intersection_update(before)


def _first_input(paths: Iterable[Path]) -> Path | None:
    return next((path for path in paths if _identity(path) in _inputs), None)


def marked(*marks: str | bytes) -> Foreign:
    """Return what takes only a regular file that is empty, or has a mark in its first bytes."""
    wanted = [mark.encode() if isinstance(mark, str) else mark for mark in marks]

    def foreign(path: Path) -> str:
        if path.is_dir():
            return "is a directory"
        if not stat.S_ISREG(path.stat().st_mode):
            return "is no regular file"
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
        if not head or any(mark in head for mark in wanted):
            return ""
        return FOREIGN

    return foreign


def headed(text: str) -> Foreign:
    """Return what takes only a file whose first lines have the first one of a text."""
    return marked(text.partition("\n")[0])


def unless_forced(foreign: Foreign, force: bool) -> Foreign:
    """Return what takes no file that exists, or with --force what `foreign` takes."""
    if force:
        return foreign
    return lambda path: foreign(path) or "exists already (--force replaces it)"


def check(path: Path, foreign: Foreign) -> Path:
    """Refuse a place for an output.

    Args:
        path: of the output.
        foreign: tells whether a file there may be replaced.

    Returns:
        the path without symbolic links.

    Raises:
        UserError: the place is an input, or has what this command has not written, or there is no
            directory that can be written.
    """
    place = Path(os.path.realpath(path))
    if not place.parent.is_dir():
        raise UserError(f"{path.parent}: no such directory", USAGE)
    if not os.access(place.parent, os.W_OK, effective_ids=True):
        raise UserError(f"{path.parent}: not writable; choose another place", USAGE)
    if reason := _reason(path, place, foreign):
        raise UserError(f"{path} {reason}; choose another name", USAGE)
    return place


def _reason(path: Path, place: Path, foreign: Foreign) -> str:
    if path.is_symlink() and not place.exists():
        return "is a symbolic link to nothing"
    if found := _first_input([place, *place.parents]):
        return "is an input" if found == place else f"lies in the input {found}"
    if not place.exists():
        return ""
    if reason := foreign(place):
        return reason
    found = _first_input(place.rglob("*")) if place.is_dir() else None
    return f"holds the input {found}" if found else ""


@contextmanager
def whole(path: Path, foreign: Foreign) -> Iterator[Path]:
    """Yield a path where a file or a directory is to be made, which then takes its place.

    Meanwhile no other process can make the same output. Where the context is left by an exception,
    all is as before.

    Args:
        path: of the output.
        foreign: tells whether a file there may be replaced.

    Raises:
        UserError: see check(), or another process makes the same output.
    """
    place = check(path, foreign)
    with scratch(place.parent, place.name) as folder:
        try:
            yield folder / NEW
        except OSError as several:
            error = first_of(several)
            # The name of the scratch directory tells a user nothing. A write that fails has none.
            unnamed = error.filename is None and error.errno is not None
            if unnamed or str(error.filename).startswith(f"{folder}/{NEW}"):
                raise OSError(error.errno, error.strerror, str(path)) from several
            raise
        check(path, foreign)
        if place.is_dir():
            place.rename(folder / OLD)
        hand_over(folder / NEW)
        (folder / NEW).replace(place)


def first_of(error: OSError) -> OSError:
    """Return the first of the errors of several files, as shutil.copytree() has them."""
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
        _, target, reason = error.args[0][0]
        if found := re.match(r"\[Errno (\d+)\] (.*?): '", reason):
            return OSError(int(found[1]), found[2], str(target))
    return error


def hand_over(made: Path) -> None:
    """Give an output that root made by sudo to the user who called sudo.

    Args:
        made: a file or directory in a scratch directory, which others cannot reach.
    """
    try:
        user, group = int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"])
    except (KeyError, ValueError):
        return
    if os.geteuid():
        return
    for path in (made, *(made.rglob("*") if made.is_dir() else ())):
        os.chown(path, user, group, follow_symlinks=False)


def write_whole(path: Path, text: str | bytes, foreign: Foreign) -> None:
    """Write a file that is there in full or not at all.

    Args:
        path: of the file.
        text: its contents.
        foreign: tells whether a file there may be replaced.

    Raises:
        UserError: see whole().
        OSError: it cannot be written.
    """
    with whole(path, foreign) as new:
        # A name in it need not be UTF-8.
        made = text.encode(errors="backslashreplace") if isinstance(text, str) else text
        new.write_bytes(made)
        if path.exists():
            shutil.copymode(path, new)


def write_all(folder: Path, texts: Mapping[str, tuple[str, Foreign]]) -> None:
    """Write files into a directory, which is made if it is missing.

    Args:
        folder: the directory.
        texts: by the file's name, its contents, and what tells whether it may be replaced.

    Raises:
        UserError: see whole(); none is written where one is refused.
        OSError: one cannot be written.
    """
    make_folder(folder)
    for name, (_, foreign) in texts.items():
        check(folder / name, foreign)
    for name, (text, foreign) in texts.items():
        write_whole(folder / name, text, foreign)


def make_folder(folder: Path) -> None:
    """Make a directory for outputs if it is missing.

    Raises:
        UserError: the place is a file, or cannot be written.
        OSError: it cannot be made for another reason.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"{folder} is not a directory; choose another name", USAGE) from None
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise UserError(f"{folder}: not writable; choose another place", USAGE) from None


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Let no other process fill a directory of outputs meanwhile, which is made if it is missing.

    Raises:
        UserError: another one does, or the place is a file.
    """
    if found := _first_input([folder, *folder.absolute().parents]):
        raise UserError(f"{folder} lies in the input {found}; choose another name", USAGE)
    make_folder(folder)
    with scratch(folder, ALL):
        yield


# Scratch directories.


@contextmanager
def scratch(folder: Path | None = None, name: str = "") -> Iterator[Path]:
    """Yield a new directory, which is removed in the end; by the next process after a kill.

    Args:
        folder: where it is made; by default where temporary files are.
        name: of the output that is made in it; none: it is of no output.

    Raises:
        UserError: another process makes this output.
        OSError: there is no room, or no permission.
    """
    folder = folder or Path(tempfile.gettempdir())
    for path in folder.glob(f"{SCRATCH}*"):
        sweep(path)
    deadline = time.monotonic() + _SWEEP_S
    while (made := _made(folder, name)) is None:
        if time.monotonic() > deadline:
            raise UserError(f"{folder / name}: another process writes it; wait until it has ended")
        time.sleep(_LOOK_S)
    path, lock = made
    try:
        yield path
    except OSError as error:
        # Its name tells a user nothing; that of a write that fails is missing.
        unnamed = error.filename is None and error.errno == errno.ENOSPC
        if unnamed or str(error.filename).startswith(f"{path}/"):
            raise OSError(error.errno, error.strerror, str(folder / name)) from error
        raise
    finally:
        _remove(path)
        os.close(lock)


def _made(folder: Path, name: str) -> tuple[Path, int] | None:
    """Return a scratch directory and its lock; None if another process has it."""
    try:
        if name:
            path = folder / f"{SCRATCH}{name}{_HELD}"
            path.mkdir(mode=0o700)
        else:
            path = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=folder))
    except FileExistsError:
        return None
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder / name)) from error
    lock = _locked(path)
    return None if lock is None else (path, lock)


def _locked(path: Path) -> int | None:
    """Return a descriptor with the lock of a scratch directory; None if it cannot be had."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        opened, there = os.fstat(lock), path.lstat()
        if os.path.samestat(opened, there) and opened.st_uid == os.geteuid():
            return lock
    except OSError:
        pass
    os.close(lock)
    return None


def sweep(path: Path) -> None:
    """Remove a scratch directory unless it has an owner, or is another user's."""
    lock = _locked(path)
    if lock is not None:
        _remove(path)
        os.close(lock)


def _remove(path: Path) -> None:
    """Remove a scratch directory; put the old output back if no new one took its place."""
    place = path.with_name(path.name.removeprefix(SCRATCH).removesuffix(_HELD))
    if (path / OLD).exists() and not place.exists():
        (path / OLD).rename(place)
    shutil.rmtree(path, ignore_errors=True)
