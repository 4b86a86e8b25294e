# SPDX-License-Identifier: GPL-2.0
"""CPU evacuation with PREEMPT_RT: the threads that run softirqs precede a holder."""

import subprocess
from pathlib import Path

import pytest

from tests.lab.test_evacuate import boot, lines

pytestmark = [pytest.mark.lab, pytest.mark.full]

# Sets the real-time priority of a task: PID PRIORITY, of which 0 stands for a normal task.
SET_FIFO = """
#include <sched.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    struct sched_param param = { .sched_priority = argc == 3 ? atoi(argv[2]) : 0 };

    return sched_setscheduler(atoi(argv[1]), param.sched_priority ? SCHED_FIFO : SCHED_OTHER,
                              &param) != 0;
}
"""

# Timers of normal tasks expire in softirqs there; these tasks sleep on a CPU that is held.
SCRIPT = """
of() { sed 's/.*) //' /proc/$1/stat | cut -d' ' -f38,39; }
softirqd=$(for dir in /proc/[0-9]*; do grep -q '(ksoftirqd/3)' $dir/stat && echo ${dir##*/}; done)
sleeps() { taskset -c 3 sh -c 'for n in $(seq 60); do usleep 15000; done'; }
echo "before: $(of $softirqd)"
set_pct 50
usleep 200000
echo "held: $(of $softirqd)"
echo "gone: $(gone)"
sleeps & sleeps & sleeps
wait
echo "slices: $(stat_of 3 slices)"
echo 0 >$cpus/cpu3/online
echo "offline: $(of $softirqd)"
echo 1 >$cpus/cpu3/online
usleep 500000
echo "online: $(of $softirqd)"
set_pct 100
usleep 200000
echo "after: $(of $softirqd)"
# A priority that is higher already is kept, and so is one that is set meanwhile.
set_fifo $softirqd 10
set_pct 50
usleep 200000
echo "own: $(of $softirqd)"
set_pct 100
usleep 200000
echo "own.after: $(of $softirqd)"
set_fifo $softirqd 0
set_pct 50
usleep 200000
set_fifo $softirqd 7
rmmod cpuidle_lab
echo "meanwhile: $(of $softirqd)"
"""


def test_threads_of_softirqs_precede_the_holder(tmp_path: Path) -> None:
    """The log is empty, too: a CPU that goes idle with softirqs pending has a line there."""
    program = tmp_path / "set_fifo"
    command = ["gcc", "-O2", "-static", "-x", "c", "-", "-o", str(program)]
    subprocess.run(command, input=SET_FIFO, text=True, check=True)
    files = {"usr/bin/set_fifo": program.read_bytes()}
    result = boot(SCRIPT, tmp_path / "results", thermal=False, kernel="rt", files=files)
    said = lines(result)
    assert said["gone"] == "2-3" and int(said["slices"]) > 10
    assert {said[name] for name in ("before", "offline", "after")} == {"0 0"}
    assert said["held"] == said["online"] == "2 1"
    assert (said["own"], said["own.after"], said["meanwhile"]) == ("10 1", "10 1", "7 1")
