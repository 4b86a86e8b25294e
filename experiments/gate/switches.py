# SPDX-License-Identifier: GPL-2.0
"""Instructions that hints add to a context switch.

Virtual time of the lab: one CPU, one nanosecond for each instruction. Two processes pass a byte
back and forth. A figure holds all of a switch, pipes and system calls included, which are the same
in each row; the excess of a row over its base is the module's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.files import scratch
from cpuidle_lab.lab import LabRun, programs, run_lab

ROUNDS = 4_000

# The least counts: now and then the kernel alone, without the module, takes 7 or 12 more. Runs that
# follow at once may all have that, so each comes at another time.
RUNS = 3
PAUSE_US = 7_000

SWITCHES = programs.Program("switches", "experiments/gate/switches.c")


@dataclass(frozen=True)
class Setting:
    """A setting in which context switches are counted.

    Attributes:
        name: of the row.
        title: for people.
        before: what the guest does before.
        command: how the program is run; `{}` stands for it.
        base: the row that it is compared with.
        most: instructions that it may add to that row, None where nothing is promised.
    """

    name: str
    title: str
    before: str = ""
    command: str = "{}"
    base: str = "no-module"
    most: int | None = None


# The kernel itself accounts for each cgroup on the way to the root.
_INSIDE = "inside {}"

# The other process in another cgroup.
_ACROSS = "inside {} $groups/alike$alike/cgroup.procs"

# Each CPU remembers the values of 32 cgroups by their ids modulo 32 (CIL_GROUP_FOUNDS).
_ALIKE = """\
mkdir $groups/other $groups/mine
id() { stat -c %i $groups/$1; }
alike=1
mkdir $groups/alike1
while [ $(( ($(id alike$alike) - $(id mine)) % 32 )) != 0 ]; do
    alike=$((alike + 1))
    mkdir $groups/alike$alike
done"""

# Threads of one process, which inherit its hint.
_CROWD = "tune gate hints_per_user 8192\nlatnice -n -5 sleepers 4000 >/dev/null & usleep 20000000"

# In this order: each begins where the one before it has ended.
SETTINGS = (
    Setting("no-module", "no module"),
    Setting("inside", "no module, in a cgroup", _ALIKE, _INSIDE, "inside"),
    Setting("across", "no module, in two cgroups", "", _ACROSS, "across"),
    Setting("no-hint", "gate, no hint", "load cpuidle_lab; governor gate", most=0),
    Setting("other", "another task hinted", "sleep 1000 & latnice -n -5 -p $!", most=40),
    Setting("relaxed", "another task with value 5", "sleep 1000 & latnice -n 5 -p $!", most=40),
    Setting(
        "crowded", "hinted tasks among 4,000", f"kill $!\n{_CROWD}", "latnice -n -5 {}", most=120
    ),
    Setting("hinted", "hinted tasks", "kill $!; wait $!", command="latnice -n -5 {}", most=120),
    Setting("groups", "groups in use", "latnice -n -5 -g $groups/other", most=160),
    Setting("not-members", "groups in use, in another cgroup", "", _INSIDE, "inside", 160),
    Setting("alike", "groups in use, in two others that share a slot", "", _ACROSS, "across"),
    Setting(
        "members", "members of a group", "latnice -n -5 -g $groups/mine", _INSIDE, "inside", 160
    ),
    Setting(
        "quota", "members, quota used up", "tune gate hints_per_user 1", _INSIDE, "inside", 160
    ),
)

_SCRIPT = """\
. /lab/functions
groups=/sys/fs/cgroup
mount -t cgroup2 none $groups
load cpuidle_emul machine=skx
echo 20000 >/proc/sys/kernel/threads-max
inside() { sh -c 'echo $$ >/sys/fs/cgroup/mine/cgroup.procs; exec "$@"' sh "$@"; }
"""


def script(rounds: int) -> str:
    """Return what the guest runs; it says "NAME: NS SWITCHES" RUNS times for each case."""
    lines = []
    for case in SETTINGS:
        lines += [line for line in (case.before,) if line]
        command = case.command.format(f"switches {rounds}")
        for run in range(1, RUNS + 1):
            lines += [f"usleep {run * PAUSE_US}", f'echo "{case.name}: $({command})"']
    return _SCRIPT + "\n".join(lines) + "\n"


def least(output: str) -> dict[str, str]:
    """Return what the guest said of each case in the run with the fewest instructions."""
    lines = [line.split(": ", 1) for line in output.splitlines() if ": " in line]
    return dict(sorted(lines, key=lambda line: float(line[1].split()[0]), reverse=True))


def figures(said: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the rows: instructions of a switch, and what it adds to the row it is compared with.

    Args:
        said: instructions of a switch, and switches of a round trip, by the name of the case.
    """
    words = {name: text.split() for name, text in said.items()}
    return [
        {
            "case": case.name,
            "title": case.title,
            "instructions": float(words[case.name][0]),
            "added": float(words[case.name][0]) - float(words[case.base][0]),
            "switches": float(words[case.name][1]),
            "most": case.most,
        }
        for case in SETTINGS
    ]


def measure(rounds: int = ROUNDS) -> dict[str, Any]:
    """Boot the lab once and measure every case.

    Args:
        rounds: round trips of each case; each is two switches.

    Returns:
        kernel, rounds, and cases as of figures().

    Raises:
        UserError: the lab failed.
    """
    files: dict[str, bytes] = {}
    for program in (SWITCHES, programs.LATNICE, programs.SLEEPERS):
        files |= programs.file(program)
    with scratch(TOP / "build") as folder:
        result = run_lab(LabRun(script(rounds), cpus=1, files=files), folder / "r").check()
    cases = figures(least(result.output))
    return {"kernel": result.kernel_version, "rounds": rounds, "cases": cases}
