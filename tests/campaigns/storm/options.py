# SPDX-License-Identifier: GPL-2.0
"""Options of the campaigns that use the modules at random in a guest."""

import argparse
import random
import sys

from cpuidle_lab.lab import built
from experiments import proofs

_STOCK = "stock"


def add(parser: argparse.ArgumentParser, cpus: int, limit_s: float) -> None:
    """Declare the seed, the guest and the outputs.

    Args:
        parser: of the campaign.
        cpus: of the machine, as a default.
        limit_s: for the guest, in seconds, as a default.
    """
    proofs.shared(parser, seed=None, kernel="6.12", cpus=cpus, time_limit=limit_s, output=None,
                  json=False, sabotage="")  # fmt: skip
    flavours = (*built.FLAVOURS, _STOCK)
    parser.add_argument("--flavour", choices=flavours, default="debug",
                        help="of the kernel; stock: --kernel (default: %(default)s)")  # fmt: skip


def kernel(args: argparse.Namespace) -> str:
    """Return what the lab boots."""
    return str(args.kernel if args.flavour == _STOCK else args.flavour)


def choose_seed(args: argparse.Namespace) -> None:
    """Choose a seed if none was given, and print it."""
    args.seed = random.randrange(1 << 31) if args.seed is None else args.seed
    print(f"seed {args.seed}", file=sys.stderr, flush=True)
