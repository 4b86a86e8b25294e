# SPDX-License-Identifier: GPL-2.0
"""Recording of a session on the running system, which is left as it was.

The order matters. Tunables are set before the governor is switched, so that
its first decision is made with them; learning is reset last, so that the trace
begins with a governor that knows nothing. Everything is undone in reverse:
tracing off, governor back, tunables back.

A session may be recorded in several files, one after the other. trace-cmd copies a recording to
its file at its end, and meanwhile nothing is recorded.

While a session runs, signals are only noted, and acted upon where it waits for
the workload: an interruption cannot fall between a change and the note to undo
it. Nothing is polled: a tool that measures idleness must not wake the machine.
"""

import contextlib
import math
import re
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from cpuidle_lab.base import files
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.packages import remedy
from cpuidle_lab.base.settings import Setting
from cpuidle_lab.base.waiting import InterruptedSession, Process, Waiter, end_process
from cpuidle_lab.host import energy, idle_states, request, unfinished
from cpuidle_lab.host.machine import (
    CURRENT_GOVERNOR,
    DEBUGFS,
    LAB,
    TRACEFS,
    Host,
    trace_cmd_is_usable,
)
from cpuidle_lab.host.marks import END, MACHINE
from cpuidle_lab.host.probes import KPROBE_EVENTS, Probes, Way, best_way
from cpuidle_lab.host.recorder import Recorder

_MARKER = f"{TRACEFS}/trace_marker"

_RESET = "sudo trace-cmd reset ends it and deletes all probes"


@dataclass(frozen=True)
class Plan:
    """Plan of a recording.

    Attributes:
        output: the trace file.
        force: replace an existing one.
        governor: governor to switch to; None keeps the current one.
        settings: tunables to set.
        events: event systems or events to record beside ours.
        duration_s: seconds to record; None without a limit.
        command: the workload; empty for none.
        stock: record without the module.
        rotate_s: a new file begins after so many seconds; None: there is one file.
        last_s: files are removed that end more than so many seconds ago; None: all are kept.
        request_us: latency request that is held meanwhile; None: none.
        scrub: remove names from the trace, as of scrub.py.
    """

    output: Path
    force: bool
    governor: str | None
    settings: tuple[Setting, ...]
    events: tuple[str, ...]
    duration_s: float | None
    command: tuple[str, ...]
    stock: bool = False
    rotate_s: float | None = None
    last_s: float | None = None
    request_us: int | None = None
    scrub: bool = False

    def file(self, number: int) -> Path:
        """Return the place of a file of the session, counted from 1."""
        if self.rotate_s is None:
            return self.output
        return self.output.with_name(f"{self.output.stem}-{number:04}{self.output.suffix}")

    def files_there(self) -> list[Path]:
        """Return the files that exist of a session of several ones."""
        stem, suffix = map(re.escape, (self.output.stem, self.output.suffix))
        return sorted(
            path
            for path in self.output.parent.glob("*")
            if re.fullmatch(rf"{stem}-\d{{4,}}{suffix}", path.name)
        )

    @property
    def kept(self) -> int | None:
        """Number of finished files that are kept beside the one that is written; None: all."""
        if self.rotate_s is None or self.last_s is None:
            return None
        return math.ceil(self.last_s / self.rotate_s)

    @property
    def takes(self) -> files.Foreign:
        """Test for a file that must not be replaced."""
        return files.unless_forced(files.marked(files.TRACE), self.force)

    @property
    def is_open_ended(self) -> bool:
        """Ctrl-C is the regular end."""
        return self.duration_s is None and not self.command

    def ends_by(self, number: int) -> bool:
        """Tell whether a signal is the regular end."""
        return self.is_open_ended and number == signal.SIGINT


# Checks: everything that can be known before anything is changed.


def _roots_own(machine: Host, stock: bool) -> str:
    """Return a file that the session writes, and that root alone may write."""
    tracing = (KPROBE_EVENTS, f"{TRACEFS}/set_event") if stock else ()
    return next(filter(machine.tree.exists, tracing), CURRENT_GOVERNOR)


