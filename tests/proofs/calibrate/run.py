# SPDX-License-Identifier: GPL-2.0
"""Calibrate finds the hidden figures of emulated machines, within its limits.

The emulator's parameter `real` holds the figures, the drivers' tables state others. Calibrate sees
sysfs and the energy counter.
"""

import argparse
import itertools
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import FAILURE
from cpuidle_lab.lab import LabRun, run_lab
from experiments import proofs
from tests.proofs.calibrate import guest

EXAMPLES = {"": "", "--output build/calibrate": ""}

POWER, BREAK_EVEN, LATENCY, LATENCY_US = 0.05, 0.10, 0.05, 2.0

# The emulated package has no state of its own: all four are the state's exit latency.
WAYS = ("timer asleep", "ipi asleep", "timer awake", "ipi awake")

# Beside a CPU that is awake, a wake-up waits for that CPU's turn: shorter turns than the lab's. By
# the threads of a core, since more CPUs are awake with more threads.
TURN_US = {1: 10, 2: 5}

# Enough where nothing is random.
PLAN = "--repetitions 3 --duration 0.5 --wakeups 200"


@dataclass(frozen=True)
class Emulated:
    """An emulated machine.

    Attributes:
        machine: whose table the driver states.
        busy_mw: power of a CPU that does not sleep.
        real: the real figures: name, exit latency us, break-even us, power mW.
        never: names of the states that never pay.
        threads: CPUs of each of its two cores.
        poll: the emulator's parameter; without a polling state, the shallowest state has to have
            the exit latency of the driver's table.
    """

    machine: str
    busy_mw: float
    real: tuple[tuple[str, int, int, int], ...]
    never: tuple[str, ...] = ()
    threads: int = 1
    poll: str = "told"

    @property
    def name(self) -> str:
        """Name of the machine and of its files."""
        return self.machine if self.threads == 1 else f"{self.machine}-smt{self.threads}"

    def parameter(self) -> str:
        """Return the value of the emulator's parameter."""
        return ",".join(":".join(map(str, state)) for state in self.real)


MACHINES = (
    Emulated("skx", 4000, (("C1", 5, 25, 1200), ("C1E", 18, 70, 650), ("C6", 95, 380, 180))),
    Emulated(
        "gnr",
        4000,
        (("C1", 3, 20, 1500), ("C1E", 9, 60, 800), ("C6", 140, 500, 200), ("C6P", 260, 900, 200)),
        ("C6P",),
    ),
    Emulated(
        "skx",
        4000,
        (("C1", 2, 15, 1300), ("C1E", 14, 50, 800), ("C6", 160, 700, 150)),
        threads=2,
        poll="none",
    ),
)


def script(machines: Sequence[Emulated]) -> str:
    """Return the guest's script: these machines in one boot."""
    steps = [guest.FUNCTIONS]
    for each in machines:
        steps.append(
            f"load cpuidle_emul machine={each.machine} real={each.parameter()} "
            f"poll={each.poll}\n"
            f"before=$(settings) at=/results/{each.name}\n"
            f"calibrate {PLAN} --json -o $at.yaml --page $at.html >$at.json || exit 1\n"
            f'[ "$(settings)" = "$before" ] || echo "{each.name}: settings differ"\n'
            "rmmod cpuidle_emul\n"
        )
    return "\n".join(steps)


Line = tuple[str, str, float | None, float, bool]


def near_to(
    found: dict[str, float] | None, want: float, limit: float
) -> tuple[float | None, float, bool]:
    """Return what was measured, what it is, and whether it is as near as the limit says."""
    if not found:
        return None, want, False
    return found["value"], want, abs(found["value"] / want - 1) <= limit


def judge(machine: Emulated, found: dict[str, Any]) -> Iterator[Line]:
    """Yield state, figure, what was measured, what it is, and whether that is near enough."""
    yield ("", "busy mW", found["busy_mw"], machine.busy_mw,
           abs(found["busy_mw"] / machine.busy_mw - 1) <= POWER)  # fmt: skip
    states = {state["name"]: state for state in found["states"]}
    for name, latency_us, break_even_us, power_mw in machine.real:
        state = states[name]
        for way in WAYS:
            mine = (state["exit_latency_us"][way] or {}).get("p50")
            near = mine is not None and abs(mine - latency_us) <= max(
                LATENCY_US, LATENCY * latency_us
            )
            yield name, f"exit latency us, {way}", mine, latency_us, near
        yield name, "power mW", *near_to(state["power_mw"], power_mw, POWER)
        if name in machine.never or state["never_pays"]:
            said = state["never_pays"]
            yield (
                name,
                "never pays",
                float(said),
                float(name in machine.never),
                said == (name in machine.never),
            )
            continue
        # The shallowest state pays against none.
        if name != found["states"][0]["name"]:
            yield name, "break-even us", *near_to(state["break_even_us"], break_even_us, BREAK_EVEN)


def report(files: Path, machines: Sequence[Emulated]) -> bool:
    """Print a line for each figure; return whether all are near enough."""
    good = True
    for machine in machines:
        found = json.loads((files / f"{machine.name}.json").read_text())
        print(f"{machine.name}: {machine.parameter()}")
        for name, figure, mine, want, near in judge(machine, found):
            shown = "?" if mine is None else f"{mine:10.2f}"
            error = "" if not mine or not want else f"{100 * (mine / want - 1):+7.1f} %"
            verdict = "ok" if near else "WRONG"
            print(f"  {name:5} {figure:28} {shown:>10}  is {want:8g} {error:>10}  {verdict}")
            good &= near
    return good


def calibrate(where: Path) -> int:
    """Run the lab and judge; return the exit code."""
    good = True
    for threads, group in itertools.groupby(MACHINES, lambda machine: machine.threads):
        machines = list(group)
        run = LabRun(
            script=script(machines), files=guest.files(), time_limit_s=1800,
            cpus=2 * threads, threads=threads, turn_us=TURN_US[threads],
        )  # fmt: skip
        result = run_lab(run, where / f"smt{threads}").check()
        print(result.output, end="")
        good &= report(result.files, machines) and "differ" not in result.output
        print(f"{result.guest_s:.0f} s of virtual time, {result.wall_s:.0f} s of wall-clock time")
    return 0 if good else FAILURE


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    proofs.shared(parser, output=None)


def run(args: argparse.Namespace) -> int:
    """Run the lab and judge; return the exit code."""
    with tempfile.TemporaryDirectory(dir=TOP / "build", prefix="calibrate-") as directory:
        return calibrate(args.output or Path(directory) / "results")
