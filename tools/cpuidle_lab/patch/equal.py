# SPDX-License-Identifier: GPL-2.0
"""A governor in its two forms: the project's, and the file for the kernel, decision by decision.

Both are replayed on the laws, tables and conditions of `review`. The file is compiled unmodified
against the stand-in for the kernel, as mainline's own governors are.
"""

from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base.files import scratch
from cpuidle_lab.replay.candidates import Candidate
from cpuidle_lab.replay.library import emitted, governor
from cpuidle_lab.review.play import Box, Pair
from cpuidle_lab.review.shrink import within
from cpuidle_lab.review.stream import phases_text, table_text
from cpuidle_lab.review.sweep import smallest, sweep

# The promise of docs/mainline.md.
PERIODS = 1_000_000


@dataclass(frozen=True)
class Equality:
    """Result of the comparison.

    Attributes:
        periods: idle periods compared.
        differ: of these, with another decision.
        tables: number of kinds of tables among them.
        smallest: the smallest input found on which they part, for people; "" if they do not.
    """

    periods: int
    differ: int
    tables: int
    smallest: str

    @property
    def text(self) -> str:
        """Sentence for people."""
        return f"identical {self.periods - self.differ:,} of {self.periods:,}"


def _only_settings(name: str, constants: dict[str, int]) -> tuple[tuple[str, str], ...]:
    defaults = {one.name: one.default for one in governor(name).tunables}
    return tuple((key, str(value)) for key, value in constants.items() if value != defaults[key])


def compare(
    name: str, text: str, constants: dict[str, int], periods: int = PERIODS, seed: int = 1,
    shrink_s: float = 20.0,
) -> Equality:  # fmt: skip
    """Return whether a file for the kernel decides as the project's governor.

    Args:
        name: of the governor.
        text: the file.
        constants: value of each tunable in the file.
        periods: so many idle periods.
        seed: of all draws.
        shrink_s: so long a smaller input is looked for where they part.

    Raises:
        UserError: it does not compile.
    """
    with scratch() as folder:
        source = folder / f"{name}.c"
        source.write_text(text, encoding="utf-8")
        theirs = emitted(name, source, folder)
        ours = Candidate(name, governor(name), _only_settings(name, constants))
        pair = Pair(ours, Candidate(theirs.spec, theirs), Box(Path(folder / "box")))
        found = sweep(pair, periods, seed, lambda _: True)
        witness = ""
        if found.soonest:
            spec = smallest(pair, *found.soonest, within(shrink_s))
            witness = "; ".join([table_text(spec), *phases_text(spec).splitlines()])
    return Equality(found.total.periods, found.total.differ, len(found.kinds), witness)
