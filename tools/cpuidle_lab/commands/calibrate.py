# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab calibrate`: the idle states of this machine, measured."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cpuidle_lab.base import files
from cpuidle_lab.base.cache import BUILD, TOP, shipped
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.packages import COMPILER, remedy
from cpuidle_lab.base.waiting import Waiter
from cpuidle_lab.calibrate import isolate, measure, model, residency, result, topology
from cpuidle_lab.host.idle_states import ticks_per_second
from cpuidle_lab.host.machine import Host
from cpuidle_lab.host.sysfs import Tree
from cpuidle_lab.view.html_page import generator

NAME = "calibrate"
HELP = "measure this machine's idle states: exit latency, power, break-even points"
EPILOG = """\
examples:
  sudo cpuidle-lab calibrate -o machine.yaml
  sudo cpuidle-lab calibrate -o machine.yaml --page machine.html --repetitions 10

Each state is measured with all others disabled; at the end, also after Ctrl-C, the settings are as
before. After a kill the next calibration puts them back. Close other programs: above 5 % load it
refuses. Without a powercap zone it measures latencies alone. docs/calibrate.md has the method.

exit codes: 0 done, 1 it cannot be measured, 2 wrong usage, 128 + N ended early by signal N
(Ctrl-C: 130)
"""

_LOAD_MAX = 0.05
# Below this part of the time the package counts as awake.
_ASLEEP_MIN = 0.1
_BUILT = BUILD / "calibrate" / "calibrate-wake"
_CPUS = "/sys/devices/system/cpu"


