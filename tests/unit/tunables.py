# SPDX-License-Identifier: GPL-2.0
"""The tunables as the governors' source declares them, and the document made of them.

Run as a script, this writes docs/tunables.md afresh.
"""

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP))

from tests.logic import logic  # noqa: E402

DOCUMENT = TOP / "docs" / "tunables.md"

HEAD = """\
# Tunables

<!-- Written by `make tunables-doc` from the governors' source; a test compares it with a live kernel. -->

Every tunable is a file in `/sys/kernel/debug/cpuidle_lab/GOVERNOR/`. Reading gives the value; writing a value outside
the range gives EINVAL and changes nothing. A change takes effect at the next decision of each CPU, as a whole. The files
are root's.

The same values are parameters of the module, one for each governor, which also work where lockdown closes debugfs:

    modprobe cpuidle_lab wteo=learning_rate=80,latency_bias=500
    echo "learning_rate=80 latency_bias=500" > /sys/module/cpuidle_lab/parameters/wteo

| file | unit | range | default | what it does | why this default |
|---|---|---|---|---|---|
"""

TAIL = """
## Other files

| file | access | meaning |
|---|---|---|
| `version` | read | version of the module |
| `symbols` | read | symbols of the kernel that were looked up: required or optional, found or missing |
| `GOVERNOR/defaults` | write 1 | all tunables of the governor back to their defaults, at once; `bpf` has no such file |
| `GOVERNOR/reset` | write 1 | start learning afresh, on each CPU at its next decision |
| `GOVERNOR/state/cpuN` | read | what the governor has learned on CPU N, as a table |
| `gate/base` | read, write | name of the gate's base governor: any that is registered but the gate itself |
| `gate/latency_map` | read, write | greatest exit latency in us for the values -20 to -1, none smaller than the one before ([hints](hints.md)) |
| `gate/hints` | read, write | `PID LIMIT_US` sets the hint of a task, `PID -` removes it; read lists hints and counts |
| `gate/recount` | read | stops the machine, counts all hints again and says `agrees` or what differs |
| `evacuate/evacuate_cpus` | read, write | CPUs to evacuate, as `4-7,9`; empty: none ([evacuation](evacuate.md)) |
| `evacuate/evacuated_cpus` | read | CPUs that are evacuated |
| `evacuate/lease` | write | `max_capacity_pct=N` or `evacuate_cpus=LIST`, in force until the file is closed |
| `evacuate/stats` | read | slices, rests and releases of each online CPU |
| `shadow` | read, write | governors that decide beside the one in use, separated by blanks; `none`: no shadow |
| `shadow_stats` | read | what the shadows decided, a line for each CPU and governor ([tracing](tracing.md)) |
"""

# Files that are there beside the tunables, for the comparison with a live kernel.
OTHER_FILES = {
    "version",
    "symbols",
    "evacuate/defaults",
    "evacuate/evacuate_cpus",
    "evacuate/evacuated_cpus",
    "evacuate/lease",
    "evacuate/stats",
    "gate/base",
    "gate/defaults",
    "gate/hints",
    "gate/latency_map",
    "gate/recount",
    "gate/reset",
    "shadow",
    "checkpoint",
    "shadow_stats",
}
FILES_OF_EACH = {"defaults", "reset"}


@dataclass(frozen=True)
class Tunable:
    """One line of the governors' declarations; numbers are in the unit given."""

    governor: str
    name: str
    unit: str
    least: int
    greatest: int
    default: int
    names: tuple[str, ...]
    what: str
    why: str

    def shown(self, value: int) -> str:
        """Return a value as debugfs shows it."""
        return self.names[value - self.least] if self.names else str(value)

    def row(self) -> str:
        """Return the tunable's row in the document."""
        limits = ", ".join(self.names) if self.names else f"{self.least} to {self.greatest}"
        cells = (f"`{self.governor}/{self.name}`", self.unit or "-", limits)
        return " | ".join(("", *cells, self.shown(self.default), self.what, self.why, "")).strip()


def declared() -> list[Tunable]:
    """Compile the governors with a program that prints their declarations."""
    with tempfile.TemporaryDirectory() as scratch:
        program = Path(scratch) / "tunables"
        subprocess.run(
            [
                *("gcc", "-o", program),
                *("-I", TOP / "kunit/include", "-I", TOP / "governors"),
                *(TOP / "kunit/tunables.c", TOP / "kunit/env.c", *logic("*.c")),
            ],
            check=True,
        )
        lines = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return [parse(line) for line in lines.splitlines()]


def parse(line: str) -> Tunable:
    """Return the tunable of one printed line."""
    governor, name, unit, least, greatest, default, names, what, why = line.split("\t")
    words = tuple(filter(None, names.split(",")))
    return Tunable(governor, name, unit, int(least), int(greatest), int(default), words, what, why)


def document() -> str:
    """Return the text of docs/tunables.md."""
    return HEAD + "".join(f"{tunable.row()}\n" for tunable in declared()) + TAIL


if __name__ == "__main__":
    DOCUMENT.write_text(document())
