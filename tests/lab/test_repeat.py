# SPDX-License-Identifier: GPL-2.0
"""A boot of an experiment that is repeated gives the same bits."""

import re
from pathlib import Path

import pytest

from cpuidle_lab.lab import LabRun, run_lab
from experiments.cyclic.entry import GOVERNORS, PERIODS_US, script

# The disk that takes the results out follows the host's clock, and comes before this line.
OFF = re.compile(rb"\[ *\d+\.\d+\] reboot: Power down")

SLEEPS = dict.fromkeys(PERIODS_US, 20)


def files(folder: Path, seed: int) -> dict[str, bytes]:
    """Return all that a small boot of `experiment cyclic` brings back, and says until its end."""
    run = LabRun(script(SLEEPS, seed), real_time=False, seed=seed)
    result = run_lab(run, folder).check()
    found = {path.name: path.read_bytes() for path in sorted(result.files.iterdir())}
    return found | {"console": OFF.sub(b"", found["console"])}


@pytest.mark.full
def test_a_boot_of_an_experiment_repeats_to_the_bit(tmp_path: Path) -> None:
    first, again, other = (files(tmp_path / str(n), s) for n, s in enumerate((1, 1, 2)))
    # Two programs, each with its output and the account before and after.
    assert len(first) > 2 * 3 * len(GOVERNORS) * len(PERIODS_US)
    assert first == again
    # The seed is in the names of files.
    assert sorted(first.values()) != sorted(other.values())
