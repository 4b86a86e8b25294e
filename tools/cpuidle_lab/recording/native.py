# SPDX-License-Identifier: GPL-2.0
"""The program `trace-columns` (tools/native), which reads traces by libtracecmd."""

import shutil
import subprocess
from pathlib import Path

from cpuidle_lab.base.cache import TOP, cached
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.packages import COMPILER, TRACE_LIBRARIES, remedy

_SOURCES = TOP / "tools" / "native"
_LIBRARIES = ("libtracecmd", "libtraceevent")
_PACKAGES = (*COMPILER, *TRACE_LIBRARIES)


def compile_reader(directory: Path, *options: str) -> None:
    """Compile `trace-columns`.

    Args:
        directory: that receives it.
        options: further ones of the compiler.

    Raises:
        UserError: a package is missing, or the sources do not compile.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    config = shutil.which("pkg-config")
    if not compiler or not config:
        raise UserError(f"the trace reader must be compiled first: {remedy(*_PACKAGES)}")
    found = subprocess.run(
        [config, "--cflags", "--libs", *_LIBRARIES], capture_output=True, text=True, check=False
    )
    if found.returncode:
        raise UserError(f"the trace reader needs libtracecmd: {remedy(*_PACKAGES)}")
    command = [compiler, "-O2", "-g", "-o", str(directory / "trace-columns")]
    built = subprocess.run(
        [*command, *map(str, sorted(_SOURCES.glob("*.c"))), *found.stdout.split(), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        first = next((line for line in built.stderr.splitlines() if "error" in line), built.stderr)
        raise UserError(f"the trace reader does not compile: {first.strip()}")


def native_reader() -> Path:
    """Return the path of `trace-columns`, compiled at the first use.

    Raises:
        UserError: a package is missing; the message names all of them.
    """
    common = TOP / "governors" / "common"
    sources = sorted([*_SOURCES.glob("*.[ch]"), common / "record.h", common / "types.h"])
    ingredients = [path.read_bytes() for path in sources]
    return cached("trace-columns", ingredients, "Compiling the trace reader", compile_reader) / (
        "trace-columns"
    )
