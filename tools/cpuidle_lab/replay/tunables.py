# SPDX-License-Identifier: GPL-2.0
"""The tunables that a policy had in a recording."""

import re
from collections.abc import Mapping

import numpy as np

from cpuidle_lab.recording.columns import Recording
from cpuidle_lab.replay.engine import Array, Settings
from cpuidle_lab.replay.library import TUNABLE_MAX, Governor
from cpuidle_lab.replay.policies import BPF, governor_name, is_program, policy_of

_PROGRAM_TUNABLE = re.compile(r"t(\d+)")


def of_program(words: Mapping[str, str], chosen: Governor) -> dict[str, str | int]:
    """Return the tunables of a program in BPF by the names that its policy gives them."""
    found = ((_PROGRAM_TUNABLE.fullmatch(name), value) for name, value in words.items())
    numbers = {int(match[1]): value for match, value in found if match}
    names = [each.name for each in chosen.tunables]
    return {names[n]: value for n, value in numbers.items() if n < len(names)}


def settings_of(base: str, text: str, chosen: Governor) -> dict[str, str | int]:
    """Return the tunables of a policy as a configuration has them.

    Args:
        base: of the configuration; it names the program, if one decided.
        text: "NAME=VALUE NAME=VALUE"; a program's are numbered.
        chosen: the policy.
    """
    words = dict(word.split("=", 1) for word in text.split() if "=" in word)
    return of_program(words, chosen) if is_program(base) else dict(words)


class Tunables:
    """The sets of values that a governor had in a recording, by generation."""

    def __init__(self, recording: Recording, chosen: Governor, fixed: Settings | None = None):
        """Collect them.

        Args:
            recording: where.
            chosen: whose.
            fixed: use these whatever was recorded (a governor that did not record it).
        """
        self._governor = chosen
        self._fixed = fixed
        self._rows: list[tuple[int, ...]] = []
        self._known: dict[int, int] = {}
        if fixed is not None or not chosen.tunables:
            self._rows.append(chosen.values(fixed or {}))
            self._fixed = self._fixed or {}
            return
        config = recording.table("config").select("generation", "governor", "base", "tunables")
        self._anchors: dict[int, dict[str, str | int]] = {}
        for generation, number, base, text in config.unique().sort("generation").rows():
            name = governor_name(recording, number)
            if policy_of(name, base) == chosen.name:
                self._anchors[generation] = settings_of(base, text, chosen)
        self._changes: dict[int, dict[str, str | int]] = {}
        events = recording.table("tunable").select("generation", "governor", "name", "value")
        for generation, number, name, value in events.rows():
            by = governor_name(recording, number)
            if by == chosen.name:
                self._changes.setdefault(generation, {})[name] = value
            elif by == BPF:
                self._changes.setdefault(generation, {}).update(of_program({name: value}, chosen))
        for generation, change in self._changes.items():
            # All of them at once: as good as a checkpoint.
            if len(change) == len(chosen.tunables):
                self._anchors.setdefault(generation, change)

    def number(self, generation: int) -> int | None:
        """Return which row of `table` was in force; None if the trace does not tell."""
        if self._fixed is not None:
            return 0
        if generation not in self._known:
            settings = self._settings(generation)
            if settings is None:
                return None
            values = self._governor.values(settings)
            if values not in self._rows:
                self._rows.append(values)
            self._known[generation] = self._rows.index(values)
        return self._known[generation]

    def _settings(self, generation: int) -> Mapping[str, str | int] | None:
        if generation in self._anchors:
            return self._anchors[generation]
        before = max((n for n in self._anchors if n < generation), default=None)
        if before is None or generation not in self._changes:
            return None
        settings = dict(self._anchors[before])
        for change in sorted(n for n in self._changes if before < n <= generation):
            settings |= self._changes[change]
        return settings

    def table(self) -> Array:
        """Return all sets, a row of TUNABLE_MAX for each."""
        result = np.zeros((max(1, len(self._rows)), TUNABLE_MAX), np.uint32)
        for number, values in enumerate(self._rows):
            result[number, : len(values)] = values
        return result

    def __len__(self) -> int:
        return len(self._rows)
