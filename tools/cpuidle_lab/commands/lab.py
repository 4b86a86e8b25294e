# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab lab`: boot a stock kernel, run something under a governor, bring the trace back."""

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cpuidle_lab.base.cache import BUILD
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.settings import Setting, add_settings, seconds
from cpuidle_lab.bpf import build as bpf_build
from cpuidle_lab.clone import play
from cpuidle_lab.clone.events import CALL_EVENTS, CLONE_EVENTS
from cpuidle_lab.clone.program import load
from cpuidle_lab.host.idle_states import NO_DMA_LATENCY_US
from cpuidle_lab.host.machine import MOVED
from cpuidle_lab.lab import LabResult, LabRun, run_lab, workloads
from cpuidle_lab.lab.images import FLAVOURS, FURTHER_FLAVOURS, flavour_of
from cpuidle_lab.lab.run import is_real_time
from cpuidle_lab.lab.session import (
    AS_BPF,
    GOVERNORS,
    MACHINES,
    OUR_EVENTS,
    TRACE,
    PhasePlan,
    Session,
    tunables,
)
from cpuidle_lab.lab.session import sha256 as sha256_of

NAME = "lab"
HELP = "boot a stock Debian kernel in virtual time, and trace a workload under a governor"
DEFAULT_OUTPUT = BUILD / "lab"
DEFAULT_WORKLOAD = "cyclictest-2ms"
# The file of a clone in the guest.
CLONE = "clone"
EPILOG = f"""\
examples:
  cpuidle-lab lab --governor wteo --workload cyclictest-500us --workload hackbench-pipe
  cpuidle-lab lab --machine intel_idle:adl --governor teo_ng --workload redis
  cpuidle-lab lab --kernel 7.2 --machine gnr --governor menu_ng --set menu_ng.history_size=32
  cpuidle-lab lab --governor gate --set gate.base=menu -o out -- stress-ng --timer 1 -t 2
  cpuidle-lab lab --machine spr --cpus 4 --domains xeon --governor teo_ng
                                            a package that sleeps, too (docs/domains.md)
  cpuidle-lab lab --machine pepc:srf2 --cpus 8 --cluster 4 --domains ecore-modules
                                            modules of E-cores, of which the kernel knows
  cpuidle-lab lab --script my-test.sh --no-trace
  cpuidle-lab lab --machine power9 --clone my.clone --governor wteo
                                            a recorded workload, rebuilt by cpuidle-lab clone

The same command gives the same trace.dat to the last bit; another --seed gives another. A script
runs as root, and loads modules and chooses governors itself ('. /lab/functions' has helpers). The
lab copies /results to the host. One second of a busy CPU takes some seconds here, an idle second
next to nothing.

workloads:
{chr(10).join(f"  {each.name:18}{each.summary}" for each in workloads.WORKLOADS.values())}

exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add(
        "--kernel",
        default="6.12",
        metavar="SERIES",
        help=f"{', '.join((*FLAVOURS, *FURTHER_FLAVOURS))} (default: %(default)s)",
    )
    add("--cpus", type=int, default=2, metavar="N", help="number of CPUs (default: %(default)s)")
    add("--packages", type=int, default=1, metavar="N",
        help="among which they are divided (default: %(default)s)")  # fmt: skip
    add("--threads", type=int, default=1, metavar="N",
        help="CPUs of a core (default: %(default)s)")  # fmt: skip
    add("--cluster", type=int, default=0, metavar="N",
        help="CPUs that share a second-level cache (default: those of a core)")  # fmt: skip
    add(
        "--machine",
        default="skx",
        metavar="MACHINE",
        help=f"{', '.join(MACHINES)}, this, FILE.yaml, a recording, pepc:NAME, intel_idle:NAME or "
        "dts:NAME; of a machine whose CPUs differ, 4=NAME is that of CPU 4 (default: %(default)s)",
    )
    add("--domains", metavar="DOMAINS",
        help="domains of the machine: a name, or a file; see cpuidle-lab domains")  # fmt: skip
    add("--governor", default="menu", metavar="NAME",
        help=f"{', '.join(GOVERNORS)}, bpf:NAME (default: %(default)s)")  # fmt: skip
    add_settings(parser)
    add("--workload", action="append", default=[], metavar="NAME", help="run this; see below")
    add("--script", type=Path, metavar="FILE", help="run this shell script instead")
    add("--clone", type=Path, metavar="FILE", help="play this rebuilt workload instead")
    add("--duration", type=seconds, default=2, metavar="S",
        help="seconds of a workload (default: 2)")  # fmt: skip
    add("-o", "--output", type=Path, default=DEFAULT_OUTPUT, metavar="DIR",
        help="default: build/lab")  # fmt: skip
    add(
        "--seed",
        type=int,
        default=42,
        metavar="N",
        help="of all that is random (default: %(default)s)",
    )
    add("--events", action="append", default=[], metavar="LIST",
        help="record these events or event systems, too")  # fmt: skip
    add("--request", type=int, metavar="US", help="hold this latency request meanwhile")
    add("--causes", action="store_true", help="record the events that `clone` needs, too")
    add("--no-trace", action="store_false", dest="trace", help="do not record the events")
    add("--real-time", action="store_true", help="no virtual time; runs differ")
    add("--time-limit", type=seconds, default=600, metavar="S", help="of your time (default: 600)")
    add("--json", action="store_true", help="print the results as JSON")
    add("command", nargs="*", metavar="COMMAND", help="run this program of the guest instead")


def phases(args: argparse.Namespace) -> list[PhasePlan]:
    """Return what the arguments ask to run."""
    return [replace(each, request_us=args.request) for each in _without_request(args)]


def _without_request(args: argparse.Namespace) -> list[PhasePlan]:
    settings = args.settings
    if args.clone:
        return [play.plan(load(args.clone), CLONE, args.governor, tunables=settings)]
    if args.command:
        name = Path(args.command[0]).name
        return [PhasePlan(args.governor, name, shlex.join(args.command), settings)]
    found = [workloads.find(name) for name in args.workload or [DEFAULT_WORKLOAD]]
    return [each.phase(args.governor, args.duration, args.seed, settings) for each in found]


def _check_setting(setting: Setting, governor: str) -> None:
    """Refuse a tunable that the governors of the boot do not have."""
    if governor == f"{AS_BPF}{setting.governor}":
        raise UserError(
            f"{setting.governor} runs as a program: its tunables are bpf.t0, bpf.t1, ... in the "
            "order of its source",
            USAGE,
        )
    if setting.governor not in (*GOVERNORS, bpf_build.GOVERNOR):
        known = ", ".join(GOVERNORS)
        raise UserError(f"unknown governor '{setting.governor}'; there are {known}", USAGE)
    names = tunables(setting.governor)
    if setting.governor == bpf_build.GOVERNOR:
        names = bpf_build.NUMBERED
    if setting.name not in names:
        has = f"it has {', '.join(names)}" if names else "it has none"
        raise UserError(f"{setting.governor} has no tunable '{setting.name}'; {has}", USAGE)


def check(args: argparse.Namespace) -> None:
    """Refuse what cannot be run.

    Raises:
        UserError: with the reason.
    """
    if sum(map(bool, (args.command, args.workload, args.script, args.clone))) > 1:
        raise UserError("give one of --workload, --script, --clone and COMMAND", USAGE)
    if args.request is not None and (args.script or not 0 <= args.request < NO_DMA_LATENCY_US):
        raise UserError("--request takes us from 0 on, and no --script", USAGE)
    if args.cpus <= 0:
        raise UserError("--cpus must be above 0", USAGE)
    if args.seed < 0:
        raise UserError("--seed must not be negative", USAGE)
    tuned = [each.governor for each in args.settings]
    if left := next(filter(MOVED.get, (args.governor.removeprefix(AS_BPF), *tuned)), None):
        raise UserError(MOVED[left], USAGE)
    if args.governor.removeprefix(AS_BPF) not in GOVERNORS:
        known = ", ".join(GOVERNORS)
        raise UserError(f"unknown governor '{args.governor}'; there are {known}", USAGE)
    for each in args.settings:
        _check_setting(each, args.governor)
    if args.domains and args.script:
        raise UserError("a script loads its machine itself: --domains has no effect", USAGE)
    flavour_of(args.kernel)


def programs(args: argparse.Namespace) -> dict[str, bytes]:
    """Return the program in BPF that the arguments ask for, with its loader, by path."""
    if not args.governor.startswith(AS_BPF):
        return {}
    source = bpf_build.source_of(args.governor.removeprefix(AS_BPF))
    return bpf_build.guest_files([bpf_build.build(source, max(args.cpus, bpf_build.GUEST_CPUS))])


def changes(args: argparse.Namespace) -> dict[str, str]:
    """Return changes of the module's sources: a governor that runs as a program is not in it."""
    _, is_program, name = args.governor.partition(AS_BPF)
    return bpf_build.left_out(name) if is_program and not args.script else {}


