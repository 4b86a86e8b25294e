# SPDX-License-Identifier: GPL-2.0
"""Meanings of the numbers of reasons."""

import re
from functools import cache

from cpuidle_lab.base.abi import constant
from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError

_LIST = TOP / "governors" / "common" / "reasons.h"
_ENTRY = re.compile(r'X\(\w+,\s*(\d+),\s*"([^"]+)"\)')

# Of policies that no kernel can run.
_LIMITS = {constant("RP_REASON_ORACLE"): "oracle", constant("RP_REASON_BAYES"): "bayes"}


@cache
def names() -> dict[int, str]:
    """Return the name of each reason.

    Raises:
        UserError: the list in the sources is not understood.
    """
    found = {int(number): text for number, text in _ENTRY.findall(_LIST.read_text("utf-8"))}
    if not found:
        raise UserError(f"{_LIST} is not understood: it lists no reason")
    return found | _LIMITS


def name(number: int) -> str:
    """Return the name of a reason; the kernel's own governors give none."""
    return "not told" if number == 0 else names().get(number, f"reason {number}")
