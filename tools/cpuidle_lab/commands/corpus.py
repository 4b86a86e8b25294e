# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab corpus`: traces of real programs in the lab, each from a recipe."""

import argparse
import json
from pathlib import Path

from cpuidle_lab.base.errors import FAILURE, UserError
from cpuidle_lab.lab import workloads
from cpuidle_lab.lab.corpus import DEFAULT_FOLDER, RECIPES, SUBSET, Corpus, Recipe, choose

NAME = "corpus"
HELP = "record the set of lab traces of real programs, or check that it is reproducible"
EPILOG = """\
examples:
  cpuidle-lab corpus                                  build what is missing, in build/corpus
  cpuidle-lab corpus --list                           the traces, with a description of each
  cpuidle-lab corpus --only skx-idle gnr-redis        these alone
  cpuidle-lab corpus --subset --check                 record three again, compare bit by bit

Each trace is one file, NAME.trace.dat. corpus.json has the recipe and the hash of each. After an
interruption the next call continues. To record a trace again, remove its file.

exit codes: 0 done, 1 failed or not identical, 2 wrong usage, 130 interrupted
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these traces alone")
    which.add_argument("--subset", action="store_true", help=f"{', '.join(SUBSET)} alone")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="show the traces, build nothing")
    what.add_argument("--check", action="store_true", help="make them again and compare")
    add("-o", "--output", type=Path, default=DEFAULT_FOLDER, metavar="DIR", help="build/corpus")
    add("--json", action="store_true", help="print the results as JSON")


def run(args: argparse.Namespace) -> int:
    """Build, list or check."""
    recipes = list(RECIPES)
    if args.subset or args.only:
        recipes = choose(SUBSET if args.subset else args.only)
    corpus = Corpus(args.output)
    if args.list:
        return listing(corpus, recipes, args.json)
    if args.check:
        return check(corpus, recipes, args.json)
    return build(corpus, recipes, args.json)


def build(corpus: Corpus, recipes: list[Recipe], as_json: bool) -> int:
    """Build what is lacking, and show what there is then."""
    for recipe in corpus.build(recipes):
        if not as_json:
            print(line(corpus, recipe), flush=True)
    if as_json:
        print(json.dumps([corpus.summary(recipe) for recipe in recipes], indent=2))
    return 0


def line(corpus: Corpus, recipe: Recipe) -> str:
    """Return what there is to say of a trace that is there."""
    entry = corpus.entries[recipe.name]
    size = f"{entry.decisions:7} decisions {entry.bytes / 1e6:5.1f} MB"
    return f"{recipe.name:24}{size} {entry.seconds:6.1f} s  sha256 {entry.sha256}"


def listing(corpus: Corpus, recipes: list[Recipe], as_json: bool) -> int:
    """Show recipes, and whether their traces are there."""
    states = {recipe.name: corpus.lacks(recipe) or "there" for recipe in recipes}
    if as_json:
        found = [{**corpus.summary(recipe), "state": states[recipe.name]} for recipe in recipes]
        print(json.dumps(found, indent=2))
        return 0
    for recipe in recipes:
        summary = workloads.find(recipe.workload).summary
        recorded = f"{recipe.governor:8}{recipe.duration_s:3} s"
        print(f"{recipe.name:24}{recorded}  {states[recipe.name]:24}{summary}")
    return 0


def check(corpus: Corpus, recipes: list[Recipe], as_json: bool) -> int:
    """Make traces again, say whether each is the same to the last bit."""
    if all(corpus.lacks(recipe) == "missing" for recipe in recipes):
        raise UserError(f"{corpus.folder} has none of these traces; build them first")
    verdicts = {}
    for recipe in recipes:
        verdicts[recipe.name] = corpus.check(recipe)
        if not as_json:
            print(f"{recipe.name:24}{verdicts[recipe.name]}", flush=True)
    if as_json:
        print(json.dumps(verdicts, indent=2))
    return 0 if set(verdicts.values()) == {"identical"} else FAILURE
