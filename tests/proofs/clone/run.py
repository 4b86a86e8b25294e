# SPDX-License-Identifier: GPL-2.0
"""The clone of a recording answers another governor as the program itself does.

Each program is recorded three times under two governors. The first recording of each is rebuilt,
and the clone is played under both, at three shifts against the tick. Replay of the same recording
stands beside it: docs/clone.md.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cpuidle_lab.base.errors import FAILURE, USAGE, UserError
from cpuidle_lab.base.files import scratch
from cpuidle_lab.clone import build, events, judge, session
from cpuidle_lab.clone.session import Place, Regime
from cpuidle_lab.crossval import own
from cpuidle_lab.crossval.parts import Part, parts
from cpuidle_lab.evidence.tables import Table
from cpuidle_lab.lab import LabRun, run_lab, workloads
from cpuidle_lab.lab.session import OUR_EVENTS, TRACE, Session
from cpuidle_lab.recording.columns import opened
from cpuidle_lab.view.terminal import console, meter
from experiments import proofs
from tests.proofs.clone import cost

EXAMPLES = {
    "": "",
    "--only redis": "",
    "--only two-regimes": "the program of experiment two-regimes",
    "--only nginx-wrk --no-calls": "without pipes and sockets",
    "--costs": "instructions and bytes of the events of calls",
}

# Machine by workload.
CASES = {"redis": "power9", "pgbench-1": "skx", "cyclictest-1700us": "skx", "nginx-wrk": "skl"}
# Programs whose clone must be refused: they adapt to their own speed.
REFUSED = {"stress-switch": "skl"}
REFUSED_UNDER, REQUEST_US = "menu_ng", 2
REGIMES = "two-regimes"
GOVERNORS = ("teo_ng", "menu_ng")
REPEATS, SECONDS = 3, 1

# Of a clone under a governor that did not make its recording, points.
CROSS_POINTS = 2.0

_TRACE_MIB, _REST_MIB, _LIMIT_S, _TURN_US = 512, 1024, 1800, 10


@dataclass(frozen=True)
class Line:
    """A clone under a governor.

    Attributes:
        workload: what ran.
        source: governor whose recording was rebuilt.
        check: the clone beside the recordings.
        replayed: regret by replay of that recording, %.
    """

    workload: str
    source: str
    check: judge.Check
    replayed: float

    @property
    def faults(self) -> list[str]:
        """Limits that it misses: those of the gates, and of another governor's regret."""
        found = list(self.check.faults())
        cross = self.check.regime != self.source
        if cross and not found and abs(self.check.error) > max(CROSS_POINTS, self.check.doubt):
            found = [f"it is {self.check.error:+.1f} points off"]
        return found

    def cells(self) -> list[str | float | None]:
        """Return its row."""
        one = self.check
        return [
            self.workload, self.source, one.regime, one.real.regret, one.real.spread,
            self.replayed, one.clone.regret, one.clone.spread, one.moved, one.chance,
            "missed" if self.faults else "held",
        ]  # fmt: skip


_HEADS = (
    "workload", "clone of", "under", "regret %", "spread", "by replay", "of the clone", "spread",
    "moved %", "by chance %", "limits",
)  # fmt: skip


def record(
    workload: str, place: Place, folder: Path, regimes: Sequence[Regime], *, calls: bool = True
) -> Path:
    """Return a recording of a workload: REPEATS times under each regime."""
    found = workloads.find(workload)
    plans = [
        replace(found.phase(one.governor, SECONDS, place.seed + number), request_us=one.request_us)
        for one in regimes
        for number in range(REPEATS)
    ]
    recorded = (OUR_EVENTS, *events.CLONE_EVENTS, *(events.CALL_EVENTS if calls else ()))
    run = LabRun(
        Session(place.machine, plans, recorded, trace_mib=_TRACE_MIB).script(),
        kernel=place.kernel,
        seed=place.seed,
        files=workloads.files([found]),
        memory_mib=_TRACE_MIB + _REST_MIB,
        real_time=False,
        time_limit_s=_LIMIT_S,
        turn_us=_TURN_US,
    )
    return run_lab(run, folder / workload, f"Recording {workload}").check().files / TRACE


