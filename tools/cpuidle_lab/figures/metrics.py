# SPDX-License-Identifier: GPL-2.0
"""The meaning of each figure, as metrics.yaml has it."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

# In C where libyaml is there: a tenth of the time.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Metric:
    """Meaning of a figure.

    Attributes:
        title: name for people.
        unit: its unit, "" if it has none.
        digits: digits shown after the point.
        description: definition.
    """

    title: str
    unit: str
    digits: int
    description: str

    def show(self, value: float | None) -> str:
        """Return the value as text, without the unit."""
        return "unknown" if value is None else f"{value:,.{self.digits}f}"


@cache
def definitions(shown_by: str = "report") -> dict[str, Metric]:
    """Return every metric by its key, in the order of metrics.yaml.

    Args:
        shown_by: "report" or "compare", whose metrics these are.
    """
    text = (Path(__file__).parent / "metrics.yaml").read_text(encoding="utf-8")
    return {
        key: Metric(
            item["title"],
            item["unit"],
            item["digits"],
            f"{item['description'].strip()} {item.get(shown_by, '').strip()}".strip(),
        )
        for key, item in yaml.load(text, _Loader).items()
        if item.get("in", shown_by) == shown_by
    }


# The metrics that are one number; the others are tables.
TABLES = (
    "residency",
    "entries",
    "energy_by_state",
    "reasons",
    "wakers",
    "chosen_ideal",
    "weights",
    "timeline",
)


def scalars() -> list[str]:
    """Return the keys of the metrics that are one number, in the order shown."""
    return [key for key in definitions() if key not in TABLES]
