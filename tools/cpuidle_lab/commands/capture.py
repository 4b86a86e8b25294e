# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab capture`: record a session on the running system and leave it as it was."""

import argparse
import json
import platform
import shlex
import signal
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.settings import add_settings, sample, seconds, size
from cpuidle_lab.base.version import __version__
from cpuidle_lab.base.waiting import InterruptedSession
from cpuidle_lab.clone.events import CALL_EVENTS, CALL_MACHINE, CLONE_EVENTS
from cpuidle_lab.host import capture_script, idle_states, request, samples
from cpuidle_lab.host.capture import Capture, Plan, check, record
from cpuidle_lab.host.machine import Host
from cpuidle_lab.host.recorder import OUR_EVENTS

NAME = "capture"
HELP = "record a session on this machine, then restore its governor and tunables"
EPILOG = """\
examples:
  sudo cpuidle-lab capture --duration 60 -o before.dat
  sudo cpuidle-lab capture --governor wteo --set wteo.latency_bias=500 -o wteo.dat \\
      -- hackbench -l 1000
  sudo cpuidle-lab capture --events sched,power -o all.dat
                                     until Ctrl-C, with the kernel's scheduler and power events
  sudo cpuidle-lab capture --last 10m -o fault.dat
                                     until Ctrl-C; fault-NNNN.dat have the last 10 minutes
  sudo cpuidle-lab capture --rotate 1h --duration 24h -o day.dat
                                     day-0001.dat to day-0024.dat, for compare day-*.dat
  sudo cpuidle-lab capture --stock --duration 60
                                     without the module: probes, else the kernel's events
  sudo cpuidle-lab capture --clone -o quick.dat -- ./my-benchmark
                                     for cpuidle-lab clone, under a latency request
  sudo cpuidle-lab capture --stock --scrub --sample 10s/1h -o samples/
                                     10 s at a random moment of the coming hour, without names
  cpuidle-lab capture --print        the same by hand, for a machine without Python

exit codes: the workload's own; without a workload 0; 1 nothing could be recorded, 2 wrong usage,
128 + N the capture or its workload was ended by signal N (Ctrl-C: 130). A capture that was cut
short leaves no file, or its finished files with --rotate and --last; without --duration and
COMMAND, Ctrl-C is its regular end.

S is a number of seconds, or one of minutes or hours: 90, 10m, 1.5h.
"""

# --last alone: a file of the session has this part of that time.
_PART_OF_LAST = 4
_ROOM = "1G"
_NO_REQUEST = -1


def _parse_events(text: str) -> tuple[str, ...]:
    events = tuple(word.strip() for word in text.split(","))
    if not all(events) or any("/" in event or event.startswith("-") for event in events):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of events such as sched,power")
    return events


def _parse_request(text: str) -> int:
    if text == "none":
        return _NO_REQUEST
    if not text.isdecimal() or int(text) >= idle_states.NO_DMA_LATENCY_US:
        raise argparse.ArgumentTypeError(f"'{text}' is neither a number of us nor none")
    return int(text)


def _request(args: argparse.Namespace, machine: Host) -> int | None:
    """Return the latency request to hold, us; None: none."""
    if args.request == _NO_REQUEST:
        return None
    return request.quick_us(machine) if args.request is None and args.clone else args.request


def _for_clones() -> tuple[str, ...]:
    """Return the events that a clone needs; other machines have other numbers of calls."""
    return CLONE_EVENTS + (CALL_EVENTS if platform.machine() == CALL_MACHINE else ())


