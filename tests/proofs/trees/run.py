# SPDX-License-Identifier: GPL-2.0
"""On each tree the account of domains is that of a slow model, and the joint oracle brute force's.

The account: random stays of all CPUs of a machine, on trees whose times are scaled down so far that
the model can go through them ns by ns. The oracle: random intervals of two CPUs in the idle states
of a machine that the tree fits, all choices tried.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cpuidle_lab.base.errors import FAILURE
from cpuidle_lab.domains.account import Account, account
from cpuidle_lab.domains.joint import Intervals, intervals_of, joint
from cpuidle_lab.recording import state_tables
from cpuidle_lab.states import domain_files
from cpuidle_lab.states.domains import Domain, Rule, grow
from cpuidle_lab.states.table import StateTable
from experiments import proofs
from experiments.domains.machines import HZ, TREES
from tests.unit.test_domains import drawn, slow
from tests.unit.test_domains_replay import brute

# CPUs of the machines whose accounts are judged.
CPUS = 8
# Span of the slow model, ns; the longest target residency in it.
SPAN_NS, TARGET_NS = 300, 40
# Choices that brute force tries at most in a round.
CHOICES = 5000
SAME = 1e-9

EXAMPLES = {"": "", "--rounds 100 --seed 7": "more of them, others"}


@dataclass
class Judged:
    """A tree.

    Attributes:
        sleeps: of domains, in the accounts.
        accounts: accounts, and of them those that differ.
        oracles: rounds of the oracle, and of them those that differ.
        gained: rounds in which it is cheaper than the CPUs' own best states.
    """

    sleeps: int = 0
    accounts: tuple[int, int] = (0, 0)
    oracles: tuple[int, int] = (0, 0)
    gained: int = 0

    @property
    def is_exact(self) -> bool:
        """Nothing differs, and there was something to compare."""
        return not (self.accounts[1] or self.oracles[1]) and self.sleeps > 0


def table_for(tree: str, rules: Sequence[Rule]) -> StateTable:
    """Return the idle states of a machine that a tree fits; made of the tree where none is known.

    Args:
        tree: its name.
        rules: of it.
    """
    if tree in TREES:
        return state_tables.find(TREES[tree], HZ)
    states = [state for rule in rules for state in rule.states]
    names = list(dict.fromkeys(need for state in states for need in state.needs))
    target = min(state.target_residency_ns for state in states)
    targets = tuple(target // 2 + n for n in range(len(names)))
    count = len(names)
    return StateTable(("WFI", *names), (0, *targets), (0, *targets), (0,) * (count + 1),
                      (False,) * (count + 1), 4_000_000)  # fmt: skip


def small(rules: Sequence[Rule], table: StateTable) -> tuple[list[Rule], StateTable]:
    """Return rules and idle states whose times are scaled down for the slow model."""
    most = max(state.target_residency_ns for rule in rules for state in rule.states)

    def scaled(ns: int) -> int:
        return min(ns, -(-ns * TARGET_NS // most))

    changed = [
        replace(rule, states=tuple(
            replace(state, entry_latency_ns=scaled(state.entry_latency_ns),
                    target_residency_ns=scaled(state.target_residency_ns))
            for state in rule.states))
        for rule in rules
    ]  # fmt: skip
    targets = tuple(map(scaled, table.target_residency_ns))
    return changed, replace(table, target_residency_ns=targets)


def judge_account(domains: Sequence[Domain], count: int, rng: np.random.Generator) -> list[int]:
    """Compare accounts of random stays; return how many there are, that differ, and of sleeps."""
    cpus = sorted({cpu for domain in domains for cpu in domain.cpus})
    stays = {cpu: drawn(rng, SPAN_NS) for cpu in cpus}
    for mine in stays.values():
        mine.index[:] = (
            count
            - 1
            - rng.integers(0, count, len(mine.index)) * (rng.random(len(mine.index)) < 0.2)
        )
    found: dict[str, Account] = {}
    below: dict[str, list[int]] = {}
    told = [0, 0, 0]
    for domain in domains:
        below[domain.name] = slow(domain, stays, below, SPAN_NS)
        one = found[domain.name] = account(domain, stays, found, 0, SPAN_NS)
        differs = np.repeat(one.level, one.length_ns).tolist() != below[domain.name]
        told = [told[0] + 1, told[1] + differs, told[2] + int((one.level > 0).sum())]
    return told


def intervals(
    table: StateTable, domains: Sequence[Domain], count: int, rng: np.random.Generator
) -> Intervals:
    """Return random intervals, most of them about as long as domains need."""
    most = max(state.target_residency_ns for each in domains for state in each.rule.states)
    length = (most * rng.uniform(0.05, 4.0, count)).astype(np.int64)
    gap = (most * rng.uniform(0.0, 0.3, count)).astype(np.int64) + 1
    start = np.cumsum(gap) + np.concatenate([[0], np.cumsum(length[:-1])])
    return intervals_of(table, start, length, np.full(count, 2**40), np.zeros(count, np.int64))


def judge_oracle(
    domains: Sequence[Domain], table: StateTable, rng: np.random.Generator
) -> tuple[bool, bool]:
    """Return whether the oracle differs from brute force, and whether agreeing saves energy."""
    count = max(1, int(np.log(CHOICES) / np.log(table.count)) // 2)
    first = next(domain for domain in domains if len(domain.cpus) > 1)
    given: Mapping[int, Intervals] = {
        cpu: intervals(table, domains, count, rng) for cpu in first.cpus[:2]
    }
    known = [domain for domain in domains if set(domain.cpus) >= set(given)]
    found, least = joint(known, given), brute(known, dict(given))
    differs = not found.is_exact or abs(found.cost_pj - least) > SAME * least
    return differs, found.own_pj > found.cost_pj * (1 + SAME)


def judge(tree: str, rounds: int, seed: int) -> Judged:
    """Compare both on a tree."""
    rules, lists = domain_files.read(tree)
    table = table_for(tree, rules)
    few_rules, few_table = small(rules, table)
    # The oracle's machine has no domain without CPUs of its own, but for those of a list.
    few = CPUS if lists else CPUS // 2
    domains = grow(rules, range(few), dict.fromkeys(range(few), table), lists)
    scaled = grow(few_rules, range(CPUS), dict.fromkeys(range(CPUS), few_table), lists)
    result = Judged()
    for number in range(rounds):
        rng = np.random.default_rng([seed, number])
        many, differ, sleeps = judge_account(scaled, table.count, rng)
        result.accounts = (result.accounts[0] + many, result.accounts[1] + differ)
        result.sleeps += sleeps
        differs, gained = judge_oracle(domains, table, rng)
        result.oracles = (result.oracles[0] + 1, result.oracles[1] + differs)
        result.gained += gained
    return result


def run(args: argparse.Namespace) -> int:
    """Judge each tree, print the verdicts; return the exit code."""
    found = {}
    for tree in domain_files.names():
        one = found[tree] = judge(tree, args.rounds, args.seed)
        if not args.json:
            print(
                f"{tree}: {one.accounts[1]} of {one.accounts[0]} accounts differ ({one.sleeps} "
                f"sleeps), {one.oracles[1]} of {one.oracles[0]} oracles (agreeing saves in "
                f"{one.gained})",
                flush=True,
            )
    if args.json:
        print(json.dumps({tree: vars(one) for tree, one in found.items()}, indent=2))
    return 0 if all(one.is_exact for one in found.values()) else FAILURE


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    proofs.shared(parser, seed=1, json=False)
    parser.add_argument("--rounds", type=int, default=10, help="of each tree (default: 10)")
