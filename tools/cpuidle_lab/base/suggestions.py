# SPDX-License-Identifier: GPL-2.0
"""Suggestions for words that are not known."""

import difflib
from collections.abc import Sequence


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """Return a question with the nearest known word; "" if none is near."""
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean '{near[0]}'?" if near else ""
