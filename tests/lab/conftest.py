# SPDX-License-Identifier: GPL-2.0
"""Tests that boot a guest need tools for its images; lack of one is a skip, but not in CI."""

import os
import shutil

import pytest

NEEDED = ("mmdebstrap", "unshare")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked `lab` where the lab cannot run."""
    if item.get_closest_marker("lab") is None or os.environ.get("CI"):
        return
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not found; tools/setup.sh packages installs it")
