# SPDX-License-Identifier: GPL-2.0
"""Governors to be compared: "wteo,teo@6.12,wteo:learning_rate=50:half_life_ms=500"."""

from collections.abc import Iterable
from dataclasses import dataclass

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.host.machine import project_governors
from cpuidle_lab.replay.library import LIMITS, Governor, governor
from cpuidle_lab.replay.library import MAINLINE as GOVERNORS
from cpuidle_lab.states.linux_source import NEWEST

# References of every comparison.
ORACLE, BAYES = LIMITS
MAINLINE = (f"menu@{NEWEST}", f"teo@{NEWEST}")
BEST_MAINLINE = "best mainline"

OWN_KIND, MAINLINE_KIND, BEST_KIND, LIMIT_KIND = "project", "mainline", "best mainline", "limit"
RECORDED_KIND = "recorded"


@dataclass(frozen=True)
class Candidate:
    """A governor with its tunables.

    Attributes:
        label: as given: "wteo:learning_rate=50".
        governor: who decides.
        settings: tunables that differ from the default.
    """

    label: str
    governor: Governor
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def kind(self) -> str:
        """Origin: the project's, a kernel's, or a limit that no kernel could run."""
        if self.governor.spec in LIMITS:
            return LIMIT_KIND
        return MAINLINE_KIND if self.governor.name in GOVERNORS else OWN_KIND


def candidate(text: str) -> Candidate:
    """Return a governor with its tunables, of "wteo:learning_rate=50".

    Raises:
        UserError: the governor, a tunable or a value is unknown.
    """
    spec, *settings = text.split(":")
    pairs = []
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not (name and equals and value):
            raise UserError(f"'{setting}' in '{text}' is no TUNABLE=VALUE", USAGE)
        pairs.append((name, value))
    found = governor(spec)
    found.values(dict(pairs))
    return Candidate(text, found, tuple(pairs))


def _names(text: str) -> list[str]:
    named = [item.strip() for item in text.split(",")]
    if not all(named):
        raise UserError("--governors: a name is missing before or after a comma", USAGE)
    return list(dict.fromkeys(named))


def listed(text: str) -> list[Candidate]:
    """Return the governors of a list with commas, each with its tunables after colons.

    Raises:
        UserError: a governor, a tunable or a value is unknown.
    """
    return [candidate(item) for item in _names(text)]


def parse(text: str | None, mainline: bool) -> list[Candidate]:
    """Return who is compared: those given, what mainline has, and the limits.

    Args:
        text: names with commas between, each with its tunables after colons; None is all of the
            project's governors.
        mainline: compare with the newest kernel's menu and teo, too.

    Raises:
        UserError: a governor, a tunable or a value is unknown.
    """
    named = project_governors(TOP) if text is None else _names(text)
    wanted: Iterable[str] = [*named, *(MAINLINE if mainline else ()), BAYES, ORACLE]
    return [candidate(item) for item in dict.fromkeys(wanted)]
