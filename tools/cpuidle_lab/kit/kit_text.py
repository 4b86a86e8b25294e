# SPDX-License-Identifier: GPL-2.0
"""Kits as a table in the terminal, and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from cpuidle_lab.kit.reading import Kit
from cpuidle_lab.view.terminal import console, grid, print_note


def _regret(kit: Kit, label: str) -> str:
    value = kit.regrets.get(label)
    return "?" if kit.wrong or value is None else f"{value:.1f}"


def show(kits: Sequence[Kit]) -> None:
    """Print a row for each kit, and its notes."""
    out = console()
    labels = list(dict.fromkeys(label for kit in kits for label in kit.regrets))
    heads = [("kit", False), ("kernel", False), ("driver", False), ("CPUs", True),
             ("intervals", True), *((f"{label} %", True) for label in labels)]  # fmt: skip
    rows = [
        [kit.path.name, kit.kernel, kit.driver, str(kit.cpus or "?"), str(kit.intervals or "?"),
         *(_regret(kit, label) for label in labels)]
        for kit in kits
    ]  # fmt: skip
    title = "Regret by machine: modelled idle energy beyond the oracle's"
    out.print(grid(out, title, heads, rows))
    for kit in kits:
        for note in kit.notes:
            print_note(out, f"{kit.path.name}: {note}", soft_wrap=True)
        for name, why in kit.missing.items():
            print_note(out, f"{kit.path.name}: has no {name}: {why}", soft_wrap=True)


def as_json(kits: Sequence[Kit]) -> list[dict[str, Any]]:
    """Return everything; a regret that is not told is null."""
    return [
        asdict(kit) | {"path": str(kit.path), "regrets": {} if kit.wrong else kit.regrets}
        for kit in kits
    ]
