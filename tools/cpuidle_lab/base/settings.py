# SPDX-License-Identifier: GPL-2.0
"""Values of options: GOVERNOR.TUNABLE=VALUE, seconds, samples, sizes, directories."""

import argparse
import os
import re
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError

_LONGEST_S = 1e6
_UNITS_S = {"s": 1, "m": 60, "h": 3600}
_UNITS = {"k": 10**3, "M": 10**6, "G": 10**9}
_FORM = re.compile(r"(\w+)\.(\w+)=([^\s\x00-\x1f](?:[^\x00-\x1f]*[^\s\x00-\x1f])?)")


@dataclass(frozen=True)
class Setting:
    """A tunable to set.

    Attributes:
        governor: the governor that has it.
        name: file below the governor's folder in debugfs.
        value: text to write; it may have blanks within, as the values of gate.latency_map.
    """

    governor: str
    name: str
    value: str

    @classmethod
    def parse(cls, text: str) -> "Setting":
        """Return the setting of "GOVERNOR.TUNABLE=VALUE".

        Raises:
            ArgumentTypeError: the text has another form.
        """
        if match := _FORM.fullmatch(text):
            return cls(*match.groups())
        raise argparse.ArgumentTypeError(
            f"'{text}' is not of the form GOVERNOR.TUNABLE=VALUE (wteo.learning_rate=50)"
        )


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Declare the option --set, as args.settings."""
    parser.add_argument(
        "--set",
        type=Setting.parse,
        action="append",
        default=[],
        dest="settings",
        metavar="GOV.TUNABLE=VALUE",
        help="set a tunable meanwhile (may be repeated)",
    )


def seconds(text: str) -> float:
    """Return a time in seconds, as a whole number if it is one: 90, 90s, 10m or 1.5h.

    Raises:
        ArgumentTypeError: it is not above 0, or is more than a million.
    """
    unit_s = _UNITS_S.get(text[-1:], 0)
    try:
        value = float(text[:-1]) * unit_s if unit_s else float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of seconds above 0 (to a million)")
    return int(value) if value.is_integer() else value


def sample(text: str) -> tuple[float, float | None]:
    """Return the length of a sample and its period, in seconds: 10s/1h, or 10s without a period.

    Raises:
        ArgumentTypeError: a part is no time, or the sample is longer than its period.
    """
    length, slash, period = text.partition("/")
    found = seconds(length), seconds(period) if slash else None
    if found[1] is not None and found[0] > found[1]:
        raise argparse.ArgumentTypeError(f"'{text}' has samples that are longer than their period")
    return found


def size(text: str) -> int:
    """Return a number of bytes: 500k, 200M or 2G, by powers of 1000.

    Raises:
        ArgumentTypeError: it has another form, or is 0.
    """
    unit = _UNITS.get(text[-1:], 1)
    digits = text[:-1] if unit > 1 else text
    if not digits.isdecimal() or not int(digits):
        raise argparse.ArgumentTypeError(f"'{text}' is no number of bytes such as 200M")
    return int(digits) * unit


def directory(text: str) -> Path:
    """Return the directory of inputs that an option names.

    Raises:
        UserError: there is none, or it cannot be read; a missing file has the same exit code.
    """
    if not text:  # of a variable of the shell that is not set
        raise UserError("a directory of inputs has no name", USAGE)
    try:
        path = Path(text).expanduser()
    except RuntimeError:  # of a user that there is not
        raise UserError(f"{text}: no such directory") from None
    if path.exists() and not path.is_dir():
        raise UserError(f"{text}: is no directory")
    if not path.exists():
        raise UserError(f"{text}: no such directory")
    if not os.access(path, os.R_OK | os.X_OK, effective_ids=True):
        raise UserError(f"{text}: Permission denied")
    return path