def _check_machine(machine: Host, stock: bool) -> None:
    if machine.module_version() is None and not stock:
        raise UserError(
            "cpuidle_lab is not loaded: sudo modprobe cpuidle_lab; --stock records without it"
        )
    if stock and machine.driver() is None:
        raise UserError("this machine has no cpuidle driver: no governor decides anything")
    if machine.lockdown() == "confidentiality":
        raise UserError(
            "the kernel is locked down (confidentiality), which closes tracing and probes; "
            "integrity would allow them"
        )
    if not machine.tree.may_write(_roots_own(machine, stock)):
        raise UserError("capture switches governors and tracing, which needs root: use sudo")
    if not stock and not machine.tree.exists(f"{LAB}/version"):
        raise UserError(
            f"{LAB} is missing: sudo mount -t debugfs debugfs {DEBUGFS}"
            if not machine.is_mounted(DEBUGFS)
            else f"{LAB} cannot be read (kernel lockdown: {machine.lockdown()})"
        )
    if not machine.tree.exists(f"{TRACEFS}/current_tracer"):
        raise UserError(
            f"tracing is not there: sudo mount -t tracefs tracefs {TRACEFS} "
            f"(kernel lockdown: {machine.lockdown()})"
        )


def _check_trace_cmd(machine: Host) -> str:
    program = machine.tool("trace-cmd")
    if program is None:
        raise UserError(f"trace-cmd is not installed: {remedy('trace-cmd', prefix='sudo ')}")
    version = machine.tool_version("trace-cmd") or ""
    if not trace_cmd_is_usable(version):
        raise UserError(
            f"trace-cmd {version or 'of unknown version'} is too old: 3.1 or newer is needed"
        )
    return program


def _check_events(machine: Host, events: tuple[str, ...]) -> None:
    for event in events:
        path = event.split()[0].replace(":", "/")
        if not machine.tree.exists(f"{TRACEFS}/events/{path}/enable"):
            raise UserError(f"the kernel has no event or event system '{event}'")


def _check_tracing_is_free(machine: Host) -> None:
    tracer = machine.tree.read(f"{TRACEFS}/current_tracer")
    if tracer not in (None, "nop"):
        raise UserError(f"the tracer '{tracer}' is in use: {_RESET}")
    enabled = (machine.tree.read(f"{TRACEFS}/set_event") or "").splitlines()
    if enabled:
        more = f" and {len(enabled) - 1} more" if len(enabled) > 1 else ""
        raise UserError(f"another tracing session records {enabled[0]}{more}: {_RESET}")


def check(machine: Host, plan: Plan) -> str:
    """Raise a `UserError` unless the plan can be carried out.

    Returns:
        where trace-cmd lies.
    """
    files.check(plan.file(1), plan.takes)
    if plan.rotate_s is not None and (there := plan.files_there()):
        raise UserError(
            f"{there[0]} exists already, and a session in several files replaces none; choose "
            "another name",
            USAGE,
        )
    _check_machine(machine, plan.stock)
    program = _check_trace_cmd(machine)
    if plan.governor is not None:
        machine.require_governor(plan.governor)
    for setting in plan.settings:
        machine.tunable(setting.governor, setting.name)
    _check_events(machine, plan.events)
    _check_tracing_is_free(machine)
    return program


# The session.