def packages(_args: argparse.Namespace) -> tuple[str, ...]:
    """Return the Python packages that are enough."""
    return ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--duration", type=seconds, metavar="S", help="record for S seconds")
    parser.add_argument(
        "--rotate", type=seconds, metavar="S",
        help="begin a new file each S seconds: FILE with -0001, -0002 and so on in its name",
    )  # fmt: skip
    parser.add_argument(
        "--last", type=seconds, metavar="S",
        help="keep only the files of the last S seconds (default of --rotate then: S / 4)",
    )  # fmt: skip
    parser.add_argument("--governor", metavar="NAME", help="switch to this governor meanwhile")
    add_settings(parser)
    parser.add_argument(
        "--events",
        type=_parse_events,
        default=(),
        metavar="LIST",
        help="record these events or event systems, too",
    )
    parser.add_argument(
        "--clone", action="store_true",
        help="record the events that `clone` needs, too, under a latency request",
    )  # fmt: skip
    parser.add_argument(
        "--request", type=_parse_request, metavar="US",
        help="hold this latency request meanwhile, or none (default: none; with --clone the exit "
        "latency of the shallowest state beside polling)",
    )  # fmt: skip
    parser.add_argument(
        "--stock", action="store_true", help="record without the module, in the best way there is"
    )
    parser.add_argument(
        "--scrub", action="store_true",
        help="remove names of tasks, workload, files and host from the recording",
    )  # fmt: skip
    parser.add_argument(
        "--sample", type=sample, metavar="S[/PERIOD]",
        help="record S seconds at a random moment of the coming PERIOD, or at once, into the "
        "directory of -o",
    )  # fmt: skip
    parser.add_argument(
        "--room", type=size, metavar="SIZE", default=size(_ROOM),
        help=f"remove the oldest samples above so many bytes (default: {_ROOM})",
    )  # fmt: skip
    parser.add_argument(
        "--print",
        action="store_true",
        dest="by_hand",
        help="print the shell commands of such a recording instead",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("trace.dat"),
        metavar="FILE",
        help="default: trace.dat; with --sample a directory",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing FILE")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("workload", nargs="*", metavar="-- COMMAND", help="run this meanwhile")


def run(args: argparse.Namespace) -> int:
    """Record a session and say what came of it."""
    if args.workload and args.duration is not None:
        raise UserError("give either --duration or a COMMAND, which then sets the time", USAGE)
    if args.last and args.rotate and args.rotate > args.last:
        raise UserError("--rotate is longer than --last: the last file would be all", USAGE)
    if args.sample and (args.workload or args.duration or args.last or args.rotate):
        raise UserError(
            "--sample sets the time; it goes with no --duration, --rotate, --last or COMMAND", USAGE
        )
    if args.by_hand:
        print(capture_script.SCRIPT, end="")
        return 0
    machine = Host()
    if args.sample:
        return _sample(args, machine)
    return _session(args, machine, _plan(args, machine, args.output, args.duration))


def _plan(args: argparse.Namespace, machine: Host, output: Path, duration_s: float | None) -> Plan:
    return Plan(
        output=output,
        force=args.force,
        governor=args.governor,
        settings=tuple(args.settings),
        events=(*(_for_clones() if args.clone else ()), *args.events),
        duration_s=duration_s,
        command=tuple(args.workload),
        stock=args.stock,
        rotate_s=args.rotate or (args.last / _PART_OF_LAST if args.last else None),
        last_s=args.last,
        request_us=_request(args, machine),
        scrub=args.scrub,
    )


def _sample(args: argparse.Namespace, machine: Host) -> int:
    """Record a sample, then remove those that are too many."""
    folder: Path = args.output
    if not folder.is_dir():
        raise UserError(f"{folder}: no such directory, which --sample needs as -o", USAGE)
    duration_s, period_s = args.sample
    check(machine, _plan(args, machine, samples.place(folder, datetime.now(UTC)), duration_s))
    time.sleep(samples.delay_s(duration_s, period_s))
    place = samples.place(folder, datetime.now(UTC))
    code = _session(args, machine, _plan(args, machine, place, duration_s))
    samples.keep(folder, args.room)
    return code


def _session(args: argparse.Namespace, machine: Host, plan: Plan) -> int:
    """Record a session, and tell the result."""
    if plan.request_us is not None:
        check(machine, plan)
        print(
            f"cpuidle-lab: a latency request of {plan.request_us} us keeps all CPUs out of deeper "
            "states while this records, which costs power; it ends with this process",
            file=sys.stderr,
        )
    if plan.is_open_ended and sys.stderr.isatty():
        print("recording until Ctrl-C", file=sys.stderr)
    start = datetime.now(UTC)
    try:
        result = record(machine, plan, sys.stderr if args.json else None)
    except InterruptedSession as interruption:
        name = signal.Signals(interruption.number).name
        there = plan.files_there() if plan.rotate_s is not None else []
        kept = f"only {shlex.join(map(str, there))}" if there else "no trace"
        print(
            f"cpuidle-lab: interrupted by {name}: {kept} was kept, the system is as before",
            file=sys.stderr,
        )
        return 128 + interruption.number
    _report(machine, plan, result)
    if args.json:
        print(json.dumps(_envelope(machine, plan, result, start), indent=2))
    return result.exit_code


def _report(machine: Host, plan: Plan, result: Capture) -> None:
    if result.exit_code:
        print(f"cpuidle-lab: the workload ended with {result.exit_code}", file=sys.stderr)
    if result.lost_events:
        print(
            f"cpuidle-lab: {result.lost_events} events were lost: record fewer events or a "
            "shorter time",
            file=sys.stderr,
        )
    if result.switched:
        print(
            f"cpuidle-lab: the governor was switched meanwhile; a report shows {result.governor} "
            "only",
            file=sys.stderr,
        )
    if result.gap_s:
        print(
            f"cpuidle-lab: between the files {result.gap_s:.1f} s were not recorded",
            file=sys.stderr,
        )
    if result.unread_zones:
        print(
            f"cpuidle-lab: no energy of {', '.join(result.unread_zones)}: cannot be read",
            file=sys.stderr,
        )
    if result.way and (assumed := idle_states.assumption(machine)):
        print(f"cpuidle-lab: {assumed}", file=sys.stderr)
    if result.why:
        print(f"cpuidle-lab: recorded by {result.way} only: {result.why}", file=sys.stderr)
    if sys.stderr.isatty():
        how = f" by {result.way}" if result.way else ""
        command = "compare" if len(result.files) > 1 else "report"
        print(
            f"{' to '.join(dict.fromkeys((result.files[0], result.files[-1])))}: "
            f"{result.seconds:.1f} s of {result.governor}{how}; "
            f"{machine.governor()} is in use again\n"
            f"next: cpuidle-lab {command} {shlex.join(result.files)}",
            file=sys.stderr,
        )


def _envelope(machine: Host, plan: Plan, result: Capture, start: datetime) -> dict[str, object]:
    return {
        "command": NAME,
        "version": __version__,
        "kernel": machine.kernel(),
        "start": start.isoformat(timespec="milliseconds"),
        "end": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "file": result.files[-1],
        "events": [*([] if plan.stock else [OUR_EVENTS]), *plan.events],
        "settings": [asdict(setting) for setting in plan.settings],
        "request_us": plan.request_us,
        "workload": list(plan.command),
        **asdict(result),
    }
