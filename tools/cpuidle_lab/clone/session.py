# SPDX-License-Identifier: GPL-2.0
"""The boots by which a clone is calibrated, corrected, and played under each governor."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base.cache import cached
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import scratch
from cpuidle_lab.base.settings import Setting
from cpuidle_lab.clone import build, calibrate, events, play
from cpuidle_lab.clone.program import Program
from cpuidle_lab.crossval.parts import Part, parts
from cpuidle_lab.lab.keys import key_of
from cpuidle_lab.lab.run import LabRun, run_lab
from cpuidle_lab.lab.session import OUR_EVENTS, TRACE, Session
from cpuidle_lab.recording.columns import opened

# Where a clone begins after a tick, later than recorded, ns. The tick comes every 4 ms.
SHIFTS_NS = (0, 1_300_000, 2_600_000)

_MACHINE, _TURN_US, _LIMIT_S = "skx", 10, 1800
_TRACE_MIB, _REST_MIB = 512, 1024
# A governor of the lab with its tunables.
Named = tuple[str, tuple[Setting, ...]]
# Names of governors that the lab's kernels have by another one.
OTHERWISE: dict[str, Named] = {
    "menu": ("gate", (Setting("gate", "base", "menu"),)),
    "teo": ("teo_ng", ()),
}


@dataclass(frozen=True)
class Place:
    """The machine on which clones are played.

    Attributes:
        machine: as session.emulated() takes it.
        kernel: series.
        cpus: how many.
        seed: of the machine.
    """

    machine: str = _MACHINE
    kernel: str = LabRun.kernel
    cpus: int = 2
    seed: int = 1

    def run(self, plans: Sequence[play.ClonePlan], clones: dict[str, Program]) -> LabRun:
        """Return the boot that plays clones, with the events of a recording for clones.

        Raises:
            UserError: the machine is unknown, or has no virtual time.
        """
        recorded = (OUR_EVENTS, *events.CLONE_EVENTS)
        return LabRun(
            Session(self.machine, plans, recorded, trace_mib=_TRACE_MIB).script(),
            kernel=self.kernel,
            cpus=self.cpus,
            seed=self.seed,
            files=play.files(clones),
            memory_mib=_TRACE_MIB + _REST_MIB,
            real_time=False,
            time_limit_s=_LIMIT_S,
            turn_us=_TURN_US,
        )


def calibrated(place: Place) -> dict[str, float]:
    """Return the player's costs by pair of events, ns; measured once for a kernel.

    Raises:
        UserError: the boot fails, or the recording lacks a pair.
    """
    program = calibrate.probe()
    run = Place(kernel=place.kernel).run(
        [play.plan(program, "clone", "menu_ng")], {"clone": program}
    )

    def measure(target: Path) -> None:
        result = run_lab(run, target / "results", "Measuring the player's own cost").check()
        trace = result.files / TRACE
        (phase,) = events.phases(events.read(trace), trace)
        costs = calibrate.costs_of(build.build(phase, trace))
        if missing := set(calibrate.PAIRS) - set(costs):
            raise UserError(f"the player's cost was not measured for {', '.join(sorted(missing))}")
        (target / "costs.json").write_text(json.dumps(costs))
        trace.unlink()

    folder = cached(f"clone-costs-{place.kernel}", [key_of(run)], "Calibrating the player", measure)
    found: dict[str, float] = json.loads((folder / "costs.json").read_text())
    return found


def corrected(program: Program, governor: Named, place: Place) -> Program:
    """Return a clone whose pieces have the recorded lengths under the recording's governor.

    Args:
        program: of the recording, with nothing taken out.
        governor: that recorded.
        place: where it is played once.

    Raises:
        UserError: a boot fails.
    """
    costs = calibrated(place)
    first = calibrate.without(program, costs)
    plan = play.plan(first, "clone", governor[0], tunables=governor[1])
    with scratch() as folder:
        trace = _record(place, [plan], {"clone": first}, folder, "Playing the clone once")
        (phase,) = events.phases(events.read(trace), trace)
        again = build.build(phase, trace)
    return calibrate.without(program, costs, calibrate.corrected(program, again, costs))


def played(
    clone: Program,
    governors: Sequence[Named],
    place: Place,
) -> dict[str, list[Part]]:
    """Return the recordings of a clone, by label of the governor; one for each shift.

    Args:
        clone: what is played.
        governors: names of the lab, with their tunables.
        place: where.

    Raises:
        UserError: the boot fails.
    """
    plans = [
        play.plan(clone, "clone", name, tunables=settings, shift_ns=shift,
                  workload=f"clone{number}")
        for name, settings in governors
        for number, shift in enumerate(SHIFTS_NS)
    ]  # fmt: skip
    with scratch() as folder:
        names = ", ".join(name for name, _ in governors)
        trace = _record(place, plans, {"clone": clone}, folder, f"Playing the clone under {names}")
        with opened(trace) as recording:
            found = parts(recording, trace)
    by_label: dict[str, list[Part]] = {}
    for part in found:
        by_label.setdefault(part.recorder.label, []).append(part)
    return by_label


def _record(
    place: Place,
    plans: Sequence[play.ClonePlan],
    clones: dict[str, Program],
    folder: Path,
    title: str,
) -> Path:
    """Return the trace of a boot."""
    return run_lab(place.run(plans, clones), folder / "results", title).check().files / TRACE
