# SPDX-License-Identifier: GPL-2.0
"""Debian packages of any suite, without touching the machine's own package lists.

The mirror is the one that the machine itself uses for Debian. A private apt root holds the
package lists of other suites; apt verifies their signatures with Debian's archive keyring.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.packages import remedy

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ETC_APT = Path("/etc/apt")
# A list older than this (seconds) is fetched again before packages are.
LISTS_MAX_AGE = 24 * 3600

_DEBIAN_SUITE = re.compile(
    r"(stable|oldstable|testing|unstable|sid|bullseye|bookworm|trixie|forky|duke)$"
)
_FIELD = re.compile(r"([A-Za-z-]+)\s*:\s*(.*)")

Say = Callable[[str], None]


def say_on_stderr(message: str) -> None:
    """Print a line of progress."""
    print(message, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Source:
    """One place that packages come from.

    Attributes:
        uri: where it is.
        suite: a release of it.
        components: parts of that release.
    """

    uri: str
    suite: str
    components: tuple[str, ...]


def parse_list(text: str) -> Iterator[Source]:
    """Yield the binary sources of a file in the one-line format (`*.list`)."""
    for line in text.splitlines():
        words = re.sub(r"\[.*?\]", " ", line.split("#", 1)[0]).split()
        if len(words) >= 3 and words[0] == "deb":
            yield Source(words[1], words[2], tuple(words[3:]))


def parse_deb822(text: str) -> Iterator[Source]:
    """Yield the binary sources of a file in the deb822 format (`*.sources`)."""
    kept = (line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n[ \t]*\n", "\n".join(kept)):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line[:1].isspace():
                fields[name] = fields.get(name, "") + " " + line.strip()
            elif match := _FIELD.match(line):
                name = match[1].lower()
                fields[name] = match[2]
        if "deb" not in fields.get("types", "").split():
            continue
        if fields.get("enabled", "yes").lower() in ("no", "false", "0", "off"):
            continue
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield Source(uri, suite, tuple(fields.get("components", "").split()))


def machine_sources(etc: Path = ETC_APT) -> Iterator[Source]:
    """Yield the sources that the machine's own apt uses, in the order of its files."""
    parts = etc / "sources.list.d"
    for path in [etc / "sources.list", *sorted(parts.glob("*.list"))]:
        if path.is_file():
            yield from parse_list(path.read_text(encoding="utf-8"))
    for path in sorted(parts.glob("*.sources")):
        yield from parse_deb822(path.read_text(encoding="utf-8"))


def mirror(etc: Path = ETC_APT) -> str:
    """Return the URI of the Debian mirror that the machine uses.

    Raises:
        UserError: the machine's apt configuration names no Debian mirror.
    """
    for source in machine_sources(etc):
        if _DEBIAN_SUITE.match(source.suite) and "main" in source.components:
            return source.uri.rstrip("/")
    raise UserError(
        f"no Debian mirror in {etc}/sources.list or {etc}/sources.list.d: "
        "add a line for a Debian release with component main"
    )


def _tool(name: str, package: str) -> None:
    if shutil.which(name) is None:
        raise UserError(f"{name} is missing: {remedy(package)}")


def _acquire_options() -> list[str]:
    """Return how the machine's apt fetches (proxies and the like), as lines of apt.conf."""
    dump = subprocess.run(
        ["apt-config", "dump", "Acquire"], check=True, capture_output=True, text=True
    ).stdout
    return [
        line
        for line in dump.splitlines()
        if not line.startswith(("Acquire::IndexTargets", "Acquire::Languages")) and '""' not in line
    ]


def private_root(suite: str | Sequence[str], cache_dir: Path, architecture: str = "") -> Path:
    """Make an apt root of its own for one or more suites; nothing is downloaded yet.

    Args:
        suite: a Debian suite, for instance "trixie-backports", or several.
        cache_dir: directory of the root; made if missing, kept between calls.
        architecture: Debian's name of one; the machine's own if empty.

    Returns:
        The path of its apt.conf, for the environment variable APT_CONFIG.

    Raises:
        UserError: apt or the keyring is missing, or there is no mirror.
    """
    _tool("apt-get", "apt")
    if not KEYRING.is_file():
        raise UserError(f"{KEYRING} is missing: {remedy('debian-archive-keyring')}")
    root = cache_dir.resolve()
    for part in ("etc", "lists/partial", "archives/partial"):
        (root / part).mkdir(parents=True, exist_ok=True)
    (root / "status").touch()

    suites = [suite] if isinstance(suite, str) else suite
    uri = mirror()
    _write_if_changed(
        root / "etc/sources.list",
        "".join(f"deb [signed-by={KEYRING}] {uri} {name} main\n" for name in suites),
    )
    lines = [
        *_acquire_options(),
        'Acquire::Languages "none";',
        f'Dir::State "{root}";',
        f'Dir::State::status "{root}/status";',
        f'Dir::State::lists "{root}/lists";',
        f'Dir::Cache "{root}";',
        f'Dir::Cache::archives "{root}/archives";',
        f'Dir::Etc::sourcelist "{root}/etc/sources.list";',
        'Dir::Etc::sourceparts "/dev/null";',
        'Dir::Etc::parts "/dev/null";',
        'Dir::Etc::main "/dev/null";',
        'Dir::Etc::preferences "/dev/null";',
        'Dir::Etc::preferencesparts "/dev/null";',
    ]
    if architecture:
        lines += [f'APT::Architecture "{architecture}";', f'APT::Architectures "{architecture}";']
    if os.geteuid() == 0:
        # The unprivileged user of apt may not be able to enter the directory.
        lines.append('APT::Sandbox::User "root";')
    conf = root / "etc/apt.conf"
    _write_if_changed(conf, "\n".join(lines) + "\n")
    return conf


