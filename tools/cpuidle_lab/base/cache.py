# SPDX-License-Identifier: GPL-2.0
"""A directory of things that take long to make, each made whole or not at all."""

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.progress import live_line

TOP = Path(__file__).resolve().parents[3]
# Place of all that commands make: in the tree, or in the user's directory that installed.py names.
BUILD = Path(os.environ.get("CPUIDLE_LAB_BUILD") or TOP / "build")
CACHE = BUILD / "cache"
# Places of ready-made parts: beside the command's own tree, and in the system's package.
SHIPPED = ((TOP / "../../lib/cpuidle-lab").resolve(), Path("/usr/lib/cpuidle-lab"))

# Of one name, so many versions are kept unless said; those not used for longest go first. A
# version that was used so lately may be in use.
KEPT_VERSIONS = 4
_IN_USE_S = 3600

# A disk with less room than this is full.
_FULL_BYTES = 1 << 20


# Set where threads are to end, for interrupts do not reach them: one may wait for the work of
# another process, or for a build, which both take minutes.
ending = threading.Event()
ENDED = "the machine was ended with the others"
_LOOK_S = 0.1


def check_ending() -> None:
    """Raise a UserError where threads are to end."""
    if ending.is_set():
        raise UserError(ENDED)


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold an exclusive lock on `path`; a second process waits here.

    Raises:
        BlockingIOError: another one holds it, and this one is not to wait.
        UserError: threads are to end meanwhile.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as stream:
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not wait:
                    raise
                check_ending()
                time.sleep(_LOOK_S)
        yield


@contextmanager
def _live_step(title: str) -> Iterator[Callable[[str], None]]:
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with live_line(*columns) as line:
        task = line.add_task(title, total=None)
        yield lambda detail: line.update(task, description=f"{title} ({detail})")


@contextmanager
def step(title: str) -> Iterator[Callable[[str], None]]:
    """Show that something long is going on, and how long it has been.

    On a terminal: one live line with the time so far, and what the function that is yielded
    was last given. Elsewhere, and where only Python is: one line at the end.
    """
    start = time.monotonic()
    with _live_step(title) if find_spec("rich") else nullcontext(lambda _detail: None) as say:
        yield say
    print(f"{title}: {time.monotonic() - start:.0f} s", file=sys.stderr)


def namespace() -> list[str]:
    """Return the command that gives another its own mounts, and root's rights in them."""
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    return command if os.geteuid() == 0 else [*command, "--map-auto", "--map-root-user"]


def run_logged(command: Sequence[str | Path], log: Path, what: str) -> None:
    """Run a command with its output in a file.

    The command ends with this process, however this one ends; what it starts does so in a
    namespace(). Its messages are in English.

    Raises:
        UserError: the command failed; the message says what was being done, why it failed and
            where the whole log is.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as stream:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *map(str, command)],
            env=os.environ | {"LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while (code := process.poll()) is None:
                check_ending()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_S)
        except BaseException:
            stop_group(process)
            raise
    if code != 0:
        raise UserError(f"{what} failed: {_reason(code, log)} (log: {log})")


# Of util-linux 2.38 where the process in the namespace was killed; newer ones die as it did.
_UNSHARE_KILLED = "unshare: sigprocmask unblock failed"


def _reason(code: int, log: Path) -> str:
    """Return why a command failed: the line of its log that says so, or what kept it from that."""
    lines = log.read_text(errors="replace").strip().splitlines() or ["no output"]
    if any("No space left on device" in line for line in lines) or is_full(log.parent):
        return "the disk is full"
    if code == -signal.SIGKILL or lines[-1].startswith(_UNSHARE_KILLED):
        return "it was killed"
    return next((line for line in lines if " error: " in line), lines[-1])


def is_full(folder: Path) -> bool:
    """Tell whether the disk of a folder has no room."""
    return shutil.disk_usage(folder).free < _FULL_BYTES


def stop_group(
    process: subprocess.Popen[bytes],
    signals: Sequence[int] = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL),
) -> None:
    """End a process that leads its own group, with all that it started.

    Args:
        process: the leader.
        signals: sent in this order, each 5 s after the one before, until the process has ended.
    """
    for number in signals:
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=5)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
        break
    process.wait()


def shipped(name: str) -> Path | None:
    """Return a file or directory that was installed ready-made; None if there is none."""
    return next((place / name for place in SHIPPED if (place / name).exists()), None)


def digest(ingredients: Iterable[str | bytes]) -> str:
    """Return a short hash of all ingredients, their order and their borders."""
    total = hashlib.sha256()
    for item in ingredients:
        data = item.encode() if isinstance(item, str) else item
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()[:12]


def cached(
    name: str,
    ingredients: Iterable[str | bytes],
    title: str,
    build: Callable[[Path], None],
    kept: int = KEPT_VERSIONS,
) -> Path:
    """Return the directory that `build` makes of `ingredients`, made at most once.

    One that was installed is taken as it is.

    Args:
        name: what it is; versions with other ingredients lie beside it.
        ingredients: everything that the result depends on.
        title: shown while it is made.
        build: fills the empty directory that it is given. Where it raises, nothing stays.
        kept: how many versions stay.
    """
    version = f"{name}-{digest(ingredients)}"
    if found := shipped(f"cache/{version}"):
        return found
    final = CACHE / version
    if not final.is_dir():
        _sweep()
        with locked(CACHE / f".{name}.lock"):
            if not final.is_dir():
                _build(name, final, title, build, kept)
    _note_use(final)
    return final


def _note_use(folder: Path) -> None:
    """Set the time of a version, so that it stays; one of another user is used as it is."""
    try:
        os.utime(folder)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise


def discard(folder: Path) -> None:
    """Remove a folder that was being filled, but nothing that is mounted in it.

    A root that was made in it has files of other users, which a user can remove as root of a
    namespace.
    """
    remove: list[str | Path] = ["rm", "-rf", "--one-file-system", "--", folder]
    for command in (remove, [*namespace(), *remove]):
        if folder.exists():
            subprocess.run(command, stderr=subprocess.DEVNULL)


def _sweep() -> None:
    """Remove what was being filled by processes that were killed."""
    for half in CACHE.glob(".*.tmp-*"):
        owner = CACHE / f"{half.name.partition('.tmp-')[0]}.lock"
        with contextlib.suppress(BlockingIOError), locked(owner, wait=False):
            discard(half)


def _build(name: str, final: Path, title: str, build: Callable[[Path], None], kept: int) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=f".{name}.tmp-", dir=CACHE))
    try:
        with step(title):
            build(temporary)
        temporary.chmod(0o755)
        temporary.rename(final)
    except BaseException:
        discard(temporary)
        raise
    versions = sorted(
        (path for path in CACHE.glob(f"{name}-*") if len(path.name) == len(final.name)),
        key=lambda path: path.stat().st_mtime,
    )
    for old in versions[:-kept]:
        if time.time() - old.stat().st_mtime > _IN_USE_S:
            # A kill meanwhile leaves it to the next sweep, and not half of it under its name.
            gone = CACHE / f".{name}.tmp-{old.name}"
            old.rename(gone)
            discard(gone)
