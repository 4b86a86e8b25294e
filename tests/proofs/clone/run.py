# SPDX-License-Identifier: GPL-2.0
"""The clone of a recording answers another governor as the program itself does.

Each program is recorded in five boots under two governors. Three recordings of each are rebuilt,
and their clones take turns under both, at six shifts against the tick. Replay of the first
recording stands beside them: docs/clone.md.
"""

import argparse
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from cpuidle_lab.base.errors import FAILURE, USAGE, UserError
from cpuidle_lab.base.files import headed, make_folder, marked, scratch, write_whole
from cpuidle_lab.clone import believe, build, events, judge, session
from cpuidle_lab.clone.program import Program
from cpuidle_lab.clone.session import Place, Regime
from cpuidle_lab.crossval import own, plan
from cpuidle_lab.crossval.parts import Part, parts
from cpuidle_lab.evidence import plots
from cpuidle_lab.lab import LabRun, run_lab, workloads
from cpuidle_lab.lab.parallel import side_by_side
from cpuidle_lab.lab.session import OUR_EVENTS, TRACE, Session
from cpuidle_lab.recording.columns import opened
from cpuidle_lab.view.terminal import console, meter
from experiments import proofs
from tests.proofs.clone import constants, cost, pieces
from tests.proofs.clone.lines import NEAR_POINTS, Line, by_workload, passes, plot, uncertain, whole

EXAMPLES = {
    "": "",
    "--only redis": "",
    "--only two-regimes": "the program of experiment two-regimes",
    "--only nginx-wrk --no-calls": "without pipes and sockets",
    "--all": "every workload and governor of crossval",
    "--all --only redis -o kept": "",
    "--all --only redis --judge kept": "the same recordings by other limits",
    "--judge kept --pieces": "the work of those clones beside the recorded one",
    "--all --only redis --kept kept": "clone the same recordings by other rules",
    "--only redis -o kept": "keep recording, clones and a picture",
    "--costs": "of the events of calls; constants of the rules beside measured ones",
}

# Machine and seconds by workload, as crossval has them.
EVERY = {name: (machine, seconds)
         for machine, table in plan.TABLES.items() for name, seconds in table.items()}  # fmt: skip
CASES = ("redis", "pgbench-1", "cyclictest-1700us", "nginx-wrk")
# Programs whose clone must be refused: they adapt to their own speed.
REFUSED = ("stress-switch",)
REFUSED_UNDER, REQUEST_US = "menu_ng", 2
REGIMES = "two-regimes"
# Governors whose recordings are rebuilt, and check the clones; those that are predicted, too.
GOVERNORS = ("teo_ng", "menu_ng")
CHECKED = tuple(map(Regime, GOVERNORS))
PREDICTED = tuple(Regime(label.split()[0], settings) for label, settings in plan.GOVERNORS.items())
# The waits before a program begins, us: a boot for each, spread over a tick. Of five governors each
# one comes at each place in a boot once.
_WAITS_US = (1000, 2300, 3600, 1650, 2950)
# Boots whose recordings are rebuilt. Each wait is part of the program. In this order the waits and
# the shifts of the clones together reach six places of a tick, in the usual order two.
_REBUILT = (0, 2, 1)
# Workload of the first run of a boot, which is not judged.
_WARM = "warm"
# Ends the names of the recordings of clones.
PLAYED = "played.dat"
# Of all workloads, so many pass the gates.
PASS_LEAST = 18
_TRACE_MIB, _REST_MIB, _LIMIT_S = 512, 1024, 1800


def record(
    workload: str, place: Place, folder: Path, regimes: Sequence[Regime], *, calls: bool = True
) -> list[Path]:
    """Return recordings of a workload: a boot for each shift against the tick.

    A boot has each regime once. Boots scatter more than runs of one boot.
    """
    turns = range(len(_WAITS_US))
    return [_boot(workload, place, folder, regimes, turn, calls=calls) for turn in turns]


