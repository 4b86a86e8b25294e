# SPDX-License-Identifier: GPL-2.0
"""The build backend of pyproject.toml (PEP 517): a wheel is `make install-tools` in a file.

Its files lie below the environment's prefix as in docs/packaging.md, and with them the native parts
that ready_made.py makes. So a machine without a compiler can use reader and replay.
"""

import base64
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(Path(__file__).parent)]

VERSION = (TOP / "VERSION").read_text().strip()
NAME = f"cpuidle_lab-{VERSION}"
INFO = f"{NAME}.dist-info"
# The oldest day that a zip file knows: a wheel depends on its contents alone.
DAY = (1980, 1, 1, 0, 0, 0)
# From the directory of Python's packages to the sources below the prefix, in each scheme of pip.
PATH_FILE = "../../../share/cpuidle-lab/tools\n"
ENTRY = "[console_scripts]\ncpuidle-lab = cpuidle_lab.installed:main\n"
# Of libraries that come along; Debian's packages have them there.
LICENCES = Path("/usr/share/doc")
LIBRARIES = ("libtracecmd1", "libtracefs1", "libtraceevent1", "libzstd1")


def metadata() -> str:
    """Return the core metadata, of pyproject.toml."""
    project: dict[str, Any] = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {VERSION}",
        f"Summary: {project['description']}",
        f"License: {project['license']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {each}" for each in project["dependencies"]),
    ]
    for extra, packages in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {each} ; extra == "{extra}"' for each in packages]
    lines.append("Description-Content-Type: text/markdown")
    return "\n".join([*lines, "", (TOP / "README.md").read_text()])


def tag() -> str:
    """Return the wheel's tag: any Python 3, and the glibc of this machine or a newer one.

    Raises:
        RuntimeError: this machine has another C library.
    """
    try:
        library, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except ValueError:
        library = ""
    if library != "glibc":
        raise RuntimeError("cpuidle-lab's native parts need glibc, which this system does not have")
    major, minor = version.split(".")[:2]
    return f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"


def lay_out(stage: Path, complete: bool) -> None:
    """Fill a directory with what goes below the prefix.

    Raises:
        RuntimeError: a part is missing that was asked for, or that each wheel needs.
    """
    import ready_made

    def missing(sentence: str) -> None:
        if complete:
            raise RuntimeError(sentence)
        print(f"cpuidle-lab: {sentence}", file=sys.stderr)

    made = stage / "made"
    words = ["install-tools", f"DESTDIR={stage}", "PREFIX=/data", f"BUILD={made}"]
    subprocess.run(["make", "-s", *words], cwd=TOP, check=True)
    shutil.rmtree(made)
    (stage / "data/bin/cpuidle-lab").unlink()  # the entry point, with the path of its Python
    # pip would remove the directory of an environment that has nothing else there.
    shutil.rmtree(stage / "data/include")
    # Units name /usr/bin, and systemd does not look into environments.
    shutil.rmtree(stage / "data/lib/systemd")
    try:
        ready_made.make(stage / "data/lib/cpuidle-lab", missing)
    except ready_made.UserError as error:
        raise RuntimeError(error.message) from error


def contents(stage: Path) -> Iterator[tuple[str, bytes, int]]:
    """Yield name, bytes and mode of each file of the wheel but the list of them."""
    for path in sorted(path for path in stage.rglob("*") if path.is_file()):
        mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
        yield f"{NAME}.data/{path.relative_to(stage)}", path.read_bytes(), mode
    yield "cpuidle_lab.pth", PATH_FILE.encode(), 0o644
    wheel = f"Wheel-Version: 1.0\nGenerator: cpuidle-lab\nRoot-Is-Purelib: false\nTag: {tag()}\n"
    for name, text in (("METADATA", metadata()), ("WHEEL", wheel), ("entry_points.txt", ENTRY)):
        yield f"{INFO}/{name}", text.encode(), 0o644
    yield f"{INFO}/licenses/COPYING", (TOP / "COPYING").read_bytes(), 0o644
    for name in LIBRARIES:
        if (licence := LICENCES / name / "copyright").is_file():
            yield f"{INFO}/licenses/{name}", licence.read_bytes(), 0o644


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, str] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the wheel and return its name; see PEP 517.

    Args:
        wheel_directory: that receives it.
        config_settings: with "complete", a part that cannot be had is an error.
        metadata_directory: not used.

    Raises:
        RuntimeError: as lay_out() and tag() do.
    """
    name = f"{NAME}-{tag()}.whl"
    record = []
    with tempfile.TemporaryDirectory() as folder:
        lay_out(Path(folder), bool(config_settings and "complete" in config_settings))
        with zipfile.ZipFile(Path(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:

            def add(path: str, data: bytes, mode: int) -> None:
                info = zipfile.ZipInfo(path, DAY)
                info.external_attr = (0o100000 | mode) << 16
                wheel.writestr(info, data, zipfile.ZIP_DEFLATED)

            for path, data, mode in contents(Path(folder)):
                add(path, data, mode)
                code = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
                record.append(f"{path},sha256={code},{len(data)}\n")
            record.append(f"{INFO}/RECORD,,\n")
            add(f"{INFO}/RECORD", "".join(record).encode(), 0o644)
    return name


def build_sdist(sdist_directory: str, config_settings: Mapping[str, str] | None = None) -> str:
    """Refuse: the project's sources are those of its repository.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("cpuidle-lab has no source distribution: build the wheel in a clone")


def main() -> int:
    """Build the complete wheel into the directory that the command line names."""
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("*.whl"):
        old.unlink()
    try:
        print(target / build_wheel(str(target), {"complete": ""}))
    except RuntimeError as error:
        print(f"wheel: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
