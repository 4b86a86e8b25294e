# SPDX-License-Identifier: GPL-2.0
"""Proofs as their targets of the Makefile run them, where no other test does."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.full]

PROOFS = Path(__file__).resolve().parents[1] / "proofs"


@pytest.mark.parametrize("name", ["calibrate", "determinism"])
def test_a_proof_holds(name: str) -> None:
    command = [sys.executable, str(PROOFS / name / "run.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
