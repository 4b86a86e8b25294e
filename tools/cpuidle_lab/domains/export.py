# SPDX-License-Identifier: GPL-2.0
"""The figures of domains as JSON; times in ns, powers in mW, energies in pJ."""

from dataclasses import asdict

from cpuidle_lab.domains.observed import Observed, Part, Slept
from cpuidle_lab.domains.replayed import Replayed, Row
from cpuidle_lab.states.domains import UP, Domain


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


def _domain(domain: Domain) -> dict[str, object]:
    rule = domain.rule
    return {"name": domain.name, "cpus": list(domain.cpus), "decides": rule.decides,
            "demotes": rule.demotes, "source": rule.source}  # fmt: skip


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
        "domains": [_domain(domain) for domain in found.tree],
        "is_bound": bool(found.missing),
        "cpus_missing": found.missing,
        "phases": [_part(part) for part in found.parts],
        "notes": found.notes,
    }


def _row(found: Replayed, row: Row) -> dict[str, object]:
    regret, own, neighbours = found.regret(row) or (None, None, None)
    head: dict[str, object] = {
        "label": row.label, "regret": regret, "own_error": own, "neighbours": neighbours,
    }  # fmt: skip
    if found.broken or row.untimed:
        return head
    return head | {
        "cpus_pj": row.cpus_pj,
        "domains_pj": row.domains_pj,
        "deep_percent": {name: row.deep_percent(name) for name in row.accounts},
        "added_latency_us": {
            name: row.latency_us(share) for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1))
        },
    }


def of_governors(found: Replayed) -> dict[str, object]:
    """Return everything of a replay of governors."""
    return {
        "trace": str(found.source.path),
        "domains": [_domain(domain) for domain in found.tree],
        "cpus_missing": found.missing,
        "governors": [_row(found, row) for row in found.rows],
        "joint_oracle": {"cost_pj": found.joint.cost_pj, "is_exact": found.joint.is_exact},
        "broken": found.broken,
        "notes": found.notes,
    }
