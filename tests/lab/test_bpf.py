# SPDX-License-Identifier: GPL-2.0
"""Governors as programs in BPF, in stock kernels: the proof, in a short and a long form."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(not shutil.which("clang-19"), reason="tools/setup.sh bpf was not run"),
]

PROOF = Path(__file__).parents[1] / "proofs/bpf/run.py"


def prove(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(PROOF), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.full
@pytest.mark.parametrize(("kernel", "cpus"), [("6.12", "4"), ("7.2", "2")])
def test_programs_decide_as_native_governors(kernel: str, cpus: str) -> None:
    found = prove("--periods", "100000", "--turns", "3", "--kernel", kernel, "--cpus", cpus)
    assert found["faults"] == []
