# SPDX-License-Identifier: GPL-2.0
"""Domains from the idle states that ACPI _LPI tells, of a dump and of the running machine."""

from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.domains.observed import tree_of
from cpuidle_lab.host.sysfs import ROOT_VARIABLE
from cpuidle_lab.recording import domain_trees, state_tables

# Two clusters of two CPUs, in a package: description, exit latency and target residency.
STATES = (("wfi", 1, 1), ("core", 40, 100), ("core+cluster", 190, 500),
          ("core+cluster+system", 800, 5000))  # fmt: skip
CPUS = "sys/devices/system/cpu"

States = tuple[tuple[str, int, int], ...]


def files(states: States = STATES, cluster: str = "") -> dict[str, str]:
    """Return the files of a machine; `cluster`: that of each CPU, else there are two of them."""
    found = {}
    for cpu in range(4):
        folder = f"{CPUS}/cpu{cpu}"
        found[f"{folder}/topology/physical_package_id"] = "0"
        found[f"{folder}/topology/cluster_id"] = cluster or str(54 + 100 * (cpu // 2))
        for k, (desc, leave, target) in enumerate(states):
            told = {"name": f"LPI-{k}", "desc": desc, "latency": leave, "residency": target,
                    "usage": 1, "time": 1, "disable": 0, "power": 0}  # fmt: skip
            found |= {f"{folder}/cpuidle/state{k}/{key}": str(v) for key, v in told.items()}
    return found


def dump(folder: Path, told: dict[str, str]) -> str:
    """Write what `grep . FILES` prints; return the name of its tree."""
    path = folder / "machine.txt"
    path.write_text("".join(f"/{name}:{text}\n" for name, text in told.items()))
    return f"lpi:{path}"


def test_containers_become_domains(tmp_path: Path) -> None:
    spec = dump(tmp_path, files())
    rules, cpus = domain_trees.read(spec)
    assert list(cpus.values()) == [(0, 1), (2, 3), (0, 1, 2, 3)]
    (cluster, both), _, (system,) = (rule.states for rule in rules)
    assert (cluster.name, cluster.needs) == ("cluster", ("LPI-2",))
    assert (cluster.exit_latency_ns, cluster.target_residency_ns) == (150_000, 500_000)
    assert (both.name, both.needs, both.exit_latency_ns) == ("cluster+system", ("LPI-3",), 150_000)
    assert (system.name, system.needs) == ("system", ("cluster+system",))
    assert (system.exit_latency_ns, system.target_residency_ns) == (610_000, 5_000_000)
    assert {rule.decides for rule in rules} == {"hardware"}
    assert "ACPI _LPI of" in rules[0].source
    # They grow over the idle states of the same dump.
    tables = {each.first: each.table for each in state_tables.told(spec.removeprefix("lpi:"))}
    table = tables[0]
    tree = tree_of(spec, dict.fromkeys(range(4), table), 4, tmp_path)
    assert [domain.needs[0] for domain in tree if 0 in domain.cpus] == [
        (2, 3),
        (3,),
    ]


def test_the_running_machine_is_read_likewise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    rules, cpus = domain_trees.read("lpi:this")
    assert list(cpus.values()) == [(0, 1), (2, 3), (0, 1, 2, 3)]
    assert rules[0].source.startswith("latencies and target residencies: ACPI _LPI of this machine")


# A kernel that knows no clusters; states that exist only together with those around them.
def test_without_clusters_the_container_is_the_package(tmp_path: Path) -> None:
    spec = dump(tmp_path, files(STATES[:3], cluster="-1"))
    assert list(domain_trees.read(spec)[1].values()) == [(0, 1, 2, 3)]


def test_latencies_that_no_state_divides_are_the_inner_containers(tmp_path: Path) -> None:
    rules, _ = domain_trees.read(dump(tmp_path, files((STATES[0], STATES[3]))))
    assert [rule.states[0].exit_latency_ns for rule in rules] == [799_000, 799_000, 0]
    assert {rule.states[0].target_residency_ns for rule in rules} == {5_000_000}


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (files(STATES[:2]), "no idle state tells a domain"),
        (files() | {f"{CPUS}/cpu1/cpuidle/state2/latency": "191"},
         "CPU 1 has other idle states than CPU 0 of the same container"),
        (files((*STATES[:3], ("core+retention", 250, 400))),
         "retention pays earlier than the shallower cluster"),
        # The kernel keeps 31 letters, so a longer one is that of a shallower state.
        (files((STATES[0], ("cpu-power-down+cluster-power-do", 900, 5000))),
         "the kernel cut the description of LPI-1"),
        (files((STATES[0], ("+", 900, 5000))), "no idle state tells a domain"),
    ],
)  # fmt: skip
def test_what_tells_no_tree_is_refused(tmp_path: Path, told: dict[str, str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        domain_trees.read(dump(tmp_path, told))


def test_a_file_that_is_no_dump_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("nothing\n")
    with pytest.raises(UserError, match="is no dump of idle states"):
        domain_trees.read(f"lpi:{tmp_path / 'x'}")
    with pytest.raises(UserError, match="nowhere: no such file"):
        domain_trees.read("lpi:nowhere")
