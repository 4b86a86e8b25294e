# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab bench`: what governors and tools cost beside mainline's, and where ours lose."""

import argparse
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpuidle_lab import __version__
from cpuidle_lab.errors import USAGE, UserError
from cpuidle_lab.files import write_whole
from cpuidle_lab.lab.cache import TOP

if TYPE_CHECKING:
    from cpuidle_lab.compare.model import Comparison

NAME = "bench"
HELP = "measure governors and tools beside mainline's menu and teo, and say where ours lose"
EPILOG = """\
examples:
  cpuidle-lab bench                             everything, into build/bench/bench.json
  cpuidle-lab bench --only governors,corpus     these parts alone
  cpuidle-lab bench --quick --json | jq '.losses[]'
  cpuidle-lab bench gate                        what hints are worth, into build/bench/gate.json

parts:
  governors  instructions and time of a decision, on synthetic streams and the corpus
  gate       what gate adds to a decision with 0, 1 and 100 hinted tasks, in the lab
  reader     events a second of the trace reader
  replay     idle periods a second of replay
  corpus     regret on each trace of the corpus (make them with: cpuidle-lab corpus)

`bench gate` runs wakebench and pgbench on emulated machines in the lab, under menu, menu without
idle states, the gate as its RFC had it, and the gate as it is here: latency, modelled energy, and
whether targets are met; then the part gate. About a quarter of an hour.

Times are CPU time and noisy; instructions and regret are the same in every run. docs/bench.md says
how each figure is measured.

exit codes: 0 done (also where ours lose or miss a target), 1 something cannot be measured, 2 wrong
usage, 130 interrupted
"""

PARTS = ("governors", "gate", "reader", "replay", "corpus")
GATE = "gate"
FOLDER = TOP / "build" / "bench"


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        intervals: of each synthetic stream.
        rounds: in which the time is taken.
        gate_s: seconds of virtual time for each case.
        events: of the large trace.
        replayed: intervals of the stream by which replay is measured.
    """

    intervals: int
    rounds: int
    gate_s: int
    events: int
    replayed: int


FULL = Sizes(intervals=20_000, rounds=15, gate_s=2, events=5_000_000, replayed=1_000_000)
QUICK = Sizes(intervals=2_000, rounds=3, gate_s=1, events=500_000, replayed=100_000)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("what", nargs="?", choices=(GATE,), help="compare the gate with menu, instead of the rest")
    add("--only", metavar="PART[,PART]", help=f"of {', '.join(PARTS)} (default: all)")
    add("--quick", action="store_true", help="small sizes, to see that it works")
    add("--corpus", type=Path, metavar="DIR", default=TOP / "build" / "corpus",
        help="directory of traces (default: build/corpus)")  # fmt: skip
    add(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where all is written as JSON (default: bench.json or gate.json in build/bench)",
    )
    add("--json", action="store_true", help="print the same JSON, no table")


def _chosen(only: str | None) -> list[str]:
    """Return the parts, in the order of PARTS.

    Raises:
        UserError: one is unknown.
    """
    named = list(PARTS) if only is None else [name.strip() for name in only.split(",")]
    for name in named:
        if name not in PARTS:
            raise UserError(f"unknown part '{name}'; there are {', '.join(PARTS)}", USAGE)
    return [name for name in PARTS if name in named]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _measure(
    chosen: Sequence[str], sizes: Sizes, corpus_folder: Path, envelope: dict[str, Any]
) -> tuple[dict[str, dict[str, Any]], "Comparison | None"]:
    """Measure the parts, one after the other."""
    from cpuidle_lab.compare.terminal import phase
    from experiments.bench import corpus, gate, governors, streams, throughput

    parts: dict[str, dict[str, Any]] = {}
    comparison = None
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=FOLDER) as name:
        scratch = Path(name)
        if "governors" in chosen:
            with streams.opened(scratch, corpus_folder, sizes.intervals, phase) as found:
                parts["governors"] = governors.measure(found, sizes.rounds, phase)
        if "gate" in chosen:
            parts["gate"] = gate.measure(sizes.gate_s)
        if "reader" in chosen:
            parts["reader"] = throughput.reader(FOLDER, sizes.events, phase)
        if "replay" in chosen:
            parts["replay"] = throughput.replay(scratch, sizes.replayed, phase)
        if "corpus" in chosen:
            command, start = envelope["command"], envelope["start"]
            comparison = corpus.measure(corpus_folder, phase, command, start)
            parts["corpus"] = corpus.as_json(comparison, corpus_folder)
    return parts, comparison


def _output(args: argparse.Namespace) -> Path:
    """Return where the JSON goes.

    Raises:
        UserError: nothing can be written there.
    """
    output: Path | None = args.output
    if output is None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        output = FOLDER / f"{args.what or NAME}.json"
    if not output.parent.is_dir():
        raise UserError(f"{output.parent}: no such directory")
    if output.is_dir():
        raise UserError(f"{output} is a directory")
    return output


def _compare_gate(quick: bool) -> tuple[dict[str, Any], Callable[[], None]]:
    """Compare the gate with menu and performance mode; return what is written, and how shown."""
    from experiments.bench import gate
    from experiments.bench.gating import figures, guest, terminal

    sizes, seconds = (guest.QUICK, QUICK.gate_s) if quick else (guest.FULL, FULL.gate_s)
    costs = gate.measure(seconds)
    parts = {"gating": figures.measure(sizes, costs["cases"]), "gate": costs}
    found = {"sizes": asdict(sizes), "parts": parts}
    return found, lambda: terminal.show(parts)


def _compare_costs(
    args: argparse.Namespace, envelope: dict[str, Any]
) -> tuple[dict[str, Any], Callable[[], None]]:
    """Measure the parts; return what is written, and how it is shown."""
    from experiments.bench import losses, terminal

    sizes = QUICK if args.quick else FULL
    parts, comparison = _measure(_chosen(args.only), sizes, args.corpus, envelope)
    figures = losses.compared(parts)
    found = {
        "sizes": asdict(sizes),
        "parts": parts,
        "losses": [asdict(one) for one in figures if one.worse],
        "compared": len(figures),
    }
    return found, lambda: terminal.show(parts, figures, comparison)


def run(args: argparse.Namespace) -> int:
    """Measure, write, print."""
    if args.what == GATE and args.only is not None:
        raise UserError("--only is about the other parts; bench gate has none to choose", USAGE)
    _chosen(args.only)
    output = _output(args)
    envelope: dict[str, Any] = {
        "command": shlex.join(["cpuidle-lab", *sys.argv[1:]]),
        "version": __version__,
        "kernel": os.uname().release,
        "start": _now(),
    }
    load = os.getloadavg()[0]
    if args.what == GATE:
        found, show = _compare_gate(args.quick)
    else:
        found, show = _compare_costs(args, envelope)
    whole = {**envelope, "end": _now(), "load_average": [load, os.getloadavg()[0]], **found}
    text = json.dumps(whole, indent=2) + "\n"
    write_whole(output, text)
    if args.json:
        print(text, end="")
        return 0
    show()
    print(f"written: {output}")
    return 0
