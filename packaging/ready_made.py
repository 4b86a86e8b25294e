# SPDX-License-Identifier: GPL-2.0
"""The native parts of an installation, made beforehand: the contents of PREFIX/lib/cpuidle-lab.

They are what the commands would make at their first use, under the same names, so that
`cpuidle_lab.base.cache` finds them. Of libraries only those come along that not every Linux with
glibc has.
"""

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TOP / "tools")]

from cpuidle_lab.base.errors import UserError as UserError  # noqa: E402
from cpuidle_lab.bpf.build import loader  # noqa: E402
from cpuidle_lab.host import evacuation  # noqa: E402
from cpuidle_lab.recording.native import compile_reader, native_reader  # noqa: E402
from cpuidle_lab.replay import build  # noqa: E402
from cpuidle_lab.states import linux_source  # noqa: E402
from cpuidle_lab.view.html_page import DRAWING  # noqa: E402

# Of glibc, which is everywhere in the same version or a newer one.
SYSTEM = re.compile(r"(libc|libm|libdl|libpthread|librt)\.so\.\d+")
PRODUCTS = build.LIBRARY, build.COUNTER


def libraries(program: Path) -> Iterator[Path]:
    """Yield the shared libraries of a program that a machine may lack."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for name, path in re.findall(r"^\s*(\S+) => (/\S+)", said, re.MULTILINE):
        if not SYSTEM.fullmatch(name):
            yield Path(path)


def reader(folder: Path) -> None:
    """Add the trace reader, with the libraries that it then finds beside it."""
    made = native_reader()
    target = folder / "cache" / made.parent.name
    target.mkdir()
    # The older tag holds for the libraries of libraries, too.
    compile_reader(target, "-Wl,-rpath,$ORIGIN,--disable-new-dtags")
    for library in libraries(made):
        shutil.copy(library, target / re.sub(r"(\.so\.\d+).*", r"\1", library.name))


def add(folder: Path, made: Path) -> None:
    """Add a directory of the cache, without its object files."""
    beside = shutil.ignore_patterns("*.o", "layout.c")
    shutil.copytree(made.parent, folder / "cache" / made.parent.name, ignore=beside)


def ours(folder: Path) -> None:
    """Add the project's governors for replay, and the order of evacuation."""
    for made in (*map(build.own, PRODUCTS), evacuation.library()):
        add(folder, made)


def drawing(folder: Path) -> None:
    """Add what draws charts: one file of the package plotly, which has 65 MB of others."""
    from plotly.offline import get_plotlyjs

    (folder / DRAWING).write_text(get_plotlyjs(), encoding="utf-8")


def mainline(folder: Path) -> None:
    """Add the governors of each series of kernels that Debian has, and their sources."""
    for series in linux_source.SUITES:
        source = linux_source.fetch(series).folder
        shutil.copytree(source, folder / "cache" / "linux-source" / series,
                        ignore=shutil.ignore_patterns("lock"))  # fmt: skip
        for product in PRODUCTS:
            add(folder, build.mainline(product, series))


def bpf(folder: Path) -> None:
    """Add the loader of programs in BPF, which is linked from Debian's packages for x86-64."""
    if platform.machine() == "x86_64":
        shutil.copy(loader(), folder)


def make(folder: Path, missing: Callable[[str], None]) -> None:
    """Make the ready-made parts.

    Args:
        folder: that receives them.
        missing: takes the sentence for each part that has to be left out, because the sources are
            Debian's and this machine cannot fetch them.

    Raises:
        UserError: there is no compiler, or a library is missing.
    """
    (folder / "cache").mkdir(parents=True, exist_ok=True)
    reader(folder)
    ours(folder)
    drawing(folder)
    for part in (mainline, bpf):
        try:
            part(folder)
        except UserError as error:
            missing(f"without {part.__name__}: {error.message}")
    for path in folder.rglob("*"):
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
            subprocess.run(["strip", "--strip-debug", path], check=True)
