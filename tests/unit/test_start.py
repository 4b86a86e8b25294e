# SPDX-License-Identifier: GPL-2.0
"""Work that `compare` does once, or not at all, before its first figure: counted, not timed."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.cli import main
from cpuidle_lab.recording.native import native_reader
from cpuidle_lab.replay import build, engine, library
from tests.unit.test_tune import recording

# As run() of the command, in a process of its own.
IMPORTS = """
import sys
from cpuidle_lab.compare import compare_page, compare_text, export, model
from cpuidle_lab.recording import state_tables
print(*sys.modules)
"""
# For recordings of other formats, given tables, and the lab.
UNWANTED = ("formats.text", "formats.other", "formats.perfetto", "formats.writer", "dumps.reading",
            "dumps.tables", "lab.lab.", "lab.tune.", "lab.review.", "lab.domains.")  # fmt: skip


def test_compare_imports_what_a_trace_dat_needs() -> None:
    environment = os.environ | {"PYTHONPATH": str(TOP / "tools")}
    done = subprocess.run([sys.executable, "-c", IMPORTS], env=environment, check=True,
                          capture_output=True, text=True)  # fmt: skip
    ours = [name for name in done.stdout.split() if name.startswith("cpuidle_lab")]
    assert len(ours) > 50
    assert [name for name in ours if any(part in f"{name}." for part in UNWANTED)] == []


@pytest.mark.parametrize(("kept", "least", "most"), [(1 << 17, 1, 2), (0, 4, 9)])
def test_intervals_of_a_small_recording_are_read_once_for_all_governors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int, least: int, most: int
) -> None:
    path = recording(tmp_path / "one", 1, cpus=2, rows=500)
    read: Counter[str] = Counter()
    real = pl.read_parquet

    def counted(stream: Any, **options: Any) -> pl.DataFrame:
        if "tick_phase_ns" in options["columns"]:  # else a part of the table, for the worst
            read[Path(stream.name).name] += 1
        return real(stream, **options)

    monkeypatch.setattr(pl, "read_parquet", counted)
    monkeypatch.setattr(engine, "_KEPT_ROWS", kept)
    words = ["--governors", "wteo,teo_ng,menu_ng", "--no-mainline", "--no-instructions", "--json"]
    assert main(["compare", str(path), *words]) == 0
    assert len(read) == 2 and all(least <= times <= most for times in read.values())


def test_sources_are_hashed_once_for_all_governors(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []
    real = build._ingredients

    def counted(product: build.Product, sources: Any) -> list[str | bytes]:
        hashed.append(product.file)
        return real(product, sources)

    for known in (library.governor, library._ours):
        known.cache_clear()
    monkeypatch.setattr(build, "_ingredients", counted)
    assert [library.governor(name).name for name in ("wteo", "teo_ng", "oracle")]
    assert hashed == [build.LIBRARY.file]


def test_the_list_of_functions_is_not_parsed_when_a_file_is_opened(tmp_path: Path) -> None:
    """It has 170,000 names: two fifths of all instructions on the demo's recording.

    That they are known where they are wanted is shown in test_formats.py.
    """
    environment = os.environ | {"LD_DEBUG": "bindings", "LD_BIND_NOW": "1"}
    done = subprocess.run([native_reader(), tmp_path / "none.dat"], env=environment, check=False,
                          capture_output=True, text=True)  # fmt: skip
    bound = [line.split(" to ")[1] for line in done.stderr.splitlines()
             if "libtracecmd" in line and "`tep_parse_kallsyms'" in line]  # fmt: skip
    assert bound and all(line.startswith(str(native_reader())) for line in bound)