def _boot(
    workload: str, place: Place, folder: Path, regimes: Sequence[Regime], turn: int, *, calls: bool
) -> Path:
    """Return the recording of a boot."""
    found = workloads.find(workload)
    # A database answers faster as it warms up, so each regime comes at another place in the next
    # boot. No clone reads files for the first time, so the first run is not judged.
    start = turn % len(regimes)
    taken = [*regimes[start:], *regimes[:start]]
    wait = f"usleep {_WAITS_US[turn]}; "
    plans = [
        replace(phase, command=wait + phase.command, request_us=one.request_us,
                workload=_WARM if first else phase.workload)
        for first, one in [(True, taken[-1]), *((False, one) for one in taken)]
        for phase in [found.phase(one.governor, EVERY[workload][1], place.seed, one.settings)]
    ]  # fmt: skip
    recorded = (OUR_EVENTS, *events.CLONE_EVENTS, *(events.CALL_EVENTS if calls else ()))
    run = LabRun(
        Session(place.machine, plans, recorded, trace_mib=_TRACE_MIB).script(),
        kernel=place.kernel,
        seed=place.seed,
        files=workloads.files([found]),
        memory_mib=_TRACE_MIB + _REST_MIB,
        real_time=False,
        time_limit_s=_LIMIT_S,
        turn_us=place.turn_us,
    )
    title = f"Recording {workload}, {turn + 1} of {len(_WAITS_US)}"
    return run_lab(run, folder / workload / str(turn), title).check().files / TRACE


def kept(folder: Path, workload: str) -> list[Path]:
    """Return the recordings of a workload that record() left."""
    return [folder / workload / str(turn) / TRACE for turn in range(len(_WAITS_US))]


def by_regime(traces: Iterable[Path]) -> dict[str, list[Part]]:
    """Return the phases of recordings by label of the regime; the first runs of boots apart."""
    found: dict[str, list[Part]] = {}
    for trace in traces:
        with opened(trace) as recording:
            for part in parts(recording, trace):
                if part.workload != _WARM:
                    found.setdefault(part.regime, []).append(part)
    return found


def _built(traces: Sequence[Path], sources: Sequence[Regime]) -> dict[Regime, list[Program]]:
    """Return what is rebuilt of some boots, by the regime that recorded."""
    found: dict[Regime, list[Program]] = {one: [] for one in sources}
    for trace in (traces[boot] for boot in _REBUILT):
        phases = [one for one in events.phases(events.read(trace), trace) if one.workload != _WARM]
        for one, programs in found.items():
            wants = one.governor, one.request_us
            programs.append(
                build.build(
                    next(each for each in phases if (each.governor, each.request_us) == wants),
                    trace,
                )
            )
    return found


@contextmanager
def _folder(output: Path | None) -> Iterator[Path]:
    """Yield where recordings and clones are left, or a folder that goes again."""
    if output is None:
        with scratch() as folder:
            yield folder
    else:
        yield output


def judged(
    workload: str,
    place: Place,
    regimes: Sequence[Regime] = CHECKED,
    *,
    calls: bool,
    output: Path | None = None,
    recordings: Path | None = None,
) -> Iterator[Line]:
    """Record a workload, unless its recording is kept, clone it, and yield the rows."""
    with _folder(output) as folder:
        traces = (kept(recordings, workload) if recordings
                  else record(workload, place, folder, regimes, calls=calls))  # fmt: skip
        real, programs = by_regime(traces), _built(traces, [*map(Regime, GOVERNORS)])
        clones = session.corrected(programs, place)
        for regime, made in clones.items():
            for number, clone in enumerate(made):
                text = clone.text()
                name = f"{workload}.{regime.governor}.{number}.clone"
                write_whole(folder / name, text, headed(text))
        target = output and folder / f"{workload}.{PLAYED}"
        played = session.played([*clones.values()], regimes, place, target)
    yield from rows(workload, real, played)


