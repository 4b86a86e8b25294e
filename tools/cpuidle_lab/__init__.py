# SPDX-License-Identifier: GPL-2.0
"""Tools around the cpuidle_lab kernel module: lab, capture, report.

In a notebook, `cpuidle_lab.open("trace.dat")` gives the tables of a recording.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from cpuidle_lab.base.version import __version__ as __version__

if TYPE_CHECKING:
    from cpuidle_lab.figures.frames import Frames


def open(path: str | Path) -> "Frames":
    """Return a recording as polars frames; docs/viewers.md describes their columns.

    Args:
        path: a trace.dat with events of cpuidle_lab, of power:cpu_idle, or of both.

    Raises:
        UserError: of cpuidle_lab.base.errors; the file cannot be read, is damaged or holds no
            idle period.
    """
    from cpuidle_lab.figures.frames import frames_of

    return frames_of(Path(path))
