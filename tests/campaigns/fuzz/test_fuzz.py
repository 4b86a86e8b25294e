# SPDX-License-Identifier: GPL-2.0
"""The fuzz targets: the kept inputs and a fixed seed, with gcc's sanitizers; libFuzzer in the end.

`make -C tests/campaigns/fuzz SECONDS=600` lets libFuzzer look for longer. What it finds is saved
among the kept inputs.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import long

TOP = Path(__file__).resolve().parents[3]
INPUTS = TOP / "tests" / "campaigns" / "fuzz" / "inputs"
PARTS = (
    "governors",
    "module/trace.h",
    "tests/campaigns/fuzz",
    "tools/native",
    "tools/cpuidle_lab",
    "tests/unit/tracedat.py",
)
# Of a fixed seed, a second or two each; and as many as find each fault below.
RUNS = {"periods": 20_000, "stock": 5_000, "trace": 20_000, "told": 2_500, "replay": 1_500}
FAULT_RUNS = 20_000
FILES = {"trace": "formats.dat", "told": "told.dat"}

# One fault for each target that it must find: file, text, what to put in its place.
FAULTS = {
    "periods": (
        "tools/native/periods.c",
        "	p->has_interval = false;\n	p->goes_on = false;",
        "	p->goes_on = false;",
    ),
    "stock": ("tools/native/stock.c", "\ts->has_open = false;", "\t;"),
    "trace": (
        "tools/native/trace_records.c",
        "if ((size_t)record->size < r->least[table])",
        "if (false)",
    ),
    "told": (
        "tools/native/trace_stock.c",
        "s->governors[i ? i - 1 : 0].number",
        "s->governors[i - 1].number",
    ),
    "replay": (
        "tools/native/replay/engine.c",
        "	if (index >= m->state_count) {\n		decision->index = 0;",
        "	if (index >= m->state_count) {",
    ),
}


def fuzz(
    target: str, folder: Path, runs: int, inputs: Sequence[Path] = (), top: Path = TOP
) -> subprocess.CompletedProcess[str]:
    """Build a target and run it with a fixed seed, or on inputs; never raises on what it finds."""
    make = ["make", "-s", "-C", str(top / "tests/campaigns/fuzz"), f"OUT={folder}"]
    python = f"PYTHON={TOP / 'build' / 'venv' / 'bin' / 'python'}"
    needed = [f"{folder}/{name}" for name in (f"random-{target}", FILES.get(target)) if name]
    built = subprocess.run(
        [*make, python, *needed], capture_output=True, text=True, check=False, timeout=600
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return subprocess.run(
        [f"{folder}/random-{target}", f"-runs={runs}", "-seed=7", *map(str, inputs)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={
            **os.environ,
            "ASAN_OPTIONS": "detect_leaks=0",
            "FUZZ_TRACE": f"{folder}/formats.dat",
            "FUZZ_TOLD": f"{folder}/told.dat",
        },
    )


@pytest.mark.parametrize("target", RUNS)
def test_nothing_is_found(target: str) -> None:
    done = fuzz(target, TOP / "build" / "fuzz", RUNS[target])
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == f"{RUNS[target]} runs\n"


# Inputs of faults that were mended, and those that reach most of the code.
@pytest.mark.parametrize("target", RUNS)
def test_nothing_is_found_in_kept_inputs(target: str) -> None:
    kept = sorted((INPUTS / target).iterdir())
    done = fuzz(target, TOP / "build" / "fuzz", 0, kept)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == f"{len(kept)} runs\n"


# With libFuzzer, for a minute. The seed is in the head of pytest's output.
@pytest.mark.full
@pytest.mark.parametrize("target", RUNS)
def test_nothing_is_found_with_the_seed_of_the_day(target: str) -> None:
    words = [f"fuzz-{target}", "SECONDS=60", f"SEED={long.day_seed()}"]
    make = ["make", "-s", "-C", str(INPUTS.parent), *words]
    done = subprocess.run(make, capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


# A broken target is found.
@pytest.mark.full
@pytest.mark.parametrize("target", FAULTS)
def test_a_fault_is_found(target: str, tmp_path: Path) -> None:
    name, old, new = FAULTS[target]
    top = tmp_path / "top"
    for part in PARTS:
        source = TOP / part
        (top / part).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, top / part)
        else:
            shutil.copy(source, top / part)
    text = (top / name).read_text()
    assert text.count(old) == 1
    (top / name).write_text(text.replace(old, new))
    done = fuzz(target, tmp_path, FAULT_RUNS, top=top)
    assert done.returncode != 0
    assert (
        "ERROR: AddressSanitizer" in done.stderr
        or "runtime error" in done.stderr
        or ("not true" in done.stderr)
    )
