# SPDX-License-Identifier: GPL-2.0
"""Samples: short recordings in a folder that is kept below a size."""

import os
import re
from datetime import datetime
from pathlib import Path

from cpuidle_lab.base.errors import UserError

# A sample has the time of its begin, UTC; other files of the folder are not ours.
_NAME = re.compile(r"\d{8}T\d{6}Z\.dat")


def place(folder: Path, now: datetime) -> Path:
    """Return the place of a sample."""
    return folder / f"{now:%Y%m%dT%H%M%SZ}.dat"


def delay_s(duration_s: float, period_s: float | None) -> float:
    """Return a random time after which a sample fits into a period; 0 without one.

    Moments at random meet what happens at full hours as often as it happens.
    """
    if period_s is None:
        return 0.0
    part = int.from_bytes(os.urandom(4)) / (1 << 32)
    return part * (period_s - duration_s)


def there(folder: Path) -> list[Path]:
    """Return the samples of a folder, the oldest first."""
    return sorted(
        path for path in folder.iterdir() if _NAME.fullmatch(path.name) and path.is_file()
    )


def keep(folder: Path, most_bytes: int) -> int:
    """Remove the oldest samples until the others have a size; return how many were removed.

    Raises:
        UserError: the newest alone is larger, and was removed, too.
    """
    found = there(folder)
    sizes = [path.stat().st_size for path in found]
    gone = 0
    while gone < len(found) and sum(sizes[gone:]) > most_bytes:
        found[gone].unlink()
        gone += 1
    if found and gone == len(found):
        raise UserError(
            f"{found[-1]}: has {sizes[-1] / 1e6:.1f} MB, more than --room allows, and was removed; "
            "give --room more, or --sample less time"
        )
    return gone
