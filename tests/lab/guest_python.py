# SPDX-License-Identifier: GPL-2.0
"""Python and the package cpuidle_lab for the guest, which has no Python of its own.

The package goes there as it is, so an import that a command gains needs no change here.
"""

from pathlib import Path

from cpuidle_lab.base import apt
from cpuidle_lab.base.cache import CACHE, cached, run_logged
from cpuidle_lab.lab import images

PACKAGE = Path(__file__).resolve().parents[2] / "tools" / "cpuidle_lab"

# The interpreter, and the packages of its libraries.
PYTHON = "python3.13"
PACKAGES = [
    f"{PYTHON}-minimal",
    f"lib{PYTHON}-minimal",
    f"lib{PYTHON}-stdlib",
    "libc6",
    "libexpat1",
    "zlib1g",
]
LIBRARIES = [f"usr/lib/x86_64-linux-gnu/lib{name}" for name in ("m.so.6", "z.so.1", "expat.so.1")]
NOT_NEEDED = {"asyncio", "config-3.13-x86_64-linux-gnu", "ensurepip", "lib-dynload", "pydoc_data"}

# The program that runs a command in the guest. Packages from outside Debian are not there.
MAIN = """
import sys
from cpuidle_lab.cli import main
sys.exit(main())
"""


def python_root() -> Path:
    """Return the root in which Python is, its modules compiled: the guest would take seconds."""

    def build(target: Path) -> None:
        suite = images.RUNTIME_RELEASE
        cache = images.apt_root(suite)
        root = target / "root"
        for deb in apt.download(PACKAGES, suite, target / "debs", cache_dir=cache, say=print):
            run_logged(["dpkg-deb", "-x", deb, root], CACHE / "python.log", "unpacking")
        libraries = root / "usr/lib/x86_64-linux-gnu"
        command = [
            *("env", f"PYTHONHOME={root}/usr", f"{libraries}/ld-linux-x86-64.so.2"),
            *("--library-path", f"{libraries}", f"{root}/usr/bin/{PYTHON}", "-m", "compileall"),
            *("-b", "-q", "-s", f"{root}", "-p", "/", "--invalidation-mode", "unchecked-hash"),
            f"{root}/usr/lib/{PYTHON}",
        ]
        run_logged(command, CACHE / "python.log", "compiling")

    recipe = [*PACKAGES, "compiled"]
    return cached("guest-python", recipe, "Getting Python for the guest", build) / "root"


def guest_python() -> dict[str, bytes]:
    """Return the files that let Python programs run in the guest, by path."""
    root = python_root()
    library = root / "usr/lib" / PYTHON
    modules = [
        path
        for path in library.rglob("*.pyc")
        if path.is_file() and not NOT_NEEDED & set(path.relative_to(library).parts)
    ]
    # An empty place for what is not built in keeps the interpreter from warning.
    return {f"usr/lib/{PYTHON}/lib-dynload/none": b""} | {
        str(path.relative_to(root)): path.read_bytes()
        for path in [root / "usr/bin" / PYTHON, *(root / name for name in LIBRARIES), *modules]
    }


def guest_ctypes() -> dict[str, bytes]:
    """Return what guest_python() lacks for ctypes, by path."""

    def build(target: Path) -> None:
        suite = images.RUNTIME_RELEASE
        cache = images.apt_root(suite)
        for deb in apt.download(["libffi8"], suite, target / "debs", cache_dir=cache, say=print):
            run_logged(["dpkg-deb", "-x", deb, target / "root"], CACHE / "python.log", "unpacking")

    ffi = cached("guest-ffi", ["libffi8"], "Getting libffi for the guest", build) / "root"
    python = python_root()
    (library,) = (path for path in ffi.rglob("libffi.so.8.*") if not path.is_symlink())
    (module,) = (python / f"usr/lib/{PYTHON}/lib-dynload").glob("_ctypes.*")
    return {
        str(module.relative_to(python)): module.read_bytes(),
        "usr/lib/x86_64-linux-gnu/libffi.so.8": library.read_bytes(),
    }


def command_files(main: str = MAIN) -> dict[str, bytes]:
    """Return Python, the package and a program for the guest, by path.

    Args:
        main: the program, which becomes /lab/main.py.
    """
    package = {
        f"lab/tools/cpuidle_lab/{path.relative_to(PACKAGE)}": path.read_bytes()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    return guest_python() | package | {"lab/main.py": main.encode()}