def lab_run(args: argparse.Namespace) -> LabRun:
    """Return the boot that the arguments ask for."""
    # Trees of domains are YAML, which Python alone lacks.
    from cpuidle_lab.lab.trees import emulated_domains

    if args.script:
        try:
            script = args.script.read_text("utf-8")
        except UnicodeDecodeError:
            raise UserError(f"{args.script}: is a file that is no text in UTF-8") from None
    else:
        more = [one for each in args.events for one in each.split(",")]
        causes = (*CLONE_EVENTS, *CALL_EVENTS) if args.causes else ()
        events = [OUR_EVENTS, *causes, *more] if args.trace else []
        domains = emulated_domains(args.domains) if args.domains else ""
        script = Session(args.machine, phases(args), events, domains=domains).script()
    run = LabRun(
        script=script,
        kernel=args.kernel,
        cpus=args.cpus,
        packages=args.packages,
        threads=args.threads,
        cluster=args.cluster,
        seed=args.seed,
        real_time=args.real_time,
        time_limit_s=args.time_limit,
        files=workloads.files(workloads.find(name) for name in args.workload)
        | programs(args)
        | (play.files({CLONE: load(args.clone)}) if args.clone else {}),
        changes=changes(args),
    )
    if args.clone:
        play.check_time(real_time=is_real_time(run))
    return run


def summary(result: LabResult) -> dict[str, object]:
    """Return the results as one JSON object."""
    trace = result.files / TRACE
    return {
        "kernel": result.kernel_version,
        "status": result.status,
        "guest_s": result.guest_s,
        "wall_s": round(result.wall_s, 1),
        "results": str(result.files),
        "trace": str(trace) if trace.exists() else None,
        "sha256": sha256_of(trace) if trace.exists() else None,
    }


def show(found: dict[str, object], names: Sequence[str]) -> None:
    """Print some of the results, a line each."""
    for name in names:
        if found[name] is not None:
            print(f"{name:8} {found[name]}")


def run(args: argparse.Namespace) -> int:
    """Boot, run, report."""
    check(args)
    title = f"Running Debian's {args.kernel} in the lab"
    result = run_lab(lab_run(args), args.output, title).check()
    found = summary(result)
    if args.json:
        print(json.dumps(found, indent=2))
        return 0
    if args.script or args.command:
        sys.stdout.write(result.output)
    show(found, ["kernel", "results", "trace", "sha256"])
    print(f"{'time':8} {result.guest_s:.1f} s in the guest, {result.wall_s:.1f} s here")
    return 0