def _number(least: float, most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is no number from {least:g} to {most:g}")
        return value

    return parse


def packages(_args: argparse.Namespace) -> tuple[str, ...]:
    """Return the Python packages that are enough: none."""
    return ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    effort = measure.Effort()
    add = parser.add_argument
    add("-o", "--output", type=Path, metavar="FILE", help="write the machine file (YAML)")
    add("--page", type=Path, metavar="FILE", help="write a page with both tables")
    add("--wakeups", type=_number(20, 10_000), default=effort.wakeups, metavar="N",
        help="wake-ups of each series of latencies (default: %(default)s)")  # fmt: skip
    add("--duration", type=_number(0.2, 600), default=effort.seconds, metavar="S",
        help="of each stretch for power (default: %(default)s)")  # fmt: skip
    add("--repetitions", type=_number(2, 100), default=effort.repetitions, metavar="N",
        help="of each stretch; more narrow the intervals (default: %(default)s)")  # fmt: skip
    add("--force", action="store_true", help="measure a busy machine, and replace files")
    add("--json", action="store_true", help="print everything as JSON")


def load(tree: Tree, seconds: float = 1.0) -> float:
    """Return the part of the time that the CPUs are busy, watched for a while."""

    def read() -> list[int]:
        lines = (tree.read("/proc/stat") or "").splitlines()
        words = lines[0].split()[1:9] if lines else []
        return [int(word) for word in words]

    before: list[int] = read()
    time.sleep(seconds)
    grown: list[int] = [b - a for a, b in zip(before, read(), strict=True)]
    total = sum(grown)
    return 1 - (grown[3] + grown[4]) / total if len(grown) > 4 and total else 0.0


def program() -> Path:
    """Return calibrate-wake; compiled at the first use where the package did not bring it.

    Raises:
        UserError: there is no compiler.
    """
    if found := shipped("calibrate-wake"):
        return found
    if not _BUILT.exists():
        if not shutil.which("make") or not shutil.which("cc"):
            raise UserError(f"calibrate-wake must be compiled first: {remedy(*COMPILER, 'make')}")
        done = subprocess.run(
            ["make", "-s", "-C", TOP / "tools" / "calibrate", f"BUILD={_BUILT.parent}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise UserError(f"calibrate-wake does not compile: {done.stderr.splitlines()[0]}")
    return _BUILT


def table(machine: Host, cpus: list[int]) -> list[model.State]:
    """Return the driver's table.

    Raises:
        UserError: there is none, or it differs from CPU to CPU.
    """
    tables = set()
    for cpu in cpus:
        where = f"{_CPUS}/cpu{cpu}/cpuidle"
        count = len([name for name in machine.tree.names(where) if name.startswith("state")])
        states = []
        for k in range(count):
            fields = {n: machine.tree.read(f"{where}/state{k}/{n}") or "0"
                      for n in ("name", "latency", "residency")}  # fmt: skip
            states.append((fields["name"], int(fields["latency"]), int(fields["residency"])))
        tables.add(tuple(states))
    if not cpus or () in tables:
        raise UserError("the machine has no idle states: no idle driver, or cpuidle is off")
    if len(tables) > 1:
        raise UserError("the CPUs differ in their idle states; calibrate measures one kind of CPU")
    return [model.State(*state) for state in tables.pop()]


def _hardware_notes(states: list[model.State]) -> list[str]:
    """Return what the residency counters say of the whole machine."""
    watched = [s.name for s in states if residency.counter_of(s.name, s.hardware)]
    if not watched:
        return ["no residency counter of the hardware: a demotion by the hardware is not seen"]
    asleep = residency.package_share(states[-1].hardware)
    if asleep is not None and asleep < _ASLEEP_MIN:
        return [
            f"the package slept for {100 * asleep:.0f} % of the time with all CPUs in "
            f"{states[-1].name}: the figures are those of cores"
        ]
    return []


def _notes(states: list[model.State], zones: tuple[str, ...], busy: float) -> list[str]:
    notes = []
    if not zones:
        notes.append("no powercap zone counts energy: latencies alone; powers are unknown")
    if busy > _LOAD_MAX:
        notes.append(f"the machine was {100 * busy:.0f} % busy: the figures are unsure")
    for state in states:
        if state.share < residency.ENOUGH:
            notes.append(
                f"{state.name}: in it for {100 * state.share:.0f} % of the idle time although it "
                "alone was enabled: the kernel counted another; its figures are unknown"
            )
        elif state.demoted:
            seen, due = state.demoted
            notes.append(
                f"{state.name}: demoted by the hardware: its counter shows {100 * seen:.0f} % of "
                f"the time where {100 * due:.0f} % is due; its figures are unknown"
            )
        elif zones and state.power_mw is None:
            notes.append(f"{state.name}: its stays do not differ enough: its power is unknown")
        elif state.never_pays:
            notes.append(f"{state.name}: never pays: no stay makes it the cheapest state")
    notes += _hardware_notes(states)
    if states[0].table_latency_us:
        notes.append(
            f"exit latencies are relative to {states[0].name}, taken to have the driver's "
            f"{states[0].table_latency_us:g} us"
        )
    return notes


def _outputs(args: argparse.Namespace) -> dict[Path, files.Foreign]:
    """Return the files to be written, and what tells whether they may be replaced."""
    marks = {args.output: result.MACHINE_MARK, args.page: generator(NAME)}
    found = {path: files.marked(mark) for path, mark in marks.items() if path is not None}
    return {path: files.unless_forced(each, args.force) for path, each in found.items()}


def calibrate(machine: Host, args: argparse.Namespace, waiter: Waiter) -> result.Calibration:
    """Measure the machine; its settings are as before at the end.

    Raises:
        UserError: it cannot be measured.
        InterruptedSession: a signal came.
    """
    tree = machine.tree

    def say(text: str) -> None:
        if sys.stderr.isatty():
            print(text, file=sys.stderr)

    with isolate.alone(tree):
        if mended := isolate.mend(tree):
            print(f"a calibration was killed: {mended} settings are as before", file=sys.stderr)
        cpus = isolate.online(tree)
        states = table(machine, cpus)
        busy = load(tree)
        if busy > _LOAD_MAX and not args.force:
            raise UserError(
                f"the machine is {100 * busy:.0f} % busy: stop other programs, or measure with "
                "--force"
            )
        zones = measure.zones(tree)
        bench = measure.Bench(
            machine, cpus, topology.peers(tree, cpus), program(), waiter, zones, say
        )
        effort = measure.Effort(int(args.wakeups), args.duration, int(args.repetitions))
        with isolate.isolation(tree, cpus, len(states)) as isolation:
            busy_mw = measure.measure(bench, isolation, states, effort)
    model.judge(states)
    notes = _notes(states, zones, busy)
    driver = machine.driver() or "unknown driver"
    hz = ticks_per_second(machine)
    return result.Calibration(
        states, machine.kernel(), driver, len(cpus), hz, busy_mw, zones, busy, notes
    )


def run(args: argparse.Namespace) -> int:
    """Measure, and write what was found."""
    machine = Host()
    outputs = _outputs(args)
    for path, foreign in outputs.items():
        files.check(path, foreign)
    if os.geteuid() and not machine.tree.is_recorded:
        raise UserError("calibrate needs root (use sudo)")
    with Waiter() as waiter:
        found = calibrate(machine, args, waiter)
    # Printed first: a full disk must not cost the measurement.
    if args.json:
        print(json.dumps(result.as_json(found), indent=2), flush=True)
    else:
        print(result.as_text(found), end="", flush=True)
    if args.output:
        files.write_whole(args.output, result.as_machine(found), outputs[args.output])
    if args.page:
        files.write_whole(args.page, result.as_page(found), outputs[args.page])
    return 0
