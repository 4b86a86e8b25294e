# SPDX-License-Identifier: GPL-2.0
"""Proofs as their targets of the Makefile run them, where no other test does."""

import pytest

from tests.unit import command

pytestmark = [pytest.mark.lab, pytest.mark.full]


@pytest.mark.parametrize("name", ["calibrate", "determinism"])
def test_a_proof_holds(name: str) -> None:
    done = command.run("experiment", name)
    assert done.returncode == 0, done.stdout + done.stderr
