# SPDX-License-Identifier: GPL-2.0
"""Governors of the module on machines that tell little, or do other than they are told.

One boot for all machines. The kernel asks a governor also where the polling state is alone, where
nothing is enabled, and where no state polls; nothing may index beyond the table then.
"""

import re
from dataclasses import dataclass

import pytest

from cpuidle_lab.lab import LabResult, LabRun, programs, run_lab
from cpuidle_lab.report import model

pytestmark = pytest.mark.lab

OURS = ("teo_ng", "menu_ng", "wteo", "gate")
FULL = ",".join(f"C{n}:{n}:{n * 10}" for n in range(1, 8)) + ",C8:500:1000,C9:1000:5000000"
# The deepest of these pays in any long idle period.
DEEP = ",".join(f"C{n}:{n * 20}:{n * 200}" for n in range(1, 10))

NAPS = programs.Program("naps", "tests/lab/naps/naps.c")

# Number of states, and the parameters, by name.
MACHINES = {
    "polling_alone": (1, "states=none"),
    "single": (1, "states=C1:2:2 poll=none"),
    "no_polling_off": (3, "machine=skx poll=none"),
    "full_off": (10, f"states={FULL}"),
    "ten_without_polling": (10, f"states=C0:1:1,{FULL} poll=none"),
    "ten": (10, f"states={DEEP}"),
    "rejecting": (4, "machine=skx reject=5"),
    "demoting": (4, "machine=skx demote=3"),
    "told": (9, "machine=power9"),
    "silent": (9, "machine=power9 poll=silent"),
}
# The shallowest state of power9 that halts pays from here on; polls last as long.
LIMIT_NS = 10_000
# Parameters that are refused, and why.
WRONG = {
    "poll=nonsense": "poll must be told, silent or none",
    "states=none poll=none": "states=none and poll=none leave no idle state",
    "reject=-1": "",
    f"states=C0:1:1,{DEEP}": "states: more than 9 states beside POLL",
    f"states=C-1:1:1,C0:1:1,{DEEP} poll=none": "states: more than 10 states",
}

SCRIPT = """
. /lab/functions
load cpuidle_lab
cpus=/sys/devices/system/cpu
listen() {
    for event in decision outcome; do echo 1 >$tracing/events/cpuidle_lab/cil_$event/enable; done
    echo 1 >$tracing/tracing_on
}
echo 4096 >$tracing/buffer_size_kb
listen
work() {
    for cpu in 0 1; do
        taskset -c $cpu naps 24 &
    done
    wait
}
disable() { for f in $cpus/cpu[01]/cpuidle/$1/disable; do echo $2 >$f; done; }
latency() { for f in $cpus/cpu[01]/power/pm_qos_resume_latency_us; do echo $1 >$f; done; }
# There is some work, and then none for long.
rest() { for i in 1 2 3 4 5 6; do usleep $((i * 150)); done; sleep 0.3; }
# record: each governor as report sees it.
record() {
    trace_start 8 cpuidle_lab
    for each in teo_ng menu_ng wteo gate; do
        afresh $each
        phase rest rest
    done
    trace_stop trace.dat
    listen
}
# refuse PARAMETER...: the last line of the log says why.
refuse() {
    echo "<6>refuse $*" >/dev/kmsg
    modprobe cpuidle_emul "$@" 2>/dev/null && fail "$* is accepted"
    dmesg | tail -n 1 >>/results/refused
}
# try NAME PARAMETER...: each governor; where NAME ends in "off", also without the deeper states and
# without any; the two machines to compare poll for a while.
try() {
    name=$1
    shift
    modprobe cpuidle_emul "$@" || fail "$name: $(dmesg | tail -n 1)"
    echo >$tracing/trace
    for each in teo_ng menu_ng wteo gate; do
        governor $each
        work
        case $name in
        *off)
            disable 'state[1-9]' 1; usleep 5000
            disable state0 1; usleep 5000
            disable 'state*' 0 ;;
        told|silent)
            latency n/a; usleep 9000; latency 0 ;;
        esac
    done
    cp $tracing/trace /results/$name
    cat $cpus/cpu0/cpuidle/state*/name | tr '\\n' ' ' >/results/$name.states
    cat /sys/kernel/debug/cpuidle_emul/energy >/results/$name.energy
    [ $name != ten ] || record
    governor menu
    rmmod cpuidle_emul
}
"""


@dataclass(frozen=True)
class Line:
    """An event: the decision, or what became of it."""

    governor: str
    index: int
    text: str


@dataclass(frozen=True)
class Seen:
    """Events that were traced on a machine."""

    decisions: dict[tuple[str, str], Line]
    outcomes: dict[tuple[str, str], Line]

    def entered(self) -> list[tuple[Line, Line]]:
        """Return decisions with what was entered."""
        return [
            (self.decisions[key], line)
            for key, line in self.outcomes.items()
            if key in self.decisions and " entered " in line.text
        ]


EVENT = re.compile(r"\[(\d+)\] .* cil_(decision|outcome): seq=(\d+) (\w+): (.*\((\d+)\) .*)$")


def seen(session: LabResult, name: str) -> Seen:
    """Return the events of a machine."""
    found: dict[str, dict[tuple[str, str], Line]] = {"decision": {}, "outcome": {}}
    for line in (session.files / name).read_text().splitlines():
        event = EVENT.search(line)
        if event:
            cpu, kind, seq, governor, text, index = event.groups()
            found[kind][(cpu, seq)] = Line(governor, int(index), f" {text} ")
    return Seen(found["decision"], found["outcome"])


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> LabResult:
    """Try all machines in one boot."""
    tries = [f"try {name} {parameters}" for name, (_, parameters) in MACHINES.items()]
    tries += [f"refuse {wrong}" for wrong in WRONG]
    script = SCRIPT + "\n".join([*tries, "true"])
    return run_lab(
        LabRun(script=script, real_time=False, files=programs.file(NAPS)),
        tmp_path_factory.mktemp("machines") / "results",
    ).check()


