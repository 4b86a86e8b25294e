# SPDX-License-Identifier: GPL-2.0
"""Cache lines of its own state that a governor touches in a decision, as a maintainer counts cost.

footprint.c plays the intervals, and is built here with the governor.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.files import scratch

_GOVERNORS = TOP / "governors"
_PLAYER = Path(__file__).with_suffix(".c")


@dataclass(frozen=True)
class Footprint:
    """Memory that a call of select and one of update touch together.

    Attributes:
        governor: its name.
        states: idle states of the machine.
        mean: cache lines of 64 bytes, on average.
        most: of them at most.
    """

    governor: str
    states: int
    mean: float
    most: int


def footprints(governor: str) -> list[Footprint]:
    """Return the cache lines that a governor of the project touches, for 4 and for 10 states.

    Args:
        governor: name of its folder.

    Returns:
        nothing where there is no compiler.

    Raises:
        subprocess.CalledProcessError: the governor does not compile.
    """
    compiler = which("gcc")
    if not compiler:
        return []
    folders = (_GOVERNORS / governor, _GOVERNORS / "common")
    sources = [path for folder in folders for path in sorted(folder.glob("*.c"))
               if not path.name.endswith("_kunit.c")]  # fmt: skip
    options = ["-std=gnu11", "-O2", f"-I{_GOVERNORS}", f"-DPOLICY={governor}_policy"]
    with scratch() as folder:
        for source in (*sources, _PLAYER):
            # The player is what the accesses call.
            hooks = [] if source == _PLAYER else ["-fsanitize=thread"]
            target = folder / f"{source.stem}.o"
            subprocess.run([compiler, *options, *hooks, "-c", source, "-o", target], check=True)
        program = folder / "footprint"
        subprocess.run([compiler, *folder.glob("*.o"), "-o", program], check=True)
        text = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in text.splitlines())
    return [Footprint(name, int(n), float(mean), int(most)) for name, n, mean, most in rows]
