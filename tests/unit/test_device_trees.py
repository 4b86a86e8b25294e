# SPDX-License-Identifier: GPL-2.0
"""Domains of CPUs in device trees."""

import json
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.domains import observed
from cpuidle_lab.states import device_trees, domain_files, kernel_tables
from cpuidle_lab.states.domains import KERNEL, grow
from cpuidle_lab.states.kernel_tables import Tables
from cpuidle_lab.states.linux_source import NEWEST
from cpuidle_lab.states.table import StateTable
from tests.unit.test_domains import recording

SOURCE = """
#include <dt-bindings/x.h>
/ {
	cpus { /* cpu@9 { */
		#address-cells = <2>;
		cpu0: cpu@0 { power-domains = <&pd0>, <&scmi 0>; l2: l2-cache { compatible = "ca{che"; }; };
		cpu1: cpu@100 { power-domains = <&scmi 0>, <&pd1>; };
		cpu2: cpu@200 { power-domains = <&pd2>; };
		cpu3: cpu@300 { power-domains = <&pd3>; };
		domain-idle-states {
			ret: cluster-ret { entry-latency-us = <100>; exit-latency-us = <200>;
				min-residency-us = <0x3e8>; };
			off: cluster-off { entry-latency-us = <300>; exit-latency-us = <400>;
				min-residency-us = <5000>; idle-state-name = "a-long-name-of-a-state"; };
			all: all-off { entry-latency-us = <500>; exit-latency-us = <600>;
				min-residency-us = <9000>; };
		};
		idle-states {
			light: light { idle-state-name = "light"; };
			deep: cpu-deep { idle-state-name = "C6"; };
		};
	};
	psci {
		pd0: power-domain-cpu0 { power-domains = <&c0>; domain-idle-states = <&light &deep>; };
		pd1: power-domain-cpu1 { power-domains = <&c0>; domain-idle-states = <&light &deep>; };
		pd2: power-domain-cpu2 { power-domains = <&c1>; domain-idle-states = <&deep>; };
		pd3: power-domain-cpu3 { power-domains = <&c1>; domain-idle-states = <&deep>; };
		c0: cluster0 { power-domains = <&between>; domain-idle-states = <&ret>, <&off>; };
		c1: cluster1 { power-domains = <&between>; domain-idle-states = <&ret>, <&off>; };
		between: between { power-domains = <&system>; };
		system: system { domain-idle-states = <&all>; };
	};
};
"""


def test_domains_of_cpus_are_read() -> None:
    found = device_trees.read(SOURCE, "here")
    assert [(rule.name, cpus) for rule, cpus in found] == [
        ("c0", (0, 1)), ("c1", (2, 3)), ("system", (0, 1, 2, 3)),
    ]  # fmt: skip
    c0, _, system = (rule for rule, _ in found)
    assert c0.decides == KERNEL and c0.source == "here"
    ret, off = c0.states
    assert (ret.name, ret.entry_latency_ns, ret.exit_latency_ns, ret.target_residency_ns) == (
        "cluster-ret", 100_000, 200_000, 1_000_000,
    )  # fmt: skip
    # Members must be in their deepest state, a domain in any; names are cut as in tables.
    assert off.name == "a-long-name-of-" and ret.needs == off.needs == ("C6", "cpu-deep")
    assert system.states[0].needs == ("cluster-ret",)
    told = json.loads(json.dumps(device_trees.as_json(found)))
    assert device_trees.of_json(told, "here") == found
    table = StateTable(("WFI", "light", "C6"), (1, 2, 3), (1, 5, 9), (0,) * 3, (False,) * 3, 1)
    grown = grow([rule for rule, _ in found], range(4), dict.fromkeys(range(4), table),
                 {rule.name: cpus for rule, cpus in found})  # fmt: skip
    assert grown[0].costs.derived and grown[2].asks == {"c0": (1,), "c1": (1,)}
    assert grown[2].needs == dict.fromkeys(range(4), (2,))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("exit-latency-us = <600>;", ""),
        ("exit-latency-us = <600>", "exit-latency-us = <LATE>"),
        ('idle-state-name = "light"', 'idle-state-name = "C6"'),
        ("psci {", "psci { } }"),
    ],
)
def test_what_cannot_be_told_gives_no_domains(old: str, new: str) -> None:
    assert old in SOURCE and not device_trees.read(SOURCE.replace(old, new), "")


def test_a_recording_has_the_domains_of_a_device_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    two = SOURCE.replace("cpu@200", "x").replace("cpu@300", "x")

    def fetch(version: str) -> Tables:
        asked.append(version)
        return Tables("7.3.4-1", {}, {"soc": device_trees.read(two, "a device tree")})

    monkeypatch.setattr(kernel_tables, "fetch", fetch)
    found = observed.observe(recording(tmp_path), "dts:soc")
    assert [domain.name for domain in found.tree] == ["c0", "system"]
    assert "figures of c0: a device tree" in found.notes and not found.broken
    with pytest.raises(UserError, match=r"'sok' has no domains .*; did you mean 'soc'?"):
        domain_files.read("dts:sok@6.12")
    assert asked == [NEWEST, "6.12"]
