# SPDX-License-Identifier: GPL-2.0
"""Dynamic probes of tracefs that tell what the kernel tells a governor.

The probes of a session are a group of their own, whose name has the number of the process. Other
groups are left alone, except those of a session that is gone (killed): the next one removes them.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.host.machine import TRACEFS, Host, parse_version
from cpuidle_lab.host.marks import CPU_IDLE, EVENTS, INTERRUPTS, PROBES
from cpuidle_lab.host.sysfs import why
from cpuidle_lab.host.unfinished import is_alive

KPROBE_EVENTS = f"{TRACEFS}/kprobe_events"
_GROUP = re.compile(r"cil_p(\d+)")

# Event, kind, function. The reader finds the events by these names, whatever their group.
SLEEP_LENGTH = "cil_sleep_length"
GOT_TICK = "cil_got_tick"
FUNCTIONS = (
    ("cil_stop_tick", "tick_nohz_idle_stop_tick"),
    ("cil_retain_tick", "tick_nohz_idle_retain_tick"),
    ("cil_idle_exit", "tick_nohz_idle_exit"),
)

# Measured by the kernel itself: dev->last_residency_ns, and dev->poll_time_limit as bit 2 (of a
# big-endian machine bit 29). The reader leaves out what contradicts power:cpu_idle.
REFLECT = "cil_reflect cpuidle_reflect res=+24($arg1):u64 bits=+0($arg1):u32"

# A return probe can read an argument from this kernel on.
ARGUMENTS_SINCE = (6, 9)

# Events of the kernel that a recording has, as far as the kernel has them, with their filters.
SWITCH = ("sched:sched_switch", "prev_pid == 0 || next_pid == 0")
_OF_CPU = 'type == 1 && name ~ "cpu*"'  # DEV_PM_QOS_RESUME_LATENCY
KERNEL_EVENTS: tuple[tuple[str, str], ...] = (
    ("power:cpu_idle", ""),
    ("timer:tick_stop", ""),
    ("timer:hrtimer_start", ""),
    ("timer:hrtimer_start_expired", ""),
    ("timer:hrtimer_cancel", ""),
    ("timer:hrtimer_expire_entry", ""),
    ("timer:timer_start", ""),
    ("timer:timer_cancel", ""),
    ("timer:timer_expire_entry", ""),
    ("irq:softirq_raise", "vec == 9"),
    ("power:pm_qos_add_request", ""),
    ("power:pm_qos_update_request", ""),
    ("power:dev_pm_qos_add_request", _OF_CPU),
    ("power:dev_pm_qos_update_request", _OF_CPU),
    ("power:dev_pm_qos_remove_request", _OF_CPU),
    SWITCH,
)
# Events that tell what ends idle periods where neither probes nor timers are there; irq_vectors is
# x86's, and hrtimers tell most of what interrupts leave open.
CAUSE_EVENTS: tuple[tuple[str, str], ...] = (
    ("power:cpu_idle", ""),
    ("irq:irq_handler_entry", ""),
    ("irq:irq_handler_exit", ""),
    ("irq:softirq_raise", ""),
    ("irq_vectors", ""),
    ("ipi", ""),
    ("timer:hrtimer_start", ""),
    ("timer:hrtimer_cancel", ""),
    ("power:pm_qos_update_request", ""),
)
# Event that helps where there are no probes: the next expiry of the clock's device.
DEVICE = ("timer:hrtimer_rearm", "")


def lines(group: str, with_delta: bool) -> list[str]:
    """Return the probes as kprobe_events wants them.

    Args:
        group: name of their group.
        with_delta: read the time to the tick, too, which kernels before 6.9 refuse.
    """
    delta = " dn=+0($arg1):s64" if with_delta else ""
    return [
        f"r:{group}/{SLEEP_LENGTH} tick_nohz_get_sleep_length ret=$retval:s64{delta}",
        f"r:{group}/{GOT_TICK} tick_nohz_idle_got_tick ret=$retval:u8",
        *(f"p:{group}/{event} {function}" for event, function in FUNCTIONS),
        f"p:{group}/{REFLECT}",
    ]


@dataclass(frozen=True)
class Way:
    """Way to make a recording.

    Attributes:
        name: stock.PROBES, EVENTS, INTERRUPTS or CPU_IDLE.
        why: what keeps the machine from a better one, "" if nothing does.
        events: arguments of trace-cmd.
    """

    name: str
    why: str
    events: tuple[str, ...]


class Probes:
    """The probes of a session.

    Args:
        machine: where they are set.
    """

    def __init__(self, machine: Host) -> None:
        self._machine = machine
        self.group = f"cil_p{os.getpid()}"
        self._added: list[str] = []

    def mend(self) -> list[str]:
        """Remove the probes of sessions that are gone; return their groups.

        Raises:
            UserError: the kernel refuses.
        """
        gone = [
            name
            for name in self._machine.tree.names(f"{TRACEFS}/events")
            if (found := _GROUP.fullmatch(name)) and not is_alive(self._machine, found[1])
        ]
        for group in gone:
            self._remove(group, self._events_of(group))
        return gone

    def _events_of(self, group: str) -> list[str]:
        text = self._machine.tree.read(KPROBE_EVENTS) or ""
        return re.findall(rf"^[pr]\d*:{group}/(\w+)", text, re.MULTILINE)

    def add(self) -> str:
        """Set the probes.

        Returns:
            "", or why the kernel has none; then nothing is left of them.
        """
        new = _parse(self._machine.kernel()) >= ARGUMENTS_SINCE
        error = self._try(lines(self.group, new))
        if error and new:
            error = self._try(lines(self.group, False))
        if error:
            error = self._try(lines(self.group, False)[:-1])
        return error

    def _try(self, wanted: list[str]) -> str:
        tree = self._machine.tree
        if not tree.exists(KPROBE_EVENTS):
            return "the kernel has no kprobe_events"
        try:
            for line in wanted:
                tree.append(KPROBE_EVENTS, line)
                self._added.append(line.split()[0].partition("/")[2])
        except OSError as error:
            self.remove()
            return f"the kernel refuses a probe on {line.split()[1]}: {why(error)}"
        return ""

    def remove(self) -> None:
        """Remove what was set; nothing if nothing was.

        Raises:
            UserError: the kernel refuses.
        """
        added, self._added = self._added, []
        if added:
            self._remove(self.group, added)

    def _remove(self, group: str, events: list[str]) -> None:
        tree = self._machine.tree
        enable = f"{TRACEFS}/events/{group}/enable"
        if tree.exists(enable):
            tree.write(enable, "0")
        try:
            for event in events:
                tree.append(KPROBE_EVENTS, f"-:{group}/{event}")
        except OSError as error:
            raise UserError(
                f"the probes {group} cannot be removed: {why(error)}; the next capture --stock "
                "tries again"
            ) from error


def _parse(kernel: str) -> tuple[int, int]:
    try:
        return parse_version(kernel)
    except ValueError:
        return 0, 0


def kernel_events(machine: Host, wanted: Sequence[tuple[str, str]]) -> list[str]:
    """Return the arguments of trace-cmd for those of some events that the kernel has."""
    words: list[str] = []
    for event, only in wanted:
        folder = PurePosixPath(f"{TRACEFS}/events", *event.split(":"))
        if machine.tree.exists(f"{folder}/enable"):
            words += ["-e", event, *(["-f", only] if only else [])]
    return words


def best_way(machine: Host, probes: Probes) -> Way:
    """Set the probes if the machine allows them, and say which way is the best.

    Raises:
        UserError: the kernel cannot tell of idle periods at all.
    """
    probes.mend()
    events = kernel_events(machine, KERNEL_EVENTS)
    if "power:cpu_idle" not in events:
        raise UserError("the kernel has no event power:cpu_idle: nothing can be recorded")
    reason = probes.add()
    if not reason:
        return Way(PROBES, "", ("-e", probes.group, *events))
    if SWITCH[0] in events and "timer:tick_stop" in events:
        return Way(EVENTS, reason, tuple(events + kernel_events(machine, (DEVICE,))))
    why = f"{reason}, and it lacks events of timers"
    causes = kernel_events(machine, CAUSE_EVENTS)
    if "irq:irq_handler_entry" in causes:
        return Way(INTERRUPTS, why, tuple(causes))
    return Way(CPU_IDLE, why, tuple(events))
