# SPDX-License-Identifier: GPL-2.0
"""Runs governors in turns and leaves the machine as it was.

In each round every governor has one turn. Which one comes first is drawn, in blocks in which each
governor has each position once, so that neither a drift nor a place in the round favours one. Like
`capture`, a session notes signals and acts on them only while it waits, so that none falls between
a change and the note to undo it. Needs the standard library only.
"""

import contextlib
import math
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from random import Random
from typing import IO, Any

from cpuidle_lab.ab import circumstances
from cpuidle_lab.ab.record import Log, Run, StateTime
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.settings import Setting
from cpuidle_lab.base.version import __version__
from cpuidle_lab.base.waiting import Waiter, end_process
from cpuidle_lab.host import energy
from cpuidle_lab.host.machine import CURRENT_GOVERNOR, Host
from cpuidle_lab.host.sysfs import Tree

NAME = "ab"

_CPUS = "/sys/devices/system/cpu"
_CPUFREQ = f"{_CPUS}/cpufreq"

# A counter of 65 kJ lasts so long at 1 kW.
_READ_ENERGY_EVERY_S = 60.0

_LONGEST_LINE = 200


@dataclass(frozen=True)
class Plan:
    """Plan of a measurement.

    Attributes:
        governors: at least two; the first is what the others are compared with.
        rounds: how often each has a turn.
        settings: tunables to set meanwhile.
        seed: of the order, and of the bootstrap.
        settle_s: seconds between the switch to a governor and its run.
        seconds: seconds of a run without a command; None with one.
        command: what to run; empty for none.
        metric: regular expression with one group, the number that the command prints; None for
            none.
        better: which numbers are: higher or lower.
        frequency: frequency governor of all CPUs meanwhile; "": the one that there is.
    """

    governors: tuple[str, ...]
    rounds: int
    settings: tuple[Setting, ...]
    seed: int
    settle_s: float
    seconds: float | None
    command: tuple[str, ...]
    metric: str | None
    better: str
    frequency: str = ""


Say = Callable[[str], None]
Counts = dict[int, list[StateTime]]


# Checks: everything that can be known before anything is changed.


def _check_governor(machine: Host, name: str) -> None:
    try:
        machine.require_governor(name)
    except UserError as error:
        if machine.module_version() is not None:
            raise
        hint = "cpuidle_lab is not loaded: sudo modprobe cpuidle_lab"
        raise UserError(f"{error.message}; {hint}") from error


def check(machine: Host, plan: Plan) -> None:
    """Raise a `UserError` unless the plan can be carried out."""
    if machine.driver() is None or not machine.governor():
        raise UserError(
            "the kernel asks no idle governor here: cpuidle is off or has no driver, "
            "as cpuidle-lab doctor explains"
        )
    for name in plan.governors:
        _check_governor(machine, name)
    if not machine.tree.may_write(CURRENT_GOVERNOR):
        raise UserError("governors are switched, which needs root: use sudo")
    for setting in plan.settings:
        machine.tunable(setting.governor, setting.name)


def _policies(machine: Host) -> list[str]:
    """Return the files that have the frequency governors."""
    found = (f"{_CPUFREQ}/{name}/scaling_governor" for name in machine.tree.names(_CPUFREQ))
    return [name for name in found if machine.tree.exists(name)]


def frequency_governors(machine: Host) -> list[str]:
    """Return the frequency governors that all CPUs have; "" alone if there are none to set."""
    offered = [
        (machine.tree.read(name.replace("scaling_governor", "scaling_available_governors")) or "")
        .split()
        for name in _policies(machine)
    ]  # fmt: skip
    first, *others = offered or [[]]
    # It has the frequency that was set last: with the others it is no governor.
    common = [one for one in first if all(one in more for more in others) and one != "userspace"]
    return common or [""]


def draw_order(governors: tuple[str, ...], rounds: int, seed: int) -> list[list[str]]:
    """Return the order of the governors in each round.

    In each block of as many rounds as there are governors, each governor has each position once
    (a Latin square, its rows shuffled); the last block may be cut short.
    """
    random = Random(seed)
    order: list[list[str]] = []
    while len(order) < rounds:
        names = list(governors)
        random.shuffle(names)
        block = [names[first:] + names[:first] for first in range(len(names))]
        random.shuffle(block)
        order += block
    return order[:rounds]


# The measurement.


def _number(tree: Tree, name: str) -> int | None:
    text = tree.read(name) or ""
    return int(text) if re.fullmatch(r"[0-9]{1,20}", text) else None


def _state(tree: Tree, directory: str) -> StateTime:
    return StateTime(
        tree.read(f"{directory}/name") or directory.rsplit("/", 1)[-1],
        _number(tree, f"{directory}/usage") or 0,
        _number(tree, f"{directory}/time") or 0,
        _number(tree, f"{directory}/above"),
        _number(tree, f"{directory}/below"),
    )


