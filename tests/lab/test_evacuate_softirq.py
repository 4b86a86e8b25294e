# SPDX-License-Identifier: GPL-2.0
"""CPU evacuation: the threads that run softirqs precede a holder."""

import subprocess
from pathlib import Path

import pytest

from tests.lab.kernels import USUAL
from tests.lab.test_evacuate import boot, lines

pytestmark = pytest.mark.lab

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

# Sends packets to itself for some seconds.
FLOOD = """
#include <arpa/inet.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv)
{
    struct sockaddr_in to = { .sin_family = AF_INET };
    socklen_t length = sizeof(to);
    int in = socket(AF_INET, SOCK_DGRAM, 0), out = socket(AF_INET, SOCK_DGRAM, 0);
    time_t end = time(NULL) + (argc == 2 ? atoi(argv[1]) : 1);
    char text[64] = "";

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(in, (void *)&to, length) || getsockname(in, (void *)&to, &length))
        return 1;
    while (time(NULL) < end)
        sendto(out, text, sizeof(text), 0, (void *)&to, length);
    return 0;
}
"""
OTHER = ("6.1", "7.2")
BUILT = ("rt", "debug")
PROGRAMS = {"set_fifo": SET_FIFO, "flood": FLOOD}

# A CPU that is held receives all packets: more than its interrupts' ends can take. The project's
# own kernels have no network. With PREEMPT_RT timers of normal tasks expire in softirqs, too; such
# tasks sleep on the CPU.
SCRIPT = """
of() { sed 's/.*) //' /proc/$1/stat | cut -d' ' -f38,39; }
thread() { for dir in /proc/[0-9]*; do grep -q "($1)" $dir/stat && echo ${dir##*/}; done; }
softirqd=$(thread ksoftirqd/3) rcud=$(thread rcuc/3)
rcu() { [ -z "$rcud" ] || echo "rcu.$1: $(of $rcud)"; }
sleeps() { taskset -c 3 sh -c 'for n in $(seq 60); do usleep 15000; done'; }
echo "before: $(of $softirqd)"
rcu before
set_pct 50
usleep 200000
echo "held: $(of $softirqd)"
rcu held
echo "gone: $(gone)"
sleeps & sleeps & sleeps
wait
packets=/sys/class/net/lo/queues/rx-0/rps_cpus
if [ -e $packets ]; then
    ip link set lo up
    echo 8 >$packets
    taskset -c 0 flood 3 & taskset -c 1 flood 3
    wait
fi
echo "slices: $(stat_of 3 slices)"
echo "softirq: $(stat_of 3 softirq)"
echo 0 >$cpus/cpu3/online
echo "offline: $(of $softirqd)"
echo 1 >$cpus/cpu3/online
# 6.1 gives the thread back after 470 ms, for a while.
usleep 300000
echo "online: $(of $softirqd)"
set_pct 100
usleep 200000
echo "after: $(of $softirqd)"
rcu after
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


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("programs")
    for name, source in PROGRAMS.items():
        command = ["gcc", "-O2", "-static", "-x", "c", "-", "-o", str(folder / name)]
        subprocess.run(command, input=source, text=True, check=True)
    return {f"usr/bin/{name}": (folder / name).read_bytes() for name in PROGRAMS}


@pytest.mark.parametrize(
    "kernel",
    [
        USUAL,
        *(pytest.param(k, marks=pytest.mark.full) for k in OTHER),
        *(pytest.param(k, marks=[pytest.mark.full, pytest.mark.own_kernel(k)]) for k in BUILT),
    ],
)
def test_threads_of_softirqs_precede_the_holder(
    kernel: str, programs: dict[str, bytes], tmp_path: Path
) -> None:
    """The log is empty, too: a CPU that goes idle with softirqs pending has a line there."""
    result = boot(SCRIPT, tmp_path / "results", thermal=False, kernel=kernel, files=programs)
    said = lines(result)
    assert said["gone"] == "2-3" and int(said["slices"]) > 10
    # Interrupts that come in a heap, as after a stop of the host, are pending when a holder looks.
    # On 6.1 a flood leaves some after each rest: the thread has its own priority meanwhile.
    if kernel != "6.1":
        assert int(said["softirq"]) < int(said["slices"])
    assert {said[name] for name in ("before", "offline", "after")} == {"0 0"}
    assert said["held"] == said["online"] == "2 1"
    # With PREEMPT_RT RCU works in a thread, too.
    rcu = [said.get(f"rcu.{name}") for name in ("before", "held", "after")]
    assert rcu == (["0 0", "2 1", "0 0"] if kernel == "rt" else [None] * 3)
    assert (said["own"], said["own.after"], said["meanwhile"]) == ("10 1", "10 1", "7 1")
