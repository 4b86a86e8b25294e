# SPDX-License-Identifier: GPL-2.0
"""Workloads under five conditions, on emulated machines in the lab.

One boot for each machine, in virtual time: menu, menu with all idle states disabled ("performance
mode"), the gate as the RFC of 2020 had it, the gate as it is here, and for comparison with a
linger that does not depend on how long a task is used to sleep. Of each cell the guest brings back
what the workload says of latency, all wake-ups of the hinted tasks, the idle governor's decisions
with their outcomes, and the emulated machine's account.

Stock menu runs under the gate without any hint, which decides as menu alone does and records it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.lab import LabRun, programs, run_lab, workloads
from cpuidle_lab.lab.trees import emulated_domains

MACHINES = ("power9", "skx")
# Domains of these machines: docs/domains.md.
TREES = {"power9": "power9-smt4", "skx": "xeon"}
CPUS = 8
SEED = 42
TIME_LIMIT_S = 1800
BASE = "menu"

_RATE = 10  # transactions a second of all clients together
_PGBENCH = "/usr/lib/postgresql/17/bin/pgbench"

# Programs of this project that the guest has.
PROGRAMS = (programs.WAKEBENCH, programs.LATNICE)


@dataclass(frozen=True)
class Work:
    """A latency-sensitive program.

    Attributes:
        name: part of the files' names.
        title: with the parameters, as the RFC's figures have them.
        command: shell command; SECONDS, SEED and LOG (a prefix of files) stand for themselves.
        limit_us: the exit latency that its tasks tolerate: what is small beside what it does.
        wakes: wake-ups, one after the other, of which one latency consists.
        energy_share: target: of the extra energy that performance mode spends, at most this part;
            none where there is no target.
        server: whether it asks a PostgreSQL server, whose tasks are hinted, too.
    """

    name: str
    title: str
    command: str
    limit_us: int
    wakes: int
    energy_share: float | None = None
    server: bool = False


WORKS = (
    Work("wake-1", "wakebench -m 2 -t 1", "wakebench -m 2 -t 1 -r SECONDS -S SEED", 2, 1),
    Work("wake-4", "wakebench -m 2 -t 4", "wakebench -m 2 -t 4 -r SECONDS -S SEED", 2, 1),
    *(
        Work(
            f"pgbench-{clients}",
            f"pgbench -S -n -R 10 -c {clients}",
            f"{_PGBENCH} --select-only --no-vacuum --rate={_RATE} --client={clients} "
            "--time=SECONDS --random-seed=SEED --log --log-prefix=LOG postgres",
            10,
            3,  # the client's timer, the server, the client
            share,
            True,
        )
        for clients, share in ((1, 1 / 2), (44, 1 / 3))
    ),
)


@dataclass(frozen=True)
class Condition:
    """Under what a workload runs.

    Attributes:
        name: key of the figures.
        title: for people.
        setup: shell commands before it.
        hint: latnice's option for the tasks that are sensitive; LIMIT stands for the work's own.
            Empty: no hints.
        polls: whether idle CPUs poll: then only the decisions for other states are recorded,
            because there may be a hundred thousand of them a second.
    """

    name: str
    title: str
    setup: str = ""
    hint: str = ""
    polls: bool = False


MENU, PERFORMANCE, RFC, OURS, FIXED = "menu", "performance", "rfc", "ours", "fixed"

CONDITIONS = (
    Condition(MENU, "menu"),
    Condition(PERFORMANCE, "menu, no idle states", "all_states 1", polls=True),
    Condition(RFC, "gate as in the RFC", "gate poll 0 0", "-n -20", polls=True),
    Condition(OURS, "gate", hint="-l LIMIT"),
    Condition(FIXED, "gate, linger fixed", "gate cap $linger_ms 0", "-l LIMIT"),
)
TITLES = {each.name: each.title for each in CONDITIONS}


@dataclass(frozen=True)
class Sizes:
    """Lengths of a run.

    Attributes:
        works: names of WORKS.
        wake_s: seconds of virtual time of wakebench.
        server_s: the same of pgbench.
        polled_s: the most of each where CPUs poll: a virtual second takes 18 of the host's there.
        conditions: names of CONDITIONS.
        seed: of the workloads and of the machine.
    """

    works: Sequence[str] = tuple(work.name for work in WORKS)
    wake_s: int = 10
    server_s: int = 20
    polled_s: int = 20
    conditions: Sequence[str] = tuple(TITLES)
    seed: int = SEED

    def seconds(self, work: Work, condition: Condition) -> int:
        """Return how long a workload runs under a condition."""
        length_s = self.server_s if work.server else self.wake_s
        return min(length_s, self.polled_s) if condition.polls else length_s


FULL = Sizes()
# The gate as it comes, beside menu and performance mode, which gives no more than a median latency
# and a power that is the same at each moment.
JUDGED = Sizes(polled_s=3, conditions=(MENU, PERFORMANCE, OURS, FIXED))
QUICK = Sizes(works=("wake-1", "pgbench-1"), wake_s=3, server_s=3)

_HEAD = """\
. /lab/functions
load cpuidle_emul machine={machine} {domains}
load cpuidle_lab
account=/sys/kernel/debug/cpuidle_emul/energy domains=/sys/kernel/debug/cpuidle_emul/domains
wakes=$tracing/instances/wakes
linger_ms=$(cat $knobs/gate/linger_ms) linger_max_ms=$(cat $knobs/gate/linger_max_ms)
echo {base} >$knobs/gate/base || fail "the gate has no base {base}"
governor gate
mkdir $wakes
echo 'comm == "wakebench" || comm == "pgbench" || comm == "postgres"' \\
	>$wakes/events/sched/sched_wakeup/filter || fail "wake-ups cannot be recorded"
