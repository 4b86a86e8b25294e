# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab bench`: the worth of latency hints, and their cost."""

import argparse
import json
import os
import shlex
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.files import check, marked, write_whole
from cpuidle_lab.base.version import __version__

NAME = "bench"
HELP = "measure the worth of latency hints, and the cost of the gate, in the lab"
EPILOG = """\
examples:
  cpuidle-lab bench gate                     into build/bench/gate.json; a quarter of an hour
  cpuidle-lab bench gate --quick --json | jq '.parts.gate'

It runs wakebench and pgbench on emulated machines in the lab, under menu, menu without idle states,
the gate as its RFC had it, and the gate as it is here: latency, modelled energy, and whether
targets are met; then instructions of a decision with 0, 1, 100 and 10,000 hinted tasks, and of a
context switch without the module and with hints.

docs/bench.md says how each figure is measured. What governors cost and lose beside mainline's is
part of `cpuidle-lab study`; the speed of the reader and of replay is `make throughput`.

exit codes: 0 done (also where a target is missed), 1 something cannot be measured, 2 wrong usage,
130 interrupted
"""

GATE = "gate"
FOLDER = TOP / "build" / "bench"

# Tells whether a file may be replaced.
_OURS = marked('{\n  "command": "cpuidle-lab bench')

# Seconds of virtual time for each case of the gate's cost.
FULL_S, QUICK_S = 2, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("what", nargs="?", choices=(GATE,), default=GATE, help="the gate, the default")
    add("--quick", action="store_true", help="small sizes, to see that it works")
    add(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where all is written as JSON (default: build/bench/gate.json)",
    )
    add("--json", action="store_true", help="print the same JSON, no table")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _output(args: argparse.Namespace) -> Path:
    """Return where the JSON goes.

    Raises:
        UserError: nothing can be written there.
    """
    output: Path | None = args.output
    if output is None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        output = FOLDER / f"{args.what}.json"
    check(output, _OURS)
    return output


def run(args: argparse.Namespace) -> int:
    """Measure, write, print."""
    from experiments.gate import decisions, gate_text, guest, judgement, switches

    output = _output(args)
    sizes, seconds = (guest.QUICK, QUICK_S) if args.quick else (guest.FULL, FULL_S)
    whole: dict[str, Any] = {
        "command": shlex.join(["cpuidle-lab", *sys.argv[1:]]),
        "version": __version__,
        "kernel": os.uname().release,
        "start": _now(),
    }
    load = os.getloadavg()[0]
    costs = decisions.measure(seconds)
    parts = {
        "gating": judgement.measure(sizes, costs["cases"]),
        "gate": costs,
        "switches": switches.measure(),
    }
    whole |= {"end": _now(), "load_average": [load, os.getloadavg()[0]], "sizes": asdict(sizes)}
    text = json.dumps({**whole, "parts": parts}, indent=2) + "\n"
    write_whole(output, text, _OURS)
    if args.json:
        print(text, end="")
        return 0
    gate_text.show(parts)
    print(f"written: {output}")
    return 0
