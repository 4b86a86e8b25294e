# SPDX-License-Identifier: GPL-2.0
"""Builds governors as programs in BPF, and the loader.

A program is made by clang, the pass of llvm_pass.py, and llc. Its tunables and its hash are written
into the struct_ops map on the way, so the object file needs nothing beside it.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from cpuidle_lab.base.cache import BUILD, CACHE, TOP, cached, run_logged, shipped
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.files import FOREIGN, check, marked, scratch, write_whole
from cpuidle_lab.base.packages import remedy
from cpuidle_lab.bpf.llvm_pass import forget_values
from cpuidle_lab.host.machine import MOVED
from cpuidle_lab.lab import images
from cpuidle_lab.lab.built import LLVM

SOURCES = TOP / "bpf"
OBJECTS = BUILD / "bpf"
GUEST_CPUS = 8  # of the lab, unless it is told to have more
# Memory of a guest: KASAN has a byte for eight of the 4 GiB of addresses that each arena takes.
GUEST_MIB = 4096
TUNABLES = 23  # CIL_BPF_TUNABLES of governors/common/bpf.h
# The governor that programs decide for, and its tunables.
GOVERNOR = "bpf"
NUMBERED = [*(f"t{n}" for n in range(TUNABLES)), "budget"]

_CLANG = ("-target", "bpf", "-mcpu=v4", "-std=gnu11", "-ffreestanding", "-O2", "-g", "-Wall",
          "-Wno-unused-function", "-Wno-unused-variable", "-Wno-unused-but-set-variable",
          "-fno-discard-value-names", "-fdebug-compilation-dir=.", "-S", "-emit-llvm")  # fmt: skip
_PACKAGES = (f"clang-{LLVM}", f"llvm-{LLVM}", "libbpf-dev")

# Packages that the loader is linked from, of the release that the lab's guest is made of.
_LOADER_PACKAGES = ("libbpf-dev", "libelf-dev", "zlib1g-dev", "libzstd-dev", "libc6-dev")
_LOADER_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static")
_LOADER_LIBRARIES = ("-lbpf", "-lelf", "-lz", "-lzstd")

_POLICY = re.compile(r'^CIL_BPF_POLICY\(\s*"(\w+)"', re.MULTILINE)
_STRING = re.compile(r'^(@[\w.]+) = .*? c"(.*?)\\00", align', re.MULTILINE)
_TUNABLE = re.compile(
    r"%struct\.cil_tunable \{ ptr (@[\w.]+), ptr [^,]+, ptr [^,]+, ptr [^,]+, "
    r"i32 (-?\d+), i32 (-?\d+), i32 (-?\d+), ptr [^,}]+ \}"
)
_OPS = re.compile(r"^@cil_policy_ops = .*$", re.MULTILINE)

# The governor that decides where a program cannot: the module needs it.
_FALLBACK = "teo_ng"
# The lists of governors that a module has.
_HEADER, _MAKE = "governors/list.h", "governors/governors.mk"
_HEADER_LIST = re.compile(r"^#define CIL_GOVERNORS\(X\)(?:.*\\\n)+.*$", re.MULTILINE)
_MAKE_LIST = re.compile(r"^CIL_GOVERNORS\s*:?=.*$", re.MULTILINE)


@dataclass(frozen=True)
class Tunable:
    """A tunable of a program.

    Attributes:
        name: as in the policy's table.
        min: least value accepted.
        max: greatest value accepted.
        default: value unless it is set.
    """

    name: str
    min: int
    max: int
    default: int


@dataclass(frozen=True)
class Program:
    """A governor as an object file in BPF.

    Attributes:
        name: of the policy.
        path: of the object.
        hash: 16 hexadecimal digits, of the code before it became an object.
        tunables: in the order of the policy's table.
        sources: every file of the project that it was made of.
    """

    name: str
    path: Path
    hash: str
    tunables: tuple[Tunable, ...]
    sources: tuple[Path, ...] = ()


def known() -> list[str]:
    """Return the governors that have a file in bpf/."""
    return sorted(path.name.removesuffix(".bpf.c") for path in SOURCES.glob("*.bpf.c"))


def source_of(text: str) -> Path:
    """Return the file of a program, given by its path or as the name of a governor.

    Raises:
        UserError: there is none.
    """
    path = Path(text)
    if path.suffix == ".c" or "/" in text:
        if not path.is_file():
            raise UserError(f"there is no file {path}")
        if path.suffix != ".c":
            raise UserError(f"{path}: is no program in C, whose name ends in .c")
        return path
    found = SOURCES / f"{text}.bpf.c"
    if not found.is_file():
        raise UserError(
            MOVED.get(text)
            or f"bpf/ has no file for a governor '{text}', only for {', '.join(known())}",
            USAGE,
        )
    return found


def left_out(governor: str) -> dict[str, str]:
    """Return changes of the module's sources that leave out a governor, which runs as a program.

    An edit of it changes no source of the module then, so the module is not built again.

    Args:
        governor: its name.

    Returns:
        Text of source files by path, as LabRun takes it; none where the module needs the governor.

    Raises:
        UserError: the lists of governors are not understood.
    """
    if governor == _FALLBACK:
        return {}
    header, make = ((TOP / file).read_text() for file in (_HEADER, _MAKE))
    listed, made = _HEADER_LIST.search(header), _MAKE_LIST.search(make)
    if not listed or not made:
        raise UserError(f"{_HEADER} or {_MAKE} is not understood: it has no list of governors")
    entries = [
        entry
        for entry in re.findall(r"X\(\w+,\s*\d+\)", listed[0])
        if not re.match(rf"X\({governor},", entry)
    ]
    gone = (path for path in images.source_files({}) if path.startswith(f"governors/{governor}/"))
    return dict.fromkeys(gone, "") | {
        _HEADER: header.replace(listed[0], f"#define CIL_GOVERNORS(X) {' '.join(entries)}"),
        _MAKE: make.replace(made[0], re.sub(rf"\b{governor}\b", "", made[0])),
    }


def possible_cpus() -> int:
    """Return the number of CPUs that this machine may have."""
    try:
        last = Path("/sys/devices/system/cpu/possible").read_text().strip()
        return int(re.split(r"[-,]", last)[-1]) + 1
    except (OSError, ValueError):
        return os.cpu_count() or 1


def tool(name: str) -> str:
    """Return the path of a program of LLVM.

    Raises:
        UserError: it is not installed.
    """
    found = shutil.which(f"{name}-{LLVM}") or shutil.which(f"/usr/lib/llvm-{LLVM}/bin/{name}")
    if not found:
        raise UserError(f"programs in BPF need {name} of LLVM {LLVM}: {remedy(*_PACKAGES)}")
    return found


def tools() -> tuple[str, ...]:
    """Return the paths of clang, opt and llc.

    Raises:
        UserError: one of them, or libbpf's headers, are not installed.
    """
    found = tuple(tool(name) for name in ("clang", "opt", "llc"))
    if not Path("/usr/include/bpf/bpf_helpers.h").is_file():
        raise UserError(f"programs in BPF need libbpf's headers: {remedy(*_PACKAGES)}")
    return found


def _run(command: list[str | Path], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=TOP)
    if not done.returncode:
        return
    errors = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    if any("No space left" in line for line in errors):
        raise UserError(f"{what} failed: the disk is full")
    first = next((line for line in errors if "error:" in line), errors[-1])
    raise UserError(f"{what} failed: {first.strip()}")


def _tunables(text: str, policy: str) -> tuple[Tunable, ...]:
    """Read the table of a policy's tunables from LLVM's text."""
    found = re.search(
        rf"^@{policy}_policy = .*%struct\.cil_policy {{ ptr @[\w.]+, i32 \d+, "
        r"ptr (@[\w.]+|null), i32 (\d+),",
        text,
        re.MULTILINE,
    )
    if not found:
        raise UserError(f"the program has no object {policy}_policy, as policy.h wants it")
    if found[1] == "null":
        return ()
    table = re.search(rf"^{re.escape(found[1])} = .*$", text, re.MULTILINE)
    strings = dict(_STRING.findall(text))
    rows = _TUNABLE.findall(table[0]) if table else []
    result = tuple(
        Tunable(strings[name], *(int(value) % 2**32 for value in values)) for name, *values in rows
    )
    if len(result) != int(found[2]) or len(result) > TUNABLES:
        raise UserError(f"the tunables of {policy} are not understood, or more than {TUNABLES}")
    return result


def _finished(text: str, tunables: tuple[Tunable, ...]) -> tuple[str, str]:
    """Write defaults and hash into the struct_ops map; return the text and the hash."""
    ops = _OPS.search(text)
    if not ops:
        raise UserError("the program does not end with CIL_BPF_POLICY()")
    values = [t.default for t in tunables] + [0] * (TUNABLES - len(tunables))
    array = f"[{TUNABLES} x i32] [{', '.join(f'i32 {value}' for value in values)}]"
    line = ops[0].replace(f"[{TUNABLES} x i32] zeroinitializer", array, 1)
    # The first lines have the paths of this build.
    code = text[text.index("target datalayout") :]
    number = int.from_bytes(hashlib.sha256(code.encode()).digest()[:8], "big")
    signed = number - 2**64 if number >= 2**63 else number
    line = line.replace("i64 0", f"i64 {signed}", 1)
    return text.replace(ops[0], line), f"{number:016x}"


def _dependencies(file: Path) -> tuple[Path, ...]:
    words = file.read_text().replace("\\\n", " ").split()[1:]
    paths = (TOP / word for word in words)
    return tuple(path for path in paths if not path.is_relative_to("/usr"))


def build(source: Path, cpus: int | None = None, folder: Path = OBJECTS) -> Program:
    """Build a program.

    Args:
        source: its file, that ends with CIL_BPF_POLICY().
        cpus: that it has memory for; None: those of this machine.
        folder: receives NAME.bpf.o, and NAME.json, which describes it.

    Raises:
        UserError: the tools are missing, it does not compile, or the disk is full.
    """
    clang, opt, llc = tools()
    named = _POLICY.search(source.read_text())
    if not named:
        raise UserError(f'{source} has no line CIL_BPF_POLICY("NAME", …')
    try:
        folder.mkdir(parents=True, exist_ok=True)
        about = folder / f"{named[1]}.json"
        ours = marked(f'{{\n  "name": "{named[1]}",\n  "hash": "')
        check(about, ours)
        with scratch() as made_in:
            first, deps = made_in / "a.ll", made_in / "deps"
            includes = [f"-I{TOP}", *(f"-I{path}" for path in _multiarch())]
            flags = [*_CLANG, f"-DCIL_CPUS={cpus or possible_cpus()}", *includes]
            command: list[str | Path] = [clang, *flags, "-MD", "-MF", deps, source.absolute()]
            _run([*command, "-o", first], f"compiling {source.name}")
            _run([opt, "-passes=instnamer", "-S", first, "-o", first], "naming values")
            text = forget_values(first.read_text())
            tunables = _tunables(text, named[1])
            text, digest = _finished(text, tunables)
            (made_in / "b.ll").write_text(text)
            made = made_in / "program.o"
            options = ["-march=bpf", "-mcpu=v4", "-filetype=obj"]
            _run([llc, *options, made_in / "b.ll", "-o", made], f"translating {source.name}")
            program = Program(named[1], folder / f"{named[1]}.bpf.o", digest, tunables,
                              _dependencies(deps))  # fmt: skip
            told = {"name": named[1], "hash": digest, "tunables": [asdict(t) for t in tunables]}
            # The description of an object tells that it is ours, so the object comes first.
            write_whole(
                program.path, made.read_bytes(), lambda _: "" if about.is_file() else FOREIGN
            )
            write_whole(about, json.dumps(told, indent=2), ours)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}") from error
    return program


def plain(source: Path, values: Mapping[str, int] | None = None) -> bytes:
    """Return the object of a program that is no policy: a scheduler, or a tracing program.

    Args:
        source: its file, below the top of the tree.
        values: of macros.

    Raises:
        UserError: the tools are missing, or it does not compile.
    """
    clang = tool("clang")
    with scratch() as folder:
        made = folder / "program.o"
        words = [f"-D{name}={value}" for name, value in (values or {}).items()]
        words += [f"-I{path}" for path in _multiarch()]
        command: list[str | Path] = [clang, "-target", "bpf", "-O2", "-g", "-Wall", "-Werror"]
        command += [*words, "-fdebug-compilation-dir=.", "-c", source.relative_to(TOP)]
        _run([*command, "-o", made], f"compiling {source.name}")
        return made.read_bytes()


def described(name: str, digest: str, folder: Path = OBJECTS) -> tuple[Tunable, ...]:
    """Return the tunables of a program that was built here.

    Raises:
        UserError: it was not, or was built again since.
    """
    path = folder / f"{name}.json"
    told = json.loads(path.read_text()) if path.is_file() else {}
    if told.get("hash") != digest:
        raise UserError(
            f"{name} ({digest}) was not built in {folder}, or was built again since; -o names "
            "another folder"
        )
    return tuple(Tunable(**each) for each in told["tunables"])


def prebuilt(path: Path) -> Program:
    """Return a program that `bpf build` made, for machines without its compiler.

    Raises:
        UserError: the object, or its description beside it, is not there or is not understood.
    """
    about = path.with_name(path.name.removesuffix(".bpf.o") + ".json")
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    try:
        told = json.loads(about.read_text())
        tunables = tuple(Tunable(**each) for each in told["tunables"])
        return Program(told["name"], path.absolute(), told["hash"], tunables, (path.absolute(),))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} needs {about.name} beside it, as `bpf build` makes both"
        ) from error


def _multiarch() -> list[Path]:
    """Return where <asm/types.h> may be: the target bpf has no folder of its own."""
    return sorted(path.parent for path in Path("/usr/include").glob("*-linux-gnu/asm"))


def loader() -> Path:
    """Return the loader, linked statically: for this machine, and for the lab's guest.

    Its libbpf is of the release that the guest is made of; Debian 12's knows no arena. A loader
    that was installed comes first.

    Raises:
        UserError: there is no compiler, or Debian's archive cannot be used.
    """
    if found := shipped("cil-bpf"):
        return found
    source = SOURCES / "loader.c"

    def make(target: Path) -> None:
        compiler = shutil.which("gcc")
        if not compiler:
            raise UserError(f"the loader must be compiled first: {remedy('gcc')}")
        root = images.extracted(_LOADER_PACKAGES, target)
        libraries = root / "usr/lib/x86_64-linux-gnu"
        headers: list[str | Path] = [
            "-isystem",
            root / "usr/include",
            "-isystem",
            root / "usr/include/x86_64-linux-gnu",
        ]
        where: list[str | Path] = [
            f"--sysroot={root}",
            *headers,
            f"-B{libraries}/",
            f"-L{libraries}",
        ]
        command: list[str | Path] = [
            compiler,
            *where,
            *_LOADER_FLAGS,
            "-o",
            target / "cil-bpf",
            source,
        ]
        run_logged([*command, *_LOADER_LIBRARIES], CACHE / "bpf-loader.log", "linking the loader")
        shutil.rmtree(root)

    recipe: list[str | bytes] = [images.RUNTIME_RELEASE, *_LOADER_PACKAGES, *_LOADER_FLAGS]
    recipe.append(source.read_bytes())
    return cached("bpf-loader", recipe, "Making the loader of programs in BPF", make) / "cil-bpf"


def guest_files(programs: Iterable[Program]) -> dict[str, bytes]:
    """Return the files that the lab's guest needs for programs, by path."""
    files = {f"lab/bpf/{each.name}.bpf.o": each.path.read_bytes() for each in programs}
    return files | {"usr/bin/cil-bpf": loader().read_bytes()}