def _write_if_changed(path: Path, text: str) -> None:
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other processes out of a directory, which is made if missing; wait for them first."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def apt(
    conf: Path, arguments: Sequence[str], cwd: Path | None = None, progress: bool = False
) -> str:
    """Run an apt program in a private root.

    Args:
        conf: as returned by private_root().
        arguments: the program (apt-get, apt-cache) and its arguments.
        cwd: directory to run in.
        progress: show the program's progress if standard error is a terminal.

    Returns:
        What it wrote to its standard output, unless that was shown.

    Raises:
        UserError: it failed; the message carries its last error.
    """
    environment = {**os.environ, "APT_CONFIG": str(conf), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        arguments,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr if progress and sys.stderr.isatty() else subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        reason = " ".join(errors[:2]) or done.stderr.strip()[-300:]
        raise UserError(f"{' '.join(arguments)} failed: {reason}")
    return done.stdout or ""


def update(conf: Path, max_age: float = LISTS_MAX_AGE, say: Say = say_on_stderr) -> None:
    """Fetch the package lists of a private root.

    Args:
        conf: as returned by private_root().
        max_age: nothing is done if the lists are younger than this (seconds).
        say: takes lines of progress.

    Raises:
        UserError: a list could not be fetched or its signature is not good.
    """
    stamp = conf.parent / "updated"
    sources = conf.parent / "sources.list"
    if stamp.is_file():
        made = stamp.stat().st_mtime
        if made >= sources.stat().st_mtime and time.time() - made < max_age:
            return
    say("fetching package lists")
    # Without --error-on=any a list that cannot be fetched is a warning.
    apt(conf, ["apt-get", "update", "--error-on=any"], progress=True)
    stamp.touch()


def candidate(conf: Path, package: str) -> str | None:
    """Return the version of a package that would be fetched, or None if there is none.

    Raises:
        UserError: apt failed.
    """
    policy = apt(conf, ["apt-cache", "policy", package])
    match = re.search(r"^\s*Candidate:\s*(\S+)", policy, re.MULTILINE)
    return match[1] if match and match[1] != "(none)" else None


def download(
    packages: Iterable[str],
    suite: str | Sequence[str],
    dest: Path,
    *,
    cache_dir: Path,
    architecture: str = "",
    say: Say = say_on_stderr,
) -> list[Path]:
    """Fetch packages, without what they depend on.

    Args:
        packages: their names; "NAME=VERSION" asks for one version.
        suite: where to look, see private_root().
        dest: directory for the .deb files; one that is there already is not fetched again.
        cache_dir: directory of the private root.
        architecture: see private_root().
        say: takes lines of progress.

    Returns:
        The .deb files in the order of `packages`.

    Raises:
        UserError: a package is not in the suite, or could not be fetched.
    """
    with locked(cache_dir):
        conf = private_root(suite, cache_dir, architecture)
        update(conf, say=say)
        return [_download_one(conf, package, suite, dest, say) for package in packages]


def _download_one(
    conf: Path, package: str, suite: str | Sequence[str], dest: Path, say: Say
) -> Path:
    name, _, version = package.partition("=")
    version = version or candidate(conf, name) or ""
    if not version:
        where = suite if isinstance(suite, str) else ", ".join(suite)
        raise UserError(f"Debian's {where} has no package {name}")
    # apt writes a version's colon as %3a in the name of the file.
    found = sorted(dest.glob(f"{name}_{version.replace(':', '%3a')}_*.deb"))
    if found:
        return found[0]
    dest.mkdir(parents=True, exist_ok=True)
    partial = dest / f".{name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        say(f"downloading {name} {version}")
        apt(conf, ["apt-get", "download", f"{name}={version}"], cwd=partial, progress=True)
        (deb,) = partial.glob("*.deb")
        return deb.replace(dest / deb.name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