def _wake_all() -> None:
    """Run on each CPU for a moment: the kernel counts a sleep when it ends, however long it was."""
    allowed = os.sched_getaffinity(0)
    try:
        for cpu in allowed:
            with contextlib.suppress(OSError):  # it may have gone
                os.sched_setaffinity(0, {cpu})
    finally:
        os.sched_setaffinity(0, allowed)


def _counts(tree: Tree) -> Counts:
    """Return the counters of the idle states of each CPU, shallowest first."""
    _wake_all()
    found: Counts = {}
    for cpu in tree.names(_CPUS):
        directory = f"{_CPUS}/{cpu}/cpuidle"
        if not re.fullmatch(r"cpu\d+", cpu) or not tree.exists(directory):
            continue
        names = [name for name in tree.names(directory) if re.fullmatch(r"state\d+", name)]
        names.sort(key=lambda name: int(name[5:]))
        found[int(cpu[3:])] = [_state(tree, f"{directory}/{name}") for name in names]
    return found


def _add(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _subtract(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a - b


def idle_between(before: Counts, after: Counts) -> tuple[int, tuple[StateTime, ...] | None]:
    """Return how many CPUs were there throughout, and what their idle states counted.

    States of the same name are added up; None if a counter went back.
    """
    cpus = [
        cpu
        for cpu, states in after.items()
        if [state.name for state in before.get(cpu, [])] == [state.name for state in states]
    ]
    sums: dict[str, StateTime] = {}
    for cpu in cpus:
        for old, new in zip(before[cpu], after[cpu], strict=True):
            rise = StateTime(
                new.name,
                new.usage - old.usage,
                new.time_us - old.time_us,
                _subtract(new.above, old.above),
                _subtract(new.below, old.below),
            )
            if min(rise.usage, rise.time_us, rise.above or 0, rise.below or 0) < 0:
                return len(cpus), None
            so_far = sums.get(new.name, StateTime(new.name, 0, 0, 0, 0))
            sums[new.name] = StateTime(
                new.name,
                so_far.usage + rise.usage,
                so_far.time_us + rise.time_us,
                _add(so_far.above, rise.above),
                _add(so_far.below, rise.below),
            )
    return len(cpus), tuple(sums.values())


class EnergyMeter:
    """Collects readings of the energy counters.

    Args:
        tree: the machine.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._marks: list[tuple[int, str]] = []
        self.unread: set[str] = set()

    def read(self) -> None:
        """Read all counters."""
        now_ns = time.monotonic_ns()
        readings, unread = energy.read_zones(self._tree)
        self._marks += [(now_ns, reading.mark()) for reading in readings]
        self.unread |= set(unread)

    def spent(self) -> tuple[energy.ZoneEnergy, ...]:
        """Return what was counted between the first reading and the last."""
        return tuple(energy.spent(self._marks))


# Running.


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_LONGEST_LINE] if lines else "it said nothing"


def find_metric(pattern: str, text: str) -> float:
    """Return the number in the pattern's group, where it matches last.

    Raises:
        UserError: it matches nowhere, or the group is no number.
    """
    matches = list(re.finditer(pattern, text, re.MULTILINE))
    if not matches:
        raise UserError(f"the command printed nothing that matches '{pattern}': {_last_line(text)}")
    word = matches[-1][1]
    with contextlib.suppress(TypeError, ValueError):
        number = float(word)
        if math.isfinite(number):
            return number
    raise UserError(f"'{pattern}' found '{word}' in the command's output, which is no number")


class Runner:
    """Lets governors run, one at a time.

    Args:
        machine: the machine.
        plan: what to run.
        waiter: waits for it.
    """

    def __init__(self, machine: Host, plan: Plan, waiter: Waiter) -> None:
        self._machine = machine
        self._plan = plan
        self._waiter = waiter

    def prepare(self, governor: str) -> None:
        """Switch to a governor, without what it learned before, and let the machine settle."""
        self._machine.set_governor(governor)
        if governor in self._machine.lab_governors():
            self._machine.reset_learning(governor)
        self._waiter.wait(self._plan.settle_s)

    def measure(self, governor: str, round_: int, position: int) -> Run:
        """Return what a run under the governor in use brought.

        Raises:
            UserError: the command failed, or the governor was switched from outside.
            InterruptedSession: a signal came.
        """
        tree = self._machine.tree
        meter = EnergyMeter(tree)
        warm = circumstances.temperature_c(tree)
        before = _counts(tree)
        start = datetime.now(UTC)
        # Idle counters outside, energy inside: reading the former takes longer.
        meter.read()
        wall_s, metric = self.work(meter.read)
        meter.read()
        cpus, idle = idle_between(before, _counts(tree))
        self._check_governors(governor)
        return Run(
            round=round_,
            position=position,
            governor=governor,
            start=start.isoformat(timespec="milliseconds"),
            wall_s=wall_s,
            exit_status=0,
            metric=metric,
            zones=meter.spent(),
            unread=tuple(sorted(meter.unread)),
            cpus=cpus,
            idle=idle,
            temperature_c=(warm, circumstances.temperature_c(tree)),
        )

    def _check_governors(self, governor: str) -> None:
        wanted = {CURRENT_GOVERNOR: governor}
        if self._plan.frequency:
            wanted |= dict.fromkeys(_policies(self._machine), self._plan.frequency)
        for name, expected in wanted.items():
            if (found := self._machine.tree.read(name)) != expected:
                raise UserError(
                    f"the governor was switched to {found} from outside "
                    f"while {expected} was measured"
                )

    def work(self, read_energy: Callable[[], None]) -> tuple[float, float | None]:
        """Run the command, or wait.

        Args:
            read_energy: called now and then, so that no counter wraps twice unseen.

        Returns:
            the time it took in s, and the number that it printed.

        Raises:
            UserError: the command cannot be run, fails, or does not print the number.
            InterruptedSession: a signal came; the command has ended.
        """
        if not self._plan.command:
            start = time.monotonic()
            self._wait(self._plan.seconds or 0, read_energy)
            return time.monotonic() - start, None
        with tempfile.TemporaryFile() as output:
            start = time.monotonic()
            status = self._run_command(output, read_energy)
            wall_s = time.monotonic() - start
            output.seek(0)
            text = output.read().decode(errors="replace")
        if status:
            how = f"ended with {status}" if status > 0 else f"was ended by signal {-status}"
            raise UserError(f"the command {how}: {_last_line(text)}")
        metric = None if self._plan.metric is None else find_metric(self._plan.metric, text)
        return wall_s, metric

    def _run_command(self, output: IO[bytes], read_energy: Callable[[], None]) -> int:
        try:
            # A session of its own: a Ctrl-C at the terminal is for us, and ends all of it.
            process = subprocess.Popen(
                self._plan.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UserError(f"cannot run {self._plan.command[0]}: {reason}") from error
        try:
            self._wait(math.inf, read_energy, process)
        finally:
            status = end_process(process, signal.SIGTERM)
        return status

    def _wait(
        self, seconds: float, read_energy: Callable[[], None], *processes: subprocess.Popen[bytes]
    ) -> None:
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            self._waiter.wait(min(left, _READ_ENERGY_EVERY_S), *processes)
            if left <= _READ_ENERGY_EVERY_S or any(item.poll() is not None for item in processes):
                return
            read_energy()


# The session.


def _head(machine: Host, plan: Plan, arguments: list[str]) -> dict[str, Any]:
    here = circumstances.look(machine)
    return {
        "command": NAME,
        "arguments": arguments,
        "version": __version__,
        "kernel": machine.kernel(),
        "start": _now(),
        "plan": asdict(plan),
        "order": draw_order(plan.governors, plan.rounds, plan.seed),
        "machine": asdict(here),
        "warnings": circumstances.warnings(here),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _configure(machine: Host, plan: Plan, undo: contextlib.ExitStack) -> None:
    for setting in plan.settings:
        before = machine.tunable(setting.governor, setting.name)
        undo.callback(machine.set_tunable, setting.governor, setting.name, before)
        machine.set_tunable(setting.governor, setting.name, setting.value)
    for policy in _policies(machine) if plan.frequency else ():
        undo.callback(machine.tree.write, policy, machine.tree.read(policy) or "")
        machine.tree.write(policy, plan.frequency)
    undo.callback(machine.set_governor, machine.governor())


def _take_turns(runner: Runner, plan: Plan, log: Log, say: Say) -> None:
    order = draw_order(plan.governors, plan.rounds, plan.seed)
    if plan.command:
        say(f"warming up under {order[0][0]}, not counted")
        runner.prepare(order[0][0])
        runner.work(lambda: None)
    for number, governors in enumerate(order, 1):
        for position, governor in enumerate(governors, 1):
            say(f"round {number} of {plan.rounds}: {governor}")
            runner.prepare(governor)
            try:
                log.add(runner.measure(governor, number, position))
            except UserError as error:
                raise UserError(f"{governor}, round {number}: {error.message}") from error


def measure(machine: Host, plan: Plan, arguments: list[str], log: Log, say: Say) -> None:
    """Carry out the plan; afterwards the machine is as before, also where something failed.

    A frequency governor that is put back begins afresh: the kernel forgets its tunables.

    Args:
        machine: the machine.
        plan: what to run.
        arguments: the command line, for the record.
        log: receives every run.
        say: is told of the progress.

    Raises:
        UserError: something failed; complete runs are in the log.
        InterruptedSession: a signal came; complete runs are in the log.
    """
    check(machine, plan)
    before = circumstances.look(machine)
    complete = False
    try:
        with Waiter() as waiter, contextlib.ExitStack() as undo:
            _configure(machine, plan, undo)
            log.head = _head(machine, plan, arguments)
            _take_turns(Runner(machine, plan, waiter), plan, log, say)
            complete = True
    finally:
        changed = circumstances.changes(before, circumstances.look(machine))
        log.close({"end": _now(), "complete": complete, "changed": changed})
