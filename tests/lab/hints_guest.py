# SPDX-License-Identifier: GPL-2.0
"""Common parts of the tests of hints: programs for the guest, and functions of its shell."""

import subprocess
import tempfile
from functools import cache
from pathlib import Path

from cpuidle_lab.lab import LabResult, LabRun, run_lab

SOURCES = Path(__file__).resolve().parent / "hints"

# Messages of the kernel about a foreign module, of a task whose only CPU goes, and of a busy host.
FOREIGN = (
    "out-of-tree module",
    "module verification failed",
    "no longer affine to cpu",
    "hrtimer: interrupt took",
)

FUNCTIONS = """
. /lab/functions
PATH=$PATH:/lab/bin
mount -t cgroup2 none /sys/fs/cgroup
groups=/sys/fs/cgroup
hints=$knobs/gate/hints
states=/sys/devices/system/cpu
placed() { sed -n "s/^# cpu$1: \\([0-9]*\\) placed/\\1/p" $hints; }
on() { awk -v pid=$1 '$1 == pid { print $3 }' $hints; }
limit() { awk -v pid=$1 '$1 == pid { print $2 }' $hints; }
# Detaching waits for a while, and for grace periods.
attached() {
    for i in $(seq 100); do
        said=$(tail -n 1 $hints)
        [ "$said" = "# tracepoints attached: $1" ] && break
        usleep 50000
    done
    echo "$said"
}
# Are the probes attached that hints need in order to act? They follow the governor by a job.
acts() { usleep 200000; sed -n 's/^# sched_switch attached: //p' $hints; }
cpu_of() { awk '{ sub(/.*\\) /, ""); print $37 }' /proc/$1/stat; }
usage() { cat $states/cpu$1/cpuidle/state$2/usage; }
deep() { echo $(($(usage $1 2) + $(usage $1 3))); }
time_us() { cat $states/cpu$1/cpuidle/state$2/time; }
online() { echo $2 >$states/cpu$1/online; }
recount() { cat $knobs/gate/recount; }
# agrees: the counts are right, however many there are.
agrees() {
    said=$(recount)
    case "$said" in agrees:*) ;; *) fail "$1: $said" ;; esac
}
# expect ANSWER COMMAND...
expect() {
    wanted=$1
    shift
    said=$("$@" 2>&1)
    [ "$said" = "$wanted" ] || fail "'$*' says '$said', not '$wanted'"
}
nobody() { hint 65534 as "$@"; }
load cpuidle_emul machine=skx
load cpuidle_lab
"""


@cache
def program(name: str) -> bytes:
    """Return a program of tests/lab/hints, linked statically."""
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / name
        command = ["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static"]
        command += ["-o", str(target), str(SOURCES / f"{name}.c"), "-lpthread"]
        subprocess.run(command, check=True)
        return target.read_bytes()


def guest(
    tmp_path: Path, script: str, programs: tuple[str, ...] = (), **options: object
) -> dict[str, str]:
    """Run a script in the guest; return its lines "name: value". No warning may be logged.

    Args:
        tmp_path: where the results go, into a folder of their own.
        script: what runs, after FUNCTIONS.
        programs: of tests/lab/hints, beside those that most tests use.
        options: further ones of LabRun.
    """
    files = {f"lab/bin/{name}": program(name) for name in ("hint", "storm", "fuzz", *programs)}
    run = LabRun(script=FUNCTIONS + script, files=files, **options)  # type: ignore[arg-type]
    result: LabResult = run_lab(run, tmp_path / "results").check()
    assert [line for line in result.complaints() if not any(t in line for t in FOREIGN)] == []
    return dict(line.split(": ", 1) for line in result.output.splitlines() if ": " in line)
