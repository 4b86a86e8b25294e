# SPDX-License-Identifier: GPL-2.0
"""Trees of domains as the emulator's parameter `domains` takes them (emul/tree.c)."""

from collections.abc import Sequence

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.lab.session import EXIT_MOST_US, NAME, TARGET_MOST_US
from cpuidle_lab.recording import domain_trees
from cpuidle_lab.states.domains import ALL, KERNEL, DomainState, Rule

# As the emulator's source has them (emul/domains.h).
STATES_MOST, POWER_MOST_MW = 8, 10_000_000
# Of the parameter, as the kernel takes it.
TEXT_MOST = 1024


def _fault(state: DomainState) -> str:
    """Return why the emulator refuses a state, "" if it does not."""
    times = (state.entry_latency_ns, state.exit_latency_ns, state.target_residency_ns)
    faults = (
        (not NAME.fullmatch(state.name), "its name is not 1 to 15 letters, digits, _ . -"),
        (not all(map(NAME.fullmatch, state.needs)), "it needs a state of another kind of name"),
        (any(ns % 1000 for ns in times), "the emulator counts whole us"),
        (max(times[:2]) > EXIT_MOST_US * 1000, f"its latencies are above {EXIT_MOST_US} us"),
        (times[2] > TARGET_MOST_US * 1000, f"its target residency is above {TARGET_MOST_US} us"),
    )  # fmt: skip
    return next((text for is_so, text in faults if is_so), "")


def _power(uw: int, spec: str, name: str) -> int:
    if uw % 1000 or uw > POWER_MOST_MW * 1000:
        raise UserError(
            f"{spec} cannot be emulated: {name}: its power is not in whole mW up to "
            f"{POWER_MOST_MW}",
            USAGE,
        )
    return uw // 1000


def _rule(rule: Rule, spec: str) -> str:
    if not NAME.fullmatch(rule.name) or len(rule.states) > STATES_MOST:
        raise UserError(
            f"{spec} cannot be emulated: '{rule.name}' has more than {STATES_MOST} states, or a "
            "name that is not 1 to 15 letters, digits, '_', '.' or '-'",
            USAGE,
        )
    decides = KERNEL if rule.decides == KERNEL else "demotes" if rule.demotes else rule.decides
    cpus = rule.cpus if rule.cpus == ALL else rule.cpus.replace(" ", "")
    told = [f"{rule.name}@{cpus}:{_power(rule.power_uw, spec, rule.name)}:{decides}"]
    for state in rule.states:
        if fault := _fault(state):
            raise UserError(f"{spec} cannot be emulated: {state.name}: {fault}", USAGE)
        times = (state.entry_latency_ns, state.exit_latency_ns, state.target_residency_ns)
        numbers = [*(ns // 1000 for ns in times), _power(state.power_uw, spec, state.name)]
        told.append(f"{state.name}:{':'.join(map(str, numbers))}:{'~'.join(state.needs)}")
    return "/".join(told)


def emulated_rules(rules: Sequence[Rule], spec: str) -> str:
    """Return the emulator's parameter for rules of domains.

    Args:
        rules: of a machine.
        spec: its name, for messages.

    Raises:
        UserError: they cannot be emulated.
    """
    text = "+".join(_rule(rule, spec) for rule in rules)
    if len(text) > TEXT_MOST:
        raise UserError(
            f"{spec} cannot be emulated: its domains take more than {TEXT_MOST} characters", USAGE
        )
    return f"domains={text}"


def emulated_domains(spec: str) -> str:
    """Return the emulator's parameter for a tree by any name that domain_trees.read() takes.

    Raises:
        UserError: there is no such tree, or it cannot be emulated.
    """
    return emulated_rules(domain_trees.read(spec)[0], spec)