def _by_regime(trace: Path) -> dict[str, list[Part]]:
    found: dict[str, list[Part]] = {}
    with opened(trace) as recording:
        for part in parts(recording, trace):
            found.setdefault(part.regime, []).append(part)
    return found


def judged(workload: str, place: Place, *, calls: bool) -> Iterator[Line]:
    """Record a workload, clone it, and yield the rows."""
    with scratch() as folder:
        trace = record(workload, place, folder, [*map(Regime, GOVERNORS)], calls=calls)
        phases, real = events.phases(events.read(trace), trace), _by_regime(trace)
        for source in GOVERNORS:
            phase = next(one for one in phases if one.governor == source)
            clone = session.corrected(build.build(phase, trace), Regime(source), place)
            played = session.played(clone, [Regime(name) for name in GOVERNORS], place)
            found = judge.verdict(source, real, played)
            for check in found.checks:
                outcome = own.play(real[source][0], real[check.regime][0],
                                   restore=check.regime == source)  # fmt: skip
                yield Line(workload, source, check, outcome.regret or 0.0)


def not_refused(workload: str, place: Place) -> list[str]:
    """Return why a program that adapts is not refused: one recording is under a latency request."""
    regimes = [Regime(REFUSED_UNDER, request_us=REQUEST_US), Regime(REFUSED_UNDER)]
    with scratch() as folder:
        trace = record(workload, place, folder, regimes)
        phase, real = events.phases(events.read(trace), trace)[0], _by_regime(trace)
    clone = session.corrected(build.build(phase, trace), regimes[0], place)
    source = next(label for label, found in real.items()
                  if found[0].request_us == REQUEST_US)  # fmt: skip
    found = judge.verdict(source, real, session.played(clone, regimes, place))
    print(f"{workload}: {found.why}")
    return [] if found.adapts else [f"{workload}: is not refused as one that adapts"]


def two_regimes(seed: int) -> list[str]:
    """Return what the experiment's clone misses.

    Raises:
        UserError: it was not measured.
    """
    from experiments.experiment import AGREES, QUICK, Request
    from experiments.memo import Memo
    from experiments.two_regimes.entry import EXPERIMENT

    with Memo() as memo:
        result = EXPERIMENT.measure(Request(QUICK, seed, lab=True), memo, meter)
    out = console()
    for section in result.sections:
        for table in section.tables:
            table.print(out)
    rows = [row for row in result.rows if "clone" in row.what]
    if not rows:
        raise UserError(f"{REGIMES}: was not measured")
    return [f"{row.what} is {row.figures()}" for row in rows if row.state != AGREES]


def _names(words: Sequence[str]) -> list[str]:
    known = [*CASES, *REFUSED, REGIMES]
    for word in words:
        if word not in known:
            raise UserError(f"unknown case '{word}'; there are {', '.join(known)}", USAGE)
    return list(dict.fromkeys(words)) or known


def run(args: argparse.Namespace) -> int:
    """Judge each case; return the exit code."""
    if args.costs:
        cost.table(args.kernel, args.seed).print(console())
        return 0
    lines: list[Line] = []
    missed: list[str] = []
    for name in _names(args.only):
        if name == REGIMES:
            missed += two_regimes(args.seed)
            continue
        place = Place((CASES | REFUSED)[name], args.kernel, seed=args.seed)
        if name in REFUSED and args.calls:
            missed += not_refused(name, place)
        else:
            lines += judged(name, place, calls=args.calls)
    if lines:
        Table("", _HEADS, [line.cells() for line in lines], 1).print(console())
    missed += [
        f"{line.workload}, clone of {line.source}: {fault}"
        for line in lines for fault in line.faults
    ]  # fmt: skip
    for sentence in missed:
        print(f"missed: {sentence}")
    return FAILURE if missed else 0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    proofs.shared(parser, kernel="6.12", seed=1)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORKLOAD",
                        help=f"of {', '.join([*CASES, *REFUSED, REGIMES])}")  # fmt: skip
    parser.add_argument("--no-calls", action="store_false", dest="calls",
                        help="record no calls: clones have no pipes and sockets")  # fmt: skip
    parser.add_argument("--costs", action="store_true",
                        help="measure what the events of calls cost instead")  # fmt: skip
