# SPDX-License-Identifier: GPL-2.0
"""The boots by which a clone is calibrated, corrected, and played under each governor."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from pathlib import Path

from cpuidle_lab.base.cache import cached
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import scratch
from cpuidle_lab.base.settings import Setting
from cpuidle_lab.clone import build, calibrate, events, play, progress
from cpuidle_lab.clone.program import TICK_NS, Program
from cpuidle_lab.crossval.parts import Part, parts
from cpuidle_lab.lab.keys import key_of
from cpuidle_lab.lab.run import LabRun, run_lab
from cpuidle_lab.lab.session import OUR_EVENTS, TRACE, Session
from cpuidle_lab.recording.columns import opened

# Where a clone begins after a tick, later than recorded, ns. The tick comes every 4 ms. A first run
# has few of them: its medians scatter less than a regret.
SHIFTS_NS = tuple(range(0, 3_900_000, 650_000))
FEW_NS = SHIFTS_NS[::2]
# Of one regime so many recordings are rebuilt at most: a first run has each of them once.
REBUILT_MOST = len(FEW_NS)

_MACHINE, _TURN_US, _LIMIT_S = "skx", 10, 3600
# Least room for events, room for all else, and for the events of a step.
_TRACE_MIB, _REST_MIB, _STEP_BYTES = 512, 1024, 320
# Files of the clones in the guest begin so.
_FILE = "clone"


def _file(number: int) -> str:
    return f"{_FILE}{number or ''}"


@dataclass(frozen=True)
class Regime:
    """A governor of the lab, and what holds while it decides.

    Attributes:
        governor: its name there.
        settings: its tunables.
        request_us: latency request; None: none.
    """

    governor: str
    settings: tuple[Setting, ...] = ()
    request_us: int | None = None

    @classmethod
    def of(cls, part: Part) -> "Regime":
        """Return that under which a phase was recorded.

        Raises:
            UserError: the lab's kernels have no such governor.
        """
        name, at, _ = part.recorder.governor.spec.partition("@")
        if at and name != "menu":
            raise UserError(
                f"{part.path}: {name} of the kernel decided, which the lab's kernels do not have; "
                "record under menu, or under a governor of this module"
            )
        if at:
            return replace(OTHERWISE[name], request_us=part.request_us)
        settings = tuple(Setting(name, *pair) for pair in part.recorder.settings)
        return cls(name, settings, part.request_us)

    def plan(self, clone: Program, file: str = _FILE, **facts: object) -> play.ClonePlan:
        """Return the phase that plays a clone, of the file of that name, under it."""
        known = {"tunables": self.settings, "request_us": self.request_us}
        return play.plan(clone, file, self.governor, **known | facts)


# Names of governors that the lab's kernels have by another one.
OTHERWISE = {
    "menu": Regime("gate", (Setting("gate", "base", "menu"),)),
    "teo": Regime("teo_ng"),
}


@dataclass(frozen=True)
class Place:
    """The machine on which clones are played.

    Attributes:
        machine: as session.emulated() takes it.
        kernel: series.
        cpus: how many.
        seed: of the machine.
        turn_us: bound of a CPU's turn.
    """

    machine: str = _MACHINE
    kernel: str = LabRun.kernel
    cpus: int = 2
    seed: int = 1
    turn_us: int = _TURN_US

    def run(self, plans: Sequence[play.ClonePlan], clones: Sequence[Program]) -> LabRun:
        """Return the boot that plays clones, with the events of a recording for clones.

        Raises:
            UserError: the machine is unknown, or has no virtual time.
        """
        calls = events.CALL_EVENTS if any(clone.joints for clone in clones) else ()
        steps = {f"/lab/{_file(n)}": clone.steps for n, clone in enumerate(clones)}
        events_mib = _STEP_BYTES * sum(steps[one.command] for one in plans) >> 20
        # One CPU may have all events.
        trace_mib = max(_TRACE_MIB, self.cpus * events_mib)
        recorded = (OUR_EVENTS, *events.CLONE_EVENTS, *calls)
        return LabRun(
            Session(self.machine, plans, recorded, trace_mib=trace_mib).script(),
            kernel=self.kernel,
            cpus=self.cpus,
            seed=self.seed,
            files=play.files({_file(number): clone for number, clone in enumerate(clones)}),
            # The file of the events is in memory, too.
            memory_mib=trace_mib + events_mib + _REST_MIB,
            real_time=False,
            time_limit_s=_LIMIT_S,
            turn_us=self.turn_us,
        )


def calibrated(place: Place) -> dict[str, float]:
    """Return the player's costs by pair of events, ns; measured once for a kernel.

    Raises:
        UserError: the boot fails, or the recording lacks a pair.
    """
    program = calibrate.probe()
    run = Place(kernel=place.kernel).run([Regime("menu_ng").plan(program, _file(0))], [program])

    def measure(target: Path) -> None:
        result = run_lab(run, target / "results", "Measuring the player's own cost").check()
        trace = result.files / TRACE
        (phase,) = events.phases(events.read(trace), trace)
        costs = calibrate.costs_of(build.build(phase, trace))
        if missing := set(calibrate.PAIRS) - set(costs):
            raise UserError(f"the player's cost was not measured for {', '.join(sorted(missing))}")
        (target / "costs.json").write_text(json.dumps(costs))
        trace.unlink()

    # The costs depend on how a recording is rebuilt, too.
    rules = [Path(str(module.__file__)).read_bytes() for module in (build, calibrate, progress)]
    folder = cached(
        f"clone-costs-{place.kernel}", [key_of(run), *rules], "Calibrating the player", measure
    )
    found: dict[str, float] = json.loads((folder / "costs.json").read_text())
    return found


def _shift_ns(shift_ns: int, clone: Program, first: Program) -> int:
    """Return by how much later than recorded a clone begins, as the first one does by a shift.

    Recordings meet the tick at other points. So shifts of each its own would not cover a tick.
    """
    return (first.start_ns + shift_ns - clone.start_ns) % TICK_NS


def corrected(
    programs: Mapping[Regime, Sequence[Program]], place: Place
) -> dict[Regime, list[Program]]:
    """Return clones whose pieces have the recorded lengths under the recordings' regimes.

    Clones of one regime take turns at the shifts of a first run.

    Args:
        programs: of the recordings, with nothing taken out, by the regime that recorded; of each
            REBUILT_MOST at most.
        place: where they are played, all in one boot.

    Raises:
        UserError: a boot fails.
    """
    costs = calibrated(place)
    recorded = [
        (regime, one, [_shift_ns(shift, one, every[0]) for shift in FEW_NS[turn :: len(every)]])
        for regime, every in programs.items()
        for turn, one in enumerate(every)
    ]
    ways = [
        (regime, calibrate.without(one, costs), shifts)
        for bare in (False, True)
        for regime, with_rcu, shifts in recorded
        for one in [calibrate.bare(with_rcu) if bare else with_rcu]
    ]
    clones = [clone for _, clone, _ in ways]
    plans = [
        regime.plan(clone, _file(number), shift_ns=shift)
        for number, (regime, clone, shifts) in enumerate(ways)
        for shift in shifts
    ]
    with scratch() as folder:
        trace = _record(place, plans, clones, folder, "Playing the clone to correct it")
        rebuilt = iter([build.build(one, trace)
                        for one in events.phases(events.read(trace), trace)])  # fmt: skip
    again = [[*islice(rebuilt, len(shifts))] for _, _, shifts in ways]
    played, bared = again[: len(recorded)], again[len(recorded) :]
    found: dict[Regime, list[Program]] = {}
    for (regime, one, _), with_rcu, without_rcu in zip(recorded, played, bared, strict=True):
        share = calibrate.share_of(one, with_rcu, without_rcu)
        most, least = (calibrate.corrected(one, each, costs) for each in (with_rcu, without_rcu))
        own = calibrate.between(most, least, share)
        made = calibrate.without(calibrate.freeing(one, share), costs, own)
        found.setdefault(regime, []).append(made)
    return found


def played(
    clones: Sequence[Sequence[Program]],
    regimes: Sequence[Regime],
    place: Place,
    kept: Path | None = None,
) -> list[dict[str, list[Part]]]:
    """Return the recordings of each source's clones, by label of the regime; one for each shift.

    Clones of one source take turns at the shifts.

    Args:
        clones: what is played, all in one boot, by source.
        regimes: under which each is played.
        place: where.
        kept: file that gets the recording.

    Raises:
        UserError: the boot fails.
    """
    files = [clone for every in clones for clone in every]
    starts = accumulate(map(len, clones), initial=0)
    plans = [
        regime.plan(every[place], _file(start + place), workload=f"{source}-{turn}",
                    shift_ns=_shift_ns(shift, every[place], every[0]))
        for source, (start, every) in enumerate(zip(starts, clones, strict=False))
        for regime in regimes
        for turn, shift in enumerate(SHIFTS_NS)
        for place in [turn % len(every)]
    ]  # fmt: skip
    with scratch() as folder:
        names = ", ".join(regime.governor for regime in regimes)
        trace = _record(place, plans, files, folder, f"Playing the clone under {names}")
        found = by_clone(trace)
        if kept:
            trace.replace(kept)
    return found


def by_clone(trace: Path) -> list[dict[str, list[Part]]]:
    """Return the phases of a recording that played() kept, as it returns them."""
    with opened(trace) as recording:
        every = parts(recording, trace)
    found: list[dict[str, list[Part]]] = []
    for part in every:
        number = int(part.workload.partition("-")[0])
        found += [{} for _ in range(len(found), number + 1)]
        found[number].setdefault(part.regime, []).append(part)
    return found


def _record(
    place: Place,
    plans: Sequence[play.ClonePlan],
    clones: Sequence[Program],
    folder: Path,
    title: str,
) -> Path:
    """Return the trace of a boot."""
    return run_lab(place.run(plans, clones), folder / "results", title).check().files / TRACE