def test_a_table_that_is_wrong_is_refused_with_a_sentence(session: LabResult) -> None:
    """Eleven states, too: cpuidle has room for ten, with the polling state or without."""
    lines = (session.files / "refused").read_text().splitlines()
    assert len(lines) == len(WRONG)
    for line, (parameters, sentence) in zip(lines, WRONG.items(), strict=True):
        assert line.endswith(f"cpuidle_emul: {sentence}" if sentence else ""), parameters


def test_nothing_is_complained_about(session: LabResult) -> None:
    foreign = ("out-of-tree module", "module verification failed", "cpuidle_emul: ")
    assert [line for line in session.complaints() if not any(t in line for t in foreign)] == []


@pytest.mark.parametrize("name", MACHINES)
def test_every_governor_stays_within_the_table(session: LabResult, name: str) -> None:
    count = MACHINES[name][0]
    states = (session.files / f"{name}.states").read_text().split()
    assert len(states) == count
    events = seen(session, name)
    for governor in OURS:
        indexes = [line.index for line in events.decisions.values() if line.governor == governor]
        # Of one state only: cpuidle_idle_call() enters it, and asks no governor.
        assert len(indexes) > 20 if count > 1 else not indexes, governor
        assert max(indexes, default=0) < count
    assert {line.index for line in events.outcomes.values()} <= set(range(count))
    lines = (session.files / f"{name}.energy").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    assert all(int(energy) >= 0 for *_, energy in rows)
    assert sum(int(row[-2]) for row in rows if row[1] in states) > 20, "no state was entered"


@pytest.mark.parametrize("name", ["no_polling_off", "full_off"])
@pytest.mark.parametrize("left", [1, 0])
def test_every_governor_is_asked_though_nothing_is_left_to_choose(
    session: LabResult, name: str, left: int
) -> None:
    """With the shallowest state alone, which polls on the second machine, and with none."""
    disabled = (1 << MACHINES[name][0]) - 1 - left
    decisions = seen(session, name).decisions.values()
    for governor in OURS:
        asked = [line for line in decisions if f" disabled={disabled:#x} " in line.text]
        chosen = {line.index for line in asked if line.governor == governor}
        assert chosen == {0}, governor


def test_a_table_without_a_polling_state_begins_with_one_that_halts(session: LabResult) -> None:
    assert (session.files / "no_polling_off.states").read_text().split() == ["C1", "C1E", "C6"]
    assert {line.index for line in seen(session, "no_polling_off").decisions.values()} == {0, 1, 2}


def test_a_residency_above_a_second_is_too_long_for_all(session: LabResult) -> None:
    """No timer is that far away; the state before it pays."""
    used = {line.index for line in seen(session, "full_off").decisions.values()}
    assert 8 in used
    assert 9 not in used


def test_every_governor_reaches_the_deepest_of_ten_states(session: LabResult) -> None:
    """Where there is nothing to do for long; each decides as report wants it for its judgement."""
    groups = model.build([session.files / "trace.dat"], "", "").groups
    assert [group.governor.partition("(")[0] for group in groups] == [*OURS]
    for group in groups:
        assert (len(group.names), group.names[9]) == (10, "C9")
        # One of two CPUs rests there.
        assert group.residency_ns[9] > 100_000_000, group.governor
        # Its size depends on the host's time: some dozen intervals in a second.
        regret = group.values["regret"]
        assert regret is not None and regret >= 0, group.governor


def test_refused_states_are_accounted_as_aborted(session: LabResult) -> None:
    events = seen(session, "rejecting")
    aborted = [key for key, line in events.outcomes.items() if " aborted " in line.text]
    assert len(aborted) > 20
    following = [(cpu, str(int(seq) + 1)) for cpu, seq in aborted]
    told = [" rejected " in events.decisions[key].text for key in following]
    assert sum(told) >= len(told) - 2, "work may come first"


def test_demoted_states_are_accounted_as_entered(session: LabResult) -> None:
    pairs = seen(session, "demoting").entered()
    deeper = [outcome.index - decision.index for decision, outcome in pairs]
    assert set(deeper) == {0, -1}
    assert deeper.count(-1) > 30
    exact = [o.index == d.index for d, o in seen(session, "told").entered()]
    assert all(exact)


def limited(session: LabResult, name: str) -> tuple[int, int]:
    """Return how many polls were taken to have given up at the limit, and how many there were."""
    polls = [line.text for line in seen(session, name).outcomes.values() if "snooze" in line.text]
    return sum(" poll-time-limit " in text for text in polls), len(polls)


def test_a_poll_that_gave_up_is_known_where_the_driver_does_not_say(session: LabResult) -> None:
    """The module notes as many as the driver reports on the machine that is the same otherwise."""
    told, silent = limited(session, "told"), limited(session, "silent")
    assert told[0] > 50
    assert silent[0] / silent[1] == pytest.approx(told[0] / told[1], abs=0.1)
    exact = [
        int(found[1])
        for line in seen(session, "silent").outcomes.values()
        if " poll-time-limit " in line.text
        and (found := re.search(r"residency_ns=(\d+)", line.text))
    ]
    assert min(exact) >= LIMIT_NS
