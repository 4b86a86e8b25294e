# SPDX-License-Identifier: GPL-2.0
"""State tables that governors are judged on, each once, as a spec has them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from cpuidle_lab.base.cache import CACHE
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.replay.engine import check_table
from cpuidle_lab.review.stream import states_of
from cpuidle_lab.states.linux_source import NEWEST
from cpuidle_lab.states.machines import DTS, INTEL_IDLE, PEPC, listed

BUILT_IN = "emul"
# In words.
KINDS = {
    BUILT_IN: "built-in", PEPC: "recorded", INTEL_IDLE: "intel_idle", DTS: "device trees",
}  # fmt: skip

# Of the effect: the fastest and the slowest ends, few and many states, with and without polling.
SHOWN = ("skx", "spr", "skl", "power9", "pepc:genoa0", "pepc:dell-latitude-5420-tgl")
MT8196 = "MT8196, big core"
# As "Regression in TEO cpuidle governor between 6.6 and 6.12" shows it, linux-pm, November 2025.
_MT8196 = [["WFI", 1, 1], ["cpuoff", 147, 2580], ["clusteroff", 181, 2580],
           ["s2idle", 20000, 4294967295]]  # fmt: skip


@dataclass(frozen=True)
class Named:
    """A state table.

    Attributes:
        name: of a machine that has it.
        kind: of KINDS.
        states: as a spec has them.
    """

    name: str
    kind: str
    states: Sequence[Sequence[Any]]


@cache
def known() -> tuple[Named, ...]:
    """Return the tables that are there without a download, each once."""
    found: dict[str, Named] = {}
    tables = (CACHE / "linux-source" / f"{NEWEST}-tables").is_dir()
    for kind in KINDS if tables else (BUILT_IN, PEPC):
        for one in listed([kind]):
            try:
                check_table(one.name, one.table)
            except UserError:
                continue
            states = states_of(one.table)
            times = repr([state[1:] for state in states] + [one.table.polling])
            found.setdefault(times, Named(one.name, kind, states))
    return (*found.values(), Named(MT8196, PEPC, _MT8196))


@cache
def shown() -> tuple[Named, ...]:
    """Return the tables of the effect: those of SHOWN, and one without a polling state."""
    named = {one.name: one for kind in (BUILT_IN, PEPC) for one in listed([kind])}
    found = [Named(name, "", states_of(named[name].table)) for name in SHOWN]
    return (*found, Named(MT8196, "", _MT8196))
