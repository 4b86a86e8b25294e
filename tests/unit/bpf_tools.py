# SPDX-License-Identifier: GPL-2.0
"""The mark of tests that build programs in BPF."""

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.bpf import build


def _are_there() -> bool:
    try:
        build.tools()
    except UserError:
        return False
    return True


needs_tools = pytest.mark.skipif(not _are_there(), reason="tools/setup.sh bpf was not run")
