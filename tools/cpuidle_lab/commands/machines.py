# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab machines`: tables of idle states, listed, shown and compared."""

import argparse
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING

from cpuidle_lab.base.errors import USAGE, UserError

if TYPE_CHECKING:
    from cpuidle_lab.states.machines import Known
    from cpuidle_lab.states.table import StateTable

NAME = "machines"
HELP = "list, show and compare machines: their idle states, latencies and powers"
EPILOG = """\
examples:
  cpuidle-lab machines                          the emulator's, and those recorded elsewhere
  cpuidle-lab machines --kind intel_idle,dts    those of the newest kernel's sources
  cpuidle-lab machines this                     this machine
  cpuidle-lab machines skx pepc:genoa0 intel_idle:spr@6.12
                                                three beside each other
  cpuidle-lab machines mine.yaml trace.dat      written by hand; of a recording
  cpuidle-lab machines 0-3=little.yaml,4-5=big.yaml
                                                of CPUs that differ, as --machine takes it
  cpuidle-lab machines --json | jq '.machines[] | select(.states | length > 5) | .name'

The kernel's tables come from Debian's linux-source package, which is downloaded once (150 MB).
Powers that a machine does not tell are derived from its target residencies: docs/machines.md.

exit codes: 0 done, 1 a machine cannot be read, 2 wrong usage
"""

KINDS = ("emul", "pepc", "intel_idle", "dts")
DEFAULT_KINDS = ("emul", "pepc")


def _kinds(text: str) -> list[str]:
    kinds = text.split(",")
    if unknown := [kind for kind in kinds if kind not in (*KINDS, "all")]:
        raise argparse.ArgumentTypeError(
            f"'{unknown[0]}' is no kind of machine; there are {', '.join(KINDS)}, all"
        )
    return list(KINDS) if "all" in kinds else kinds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("machines", nargs="*", metavar="MACHINE", help="show these, beside each other")
    add(
        "--kind",
        type=_kinds,
        metavar="KIND[,KIND]",
        help=f"list only these: {', '.join(KINDS)}, all (default: {','.join(DEFAULT_KINDS)})",
    )
    add("--kernel", default="", metavar="SERIES", help="of intel_idle and dts (default: newest)")
    add("--hz", type=int, default=250, metavar="N", help="ticks per second (default: 250)")
    add("--json", action="store_true", help="print as JSON")


def _named(specs: list[str], hz: int) -> "list[Known]":
    from cpuidle_lab.recording import state_tables
    from cpuidle_lab.states import machines

    found = []
    for spec in dict.fromkeys(specs):
        source = "this machine" if spec == "this" else str(Path(spec)) if "." in spec else ""
        kinds = state_tables.by_table(state_tables.told(spec, hz))
        found += [machines.Known(spec, source, table, cpus) for table, cpus in kinds.items()]
    return found


def describe(known: "Known") -> dict[str, object]:
    """Return a machine as JSON: times in us, powers in mW."""
    from cpuidle_lab.host.idle_states import assumption
    from cpuidle_lab.host.machine import Host as Host
    from cpuidle_lab.states.costs import model_of

    table, model = known.table, model_of(known.table)
    return {
        "name": known.name,
        "source": known.source,
        "cpus": known.cpus,
        "tick_us": table.tick_ns / 1000,
        "tick_assumed": known.name == "this" and bool(assumption(Host())),
        "powers_derived": model.derived,
        "states": [
            {
                "name": table.names[k],
                "exit_latency_us": table.exit_latency_ns[k] / 1000,
                "target_residency_us": table.target_residency_ns[k] / 1000,
                "polling": table.polling[k],
                "power_mw": round(model.power_mw[k], 3),
                "entry_uj": round(model.entry_pj[k] / 1e6, 6),
            }
            for k in range(table.count)
        ],
    }


def _label(known: "Known") -> str:
    return f"{known.name}, CPU {known.cpus}" if known.cpus else known.name


def _short(table: "StateTable") -> str:
    return " ".join(
        f"{name} {latency // 1000}/{residency // 1000}"
        for name, latency, residency in zip(
            table.names, table.exit_latency_ns, table.target_residency_ns, strict=True
        )
    )


def _list(known: "list[Known]") -> None:
    groups: dict[str, list[Known]] = {}
    for each in known:
        groups.setdefault(each.source, []).append(each)
    width = max(len(each.name) for each in known)
    for source, members in groups.items():
        print(f"{source} (exit latency/target residency, us):")
        for each in members:
            print(f"  {each.name:{width}}  {_short(each.table)}")
    print(f"{len(known)} machines")


def _show(known: "list[Known]") -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    for each in known:
        told = describe(each)
        derived = ", derived" if told["powers_derived"] else ""
        source = f" ({each.source})" if each.source not in ("", each.name) else ""
        title = f"{_label(each)}{source}: tick {told['tick_us']} us"
        table = Table(title=title, title_justify="left")
        table.add_column("state")
        for heading in ("exit latency us", "target residency us", f"power mW{derived}", "entry uJ"):
            table.add_column(heading, justify="right")
        states = told["states"]
        assert isinstance(states, list)
        for state in states:
            table.add_row(
                state["name"] + (" (polls)" if state["polling"] else ""),
                f"{state['exit_latency_us']:g}",
                f"{state['target_residency_us']:g}",
                f"{state['power_mw']:.10g}",
                f"{state['entry_uj']:.3f}",
            )
        console.print(table)
    if len(known) > 1:
        _differences(known)


def _differences(known: "list[Known]") -> None:
    """Say what distinguishes tables for a governor: widest gap, deepest state, polling."""
    width = max(len(_label(each)) for each in known)
    print(f"{'':{width}}  states  deepest us (exit/target)  widest gap")
    for each in known:
        targets = each.table.target_residency_ns
        gaps = [(high / low, k) for k, (low, high) in enumerate(itertools.pairwise(targets)) if low]
        gap, k = max(gaps, default=(1.0, 0))
        names = each.table.names
        text = f"{names[k]} to {names[k + 1]}, {gap:.0f} times" if gaps else "-"
        deepest = f"{each.table.exit_latency_ns[-1] // 1000}/{targets[-1] // 1000}"
        print(f"{_label(each):{width}}  {each.table.count:6}  {deepest:>24}  {text}")


def run(args: argparse.Namespace) -> int:
    """List or show."""
    from cpuidle_lab.states import machines
    from cpuidle_lab.states.linux_source import NEWEST

    if args.machines and args.kind:
        raise UserError("name machines, or give --kind to list some", USAGE)
    if not 1 <= args.hz <= 10_000:
        raise UserError(f"a tick of {args.hz} Hz is out of range: 1 to 10000", USAGE)
    if args.machines:
        known = _named(args.machines, args.hz)
    else:
        kinds = args.kind or list(DEFAULT_KINDS)
        known = machines.listed(kinds, args.kernel or NEWEST, args.hz)
    if args.json:
        print(json.dumps({"machines": [describe(each) for each in known]}, indent=2))
    elif args.machines:
        _show(known)
    else:
        _list(known)
    return 0
