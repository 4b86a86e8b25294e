# SPDX-License-Identifier: GPL-2.0
"""Decision logic is pure C: it needs nothing but a compiler, and three functions from outside."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from cpuidle_lab.host.machine import project_governors
from tests.logic import EVACUATION, FORMER, logic

TOP = Path(__file__).resolve().parents[2]
GOVERNORS = TOP / "governors"
# The only file that knows where it is compiled.
TYPES = GOVERNORS / "common/types.h"
SOURCES = logic("*.c")
HEADERS = [GOVERNORS / "list.h", *logic("*.h")]

ENVIRONMENT = {"cil_env_sleep_length", "cil_env_print"}
MEMORY = {"memcmp", "memset", "memcpy", "memmove"}
CC = os.environ.get("CC", "gcc")
FLAGS = [
    "-std=gnu11",
    "-O2",
    "-ffreestanding",
    "-nostdinc",
    # Constants that hold pointers stay constant.
    "-fno-pie",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-Wno-sign-compare",
    "-Wno-missing-field-initializers",
    "-Werror",
    # With it a floating-point number does not compile, whatever it is used for.
    "-mgeneral-regs-only",
]


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def compile_freestanding(source: Path, target: Path) -> None:
    include = run(CC, "-print-file-name=include").strip()
    run(CC, *FLAGS, "-isystem", include, "-c", source, "-o", target)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    folder = tmp_path_factory.mktemp("pure")
    built = {}
    for number, source in enumerate(SOURCES):
        built[source] = folder / f"{number}.o"
        compile_freestanding(source, built[source])
    return built


def symbols(item: Path, *options: str) -> set[str]:
    return {line.split()[-1] for line in run("nm", *options, item).splitlines()}


def test_there_is_something_to_check() -> None:
    assert {p.parent.name for p in SOURCES} > {"teo_ng", "menu_ng", "wteo", "gate", "common"}
    assert {"order.c", "hold.c"} <= {p.name for p in SOURCES if p.parent == EVACUATION}
    assert {p.name for p in SOURCES if p.is_relative_to(FORMER)} == {"wteo_rfc.c"}


def test_it_compiles_without_any_library_or_float(objects: dict[Path, Path]) -> None:
    assert len(objects) == len(SOURCES)


def test_only_one_header_includes_the_kernels() -> None:
    for path in [*SOURCES, *HEADERS]:
        included = re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(), re.M)
        outside = {name for name in included if not (path.parent / name).is_file()}
        if path == TYPES:
            allowed = {"linux/build_bug.h", "linux/types.h", "linux/limits.h", "linux/string.h"}
            allowed |= {"stdbool.h", "stddef.h", "stdint.h"}
        else:
            allowed = set()
        assert outside <= allowed, path


def test_includes_point_down_only() -> None:
    for path in [*SOURCES, *HEADERS]:
        for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(), re.M):
            target = (path.parent / name).resolve()
            assert target.is_relative_to(GOVERNORS) or target.parent == path.parent, path


def test_nothing_else_is_called(objects: dict[Path, Path]) -> None:
    ours = set().union(*(symbols(o, "-g", "--defined-only") for o in objects.values()))
    for source, item in objects.items():
        foreign = symbols(item, "-u") - ours - ENVIRONMENT - MEMORY
        assert not foreign, source


def test_there_is_no_memory_outside_the_state(objects: dict[Path, Path]) -> None:
    for source, item in objects.items():
        writable = [
            line for line in run("nm", item).splitlines() if re.search(" [bdc] ", line, re.I)
        ]
        assert not writable, source


def test_a_float_or_a_library_would_be_noticed(tmp_path: Path) -> None:
    def compiles(text: str) -> bool:
        source = tmp_path / "probe.c"
        source.write_text(text)
        try:
            compile_freestanding(source, tmp_path / "probe.o")
        except AssertionError:
            return False
        return True

    assert compiles("#include <stdint.h>\nint f(int a);\nint f(int a) { return a / 2; }\n")
    assert not compiles("int f(int a);\nint f(int a) { return (int)(a * 0.7f + a); }\n")
    assert not compiles("double f(double a);\ndouble f(double a) { return a; }\n")
    assert not compiles("#include <stdlib.h>\n")
    assert not compiles("#include <linux/types.h>\n")


def test_each_governor_is_a_program_in_bpf_without_a_change() -> None:
    """The fourth build; test_bpf_build.py compiles it where there is a compiler for it."""
    for name in project_governors(TOP):
        text = (TOP / f"bpf/{name}.bpf.c").read_text()
        assert len(text.splitlines()) <= 20
        assert f'#include "governors/{name}/{name}.c"' in text
        assert f'CIL_BPF_POLICY("{name}", struct {name},' in text
