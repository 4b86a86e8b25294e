# SPDX-License-Identifier: GPL-2.0
"""Space of a search: ranges of declared tunables, as Optuna's distributions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import optuna

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.replay.library import Governor, TunableInfo

# Searched only where they are named, by the start of the name: a seed fits the noise of a trace and
# nothing else, and powers say what the machine is like.
LEFT_OUT = ("seed", "power_mw")

# A range whose ends differ by at least this factor is searched by ratio.
LOG_FACTOR = 50


@dataclass(frozen=True)
class Range:
    """The values of a tunable that are searched.

    Attributes:
        tunable: whose.
        low: least value.
        high: greatest value.
    """

    tunable: TunableInfo
    low: int
    high: int

    @property
    def name(self) -> str:
        """Name of the tunable."""
        return self.tunable.name

    @property
    def log(self) -> bool:
        """Ratios count, not differences."""
        return not self.tunable.names and self.high + 1 >= LOG_FACTOR * max(1, self.low)

    @property
    def _shift(self) -> int:
        # A logarithm needs values from 1 on.
        return 1 if self.log and self.low == 0 else 0

    @property
    def key(self) -> str:
        """Name of Optuna's parameter, which is one greater where a logarithm meets a zero."""
        return f"{self.name}+1" if self._shift else self.name

    def shown(self, value: int) -> str:
        """Return a value as the user knows it."""
        return self.tunable.names[value] if self.tunable.names else str(value)

    def stored(self, value: int) -> int | str:
        """Return Optuna's parameter for the value in the range that is nearest to `value`."""
        value = min(max(value, self.low), self.high)
        return self.tunable.names[value] if self.tunable.names else value + self._shift

    def value(self, stored: int | str) -> int:
        """Return the value that Optuna's parameter means."""
        if isinstance(stored, str):
            return self.tunable.names.index(stored)
        return stored - self._shift

    def suggest(self, trial: optuna.Trial) -> int:
        """Return the value to be tried."""
        if self.tunable.names:
            names = self.tunable.names[self.low : self.high + 1]
            return self.value(trial.suggest_categorical(self.key, names))
        low, high = self.low + self._shift, self.high + self._shift
        return self.value(trial.suggest_int(self.key, low, high, log=self.log))


def ranges(governor: Governor, wanted: Sequence[str]) -> tuple[Range, ...]:
    """Return what is to be searched, in the order of the governor's table.

    Args:
        governor: whose tunables.
        wanted: "NAME" or "NAME=LOW:HIGH"; empty is all in full, but for LEFT_OUT.

    Raises:
        UserError: a tunable or a value is unknown, or there is nothing to search.
    """
    if not governor.tunables:
        raise UserError(f"{governor.spec} has no tunables, so there is nothing to tune", USAGE)
    known = {tunable.name: tunable for tunable in governor.tunables}
    found: dict[str, Range] = {}
    for text in wanted:
        name, equals, rest = text.partition("=")
        if name not in known:
            raise UserError(
                f"{governor.spec} has no tunable '{name}'; it has {', '.join(known)}", USAGE
            )
        if name in found:
            raise UserError(f"--tunable {name} is given twice", USAGE)
        tunable = known[name]
        low, colon, high = rest.partition(":")
        if equals and not colon:
            raise UserError(f"--tunable {text}: a range is {name}=LOW:HIGH", USAGE)
        found[name] = (
            Range(tunable, tunable.parse(low), tunable.parse(high))
            if equals
            else Range(tunable, tunable.min, tunable.max)
        )
        if found[name].low > found[name].high:
            raise UserError(f"--tunable {text}: {low} is above {high}", USAGE)
    if not wanted:
        found = {
            name: Range(tunable, tunable.min, tunable.max)
            for name, tunable in known.items()
            if not name.startswith(LEFT_OUT)
        }
    return tuple(found[name] for name in known if name in found)


def defaults(searched: Sequence[Range]) -> dict[str, int]:
    """Return the default values of what is searched."""
    return {item.name: item.tunable.default for item in searched}


def settings_of(searched: Sequence[Range], params: Mapping[str, int | str]) -> dict[str, int]:
    """Return the values that Optuna's parameters mean."""
    return {item.name: item.value(params[item.key]) for item in searched}
