# SPDX-License-Identifier: GPL-2.0
"""Fuzz the trace reader: damaged files against trace-columns with ASan and UBSan.

    PYTHONPATH=tools build/venv/bin/python -m tests.unit.fuzz_trace --duration 600 [--seed N]

A fault inside libtracecmd ends the reader's process and is counted; only one in our own code is a
finding, because there it can be mended.
"""

import argparse
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.unit.synthetic import NUMBER, Session
from tests.unit.tracedat import TOP

SOURCES = TOP / "tools" / "native"
_OPTIONS = "detect_leaks=0:abort_on_error=1:allocator_may_return_null=1"


def compile_reader(directory: Path, change: tuple[str, str, str] | None = None) -> Path:
    """Compile trace-columns with sanitizers.

    Args:
        directory: where to.
        change: a source, a text in it and what to put in its place: a fault to be found.
    """
    native = directory / "tools" / "native"
    shutil.copytree(SOURCES, native, dirs_exist_ok=True)
    common = directory / "governors" / "common"
    shutil.copytree(TOP / "governors" / "common", common, dirs_exist_ok=True)
    if change:
        name, old, new = change
        text = (native / name).read_text()
        assert old in text
        (native / name).write_text(text.replace(old, new))
    found = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "libtracecmd", "libtraceevent"],
        capture_output=True,
        text=True,
        check=True,
    )
    reader = directory / "trace-columns-asan"
    command = ["gcc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fno-omit-frame-pointer"]
    sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o", str(reader)]
    sources = [str(path) for path in sorted(native.glob("*.c"))]
    subprocess.run([*command, *sanitize, *sources, *found.stdout.split()], check=True)
    return reader


def damage(data: bytes, source: random.Random) -> bytes:
    """Return the file with some bytes changed, bits flipped, or a piece cut out."""
    out = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 4, 16))):
        at = source.randrange(len(out))
        match source.randrange(5):
            case 0:
                out[at] ^= 1 << source.randrange(8)
            case 1:
                out[at] = source.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                out[at : at + 4] = source.randbytes(4)
            case 3:
                del out[at : at + source.randrange(1, 64)]
            case _:
                out[at : at + 8] = source.choice((b"\xff" * 8, bytes(8)))
    if source.random() < 0.1:
        del out[source.randrange(len(out)) :]
    return bytes(out)


def _is_ours(report: str) -> bool:
    """Tell whether the first frame outside of the sanitizer's own code is ours."""
    for line in report.splitlines():
        frame = re.match(r"\s+#\d+ 0x\w+ (.*)", line)
        if frame and "libasan" not in line and "libubsan" not in line and "sanitizer" not in line:
            return "/native/" in line
    return "runtime error" in report and "/native/" in report


def fuzz(
    reader: Path,
    directory: Path,
    seed: int,
    *,
    seconds: float = math.inf,
    runs: float = math.inf,
    stop_at_first: bool = False,
) -> list[str]:
    """Run the reader on damaged files.

    Args:
        reader: what compile_reader() returned.
        directory: for the files; those of findings stay.
        seed: of the damage.
        seconds: how long.
        runs: how often; whatever comes first counts.
        stop_at_first: stop at the first finding.

    Returns:
        The sanitizers' reports of faults in our code.
    """
    source = random.Random(seed)
    session = Session()
    for governor in ("menu", *NUMBER):
        session.phase(governor, "bursts", 8_000_000)
    data = session.trace.write(directory / "seed.dat").read_bytes()
    path = directory / "damaged.dat"
    findings: list[str] = []
    done_runs = library = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end and done_runs < runs and not (findings and stop_at_first):
        path.write_bytes(damage(data, source))
        done_runs += 1
        try:
            done = subprocess.run(
                [str(reader), str(path)],
                capture_output=True,
                env={**os.environ, "ASAN_OPTIONS": _OPTIONS},
                timeout=30,
                check=False,
            )
        except subprocess.TimeoutExpired:
            library += 1
            continue
        if done.returncode in (0, 1):
            continue
        report = done.stderr.decode(errors="replace")
        if _is_ours(report):
            findings.append(report)
            (directory / f"finding-{len(findings)}.dat").write_bytes(path.read_bytes())
        else:
            library += 1
    print(f"{done_runs} runs, {len(findings)} findings, {library} faults inside libtracecmd")
    return findings


def main() -> int:
    """Fuzz for the time given and return 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--duration", type=float, default=60, metavar="S")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    args = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="fuzz-trace-"))
    findings = fuzz(compile_reader(directory), directory, args.seed, seconds=args.duration)
    print(f"seed {args.seed}, files in {directory}")
    for report in findings[:3]:
        print(report)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
