# SPDX-License-Identifier: GPL-2.0
"""Notes on a terminal: one line each, whatever the names in them hold."""

import io

import pytest
from rich.console import Console

from cpuidle_lab.view.terminal import print_note


@pytest.mark.parametrize(
    ("name", "said"),
    [("a\nb.dat", r"note: a\x0ab.dat"), ("\x1b[31ma", r"note: \x1b[31ma"), ("[red]a", "[red]a")],
)
def test_a_name_breaks_no_note(name: str, said: str) -> None:
    out = io.StringIO()
    print_note(Console(file=out, width=80), f"{name}: lost")
    assert said in out.getvalue() and out.getvalue().count("\n") == 1