def rows(
    workload: str,
    real: Mapping[str, Sequence[Part]],
    played: Sequence[Mapping[str, Sequence[Part]]],
) -> Iterator[Line]:
    """Yield the rows of a workload: the governors that check a clone come first.

    Args:
        workload: its name.
        real: its recordings, by label of the regime; those under which no clone was played are
            left out.
        played: those of the clone of each of GOVERNORS.
    """
    # Kept recordings may have more regimes than clones were played under.
    real = {label: parts for label, parts in real.items() if label in played[0]}
    for source, one in zip(GOVERNORS, played, strict=True):
        known = {label: real[label] for label in GOVERNORS}
        beliefs = believe.believed(
            source, known, judge.verdict(source, known, one), [*real.keys() - known]
        )
        for check in judge.verdict(source, real, one).checks:
            outcome = own.play(real[source][0], real[check.regime][0],
                               restore=check.regime == source)  # fmt: skip
            belief = beliefs.get(check.regime)
            own_regret = judge.Told(real[source]).regret
            yield Line(workload, source, check, outcome.regret or 0.0, belief, own_regret)


def not_refused(workload: str, place: Place) -> list[str]:
    """Return why a program that adapts is not refused: one recording is under a latency request."""
    regimes = [Regime(REFUSED_UNDER, request_us=REQUEST_US), Regime(REFUSED_UNDER)]
    with scratch() as folder:
        traces = record(workload, place, folder, regimes)
        real, programs = by_regime(traces), _built(traces, regimes[:1])
    clones = session.corrected(programs, place)
    source = next(label for label, found in real.items()
                  if found[0].request_us == REQUEST_US)  # fmt: skip
    (played,) = session.played([*clones.values()], regimes, place)
    found = judge.verdict(source, real, played)
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


def _place(workload: str, args: argparse.Namespace) -> Place:
    """Return the machine of a workload."""
    turn_us = plan.turn_of(workload)
    return Place(EVERY[workload][0], args.kernel, seed=args.seed, turn_us=turn_us)


def _rows(workload: str, args: argparse.Namespace) -> Iterator[Line]:
    if args.judge:
        traces, played = kept(args.judge, workload), args.judge / f"{workload}.{PLAYED}"
        real, clones = by_regime(traces), session.by_clone(played)
        for label in real:
            if any(label not in one for one in clones):
                raise UserError(f"{played}: no clone was played under {label}; play it with --all")
        return rows(workload, real, clones)
    regimes = PREDICTED if args.all else CHECKED
    return judged(workload, _place(workload, args), regimes, calls=args.calls,
                  output=args.output, recordings=args.kept)  # fmt: skip


def _lines(workload: str, args: argparse.Namespace, missed: list[str]) -> list[Line]:
    """Return the rows of a workload; what ends one early is added to what was missed."""
    found: list[Line] = []
    try:
        for line in _rows(workload, args):
            found.append(line)
            print(line.text(), flush=True)
            for sentence in line.sentences():
                print(f"refused: {sentence}", flush=True)
    except UserError as error:
        missed.append(f"{workload}: {error}")
        print(f"refused: {missed[-1]}", flush=True)
    return found


def _names(words: Sequence[str], *more: str) -> list[str]:
    known = [*EVERY, *more]
    for word in words:
        if word not in known:
            raise UserError(f"unknown case '{word}'; there are {', '.join(known)}", USAGE)
    return list(dict.fromkeys(words))


def every(args: argparse.Namespace) -> list[str]:
    """Clone all workloads; return what is missed: the gates refuse too many."""
    missed: list[str] = []
    names = _names(args.only) or [*EVERY]
    done = side_by_side([partial(_lines, name, args, missed) for name in names])
    lines = dict(zip(names, done, strict=True))
    rows = [line for found in lines.values() for line in found]
    _show(rows, args.output)
    for sentence in [*missed, *(sentence for line in rows for sentence in line.sentences())]:
        print(f"refused: {sentence}")
    passed = [name for name, found in lines.items() if passes(found)]
    print(f"{len(passed)} of {len(names)} workloads pass the gates: {', '.join(passed)}")
    crossed = [line for name in passed for line in lines[name] if line.crossed]
    if crossed:
        clone, replay = (
            statistics.fmean(map(abs, errors))
            for errors in zip(*((line.check.error, line.replay_error) for line in crossed),
                              strict=True)
        )  # fmt: skip
        near = sum(abs(line.check.error) <= NEAR_POINTS for line in crossed)
        print(f"of these the mean cross error is {clone:.2f} points, that of replay {replay:.2f}; "
              f"{near} of {len(crossed)} clones are within {NEAR_POINTS:g} points")  # fmt: skip
    if len(names) < len(EVERY):
        too_few = [f"{name}: does not pass the gates" for name in names if name not in passed]
    elif len(passed) < PASS_LEAST:
        too_few = [f"fewer than {PASS_LEAST} of {len(EVERY)} workloads pass the gates"]
    else:
        too_few = []
    return [*too_few, *uncertain(rows)]