echo 1 >$wakes/events/sched/sched_wakeup/enable

# all_states 0|1: enable or disable every idle state but the polling one.
all_states() {{
	for state in /sys/devices/system/cpu/cpu*/cpuidle/state[1-9]*; do
		echo "$1" >"$state/disable"
	done
}}
# gate MODE LINGER_MS LINGER_MAX_MS
gate() {{
	tune gate mode "$1"
	tune gate linger_ms "$2"
	tune gate linger_max_ms "$3"
}}
# record NAME FILTER COMMAND...
record() {{
	name=$1 only=$2
	shift 2
	say "$name"
	pidof postgres >/results/$name.others || true
	[ -z "$hint" ] || [ -z "$server" ] || latnice $hint -p "$server" || fail "no hint for $server"
	trace-cmd start -b 8192 -e cpuidle_lab:cil_config -e cpuidle_lab:cil_decision -f "$only" \\
		-e cpuidle_lab:cil_outcome -f "$only" >/dev/null || fail "tracing did not start"
	echo >$wakes/trace
	cat $account >/results/$name.before
	cat $domains >/results/$name.domains-before
	${{hint:+latnice $hint}} "$@" >/results/$name.out 2>&1 &
	work=$!
	usleep 500000
	hinted=$(grep -c '^[0-9]' $knobs/gate/hints)
	wait $work || fail "$name failed: $(tail -n 1 /results/$name.out)"
	cat $account >/results/$name.after
	cat $domains >/results/$name.domains-after
	trace-cmd stop
	# No CPU polls while the trace is read: that takes most of the host's time.
	all_states 0
	[ -z "$hint" ] || [ -z "$server" ] || latnice -r -p "$server" || fail "$server keeps its hint"
	trace-cmd extract -o /results/$name.dat >/dev/null || fail "the trace cannot be read"
	cat $wakes/trace >/results/$name.wakes
	echo "$hinted" >/results/$name.hinted
	[ -z "$hint" ] || [ "$hinted" -gt 0 ] || fail "$name: no task has a hint"
}}
server=
"""

# Vacuuming would fall into one cell or another.
_SERVER = """\
. /lab/servers
postgres_start
server=$(head -n 1 /pg/postmaster.pid)
echo autovacuum=off >>/pg/postgresql.conf
kill -HUP "$server"
sleep 1
"""


def cell_name(work: Work, condition: Condition) -> str:
    """Return the start of the names of a cell's files."""
    return f"{work.name}.{condition.name}"


def chosen(sizes: Sizes) -> list[Work]:
    """Return the workloads of a run, in the order of WORKS."""
    return [work for work in WORKS if work.name in sizes.works]


def conditions(sizes: Sizes) -> list[Condition]:
    """Return the conditions of a run, in the order of CONDITIONS."""
    return [condition for condition in CONDITIONS if condition.name in sizes.conditions]


def script(machine: str, sizes: Sizes) -> str:
    """Return the guest's script for a machine: its workloads under the run's conditions."""
    lines = [_HEAD.format(machine=machine, domains=emulated_domains(TREES[machine]), base=BASE)]
    # Without a server first: its own processes would wake up among the others.
    for work in sorted(chosen(sizes), key=lambda each: each.server):
        if work.server and _SERVER not in lines:
            lines.append(_SERVER)
        for condition in conditions(sizes):
            name = cell_name(work, condition)
            command = work.command.replace("SECONDS", str(sizes.seconds(work, condition)))
            command = command.replace("SEED", str(sizes.seed)).replace(
                "LOG", f"/results/{name}.log"
            )
            only = "index > 0" if condition.polls else "index >= 0"
            lines += [
                "gate cap $linger_ms $linger_max_ms",
                condition.setup,
                f"hint='{condition.hint.replace('LIMIT', f'{work.limit_us}us')}'",
                f'record {name} "{only}" {command}',
            ]
    return "\n".join(lines)


def run(machine: str, sizes: Sizes, output: Path) -> Path:
    """Boot a machine and run its cells.

    Args:
        machine: of MACHINES.
        sizes: what is run, and how long.
        output: directory for the results.

    Returns:
        The directory that has each cell's files: out, log.*, wakes, others, dat, hinted, before and
        after of the CPUs, domains-before and domains-after, each after the cell's name and a dot.

    Raises:
        UserError: an image cannot be made, or something failed in the guest.
    """
    works = chosen(sizes)
    files = {name: data for one in PROGRAMS for name, data in programs.file(one).items()}
    if any(work.server for work in works):
        files |= workloads.files([workloads.find("pgbench-1")])
    lab = LabRun(
        script(machine, sizes),
        cpus=CPUS,
        seed=sizes.seed,
        files=files,
        memory_mib=2048,
        real_time=False,
        time_limit_s=TIME_LIMIT_S,
    )
    title = f"Running {len(works) * len(conditions(sizes))} cells on {machine}"
    return run_lab(lab, output, title).check().files
