# SPDX-License-Identifier: GPL-2.0
"""On which kernels a test runs: on the lab's usual one always, on the others if there is time."""

import pytest

from cpuidle_lab.lab.images import FLAVOURS

USUAL = "6.12"

every_kernel = pytest.mark.parametrize(
    "kernel",
    [name if name == USUAL else pytest.param(name, marks=pytest.mark.full) for name in FLAVOURS],
)
