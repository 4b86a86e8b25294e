# SPDX-License-Identifier: GPL-2.0
"""Options of the programs that do at random what they can to the modules in a guest."""

import argparse
from pathlib import Path

from cpuidle_lab.lab import built
from tests.campaigns.storm import sabotage

_STOCK = "stock"


def add(parser: argparse.ArgumentParser, cpus: int, limit_s: int) -> None:
    """Add what is drawn from, where it runs and what is told of it.

    Args:
        parser: of the program.
        cpus: of the machine, as a default.
        limit_s: for the guest, in seconds, as a default.
    """
    option = parser.add_argument
    flavours = (*built.FLAVOURS, _STOCK)
    option("--seed", type=int, help="of what is drawn (default: a new one, printed)")
    option("--flavour", choices=flavours, default="debug", help="(default: %(default)s)")
    option("--kernel", default="6.12", help="series of the stock kernel (default: %(default)s)")
    option("--cpus", type=int, default=cpus, help="of the machine (default: %(default)s)")
    option("--time-limit", type=float, default=limit_s, metavar="S",
           help="for the guest (default: %(default)s)")  # fmt: skip
    option("--sabotage", default="", choices=("", *sabotage.FAULTS),
           help="put this fault into the module")  # fmt: skip
    option("-o", "--output", type=Path, metavar="DIR", help="keep the guest's files and log here")
    option("--json", action="store_true", help="print the result as JSON")


def kernel(args: argparse.Namespace) -> str:
    """Return what the lab boots."""
    return str(args.kernel if args.flavour == _STOCK else args.flavour)