def _show(lines: Sequence[Line], output: Path | None) -> None:
    """Print the table; leave the picture beside the recordings."""
    if not lines:
        return
    out = console()
    whole(lines).print(out)
    if any(line.belief for line in lines):
        by_workload(lines).print(out)
    if output and any(line.crossed for line in lines):
        drawn = plot(lines)
        write_whole(output / f"{drawn.name}.svg", plots.svg(drawn), marked(plots.MARK))


def _case(name: str, args: argparse.Namespace, missed: list[str]) -> list[Line]:
    """Return the rows of a chosen case; one that must be refused has none."""
    if name in REFUSED and args.calls and not args.judge:
        missed += not_refused(name, _place(name, args))
        return []
    return _lines(name, args, missed)


def chosen(args: argparse.Namespace) -> list[str]:
    """Judge the cases that were chosen; return what is missed."""
    missed: list[str] = []
    names = _names(args.only, REGIMES) or [*CASES, *([] if args.judge else [*REFUSED, REGIMES])]
    if REGIMES in names and args.judge:
        raise UserError(f"{REGIMES}: has no recordings that --judge takes", USAGE)
    cases = [name for name in names if name != REGIMES]
    done = side_by_side([partial(_case, name, args, missed) for name in cases])
    if REGIMES in names:
        # It boots machines side by side itself.
        missed += two_regimes(args.seed)
    lines = [line for found in done for line in found]
    _show(lines, args.output)
    return [*missed, *(sentence for line in lines for sentence in line.sentences())]


def _pieces(args: argparse.Namespace) -> int:
    """Print how far the pieces of kept clones are from the recorded ones.

    Raises:
        UserError: no folder is given, or a workload of it has no clones.
    """
    if not args.judge:
        raise UserError("--pieces needs --judge and the folder of recordings and clones", USAGE)
    names = _names(args.only) or [
        name for name in EVERY if (args.judge / f"{name}.{PLAYED}").exists()
    ]
    if not names:
        raise UserError(f"{args.judge}: no clones were kept there")
    kept_ones = [(name, [kept(args.judge, name)[boot] for boot in _REBUILT],
                  args.judge / f"{name}.{PLAYED}") for name in names]  # fmt: skip
    pieces.table(kept_ones, GOVERNORS).print(console())
    return 0


def run(args: argparse.Namespace) -> int:
    """Judge each case; return the exit code."""
    if args.costs:
        for each in (cost, constants):
            each.table(args.kernel, args.seed).print(console())
        return 0
    if args.pieces:
        return _pieces(args)
    if args.output and args.kept and args.output.resolve() == args.kept.resolve():
        raise UserError(f"{args.kept}: has clones that -o would replace; choose another -o", USAGE)
    if args.output:
        make_folder(args.output)
    missed = every(args) if args.all else chosen(args)
    for sentence in missed:
        print(f"missed: {sentence}")
    return FAILURE if missed else 0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    proofs.shared(parser, kernel="6.12", seed=1, output=None)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORKLOAD",
                        help=f"of {', '.join([*EVERY, REGIMES])}")  # fmt: skip
    parser.add_argument("--all", action="store_true",
                        help="every workload of the lab, and how many pass")  # fmt: skip
    parser.add_argument("--judge", type=Path, metavar="FOLDER",
                        help="judge what -o left there, without the lab")  # fmt: skip
    parser.add_argument(
        "--pieces",
        action="store_true",
        help="with --judge: the work of clones beside the recorded one",
    )
    parser.add_argument("--kept", type=Path, metavar="FOLDER",
                        help="clone what -o left there, and record nothing")  # fmt: skip
    parser.add_argument("--no-calls", action="store_false", dest="calls",
                        help="record no calls: clones have no pipes and sockets")  # fmt: skip
    parser.add_argument("--costs", action="store_true",
                        help="measure events of calls, and the rules' figures instead")  # fmt: skip
