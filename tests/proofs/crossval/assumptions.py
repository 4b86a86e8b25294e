#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Effect of each assumption of replay: it is changed, and the recordings are judged again.

A change is a piece of source replaced in a copy of the tree. It moves the error of the predictions:
in points of regret, on the governors' own recordings and on those of others. Beside that stands how
often the assumption applies: the share of the intervals of own recordings that have another cost,
or are others. An interval counts, too, if the governor has only learned otherwise before.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import polars as pl

TOP = Path(__file__).resolve().parents[3]

EPILOG = """\
examples:
  assumptions.py build/crossval/traces/*.trace.dat
  assumptions.py build/demo/trace.dat --only left

exit codes: 0 done, 1 a change does not fit the sources any more, 2 wrong usage
"""

ENGINE = "tools/native/replay/engine.c"
PERIODS = "tools/native/periods.c"


@dataclass(frozen=True)
class Change:
    """An assumption, and its opposite.

    Attributes:
        name: short.
        what: what replay then does.
        file: source.
        old: a piece of it that occurs once.
        new: what takes its place.
    """

    name: str
    what: str
    file: str
    old: str
    new: str


CHANGES = (
    Change("left", "an interval ends by the due time of its timer alone, though another task ran",
           PERIODS, "} else if (d->left) {", "} else if (0) {"),
    Change("answers", "an interval keeps the timer that was known at its beginning",
           PERIODS, "\tp->sink.answer(p->sink.context, &answer);", "\t(void)answer;"),
    Change("moved", "a timer that passed without an end is overdue",
           ENGINE, "in->timer_ns = in->by_timer ? in->end_ns : CIL_TIME_MAX;",
           "in->timer_ns = in->now_ns;"),
    Change("held", "a tick that had to go on is taken for a timer",
           PERIODS, "(s64)p->machine.tick_ns && is_tick_due(p, d);",
           "(s64)p->machine.tick_ns && false;"),
    Change("served", "the tick is served in no time",
           ENGINE, "\twake->served_ns = in->served_ns[i];", ""),
    Change("back-0", "the way back to a decision that the recorder did not make takes no time",
           ENGINE, "#define BACK_NS\t\t\t2000", "#define BACK_NS\t\t\t0"),
    Change("back-20", "the way back to a decision that the recorder did not make takes 20 us",
           ENGINE, "#define BACK_NS\t\t\t2000", "#define BACK_NS\t\t\t20000"),
    Change("aborted", "aborted selections are not made",
           "tools/native/replay/play.c", "\t\trp_abort(run, &interval);\n", ""),
    Change("handler", "a timer within a poll does not end it",
           ENGINE, "in->timer_ns <= in->now_ns + poll_ns))", "0))"),
    Change("poll-woken", "a poll that was woken does not outlast its limit",
           ENGINE, "#define POLL_WOKEN_NS\t\t10000", "#define POLL_WOKEN_NS\t\t0"),
    Change("poll-served", "a timer that ends a poll is served in no time",
           ENGINE, "\t\twake.served_ns = served_in_poll_ns(in);", "\t\t(void)served_in_poll_ns;"),
    Change("same-tick", "a timer does not go off early in a tick that is near",
           ENGINE, "#define TICK_TOLERANCE_NS\t70000", "#define TICK_TOLERANCE_NS\t0"),
    Change("tick-after", "a tick that came after the wake-up is taken for the one before it",
           ENGINE, "(in->by_timer || answer_after(in, tick_due_ns) == in->answers);", "true;"),
    Change("grid", "the grid of the tick follows each event that the kernel told of",
           "tools/native/grid.h", "\t} else if (grid->trust) {", "\t} else if (0) {"),
    Change("overslept", "overslept intervals are judged, too",
           "tools/native/replay/play.c", "(NOT_PLAYED | CIL_INTERVAL_OVERSLEPT)", "NOT_PLAYED"),
    Change("exit", "leaving a state takes half of its exit latency",
           ENGINE, "\tin->now_ns += outcome.residency_ns +",
           "\tin->now_ns += outcome.residency_ns - latency_ns / 2 +"),
    Change("poll", "polling has no limit",
           ENGINE, "\tif (polling && poll_ns + POLL_WOKEN_NS < wake.stay_ns &&", "\tif (0 &&"),
    Change("stopped", "a tick is always running at the beginning of an interval",
           "tools/native/replay/play.c", "if (!(in->flags[i] & CIL_INTERVAL_CONTINUED))", "if (1)"),
)  # fmt: skip


def errors(tree: Path, traces: list[Path]) -> tuple[float, float, int]:
    """Return the mean errors, own and cross, of the recordings by a tree, and own ones missed."""
    command = [str(tree / "cpuidle-lab"), "crossval", "--json", *map(str, traces)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit(f"assumptions: {done.stderr.strip()}")
    pairs = json.loads(done.stdout)["pairs"]
    own = [pair for pair in pairs if pair["recorded"] == pair["replayed"]]
    cross = [pair for pair in pairs if pair["recorded"] != pair["replayed"]]
    mean = [statistics.fmean(abs(pair["error_points"]) for pair in part) for part in (own, cross)]
    return mean[0], mean[1], sum(pair["beyond_limit"] for pair in own)


def costs(tree: Path, traces: list[Path], folder: Path) -> pl.DataFrame:
    """Return the cost of each interval by a tree, see costs.py."""
    target = folder / "costs.parquet"
    script = tree / "tests/proofs/crossval/costs.py"
    subprocess.run([sys.executable, script, target, *traces], check=True)
    return pl.read_parquet(target)


def changed(before: pl.DataFrame, after: pl.DataFrame) -> float:
    """Return how many of the intervals before have another cost after, or are others, in percent.

    The recorded intervals are the same; those that both leave out are not counted.
    """
    same = before.join(after, on=before.columns, how="semi")
    out = same.filter(cost_pj=0).height
    return 100 * (1 - (same.height - out) / (before.height - out))


def copy_of(folder: Path) -> Path:
    """Return a copy of the tree that shares what was built."""
    tree = folder / "tree"
    shutil.copytree(TOP, tree, ignore=shutil.ignore_patterns("build", ".git"))
    (tree / "build").mkdir()
    for name in ("venv", "cache"):
        (tree / "build" / name).symlink_to(TOP / "build" / name)
    return tree


def apply(change: Change, tree: Path) -> None:
    """Change the sources of a tree, or end with a sentence."""
    path = tree / change.file
    text = path.read_text()
    if text.count(change.old) != 1:
        sys.exit(f"assumptions: {change.name} does not fit {change.file}")
    path.write_text(text.replace(change.old, change.new))


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", nargs="+", type=Path, metavar="TRACE")
    parser.add_argument("--only", nargs="+", default=[], choices=[c.name for c in CHANGES])
    args = parser.parse_args()
    traces = [path.resolve() for path in args.traces]
    print("| assumption changed | intervals % | own error | cross error | own beyond the limit |")
    print("|---|--:|--:|--:|--:|")
    print("| none | | {:.2f} | {:.2f} | {} |".format(*errors(TOP, traces)), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        as_it_is = costs(TOP, traces, Path(folder))
    for change in CHANGES:
        if args.only and change.name not in args.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            tree = copy_of(Path(folder))
            apply(change, tree)
            share = changed(as_it_is, costs(tree, traces, Path(folder)))
            own, cross, beyond = errors(tree, traces)
        print(f"| {change.what} | {share:.2f} | {own:.2f} | {cross:.2f} | {beyond} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
