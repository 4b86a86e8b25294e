# SPDX-License-Identifier: GPL-2.0
"""The figures of domains as JSON; times in ns, powers in mW, energies in pJ."""

from dataclasses import asdict

from cpuidle_lab.domains.observed import Observed, Part, Slept
from cpuidle_lab.states.domains import UP


def _slept(slept: Slept) -> dict[str, object]:
    found, domain = slept.account, slept.account.domain
    head: dict[str, object] = {"cpus": list(found.cpus), "span_ns": slept.span_ns}
    if slept.broken:
        return head | {"broken": slept.broken}
    names = [UP, *(state.name for state in domain.rule.states)]
    sleeps = [int((found.level == k).sum()) for k in range(len(names))]
    levels = zip(names, found.level_ns().tolist(), sleeps, domain.costs.power_mw, strict=True)
    return head | {
        "could_ns": slept.could_ns,
        "allowed_ns": slept.allowed_ns,
        "paid_ns": slept.paid_ns,
        "energy_pj": found.energy_pj(),
        "levels": [
            {"name": name, "time_ns": time, "sleeps": count if k else None, "power_mw": power}
            for k, (name, time, count, power) in enumerate(levels)
        ],
        "kept_awake": [asdict(share) for share in slept.shares],
        "broken": [],
    }


def _part(part: Part) -> dict[str, object]:
    return {
        "governor": part.governor,
        "workload": part.workload,
        "first_ns": part.first_ns,
        "last_ns": part.last_ns,
        "domains": {name: _slept(slept) for name, slept in part.domains.items()},
    }


def as_json(found: Observed) -> dict[str, object]:
    """Return everything."""
    return {
        "trace": str(found.path),
        "domains": [
            {"name": domain.name, "cpus": list(domain.cpus), "decides": domain.rule.decides,
             "demotes": domain.rule.demotes, "source": domain.rule.source}
            for domain in found.tree
        ],
        "is_bound": bool(found.missing),
        "cpus_missing": found.missing,
        "phases": [_part(part) for part in found.parts],
        "notes": found.notes,
    }  # fmt: skip