class _Load:
    """The workload or the time that a session lasts, over all its files.

    The workload, too, gets a session of its own, so that nothing of it is left behind.
    """

    def __init__(self, plan: Plan, waiter: Waiter, stdout: IO[str] | None) -> None:
        self._plan = plan
        self._waiter = waiter
        self._stdout = stdout
        self._process: Process | None = None
        self._end_s: float | None = None

    def _start(self) -> None:
        """Start the workload, or the time."""
        if self._plan.duration_s is not None and self._end_s is None:
            self._end_s = time.monotonic() + self._plan.duration_s
        if not self._plan.command or self._process is not None:
            return
        command = self._plan.command
        try:
            self._process = subprocess.Popen(command, stdout=self._stdout, start_new_session=True)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UserError(f"cannot run {command[0]}: {reason}") from error

    def goes_on(self, recorder: Process) -> bool:
        """Wait for the end of a file; tell whether another one follows.

        Raises:
            UserError: the workload cannot be started.
            InterruptedSession: a signal came that is not the regular end.
        """
        self._start()
        processes = [recorder, *filter(None, [self._process])]
        spans = [] if self._plan.rotate_s is None else [self._plan.rotate_s]
        if self._end_s is not None:
            spans.append(self._end_s - time.monotonic())
        try:
            self._waiter.wait(min(spans, default=None), *processes)
        except InterruptedSession as interruption:
            if self._plan.ends_by(interruption.number):
                return False
            self.end(signal.Signals(interruption.number))
            raise
        is_over = self._end_s is not None and time.monotonic() >= self._end_s
        return not is_over and all(process.poll() is None for process in processes)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End what is left of the workload; return the exit code to report, 0 without one."""
        status = 0 if self._process is None else end_process(self._process, number)
        return status if status >= 0 else 128 - status


def _configure(machine: Host, plan: Plan, undo: contextlib.ExitStack) -> None:
    for setting in plan.settings:
        before = machine.tunable(setting.governor, setting.name)
        undo.callback(machine.set_tunable, setting.governor, setting.name, before)
        machine.set_tunable(setting.governor, setting.name, setting.value)
    before = machine.governor()
    if plan.governor not in (None, before):
        undo.callback(machine.set_governor, before)
        machine.set_governor(plan.governor or before)
    if machine.governor() in machine.lab_governors():
        machine.reset_learning(machine.governor())


def _mark_energy(machine: Host) -> set[str]:
    """Write the energy counters into the trace; return those that cannot be read."""
    readings, unread = energy.read_zones(machine.tree)
    for reading in readings:
        machine.tree.write(_MARKER, reading.mark())
    return set(unread)


def _begin_phase(machine: Host, governor: str, plan: Plan) -> set[str]:
    name = "_".join(Path(plan.command[0]).name.split()) if plan.command else ""
    regime = "" if plan.request_us is None else f" request_us={plan.request_us}"
    machine.tree.write(_MARKER, f"phase governor={governor} workload={name}{regime}")
    return _mark_energy(machine)


def _end_phase(machine: Host) -> set[str]:
    unread = _mark_energy(machine)
    machine.tree.write(_MARKER, "phase end")
    return unread


@dataclass(frozen=True)
class Capture:
    """Result of a session.

    Attributes:
        exit_code: the workload's; 0 without one.
        governor: governor that was recorded.
        switched: the governor was switched from outside meanwhile.
        lost_events: events that trace-cmd could not fetch in time.
        seconds: duration of the recording, without the time between its files.
        unread_zones: energy counters that could not be read, and so are not in the trace.
        way: of a recording without the module: probes, events or cpu_idle; else "".
        why: what kept the machine from a better way.
        files: those that hold the recording.
        gap_s: time between the files in which nothing was recorded.
    """

    exit_code: int
    governor: str
    switched: bool
    lost_events: int
    seconds: float
    unread_zones: tuple[str, ...]
    way: str = ""
    why: str = ""
    files: tuple[str, ...] = ()
    gap_s: float = 0.0


def _prepare_stock(machine: Host, undo: contextlib.ExitStack) -> Way:
    """Set the probes; say what else the recording needs."""
    probes = Probes(machine)
    undo.callback(probes.remove)
    way = best_way(machine, probes)
    if clock := unfinished.clock_of(machine):
        undo.callback(machine.tree.write, unfinished.TRACE_CLOCK, clock)
    return way


def _describe(machine: Host, way: Way) -> None:
    """Write what the events do not tell into the trace."""
    for line in idle_states.lines(machine):
        machine.tree.write(_MARKER, line)
    machine.tree.write(
        _MARKER, f"stock kernel={machine.kernel()} governor={machine.governor()} way={way.name}"
    )


def _describe_end(machine: Host) -> None:
    """Write the idle states and their limits once more: they may have changed."""
    for line in idle_states.lines(machine):
        machine.tree.write(_MARKER, line.replace(MACHINE, END, 1))


@dataclass
class _Session:
    """A session while it runs, and the sums over its files.

    Attributes:
        clock: trace clock that is to be restored, "" if none.
        files: those that are kept.
        governors: names of the governors that were in use.
        unread, lost, seconds: as of Capture.
    """

    machine: Host
    plan: Plan
    program: str
    waiter: Waiter
    load: _Load
    way: Way | None
    clock: str
    files: list[Path] = field(default_factory=list)
    governors: list[str] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    lost: int = 0
    seconds: float = 0.0

    def record_file(self, place: Path) -> bool:
        """Record one file; tell whether another one follows.

        Raises:
            UserError: it was not recorded.
            InterruptedSession: a signal came; it was not recorded.
        """
        machine, plan = self.machine, self.plan
        with files.whole(place, plan.takes) as new, contextlib.ExitStack() as undo:
            unfinished.note(machine, new.parent, self.clock)
            recorder = Recorder(machine, self.waiter, new.parent, plan.scrub)
            undo.callback(recorder.stop)
            process = recorder.start(self.program, plan.events, self.way)
            if self.way:
                _describe(machine, self.way)
            else:
                machine.checkpoint()
            self.governors.append(machine.governor())
            self.unread |= _begin_phase(machine, self.governors[-1], plan)
            start = time.monotonic()
            more = self.load.goes_on(process)
            if not more:
                self.load.end()
            self.seconds += time.monotonic() - start
            if process.poll() is None:  # else there is no trace to mark, as finish() will say
                self.unread |= _end_phase(machine)
                if self.way:
                    _describe_end(machine)
            try:
                self.lost += recorder.finish()
            except InterruptedSession as interruption:
                if not (more and plan.ends_by(interruption.number)):
                    raise
                more = False
                self.lost += recorder.finish()
            self.governors.append(machine.governor())
            if plan.scrub:
                recorder.scrub()
            recorder.trace.replace(new)
        self.files.append(place)
        return more

    def forget_old(self) -> None:
        """Remove the files that are older than those to keep."""
        while self.plan.kept is not None and len(self.files) > self.plan.kept:
            self.files.pop(0).unlink(missing_ok=True)


def record(machine: Host, plan: Plan, stdout: IO[str] | None = None) -> Capture:
    """Carry out the plan; afterwards the machine is as before, also where something failed.

    Args:
        machine: the machine.
        plan: what to record.
        stdout: where the workload's output goes; None for the process's own.

    Raises:
        UserError: nothing was recorded, or of several files the last one was not.
        InterruptedSession: a signal came, with the same result.
    """
    program = check(machine, plan)
    unfinished.mend(machine)
    clock = unfinished.clock_of(machine) if plan.stock else ""
    with Waiter() as waiter, contextlib.ExitStack() as undo:
        undo.callback(unfinished.forget, machine)
        unfinished.note(machine, Path(), clock)
        undo.enter_context(request.held(machine, plan.request_us))
        _configure(machine, plan, undo)
        way = _prepare_stock(machine, undo) if plan.stock else None
        load = _Load(plan, waiter, stdout)
        undo.callback(load.end)
        session = _Session(machine, plan, program, waiter, load, way, clock)
        start = time.monotonic()
        number = 1
        try:
            while session.record_file(plan.file(number)):
                session.forget_old()
                number += 1
        except InterruptedSession as interruption:
            if not (session.files and plan.ends_by(interruption.number)):
                raise
        gap_s = time.monotonic() - start - session.seconds if number > 1 else 0.0
        governor = session.governors[0]
        return Capture(
            load.end(),
            governor,
            set(session.governors) != {governor},
            session.lost,
            session.seconds,
            tuple(sorted(session.unread)),
            *((way.name, way.why) if way else ("", "")),
            files=tuple(map(str, session.files)),
            gap_s=gap_s,
        )
